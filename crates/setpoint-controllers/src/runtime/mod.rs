//! What all controllers share.
//!
//! | module | what it does |
//! | --- | --- |
//! | [`cache`], [`caches`] | the objects of each kind, once for all who read them, with indexes |
//! | [`feed`] | keeps the caches in step with the server |
//! | [`controller`] | what a controller is |
//! | [`configuration`] | how it is driven, and with what |
//! | [`runner`] | drives a controller: its queue, and what each key has yet to see |
//! | [`driven`] | any of them, to be run or driven by hand |
//! | [`election`], [`fence`] | who of several leads; what keeps one that does no longer from writing |
//! | [`round`], [`report`] | one round of work: its time, what it wrote and has yet to see; what it came to |
//! | [`name`], [`clock`] | how an object is called; what time it is |

pub mod cache;
pub mod caches;
pub mod clock;
pub mod configuration;
pub mod controller;
pub mod driven;
pub mod election;
pub mod feed;
pub mod fence;
pub mod name;
pub mod report;
pub mod round;
pub mod runner;
#[cfg(test)]
mod tests;

pub use cache::{Cache, Change, Follows, Index};
pub use caches::Caches;
pub use clock::Clock;
pub use configuration::{Configuration, Context, Kinds};
pub use controller::{Controller, Error, Next};
pub use driven::Driven;
pub use election::Election;
pub use fence::Fence;
pub use name::Name;
pub use report::Report;
pub use round::Round;
pub use runner::Runner;
