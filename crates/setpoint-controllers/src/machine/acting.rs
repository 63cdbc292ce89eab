//! A step, as calls to a provider.

use std::time::Duration;

use jiff::SignedDuration;
use setpoint_api::machine::Intent;
use setpoint_api::step::{Action, Step};
use setpoint_core::desired::Desired;
use setpoint_core::diff::diff;
use setpoint_core::machine::Seen;
use setpoint_core::observation::{Guest, Mark};
use setpoint_core::value::Fields;
use setpoint_deployer::provider::{Body, Order};
use setpoint_deployer::{Error, Fault, Operation, Provider};

use crate::runtime::Clock;

/// How long a guest is given to shut down.
const GRACE: Duration = Duration::from_secs(30);
/// How old a call on record may be when it is first made: whoever leads after us may have given it up for lost by then,
/// and people may have decided otherwise.
const FRESH: SignedDuration = SignedDuration::from_secs(5);

/// What a step is taken with.
pub(super) struct Act<'a> {
    pub(super) provider: &'a dyn Provider,
    pub(super) desired: &'a Desired,
    pub(super) intent: &'a Intent,
    pub(super) seen: &'a Seen<'a>,
    pub(super) clock: Clock,
    /// Whether the leadership under which the call was written down still lasts.
    pub(super) leads: &'a (dyn Fn() -> bool + Send + Sync),
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
        if !self.is_fresh() {
            return Err(Failed::Surely(self.given_up(step, "it took too long to write it down, and is tried again")));
        }
        if !(self.leads)() {
            return Err(Failed::Surely(self.given_up(step, "another leads by now, and decides anew")));
        }
        match step.action {
            Action::Create => self.make().await,
            Action::Replace if step.create_first => {
                self.make().await?;
                provider.delete(intent, id).await.map_err(Failed::Perhaps)
            }
            Action::Replace => {
                provider.delete(intent, id).await?;
                // However long that took: as long as we lead, nobody else makes the new one.
                if !(self.leads)() {
                    return Err(Failed::Perhaps(self.given_up(step, "another leads by now, and goes on with it")));
                }
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

    fn is_fresh(&self) -> bool {
        self.clock.now().duration_since(self.intent.started_at) <= FRESH
    }

    /// Why a call is not made.
    fn given_up(&self, step: &Step, why: &str) -> Error {
        let target = step.provider_id.as_deref().unwrap_or(&self.desired.target.name);
        Error::provider(operation(step.action), target, Fault::Unreachable, why)
    }

    async fn make(&self) -> Result<(), Failed> {
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
        Ok(self.provider.update(&self.intent.id, id, &self.alteration(guest, patch)).await?)
    }

    /// What made a guest stays what made it: one that was adopted was made by nobody here.
    fn alteration(&self, guest: &Guest, patch: Fields) -> Order {
        let made_by = guest.mark.as_ref().and_then(|mark| mark.intent.clone());
        let order = self.order(patch, None);
        Order { mark: Mark { intent: made_by, ..order.mark }, ..order }
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

/// What a provider is asked for by a step, or asked for last.
fn operation(action: Action) -> Operation {
    match action {
        Action::Create | Action::Replace => Operation::Create,
        Action::Update | Action::Grow => Operation::Update,
        Action::Start | Action::Restart => Operation::Start,
        Action::Stop => Operation::Stop,
        Action::Delete => Operation::Delete,
        Action::Adopt | Action::Release => Operation::Mark,
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

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use setpoint_api::step::Target;
    use setpoint_core::check::check;
    use setpoint_core::desired::Create;
    use setpoint_core::digest::Key;
    use setpoint_core::observation::Observation;
    use setpoint_core::plan::{Input, Orphans, Policy, plan};
    use setpoint_core::value::Value;
    use setpoint_deployer::provider::Scope;
    use setpoint_deployer::simulated::{Place, Program, Simulated};

    use super::*;

    const OURS: &str = "ours";

    fn web(image: &str) -> Desired {
        let target = Target { namespace: "default".into(), name: "web".into(), kind: "Machine".into() };
        let fields = [("image", Value::from(image))].into_iter().collect();
        Desired { fields, ..Desired::new(target, "uid") }
    }

    fn intent(action: Action, started_at: Timestamp) -> Intent {
        let (id, digest) = (format!("{action:?}"), "digest".to_owned());
        Intent { id, action, class: None, digest, started_at, epoch: 1, provider_id: None, change_set: None }
    }

    fn replacement(desired: &Desired, look: &Observation, provider: &dyn Provider, key: &Key) -> Step {
        let input = Input {
            environment: "lab",
            cluster: OURS,
            capabilities: &provider.abilities().guests,
            desired: std::slice::from_ref(desired),
            observation: look,
            policy: Policy { create: Create::Always, orphans: Orphans::Ignore },
            key,
        };
        let plan = plan(&input);
        assert!(check(&input, &plan).is_empty());
        let [step] = plan.steps.as_slice() else { panic!("one step: {plan}") };
        assert_eq!((step.action, step.create_first), (Action::Replace, false));
        step.clone()
    }

    /// A guest that is to be replaced, and how that is done.
    struct Scene {
        clock: Clock,
        place: Place,
        provider: Simulated,
        key: Key,
        look: Observation,
        new: Desired,
        step: Step,
    }

    impl Scene {
        async fn new() -> Scene {
            let clock = Clock::simulated(Timestamp::constant(1_900_000_000, 0));
            let place = Place::new(Program { creates_before_delete: false, ..Program::default() }, clock.now());
            let (provider, key) = (Simulated::new(&place, OURS), Key::new([7; 32]));
            let (old, new) = (web("a:1"), web("a:2"));
            let mark =
                Mark { cluster: OURS.into(), owner_uid: "uid".into(), intent: Some("made".into()), spec_digest: None };
            place.plant("web", Some(mark), &old.fields);
            let look = Provider::observe(&provider, &Scope::Everything).await.expect("a look").into_observation();
            let step = replacement(&new, &look, &provider, &key);
            Scene { clock, place, provider, key, look, new, step }
        }

        /// Takes a step that was written down so long ago, by one who leads for so long.
        async fn take(&self, step: &Step, written_before_ms: i64, leads_for_ms: i64) -> Result<(), Failed> {
            let (clock, now) = (self.clock, self.clock.now());
            let capabilities = &self.provider.abilities().guests;
            let seen = Seen { cluster: OURS, capabilities, key: &self.key, observation: &self.look };
            let intent = intent(step.action, now - SignedDuration::from_millis(written_before_ms));
            let leads = || clock.now() < now + SignedDuration::from_millis(leads_for_ms);
            let provider = &self.provider;
            let act = Act { provider, desired: &self.new, intent: &intent, seen: &seen, clock, leads: &leads };
            act.take(step).await
        }

        fn images(&self) -> Vec<Value> {
            let image = |instance: setpoint_deployer::provider::Instance| {
                instance.guest.config.field("image").known().copied().cloned()
            };
            self.place.truth().into_iter().filter_map(image).collect()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_guest_that_takes_long_to_go_is_still_replaced() {
        let rows: [(&str, u64, i64, &[&str]); 3] = [
            ("at once", 1, 60_000, &["a:2"]),
            ("its removal takes longer than a call may wait to begin", 20_000, 60_000, &["a:2"]),
            ("another leads before the new one is made", 20_000, 10_000, &[]),
        ];
        for (name, latency_ms, leads_for_ms, expected) in rows {
            let scene = Scene::new().await;
            scene.place.reprogram(Program { latency_ms, ..scene.place.program() }).expect("slower");
            let outcome = scene.take(&scene.step, 0, leads_for_ms).await;
            assert!(matches!(outcome, Ok(()) | Err(Failed::Perhaps(_))), "{name}: only a look can tell: {outcome:?}");
            assert_eq!(scene.images(), expected.iter().map(|image| Value::from(*image)).collect::<Vec<_>>(), "{name}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_leaves_a_guest_what_it_was_made_by() {
        let scene = Scene::new().await;
        let capabilities = &scene.provider.abilities().guests;
        let seen = Seen { cluster: OURS, capabilities, key: &scene.key, observation: &scene.look };
        let (provider, intent) = (&scene.provider, intent(Action::Update, scene.clock.now()));
        let (desired, clock) = (&scene.new, scene.clock);
        let act = Act { provider, desired, intent: &intent, seen: &seen, clock, leads: &|| true };
        for made_by in [None, Some("made")] {
            let mut guest = scene.look.guests[0].clone();
            let mark = guest.mark.take().expect("a mark");
            guest.mark = Some(Mark { intent: made_by.map(Into::into), ..mark });
            let order = act.alteration(&guest, Fields::default());
            assert_eq!(order.mark.intent.as_deref(), made_by);
            assert_eq!(order.mark.spec_digest.as_deref(), Some(&*scene.new.spec_digest(&scene.key)));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_too_late_is_not_done() {
        use Action::{Adopt, Create, Delete, Grow, Release, Replace, Restart, Start, Stop, Update};
        let rows = [("the call is too old", 6_000, 60_000), ("another leads", 0, 0)];
        for action in [Create, Replace, Update, Grow, Start, Stop, Restart, Delete, Adopt, Release] {
            for (name, written_before_ms, leads_for_ms) in rows {
                let scene = Scene::new().await;
                let step = Step { action, ..scene.step.clone() };
                let outcome = scene.take(&step, written_before_ms, leads_for_ms).await;
                assert!(matches!(outcome, Err(Failed::Surely(_))), "{action:?}, {name}: {outcome:?}");
                assert_eq!(scene.place.log(|log| log.changing()), 0, "{action:?}, {name}");
            }
        }
    }
}
