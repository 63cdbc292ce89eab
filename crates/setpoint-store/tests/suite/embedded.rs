//! The store in a folder.

use crate::subjects::Embedded;

setpoint_store::conformance!(durable Embedded::new());
