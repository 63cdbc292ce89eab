//! The Kubernetes API over a Setpoint store.

pub mod field;
pub mod kind;
pub mod names;
pub mod openapi;
pub mod patch;
pub mod quantity;
pub mod schema;
pub mod schema_facts;
