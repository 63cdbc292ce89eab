//! Proofs against the real binary: what a user of the server would notice.

mod crash;
mod fuzz;
mod kube_rs;
mod kubectl;
mod python;
mod tidy;
mod up;

/// The binary under test.
const SETPOINT: &str = env!("CARGO_BIN_EXE_setpoint");
