//! What holds whatever happens to the Pods of a Service.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Pod, Service};
use proptest::prelude::*;
use serde_json::json;

use super::backend::can_be_reached;
use super::slices::ENDPOINTS_MAX;
use super::tests::{World, pod, service};
use super::{Plan, ports};

/// What may happen to Pods.
#[derive(Debug, Clone)]
enum Happening {
    Added(usize),
    Gone(usize),
    Turned(usize),
    Ended(usize),
    GivenAPort(usize, u16),
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        (1..150_usize).prop_map(Happening::Added),
        any::<usize>().prop_map(Happening::Gone),
        any::<usize>().prop_map(Happening::Turned),
        any::<usize>().prop_map(Happening::Ended),
        (any::<usize>(), 1..4_u16).prop_map(|(which, port)| Happening::GivenAPort(which, port)),
    ]
}

struct Pods {
    all: Vec<Pod>,
    made: usize,
}

impl Pods {
    fn add(&mut self, count: usize) {
        for _ in 0..count {
            let ip = format!("10.{}.{}.{}", self.made >> 16 & 255, self.made >> 8 & 255, self.made & 255);
            self.all.push(pod(&format!("p{}", self.made), json!({"status": {"podIPs": [{"ip": ip}]}})));
            self.made += 1;
        }
    }

    /// Returns whether it happened to one Pod alone, which stays behind its ports.
    fn happen(&mut self, what: &Happening) -> bool {
        let count = self.all.len();
        let one = |which: usize| (count > 0).then(|| which % count);
        match *what {
            Happening::Added(count) => {
                self.add(count);
                return count == 1;
            }
            Happening::Gone(which) => {
                one(which).map(|at| self.all.remove(at));
            }
            Happening::Turned(which) => {
                if let Some(at) = one(which) {
                    let conditions = &mut self.all[at].status.as_mut().unwrap().conditions.as_mut().unwrap()[0];
                    conditions.status = if conditions.status == "True" { "False" } else { "True" }.to_owned();
                }
            }
            Happening::Ended(which) => {
                if let Some(at) = one(which) {
                    self.all[at].status.as_mut().unwrap().phase = Some("Failed".to_owned());
                }
            }
            Happening::GivenAPort(which, port) => {
                if let Some(at) = one(which) {
                    let annotations = self.all[at].metadata.annotations.get_or_insert_default();
                    annotations.insert("setpoint.dev/assigned-ports".to_owned(), format!("8080={}", 20_000 + port));
                }
                return false;
            }
        }
        true
    }
}

/// Each Pod that can be reached is told of once, in a slice of its ports, and nobody else is.
fn check(world: &World, service: &Service, pods: &[Pod]) {
    let mut told: BTreeMap<String, Vec<Vec<Option<i32>>>> = BTreeMap::new();
    for slice in &world.slices {
        let endpoints = slice.endpoints.as_deref().unwrap_or_default();
        assert!(endpoints.len() <= ENDPOINTS_MAX, "a slice holds {}", endpoints.len());
        assert!(world.slices.len() == 1 || !endpoints.is_empty(), "an empty slice is the only one");
        for endpoint in endpoints {
            let uid = endpoint.target_ref.as_ref().unwrap().uid.clone().unwrap();
            let numbers = slice.ports.iter().flatten().map(|port| port.port).collect();
            told.entry(uid).or_default().push(numbers);
        }
    }
    let expected: BTreeMap<String, Vec<Vec<Option<i32>>>> = pods
        .iter()
        .filter(|pod| can_be_reached(pod))
        .map(|pod| (pod.metadata.uid.clone().unwrap(), vec![ports::resolve(service, pod)]))
        .collect();
    assert_eq!(told, expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn slices_tell_what_is_and_one_change_is_one_write(first in 0..350_usize, happenings in prop::collection::vec(happening(), 1..25)) {
        let service = service(json!({}));
        let mut pods = Pods { all: Vec::new(), made: 0 };
        pods.add(first);
        let mut world = World::after(&service, &pods.all);
        check(&world, &service, &pods.all);
        for happening in happenings {
            let is_one = pods.happen(&happening);
            let plan = world.plan(&service, &pods.all);
            if is_one {
                prop_assert!(plan.slice_writes() <= 1, "{happening:?} took {} writes", plan.slice_writes());
            }
            world.apply(plan);
            check(&world, &service, &pods.all);
            prop_assert_eq!(world.plan(&service, &pods.all), Plan::default(), "what is done is done");
        }
    }
}
