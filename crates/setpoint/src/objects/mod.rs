//! Objects as files say them: what the server would store, what differs, which belong together, and writing just that.

mod apply_set;
mod change;
mod draft;
mod leaving;
mod selection;

pub(crate) use self::apply_set::{ApplySet, Extent};
pub(crate) use self::change::{FieldEdit, MACHINE, ObjectAction, ObjectChange, substance};
pub(crate) use self::draft::{Draft, GROUND, Removal, Request, Write, draft, removals};
pub(crate) use self::selection::Selection;
