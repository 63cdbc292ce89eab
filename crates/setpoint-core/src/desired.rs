//! What should exist: one object's desire for a guest, and what is on record about it.

use std::collections::BTreeMap;

use jiff::Timestamp;
pub use setpoint_api::environment::Create;
pub use setpoint_api::machine::{DeletionPolicy, Run};
use setpoint_api::price::Price;
use setpoint_api::step::{Action, Origin, Target};

use crate::digest::Key;
use crate::observation::Guest;
use crate::order::natural;
use crate::value::{Fields, Value};

/// One object's desire for a guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Desired {
    pub target: Target,
    /// The object's uid; a guest's mark names its owner by it.
    pub uid: Box<str>,
    /// The guest it insists on, by the provider's id.
    pub provider_id: Option<Box<str>>,
    /// What the guest is to be like. A field that is not here is not managed.
    pub fields: Fields,
    /// Whether it is to run; unset is not managed.
    pub run: Option<Run>,
    pub create: Create,
    /// The objects whose guests must be as desired before this one's.
    pub depends_on: Vec<Target>,
    /// Those of them that are in other environments, and how each is.
    pub elsewhere: BTreeMap<Target, Elsewhere>,
    /// The objects in other environments that depend on this one, and that it has to outlive.
    pub needed_elsewhere: Vec<Target>,
    /// Whether the guest must not be removed, not even to be replaced.
    pub protected: bool,
    /// What becomes of the guest, once the object is being deleted or its time is over.
    pub deletion: Option<DeletionPolicy>,
    /// Since when its time has been over, if it is to go for that and not with its object.
    pub expired_at: Option<Timestamp>,
    /// Fields whose drift is not corrected: `description`, `env.MODEL`.
    pub muted: Vec<Box<str>>,
    /// What the guest costs once it is as desired and runs; absent where no price is known.
    pub hourly_price: Option<Price>,
    pub record: Record,
}

/// How an object is that is planned for elsewhere, by what it says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Elsewhere {
    AsDesired,
    NotYet,
    Leaving,
}

/// What was written down about an object's guest.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Record {
    pub provider_id: Option<Box<str>>,
    /// What the guest was last made from.
    pub spec_digest: Option<Box<str>>,
    /// The fields and keys that were then written from Secrets.
    pub secrets: Vec<Box<str>>,
    /// Calls that were begun and whose outcome is not on record yet.
    pub intents: Vec<Intent>,
    /// When that was observed which the record tells. An earlier look knows less than the record and proves nothing.
    pub observed_at: Option<Timestamp>,
}

impl Record {
    /// Whether a look was made before what is on record was observed.
    pub fn is_newer_than(&self, observed_at: Timestamp) -> bool {
        self.observed_at.is_some_and(|recorded| observed_at < recorded)
    }
}

/// A call that was written down before it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intent {
    pub id: Box<str>,
    pub action: Action,
    /// The guest it was made to; absent for a create.
    pub provider_id: Option<Box<str>>,
    pub started_at: Timestamp,
    /// Whether people approved it: that serves once.
    pub approved: bool,
}

impl Desired {
    /// A desire for a guest of which nothing is managed yet; the rest with struct update syntax.
    pub fn new(target: Target, uid: &str) -> Desired {
        Desired {
            target,
            uid: uid.into(),
            provider_id: None,
            fields: Fields::default(),
            run: None,
            create: Create::Always,
            depends_on: Vec::new(),
            elsewhere: BTreeMap::new(),
            needed_elsewhere: Vec::new(),
            protected: false,
            deletion: None,
            expired_at: None,
            muted: Vec::new(),
            hourly_price: None,
            record: Record::default(),
        }
    }

    /// Why the guest goes, once it is to.
    pub(crate) fn farewell(&self) -> String {
        match self.expired_at {
            Some(at) => format!("its time was over at {at}"),
            None => "the object is being deleted".to_owned(),
        }
    }

    /// The digest of what the guest is made from: its fields. Whether it runs is not part of it.
    pub fn spec_digest(&self, key: &Key) -> String {
        key.digest(&self.fields.iter().map(|(name, value)| (name.to_owned(), value.reveal())).collect())
    }

    /// Whether the drift of a field, or of one key of it, is muted.
    pub fn mutes(&self, path: &str) -> bool {
        self.muted
            .iter()
            .any(|muted| path.strip_prefix(&**muted).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
    }

    /// The fields and keys with secrets in them, to be put on record when they are written.
    pub fn secrets(&self) -> Vec<Box<str>> {
        let mut paths = Vec::new();
        for (name, value) in self.fields.iter().filter(|(_, value)| value.is_sensitive()) {
            match value {
                Value::Map(entries) => {
                    let keys = entries.iter().filter(|(_, value)| value.is_sensitive());
                    paths.extend(keys.map(|(key, _)| format!("{name}.{key}").into()));
                }
                _ => paths.push(name.into()),
            }
        }
        paths
    }

    /// Why a guest and the desire differ, told by what the guest was last made from.
    pub fn origin(&self, guest: &Guest, key: &Key) -> Origin {
        let marked = guest.mark.as_ref().and_then(|mark| mark.spec_digest.as_deref());
        match self.record.spec_digest.as_deref().or(marked) {
            _ if guest.mark.is_none() => Origin::Desired,
            None => Origin::Unrecorded,
            Some(digest) if *digest == self.spec_digest(key) => Origin::Drift,
            Some(_) => Origin::Desired,
        }
    }

    /// Of the guests that carry its mark, the one that is its guest: the one it insists on; one that was made from just
    /// this, since a replacement was under way; the one on record; one that a call on record made; the first.
    pub fn kept<'g>(&self, owned: impl Iterator<Item = &'g Guest> + Clone, key: &Key) -> Option<&'g Guest> {
        let mut first_two = owned.clone();
        let (first, second) = (first_two.next()?, first_two.next());
        if second.is_none() {
            return Some(first);
        }
        let digest = self.spec_digest(key);
        let preference = |guest: &Guest| {
            let is_pinned = self.provider_id.as_ref() == Some(&guest.id);
            let is_current = guest.mark.as_ref().and_then(|mark| mark.spec_digest.as_deref()) == Some(&*digest);
            let is_recorded = self.record.provider_id.as_ref() == Some(&guest.id);
            let made_by = guest.mark.as_ref().and_then(|mark| mark.intent.as_ref());
            let is_intended = self.record.intents.iter().any(|intent| made_by == Some(&intent.id));
            (!is_pinned, !is_current, !is_recorded, !is_intended)
        };
        owned.min_by(|one, other| preference(one).cmp(&preference(other)).then_with(|| natural(&one.id, &other.id)))
    }
}
