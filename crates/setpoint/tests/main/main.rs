//! Proofs against the real binary: what a user of the server would notice.

mod crash;
mod fuzz;
mod kubectl;

/// The binary under test.
const SETPOINT: &str = env!("CARGO_BIN_EXE_setpoint");
