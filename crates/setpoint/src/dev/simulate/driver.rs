//! Decides everything that is left to chance, by the seed: who is told what and when, who works next, what becomes of each
//! request, when time passes, what people do, and when all of it crashes.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use http::StatusCode;
use setpoint_store::Store;
use tokio::time::Instant;

use super::convergence;
use super::crew::Crew;
use super::dice::Dice;
use super::feed::MOMENT;
use super::gate::Fate;
use super::ledger::Books;
use super::panics;
use super::places::{self, Read, Strangers};
use super::rules::{Actor, Rules};
use super::users::Users;
use super::world::World;

/// How many commits in a thousand fail while things go wrong.
const COMMIT_FAULTS: u32 = 10;
/// How long everything may take to be as it should once nothing goes wrong any more.
const PATIENCE: Duration = Duration::from_secs(3600);
/// How long after that what failed before may still be tried again.
const AFTERMATH: Duration = Duration::from_secs(120);
/// How long nothing may happen then.
const QUIET: Duration = Duration::from_secs(200);
/// A lull that takes more turns than this does not come to an end.
const MOST_TURNS: usize = 20_000;

/// What can be done next.
#[derive(Debug, Clone, Copy)]
enum Move {
    Deliver,
    Begin,
    Release,
    Act,
    Trouble,
    Wait,
    Cut,
    Crash,
    Resign,
    Rival,
    Compact,
}

pub(super) struct Driver {
    world: World,
    dice: Dice,
    users: Users,
    crews: Vec<Crew>,
    strangers: Strangers,
    read: Read,
    /// How many there were, to tell them apart.
    started: usize,
}

impl Driver {
    pub(super) async fn new(world: World, seed: u64) -> Driver {
        let dice = Dice::new(seed, 4);
        let users = Users::new(&world, Dice::new(seed, 5));
        let mut driver = Driver {
            world,
            dice,
            users,
            crews: Vec::new(),
            strangers: Strangers::default(),
            read: Read::default(),
            started: 0,
        };
        driver.users.settle_somewhere(&driver.world.ledger).await;
        driver.start_crew();
        driver
    }

    /// A bout: things go wrong, and no rule is broken.
    pub(super) async fn bout(&mut self, steps: usize) -> Result<()> {
        self.world.store.fail(COMMIT_FAULTS);
        for _ in 0..steps {
            self.step().await;
            self.judge()?;
        }
        self.world.store.fail(0);
        Ok(())
    }

    /// A lull: nothing goes wrong any more, and everything comes to be as it should, and stays so.
    pub(super) async fn lull(&mut self) -> Result<()> {
        self.say("lull", "nothing goes wrong any more");
        // A leader that was not told of its successor ends at last.
        self.crews.truncate(1);
        places::peace(&self.world)?;
        let begin = Instant::now();
        loop {
            self.users.provide(&self.world.ledger).await.context("people cannot write settings")?;
            self.users.settle_somewhere(&self.world.ledger).await;
            self.users.leave_what_goes(&self.world.ledger).await;
            self.users.approve_everything(&self.world.ledger).await.context("people cannot approve")?;
            self.come_to_rest().await?;
            let unmet = self.unmet();
            if unmet.is_empty() {
                break;
            }
            if begin.elapsed() > PATIENCE {
                bail!("this is not as it should be:\n  {}", unmet.join("\n  "));
            }
            self.wait(self.next_due()).await;
        }
        self.stay_quiet().await?;
        self.world.ledger.rules(|rules, books| rules.calm(books));
        Ok(())
    }

    /// Nothing is done for nothing.
    async fn stay_quiet(&mut self) -> Result<()> {
        self.pass(AFTERMATH).await?;
        drop(self.world.ledger.changes());
        self.pass(QUIET).await?;
        let changes = self.world.ledger.changes();
        if !changes.is_empty() {
            bail!("this was changed though everything was as it should be:\n  {}", changes.join("\n  "));
        }
        let unmet = self.unmet();
        if !unmet.is_empty() {
            bail!("this does not stay as it should be:\n  {}", unmet.join("\n  "));
        }
        Ok(())
    }

    /// Lets time pass in which whatever is due happens.
    async fn pass(&mut self, time: Duration) -> Result<()> {
        let begin = Instant::now();
        while begin.elapsed() < time {
            self.wait(self.next_due()).await;
            self.come_to_rest().await?;
        }
        Ok(())
    }

    /// What is not as it should be.
    fn unmet(&self) -> Vec<String> {
        self.world.ledger.read(|books| {
            let mut unmet = convergence::unmet(books);
            unmet.extend(places::unmet(&self.world, books));
            unmet
        })
    }

    /// Lets everything happen that can happen without waiting.
    async fn come_to_rest(&mut self) -> Result<()> {
        for _ in 0..MOST_TURNS {
            let mut is_idle = true;
            for at in 0..self.crews.len() {
                self.crews[at].wake();
                for feed in 0..self.crews[at].feeds.len() {
                    if self.crews[at].feeds[feed].is_behind() {
                        is_idle = false;
                        self.deliver(at, feed).await;
                    }
                }
                while let Some(ready) = self.crews[at].ready().first().copied() {
                    is_idle = false;
                    self.begin(at, ready);
                    self.settle().await;
                }
                for (number, what) in self.crews[at].gate.waiting() {
                    is_idle = false;
                    self.release(at, number, &what, Fate::Fine).await;
                }
            }
            self.settle().await;
            self.judge()?;
            if is_idle && self.crews.iter().all(Crew::is_idle) {
                return Ok(());
            }
        }
        bail!("it does not come to rest")
    }

    async fn step(&mut self) {
        let behind = self.behind();
        let ready: Vec<(usize, (usize, usize))> = self.each_crew(|crew| crew.ready());
        let waiting: Vec<(usize, (u64, String))> = self.each_crew(|crew| crew.gate.waiting());
        let weight = |weight: u32, is_possible: bool| if is_possible { weight } else { 0 };
        let moves = [
            (weight(40, !behind.is_empty()), Move::Deliver),
            (weight(30, !ready.is_empty()), Move::Begin),
            (weight(40, !waiting.is_empty()), Move::Release),
            (2, Move::Trouble),
            (8, Move::Act),
            (4, Move::Wait),
            (1, Move::Cut),
            (1, Move::Crash),
            (1, Move::Resign),
            (weight(1, self.crews.len() < 2), Move::Rival),
            (1, Move::Compact),
        ];
        match self.dice.weighted(&moves).unwrap_or(Move::Wait) {
            Move::Deliver => {
                if let Some((crew, feed)) = self.dice.pick(&behind) {
                    self.deliver(*crew, *feed).await;
                }
            }
            Move::Begin => {
                if let Some((crew, which)) = self.dice.pick(&ready) {
                    self.begin(*crew, *which);
                }
            }
            Move::Release => {
                if let Some((crew, (number, what))) = self.dice.pick(&waiting) {
                    let fate = self.fate();
                    self.release(*crew, *number, what, fate).await;
                }
            }
            Move::Trouble => {
                let said = places::trouble(&self.world, &self.dice).unwrap_or_else(|error| error.to_string());
                self.say("place", &said);
            }
            Move::Act => {
                let said = self.users.act(&self.world.ledger).await;
                self.say("people", &said);
            }
            Move::Wait => {
                let most = if self.dice.permille(200) { 90_000 } else { 500 };
                tokio::time::sleep(Duration::from_millis(self.dice.between(1, most))).await;
            }
            Move::Cut => self.cut(),
            Move::Crash => self.crash().await,
            Move::Resign => {
                let crew = self.dice.below(self.crews.len());
                self.crews[crew].resign();
                let name = self.crews[crew].name.clone();
                self.say(&name, "leads no longer");
            }
            Move::Rival => {
                self.world.ledger.rules(|rules, _| rules.had_rivals = true);
                self.start_crew();
            }
            Move::Compact => {
                let revision = self.world.store.revision();
                let _ = self.world.store.compact(revision).await;
                self.say("store", "forgets its history");
            }
        }
        self.settle().await;
    }

    fn fate(&self) -> Fate {
        let fates = [
            (880, Fate::Fine),
            (40, Fate::Lost),
            (50, Fate::Unanswered),
            (10, Fate::Refused(StatusCode::INTERNAL_SERVER_ERROR)),
            (10, Fate::Refused(StatusCode::TOO_MANY_REQUESTS)),
            (10, Fate::Refused(StatusCode::GATEWAY_TIMEOUT)),
        ];
        self.dice.weighted(&fates).unwrap_or(Fate::Fine)
    }

    fn start_crew(&mut self) {
        self.started += 1;
        let name = format!("crew-{}", self.started);
        self.say(&name, "starts");
        self.crews.push(Crew::start(&self.world, name));
    }

    async fn deliver(&mut self, crew: usize, feed: usize) {
        let crew = &mut self.crews[crew];
        let (name, kind) = (crew.name.clone(), crew.feeds[feed].kind());
        let said = crew.feeds[feed].deliver().await;
        crew.wake();
        if let Some(said) = said {
            self.say(&name, &format!("is told: {kind} {said}"));
        }
    }

    fn begin(&mut self, crew: usize, which: (usize, usize)) {
        let said = self.crews[crew].begin(which);
        let name = self.crews[crew].name.clone();
        self.say(&name, &format!("begins {said}"));
    }

    async fn release(&mut self, crew: usize, number: u64, what: &str, fate: Fate) {
        let name = self.crews[crew].name.clone();
        self.say(&name, &format!("sends {what} {fate:?}"));
        self.world.ledger.rules(|rules, _| rules.actor = Actor::Controllers);
        self.crews[crew].gate.release(number, fate);
        self.settle().await;
        self.world.ledger.rules(|rules, _| rules.actor = Actor::World);
    }

    fn cut(&mut self) {
        let crew = self.dice.below(self.crews.len());
        let feed = self.dice.below(self.crews[crew].feeds.len());
        let forgets = self.dice.permille(500);
        self.crews[crew].feeds[feed].cut(forgets);
        let (name, kind) = (self.crews[crew].name.clone(), self.crews[crew].feeds[feed].kind());
        self.say(&name, &format!("loses its watch of {kind}{}", if forgets { " and lists" } else { "" }));
    }

    /// A crew ends where it stands, perhaps just after something that it sent was done; another takes its place.
    async fn crash(&mut self) {
        let at = self.dice.below(self.crews.len());
        if let Some((number, what)) = self.dice.pick(&self.crews[at].gate.waiting())
            && self.dice.permille(500)
        {
            self.release(at, *number, what, Fate::Unanswered).await;
        }
        let crew = self.crews.remove(at);
        self.say(&crew.name, "crashes");
        drop(crew);
        if self.crews.is_empty() {
            self.start_crew();
        }
    }

    /// Lets time pass until something is due, for a second at most.
    async fn wait(&self, due: Option<Instant>) {
        let soon = Instant::now() + Duration::from_secs(1);
        tokio::time::sleep_until(due.unwrap_or(soon).min(soon)).await;
    }

    fn next_due(&self) -> Option<Instant> {
        self.crews.iter().filter_map(Crew::next_due).min().map(|due| due.max(Instant::now() + MOMENT))
    }

    /// Lets everything happen that follows from what was done. Time passes only when nothing is left to do.
    async fn settle(&mut self) {
        tokio::time::sleep(MOMENT).await;
    }

    /// What is behind, by crew and feed.
    fn behind(&self) -> Vec<(usize, usize)> {
        self.each_crew(|crew| (0..crew.feeds.len()).filter(|feed| crew.feeds[*feed].is_behind()).collect())
    }

    fn each_crew<T>(&self, read: impl Fn(&Crew) -> Vec<T>) -> Vec<(usize, T)> {
        let each = self.crews.iter().enumerate();
        each.flat_map(|(at, crew)| read(crew).into_iter().map(move |item| (at, item))).collect()
    }

    /// Fails if a rule was broken or work panicked.
    fn judge(&mut self) -> Result<()> {
        self.strangers.settle(&self.world);
        for (place, entry) in self.read.news(&self.world) {
            self.say("place", &format!("{place}: {entry}"));
            self.world.ledger.rules(|rules, books| rules.reached(books, place, &entry));
        }
        let broken = |rules: &mut Rules, _: &Books| {
            let mut broken = rules.broken();
            broken.extend(places::broken(&self.world, &self.strangers, &rules.approvals));
            broken
        };
        let mut broken = self.world.ledger.rules(broken);
        broken.extend(panics::take().map(|panic| format!("something panicked: {panic}")));
        for at in 0..self.crews.len() {
            for said in self.crews[at].ended() {
                self.say(&self.crews[at].name, &format!("ends {said}"));
            }
        }
        if broken.is_empty() { Ok(()) } else { bail!("a rule was broken:\n  {}", broken.join("\n  ")) }
    }

    fn say(&self, who: &str, what: &str) {
        self.world.trace.say(format!("{who:<7} {what}"));
    }
}
