//! What was observed of an environment, and what could not be.

use jiff::Timestamp;
use setpoint_api::price::Price;

use crate::value::{Fields, Value};

/// One look at an environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    /// Whether it shows everything. Only then is what it does not show provably gone.
    pub completeness: Completeness,
    pub guests: Vec<Guest>,
    pub observed_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Completeness {
    Complete,
    /// Something may be there that is not shown; the reason is for people.
    Partial(String),
}

impl Completeness {
    pub fn is_complete(&self) -> bool {
        *self == Completeness::Complete
    }
}

/// A guest as it was observed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guest {
    /// The provider's id of it.
    pub id: Box<str>,
    /// The provider's name of it.
    pub name: Box<str>,
    /// What we wrote on it, if it is ours.
    pub mark: Option<Mark>,
    pub config: Config,
    /// The provider's own word for the state it is in.
    pub run: Reading<Box<str>>,
    /// Whether it holds data that would be lost with it.
    pub holds_data: Reading<bool>,
    /// Why the provider would refuse to change it now: a lock, a running task.
    pub busy: Option<Box<str>>,
    /// Whether it is a template, from which guests are made and which itself is never touched.
    pub is_template: bool,
    /// What it costs as it is.
    pub hourly_price: Option<Price>,
}

/// What was written on a guest to know it again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// The control plane that wrote it. What another one wrote is foreign.
    pub cluster: Box<str>,
    /// The object the guest belongs to.
    pub owner_uid: Box<str>,
    /// The intent under which it was made; absent for what was adopted.
    pub intent: Option<Box<str>>,
    /// What it was made from.
    pub spec_digest: Option<Box<str>>,
}

/// Three-valued: what could not be read is not absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading<T> {
    Known(T),
    Absent,
    Unknown,
}

impl Guest {
    /// A guest that does not run, holds no data, and of which nothing else is known.
    pub fn new(id: &str, mark: Option<Mark>) -> Guest {
        Guest {
            id: id.into(),
            name: id.into(),
            mark,
            config: Config::known(Fields::default()),
            run: Reading::Absent,
            holds_data: Reading::Known(false),
            busy: None,
            is_template: false,
            hourly_price: None,
        }
    }
}

impl Mark {
    /// A mark that does not say what the guest was made from.
    pub fn new(cluster: &str, owner_uid: &str, intent: Option<&str>) -> Mark {
        let intent = intent.map(Into::into);
        Mark { cluster: cluster.into(), owner_uid: owner_uid.into(), intent, spec_digest: None }
    }
}

impl<T> Reading<T> {
    pub fn known(&self) -> Option<&T> {
        match self {
            Reading::Known(value) => Some(value),
            Reading::Absent | Reading::Unknown => None,
        }
    }
}

/// The configuration of a guest as it was observed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Config {
    /// A field that is neither known nor unknown is absent.
    Read {
        /// What is in effect.
        known: Fields,
        /// What was written but takes effect only when the guest starts again.
        pending: Fields,
        /// What could not be read.
        unknown: Vec<&'static str>,
    },
    /// Nothing of it could be read, and why.
    Unreadable(Box<str>),
}

impl Config {
    /// Configuration of which everything could be read and nothing is pending.
    pub fn known(known: Fields) -> Config {
        Config::Read { known, pending: Fields::default(), unknown: Vec::new() }
    }

    pub fn field(&self, name: &str) -> Reading<&Value> {
        match self {
            Config::Read { unknown, .. } if unknown.contains(&name) => Reading::Unknown,
            Config::Read { known, .. } => known.get(name).map_or(Reading::Absent, Reading::Known),
            Config::Unreadable(_) => Reading::Unknown,
        }
    }

    pub fn pending(&self, name: &str) -> Option<&Value> {
        match self {
            Config::Read { pending, .. } => pending.get(name),
            Config::Unreadable(_) => None,
        }
    }
}
