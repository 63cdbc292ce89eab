//! A simulated place: tens of thousands of instances that run nothing, and every way in which a provider can misbehave.
//!
//! It is for scale tests, demonstrations and proofs: it is slow, fails before, half-way and after, loses answers, shows
//! things late or in part, runs out of stock, throttles, drifts and dies, as its [`Program`] says. It is deterministic:
//! its only clock is tokio's, so that paused time works, all chance comes from the program's seed, and ids come from a
//! counter. The same calls in the same order give the same [`RequestLog`].
//!
//! | module | what it holds |
//! | --- | --- |
//! | `program` | how the place behaves: every knob |
//! | `place` | the place itself: its clock, its network, its dice |
//! | `cloud`, `instance`, `pod` | what there is, and what each request does to it: no clock, no network |
//! | `platform` | revisions and splits, for a platform that has them itself |
//! | `fate`, `drift` | what goes wrong with a request, and what happens behind our back |
//! | `request` | what is asked, and the log of all that reached the place: the outside witness |
//! | `blueprint`, `fields` | an order as it is read and kept |
//! | `resident`, `records` | guests that somebody else made; the files of a place that outlives the process |
//! | `news` | who tells of what happens, when it does |
//! | `client`, `logs` | the provider and the deployer that a control plane sees |
//! | `driver`, `subject` | how it is registered, and how the conformance suite meets it |
//!
//! What it does not do: it runs nothing, so there is no exec, no network and no use of anything; probes are not asked (a
//! container is ready after `readyMs`); logs are a few lines that follow from the state; init containers do not wait for
//! each other; volumes are a field and hold nothing; ids cannot be chosen; and unless it is `durable` it lives in memory, so
//! that it is empty when the process starts again.

mod blueprint;
mod client;
mod cloud;
mod drift;
mod driver;
mod fate;
mod fields;
mod instance;
mod logs;
mod news;
mod place;
mod platform;
mod pod;
mod program;
mod records;
mod request;
mod resident;
mod subject;

pub use blueprint::{EXIT_AFTER_MS, EXIT_CODE, READY, SAYS, STOP_MS};
pub use client::Simulated;
pub use driver::SimulatedDriver;
pub use fate::Fate;
pub use place::Place;
pub use program::{DriftKind, Outage, Program};
pub use request::{Effect, Entry, RequestLog};
pub use resident::Resident;
pub use subject::SimulatedSubject;

/// What environments call it.
pub const NAME: &str = "simulated";
