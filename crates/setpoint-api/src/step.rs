//! What a change set is made of: steps that will be taken, what waits, and what is refused.
//!
//! The planner returns these and the API carries them, so that what a person approves is what was planned. Values are
//! already text as a person reads them, and a sensitive one is never here.

use std::collections::BTreeSet;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::price::Price;

/// The object that a step serves. Ordered by namespace, then name, then kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    /// The namespace of the object.
    pub namespace: String,
    /// The name of the object.
    pub name: String,
    /// The kind of the object.
    pub kind: String,
}

/// `shop/web`, or `guest 101` for what is in no namespace.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace.as_str() {
            "" => write!(f, "{} {}", self.kind.to_lowercase(), self.name),
            namespace => write!(f, "{namespace}/{}", self.name),
        }
    }
}

/// What is done to a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum Action {
    /// Take over an existing guest by writing our mark on it.
    Adopt,
    /// Make a guest.
    Create,
    /// Write configuration, all in-place changes of a guest at once.
    Update,
    /// Make a disk larger; there is no way back.
    Grow,
    /// Shut the guest down.
    Stop,
    /// Start the guest.
    Start,
    /// Shut the guest down and start it again. It is one step, so that nobody can allow half of it.
    Restart,
    /// Make the guest anew, because what changed cannot be changed in place.
    Replace,
    /// Take our mark off a guest that stays.
    Release,
    /// Remove the guest.
    Delete,
}

/// What a step could cost, from least to most. What is unknown is destructive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum Class {
    /// Nothing.
    Benign,
    /// Downtime.
    Disruptive,
    /// Money.
    Spend,
    /// Data, or something that is not ours.
    Destructive,
}

/// Why reality and desire differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum Origin {
    /// The desire changed since it was last carried out.
    Desired,
    /// Reality changed since then.
    Drift,
    /// The guest carries our mark, but nothing says what it was made from.
    Unrecorded,
}

/// How a change of a field takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum Effect {
    /// At once, while the guest runs.
    InPlace,
    /// When the guest starts again.
    Restart,
    /// By a step of its own, and only upwards.
    Grow,
    /// Only in a new guest.
    Replace,
    /// Not at all: the provider cannot change this.
    Unsupported,
}

/// One field that will be changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FieldChange {
    /// The field, such as `memory` or `env.MODEL`.
    pub field: String,
    /// What was observed, as a person reads it; absent where nothing was there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// What it becomes; absent where it is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// How the change takes effect.
    pub effect: Effect,
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// The name of the step within its change set, such as `shop/web/update`.
    pub id: String,
    /// The object it serves. A guest that belongs to nothing is named by its provider's id.
    pub target: Target,
    /// What is done.
    pub action: Action,
    /// The guest it is done to, by its provider's id; absent where there is none yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// Why, in words for people.
    pub reason: String,
    /// Why reality and desire differ.
    pub origin: Origin,
    /// What changes, field by field.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<FieldChange>,
    /// What it could cost.
    pub class: Class,
    /// Why it is of this class.
    pub class_reason: String,
    /// Whether something that runs is interrupted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupts: bool,
    /// For a replacement: whether the new guest is made before the old one goes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub create_first: bool,
    /// By how much the hourly cost changes; absent where prices are not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hourly_cost_delta: Option<Price>,
    /// Whether it costs money, as far as is known: where everything is billed, a price that is not known counts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub spends: bool,
    /// The steps, by id, that must have succeeded before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<String>,
    /// The digest of what the guest was last made from, where it is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_spec_digest: Option<String>,
    /// The digest of what it is made from afterwards; absent for a delete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_spec_digest: Option<String>,
    /// The digest of exactly what will be done. An approval is an approval of this.
    pub digest: String,
}

impl Step {
    /// Every class that the step belongs to: one that destroys may also interrupt and cost money.
    pub fn classes(&self) -> BTreeSet<Class> {
        let interrupts = self.interrupts.then_some(Class::Disruptive);
        let costs = self.spends || self.hourly_cost_delta.is_some_and(|delta| delta > Price::ZERO);
        let spends = costs.then_some(Class::Spend);
        [Some(self.class), interrupts, spends].into_iter().flatten().collect()
    }
}

/// Something that is not done now, and what it waits on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Waiting {
    /// The object that waits.
    pub target: Target,
    /// What would be done, where that is known already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<Action>,
    /// What kind of thing it waits on.
    pub on: WaitsOn,
    /// The same in words for people.
    pub message: String,
}

/// What kind of thing is waited on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum WaitsOn {
    /// The provider's answer: what could not be read is not written.
    Observation,
    /// The outcome of an earlier call.
    Intent,
    /// The provider: the guest is locked or busy.
    Provider,
    /// Another object that this one depends on.
    Dependency,
    /// A person: policy does not let it be done, as it stands.
    Policy,
}

/// A desire that cannot be fulfilled as it is written. Trying again does not help; changing the field does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Refusal {
    /// The object that desires it.
    pub target: Target,
    /// The field to change, such as `spec.cores`.
    pub field: String,
    /// What is wrong with it, and what would do.
    pub message: String,
}

/// How much a change set does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Objects whose guest is created.
    pub creates: u32,
    /// Objects whose guest is changed, started, stopped, replaced, adopted or released; drift included.
    pub updates: u32,
    /// Guests that are deleted.
    pub deletes: u32,
    /// Objects that are as desired.
    pub unchanged: u32,
    /// Objects that wait.
    pub waiting: u32,
    /// Objects that are refused.
    pub refused: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(class: Class, spends: bool, hourly_cost_delta: Option<&str>) -> Step {
        Step {
            id: "shop/web/replace".to_owned(),
            target: Target { namespace: "shop".to_owned(), name: "web".to_owned(), kind: "Machine".to_owned() },
            action: Action::Replace,
            provider_id: None,
            reason: String::new(),
            origin: Origin::Desired,
            changes: Vec::new(),
            class,
            class_reason: String::new(),
            interrupts: false,
            create_first: false,
            hourly_cost_delta: hourly_cost_delta.map(|price| price.parse().unwrap()),
            spends,
            depends_on: Vec::new(),
            old_spec_digest: None,
            new_spec_digest: None,
            digest: String::new(),
        }
    }

    #[test]
    fn a_step_has_every_class_it_belongs_to() {
        use Class::{Benign, Destructive, Disruptive, Spend};
        let rows = [
            ("a step of one class", step(Benign, false, None), vec![Benign]),
            ("one that destroys, at a known price", step(Destructive, false, Some("0.34")), vec![Spend, Destructive]),
            ("one that destroys, at an unknown price", step(Destructive, true, None), vec![Spend, Destructive]),
            ("one that interrupts, at an unknown price", step(Disruptive, true, None), vec![Disruptive, Spend]),
            ("one that destroys and saves", step(Destructive, false, Some("-0.34")), vec![Destructive]),
            (
                "one that destroys and interrupts",
                Step { interrupts: true, ..step(Destructive, false, None) },
                vec![Disruptive, Destructive],
            ),
        ];
        for (name, step, classes) in rows {
            assert_eq!(step.classes().into_iter().collect::<Vec<_>>(), classes, "{name}");
        }
    }

    #[test]
    fn a_target_reads_as_people_name_it() {
        let target = |namespace: &str, name: &str, kind: &str| Target {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            kind: kind.to_owned(),
        };
        assert_eq!(target("shop", "web", "Machine").to_string(), "shop/web");
        assert_eq!(target("", "101", "Guest").to_string(), "guest 101");
    }
}
