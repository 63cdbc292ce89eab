//! `Machine`: a long-lived named guest with a power state.
