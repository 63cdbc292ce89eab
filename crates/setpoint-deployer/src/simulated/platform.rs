//! Revisions and splits of a simulated platform that has routing of its own. As with Pods, nothing ticks: what is ready
//! or still draining follows from the time.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use setpoint_api::traffic_split::SplitEntry;
use setpoint_core::observation::Completeness;
use setpoint_core::split::Split;

use super::cloud::{Extent, Refusal};
use super::program::Program;
use super::request::{AppVerb, Effect, Reply, RevisionBrief};
use crate::deployer::{AppName, Applied, ObservedApp, ObservedRevision};
use crate::error::Fault;

/// How many instances one revision can have.
const MAX_REPLICAS: u32 = 100_000;

/// The Apps of all control planes.
#[derive(Debug, Default)]
pub(super) struct Platform {
    apps: BTreeMap<(Box<str>, AppName), App>,
}

#[derive(Debug, Default, Clone, PartialEq)]
struct App {
    revisions: BTreeMap<String, Revision>,
    split: Option<Vec<SplitEntry>>,
}

#[derive(Debug, Default, Clone, PartialEq)]
struct Revision {
    uid: Box<str>,
    /// How long an instance takes to finish, if it has a mind of its own about that.
    stops_after: Option<Duration>,
    /// When each of its instances was told to run, oldest first.
    running: Vec<Timestamp>,
    /// Until when each of the others drains.
    draining: Vec<Timestamp>,
}

/// An instance of a revision, which runs.
#[derive(Debug)]
pub(super) struct PlatformInstance<'p> {
    pub(super) id: Box<str>,
    pub(super) cluster: &'p str,
    pub(super) owner: &'p str,
}

impl Platform {
    /// Every instance of every revision: who it belongs to, which one it is, and whether it drains.
    pub(super) fn instances(&self, now: Timestamp) -> impl Iterator<Item = PlatformInstance<'_>> {
        let revisions = self.apps.iter().flat_map(|(key, app)| app.revisions.iter().map(move |of| (key, of)));
        revisions.flat_map(move |((cluster, app), (name, revision))| {
            let draining = revision.draining.iter().filter(|until| now < **until).count();
            (0..revision.running.len() + draining).map(move |number| PlatformInstance {
                id: format!("{app}/{name}/{number}").into(),
                cluster,
                owner: &revision.uid,
            })
        })
    }

    /// Does what is asked about an App.
    pub(super) fn step(
        &mut self,
        cluster: &str,
        name: &AppName,
        verb: &AppVerb,
        program: &Program,
        extent: Extent,
        now: Timestamp,
    ) -> Result<(Reply, Effect), Refusal> {
        let key = (cluster.into(), name.clone());
        if let AppVerb::Observe = verb {
            let observed = self.apps.get(&key).cloned().unwrap_or_default().observe(program, now);
            return Ok((Reply::App(observed), Effect::None));
        }
        let app = self.apps.entry(key.clone()).or_default();
        let before = app.clone();
        let reply = app.change(name, verb, program, extent, now);
        let effect = match extent {
            _ if *app == before => Effect::None,
            Extent::Half => Effect::Half,
            Extent::Full => Effect::Full,
        };
        if *app == App::default() {
            self.apps.remove(&key);
        }
        reply.map(|reply| (reply, effect))
    }
}

impl App {
    fn change(
        &mut self,
        name: &AppName,
        verb: &AppVerb,
        program: &Program,
        extent: Extent,
        now: Timestamp,
    ) -> Result<Reply, Refusal> {
        match verb {
            AppVerb::Observe => {}
            AppVerb::Stage { revision } => drop(self.revision(revision)),
            AppVerb::Warm { revision, replicas } => {
                if *replicas > MAX_REPLICAS {
                    return Err((Fault::Refused, format!("at most {MAX_REPLICAS} instances of a revision can run")));
                }
                let wanted = if extent == Extent::Half { replicas.div_ceil(2) } else { *replicas };
                self.revision(revision).running.resize(wanted as usize, now);
            }
            AppVerb::Drain { revision, within } => {
                self.refuse_routed(revision)?;
                if let Some(revision) = self.revisions.get_mut(revision) {
                    let needs = revision.stops_after.unwrap_or(Duration::from_millis(program.stop_ms));
                    let ends = now + needs.min(*within);
                    revision.draining.retain(|until| now < *until);
                    let drained = if extent == Extent::Half { revision.running.len() / 2 } else { 0 };
                    let count = revision.running.len() - drained;
                    revision.running.truncate(drained);
                    revision.draining.extend(std::iter::repeat_n(ends, count));
                }
            }
            AppVerb::Archive { revision } => {
                self.refuse_routed(revision)?;
                match extent {
                    Extent::Full => drop(self.revisions.remove(revision)),
                    Extent::Half => {
                        self.revisions.get_mut(revision).into_iter().for_each(|revision| revision.running.clear());
                    }
                }
            }
            AppVerb::Split(split) => {
                // A router takes a table whole or not at all.
                if extent == Extent::Full {
                    self.split = Some(split.entries().to_vec());
                }
                return Ok(Reply::Applied(applied(name, split)));
            }
        }
        Ok(Reply::Done)
    }

    /// A revision, made where it was not.
    fn revision(&mut self, brief: &RevisionBrief) -> &mut Revision {
        let revision = self.revisions.entry(brief.name.clone()).or_default();
        (revision.uid, revision.stops_after) = (brief.uid.clone(), brief.stops_after);
        revision
    }

    /// What has traffic is neither drained nor removed.
    fn refuse_routed(&self, revision: &str) -> Result<(), Refusal> {
        let routed = self.split.iter().flatten().any(|entry| entry.revision == revision && entry.weight_bps > 0);
        if routed { Err((Fault::Refused, format!("{revision} has traffic"))) } else { Ok(()) }
    }

    fn observe(self, program: &Program, now: Timestamp) -> ObservedApp {
        let warm_for = Duration::from_millis(program.start_ms.saturating_add(program.ready_ms));
        let observed = |(index, (name, revision)): (usize, (String, Revision))| {
            let ready = revision.running.iter().filter(|started| **started + warm_for <= now).count();
            let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
            let seen = ObservedRevision {
                is_staged: true,
                running: count(revision.running.len()),
                ready: count(ready),
                draining: count(revision.draining.iter().filter(|until| now < **until).count()),
                endpoints: (0..ready)
                    .map(|at| format!("10.{}.{}.{}:80", index & 255, at >> 8 & 255, at & 255))
                    .collect(),
            };
            (name, seen)
        };
        ObservedApp {
            completeness: Completeness::Complete,
            revisions: self.revisions.into_iter().enumerate().map(observed).collect(),
            split: self.split,
            observed_at: now,
        }
    }
}

fn applied(app: &AppName, split: &Split) -> Applied {
    Applied { app: app.clone(), entries: split.entries().to_vec() }
}
