//! What survives a crash of an operator: what is desired, and what was written down about it.
//!
//! It stands for the API server. Every object has a version, and a write that was thought out on an older one is refused.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use setpoint_api::step::Action;
use setpoint_core::desired::{Desired, Intent};

#[derive(Debug, Clone)]
pub(super) struct Object {
    pub(super) version: u64,
    pub(super) kind: Kind,
    pub(super) desired: Desired,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Machine,
    Pod,
}

/// What was on record when a call was written down.
#[derive(Debug, Clone)]
pub(super) struct Promise {
    pub(super) uid: Box<str>,
    pub(super) action: Action,
    pub(super) provider_id: Option<Box<str>>,
    /// Whether the object was being deleted.
    pub(super) is_unwanted: bool,
}

#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub(super) objects: BTreeMap<Box<str>, Object>,
    /// Every call that was ever written down.
    pub(super) promises: BTreeMap<Box<str>, Promise>,
    /// The uids of objects that are gone.
    pub(super) past: BTreeSet<Box<str>>,
    versions: u64,
    intents: u64,
}

impl Ledger {
    pub(super) fn insert(&mut self, kind: Kind, desired: Desired) {
        self.versions += 1;
        self.objects.insert(desired.uid.clone(), Object { version: self.versions, kind, desired });
    }

    /// Writes to an object, if nobody else has since `version`. The new version.
    pub(super) fn write(&mut self, uid: &str, version: u64, change: impl FnOnce(&mut Desired)) -> Option<u64> {
        let object = self.objects.get_mut(uid).filter(|object| object.version == version)?;
        change(&mut object.desired);
        self.versions += 1;
        object.version = self.versions;
        Some(object.version)
    }

    /// Writes to an object whatever its version: what a user does, or who only takes back what is his own.
    pub(super) fn amend(&mut self, uid: &str, change: impl FnOnce(&mut Desired)) {
        if let Some(version) = self.objects.get(uid).map(|object| object.version) {
            self.write(uid, version, change);
        }
    }

    /// Writes a call down before it is made. `None` if the object has changed since it was read.
    pub(super) fn promise(
        &mut self,
        object: &mut Object,
        action: Action,
        id: Option<&str>,
        now: Timestamp,
    ) -> Option<Intent> {
        self.intents += 1;
        let intent = Intent {
            id: format!("intent-{}", self.intents).into(),
            action,
            provider_id: id.map(Into::into),
            started_at: now,
            approved: false,
        };
        let uid = object.desired.uid.clone();
        object.version = self.write(&uid, object.version, |desired| desired.record.intents.push(intent.clone()))?;
        object.desired.record.intents.push(intent.clone());
        let is_unwanted = object.desired.deletion.is_some();
        let promise = Promise { uid, action, provider_id: intent.provider_id.clone(), is_unwanted };
        self.promises.insert(intent.id.clone(), promise);
        Some(intent)
    }

    /// Forgets an object whose guest is gone, if nobody has changed it since it was read.
    pub(super) fn remove(&mut self, uid: &str, version: u64) {
        if self.objects.get(uid).is_some_and(|object| object.version == version) {
            self.objects.remove(uid);
            self.past.insert(uid.into());
        }
    }
}
