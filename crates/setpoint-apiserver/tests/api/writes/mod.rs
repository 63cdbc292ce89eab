//! What becomes of what is written.

mod configuration;
mod creation;
mod deletion;
mod field_validation;
mod namespaces;
mod patches;
mod pods;
mod scale;
mod services;
mod updates;
