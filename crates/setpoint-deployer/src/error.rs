//! What can go wrong between us and a provider, and what to do then.
//!
//! What is wrong with a request is found before anything is sent, and is another kind of error than what a provider
//! answers: the first is for the writer of an object, the second for whoever runs the provider. Neither shows a secret.

use std::fmt;
use std::time::Duration;

use setpoint_core::lifecycle::LifecycleError;
use setpoint_core::split::SplitError;
use setpoint_core::value::Printable;
use thiserror::Error;

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Error {
    /// What was asked for cannot be. Nothing was sent to the provider.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The provider was called, and this came of it.
    #[error(transparent)]
    Provider(#[from] ProviderError),
}

/// What is wrong with a request.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SpecError {
    #[error("{target}: {field}: {message}")]
    Field { target: String, field: String, message: String },
    /// A volume that a Pod mounts is not there, or is something else.
    #[error("MountVolume.SetUp failed for volume {volume:?} : {message}")]
    Mount { volume: String, message: String },
    #[error("the deployer {deployer} cannot {ability}: choose an environment whose deployer can")]
    Unable { deployer: String, ability: String },
    #[error(transparent)]
    Split(#[from] SplitError),
    #[error(transparent)]
    Lifecycle(#[from] LifecycleError),
}

/// What a provider did with a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderError {
    pub operation: Operation,
    /// What the call was about: an instance's id, an object's name.
    pub target: String,
    pub fault: Fault,
    /// What the provider said, in its own words and without secrets.
    pub response: String,
}

/// The verbs of a provider and a deployer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    Observe,
    Create,
    Update,
    Start,
    Stop,
    Delete,
    Mark,
    Quote,
    Logs,
    Exec,
    Attach,
    Stage,
    Warm,
    Drain,
    Archive,
    ApplySplit,
    RuntimeConfig,
}

/// Why a call did not do what it should.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The provider was not reached: the call had no effect.
    Unreachable,
    /// The call was sent and no answer came: it may have had its effect.
    Unanswered,
    /// An answer came and could not be understood: the call may have had its effect.
    Garbled,
    /// The provider has no such instance.
    NotFound,
    /// The provider refuses it, and would again.
    Refused,
    /// Another call or a lock is in the way.
    Busy,
    /// The provider has nothing left of what was asked for.
    OutOfStock,
    /// Too many calls; the provider may say when to come again.
    Throttled { after: Option<Duration> },
    /// The provider failed by its own account: the call may have had its effect.
    Broken,
}

/// What to do after an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Again, each time later.
    BackOff,
    /// Again, but not before this long.
    After(Duration),
    /// Not again as it is: something has to be changed first.
    Never,
}

/// How long to wait for something that is out of stock.
const RESTOCKED: Duration = Duration::from_secs(60);

impl Error {
    pub fn provider(operation: Operation, target: &str, fault: Fault, response: impl Into<String>) -> Error {
        ProviderError { operation, target: target.to_owned(), fault, response: response.into() }.into()
    }

    pub fn field(target: &str, field: &str, message: impl Into<String>) -> Error {
        SpecError::Field { target: target.to_owned(), field: field.to_owned(), message: message.into() }.into()
    }

    pub fn retry(&self) -> Retry {
        let Error::Provider(error) = self else { return Retry::Never };
        match &error.fault {
            Fault::Refused | Fault::NotFound => Retry::Never,
            Fault::OutOfStock => Retry::After(RESTOCKED),
            Fault::Throttled { after: Some(after) } => Retry::After(*after),
            Fault::Unreachable
            | Fault::Unanswered
            | Fault::Garbled
            | Fault::Busy
            | Fault::Throttled { after: None }
            | Fault::Broken => Retry::BackOff,
        }
    }

    /// Whether the call may have had its effect all the same. Only an observation can tell.
    pub fn is_ambiguous(&self) -> bool {
        matches!(self, Error::Provider(error) if matches!(error.fault, Fault::Unanswered | Fault::Garbled | Fault::Broken))
    }

    pub fn is_not_found(&self) -> bool {
        matches!(self, Error::Provider(ProviderError { fault: Fault::NotFound, .. }))
    }
}

impl std::error::Error for ProviderError {}

/// `create of pod-7: the provider has nothing left of what was asked for: no RTX 4090 in EU-RO-1`.
impl fmt::Display for ProviderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ProviderError { operation, target, fault, response } = self;
        write!(f, "{operation} of {}: {fault}", Printable(target))?;
        if response.is_empty() { Ok(()) } else { write!(f, ": {}", Printable(response)) }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operation::Observe => "observation",
            Operation::Create => "create",
            Operation::Update => "update",
            Operation::Start => "start",
            Operation::Stop => "stop",
            Operation::Delete => "delete",
            Operation::Mark => "mark",
            Operation::Quote => "quote",
            Operation::Logs => "logs",
            Operation::Exec => "exec",
            Operation::Attach => "attach",
            Operation::Stage => "stage",
            Operation::Warm => "warm",
            Operation::Drain => "drain",
            Operation::Archive => "archive",
            Operation::ApplySplit => "split",
            Operation::RuntimeConfig => "runtime configuration",
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fault::Unreachable => "the provider cannot be reached",
            Fault::Unanswered => "no answer came in time, and it may have been done",
            Fault::Garbled => "the answer could not be understood, and it may have been done",
            Fault::NotFound => "there is no such instance",
            Fault::Refused => "the provider refuses it",
            Fault::Busy => "something else is under way there",
            Fault::OutOfStock => "the provider has nothing left of what was asked for",
            Fault::Throttled { .. } => "the provider asks us to slow down",
            Fault::Broken => "the provider failed, and it may have been done",
        })
    }
}
