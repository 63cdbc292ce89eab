//! What is written on a Machine: its status and its finalizer, each on the version that was read.

use std::sync::Arc;
use std::time::Duration;

use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use setpoint_api::environment::Environment;
use setpoint_api::machine::{FINALIZER, Machine, MachineStatus};
use setpoint_core::machine::{SYNCED, Standing, condition};
use setpoint_core::pod::NoticeKind;

use super::Machines;
use crate::environment::status::not_opened;
use crate::ownership::unless_moved;
use crate::runtime::{Error, Next, Round};

/// How long to wait for an Environment that is not there, or does not answer.
const ABSENT: Duration = Duration::from_secs(30);

/// Whether a Machine has our finalizer.
pub(super) fn is_kept(machine: &Machine) -> bool {
    machine.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == FINALIZER)
}

/// Whether a Machine is being deleted that never had a guest, and for which none can be on its way.
fn is_free_to_go(machine: &Machine) -> bool {
    let status = machine.status.as_ref();
    let has_nothing = status.is_none_or(|status| status.provider_id.is_none() && status.intents.is_empty());
    machine.metadata.deletion_timestamp.is_some() && has_nothing
}

impl Machines {
    /// The Machine with our finalizer, which it is given if it has none; `None` if there is nothing to do for it now.
    pub(super) async fn kept(&self, machine: Arc<Machine>, round: &mut Round) -> Result<Option<Arc<Machine>>, Error> {
        let finalizers = machine.metadata.finalizers.clone().unwrap_or_default();
        match machine.metadata.deletion_timestamp.is_some() {
            _ if is_kept(&machine) => Ok(Some(machine)),
            true => Ok(None),
            false => {
                let kept = finalizers.into_iter().chain([FINALIZER.to_owned()]).collect();
                Ok(self.write_finalizers(&machine, kept, round).await?.map(Arc::new))
            }
        }
    }

    /// Lets a Machine go of which nothing is left.
    pub(super) async fn release(&self, machine: &Machine, round: &mut Round) -> Result<Next, Error> {
        let finalizers = machine.metadata.finalizers.iter().flatten();
        let kept = finalizers.filter(|finalizer| *finalizer != FINALIZER).cloned().collect();
        self.write_finalizers(machine, kept, round).await?;
        Ok(Next::Idle)
    }

    /// Without its Environment nobody can say what became of its guest; one that never had any can go.
    pub(super) async fn without_environment(&self, machine: &Machine, round: &mut Round) -> Result<Next, Error> {
        if is_free_to_go(machine) {
            return self.release(machine, round).await;
        }
        self.tell(machine, &Standing::without_environment(&machine.spec.environment), round).await?;
        Ok(Next::Idle)
    }

    /// What is known stays known until the place answers again; only what was never told is told. But where it cannot be
    /// opened nobody knows how anything is, and the Machine says so. One that never had a guest can go.
    pub(super) async fn before_opening(
        &self,
        machine: &Machine,
        environment: &Environment,
        round: &mut Round,
    ) -> Result<Next, Error> {
        if is_free_to_go(machine) {
            return self.release(machine, round).await;
        }
        if let Some(why) = not_opened(environment) {
            let why = format!("the Environment {} is not open: {why}", machine.spec.environment);
            let status = setpoint_core::machine::unseen(machine, &why, round.now);
            self.write_status(machine, status, round).await?;
            return Ok(Next::After(ABSENT));
        }
        let is_told = machine.status.as_ref().is_some_and(|status| condition(status, SYNCED).is_some());
        let is_new =
            machine.status.as_ref().and_then(|status| status.observed_generation) != machine.metadata.generation;
        if !is_told || is_new {
            let name = &machine.spec.environment;
            let standing = Standing::unobserved(format!("the Environment {name} is not open yet"));
            self.tell(machine, &standing, round).await?;
        }
        Ok(Next::After(ABSENT))
    }

    /// Says how a Machine stands, and nothing else. False if it moved meanwhile.
    pub(super) async fn tell(&self, machine: &Machine, standing: &Standing, round: &mut Round) -> Result<bool, Error> {
        let status = setpoint_core::machine::stood(machine, standing, round.now);
        Ok(self.write_status(machine, status, round).await?.is_some())
    }

    /// Writes the status if it says something new; gives back the Machine as it is then. `None` if it moved meanwhile.
    pub(super) async fn write_status(
        &self,
        machine: &Machine,
        status: MachineStatus,
        round: &mut Round,
    ) -> Result<Option<Machine>, Error> {
        if machine.status.as_ref() == Some(&status) {
            return Ok(Some(machine.clone()));
        }
        self.announce(machine, &status);
        let wanted = Machine { status: Some(status), ..machine.clone() };
        let name = machine.metadata.name.as_deref().unwrap_or_default();
        let written = unless_moved(self.api(machine).replace_status(name, &PostParams::default(), &wanted).await)?;
        Ok(written.map(|written| self.noted(written, round)))
    }

    /// Tells people of a Machine that waits, is refused, or cannot be brought on, once for each reason.
    fn announce(&self, machine: &Machine, status: &MachineStatus) {
        let before = machine.status.as_ref().and_then(|status| condition(status, SYNCED));
        let Some(after) = condition(status, SYNCED) else { return };
        let words =
            |condition: &setpoint_api::condition::Condition| (condition.reason.clone(), condition.message.clone());
        if before.map(words) == Some(words(after)) {
            return;
        }
        let (reason, message) =
            (after.reason.as_deref().unwrap_or_default(), after.message.as_deref().unwrap_or_default());
        if setpoint_core::machine::concerns_people(reason) {
            self.recorder.say(machine, NoticeKind::Warning, reason, message);
        }
    }

    async fn write_finalizers(
        &self,
        machine: &Machine,
        kept: Vec<String>,
        round: &mut Round,
    ) -> Result<Option<Machine>, Error> {
        let meta = &machine.metadata;
        let is_last = meta.deletion_timestamp.is_some() && kept.is_empty();
        let only = json!({"resourceVersion": meta.resource_version, "uid": meta.uid, "finalizers": kept});
        let patch = Patch::Merge(json!({"metadata": only}));
        let name = meta.name.as_deref().unwrap_or_default();
        let written = unless_moved(self.api(machine).patch(name, &PatchParams::default(), &patch).await)?;
        // With the last of them it is gone.
        if is_last && written.is_some() {
            round.removed(&self.caches.machines, machine);
            return Ok(None);
        }
        Ok(written.map(|written| self.noted(written, round)))
    }

    fn noted(&self, mut written: Machine, round: &mut Round) -> Machine {
        written.metadata.managed_fields = None;
        round.wrote(&self.caches.machines, &written);
        written
    }

    fn api(&self, machine: &Machine) -> Api<Machine> {
        Api::namespaced(self.client.clone(), machine.metadata.namespace.as_deref().unwrap_or_default())
    }
}
