//! The places that Environments stand for: how they misbehave, and what must hold of what is there.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use setpoint_api::environment::Environment;
use setpoint_core::observation::{Guest, Mark};
use setpoint_core::value::Fields;
use setpoint_core::workload::pod_state;
use setpoint_deployer::Operation;
use setpoint_deployer::provider::Instance;
use setpoint_deployer::simulated::{DriftKind, Entry, Place, Program};

use super::approvals::Approvals;
use super::convergence;
use super::dice::Dice;
use super::ledger::Books;
use super::rules::uid;
use super::world::World;

/// The Environments that people declare.
pub(super) const NAMES: [&str; 2] = ["east", "west"];

/// How the owners of orphans are called: of those that we made, and of those that were there before and are lost for ever
/// when they go.
const MADE: &str = "made-for-";
pub(super) const TAKEN: &str = "taken-for-";

/// What was put at each place that is not ours.
#[derive(Debug, Default)]
pub(super) struct Strangers(BTreeMap<&'static str, Vec<Instance>>);

/// How far the log of each place was read.
#[derive(Debug, Default)]
pub(super) struct Read(BTreeMap<&'static str, u64>);

impl Read {
    /// What was asked of the places since.
    pub(super) fn news(&mut self, world: &World) -> Vec<(&'static str, Entry)> {
        let mut news = Vec::new();
        for (name, place) in all(world) {
            let read = self.0.entry(name).or_default();
            place.log(|log| {
                let changing = log.since(*read).filter(|entry| entry.operation != Operation::Observe);
                news.extend(changing.map(|entry| (name, entry.clone())));
                *read = log.count();
            });
        }
        news
    }
}

impl Strangers {
    /// Puts something at a new place that belongs to somebody else, and something that belongs to nobody.
    pub(super) fn settle(&mut self, world: &World) {
        for (name, place) in all(world) {
            self.0.entry(name).or_insert_with(|| {
                let (cluster, owner_uid) = ("another".into(), "theirs".into());
                let mark = Mark { cluster, owner_uid, intent: Some("theirs".into()), spec_digest: None };
                let ids = [Some(mark), None].map(|mark| place.plant("stranger", mark, &Fields::default()));
                place.truth().into_iter().filter(|it| ids.contains(&it.guest.id)).collect()
            });
        }
    }

    fn are_there(&self, name: &str, truth: &[Instance]) -> bool {
        let is_same = |one: &Guest, other: &Guest| {
            (&one.id, &one.name, &one.mark, &one.config) == (&other.id, &other.name, &other.mark, &other.config)
        };
        let is_there = |stranger: &Instance| truth.iter().any(|it| is_same(&it.guest, &stranger.guest));
        self.0.get(name).is_none_or(|strangers| strangers.iter().all(is_there))
    }
}

/// The places that were opened so far.
pub(super) fn all(world: &World) -> Vec<(&'static str, Place)> {
    NAMES.iter().filter_map(|name| Some((*name, world.deployer.place(name)?))).collect()
}

/// What is against the rules at the places: two instances of one object, or a stranger that is gone or changed.
pub(super) fn broken(world: &World, strangers: &Strangers, approvals: &Approvals) -> Vec<String> {
    let (mut broken, mut owners) = (Vec::new(), BTreeMap::<String, (&str, String)>::new());
    for (name, place) in all(world) {
        let truth = place.truth();
        if !strangers.are_there(name, &truth) {
            broken.push(format!("something at {name} that is not ours was touched"));
        }
        for mark in ours(world, &truth) {
            let made_by = mark.intent.as_deref().unwrap_or_default().to_owned();
            let (owner, here) = (mark.owner_uid.to_string(), (name, made_by.clone()));
            if let Some((there, other)) =
                owners.insert(owner, here).filter(|(_, other)| approvals.are_doubled(other, &made_by))
            {
                broken.push(format!(
                    "{} is there twice: at {there} by {other} and at {name} by {made_by}",
                    mark.owner_uid
                ));
            }
        }
    }
    broken
}

/// What is not yet as it should be: a Pod that does not run where it is bound to, or what runs for none.
pub(super) fn unmet(world: &World, books: &Books) -> Vec<String> {
    let mut unmet = Vec::new();
    for (name, place) in all(world) {
        let truth = place.truth();
        let there: BTreeSet<&str> = ours(world, &truth).map(|mark| &*mark.owner_uid).collect();
        let is_here = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some(name);
        let pods: Vec<&Pod> = books.pods.values().map(|pod| &**pod).filter(|pod| is_here(pod)).collect();
        let machines = books.machines.values().filter(|machine| machine.spec.environment == name);
        let machines: Vec<_> = machines.map(|machine| &**machine).collect();
        machines.iter().for_each(|machine| convergence::machine(books, machine, &truth, &mut unmet));
        let owners = pods.iter().map(|pod| &pod.metadata).chain(machines.iter().map(|machine| &machine.metadata));
        let uids: BTreeSet<&str> = owners.map(uid).collect();
        let active = pods.iter().filter(|pod| pod_state::is_active(pod)).map(|pod| uid(&pod.metadata)).collect();
        // What strangers put where no Environment is any more is nobody's: it may have gone before anybody looked.
        let is_planted = |uid: &str| uid.starts_with(MADE) || uid.starts_with(TAKEN);
        let is_looked_at = books.environments.contains_key(name);
        let left = there.difference(&uids).filter(|uid| is_looked_at || !is_planted(uid));
        unmet.extend(left.map(|uid| format!("at {name} something runs for {uid}, which is gone")));
        unmet.extend(BTreeSet::difference(&active, &there).map(|uid| format!("at {name} the Pod {uid} does not run")));
    }
    unmet
}

/// The marks of the instances that are ours.
fn ours<'t>(world: &World, truth: &'t [Instance]) -> impl Iterator<Item = &'t Mark> {
    let cluster = world.cluster.clone();
    let marks = truth.iter().filter_map(|instance| instance.guest.mark.as_ref());
    marks.filter(move |mark| *mark.cluster == *cluster)
}

/// Puts something at a place that carries our mark and belongs to nothing: made by us, or taken over.
fn abandon(name: &str, place: &Place, world: &World, dice: &Dice) -> String {
    let (kind, intent) = if dice.permille(500) { (MADE, Some("lost".into())) } else { (TAKEN, None) };
    let owner_uid = format!("{kind}{:08x}", dice.below(1 << 32)).into();
    let mark = Mark { cluster: world.cluster.as_str().into(), owner_uid, intent, spec_digest: None };
    let id = place.plant("abandoned", Some(mark.clone()), &Fields::default());
    format!("{id} at {name} belongs to {}, which never was", mark.owner_uid)
}

/// Has a place behave in another way. Says how.
pub(super) fn trouble(world: &World, dice: &Dice) -> Result<String> {
    let places = all(world);
    let Some((name, place)) = dice.pick(&places) else { return Ok("there is no place yet".to_owned()) };
    if dice.permille(100) {
        // Where no Environment is, nobody looks.
        let stays = |environment: &Environment| environment.metadata.deletion_timestamp.is_none();
        let is_looked_at =
            world.ledger.read(|books| books.environments.get(*name).is_some_and(|environment| stays(environment)));
        return Ok(match is_looked_at {
            true => abandon(name, place, world, dice),
            false => format!("nothing is abandoned at {name}"),
        });
    }
    if dice.permille(300) {
        let truth = place.truth();
        let ours: Vec<&Instance> = truth
            .iter()
            .filter(|it| it.guest.mark.as_ref().is_some_and(|mark| *mark.cluster == *world.cluster))
            .collect();
        let Some(victim) = dice.pick(&ours) else { return Ok(format!("{name} has nothing to lose")) };
        let kind = if dice.permille(500) { DriftKind::Vanished } else { DriftKind::Stopped };
        place.drift(&victim.guest.id, kind);
        return Ok(format!("{} at {name}: {kind:?}", victim.guest.id));
    }
    let rate = |dice: &Dice| if dice.permille(300) { 0.1 } else { 0.0 };
    let program = Program {
        latency_max_ms: Some(dice.between(1, 2000)),
        latency_ms: 1,
        timeout_ms: 3000,
        start_ms: dice.between(0, 3000),
        ready_ms: dice.between(0, 3000),
        stop_ms: dice.between(0, 8000),
        unreachable_rate: rate(dice),
        lost_request_rate: rate(dice),
        failure_rate: rate(dice),
        half_done_rate: rate(dice),
        failure_after_rate: rate(dice),
        lost_response_rate: rate(dice),
        garbled_rate: rate(dice),
        partial_rate: rate(dice),
        ..place.program()
    };
    place.reprogram(program)?;
    Ok(format!("{name} behaves otherwise"))
}

/// Has every place behave well.
pub(super) fn peace(world: &World) -> Result<()> {
    for (_, place) in all(world) {
        let program = place.program();
        place.reprogram(Program {
            seed: program.seed,
            settle_seconds: program.settle_seconds,
            existing: program.existing,
            hourly_price: program.hourly_price,
            ..Program::default()
        })?;
    }
    Ok(())
}
