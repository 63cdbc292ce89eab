//! The kinds this server knows by itself, one file each.

pub mod config_map;
mod defaults;
pub mod endpoint_slice;
pub mod endpoints;
pub mod event;
pub mod lease;
pub mod namespace;
pub mod node;
pub mod scale;
pub mod secret;
pub mod service_account;
mod shown;
//! The built-in kinds: one file each, and what several of them share.

pub mod controller_revision;
pub mod deployment;
pub mod immutable;
pub mod job;
pub mod job_policy;
pub mod job_status;
pub mod pod;
pub mod pod_binding;
pub mod pod_columns;
pub mod pod_priority;
pub mod pod_spec;
pub mod pod_status;
pub mod pod_template;
pub mod pod_update;
pub mod replica_set;
pub mod scale;
