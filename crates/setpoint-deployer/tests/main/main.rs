//! Proofs with real processes: what somebody on the machine would notice.

#![expect(clippy::print_stdout, reason = "what a test prints is shown when it fails")]

mod instance;
mod shim;
mod shim_probes;
