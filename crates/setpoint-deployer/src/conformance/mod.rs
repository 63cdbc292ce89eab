//! What every provider and every deployer must pass: one function per guarantee of the contract.
//!
//! An implementation brings a [`Subject`]. A guarantee is judged by what is observed, and by a [`Witness`] that sees the
//! place from outside, never by what the implementation says of itself.

mod subject;

pub use subject::*;
