//! Custom resources: kinds that clients define.
//!
//! A [`definition`] is read into resources like the built-in ones: a [`structure`] for each schema, which [`prune`],
//! [`default`], [`validate`] and [`embedded`] walk, and a [`kind`] for each version, which is the behaviour of its objects.
//! [`definitions`] keeps what is served in step with the definitions that are stored, and [`past`] finds what was served
//! earlier; all else is pure.

pub mod default;
pub mod definition;
pub mod definitions;
pub mod embedded;
pub mod format;
pub mod json_path;
pub mod kind;
pub mod names;
mod number;
mod past;
pub mod prune;
pub mod scale;
pub mod structure;
pub mod table;
#[cfg(test)]
mod tests;
pub mod validate;

pub use definitions::Definitions;
pub use kind::CustomKind;
pub use past::resource_at;
