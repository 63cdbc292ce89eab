//! Who did what, and who was refused: a line for each, in the shape of Kubernetes' audit events.
//!
//! Every request that could change something is written down, and every one that was refused: not let in, not allowed, or
//! too many. Bodies are not, neither in nor out, so no object's content is ever in the log. Of strangers a
//! bounded amount is written down: they are many, and must not push out the rest. What our own controllers and nodes write
//! all the time, to say how things are, is left out unless it is asked for.
//!
//! Who approved and who did what is kept for longer, in a log of its own: [`decisions`].

pub mod decisions;
mod event;
mod file;
mod log;
mod strangers;

pub use decisions::Decisions;
pub use event::{AUDIT_ID, Object, Outcome, RefusedReview, Request};
pub use file::{File, Rotation};
pub use log::Log;
