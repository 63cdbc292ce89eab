//! What should exist: one object's desire for a guest, and what is on record about it.

use jiff::Timestamp;
use serde_json::json;
pub use setpoint_api::environment::Create;
pub use setpoint_api::machine::{DeletionPolicy, Run};
use setpoint_api::price::Price;
use setpoint_api::step::{Action, Target};

use crate::digest::{self, Key};
use crate::value::Fields;

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
    /// Whether the guest must not be removed, not even to be replaced.
    pub protected: bool,
    /// What becomes of the guest, once the object is being deleted.
    pub deletion: Option<DeletionPolicy>,
    /// Fields whose drift is not corrected: `description`, `env.MODEL`.
    pub muted: Vec<Box<str>>,
    /// What the guest costs once it is as desired and runs; absent where no price is known.
    pub hourly_price: Option<Price>,
    pub record: Record,
}

/// What was written down about an object's guest.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Record {
    pub provider_id: Option<Box<str>>,
    /// What the guest was last made from.
    pub spec_digest: Option<Box<str>>,
    /// Calls that were begun and whose outcome is not on record yet.
    pub intents: Vec<Intent>,
}

/// A call that was written down before it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intent {
    pub id: Box<str>,
    pub action: Action,
    /// The guest it was made to; absent for a create.
    pub provider_id: Option<Box<str>>,
    pub started_at: Timestamp,
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
            protected: false,
            deletion: None,
            muted: Vec::new(),
            hourly_price: None,
            record: Record::default(),
        }
    }

    /// The digest of what the guest is made from: its fields. Whether it runs is not part of it.
    pub fn spec_digest(&self, key: &Key) -> String {
        let fields = self.fields.iter().map(|(name, value)| (name.to_owned(), value.to_digestible(key)));
        digest::digest(&json!(fields.collect::<serde_json::Map<_, _>>()))
    }

    /// Whether the drift of a field, or of one key of it, is muted.
    pub fn mutes(&self, path: &str) -> bool {
        let field = path.split_once('.').map_or(path, |(field, _)| field);
        self.muted.iter().any(|muted| **muted == *path || **muted == *field)
    }
}
