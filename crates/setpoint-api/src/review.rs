//! `Review`: one person's verdict on a gate.
