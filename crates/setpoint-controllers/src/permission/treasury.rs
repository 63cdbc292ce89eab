//! What may be spent in an Environment with limits: one at a time decides, and writes down what it takes before it takes it.
//! What no limit counts is not held up by this.
//!
//! Whoever decides reserves what its call adds and lets the next one decide; only then is the provider called. The
//! reservation ends with the call: it is given back where the call was refused, and counts until a look shows what it did
//! where it was not. A look at all of it is made only where the last one, and what was begun since, may not leave enough
//! room. Nobody else is held up by it but who needs it too, and takes its result. What an earlier leader began and does not
//! show in it leaves no room: how much there is is then not known, and whoever needs more waits.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use serde_json::json;
use setpoint_api::environment::{Environment, Guardrails, LedgerEntry};
use setpoint_api::machine::Machine;
use setpoint_api::step::{Step, Target};
use setpoint_core::gate::{Added, Gpus, Usage, bears_on_limits, ledger_entry, record};
use setpoint_core::observation::Observation;
use setpoint_deployer::provider::Scope;
use tokio::sync::OwnedMutexGuard;

use super::account::{Account, Call};
use crate::environment::Sights;
use crate::events::is_code;
use crate::planning::Planning;
use crate::runtime::caches::MACHINES_BY_LIMIT;
use crate::runtime::{Caches, Clock, Context, Error, Name};

/// How often a write is tried that meets those of others.
const TRIES: usize = 8;

/// Who knows what may be spent. Cheap to clone.
#[derive(Clone)]
pub struct Treasury {
    client: Client,
    caches: Caches,
    planning: Planning,
    sights: Sights,
    clock: Clock,
    looks: Counter,
}

impl std::fmt::Debug for Treasury {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Treasury").finish_non_exhaustive()
    }
}

/// The account of an Environment, and whose turn it is there. No turn lasts for a call to a provider.
#[derive(Debug, Default)]
pub struct SharedAccount {
    account: Mutex<Account>,
    /// Held by whoever decides what to spend, until that is reserved.
    deciding: Arc<tokio::sync::Mutex<()>>,
    /// Held by whoever looks at everything: who needs that too waits for what comes of it.
    looking: tokio::sync::Mutex<()>,
}

/// What there is to be spent. Until something is reserved or this is dropped, nobody else decides there.
#[derive(Debug, Default)]
pub struct Spending {
    pub usage: Usage,
    pub ledger: Vec<LedgerEntry>,
    /// None where no limit counts what is to be done.
    limited: Option<Limited>,
}

/// An Environment as it was read, its account, and the GPUs of what is to be done there.
#[derive(Debug)]
struct Limited {
    environment: Environment,
    account: Arc<SharedAccount>,
    gpus: BTreeMap<Target, Gpus>,
    _turn: OwnedMutexGuard<()>,
}

/// What a call adds, from before it is made until it has ended. Whoever drops it does not know how it ended.
#[derive(Debug, Default)]
#[must_use = "a call counts as ended when this is dropped"]
pub struct Reservation(Option<Reserved>);

#[derive(Debug)]
struct Reserved {
    account: Arc<SharedAccount>,
    environment: String,
    call: String,
    clock: Clock,
}

impl Reservation {
    /// The call was made.
    pub fn answered(mut self) {
        if let Some(reserved) = self.0.take() {
            reserved.account.account.lock().answered(&reserved.call);
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some(reserved) = self.0.take() {
            reserved.account.account.lock().lost(&reserved.call, reserved.clock.now());
        }
    }
}

impl Treasury {
    pub fn new(context: &Context, caches: &Caches, planning: &Planning, sights: &Sights) -> Treasury {
        Treasury {
            client: context.client.clone(),
            caches: caches.clone(),
            planning: planning.clone(),
            sights: sights.clone(),
            clock: context.clock,
            looks: context.metrics.sweeps(),
        }
    }

    /// What may be spent on steps, given the GPUs of their objects.
    pub async fn spending(
        &self,
        environment: &Environment,
        steps: &[Step],
        gpus: &BTreeMap<Target, Gpus>,
    ) -> Result<Spending, Error> {
        let limits = limits(environment);
        if !steps.iter().any(|step| bears_on_limits(step, gpus, &limits)) {
            return Ok(Spending::default());
        }
        let name = environment.metadata.name.as_deref().unwrap_or_default();
        let account = self.sights.account(name);
        let added = Added::by(steps, gpus);
        let mut turn = account.deciding.clone().lock_owned().await;
        let mut environment = self.read(name).await?;
        let usage = match self.usage(&environment, added, &account)? {
            Some(usage) => usage,
            None => {
                drop(turn);
                self.look(&environment, added, &account).await?;
                turn = account.deciding.clone().lock_owned().await;
                environment = self.read(name).await?;
                // If even that did not tell, nobody knows.
                self.usage(&environment, added, &account)?.unwrap_or_default()
            }
        };
        let ledger = environment.status.as_ref().map(|status| status.ledger.clone()).unwrap_or_default();
        Ok(Spending { usage, ledger, limited: Some(Limited { environment, account, gpus: gpus.clone(), _turn: turn }) })
    }

    /// The Environment as the server has it: what was written down just now counts.
    async fn read(&self, name: &str) -> Result<Environment, Error> {
        Ok(Api::<Environment>::all(self.client.clone()).get(name).await?)
    }

    /// How much there is, as far as one has to know before adding this; none where a look has to tell.
    fn usage(&self, environment: &Environment, added: Added, account: &SharedAccount) -> Result<Option<Usage>, Error> {
        let limits = limits(environment);
        if !added.is_limited(&limits) {
            return Ok(Some(Usage::default()));
        }
        let name = environment.metadata.name.as_deref().unwrap_or_default();
        let (rules, now) = (environment.metadata.generation, self.clock.now());
        let (provider, later) = (self.planning.provider(name)?, self.sights.last(name));
        let usage_of = |look: &Observation| Usage::of(look, self.planning.cluster(), &provider.abilities().guests);
        let mut account = account.account.lock();
        let others = account.others(name, &self.caches.machines, now);
        let at_most = account.at_most(rules, &others, later.as_deref(), usage_of);
        if let Some(usage) = at_most.filter(|usage| usage.has_room_for(added, &limits)) {
            return Ok(Some(usage));
        }
        if let Some(look) = account.look(rules, &others, later) {
            return Ok(Some(usage_of(&look)));
        }
        Ok(account.is_unseen(rules, &others, now).then(Usage::default))
    }

    /// Looks at everything, unless somebody else has done so by the time that it is its turn.
    async fn look(&self, environment: &Environment, added: Added, account: &SharedAccount) -> Result<(), Error> {
        let _turn = account.looking.lock().await;
        if self.usage(environment, added, account)?.is_some() {
            return Ok(());
        }
        let name = environment.metadata.name.as_deref().unwrap_or_default();
        let (rules, provider) = (environment.metadata.generation, self.planning.provider(name)?);
        let others = {
            let mut account = account.account.lock();
            let others = account.others(name, &self.caches.machines, self.clock.now());
            account.begin_look();
            others
        };
        self.looks.inc();
        let look = provider.observe(&Scope::Everything).await;
        let mut account = account.account.lock();
        match look {
            Ok(look) => {
                let look = Arc::new(look.into_observation());
                let usage = Usage::of(&look, self.planning.cluster(), &provider.abilities().guests);
                account.keep(rules, &others, look, usage, self.clock.now());
                Ok(())
            }
            Err(error) => {
                account.give_up_look(rules, self.clock.now());
                Err(error.into())
            }
        }
    }

    /// Writes down what a call takes, before it is made. False if the Environment moves too fast.
    pub async fn enter(&self, spending: &mut Spending, step: &Step, intent: &str) -> Result<bool, Error> {
        let Some(Limited { environment, .. }) = &mut spending.limited else { return Ok(true) };
        let Some(entry) = ledger_entry(step, intent, &limits(environment), self.clock.now()) else { return Ok(true) };
        let api: Api<Environment> = Api::all(self.client.clone());
        for _ in 0..TRIES {
            let meta = &environment.metadata;
            let name = meta.name.clone().unwrap_or_default();
            let ledger = environment.status.as_ref().map(|status| status.ledger.clone()).unwrap_or_default();
            let patch = json!({
                "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
                "status": {"ledger": record(ledger, entry.clone())},
            });
            match api.patch_status(&name, &PatchParams::default(), &Patch::Merge(patch)).await {
                Ok(_) => return Ok(true),
                Err(error) if is_code(&error, 409) => *environment = api.get(&name).await?,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(false)
    }

    /// Reserves what a call adds, just before it is made; a Machine has it on record, if anything is kept of it. From now on
    /// the next one may decide.
    pub fn reserve(&self, spending: Spending, step: &Step, call: &str, machine: Option<&Machine>) -> Reservation {
        let Some(Limited { environment, account, gpus, _turn }) = spending.limited else {
            return Reservation::default();
        };
        let record = machine.map(|machine| (machine, &*self.caches.machines));
        account.account.lock().begin(call, Call::new(step, Added::by([step], &gpus), record));
        let environment = environment.metadata.name.unwrap_or_default();
        Reservation(Some(Reserved { account, environment, call: call.to_owned(), clock: self.clock }))
    }

    /// A call surely had no effect: what it was to add is given back, and those are woken that may go on by that.
    pub fn give_back(&self, mut reservation: Reservation) {
        let Some(Reserved { account, environment, call, .. }) = reservation.0.take() else { return };
        account.account.lock().refused(&call);
        let held = self.caches.machines.by(&MACHINES_BY_LIMIT, &environment);
        held.iter().for_each(|machine| self.sights.wake(Name::of(&**machine)));
    }
}

fn limits(environment: &Environment) -> Guardrails {
    environment.spec.guardrails.clone().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::Duration;

    use http::{Request, Response};
    use jiff::Timestamp;
    use kube::client::Body;
    use kube::runtime::watcher::Event;
    use serde_json::Value;
    use setpoint_deployer::Provider;
    use setpoint_deployer::simulated::{Place, Program, Simulated};
    use tokio::time::Instant;

    use super::*;
    use crate::node::Providers;
    use crate::queue::{Options, Queue};

    const LATENCY: Duration = Duration::from_secs(15);

    fn environment() -> Value {
        json!({
            "apiVersion": "setpoint.dev/v1alpha1", "kind": "Environment",
            "metadata": {"name": "lab", "uid": "e", "generation": 1, "resourceVersion": "1"},
            "spec": {"deployer": {"name": "simulated"}, "guardrails": {"maxInstances": 2}},
        })
    }

    fn step(action: &str) -> Step {
        serde_json::from_value(json!({
            "id": "default/web/step", "target": {"namespace": "default", "name": "web", "kind": "Machine"},
            "action": action, "reason": "new", "origin": "Desired", "class": "Benign",
            "classReason": "nothing can be lost", "digest": "sha256:a",
        }))
        .expect("a step")
    }

    fn machine(name: &str) -> Machine {
        let over = json!({"type": "Synced", "status": "False", "reason": "OverLimit"});
        serde_json::from_value(json!({
            "apiVersion": "setpoint.dev/v1alpha1", "kind": "Machine",
            "metadata": {"name": name, "namespace": "default", "uid": name, "resourceVersion": "5"},
            "spec": {"environment": "lab"}, "status": {"conditions": [over]},
        }))
        .expect("a Machine")
    }

    /// An Environment with room for two guests, at a place that takes its time.
    struct Scene {
        treasury: Treasury,
        caches: Caches,
        woken: Arc<Queue<Name>>,
    }

    impl Scene {
        fn new() -> Scene {
            let service = tower::service_fn(|_: Request<Body>| async {
                Ok::<_, Infallible>(Response::new(Body::from(environment().to_string().into_bytes())))
            });
            let clock = Clock::simulated(Timestamp::constant(1_900_000_000, 0));
            let context = Context::new(Client::new(service, "default"), clock);
            let latency_ms = u64::try_from(LATENCY.as_millis()).expect("a few seconds");
            let place = Place::new(Program { latency_ms, ..Program::default() }, clock.now());
            let provider: Arc<dyn Provider> = Arc::new(Simulated::new(&place, "ours"));
            let (caches, providers, sights) = (Caches::default(), Providers::default(), Sights::default());
            providers.put("lab", provider);
            let woken = Arc::new(Queue::new(Options::default()));
            sights.connect(&woken);
            let planning = Planning::new(&context, &caches, "ours", &providers);
            Scene { treasury: Treasury::new(&context, &caches, &planning, &sights), caches, woken }
        }

        /// What may be spent on a step, and after how long that was known.
        async fn spending(&self, action: &str) -> (Spending, Duration) {
            let environment = serde_json::from_value(environment()).expect("an Environment");
            let start = Instant::now();
            let spending = self.treasury.spending(&environment, &[step(action)], &BTreeMap::new()).await;
            (spending.expect("an answer"), start.elapsed())
        }

        /// After how long it is known what may be spent, of which nothing is taken.
        async fn knows_after(&self, action: &str) -> Duration {
            self.spending(action).await.1
        }

        fn reserve(&self, spending: Spending, call: &str) -> Reservation {
            self.treasury.reserve(spending, &step("Create"), call, Some(&machine(call)))
        }
    }

    fn is_room(spending: &Spending) -> bool {
        spending.usage.instances.is_some_and(|now| now < 2)
    }

    #[tokio::test(start_paused = true)]
    async fn two_calls_are_under_way_side_by_side_and_a_third_waits_for_room() {
        let scene = Scene::new();
        let (spending, waited) = scene.spending("Create").await;
        assert!(is_room(&spending) && waited >= LATENCY, "somebody has to look first: {waited:?}");
        let _first = scene.reserve(spending, "a");
        let (spending, waited) = scene.spending("Create").await;
        assert!(is_room(&spending) && waited.is_zero(), "the first call is still under way: {waited:?}");
        let second = scene.reserve(spending, "b");
        let (third, _) = scene.spending("Create").await;
        assert!(!is_room(&third), "two are under way, and two there may be");
        drop(third);
        scene.caches.machines.apply(Event::Apply(machine("held")));
        scene.treasury.give_back(second);
        assert_eq!(scene.woken.ready(), [Name::new("default", "held")], "who was held back may go on");
        let (spending, waited) = scene.spending("Create").await;
        assert!(is_room(&spending) && waited.is_zero(), "one was refused: {waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn while_one_looks_at_everything_others_wait_only_for_what_it_sees() {
        let scene = Scene::new();
        let (first, second, delete) =
            tokio::join!(scene.knows_after("Create"), scene.knows_after("Create"), scene.knows_after("Delete"));
        assert!(delete.is_zero(), "what makes room needs no look: {delete:?}");
        assert!(second < LATENCY * 2, "one look is enough for both: {first:?} {second:?}");
    }
}
