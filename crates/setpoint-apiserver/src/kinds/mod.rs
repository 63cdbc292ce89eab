//! The kinds this server knows by itself, one file each.

pub mod config_map;
mod defaults;
pub mod lease;
pub mod namespace;
pub mod scale;
pub mod secret;
pub mod service_account;
