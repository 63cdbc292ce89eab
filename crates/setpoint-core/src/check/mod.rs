//! Whether a change set is sound, without asking whoever made it.
//!
//! It never calls the planner, the diff or the classifier: it goes from the same input to what must hold of any change
//! set, so that a fault has to be made twice to pass. It runs in tests, and before a change set is carried out.

mod content;
mod form;
mod scene;
mod silence;
mod stakes;
mod subject;

use std::fmt;

use setpoint_api::step::{Step, Target};

use crate::plan::{ChangeSet, Input};
use scene::Scene;

/// One thing that is wrong with a change set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub rule: Rule,
    /// The step, by its id, or the object that it is about.
    pub subject: String,
    /// What in particular.
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.subject, self.rule)?;
        if self.detail.is_empty() { Ok(()) } else { write!(f, " ({})", self.detail) }
    }
}

/// Declares the rules, each with the sentence that a person reads when it is broken.
macro_rules! rules {
    ($($rule:ident: $sentence:literal,)*) => {
        /// What must hold of every change set, named by how it is broken.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Rule {
            $(#[doc = $sentence] $rule,)*
        }

        impl Rule {
            /// All rules.
            pub const ALL: &[Rule] = &[$(Rule::$rule),*];
        }

        impl fmt::Display for Rule {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Rule::$rule => $sentence,)* })
            }
        }
    };
}

rules! {
    IdMalformed: "a step's id does not say its object and its action",
    IdRepeated: "two steps have one id",
    ReasonMissing: "a step does not say why",
    DigestMissing: "a step has no digest to approve",
    DigestShared: "two different steps have one digest",
    DependencyMissing: "a step depends on a step that is not there",
    DependencyLate: "a step depends on one that does not come before it",
    ChainBroken: "a step does not depend on the one before it of the same object",
    OrderBroken: "the actions on an object are not in their order",
    ActionRepeated: "an action on an object is there twice",
    DeletesEarly: "a delete comes before something else",
    DependencyIgnored: "an object does not wait for one that it depends on",
    DependentOutlived: "an object is deleted before one that depends on it",
    RefusedDone: "something is done that is refused",
    CountsWrong: "the counts do not count what is there",
    EnvironmentWrong: "the change set is for another environment",
    SecretShown: "a secret is shown",
    TargetUnknown: "a step serves an object that is not desired, or a guest that is not ours",
    TwinTargets: "two desires have one name",
    GuestUnnamed: "a step does not say to which guest it is done",
    GuestUnseen: "a step is done to a guest that was not observed",
    GuestForeign: "a step is done to a guest that belongs to somebody else",
    GuestUnmarked: "a step is done to a guest that is not marked as ours and is not adopted before",
    GuestBusy: "a step is done to a guest that is busy",
    GuestTemplate: "a step is done to a template",
    GuestWrong: "a step is done to another guest than the object's",
    ClaimedTwice: "something is done for an object whose guest another object claims too",
    OutcomeUnknown: "something is done while the outcome of an earlier call is not known",
    CreateUnproven: "a guest is created although there may be one",
    CreateNeedless: "a guest is created although there is one",
    CreateForbidden: "a guest is created although policy says never",
    DeleteUnrequested: "a guest is deleted although nobody asked for it",
    DeleteProtected: "a guest is removed although it is protected",
    DeletedChanged: "a guest is changed although its object is being deleted",
    ActionUnable: "the deployer cannot do this",
    RunUnwanted: "the guest does not end in the state that is desired",
    RunPassing: "the guest is on its way to another state already",
    WrittenBlind: "something is written that could not be read",
    FieldUnmanaged: "a field is changed that nobody desires",
    FieldUnregistered: "something is done for an object with a field that the deployer does not know",
    FieldRepeated: "a field is changed twice in one step",
    FieldMuted: "a muted drift is corrected",
    BoundsIgnored: "something is done for an object with an amount that the provider does not take",
    EffectWrong: "a change is in a step that does not have its effect",
    ChangesMissing: "a step that changes something does not say what",
    ShrinkPlanned: "a disk is made smaller",
    RestartMissing: "a change needs a restart that is not planned",
    SpecDigestWrong: "the digest of what the guest is made from is not that of the desire",
    ClassTooLow: "the class is below what is at stake",
    SilentlySkipped: "an object is not as desired, and nothing says so",
}

/// What is wrong with a change set; nothing, if it is sound.
pub fn check(input: &Input<'_>, change_set: &ChangeSet) -> Vec<Violation> {
    let scene = Scene::new(input, change_set);
    let mut faults = Faults::default();
    form::check(&scene, &mut faults);
    subject::check(&scene, &mut faults);
    content::check(&scene, &mut faults);
    stakes::check(&scene, &mut faults);
    silence::check(&scene, &mut faults);
    faults.0
}

/// The violations found so far.
#[derive(Debug, Default)]
struct Faults(Vec<Violation>);

impl Faults {
    fn step(&mut self, rule: Rule, step: &Step, detail: impl fmt::Display) {
        self.add(rule, step.id.clone(), detail);
    }

    fn target(&mut self, rule: Rule, target: &Target, detail: impl fmt::Display) {
        self.add(rule, format!("{}/{}", target.namespace, target.name), detail);
    }

    fn add(&mut self, rule: Rule, subject: String, detail: impl fmt::Display) {
        self.0.push(Violation { rule, subject, detail: detail.to_string() });
    }
}
