//! What Machines have to do with those of other Environments: nobody plans for both, so it goes by what each says of itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use setpoint_api::machine::Machine;
use setpoint_api::step::Target;
use setpoint_core::desired::Elsewhere;
use setpoint_core::machine;

use super::Planning;
use crate::runtime::Name;
use crate::runtime::caches::MACHINES_BY_DEPENDENCY;

impl Planning {
    /// What a Machine depends on in other Environments.
    pub(super) fn dependencies_elsewhere(&self, machine: &Machine) -> BTreeMap<Target, Elsewhere> {
        let namespace = machine.metadata.namespace.as_deref().unwrap_or_default();
        let names = machine.spec.depends_on.iter().map(|name| Name::new(namespace, name));
        let found = names.filter_map(|name| self.caches.machines.get(&name));
        let elsewhere = found.filter(|other| other.spec.environment != machine.spec.environment);
        elsewhere.map(|other| (machine::target(&other.metadata), state_of(&other))).collect()
    }

    /// The Machines in other Environments that depend on one. Of those that depend on each other and go, none waits.
    pub(super) fn dependents_elsewhere(&self, machine: &Machine) -> Vec<Target> {
        let own = Name::of(machine);
        let dependents = self.caches.machines.by(&MACHINES_BY_DEPENDENCY, &own.to_string());
        let holds = |other: &&Arc<Machine>| {
            let goes = other.metadata.deletion_timestamp.is_some();
            other.spec.environment != machine.spec.environment && !(goes && self.depends(machine, &Name::of(&***other)))
        };
        dependents.iter().filter(holds).map(|other| machine::target(&other.metadata)).collect()
    }

    /// Whether a Machine depends on another, at whatever distance.
    fn depends(&self, machine: &Machine, on: &Name) -> bool {
        let below = |machine: &Machine| -> Vec<Name> {
            let namespace = machine.metadata.namespace.as_deref().unwrap_or_default();
            machine.spec.depends_on.iter().map(|name| Name::new(namespace, name)).collect()
        };
        let (mut seen, mut open) = (BTreeSet::new(), below(machine));
        while let Some(name) = open.pop() {
            if name == *on {
                return true;
            }
            if let Some(next) = self.caches.machines.get(&name).filter(|_| seen.insert(name)) {
                open.extend(below(&next));
            }
        }
        false
    }
}

/// How a Machine is, by what it says of itself.
fn state_of(machine: &Machine) -> Elsewhere {
    match () {
        () if machine.metadata.deletion_timestamp.is_some() => Elsewhere::Leaving,
        () if machine::is_settled(machine) => Elsewhere::AsDesired,
        () => Elsewhere::NotYet,
    }
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use jiff::Timestamp;
    use kube::Client;
    use kube::client::Body;
    use kube::runtime::watcher::Event;
    use serde_json::json;

    use super::*;
    use crate::node::Providers;
    use crate::runtime::{Caches, Clock, Context};

    fn machine(name: &str, environment: &str, depends_on: &[&str], goes: bool, synced: &str) -> Machine {
        let deleted_at = goes.then_some("2026-03-01T12:00:00Z");
        serde_json::from_value(json!({
            "apiVersion": "setpoint.dev/v1alpha1", "kind": "Machine",
            "metadata": {
                "name": name, "namespace": "shop", "uid": name, "generation": 1, "resourceVersion": "1",
                "deletionTimestamp": deleted_at,
            },
            "spec": {"environment": environment, "dependsOn": depends_on},
            "status": {"observedGeneration": 1, "conditions": [{"type": "Synced", "status": synced}]},
        }))
        .expect("a Machine")
    }

    fn planning(machines: &[Machine]) -> Planning {
        let service =
            tower::service_fn(|_: Request<Body>| async { Ok::<_, std::io::Error>(Response::new(Body::empty())) });
        let context = Context::new(Client::new(service, "default"), Clock::simulated(Timestamp::UNIX_EPOCH));
        let caches = Caches::default();
        machines.iter().for_each(|machine| caches.machines.apply(Event::Apply(machine.clone())));
        Planning::new(&context, &caches, "c", &Providers::default())
    }

    #[tokio::test]
    async fn what_is_elsewhere_goes_by_what_it_says_of_itself() {
        let web = machine("web", "lab", &["db"], false, "False");
        let rows = [
            ("it is carried out", machine("db", "cloud", &[], false, "True"), Some(Elsewhere::AsDesired)),
            ("it is not", machine("db", "cloud", &[], false, "False"), Some(Elsewhere::NotYet)),
            ("it goes", machine("db", "cloud", &[], true, "True"), Some(Elsewhere::Leaving)),
            ("it is here", machine("db", "lab", &[], false, "True"), None),
            ("it is not there", machine("other", "cloud", &[], false, "True"), None),
        ];
        for (name, other, expected) in rows {
            let planning = planning(&[web.clone(), other]);
            let found: Vec<Elsewhere> = planning.dependencies_elsewhere(&web).into_values().collect();
            assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "{name}");
        }
    }

    #[tokio::test]
    async fn what_is_needed_elsewhere_stays() {
        let rows: [(&str, &[&str], Machine, &[&str]); 5] = [
            ("another needs it", &[], machine("web", "cloud", &["db"], false, "True"), &["web"]),
            ("one that goes needs it", &[], machine("web", "cloud", &["db"], true, "True"), &["web"]),
            ("they need each other, and both go", &["web"], machine("web", "cloud", &["db"], true, "True"), &[]),
            ("they need each other", &["web"], machine("web", "cloud", &["db"], false, "True"), &["web"]),
            ("another needs it here", &[], machine("web", "lab", &["db"], false, "True"), &[]),
        ];
        for (name, depends_on, other, expected) in rows {
            let db = machine("db", "lab", depends_on, true, "True");
            let found = planning(&[db.clone(), other]).dependents_elsewhere(&db);
            let found: Vec<&str> = found.iter().map(|target| target.name.as_str()).collect();
            assert_eq!(found, expected, "{name}");
        }
    }
}
