//! What deployers promise, proven on the simulated one.

#![allow(clippy::unwrap_used, reason = "a test may fail loudly")]

mod schedules;
mod simulated;
