//! Proofs with real processes: what somebody on the machine would notice.

#![expect(clippy::print_stdout, reason = "what a test prints is shown when it fails")]

mod instance;
mod place;
mod provider;
mod provider_crashes;
mod provider_logs;
mod provider_sessions;
mod provider_volumes;
mod shim;
mod shim_probes;
mod suite;
