//! What all controllers share.
//!
//! | module | what it does |
//! | --- | --- |
//! | [`cache`], [`caches`] | the objects of each kind, once for all who read them, with indexes |
//! | [`feed`] | keeps the caches in step with the server |
//! | [`controller`] | what a controller is |
//! | [`runner`] | drives a controller: its queue, and what each key has yet to see |
//! | [`round`] | one round of work: its time, and what it wrote and has yet to see |
//! | [`name`], [`clock`] | how an object is called; what time it is |

pub mod cache;
pub mod caches;
pub mod clock;
pub mod controller;
pub mod feed;
pub mod name;
pub mod round;
pub mod runner;

pub use cache::{Cache, Change, Follows, Index};
pub use caches::Caches;
pub use clock::Clock;
pub use controller::{Controller, Error, Next};
pub use name::Name;
pub use round::Round;
pub use runner::Runner;
