//! The contract between Setpoint and what runs things.
