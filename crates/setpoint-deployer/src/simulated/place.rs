//! A simulated place: what there is, how it behaves, what happened, and the one clock that it all goes by, tokio's.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use setpoint_api::machine::Run;
use setpoint_core::observation::{Completeness, Mark};
use setpoint_core::value::Fields;
use tokio::time::Instant;

use super::blueprint::Body;
use super::cloud::{Cloud, Done, Extent, Refusal};
use super::drift;
use super::fate::{self, Arranged, Fate};
use super::fields;
use super::instance::{Instance, Power, Sight};
use super::news::News;
use super::platform::Platform;
use super::program::{DriftKind, Outage, Program};
use super::records::Records;
use super::request::{Effect, Entry, Reply, Request, RequestLog, Verb};
use crate::error::{Error, Fault, Operation, Result};
use crate::provider::{self, Observed, Scope};

/// A simulated place. Clones are the same place; clients are opened over it.
#[derive(Clone)]
pub struct Place {
    pub(super) shared: Arc<Shared>,
}

pub(super) struct Shared {
    pub(super) state: Mutex<State>,
    epoch: Timestamp,
    born: Instant,
}

pub(super) struct State {
    pub(super) program: Program,
    pub(super) cloud: Cloud,
    pub(super) platform: Platform,
    log: RequestLog,
    dice: SmallRng,
    arranged: VecDeque<Arranged>,
    /// Requests that are still under way though their senders have given up, by when they arrive.
    late: Vec<(Timestamp, Request)>,
    next_drift: Option<Timestamp>,
    /// The second that requests are counted in, and how many were taken in it.
    counted: (i64, u32),
    pub(super) news: News,
    /// The guests of the config that were put there.
    planted: BTreeSet<String>,
    /// Where it is written down what there is, if the place outlives the process.
    records: Option<Records>,
}

/// What comes back over the network, and whether only after the sender's patience is over.
enum Response {
    Answer(Result<Reply>),
    Silence,
}

impl Place {
    /// A place in which nothing is yet. `epoch` is the time as it is now; from here on it goes by tokio's clock.
    pub fn new(program: Program, epoch: Timestamp) -> Place {
        let mut dice = SmallRng::seed_from_u64(program.seed);
        let cloud = Cloud::new(dice.random());
        Place::of(program, epoch, dice, cloud, (None, BTreeSet::new()))
    }

    /// A place whose records are in a folder, as they tell of it.
    pub fn kept_in(folder: &Path, program: Program, epoch: Timestamp) -> Result<Place> {
        let mut dice = SmallRng::seed_from_u64(program.seed);
        let (records, cloud) = Records::open(folder, dice.random()).map_err(broken)?;
        let planted = records.planted().clone();
        Ok(Place::of(program, epoch, dice, cloud, (Some(records), planted)))
    }

    /// A place in memory as the records in a folder tell of it. They stay as they are, whatever is done to it.
    pub fn copied_from(folder: &Path, program: Program, epoch: Timestamp) -> Result<Place> {
        let mut dice = SmallRng::seed_from_u64(program.seed);
        let (cloud, planted) = Records::read(folder, dice.random()).map_err(broken)?;
        Ok(Place::of(program, epoch, dice, cloud, (None, planted)))
    }

    fn of(
        program: Program,
        epoch: Timestamp,
        dice: SmallRng,
        cloud: Cloud,
        (records, planted): (Option<Records>, BTreeSet<String>),
    ) -> Place {
        let mut state = State {
            cloud,
            platform: Platform::default(),
            log: RequestLog::new(),
            dice,
            arranged: VecDeque::new(),
            late: Vec::new(),
            next_drift: drift_after(&program, epoch),
            counted: (0, 0),
            news: News::default(),
            program,
            planted,
            records,
        };
        state.settle_residents(epoch);
        state.come_to_pass(epoch);
        Place { shared: Arc::new(Shared { state: Mutex::new(state), epoch, born: Instant::now() }) }
    }

    pub fn now(&self) -> Timestamp {
        self.shared.now()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock()
    }

    /// How it behaves now.
    pub fn program(&self) -> Program {
        self.lock().program.clone()
    }

    /// Changes how it behaves, from the next request on. What was promised once, it keeps: `settleSeconds` stays.
    pub fn reprogram(&self, program: Program) -> Result<()> {
        program.check(super::NAME)?;
        let state = &mut *self.lock();
        if program.settle_seconds != state.program.settle_seconds {
            return Err(Error::field(super::NAME, "spec.config.settleSeconds", "cannot be changed any more"));
        }
        if program.drift_every_ms != state.program.drift_every_ms {
            state.next_drift = drift_after(&program, self.now());
        }
        if program.durable != state.program.durable {
            return Err(Error::field(super::NAME, "spec.config.durable", "cannot be changed any more"));
        }
        state.program = program;
        state.settle_residents(self.now());
        state.news.tell_everything(&mut state.cloud, &state.program, self.now());
        Ok(())
    }

    /// What becomes of the next request that changes something; and, unless `spares_looks`, of the next look too.
    pub fn arrange(&self, fate: Fate, spares_looks: bool) {
        self.lock().arranged.push_back(Arranged { fate, spares_looks });
    }

    /// Whatever was arranged does not happen any more.
    pub fn disarrange(&self) {
        self.lock().arranged.clear();
    }

    /// Reads the log of requests.
    pub fn log<T>(&self, read: impl FnOnce(&RequestLog) -> T) -> T {
        self.lock().log_read(self.now(), read)
    }

    /// Everything that is really there, whatever can be observed.
    pub fn truth(&self) -> Vec<provider::Instance> {
        let now = self.now();
        let mut state = self.lock();
        state.catch_up(now);
        let State { cloud, program, .. } = &*state;
        cloud
            .all()
            .map(|(serial, instance)| instance.observe(cloud.id(serial), serial, program, Sight::Clear, now))
            .collect()
    }

    pub fn len(&self) -> usize {
        self.lock().cloud.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Puts a running Machine there, not by a request of ours.
    pub fn plant(&self, name: &str, mark: Option<Mark>, given: &Fields) -> Box<str> {
        let now = self.now();
        let mut state = self.lock();
        let mark = mark.map(|mark| state.cloud.ownership(&mark));
        let serial = state.cloud.put(Instance {
            name: name.into(),
            mark,
            body: Body::Machine(fields::kept(given)),
            pending: Fields::default(),
            power: Power::On { asked: now, runs_from: now },
            is_unfinished: false,
            busy_until: now,
            shows_from: now,
            holds_data: false,
        });
        state.come_to_pass(now);
        state.cloud.id(serial)
    }

    /// Makes something happen to an instance behind our back. Whether it was there.
    pub fn drift(&self, id: &str, kind: DriftKind) -> bool {
        let now = self.now();
        let state = &mut *self.lock();
        let serial = state.cloud.serial(id);
        let happened =
            serial.and_then(|it| drift::happen(&mut state.cloud, kind, it, &state.program, &mut state.dice, now));
        state.come_to_pass(now);
        happened.is_some()
    }

    /// Somebody writes a mark on an instance by hand. Whether it was there.
    pub fn mark(&self, id: &str, mark: &Mark) -> bool {
        let state = &mut *self.lock();
        let Some(serial) = state.cloud.serial(id).filter(|serial| state.cloud.get(*serial).is_some()) else {
            return false;
        };
        let mark = state.cloud.ownership(mark);
        state.cloud.set_mark(serial, Some(mark));
        state.come_to_pass(self.now());
        true
    }

    /// Sends a request over the simulated network. Dropped on the way there it has no effect, dropped on the way back all
    /// of it.
    pub(super) async fn send(&self, request: Request) -> Result<Reply> {
        let (operation, target) = (request.operation(), request.target());
        let (there, back, timeout) = self.lock().journey();
        pause(there).await;
        let response = self.arrive(request);
        match response {
            Response::Answer(answer) => {
                pause(back).await;
                answer
            }
            Response::Silence => {
                tokio::time::sleep(timeout).await;
                Err(Error::provider(operation, &target, Fault::Unanswered, "the answer did not come"))
            }
        }
    }

    fn arrive(&self, request: Request) -> Response {
        let now = self.now();
        let (operation, target) = (request.operation(), request.target());
        let mut state = self.lock();
        let response = state.receive(request, now);
        let kept = state.keep();
        state.tell(now);
        match kept {
            Ok(()) => response,
            Err(error) => Response::Answer(Err(Error::provider(operation, &target, Fault::Broken, error.to_string()))),
        }
    }

    pub(super) fn read<T>(&self, read: impl FnOnce(&State, Timestamp) -> T) -> T {
        let now = self.now();
        let mut state = self.lock();
        state.catch_up(now);
        read(&state, now)
    }
}

impl Shared {
    pub(super) fn now(&self) -> Timestamp {
        self.epoch + self.born.elapsed()
    }

    /// When a time of the place is by tokio's clock.
    pub(super) fn instant(&self, at: Timestamp) -> Instant {
        self.born + Duration::try_from(at.duration_since(self.epoch)).unwrap_or_default()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.state.get_mut().news.sooner.notify_one();
    }
}

/// A pause of no time is none: it does not even give way to others.
async fn pause(time: Duration) {
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
}

fn broken(error: std::io::Error) -> Error {
    let response = format!("its records cannot be read: {error}");
    Error::provider(Operation::Observe, "the place", Fault::Broken, response)
}

fn drift_after(program: &Program, now: Timestamp) -> Option<Timestamp> {
    program.drift_every_ms.map(|every| now + Duration::from_millis(every))
}

impl State {
    /// How long a request takes there and back, and how long its sender waits.
    fn journey(&mut self) -> (Duration, Duration, Duration) {
        let Program { latency_ms: least, latency_max_ms, .. } = self.program;
        let most = latency_max_ms.unwrap_or(least);
        let whole = if least == most { least } else { self.dice.random_range(least..=most) };
        let there = if whole == 0 { 0 } else { self.dice.random_range(0..=whole) };
        let timeout = self.program.timeout();
        (Duration::from_millis(there), Duration::from_millis(whole - there), timeout)
    }

    /// What was due before now happens: late requests arrive, things drift, what is gone ceases to show.
    fn catch_up(&mut self, now: Timestamp) {
        while let Some(first) = (0..self.late.len()).min_by_key(|at| self.late[*at].0) {
            if now < self.late[first].0 {
                break;
            }
            let (at, request) = self.late.remove(first);
            drop(self.carry_out(&request, Extent::Full, at));
        }
        while let Some(at) = self.next_drift.filter(|at| *at <= now) {
            self.drift(at);
            self.next_drift = drift_after(&self.program, at);
        }
        self.cloud.forget(now);
    }

    /// What was due before now happens, and is told.
    pub(super) fn come_about(&mut self, now: Timestamp) {
        self.catch_up(now);
        for serial in self.news.due(now) {
            self.cloud.touch(serial);
        }
        self.come_to_pass(now);
    }

    /// When something happens next by itself.
    pub(super) fn next_turn(&self) -> Option<Timestamp> {
        let late = self.late.iter().map(|(at, _)| *at).min();
        [self.news.next(), late, self.next_drift, self.cloud.next_to_forget()].into_iter().flatten().min()
    }

    pub(super) fn foresee_all(&mut self, now: Timestamp) {
        self.news.foresee_all(&self.cloud, &self.program, now);
    }

    /// Writes down what was done, where the place outlives the process.
    fn keep(&mut self) -> std::io::Result<()> {
        match &mut self.records {
            Some(records) => records.keep(&self.cloud, &self.planted),
            None => Ok(()),
        }
    }

    /// What happened without a request is written down and told.
    fn come_to_pass(&mut self, now: Timestamp) {
        if let Err(error) = self.keep() {
            tracing::warn!(%error, "the records of a simulated place cannot be written");
        }
        self.tell(now);
    }

    /// Puts the guests of the config there, each once.
    fn settle_residents(&mut self, now: Timestamp) {
        let State { cloud, program, planted, .. } = self;
        for resident in &program.existing {
            if !planted.insert(resident.key().to_owned()) {
                continue;
            }
            let power = match resident.run {
                Some(Run::Stopped) => Power::Off { asked: now, runs_from: now, since: now, until: now },
                Some(Run::Running) | None => Power::On { asked: now, runs_from: now },
            };
            let serial = cloud.put(Instance {
                name: resident.name.as_str().into(),
                mark: None,
                body: Body::Machine(fields::kept(&resident.fields())),
                pending: Fields::default(),
                power,
                is_unfinished: false,
                busy_until: now,
                shows_from: now,
                holds_data: resident.holds_data,
            });
            if let Some(id) = &resident.id {
                cloud.name(serial, id);
            }
        }
    }

    fn tell(&mut self, now: Timestamp) {
        self.news.tell(&mut self.cloud, &self.program, now);
    }

    fn drift(&mut self, at: Timestamp) {
        let State { cloud, program, dice, .. } = self;
        let kinds: Vec<DriftKind> = program.drift.iter().copied().collect();
        let Some(serial) = drift::pick(cloud, dice).filter(|_| !kinds.is_empty()) else { return };
        let kind = kinds[dice.random_range(0..kinds.len())];
        drift::happen(cloud, kind, serial, program, dice, at);
    }

    fn log_read<T>(&mut self, now: Timestamp, read: impl FnOnce(&RequestLog) -> T) -> T {
        self.catch_up(now);
        read(&self.log)
    }

    /// A request comes to where the place is.
    fn receive(&mut self, request: Request, now: Timestamp) -> Response {
        self.catch_up(now);
        let refused = |fault: Fault, words: &str| {
            Response::Answer(Err(Error::provider(request.operation(), &request.target(), fault, words)))
        };
        match self.program.down {
            Some(Outage::Refuses) => return refused(Fault::Unreachable, "connection refused"),
            Some(Outage::Silent) => return Response::Silence,
            None => {}
        }
        if let Some(after) = self.throttle(now) {
            return refused(Fault::Throttled { after: Some(after) }, "too many requests");
        }
        match self.fate(request.operation()) {
            Fate::Fine => Response::Answer(self.carry_out(&request, Extent::Full, now)),
            Fate::Unreachable => refused(Fault::Unreachable, "connection refused"),
            Fate::LostRequest => Response::Silence,
            Fate::Late => {
                if request.operation() != Operation::Observe {
                    self.late.push((now + Duration::from_millis(self.program.late_request_ms), request));
                }
                Response::Silence
            }
            Fate::FailedBefore => {
                self.witness(&request, now, None, Effect::None, Err(Fault::Broken));
                refused(Fault::Broken, "internal error")
            }
            // What is refused is refused, whatever else goes wrong; the others fail once they were begun.
            Fate::HalfDone => match self.carry_out(&request, Extent::Half, now) {
                Ok(_) => refused(Fault::Broken, "internal error"),
                error => Response::Answer(error),
            },
            Fate::FailedAfter => match self.carry_out(&request, Extent::Full, now) {
                Ok(_) => refused(Fault::Broken, "internal error"),
                error => Response::Answer(error),
            },
            Fate::LostResponse => {
                drop(self.carry_out(&request, Extent::Full, now));
                Response::Silence
            }
            Fate::Garbled => {
                drop(self.carry_out(&request, Extent::Full, now));
                refused(Fault::Garbled, "<html>502</html>")
            }
        }
    }

    fn fate(&mut self, operation: Operation) -> Fate {
        match self.arranged.iter().position(|arranged| arranged.fits(operation)) {
            Some(at) => self.arranged.remove(at).map_or(Fate::Fine, |arranged| arranged.fate),
            None => fate::draw(&self.program, &mut self.dice),
        }
    }

    /// Until when to wait, if there were too many requests in this second.
    fn throttle(&mut self, now: Timestamp) -> Option<Duration> {
        let limit = self.program.requests_per_second?;
        let second = now.as_second();
        if self.counted.0 != second {
            self.counted = (second, 0);
        }
        self.counted.1 = self.counted.1.saturating_add(1);
        (self.counted.1 > limit).then_some(Duration::from_secs(1))
    }

    /// Does what a request asks for, and writes it into the log.
    fn carry_out(&mut self, request: &Request, extent: Extent, now: Timestamp) -> Result<Reply> {
        let owner_before = self.owner_of_target(request);
        match self.step(request, extent, now) {
            Ok((reply, serial, effect)) => {
                let owner = serial.and_then(|serial| self.owner(serial)).or(owner_before);
                self.witness(request, now, serial.map(|serial| (serial, owner)), effect, Ok(()));
                Ok(reply)
            }
            Err((fault, words)) => {
                self.witness(request, now, None, Effect::None, Err(fault.clone()));
                Err(Error::provider(request.operation(), &request.target(), fault, words))
            }
        }
    }

    fn step(
        &mut self,
        request: &Request,
        extent: Extent,
        now: Timestamp,
    ) -> std::result::Result<(Reply, Option<u64>, Effect), Refusal> {
        let cluster = &*request.cluster;
        let State { cloud, platform, program, .. } = self;
        let done = match &request.verb {
            Verb::Observe(scope) => return Ok((Reply::Observed(self.look(scope, now)), None, Effect::None)),
            Verb::App { app, verb } => {
                let (reply, effect) = platform.step(cluster, app, verb, program, extent, now)?;
                return Ok((reply, None, effect));
            }
            Verb::Create(blueprint) => {
                let Done { serial, effect } = cloud.create(blueprint, program, extent, now)?;
                let id = cloud.id(serial.unwrap_or_default());
                return Ok((Reply::Made(id), serial, effect));
            }
            Verb::Update { id, blueprint } => cloud.update(id, blueprint, program, extent, now),
            Verb::Start { id } => cloud.start(id, cluster, program, extent, now),
            Verb::Stop { id, grace } => cloud.stop(id, cluster, *grace, program, extent, now),
            Verb::Delete { id } => cloud.delete(id, cluster, program, extent, now),
            Verb::Mark { id, mark } => cloud.mark(id, cluster, mark.as_ref(), program, extent, now),
        }?;
        Ok((Reply::Done, done.serial, done.effect))
    }

    /// What shows of what is in scope, as far as it can be read for now.
    fn look(&mut self, scope: &Scope, now: Timestamp) -> Observed {
        let State { cloud, program, dice, .. } = self;
        let is_partial = program.partial_rate > 0.0 && dice.random_bool(program.partial_rate);
        let shown: Vec<(u64, &Instance)> = match scope {
            Scope::Everything => cloud.all().chain(cloud.ghosts()).collect(),
            Scope::Owner(owner) => {
                let is_owned = |instance: &Instance| instance.mark.as_ref().is_some_and(|mark| *mark.owner == **owner);
                let ghosts = cloud.ghosts().filter(|(_, instance)| is_owned(instance));
                cloud.owned(owner).chain(ghosts).collect()
            }
            Scope::Instance(id) => {
                let serial = cloud.serial(id);
                let there = serial.and_then(|serial| Some((serial, cloud.get(serial)?)));
                let ghost = || cloud.ghosts().find(|(ghost, _)| Some(*ghost) == serial);
                there.or_else(ghost).into_iter().collect()
            }
        };
        let mut instances = Vec::with_capacity(shown.len());
        for (serial, instance) in shown.into_iter().filter(|(_, instance)| instance.shows_from <= now) {
            if is_partial && dice.random_bool(0.5) {
                continue;
            }
            let mut falls = |rate: f64| rate > 0.0 && dice.random_bool(rate);
            let sight = match () {
                () if falls(program.unreadable_rate) => Sight::Nothing,
                () if falls(program.unreadable_config_rate) => Sight::State,
                () => Sight::Clear,
            };
            instances.push(instance.observe(cloud.id(serial), serial, program, sight, now));
        }
        let completeness = match is_partial {
            true => Completeness::Partial("the place shows only a part for now".to_owned()),
            false => Completeness::Complete,
        };
        Observed { completeness, instances, observed_at: now }
    }

    fn owner(&self, serial: u64) -> Option<Box<str>> {
        self.cloud.get(serial)?.mark.as_ref().map(|mark| (*mark.owner).into())
    }

    /// The owner of what a request is about to remove.
    fn owner_of_target(&self, request: &Request) -> Option<Box<str>> {
        let Verb::Delete { id } = &request.verb else { return None };
        self.owner(self.cloud.serial(id)?)
    }

    fn witness(
        &mut self,
        request: &Request,
        at: Timestamp,
        done: Option<(u64, Option<Box<str>>)>,
        effect: Effect,
        answer: std::result::Result<(), Fault>,
    ) {
        let (serial, owner) = done.unzip();
        self.log.push(Entry {
            number: 0,
            at,
            operation: request.operation(),
            target: request.target(),
            intent: request.intent.clone(),
            instance: serial.map(|serial| self.cloud.id(serial)),
            owner: owner.flatten(),
            effect,
            answer,
        });
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place").field("instances", &self.len()).finish_non_exhaustive()
    }
}
