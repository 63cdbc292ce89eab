//! What waits to be written: what is the same is counted, and what is similar is combined once there is much of it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ObjectReference;
use serde_json::json;
use setpoint_core::digest::Key;
use setpoint_core::pod::NoticeKind;

/// How many Events may wait.
const ROOM: usize = 1000;
/// From how many messages on that differ, on the same object and for the same reason, they are one Event.
const SIMILAR: usize = 10;
/// For how long they are counted together.
const SIMILARITY: SignedDuration = SignedDuration::from_mins(10);
/// For how many objects and reasons that is remembered. What is forgotten is only counted anew.
const REMEMBERED: usize = 4096;
const COMBINED: &str = "(combined from similar events): ";

/// Something that happened.
#[derive(Debug, Clone)]
pub(super) struct Occurrence {
    pub about: ObjectReference,
    pub kind: NoticeKind,
    pub reason: String,
    pub message: String,
    pub at: Timestamp,
    pub number: Option<u64>,
}

/// Things that are one Event: the same thing happened to the same object.
#[derive(Debug, Clone)]
pub(super) struct Group {
    pub last: Occurrence,
    pub first_at: Timestamp,
    /// The numbers of those that have one, and how many have none.
    pub numbers: Vec<u64>,
    pub unnumbered: usize,
}

/// Messages about one object for one reason.
#[derive(Debug)]
struct Similar {
    since: Timestamp,
    messages: BTreeSet<String>,
}

#[derive(Debug, Default)]
pub(super) struct Backlog {
    /// The names of the Events that wait, in the order in which they came.
    order: VecDeque<String>,
    groups: BTreeMap<String, Group>,
    similar: BTreeMap<String, Similar>,
}

impl Group {
    /// How many of them there are beyond a number up to which they were counted before.
    pub(super) fn count_beyond(&self, counted: u64) -> usize {
        self.unnumbered + self.numbers.iter().filter(|number| **number > counted).count()
    }
}

impl Backlog {
    /// False if there is no room for it.
    pub(super) fn add(&mut self, mut occurrence: Occurrence) -> bool {
        if self.is_one_of_many(&occurrence) {
            occurrence.message = format!("{COMBINED}{}", occurrence.message);
        }
        let name = name_of(&occurrence);
        if let Some(group) = self.groups.get_mut(&name) {
            group.count(occurrence);
            return true;
        }
        if self.order.len() >= ROOM {
            return false;
        }
        let (first_at, numbers) = (occurrence.at, occurrence.number.into_iter().collect());
        let unnumbered = usize::from(occurrence.number.is_none());
        self.groups.insert(name.clone(), Group { last: occurrence, first_at, numbers, unnumbered });
        self.order.push_back(name);
        true
    }

    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// The Event that has waited longest, by its name.
    pub(super) fn take(&mut self) -> Option<(String, Group)> {
        let name = self.order.pop_front()?;
        let group = self.groups.remove(&name)?;
        Some((name, group))
    }

    fn is_one_of_many(&mut self, occurrence: &Occurrence) -> bool {
        let is_over = |similar: &Similar| occurrence.at.duration_since(similar.since) > SIMILARITY;
        let likeness =
            digest(&[occurrence.about.uid.as_deref(), Some(word(occurrence.kind)), Some(&occurrence.reason)]);
        if self.similar.len() >= REMEMBERED && !self.similar.contains_key(&likeness) {
            self.similar.retain(|_, similar| !is_over(similar));
            if self.similar.len() >= REMEMBERED {
                self.similar.clear();
            }
        }
        let new = || Similar { since: occurrence.at, messages: BTreeSet::new() };
        let similar = self.similar.entry(likeness).or_insert_with(new);
        if is_over(similar) {
            *similar = new();
        }
        let message = digest(&[Some(&occurrence.message)]);
        if similar.messages.contains(&message) {
            return false;
        }
        similar.messages.len() >= SIMILAR || !similar.messages.insert(message)
    }
}

impl Group {
    fn count(&mut self, occurrence: Occurrence) {
        match occurrence.number {
            Some(number) if self.numbers.contains(&number) => return,
            Some(number) => self.numbers.push(number),
            None => self.unnumbered += 1,
        }
        self.last = occurrence;
    }
}

pub(super) fn word(kind: NoticeKind) -> &'static str {
    match kind {
        NoticeKind::Normal => "Normal",
        NoticeKind::Warning => "Warning",
    }
}

/// What is combined has one name, whatever it says.
fn name_of(occurrence: &Occurrence) -> String {
    let Occurrence { about, kind, reason, message, .. } = occurrence;
    let message = if message.starts_with(COMBINED) { COMBINED } else { message };
    let (uid, field) = (about.uid.as_deref(), about.field_path.as_deref());
    let digest = digest(&[uid, Some(word(*kind)), Some(reason), field, Some(message)]);
    format!("{}.{digest}", about.name.as_deref().unwrap_or_default())
}

/// Nothing here is secret: a digest only makes a short name.
fn digest(parts: &[Option<&str>]) -> String {
    let digest = Key::new([0; 32]).digest(&json!(parts));
    digest.rsplit(':').next().and_then(|digest| digest.get(..16)).unwrap_or_default().to_owned()
}
