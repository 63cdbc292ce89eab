//! Two that must not pass: one does nothing and claims success, one also remembers what it was told and shows it as
//! observed. Neither touches any place.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::Timestamp;
use parking_lot::Mutex;
use setpoint_core::observation::{Completeness, Config, Guest, Mark, Reading};
use setpoint_core::value::Fields;

use super::{Kind, SECRET, Seen, Subject, Witness, mark};
use crate::provider::{Abilities, Answer, Body, Instance, Observed, Order, PodOrder, Provider, Scope, Variables};
use crate::registry::{Context, Driver, Parts, Settings};

/// Does nothing, and says that it is done.
#[derive(Debug, Clone, Copy)]
pub struct Noop;

/// Does nothing, says that it is done, and shows what it said.
#[derive(Debug, Clone, Copy)]
pub struct Liar;

static NOOP: Abilities = Abilities::of_pods("noop");
static LIAR: Abilities = Abilities::of_pods("liar");

impl Driver for Noop {
    fn name(&self) -> &str {
        NOOP.guests.deployer
    }

    fn version(&self) -> &str {
        "1.0.0"
    }

    fn abilities(&self) -> &Abilities {
        &NOOP
    }

    fn open<'a>(&'a self, _: &'a Settings, _: &'a Context) -> Answer<'a, Parts> {
        Box::pin(async { Ok(Parts { provider: Arc::new(Pretender::new(&NOOP)), deployer: None }) })
    }

    fn subject(&self) -> Answer<'_, Box<dyn Subject>> {
        Box::pin(async { Ok(Box::new(Stage::new(&NOOP)) as Box<dyn Subject>) })
    }
}

impl Driver for Liar {
    fn name(&self) -> &str {
        LIAR.guests.deployer
    }

    fn version(&self) -> &str {
        "1.0.0"
    }

    fn abilities(&self) -> &Abilities {
        &LIAR
    }

    fn open<'a>(&'a self, _: &'a Settings, _: &'a Context) -> Answer<'a, Parts> {
        Box::pin(async { Ok(Parts { provider: Arc::new(Pretender::new(&LIAR)), deployer: None }) })
    }

    fn subject(&self) -> Answer<'_, Box<dyn Subject>> {
        Box::pin(async { Ok(Box::new(Stage::new(&LIAR)) as Box<dyn Subject>) })
    }
}

/// What somebody was told to do.
#[derive(Debug, Clone)]
struct Claim {
    name: String,
    mark: Option<Mark>,
    runs: bool,
}

/// Claims by the ids that were made up for them.
type Claims = Arc<Mutex<BTreeMap<String, Claim>>>;

#[derive(Debug, Clone)]
struct Pretender {
    abilities: &'static Abilities,
    claims: Claims,
}

impl Pretender {
    fn new(abilities: &'static Abilities) -> Pretender {
        Pretender { abilities, claims: Claims::default() }
    }

    fn pretend(&self, id: &str, runs: bool) -> Answer<'_, ()> {
        if let Some(claim) = self.claims.lock().get_mut(id) {
            claim.runs = runs;
        }
        Box::pin(async { Ok(()) })
    }
}

impl Provider for Pretender {
    fn abilities(&self) -> &Abilities {
        self.abilities
    }

    fn observe<'a>(&'a self, scope: &'a Scope) -> Answer<'a, Observed> {
        let claims = self.claims.lock();
        let is_shown = |(id, claim): &(&String, &Claim)| match scope {
            Scope::Everything => true,
            Scope::Instance(of) => ***id == **of,
            Scope::Owner(owner) => claim.mark.as_ref().is_some_and(|mark| mark.owner_uid == *owner),
        };
        let instances = claims.iter().filter(is_shown).map(|(id, claim)| claim.instance(id)).collect();
        let observed = Observed { completeness: Completeness::Complete, instances, observed_at: Timestamp::now() };
        Box::pin(async { Ok(observed) })
    }

    fn create<'a>(&'a self, order: &'a Order) -> Answer<'a, Box<str>> {
        Box::pin(async move {
            let id = format!("{}-{}", order.name, order.intent());
            if std::ptr::eq(self.abilities, &LIAR) {
                let claim = Claim { name: order.name.clone(), mark: Some(order.mark.clone()), runs: true };
                self.claims.lock().insert(id.clone(), claim);
            }
            Ok(id.into())
        })
    }

    fn update<'a>(&'a self, _: &'a str, _: &'a str, _: &'a Order) -> Answer<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    fn start<'a>(&'a self, _: &'a str, id: &'a str) -> Answer<'a, ()> {
        self.pretend(id, true)
    }

    fn stop<'a>(&'a self, _: &'a str, id: &'a str, _: Duration) -> Answer<'a, ()> {
        self.pretend(id, false)
    }

    fn delete<'a>(&'a self, _: &'a str, id: &'a str) -> Answer<'a, ()> {
        self.claims.lock().remove(id);
        Box::pin(async { Ok(()) })
    }
}

impl Claim {
    fn instance(&self, id: &str) -> Instance {
        let word = if self.runs { "running" } else { "stopped" };
        let guest = Guest {
            id: id.into(),
            name: self.name.as_str().into(),
            mark: self.mark.clone(),
            config: Config::known(Fields::default()),
            run: Reading::Known(word.into()),
            holds_data: Reading::Known(false),
            busy: None,
            is_template: false,
            hourly_price: None,
        };
        Instance { guest, pod: None }
    }
}

/// A place that nothing ever reaches.
#[derive(Debug)]
struct Stage {
    pretender: Pretender,
    foreign: Mutex<Vec<Seen>>,
}

impl Stage {
    fn new(abilities: &'static Abilities) -> Stage {
        Stage { pretender: Pretender::new(abilities), foreign: Mutex::default() }
    }
}

impl Subject for Stage {
    fn provider(&self) -> Arc<dyn Provider> {
        Arc::new(self.pretender.clone())
    }

    fn witness(&self) -> &dyn Witness {
        self
    }

    fn order(&self, name: &str, intent: &str, kind: Kind) -> Order {
        order(name, intent, kind)
    }

    fn plant_foreign(&self) -> BoxFuture<'_, Box<str>> {
        self.foreign.lock().push(Seen { id: "foreign".into(), mark: None, running: true });
        async { "foreign".into() }.boxed()
    }

    /// Nothing is ever going to happen.
    fn patience(&self) -> Duration {
        Duration::from_millis(100)
    }
}

impl Witness for Stage {
    fn instances(&self) -> BoxFuture<'_, Vec<Seen>> {
        let foreign = self.foreign.lock().clone();
        async { foreign }.boxed()
    }

    fn calls(&self) -> BoxFuture<'_, u64> {
        async { 0 }.boxed()
    }
}

/// An order for a Pod whose command says what kind it is: enough for places in which nothing really runs.
pub(crate) fn order(name: &str, intent: &str, kind: Kind) -> Order {
    let command = match kind {
        Kind::Ordinary => vec!["run".to_owned()],
        Kind::Lingering(time) => vec!["linger".to_owned(), time.as_millis().to_string()],
        Kind::Stubborn => vec!["stay".to_owned()],
        Kind::Invalid => Vec::new(),
    };
    let container =
        k8s_openapi::api::core::v1::Container { name: "main".to_owned(), command: Some(command), ..Default::default() };
    let variables = Variables(vec![("PASSWORD".to_owned(), SECRET.to_owned())]);
    let pod = PodOrder {
        namespace: "conformance".to_owned(),
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        spec: k8s_openapi::api::core::v1::PodSpec { containers: vec![container], ..Default::default() },
        variables: [("main".to_owned(), variables)].into(),
        volumes: BTreeMap::new(),
    };
    Order { mark: mark(name, intent), name: name.to_owned(), provider_id: None, body: Body::Pod(Box::new(pod)) }
}
