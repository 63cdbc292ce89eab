//! The contract between Setpoint and what runs things.
//!
//! A [`Provider`] runs instances, a [`Deployer`] runs revisions and divides traffic between them; both stand on their
//! traits as promises, and [`conformance`] proves them. A [`Driver`] makes them, and the [`Registry`] knows drivers by name
//! and version. Everybody reaches a provider through [`Guarded`] and a deployer through [`Checked`], where what is wrong with
//! a request is refused before anything is sent, and an answer comes in time. [`revisions`] makes a deployer of any provider
//! that runs Pods.

mod changes;
mod checked;
pub mod conformance;
pub mod deployer;
mod error;
mod guard;
mod order;
pub mod process;
pub mod provider;
mod read_only;
pub mod registry;
pub mod revisions;
mod seal;
pub mod session;
pub mod simulated;

pub use checked::Checked;
pub use deployer::Deployer;
pub use error::{Error, Fault, Operation, ProviderError, Result, Retry, SpecError};
pub use guard::{Deadlines, Guarded};
pub use provider::Provider;
pub use registry::{Driver, Registry};
