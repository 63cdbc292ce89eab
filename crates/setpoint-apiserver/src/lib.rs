//! The Kubernetes API over a Setpoint store.

pub mod columns;
pub mod field;
pub mod ip;
pub mod json_syntax;
pub mod kind;
pub mod kinds;
pub mod labels;
pub mod names;
pub mod object_meta;
pub mod selector;
pub mod service_ip;
