//! Carries out change sets in a model world and keeps the records, in the way of a controller.
//!
//! An intent is written down before each call. A call that was refused is forgotten again; any other stays on record
//! until an observation tells what became of it. What depends on a step that failed is not tried.

use std::collections::BTreeSet;

use setpoint_api::step::{Action, Step};
use setpoint_core::desired::{DeletionPolicy, Desired, Intent};
use setpoint_core::diff;
use setpoint_core::digest::Key;
use setpoint_core::intent::{self, Evidence, Settled};
use setpoint_core::observation::{Mark, Observation};
use setpoint_core::plan::{self, ChangeSet, Input, Policy};

use super::{Blueprint, Failure, World};

/// Who keeps a world as desired.
#[derive(Debug, Clone)]
pub struct Operator {
    pub cluster: &'static str,
    pub desired: Vec<Desired>,
    pub policy: Policy,
    pub key: Key,
    intents: u64,
}

impl Operator {
    pub fn new(cluster: &'static str, desired: Vec<Desired>, policy: Policy) -> Operator {
        Operator { cluster, desired, policy, key: Key::new([7; 32]), intents: 0 }
    }

    /// What a plan depends on, at one look.
    pub fn input<'a>(&'a self, world: &World, observation: &'a Observation) -> Input<'a> {
        Input {
            environment: "lab",
            cluster: self.cluster,
            capabilities: world.capabilities,
            desired: &self.desired,
            observation,
            policy: self.policy,
            key: &self.key,
        }
    }

    pub fn plan(&self, world: &World, observation: &Observation) -> ChangeSet {
        plan::plan(&self.input(world, observation))
    }

    /// Writes down what became of earlier calls, and forgets objects whose guest is gone or was released.
    pub fn settle(&mut self, world: &World, observation: &Observation) {
        for desired in &mut self.desired {
            let evidence = Evidence::new(self.cluster, world.capabilities, &self.key, observation);
            if let Settled::Proceed { provider_id, open, .. } = intent::settle(desired, &evidence) {
                desired.record.provider_id = provider_id;
                desired.record.intents.retain(|intent| open.contains(&intent.id));
            }
        }
    }

    /// Carries out the steps in order; how many were not done.
    pub fn apply(&mut self, world: &mut World, change_set: &ChangeSet) -> usize {
        let mut failed: BTreeSet<&str> = BTreeSet::new();
        for step in &change_set.steps {
            let is_blocked = step.depends_on.iter().any(|dependency| failed.contains(dependency.as_str()));
            if is_blocked || self.apply_step(world, step).is_err() {
                failed.insert(&step.id);
            }
        }
        failed.len()
    }

    /// Carries out one step.
    pub fn apply_step(&mut self, world: &mut World, step: &Step) -> Result<(), Failure> {
        self.intents += 1;
        let intent = Intent {
            id: format!("intent-{}", self.intents).into(),
            action: step.action,
            provider_id: step.provider_id.as_deref().map(Into::into),
            started_at: world.now,
            approved: false,
        };
        let Some(at) = self.desired.iter().position(|desired| desired.target == step.target) else {
            let id = step.provider_id.as_deref().unwrap_or(&step.target.name);
            return if step.action == Action::Release { world.mark(id, None) } else { world.delete(id) };
        };
        self.desired[at].record.intents.push(intent.clone());
        let done = self.act(world, step, &self.desired[at], &intent);
        let secrets = self.desired[at].secrets();
        let record = &mut self.desired[at].record;
        if let Err(Failure::Refused(_)) = &done {
            record.intents.retain(|other| other.id != intent.id);
        }
        let id = done?;
        let spec_digest = step.new_spec_digest.as_deref().map(Into::into);
        match step.action {
            Action::Delete | Action::Release => (record.provider_id, record.spec_digest) = (None, None),
            Action::Start | Action::Stop | Action::Restart | Action::Grow | Action::Adopt => {
                record.provider_id = Some(id);
            }
            Action::Create | Action::Replace | Action::Update => {
                (record.provider_id, record.spec_digest) = (Some(id), spec_digest);
                record.secrets = secrets;
            }
        }
        Ok(())
    }

    fn act(&self, world: &mut World, step: &Step, desired: &Desired, intent: &Intent) -> Result<Box<str>, Failure> {
        let digest = desired.spec_digest(&self.key);
        let mark = |made: bool| Mark {
            cluster: self.cluster.into(),
            owner_uid: desired.uid.clone(),
            intent: made.then(|| intent.id.clone()),
            spec_digest: made.then(|| digest.as_str().into()),
        };
        let blueprint = Blueprint {
            id: desired.provider_id.as_deref(),
            mark: mark(true),
            fields: &desired.fields,
            run: desired.run,
        };
        let id: Box<str> = step.provider_id.as_deref().or(desired.record.provider_id.as_deref()).unwrap_or("").into();
        match step.action {
            Action::Create => return world.create(&blueprint),
            Action::Replace if step.create_first => {
                let new = world.create(&blueprint)?;
                return world.delete(&id).map_err(|_| Failure::Unknown).map(|()| new);
            }
            Action::Replace => {
                world.delete(&id)?;
                // Between the two nobody knows, whatever the provider says.
                return world.create(&blueprint).map_err(|_| Failure::Unknown);
            }
            Action::Update => world.update(&id, &self.patch(world, step, desired, &id), &digest)?,
            Action::Grow => world.grow(&id, &self.patch(world, step, desired, &id))?,
            Action::Start => world.start(&id)?,
            Action::Stop => world.stop(&id)?,
            Action::Restart => {
                world.stop(&id)?;
                // Stopped, and not started again: nobody knows, whatever the provider says.
                world.start(&id).map_err(|_| Failure::Unknown)?;
            }
            Action::Adopt => world.mark(&id, Some(mark(false)))?,
            Action::Release => world.mark(&id, None)?,
            Action::Delete => world.delete(&id)?,
        }
        Ok(id)
    }

    /// What a step writes: the fields that it shows, whole.
    fn patch(&self, world: &World, step: &Step, desired: &Desired, id: &str) -> setpoint_core::value::Fields {
        let observation = world.observe();
        let Some(guest) = observation.guests.iter().find(|guest| *guest.id == *id) else { return Default::default() };
        let diff = diff::diff(desired, &guest.config, world.capabilities);
        diff.patch(&guest.config, |change| step.changes.iter().any(|shown| shown.field == change.path()))
    }

    /// Forgets the objects that were being deleted and have no guest any more: their finalizer is done.
    pub fn collect(&mut self, observation: &Observation) {
        let has_guest = |desired: &Desired| {
            observation.guests.iter().filter_map(|guest| guest.mark.as_ref()).any(|mark| mark.owner_uid == desired.uid)
        };
        self.desired.retain(|desired| match desired.deletion {
            Some(DeletionPolicy::Delete | DeletionPolicy::Retain) => {
                has_guest(desired) || !desired.record.intents.is_empty()
            }
            None => true,
        });
    }
}
