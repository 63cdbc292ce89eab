//! What deployers promise, proven on the simulated one and on real processes.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail loudly, and what it prints is shown then"
)]

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
