//! The task that follows the store and writes down what was decided and done there.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::de::DeserializeOwned;
use setpoint_store::{At, Error, Event, Range, Revision, Store, Watch};
use tokio::time::MissedTickBehavior;

use super::files::Family;
use super::position::Position;
use super::record::{Entry, Fact, GapFact, names};
use super::reviews::{self, Meta, StoredChangeSet, StoredReview};
use super::steps::{self, StoredMachine};
use super::{Decisions, RETRY};
use crate::object::Stored;

const CHANGE_SETS: &str = "/setpoint.dev/changesets/";
const MACHINES: &str = "/setpoint.dev/machines/";
const REVIEWS: &str = "/setpoint.dev/reviews/";
const KUBE_SYSTEM: &str = "/core/namespaces/kube-system";

/// How many changes are worked on before what they say is written.
const CHANGES: usize = 256;
/// How many objects are read at a time.
const PAGE: usize = 500;
/// How often the position is noted where nothing was decided.
const NOTE: Duration = Duration::from_secs(30);
/// How often files are looked through for what is too old.
const PRUNE: Duration = Duration::from_secs(60 * 60);
/// How much earlier than it was noted a position may be true.
const LATE: SignedDuration = SignedDuration::from_secs(60);

impl Decisions {
    /// Follows a store from where the log ends, until the store is closed.
    pub(crate) fn follow(&self, store: Arc<dyn Store>) {
        let (log, mut follower) = (self.clone(), self.0.follower.lock());
        *follower = Some(tokio::spawn(async move { run(log, store).await }));
    }
}

async fn run(log: Decisions, store: Arc<dyn Store>) {
    loop {
        let ended = match Follower::begin(log.clone(), store.clone()).await {
            Ok((mut follower, watch)) => follower.follow(watch).await,
            Err(error) => error,
        };
        match ended {
            Error::Closed => return,
            // The store has forgotten what comes next.
            Error::Compacted { .. } => {}
            error => {
                tracing::warn!(%error, "the decision log cannot read the store");
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

struct Follower {
    log: Decisions,
    store: Arc<dyn Store>,
    cluster: String,
    /// Where change sets are stored, by their uids.
    change_sets: HashMap<String, Arc<str>>,
    noted: Revision,
}

impl Follower {
    /// Begins where the log ends. Where the store does not remember that, what is there now is looked through for what the
    /// log may lack.
    async fn begin(log: Decisions, store: Arc<dyn Store>) -> Result<(Follower, Box<dyn Watch>), Error> {
        let namespace = store.get(KUBE_SYSTEM, At::Now).await?.value;
        let cluster = namespace.map(|entry| Stored::from(&entry).metadata_as::<Meta>().uid).unwrap_or_default();
        let position = Position::read(&log.0.folder).unwrap_or_else(|error| {
            tracing::warn!(%error, "the position of the decision log cannot be read");
            None
        });
        let position = position.filter(|position| position.cluster == cluster);
        let mut follower = Follower { log, store, cluster, change_sets: HashMap::new(), noted: 0 };
        let held = follower.store.oldest()..=follower.store.revision();
        let revision = match position.as_ref().filter(|position| held.contains(&position.revision)) {
            Some(position) => {
                // As they were then: some may be gone by now, and what follows tells of their steps.
                follower.learn_change_sets(position.revision).await?;
                position.revision
            }
            None => follower.look_through(position.as_ref()).await?,
        };
        let watch = follower.store.watch("/", revision)?;
        follower.log.0.followed.store(revision, Ordering::Relaxed);
        Ok((follower, watch))
    }

    async fn learn_change_sets(&mut self, revision: Revision) -> Result<(), Error> {
        let mut sets = Vec::new();
        self.visit(CHANGE_SETS, At::Revision(revision), |stored, key| {
            sets.push((stored.metadata_as::<Meta>().uid, key.clone()))
        })
        .await?;
        self.change_sets.extend(sets);
        Ok(())
    }

    /// Writes down what the objects that are there tell of since the position; all that they do, where there is none.
    async fn look_through(&mut self, position: Option<&Position>) -> Result<Revision, Error> {
        let revision = self.store.revision();
        self.learn_change_sets(revision).await?;
        let now = Timestamp::now();
        let since = position.map(|position| position.time.checked_sub(LATE).unwrap_or(Timestamp::MIN));
        let mut found: Vec<Arc<Event>> = Vec::new();
        for directory in [REVIEWS, MACHINES, CHANGE_SETS] {
            let at = At::Revision(revision);
            self.visit(directory, at, |stored, key| found.push(Arc::new(as_new(stored, key)))).await?;
        }
        let mut entries = Vec::new();
        if let Some(since) = since {
            let message = "the server was away, or the log could not be written, for longer than the store remembers";
            let fact = Fact::Gap(GapFact { since, message: message.to_owned() });
            entries.push((Family::Decisions, Entry { id: format!("gap/{since}/{revision}"), time: now, fact }));
        }
        for event in found {
            let told = self.entries(&event).await?;
            entries.extend(told.into_iter().filter(|(_, entry)| since.is_none_or(|since| entry.time >= since)));
        }
        if !self.write(&entries, revision).await {
            return Err(Error::Closed);
        }
        Ok(revision)
    }

    async fn visit(&self, scope: &str, mut at: At, mut visit: impl FnMut(&Stored, &Arc<str>)) -> Result<(), Error> {
        let mut after: Option<Arc<str>> = None;
        loop {
            let page = self.store.range(Range { scope, after: after.as_deref(), limit: PAGE, at }).await?;
            at = At::Revision(page.revision);
            page.entries.iter().for_each(|entry| visit(&Stored::from(entry), &entry.key));
            match page.entries.last() {
                Some(last) if page.more => after = Some(last.key.clone()),
                _ => return Ok(()),
            }
            tokio::task::yield_now().await;
        }
    }

    /// Follows the changes of the store until it ends or forgets.
    async fn follow(&mut self, mut watch: Box<dyn Watch>) -> Error {
        let (mut note, mut prune) = (tokio::time::interval(NOTE), tokio::time::interval(PRUNE));
        for interval in [&mut note, &mut prune] {
            interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        }
        loop {
            tokio::select! {
                event = watch.next() => {
                    let worked = match event {
                        Ok(event) => self.work(event, watch.as_mut()).await,
                        Err(error) => Err(error),
                    };
                    if let Err(error) = worked {
                        self.note_position(watch.progress());
                        return error;
                    }
                }
                _ = note.tick() => self.note_position(watch.progress()),
                _ = prune.tick() => {
                    if let Err(error) = self.log.prune(Timestamp::now()) {
                        tracing::warn!(%error, "old files of the decision log cannot be removed");
                    }
                }
            }
        }
    }

    /// Writes down what an event tells, and those that are at hand after it.
    async fn work(&mut self, first: Arc<Event>, watch: &mut dyn Watch) -> Result<(), Error> {
        let (mut entries, mut event, mut count) = (Vec::new(), first, 0);
        let ended = loop {
            entries.extend(self.entries(&event).await?);
            count += 1;
            if count == CHANGES {
                break Ok(());
            }
            match watch.try_next() {
                Ok(Some(next)) => event = next,
                Ok(None) => break Ok(()),
                // What came before the end is written all the same.
                Err(error) => break Err(error),
            }
        };
        match self.write(&entries, event.revision).await {
            true => ended,
            false => Err(Error::Closed),
        }
    }

    /// Writes entries down, and notes that all is written up to a revision; false if the program ends before.
    async fn write(&mut self, entries: &[(Family, Entry)], revision: Revision) -> bool {
        if !entries.is_empty() && !self.log.keep(entries).await {
            return false;
        }
        self.log.0.followed.store(revision, Ordering::Relaxed);
        if !entries.is_empty() {
            self.note_position(revision);
        }
        true
    }

    /// Where this fails, more is written a second time after the next start, and nothing else.
    fn note_position(&mut self, revision: Revision) {
        let revision = revision.min(self.log.followed());
        if revision == self.noted {
            return;
        }
        let position = Position { cluster: self.cluster.clone(), revision, time: Timestamp::now() };
        match position.write(&self.log.0.folder) {
            Ok(()) => self.noted = revision,
            Err(error) => tracing::warn!(%error, "the position of the decision log cannot be written"),
        }
    }

    /// What an event tells.
    async fn entries(&mut self, event: &Event) -> Result<Vec<(Family, Entry)>, Error> {
        let key = &*event.key;
        if !key.starts_with("/setpoint.dev/") {
            return Ok(Vec::new());
        }
        let before = event.previous.as_ref().map(|(bytes, revision)| Stored::new(bytes.clone(), *revision));
        let after = event.value.as_ref().map(|bytes| Stored::new(bytes.clone(), event.revision));
        let now = Timestamp::now();
        if key.starts_with(REVIEWS) {
            let (before, after) = (read::<StoredReview>(before.as_ref()), read::<StoredReview>(after.as_ref()));
            let Some(review) = after.filter(|after| reviews::is_news(before.as_ref(), after)) else {
                return Ok(Vec::new());
            };
            // A change set and its gate have one name.
            let set = format!("{CHANGE_SETS}{}/{}", review.metadata.namespace, review.spec.gate);
            let set = self.change_set(&set, event.revision).await?;
            return Ok(reviews::entries(before.as_ref(), &review, set.as_ref(), now));
        }
        if key.starts_with(MACHINES) {
            // Most writes are of what was seen.
            let concerns =
                |stored: &Option<Stored>| stored.as_ref().is_some_and(|stored| stored.contains("\"intents\":"));
            if before.is_some() && !concerns(&before) && !concerns(&after) {
                return Ok(Vec::new());
            }
            let (before, after) = (read::<StoredMachine>(before.as_ref()), read::<StoredMachine>(after.as_ref()));
            return self.complete(steps::of_machine(before.as_ref(), after.as_ref(), now), event.revision).await;
        }
        if key.starts_with(CHANGE_SETS) {
            let meta = |stored: &Stored| stored.metadata_as::<Meta>().uid;
            let Some(stored) = &after else {
                before.as_ref().map(|before| self.change_sets.remove(&meta(before)));
                return Ok(Vec::new());
            };
            if before.is_none() {
                self.change_sets.insert(meta(stored), event.key.clone());
            }
            if !stored.contains("\"stepStates\":") {
                return Ok(Vec::new());
            }
            let (before, after) = (read::<StoredChangeSet>(before.as_ref()), read::<StoredChangeSet>(after.as_ref()));
            let Some(after) = after else { return Ok(Vec::new()) };
            return self.complete(steps::of_guests(before.as_ref(), &after), event.revision).await;
        }
        Ok(Vec::new())
    }

    /// Adds to steps what their change sets say of them, and who approved them.
    async fn complete(&self, entries: Vec<Entry>, revision: Revision) -> Result<Vec<(Family, Entry)>, Error> {
        let mut completed = Vec::with_capacity(entries.len());
        for mut entry in entries {
            let mut family = Family::Steps;
            if let Fact::Step(step) = &mut entry.fact
                && let Some(uid) = step.change_set.as_ref().map(|set| set.uid.clone())
            {
                family = Family::Decisions;
                if let Some(key) = self.change_sets.get(&uid)
                    && let Some(set) = self.change_set(key, revision).await?.filter(|set| set.metadata.uid == uid)
                {
                    steps::complete(step, &set);
                    let approvals = self.approvals(&set, &step.digest, revision).await?;
                    let by = |counts| approvals.iter().filter(move |approval| approval.1 == counts);
                    step.approved_by = names(by(Some(true)).map(|(name, _)| name.as_str()));
                    step.approvals_not_judged = names(by(None).map(|(name, _)| name.as_str()));
                }
            }
            completed.push((family, entry));
        }
        Ok(completed)
    }

    /// Who approved a step of a change set, and whether that counts, as far as it is on record at a revision.
    async fn approvals(
        &self,
        set: &StoredChangeSet,
        digest: &str,
        revision: Revision,
    ) -> Result<BTreeSet<(String, Option<bool>)>, Error> {
        let (scope, mut approvals) = (format!("{REVIEWS}{}/", set.metadata.namespace), BTreeSet::new());
        let at = if revision >= self.store.oldest() { At::Revision(revision) } else { At::Now };
        self.visit(&scope, at, |stored, _| {
            // Most are of other steps, and need not be read.
            let review = stored.contains(digest).then(|| read::<StoredReview>(Some(stored))).flatten();
            let is_of_set = |review: &StoredReview| review.spec.gate == set.metadata.name && review.approves(digest);
            if let Some(review) = review.filter(is_of_set) {
                let counts = review.counts();
                approvals.insert((review.spec.reviewer, counts));
            }
        })
        .await?;
        Ok(approvals)
    }

    async fn change_set(&self, key: &str, revision: Revision) -> Result<Option<StoredChangeSet>, Error> {
        let found = match self.store.get(key, At::Revision(revision)).await {
            Err(Error::Compacted { .. }) => self.store.get(key, At::Now).await?,
            found => found?,
        };
        Ok(read(found.value.as_ref().map(Stored::from).as_ref()))
    }
}

/// What counts of a stored object. One that is not as its kind has it says nothing.
fn read<T: DeserializeOwned>(stored: Option<&Stored>) -> Option<T> {
    stored.and_then(|stored| stored.read_as().ok())
}

/// An object as if it had come into being as it is.
fn as_new(stored: &Stored, key: &Arc<str>) -> Event {
    let (value, revision) = (Some(stored.bytes().clone()), stored.revision());
    Event { revision, key: key.clone(), value, previous: None, derived: std::sync::OnceLock::new() }
}
