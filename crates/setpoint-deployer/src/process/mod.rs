//! Runs Pods as processes of this machine.
//!
//! Each Pod is an instance with a folder of its own, and a shim: a small process that runs its containers and outlives the
//! control plane. The two talk only through files in the folder, so neither has to find the other again. [`provider`] is
//! the control plane's side; `verbs` is what it does, `instances` what it knows.

mod attach;
mod beneath;
mod capabilities;
pub mod cgroup;
pub mod descriptors;
pub mod driver;
mod exec;
mod files;
mod folder;
mod host_path;
mod index;
mod inspection;
mod instances;
pub mod launch;
mod leftovers;
mod lock;
mod logs;
pub mod order;
mod order_file;
mod ownership;
mod ports;
mod privileges;
mod probe;
pub mod process_table;
pub mod provider;
mod read_only;
mod readiness;
pub mod record;
mod revival;
pub mod shim;
mod shim_process;
mod sight;
mod subject;
mod system_calls;
mod termination_log;
mod turns;
mod verbs;

pub use driver::ProcessDriver;
pub use provider::{ProcessProvider, Settings};

/// What environments call it.
pub const NAME: &str = "process";
