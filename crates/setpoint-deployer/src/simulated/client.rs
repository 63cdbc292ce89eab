//! A client of a simulated place: the provider and the deployer that a control plane sees. It keeps nothing.

use std::time::Duration;

use setpoint_api::price::Price;
use setpoint_core::observation::Mark;
use setpoint_core::split::{Granularity, Split};
use setpoint_core::value::Fields;
use tokio::sync::mpsc;

use super::blueprint::{Blueprint, STOP_MS};
use super::fields;
use super::instance;
use super::news;
use super::place::Place;
use super::request::{AppVerb, Reply, Request, RevisionBrief, Verb};
use crate::deployer::{AppName, Applied, Deployer, ObservedApp, ObservedRevision, RevisionOrder};
use crate::error::{Error, Fault, Operation, Result};
use crate::provider::{Abilities, Answer, Change, Observed, Offer, Order, Provider, Scope};
use crate::session::Logs;

/// A control plane's way to a simulated place.
#[derive(Debug, Clone)]
pub struct Simulated {
    pub(super) place: Place,
    cluster: Box<str>,
    abilities: Abilities,
}

impl Simulated {
    /// A client that acts for the control plane `cluster`.
    pub fn new(place: &Place, cluster: &str) -> Simulated {
        let abilities = abilities(&place.program());
        Simulated { place: place.clone(), cluster: cluster.into(), abilities }
    }

    async fn send(&self, intent: &str, verb: Verb) -> Result<Reply> {
        self.place.send(Request { cluster: self.cluster.clone(), intent: intent.into(), verb }).await
    }

    async fn change(&self, intent: &str, verb: Verb) -> Result<()> {
        self.send(intent, verb).await.map(drop)
    }

    /// What is there of a revision. What is so already is not asked for.
    async fn revision(&self, order: &RevisionOrder) -> Result<ObservedRevision> {
        let mut observed = Deployer::observe(self, &order.app).await?;
        Ok(observed.revisions.remove(&order.name).unwrap_or_default())
    }

    async fn ask(&self, intent: &str, app: &AppName, verb: AppVerb) -> Result<Reply> {
        self.send(intent, Verb::App { app: app.clone(), verb }).await
    }
}

pub(super) fn abilities(program: &super::Program) -> Abilities {
    Abilities {
        guests: fields::capabilities(program),
        runs_pods: true,
        runs_machines: true,
        needs_image: false,
        traffic: Granularity::EXACT,
    }
}

fn brief(order: &RevisionOrder) -> Result<RevisionBrief> {
    let containers = order.spec.template.spec.iter().flat_map(|spec| &spec.containers);
    let variables = containers.flat_map(|container| container.env.iter().flatten());
    let time = variables.filter(|variable| variable.name == STOP_MS).find_map(|variable| variable.value.as_deref());
    let wrong = || Error::field(&order.name, "spec.template.spec.containers.env", format!("{STOP_MS} is no number"));
    let time = time.map(|text| text.parse::<u32>().map_err(|_| wrong())).transpose()?;
    let stops_after = time.map(|milliseconds| Duration::from_millis(milliseconds.into()));
    Ok(RevisionBrief { name: order.name.clone(), uid: order.uid.as_str().into(), stops_after })
}

/// The place answered a question that was not asked.
fn mismatch(operation: Operation, target: &str) -> Error {
    Error::provider(operation, target, Fault::Garbled, "the answer is to another question")
}

impl Provider for Simulated {
    fn abilities(&self) -> &Abilities {
        &self.abilities
    }

    fn observe<'a>(&'a self, scope: &'a Scope) -> Answer<'a, Observed> {
        Box::pin(async move {
            match self.send("", Verb::Observe(scope.clone())).await? {
                Reply::Observed(observed) => Ok(observed),
                _ => Err(mismatch(Operation::Observe, "the place")),
            }
        })
    }

    fn create<'a>(&'a self, order: &'a Order) -> Answer<'a, Box<str>> {
        Box::pin(async move {
            let blueprint = Blueprint::to_make(order, &self.cluster)?;
            match self.send(order.intent(), Verb::Create(blueprint)).await? {
                Reply::Made(id) => Ok(id),
                _ => Err(mismatch(Operation::Create, &order.name)),
            }
        })
    }

    fn update<'a>(&'a self, intent: &'a str, id: &'a str, order: &'a Order) -> Answer<'a, ()> {
        Box::pin(async move {
            let blueprint = Blueprint::read(order, &self.cluster)?;
            self.change(intent, Verb::Update { id: id.into(), blueprint }).await
        })
    }

    fn start<'a>(&'a self, intent: &'a str, id: &'a str) -> Answer<'a, ()> {
        Box::pin(self.change(intent, Verb::Start { id: id.into() }))
    }

    fn stop<'a>(&'a self, intent: &'a str, id: &'a str, grace: Duration) -> Answer<'a, ()> {
        Box::pin(self.change(intent, Verb::Stop { id: id.into(), grace }))
    }

    fn delete<'a>(&'a self, intent: &'a str, id: &'a str) -> Answer<'a, ()> {
        Box::pin(self.change(intent, Verb::Delete { id: id.into() }))
    }

    fn mark<'a>(&'a self, intent: &'a str, id: &'a str, mark: Option<&'a Mark>) -> Answer<'a, ()> {
        Box::pin(self.change(intent, Verb::Mark { id: id.into(), mark: mark.cloned() }))
    }

    /// A place makes no secret of its prices: nobody has to be asked.
    fn quote<'a>(&'a self, fields: &'a Fields) -> Answer<'a, Option<Price>> {
        Box::pin(async move { Ok(instance::running_price(&self.place.program(), Some(fields))) })
    }

    fn offer(&self) -> Answer<'_, Offer> {
        Box::pin(async move { Ok(self.place.program().offer()) })
    }

    fn logs(&self) -> Option<&dyn Logs> {
        Some(self)
    }

    fn events(&self) -> Option<mpsc::Receiver<Change>> {
        Some(news::subscribe(&self.place.shared))
    }
}

impl Deployer for Simulated {
    fn granularity(&self) -> Granularity {
        self.abilities.traffic
    }

    fn observe<'a>(&'a self, app: &'a AppName) -> Answer<'a, ObservedApp> {
        Box::pin(async move {
            match self.ask("", app, AppVerb::Observe).await? {
                Reply::App(observed) => Ok(observed),
                _ => Err(mismatch(Operation::Observe, &app.name)),
            }
        })
    }

    fn stage<'a>(&'a self, order: &'a RevisionOrder) -> Answer<'a, ()> {
        Box::pin(async move {
            let verb = AppVerb::Stage { revision: brief(order)? };
            if self.revision(order).await?.is_staged {
                return Ok(());
            }
            self.ask(&order.intent, &order.app, verb).await.map(drop)
        })
    }

    fn warm<'a>(&'a self, order: &'a RevisionOrder) -> Answer<'a, ()> {
        Box::pin(async move {
            let verb = AppVerb::Warm { revision: brief(order)?, replicas: order.replicas };
            self.ask(&order.intent, &order.app, verb).await.map(drop)
        })
    }

    fn drain<'a>(&'a self, order: &'a RevisionOrder) -> Answer<'a, ()> {
        let within = Duration::from_secs(order.spec.drain_seconds.into());
        let verb = AppVerb::Drain { revision: order.name.clone(), within };
        Box::pin(async move {
            if self.revision(order).await?.running == 0 {
                return Ok(());
            }
            self.ask(&order.intent, &order.app, verb).await.map(drop)
        })
    }

    fn archive<'a>(&'a self, app: &'a AppName, revision: &'a str) -> Answer<'a, ()> {
        let verb = AppVerb::Archive { revision: revision.to_owned() };
        Box::pin(async move { self.ask("", app, verb).await.map(drop) })
    }

    fn apply_split<'a>(&'a self, app: &'a AppName, split: &'a Split) -> Answer<'a, Applied> {
        Box::pin(async move {
            match self.ask("", app, AppVerb::Split(split.clone())).await? {
                Reply::Applied(applied) => Ok(applied),
                _ => Err(mismatch(Operation::ApplySplit, &app.name)),
            }
        })
    }
}
