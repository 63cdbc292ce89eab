//! The store in memory.

use crate::subjects::Memory;

setpoint_store::conformance!(Memory);
