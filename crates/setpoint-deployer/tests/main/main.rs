//! What deployers promise, proven on the simulated one.

mod schedules;
mod simulated;
