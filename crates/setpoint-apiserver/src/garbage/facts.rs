//! What the garbage collector knows of an object: who it is, who owns it, and whether it is on its way out.

use serde::{Deserialize, Deserializer};

use crate::object::Stored;
use crate::object_meta::{FOREGROUND, ORPHAN};

/// The part of an object's metadata that garbage collection is about.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Facts {
    pub uid: String,
    pub deletion_timestamp: Option<String>,
    #[serde(deserialize_with = "null_as_default")]
    pub finalizers: Vec<String>,
    #[serde(deserialize_with = "null_as_default")]
    pub owner_references: Vec<Reference>,
}

/// An object's claim that another owns it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Reference {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub uid: String,
    /// Whether an owner that is deleted in the foreground waits for this object.
    #[serde(deserialize_with = "null_as_default")]
    pub block_owner_deletion: bool,
}

/// What a deleted object waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Its dependents are to be deleted before it.
    Foreground,
    /// Its dependents are to forget it.
    Orphan,
}

impl Order {
    /// The finalizer by which it is given.
    pub fn finalizer(self) -> &'static str {
        match self {
            Order::Foreground => FOREGROUND,
            Order::Orphan => ORPHAN,
        }
    }
}

impl Facts {
    pub fn of(object: &Stored) -> Facts {
        object.metadata_as()
    }

    /// The facts of an object that has or may have an owner or an order; most have neither, and are not parsed.
    pub fn of_concerned(object: &Stored) -> Option<Facts> {
        (object.may_have("ownerReferences") || object.may_have("deletionTimestamp")).then(|| Facts::of(object))
    }

    pub fn is_deleted(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    pub fn has_finalizer(&self, name: &str) -> bool {
        self.finalizers.iter().any(|finalizer| finalizer == name)
    }

    /// What the object waits for, if it is deleted and waits for its dependents.
    pub fn order(&self) -> Option<Order> {
        let orders = [Order::Orphan, Order::Foreground];
        orders.into_iter().find(|order| self.is_deleted() && self.has_finalizer(order.finalizer()))
    }
}

fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}
