//! What deployers promise, proven on the simulated one and on real processes.

#![expect(clippy::print_stdout, reason = "what a test prints is shown when it fails")]
#![allow(clippy::unwrap_used, reason = "a test may fail loudly")]

mod instance;
mod place;
mod provider;
mod provider_crashes;
mod provider_logs;
mod provider_sessions;
mod provider_volumes;
mod schedules;
mod shim;
mod shim_probes;
mod simulated;
mod suite;
