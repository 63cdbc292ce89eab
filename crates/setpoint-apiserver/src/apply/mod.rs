//! Server-side apply: who owns which fields of an object, and what an applied configuration makes of it.
//!
//! All of it is pure, and knows objects only through their [`Type`](crate::schema::Type): which lists are told apart by
//! keys, which are sets, and what counts as one value. The rules are those of Kubernetes, down to what they do not do
//! (a field that is removed by an update is remembered by nobody).

mod compare;
mod extract;
mod field_set;
mod last_applied;
mod managers;
mod merge;
mod ownership;
mod path_element;
mod remove;
mod scale;
#[cfg(test)]
mod tests;
mod view;

pub use compare::{Comparison, compare};
pub use extract::{Fault, applied_fields, fields};
pub use field_set::{FieldSet, Path};
pub use last_applied::{keep_last_applied, without_conflicts_of_last_applied};
pub use managers::{Entry, FieldsType, Managers, Operation, is_reset};
pub use merge::merge;
pub use ownership::{Applied, Conflict, Ignored, Refusal, Subject, Writer, apply, update};
pub use path_element::{PathElement, same};
pub use remove::{prune, remove};
pub use scale::{from_scale, to_scale};
