//! The store's guarantees, for each implementation.

mod embedded;
mod memory;
mod model;
mod subjects;
