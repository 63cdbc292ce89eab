//! How the conformance suite meets a simulated place: its orders, its witness, and its troubles.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, PodSpec};
use setpoint_core::observation::Mark;
use setpoint_core::value::Fields;

use super::blueprint::{EXIT_CODE, SAYS, STOP_MS};
use super::client::Simulated;
use super::fate::Fate;
use super::fields::{RUNNING, STOPPING};
use super::place::Place;
use super::program::{Outage, Program};
use crate::conformance::{CLUSTER, Faults, Kind, SECRET, Seen, Subject, Trouble, Witness, greeting, mark};
use crate::deployer::Deployer;
use crate::provider::{Body, Instance, Order, PodOrder, Provider, Variables};

/// A place for the conformance suite.
#[derive(Debug)]
pub struct SimulatedSubject {
    place: Place,
    program: Program,
    has_own_revisions: bool,
}

impl SimulatedSubject {
    /// A fresh place that behaves like this. Without revisions of its own, they are made of instances.
    pub fn new(program: Program, has_own_revisions: bool) -> SimulatedSubject {
        let place = Place::new(program.clone(), Timestamp::now());
        SimulatedSubject { place, program, has_own_revisions }
    }

    fn reprogram(&self, program: Program) -> bool {
        self.place.reprogram(program).is_ok()
    }

    fn arrange_next(&self, fate: Fate, spares_looks: bool) -> bool {
        self.place.arrange(fate, spares_looks);
        true
    }
}

impl Subject for SimulatedSubject {
    fn provider(&self) -> Arc<dyn Provider> {
        Arc::new(Simulated::new(&self.place, CLUSTER))
    }

    fn deployer(&self) -> Option<Arc<dyn Deployer>> {
        self.has_own_revisions.then(|| Arc::new(Simulated::new(&self.place, CLUSTER)) as Arc<dyn Deployer>)
    }

    fn witness(&self) -> &dyn Witness {
        self
    }

    fn faults(&self) -> Option<&dyn Faults> {
        Some(self)
    }

    fn order(&self, name: &str, intent: &str, kind: Kind) -> Order {
        let stops_after = match kind {
            Kind::Ordinary | Kind::Invalid => None,
            Kind::Lingering(time) => u32::try_from(time.as_millis()).ok(),
            Kind::Stubborn => Some(u32::MAX),
        };
        let mut variables = vec![("TOKEN".to_owned(), SECRET.to_owned()), (SAYS.to_owned(), greeting(name))];
        variables.extend(stops_after.map(|time| (STOP_MS.to_owned(), time.to_string())));
        if kind == Kind::Invalid {
            variables.push((EXIT_CODE.to_owned(), "often".to_owned()));
        }
        let container = Container { name: "main".to_owned(), ..Container::default() };
        let pod = PodOrder {
            namespace: "conformance".to_owned(),
            name: name.to_owned(),
            uid: crate::conformance::owner(name),
            spec: PodSpec { containers: vec![container], ..PodSpec::default() },
            variables: [("main".to_owned(), Variables(variables))].into(),
            volumes: Default::default(),
        };
        let body = Body::Pod(Box::new(pod));
        Order { mark: mark(name, intent), name: name.to_owned(), provider_id: None, body }
    }

    fn plant_foreign(&self) -> BoxFuture<'_, Box<str>> {
        let id = self.place.plant("foreign", None, &Fields::default());
        async { id }.boxed()
    }
}

impl Witness for SimulatedSubject {
    fn instances(&self) -> BoxFuture<'_, Vec<Seen>> {
        let seen = |instance: Instance| {
            let word = instance.guest.run.known().map(|word| &**word);
            let running = matches!(word, Some(RUNNING | STOPPING));
            Seen { id: instance.guest.id, mark: instance.guest.mark, running }
        };
        let mut all: Vec<Seen> = self.place.truth().into_iter().map(seen).collect();
        self.place.read(|state, now| {
            all.extend(state.platform.instances(now).map(|instance| Seen {
                id: instance.id,
                mark: Some(Mark {
                    cluster: instance.cluster.into(),
                    owner_uid: instance.owner.into(),
                    intent: None,
                    spec_digest: None,
                }),
                running: true,
            }));
        });
        async { all }.boxed()
    }

    fn calls(&self) -> BoxFuture<'_, u64> {
        let calls = self.place.log(|log| log.changing());
        async move { calls }.boxed()
    }
}

impl Faults for SimulatedSubject {
    fn arrange(&self, trouble: Trouble) -> bool {
        match trouble {
            Trouble::LoseAnswer => self.arrange_next(Fate::LostResponse, true),
            Trouble::FailBefore => self.arrange_next(Fate::FailedBefore, true),
            Trouble::FailHalfway => self.arrange_next(Fate::HalfDone, true),
            Trouble::Garbage => self.arrange_next(Fate::Garbled, false),
            Trouble::Slow(time) => {
                let latency_ms = longer(time, self.program.latency_ms);
                self.reprogram(Program { latency_ms, latency_max_ms: None, ..self.program.clone() })
            }
            Trouble::Dead => self.reprogram(Program { down: Some(Outage::Silent), ..self.program.clone() }),
        }
    }

    fn end(&self) {
        self.place.disarrange();
        self.reprogram(self.program.clone());
    }
}

fn longer(time: Duration, usual_ms: u64) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX).saturating_add(usual_ms)
}
