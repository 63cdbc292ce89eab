//! The queries by which a client chooses objects: by label and by field.

pub mod field;
pub mod label;
