//! The controllers of Setpoint.
