//! A step, as calls to a provider.

use std::time::Duration;

use jiff::SignedDuration;
use setpoint_api::machine::Intent;
use setpoint_api::step::{Action, Step};
use setpoint_core::desired::Desired;
use setpoint_core::diff::diff;
use setpoint_core::machine::Seen;
use setpoint_core::observation::Mark;
use setpoint_core::value::Fields;
use setpoint_deployer::provider::{Body, Order};
use setpoint_deployer::{Error, Fault, Operation, Provider};

use crate::runtime::Clock;

/// How long a guest is given to shut down.
const GRACE: Duration = Duration::from_secs(30);
/// How old a call may be when a guest is made by it: whoever leads after us may have given it up for lost by then.
const FRESH: SignedDuration = SignedDuration::from_secs(5);

/// What a step is taken with.
pub(super) struct Act<'a> {
    pub(super) provider: &'a dyn Provider,
    pub(super) desired: &'a Desired,
    pub(super) intent: &'a Intent,
    pub(super) seen: &'a Seen<'a>,
    pub(super) clock: Clock,
}

/// How sure it is that a step that failed had no effect.
#[derive(Debug)]
pub(super) enum Failed {
    Surely(Error),
    Perhaps(Error),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        if error.is_ambiguous() { Failed::Perhaps(error) } else { Failed::Surely(error) }
    }
}

impl Act<'_> {
    pub(super) async fn take(&self, step: &Step) -> Result<(), Failed> {
        let (provider, intent) = (self.provider, self.intent.id.as_str());
        let id = step.provider_id.as_deref().unwrap_or_default();
        match step.action {
            Action::Create => self.make().await,
            Action::Replace if step.create_first => {
                self.make().await?;
                provider.delete(intent, id).await.map_err(Failed::Perhaps)
            }
            Action::Replace => {
                provider.delete(intent, id).await?;
                self.make().await.map_err(Failed::in_part)
            }
            Action::Update | Action::Grow => self.write(step, id).await,
            Action::Start => Ok(provider.start(intent, id).await?),
            Action::Stop => Ok(provider.stop(intent, id, GRACE).await?),
            Action::Restart => {
                provider.stop(intent, id, GRACE).await?;
                provider.start(intent, id).await.map_err(Failed::Perhaps)
            }
            Action::Delete => Ok(provider.delete(intent, id).await?),
            Action::Adopt => {
                let mark = Mark { intent: None, spec_digest: None, ..self.mark() };
                Ok(provider.mark(intent, id, Some(&mark)).await?)
            }
            Action::Release => Ok(provider.mark(intent, id, None).await?),
        }
    }

    async fn make(&self) -> Result<(), Failed> {
        if self.clock.now().duration_since(self.intent.started_at) > FRESH {
            let late = "it took too long to write it down, and is tried again";
            let target = &self.desired.target.name;
            return Err(Failed::Perhaps(Error::provider(Operation::Create, target, Fault::Unreachable, late)));
        }
        let order = self.order(self.desired.fields.clone(), self.desired.provider_id.clone());
        self.provider.create(&order).await?;
        Ok(())
    }

    /// Writes the fields that the step names, and no others.
    async fn write(&self, step: &Step, id: &str) -> Result<(), Failed> {
        let Some(guest) = self.seen.observation.guests.iter().find(|guest| *guest.id == *id) else {
            let gone = Error::provider(Operation::Update, id, Fault::NotFound, "it was not seen");
            return Err(Failed::Surely(gone));
        };
        let diff = diff(self.desired, &guest.config, self.seen.capabilities);
        let takes = |path: &str| step.changes.iter().any(|change| change.field == path);
        let patch = diff.patch(&guest.config, |change| takes(&change.path()));
        Ok(self.provider.update(&self.intent.id, id, &self.order(patch, None)).await?)
    }

    fn order(&self, fields: Fields, provider_id: Option<Box<str>>) -> Order {
        let name = self.desired.target.name.clone();
        Order { mark: self.mark(), name, provider_id, body: Body::Machine(fields) }
    }

    fn mark(&self) -> Mark {
        Mark {
            cluster: self.seen.cluster.into(),
            owner_uid: self.desired.uid.clone(),
            intent: Some(self.intent.id.as_str().into()),
            spec_digest: Some(self.desired.spec_digest(self.seen.key).into()),
        }
    }
}

impl Failed {
    /// Something else was done before.
    fn in_part(self) -> Failed {
        match self {
            Failed::Surely(error) | Failed::Perhaps(error) => Failed::Perhaps(error),
        }
    }
}
