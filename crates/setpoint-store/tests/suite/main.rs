//! The store's guarantees, for each implementation.

#![allow(clippy::unwrap_used)]

mod embedded;
mod memory;
mod model;
mod sealed;
mod subjects;
