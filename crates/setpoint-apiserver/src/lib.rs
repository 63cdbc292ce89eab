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
pub mod openapi;
pub mod patch;
pub mod quantity;
pub mod schema;
pub mod schema_facts;
pub mod selector;
