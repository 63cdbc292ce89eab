//! Runs Pods as processes of this machine.

pub mod cgroup;
pub mod launch;
pub mod order;
mod probe;
pub mod process_table;
pub mod record;
pub mod shim;
