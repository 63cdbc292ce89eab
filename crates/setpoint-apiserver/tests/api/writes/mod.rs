//! What becomes of what is written.

mod charts;
mod configuration;
mod creation;
mod deletion;
mod events;
mod field_validation;
mod namespaces;
mod patches;
mod pods;
mod protection;
mod scale;
mod secrets;
mod services;
mod strict_refusals;
mod updates;
mod warnings;
