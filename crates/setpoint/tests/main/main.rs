//! Proofs against the real binary: what a user of the server would notice.

#![expect(clippy::print_stdout, reason = "what a test prints is shown when it fails")]

mod attacks;
mod commands;
mod conformance;
mod crash;
mod crds;
mod environments;
mod fuzz;
mod gates;
mod goals;
mod helm;
mod history;
mod hostile;
mod jobs;
mod kube_rs;
mod kubectl;
mod large_crds;
mod leadership;
mod machines;
mod node;
mod openapi;
mod people;
mod pods;
mod python;
mod secrecy;
mod secrets;
mod simulation;
mod survival;
mod tidy;
mod unreliable;
mod up;
mod workloads;

/// The binary under test.
const SETPOINT: &str = env!("CARGO_BIN_EXE_setpoint");
