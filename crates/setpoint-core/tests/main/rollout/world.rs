//! A model world for rollouts: revisions that start and stop instances, a split, and a controller that may crash.
//!
//! What it does not model: a provider whose answers are late, and instances that stop by themselves unless a test says so.
//! An instance that is to be stopped stops serving at once and goes away a tick later: the worst of both.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use setpoint_api::app::{PauseReason, RolloutPhase, RolloutRequest, RolloutState, RolloutVerb, Strategy};
use setpoint_api::revision::RevisionPhase;
use setpoint_core::lifecycle::{self, Event, Life};
use setpoint_core::rollout::{
    Action, Decision, Facts, LatencyBucket, Promise, RevisionFacts, Sample, Stock, WaitsOn, decide,
};
use setpoint_core::split::{Granularity, KnownRevision, Split};

/// How a revision behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Nature {
    #[default]
    Good,
    /// Its instances end in failure.
    Fails,
    /// Its instances never become ready.
    Hangs,
    /// It serves errors.
    Errs,
    /// Nobody asks for it.
    Unused,
}

/// What becomes of one write of the controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Fate {
    #[default]
    Done,
    /// It is refused, and the controller starts over.
    Refused,
    /// It is done, and the controller does not learn it and starts over.
    AnswerLost,
    /// It is done twice.
    Repeated,
}

#[derive(Debug, Clone)]
pub(super) struct World {
    pub(super) now: Timestamp,
    pub(super) strategy: Strategy,
    pub(super) replicas: u32,
    pub(super) granularity: Granularity,
    pub(super) template: String,
    pub(super) request: Option<RolloutRequest>,
    pub(super) state: RolloutState,
    pub(super) revisions: BTreeMap<String, RevisionFacts>,
    pub(super) natures: BTreeMap<String, Nature>,
    pub(super) split: Option<Split>,
    /// The split that the proxy measures, and since when.
    measured: Option<(Split, Timestamp)>,
    pub(super) stock: Stock,
    pub(super) history_limit: u32,
    /// Everything that was done, as text.
    pub(super) log: Vec<String>,
}

impl World {
    pub(super) fn new(strategy: Strategy, replicas: u32) -> World {
        let mut world = World {
            now: Timestamp::UNIX_EPOCH,
            strategy,
            replicas,
            granularity: Granularity::EXACT,
            template: String::new(),
            request: None,
            state: RolloutState::default(),
            revisions: BTreeMap::new(),
            natures: BTreeMap::new(),
            split: None,
            measured: None,
            stock: Stock::Unchecked,
            history_limit: 10,
            log: Vec::new(),
        };
        world.deploy("web-1", Nature::Good);
        world
    }

    /// A world in which `web-1` serves.
    pub(super) fn serving(strategy: Strategy, replicas: u32) -> World {
        let mut world = World::new(strategy, replicas);
        world.settle();
        assert_eq!(world.served_by(), "web-1 10000", "{:#?}", world.log);
        world.log.clear();
        world
    }

    /// Gives the App a template that is a new revision.
    pub(super) fn deploy(&mut self, name: &str, nature: Nature) {
        let number = self.revisions.len() as u64 + 1;
        self.revisions.entry(name.to_owned()).or_insert(RevisionFacts { number, ..RevisionFacts::default() });
        self.natures.insert(name.to_owned(), nature);
        self.template = name.to_owned();
    }

    pub(super) fn ask(&mut self, verb: RolloutVerb, revision: Option<&str>) {
        let id = format!("{verb} {}", self.now);
        self.request = Some(RolloutRequest { id, verb, revision: revision.map(str::to_owned) });
    }

    pub(super) fn served_by(&self) -> String {
        self.split.as_ref().map_or("nothing".to_owned(), ToString::to_string)
    }

    pub(super) fn promise(&self) -> Promise {
        Promise::of(&self.strategy, self.replicas, self.granularity)
    }

    pub(super) fn promise_kept(&self) -> bool {
        let ready = |name: &str| self.revisions.get(name).map_or(0, |revision| revision.ready);
        self.split.as_ref().is_none_or(|split| self.promise().kept(split, ready))
    }

    pub(super) fn decide(&self) -> Decision {
        let samples = self.revisions.keys().filter_map(|name| Some((name.clone(), self.sample(name)?))).collect();
        decide(&Facts {
            now: self.now,
            strategy: &self.strategy,
            replicas: self.replicas,
            revision_history_limit: self.history_limit,
            request: self.request.as_ref(),
            state: &self.state,
            template_revision: &self.template,
            revisions: &self.revisions,
            split: self.split.as_ref(),
            measured_since: self.measured_since(),
            samples: &samples,
            stock: &self.stock,
            granularity: self.granularity,
        })
    }

    /// Since when the split that stands is measured: from the moment the proxy took it over, as its status says.
    fn measured_since(&self) -> Option<Timestamp> {
        let (split, since) = self.measured.as_ref()?;
        (self.split.as_ref() == Some(split)).then_some(*since)
    }

    /// The proxy takes over the split that stands, and counts anew.
    fn measure(&mut self) {
        if self.measured_since().is_none() {
            self.measured = self.split.clone().map(|split| (split, self.now));
        }
    }

    fn sample(&self, name: &str) -> Option<Sample> {
        let since = self.measured_since()?;
        let failures = match self.natures.get(name)? {
            Nature::Good | Nature::Fails | Nature::Hangs => 0,
            Nature::Errs => 500,
            Nature::Unused => return None,
        };
        let weight = self.split.as_ref()?.weight(name);
        let latency = vec![LatencyBucket { up_to_ms: 10, count: 1_000 }];
        (weight > 0).then_some(Sample { since, requests: 1_000, failures, latency })
    }

    /// The controller is woken: it decides and acts until it waits, or until a write goes wrong.
    pub(super) fn reconcile(&mut self, mut fate: impl FnMut() -> Fate) -> Decision {
        for _ in 0..200 {
            let decision = self.decide();
            assert_eq!(decision, self.decide(), "the same facts give the same decision");
            if decision.state != self.state {
                assert!(decision.actions.is_empty(), "a state is remembered before anything is done under it");
                match fate() {
                    Fate::Refused => return decision,
                    Fate::AnswerLost => {
                        self.remember(&decision);
                        return decision;
                    }
                    Fate::Done | Fate::Repeated => self.remember(&decision),
                }
                continue;
            }
            if decision.actions.is_empty() {
                return decision;
            }
            for action in &decision.actions {
                let fate = fate();
                if fate != Fate::Refused {
                    self.apply(action);
                }
                if fate == Fate::Repeated {
                    self.apply(action);
                }
                if matches!(fate, Fate::Refused | Fate::AnswerLost) {
                    return decision;
                }
            }
        }
        panic!("the controller never waits: {:#?}", self.log);
    }

    fn remember(&mut self, decision: &Decision) {
        let written = serde_json::to_string(&decision.state).expect("a state can be written");
        self.state = serde_json::from_str(&written).expect("a state can be read");
        assert_eq!(self.state, decision.state, "what is remembered survives being written");
        self.log.push(format!("[{}] {}", self.state.phase, decision.reason));
    }

    pub(super) fn apply(&mut self, action: &Action) {
        self.log.push(action.to_string());
        // Where nobody serves, nothing can be worse.
        let kept = self.split.is_some() && self.promise_kept();
        match action {
            Action::Stage { revision } => self.happen(revision, Event::Stage),
            Action::Warm { revision, replicas } => {
                self.happen(revision, Event::Warm);
                self.scale(revision, *replicas);
            }
            Action::Scale { revision, replicas } => self.scale(revision, *replicas),
            Action::SetSplit { split } => {
                let known = |revision: &RevisionFacts| KnownRevision { app: "web".to_owned(), phase: revision.phase };
                let known = self.revisions.iter().map(|(name, revision)| (name.clone(), known(revision))).collect();
                assert_eq!(split.check("web", &known), Ok(()), "{:#?}", self.log);
                self.split = Some(split.clone());
                self.measure();
            }
            Action::Drain { revision } => {
                self.happen(revision, Event::Drain);
                self.scale(revision, 0);
            }
            Action::Archive { revision } => self.happen(revision, Event::Archive),
        }
        assert!(self.promise_kept() || !kept, "{action} breaks the promise: {:#?}\n{:#?}", self.revisions, self.log);
        self.assert_sound();
    }

    fn happen(&mut self, name: &str, event: Event) {
        let RevisionFacts { phase, asked, existing, ready, .. } = self.revisions[name];
        let splits: Vec<Split> = self.split.iter().cloned().collect();
        let next = lifecycle::step(name, &Life { phase, asked, existing, ready }, event, &splits);
        let next = next.unwrap_or_else(|error| panic!("{error}: {:#?}", self.log));
        self.revisions.get_mut(name).expect("a known revision").phase = next;
    }

    fn scale(&mut self, name: &str, replicas: u32) {
        let revision = self.revisions.get_mut(name).expect("a known revision");
        revision.asked = replicas;
        revision.ready = revision.ready.min(replicas);
    }

    /// What must be true at any moment.
    pub(super) fn assert_sound(&self) {
        let Some(split) = &self.split else { return };
        let sum: u32 = split.entries().iter().map(|entry| entry.weight_bps).sum();
        assert_eq!(sum, 10_000, "{split}");
        for entry in split.routed() {
            let phase = self.revisions[&entry.revision].phase;
            assert_eq!(phase, RevisionPhase::Ready, "{split}: {:#?}", self.log);
        }
    }

    /// Time passes, and instances start and stop.
    pub(super) fn tick(&mut self) {
        self.now += SignedDuration::from_secs(10);
        self.measure();
        let names: Vec<String> = self.revisions.keys().cloned().collect();
        for name in names {
            let nature = self.natures[&name];
            let revision = self.revisions.get_mut(&name).expect("a known revision");
            let failing = nature == Nature::Fails && revision.phase == RevisionPhase::Warming && revision.existing > 0;
            revision.existing = revision.asked;
            let starts = !matches!(nature, Nature::Fails | Nature::Hangs);
            if starts && matches!(revision.phase, RevisionPhase::Warming | RevisionPhase::Ready) {
                revision.ready = (revision.ready + 2).min(revision.asked);
            }
            self.happen(&name, if failing { Event::Failed } else { Event::Observed });
        }
        self.assert_sound();
    }

    /// Runs without faults until nothing more is to be done, answering for the person who is waited for.
    pub(super) fn settle(&mut self) {
        for _ in 0..2_000 {
            let decision = self.reconcile(Fate::default);
            match decision.waits_on {
                WaitsOn::Nothing if self.is_settled() => return,
                WaitsOn::Person if self.state.paused == Some(PauseReason::Inconclusive) => {
                    self.ask(RolloutVerb::Skip, None);
                }
                WaitsOn::Person => self.ask(RolloutVerb::Resume, None),
                _ => {}
            }
            self.tick();
        }
        panic!("it never settles: {:#?}\n{:#?}\n{:#?}", self.state, self.revisions, self.log);
    }

    /// Runs without faults until `enough`, and answers nobody.
    pub(super) fn run_until(&mut self, enough: impl Fn(&World) -> bool) {
        for _ in 0..2_000 {
            self.reconcile(Fate::default);
            if enough(self) {
                return;
            }
            self.tick();
        }
        panic!("it never happens: {:#?}\n{:#?}", self.state, self.log);
    }

    fn is_settled(&self) -> bool {
        matches!(self.state.phase, RolloutPhase::Complete | RolloutPhase::Aborted)
            && self.revisions.values().all(|revision| revision.existing == revision.asked)
            && self.revisions.values().all(|revision| {
                !matches!(revision.phase, RevisionPhase::Draining)
                    && (revision.ready == revision.asked || revision.asked == 0)
            })
    }
}
