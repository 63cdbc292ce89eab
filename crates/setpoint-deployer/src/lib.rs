//! The contract between Setpoint and what runs things.
//!
//! A [`Provider`] runs instances, a [`Deployer`] runs revisions and divides traffic between them; both stand on their
//! traits as promises. Everybody reaches a deployer through [`Checked`], where what is wrong with a request is refused
//! before anything is sent.

mod checked;
pub mod deployer;
mod error;
pub mod process;
pub mod provider;
pub mod session;

pub use checked::Checked;
pub use deployer::Deployer;
pub use error::{Error, Fault, Operation, ProviderError, Result, Retry, SpecError};
pub use provider::Provider;
