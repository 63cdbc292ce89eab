//! Following a collection.

mod crowds;
mod endings;
mod events;
mod forms;
mod initial_events;
