//! The kinds this server knows by itself: one file each, and what several of them share.

pub mod config_map;
pub mod controller_revision;
pub mod custom_resource_definition;
mod defaults;
pub mod deployment;
pub mod endpoint_slice;
pub mod endpoints;
pub mod event;
#[cfg(test)]
mod hostile_tests;
mod immutable;
pub mod job;
mod job_policy;
mod job_status;
pub mod lease;
mod lookup;
pub mod namespace;
pub mod node;
pub mod pod;
pub mod pod_binding;
mod pod_columns;
pub mod pod_priority;
mod pod_spec;
mod pod_status;
mod pod_template;
mod pod_update;
pub mod replica_set;
pub mod scale;
pub mod secret;
pub mod service;
pub mod service_account;
mod shown;
