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
pub mod service;
pub mod service_account;
mod shown;
