//! Runs Pods as processes of this machine.

pub mod order;
