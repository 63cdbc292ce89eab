//! The simulated place on its own.
