//! What people do, and meddle with.
//!
//! | module | with what |
//! | --- | --- |
//! | `workloads` | workloads, Pods, Services, Environments |
//! | `goals` | Goals and Plans |
//! | `machines` | Machines, and the changes of them that wait for people |

mod goals;
mod machines;
mod workloads;

use std::collections::BTreeMap;
use std::fmt::Debug;

use k8s_openapi::NamespaceResourceScope;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, PropagationPolicy};
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::dice::Dice;
use super::ledger::{Books, Ledger, Shelf};
use super::world::World;

pub(super) use self::machines::SETTINGS;

const NAMESPACE: &str = "default";

#[derive(Debug, Clone, Copy)]
enum Action {
    Workload(workloads::Action),
    Goal(goals::Action),
    Machine(machines::Action),
}

pub(super) struct Users {
    client: Client,
    /// As each of the people who review.
    people: BTreeMap<&'static str, Client>,
    dice: Dice,
    /// Templates and names differ by it.
    count: u64,
}

impl Users {
    pub(super) fn new(world: &World, dice: Dice) -> Users {
        let people = machines::PEOPLE.iter().map(|name| (*name, world.as_person(name))).collect();
        Users { client: world.admin.clone(), people, dice, count: 0 }
    }

    /// Does something. Says what, and what came of it.
    pub(super) async fn act(&mut self, ledger: &Ledger) -> String {
        self.count += 1;
        let Some(action) = self.dice.weighted(&actions()) else { return String::new() };
        let chosen = ledger.read(|books| self.choose(action, books));
        let Some((name, request)) = chosen else { return format!("{action:?}: there is nothing to do it to") };
        match self.send(action, &name, request).await {
            Ok(()) => format!("{action:?} {name}"),
            Err(kube::Error::Api(status)) => format!("{action:?} {name}: {}", status.reason),
            Err(error) => format!("{action:?} {name}: {error}"),
        }
    }

    /// To whom it is done, and the body of the request.
    fn choose(&self, action: Action, books: &Books) -> Option<(String, Value)> {
        match action {
            Action::Workload(action) => self.choose_workload(action, books),
            Action::Goal(action) => self.choose_goal(action, books),
            Action::Machine(action) => self.choose_machine(action, books),
        }
    }

    async fn send(&self, action: Action, name: &str, body: Value) -> kube::Result<()> {
        match action {
            Action::Workload(action) => self.send_workload(action, name, body).await,
            Action::Goal(action) => self.send_goal(action, name, body).await,
            Action::Machine(action) => self.send_machine(action, name, body).await,
        }
    }

    fn absent<K>(&self, names: &[&'static str], shelf: &Shelf<K>) -> Option<&'static str> {
        let absent: Vec<&'static str> =
            names.iter().copied().filter(|name| !shelf.contains_key(&format!("{NAMESPACE}/{name}"))).collect();
        self.dice.pick(&absent).copied()
    }

    /// One that is there, and what is to be sent to it.
    fn any<K: Resource>(&self, shelf: &Shelf<K>, body: Value) -> Option<(String, Value)> {
        let there: Vec<&String> = shelf.keys().filter(|key| key.starts_with("default/")).collect();
        let key = self.dice.pick(&there)?;
        Some((key.strip_prefix("default/")?.to_owned(), body))
    }

    fn api<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    async fn create<K>(&self, body: Value) -> kube::Result<()>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Serialize + DeserializeOwned + Clone + Debug,
    {
        let object: K = serde_json::from_value(body).map_err(kube::Error::SerdeError)?;
        self.api::<K>().create(&PostParams::default(), &object).await.map(drop)
    }

    /// As files are applied.
    async fn apply<K>(&self, name: &str, body: Value) -> kube::Result<()>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + DeserializeOwned + Clone + Debug,
    {
        self.api::<K>().patch(name, &PatchParams::apply("people").force(), &Patch::Apply(body)).await.map(drop)
    }

    async fn patch<K>(&self, name: &str, body: Value) -> kube::Result<()>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + DeserializeOwned + Clone + Debug,
    {
        self.api::<K>().patch(name, &PatchParams::default(), &Patch::Merge(body)).await.map(drop)
    }

    async fn replace<K>(&self, name: &str, body: Value) -> kube::Result<()>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + DeserializeOwned + Clone + Debug,
    {
        let operations = serde_json::from_value(body).map_err(kube::Error::SerdeError)?;
        self.api::<K>().patch(name, &PatchParams::default(), &Patch::<()>::Json(operations)).await.map(drop)
    }

    async fn delete<K>(&self, name: &str) -> kube::Result<()>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + DeserializeOwned + Clone + Debug,
    {
        let parameters = match self.dice.below(8) {
            0 => DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteParams::default() },
            1 => DeleteParams::foreground(),
            2 => DeleteParams::default().grace_period(0),
            _ => DeleteParams::default(),
        };
        self.api::<K>().delete(name, &parameters).await.map(drop)
    }
}

/// What is done, and how often compared to the others.
fn actions() -> Vec<(u32, Action)> {
    let workloads = workloads::ACTIONS.iter().map(|(weight, action)| (*weight, Action::Workload(*action)));
    let goals = goals::ACTIONS.iter().map(|(weight, action)| (*weight, Action::Goal(*action)));
    let machines = machines::ACTIONS.iter().map(|(weight, action)| (*weight, Action::Machine(*action)));
    workloads.chain(goals).chain(machines).collect()
}

/// One of those that are in no namespace.
fn pick<K>(dice: &Dice, shelf: &Shelf<K>) -> Option<String> {
    dice.pick(&shelf.keys().collect::<Vec<_>>()).map(|name| (*name).clone())
}
