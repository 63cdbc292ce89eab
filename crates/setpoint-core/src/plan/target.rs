//! The steps that one guest needs.

use setpoint_api::price::Price;
use setpoint_api::step::{Action, Effect, Origin, Refusal, Step, Target, Waiting, WaitsOn};

use super::Input;
use super::draft::Draft;
use super::matching::{Guests, Match, Surplus};
use super::{Orphans, bounds};
use crate::desired::{Create, DeletionPolicy, Desired, Run};
use crate::diff::{Change, Diff, diff};
use crate::intent::{self, Settled};
use crate::observation::{Config, Guest, Reading};
use crate::value::Printable;

/// What becomes of one object: nothing of all this is "unchanged".
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) steps: Vec<Step>,
    pub(super) waiting: Vec<Waiting>,
    pub(super) refused: Vec<Refusal>,
}

impl Outcome {
    pub(super) fn is_unchanged(&self) -> bool {
        self.steps.is_empty() && self.waiting.is_empty() && self.refused.is_empty()
    }

    pub(super) fn waits(target: &Target, action: Option<Action>, on: WaitsOn, message: String) -> Outcome {
        Outcome { waiting: vec![Waiting { target: target.clone(), action, on, message }], ..Outcome::default() }
    }
}

/// What one desire needs, whatever the others do.
pub(super) fn outcome<'a>(guests: &Guests<'a>, desired: &'a Desired, found: Match<'a>) -> Outcome {
    let input = guests.input;
    let planning = Planning { input, guests, desired };
    let impossible = if desired.deletion.is_none() { bounds::refusals(desired, input) } else { Vec::new() };
    if !impossible.is_empty() {
        return Outcome { refused: impossible, ..Outcome::default() };
    }
    if desired.record.is_newer_than(input.observation.observed_at) {
        let message = "what is on record was observed later than this".to_owned();
        return Outcome::waits(&desired.target, None, WaitsOn::Observation, message);
    }
    match found {
        Match::Waiting(waiting) => Outcome { waiting: vec![*waiting], ..Outcome::default() },
        // What is not its own is not removed with it.
        Match::Refused(_) if desired.deletion.is_some() => Outcome::default(),
        Match::Refused(refusal) => Outcome { refused: vec![*refusal], ..Outcome::default() },
        Match::Gone if desired.deletion.is_some() => planning.unless_unsettled(|_| Outcome::default()),
        Match::Gone => planning.unless_unsettled(|was| planning.create(was)),
        Match::Guest(guest) => planning.unless_unsettled(|_| match desired.deletion {
            Some(DeletionPolicy::Delete) => planning.delete(guest),
            Some(DeletionPolicy::Retain) => planning.release(guest),
            None => planning.converge(guest),
        }),
    }
}

/// What becomes of a guest with our mark that nothing needs. One that was made twice is no orphan: its owner is known,
/// and what was made by mistake is its own to remove, once its other guest is as desired (`owner_fate`).
pub(super) fn surplus_outcome(input: &Input<'_>, surplus: &Surplus<'_>, owner_fate: Fate<'_>) -> Outcome {
    let guest = surplus.guest;
    let target = Target { namespace: String::new(), name: guest.id.to_string(), kind: super::GUEST.to_owned() };
    let is_retained = surplus.of.is_some_and(|owner| owner.deletion == Some(DeletionPolicy::Retain));
    let action = if is_retained { Action::Release } else { Action::Delete };
    let reason = match surplus.of.map(|owner| &owner.target) {
        Some(owner) if is_retained => {
            format!("{owner} is being deleted and its guests stay")
        }
        Some(owner) => format!("{owner} has another guest"),
        None => "carries our mark, but nothing desires it".to_owned(),
    };
    if let Some((on, why)) = surplus_obstacle(input, surplus, action, owner_fate) {
        return Outcome::waits(&target, Some(action), on, format!("{reason}; {why}"));
    }
    let saved = guest.hourly_price.map(|price| -price).filter(|_| !is_retained);
    let draft =
        Draft { guest: Some(guest), hourly_cost_delta: saved, ..Draft::new(action, reason, Origin::Unrecorded) };
    let mut step = draft.into_step(input, &target, None);
    if let Fate::Changed { last_step } = owner_fate {
        step.depends_on.push(last_step.to_owned());
    }
    Outcome { steps: vec![step], ..Outcome::default() }
}

/// Why a surplus guest stays for now, if it does.
fn surplus_obstacle(
    input: &Input<'_>,
    surplus: &Surplus<'_>,
    action: Action,
    owner_fate: Fate<'_>,
) -> Option<(WaitsOn, String)> {
    let capabilities = input.capabilities;
    let able = if action == Action::Release { capabilities.adopts } else { capabilities.creates };
    if let Some(busy) = &surplus.guest.busy {
        return Some((WaitsOn::Provider, format!("it is {}", Printable(busy))));
    }
    match surplus.of {
        None if input.policy.orphans == Orphans::Report => {
            Some((WaitsOn::Policy, "the environment's policy is to report it".to_owned()))
        }
        Some(owner) if owner.protected && action == Action::Delete => {
            Some((WaitsOn::Policy, "which is protected".to_owned()))
        }
        _ if !able => Some((WaitsOn::Policy, format!("{} is not able to", capabilities.deployer))),
        // What cannot be seen may be the better one of the two.
        Some(_) if owner_fate == Fate::Stuck || !input.observation.completeness.is_complete() => {
            Some((WaitsOn::Dependency, "which is not known to be as desired yet".to_owned()))
        }
        _ => None,
    }
}

/// What becomes of the object that a surplus guest belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate<'a> {
    AsDesired,
    Changed { last_step: &'a str },
    Stuck,
}

struct Planning<'p, 'a> {
    input: &'a Input<'a>,
    guests: &'p Guests<'a>,
    desired: &'a Desired,
}

impl<'a> Planning<'_, 'a> {
    /// Nothing is done to a guest while the outcome of an earlier call is not known. What is done depends on the guest that
    /// is on record, as the calls left it.
    fn unless_unsettled(&self, outcome: impl FnOnce(Option<&str>) -> Outcome) -> Outcome {
        if self.desired.record.intents.is_empty() {
            return outcome(self.desired.record.provider_id.as_deref());
        }
        match intent::settle(self.desired, &self.guests.evidence(self.desired)) {
            Settled::Wait { action, reason } => {
                Outcome::waits(&self.desired.target, Some(action), WaitsOn::Intent, reason)
            }
            Settled::Proceed { provider_id, .. } => outcome(provider_id.as_deref()),
        }
    }

    fn create(&self, was: Option<&str>) -> Outcome {
        let (desired, capabilities) = (self.desired, self.input.capabilities);
        if let Some(pinned) = &desired.provider_id
            && !capabilities.chooses_ids
        {
            let message = format!("there is no guest {pinned}, and {} chooses ids itself", capabilities.deployer);
            return self.refuse("providerId", message);
        }
        if let Some(obstacle) = self.cannot_make() {
            let message = format!("not there, and {obstacle}");
            return Outcome::waits(&desired.target, Some(Action::Create), WaitsOn::Policy, message);
        }
        let (reason, origin) = match was {
            Some(was) => (format!("missing (was {was})"), Origin::Drift),
            None => ("new".to_owned(), Origin::Desired),
        };
        let starts = desired.run != Some(Run::Stopped);
        let draft = Draft {
            changes: self.whole_spec(),
            hourly_cost_delta: desired.hourly_price.map(|price| if starts { price } else { Price::ZERO }),
            ..Draft::new(Action::Create, reason, origin)
        };
        self.steps(vec![draft])
    }

    /// Why no guest can be made for the object, if none can.
    fn cannot_make(&self) -> Option<String> {
        let capabilities = self.input.capabilities;
        match () {
            () if !capabilities.creates => Some(format!("{} cannot make guests", capabilities.deployer)),
            () if self.desired.create == Create::Never => Some("create is Never".to_owned()),
            () if self.input.policy.create == Create::Never => {
                Some(format!("the environment {} has create: Never", self.input.environment))
            }
            () => None,
        }
    }

    /// Why the guest cannot be made anew, if it cannot.
    fn cannot_replace(&self) -> Option<String> {
        let capabilities = self.input.capabilities;
        if self.desired.protected {
            return Some("it is protected".to_owned());
        }
        if self.desired.provider_id.is_some() && !capabilities.chooses_ids {
            return Some(format!("{} would give it another id than the one it insists on", capabilities.deployer));
        }
        self.cannot_make()
    }

    fn delete(&self, guest: &'a Guest) -> Outcome {
        if guest.mark.is_none() {
            // Never ours, so not ours to delete.
            return Outcome::default();
        }
        let target = &self.desired.target;
        if self.desired.protected {
            let message = "it is protected: remove setpoint.dev/protected first".to_owned();
            return Outcome::waits(target, Some(Action::Delete), WaitsOn::Policy, message);
        }
        if !self.input.capabilities.creates {
            let message = format!("{} cannot remove guests", self.input.capabilities.deployer);
            return Outcome::waits(target, Some(Action::Delete), WaitsOn::Policy, message);
        }
        let draft = Draft {
            guest: Some(guest),
            hourly_cost_delta: guest.hourly_price.map(|price| -price),
            ..Draft::new(Action::Delete, self.desired.farewell(), Origin::Desired)
        };
        self.unless_busy(guest, self.steps(vec![draft]))
    }

    fn release(&self, guest: &'a Guest) -> Outcome {
        if guest.mark.is_none() {
            return Outcome::default();
        }
        if !self.input.capabilities.adopts {
            let message = format!("{} cannot take its mark off a guest", self.input.capabilities.deployer);
            return Outcome::waits(&self.desired.target, Some(Action::Release), WaitsOn::Policy, message);
        }
        let reason = format!("{} and its guest stays", self.desired.farewell());
        let draft = Draft { guest: Some(guest), ..Draft::new(Action::Release, reason, Origin::Desired) };
        self.unless_busy(guest, self.steps(vec![draft]))
    }

    /// Brings a guest that is there to what is desired: config first, then whether it runs.
    fn converge(&self, guest: &'a Guest) -> Outcome {
        let diff = self.unmuted_diff(guest);
        let changes = Changes::of(&diff);
        let obstacle = self.cannot_replace();
        let is_replaced = !changes.replaced.is_empty() && obstacle.is_none();
        // A new guest can be made with what the old one could not be changed to.
        let refused = if is_replaced { Vec::new() } else { self.unchangeable(&diff) };
        let mut outcome = Outcome { refused, ..Outcome::default() };
        let mut drafts = Vec::new();
        if guest.mark.is_none() {
            drafts.push(self.adopt(guest));
        }
        if is_replaced {
            drafts.push(self.replace(guest, &diff, &changes));
        } else {
            self.in_place(guest, &changes, &mut drafts, &mut outcome);
        }
        if let Some(obstacle) = obstacle.filter(|_| !changes.replaced.is_empty()) {
            let message = format!("{} would replace it, and {obstacle}", listed(&changes.replaced));
            let waiting = Outcome::waits(&self.desired.target, Some(Action::Replace), WaitsOn::Policy, message);
            outcome.waiting.extend(waiting.waiting);
        }
        outcome.waiting.extend(self.unread(&diff, guest));
        let steps = self.unless_busy(guest, self.steps(drafts));
        outcome.steps = steps.steps;
        outcome.waiting.extend(steps.waiting);
        outcome
    }

    /// What differs. What is muted is left out as long as it is drift; a change of the desire is carried out.
    fn unmuted_diff(&self, guest: &'a Guest) -> Diff<'a> {
        let diff = diff(self.desired, &guest.config, self.input.capabilities);
        let is_concerned = diff.changes.iter().any(|change| self.desired.mutes(&change.path()));
        if is_concerned && self.origin(guest) == Origin::Drift { diff.unmuted(self.desired) } else { diff }
    }

    fn adopt(&self, guest: &'a Guest) -> Draft<'a> {
        let reason = format!("guest {} is there and not ours yet", Printable(&guest.id));
        Draft { guest: Some(guest), ..Draft::new(Action::Adopt, reason, Origin::Desired) }
    }

    fn replace(&self, guest: &'a Guest, diff: &Diff<'a>, changes: &Changes<'a>) -> Draft<'a> {
        let (origin, reason) = self.reason(guest, &changes.replaced);
        let is_pinned = self.desired.provider_id.is_some();
        Draft {
            guest: Some(guest),
            changes: diff.changes.clone(),
            interrupts: true,
            create_first: self.input.capabilities.creates_before_delete && !is_pinned,
            hourly_cost_delta: self.hourly_cost_delta(guest),
            ..Draft::new(Action::Replace, reason, origin)
        }
    }

    fn in_place(&self, guest: &'a Guest, changes: &Changes<'a>, drafts: &mut Vec<Draft<'a>>, outcome: &mut Outcome) {
        let update_restarts = self.input.capabilities.update_restarts;
        let runs = runs(self.input, guest);
        let transition = self.transition(guest, outcome);
        let delta = self.hourly_cost_delta(guest);
        let starts = transition.as_ref().is_some_and(|(action, _)| *action == Action::Start);
        // The difference is counted once, by the last step that makes it.
        let counted_later = delta.map(|_| Price::ZERO);
        if !changes.written.is_empty() {
            let (origin, reason) = self.reason(guest, &changes.written);
            drafts.push(Draft {
                guest: Some(guest),
                changes: changes.written.clone(),
                interrupts: update_restarts && runs != Reading::Known(false),
                hourly_cost_delta: if starts || !changes.grown.is_empty() { counted_later } else { delta },
                ..Draft::new(Action::Update, reason, origin)
            });
        }
        if !changes.grown.is_empty() {
            let (origin, reason) = self.reason(guest, &changes.grown);
            drafts.push(Draft {
                guest: Some(guest),
                changes: changes.grown.clone(),
                hourly_cost_delta: if starts { counted_later } else { delta },
                ..Draft::new(Action::Grow, reason, origin)
            });
        }
        let restarts = !changes.restarted.is_empty() && !update_restarts;
        match transition {
            Some((action, reason)) => drafts.push(Draft {
                guest: Some(guest),
                interrupts: action == Action::Stop,
                hourly_cost_delta: match starts {
                    // It ran before, for as much.
                    true if drafts.is_empty() && self.is_restarting(guest) => Some(Price::ZERO),
                    true => delta,
                    false => None,
                },
                ..Draft::new(action, reason, Origin::Drift)
            }),
            None if restarts && runs == Reading::Known(true) => {
                let reason = format!("for {} to take effect", names(&changes.restarted));
                drafts.push(Draft {
                    guest: Some(guest),
                    interrupts: true,
                    hourly_cost_delta: Some(Price::ZERO),
                    ..Draft::new(Action::Restart, reason, self.origin(guest))
                });
            }
            None => {}
        }
    }

    /// Whether the guest is to be started or stopped, and why.
    fn transition(&self, guest: &Guest, outcome: &mut Outcome) -> Option<(Action, String)> {
        let run = self.desired.run.or_else(|| self.unfinished_start(guest))?;
        let capabilities = self.input.capabilities;
        let (action, wanted, words) = match run {
            Run::Running => (Action::Start, "running", capabilities.running_words),
            Run::Stopped => (Action::Stop, "stopped", capabilities.stopped_words),
        };
        let (on, message) = match &guest.run {
            Reading::Known(word) if words.contains(&&**word) => return None,
            Reading::Known(word) if capabilities.passing_words.contains(&&**word) => {
                (WaitsOn::Provider, format!("it is {}", Printable(word)))
            }
            Reading::Known(word) => return Some((action, format!("run \"{}\"->{wanted}", Printable(word)))),
            Reading::Absent => return Some((action, format!("run none->{wanted}"))),
            Reading::Unknown => (WaitsOn::Observation, "whether it runs could not be read".to_owned()),
        };
        let waiting = Outcome::waits(&self.desired.target, Some(action), on, message);
        outcome.waiting.extend(waiting.waiting);
        None
    }

    /// Whether a restart is on record that got as far as the stop.
    fn is_restarting(&self, guest: &Guest) -> bool {
        let mut intents = self.desired.record.intents.iter();
        let restarts =
            intents.any(|intent| intent.action == Action::Restart && intent.provider_id.as_ref() == Some(&guest.id));
        restarts && runs(self.input, guest) == Reading::Known(false)
    }

    /// A guest whose run state is not managed runs once it is made, and is stopped only to be started again. If it did
    /// not get that far, the call is still on record.
    fn unfinished_start(&self, guest: &Guest) -> Option<Run> {
        let made_by = guest.mark.as_ref().and_then(|mark| mark.intent.as_ref());
        let was_starting = self.desired.record.intents.iter().any(|intent| match intent.action {
            Action::Restart | Action::Start => intent.provider_id.as_ref() == Some(&guest.id),
            Action::Create | Action::Replace => made_by == Some(&intent.id),
            _ => false,
        });
        (was_starting && runs(self.input, guest) == Reading::Known(false)).then_some(Run::Running)
    }

    /// What can be changed by no step at all.
    fn unchangeable(&self, diff: &Diff<'a>) -> Vec<Refusal> {
        diff.changes
            .iter()
            .filter_map(|change| {
                let deployer = self.input.capabilities.deployer;
                let message = match change.effect {
                    Effect::Unsupported => format!("{deployer} cannot change it ({change})"),
                    _ if change.is_refused_shrink() => format!("it can only grow ({change})"),
                    _ => return None,
                };
                let field = format!("spec.{}", change.path());
                Some(Refusal { target: self.desired.target.clone(), field, message })
            })
            .collect()
    }

    /// What could not be read, and is therefore not compared.
    fn unread(&self, diff: &Diff<'a>, guest: &Guest) -> Option<Waiting> {
        let message = match &guest.config {
            Config::Unreadable(reason) if !self.desired.fields.is_empty() => {
                format!("its configuration could not be read and is not changed: {}", Printable(reason))
            }
            _ if diff.unknown.is_empty() => return None,
            _ => format!("{} could not be read and is not changed", diff.unknown.join(", ")),
        };
        Some(Waiting { target: self.desired.target.clone(), action: None, on: WaitsOn::Observation, message })
    }

    fn unless_busy(&self, guest: &Guest, outcome: Outcome) -> Outcome {
        match (&guest.busy, outcome.steps.first()) {
            (Some(busy), Some(step)) => Outcome::waits(
                &self.desired.target,
                Some(step.action),
                WaitsOn::Provider,
                format!("it is {}", Printable(busy)),
            ),
            _ => outcome,
        }
    }

    fn origin(&self, guest: &Guest) -> Origin {
        self.desired.origin(guest, self.input.key)
    }

    fn reason(&self, guest: &Guest, changes: &[Change<'a>]) -> (Origin, String) {
        let origin = self.origin(guest);
        let words = match origin {
            Origin::Desired => "spec changed",
            Origin::Drift => "spec drift",
            Origin::Unrecorded => "spec unrecorded",
        };
        (origin, format!("{words}: {}", listed(changes)))
    }

    /// By how much the cost changes, if the guest runs in the end.
    fn hourly_cost_delta(&self, guest: &Guest) -> Option<Price> {
        let runs = match self.desired.run {
            Some(run) => run == Run::Running,
            None => runs(self.input, guest) != Reading::Known(false),
        };
        if !runs {
            return Some(Price::ZERO);
        }
        Some(self.desired.hourly_price? - guest.hourly_price?)
    }

    fn whole_spec(&self) -> Vec<Change<'a>> {
        let capabilities = self.input.capabilities;
        let fields = self.desired.fields.iter();
        fields.filter_map(|(name, value)| Some(Change::created(capabilities.field(name)?, value))).collect()
    }

    fn refuse(&self, field: &str, message: String) -> Outcome {
        let refusal = Refusal { target: self.desired.target.clone(), field: format!("spec.{field}"), message };
        Outcome { refused: vec![refusal], ..Outcome::default() }
    }

    /// The steps of one guest, each after the one before.
    fn steps(&self, drafts: Vec<Draft<'a>>) -> Outcome {
        let mut steps: Vec<Step> = Vec::with_capacity(drafts.len());
        for draft in drafts {
            let mut step = draft.into_step(self.input, &self.desired.target, Some(self.desired));
            step.depends_on.extend(steps.last().map(|before| before.id.clone()));
            steps.push(step);
        }
        Outcome { steps, ..Outcome::default() }
    }
}

/// The changes of a guest by what they take.
struct Changes<'a> {
    /// Written by one update.
    written: Vec<Change<'a>>,
    /// Take effect when the guest starts again, written just now or before.
    restarted: Vec<Change<'a>>,
    grown: Vec<Change<'a>>,
    replaced: Vec<Change<'a>>,
}

impl<'a> Changes<'a> {
    fn of(diff: &Diff<'a>) -> Changes<'a> {
        let of = |takes: &dyn Fn(&Change<'a>) -> bool| -> Vec<Change<'a>> {
            diff.changes.iter().filter(|change| takes(change)).copied().collect()
        };
        Changes {
            written: of(&|change| {
                matches!(change.effect, Effect::InPlace | Effect::Restart)
                    && !change.is_pending
                    && !change.is_refused_shrink()
            }),
            restarted: of(&|change| change.effect == Effect::Restart && !change.is_refused_shrink()),
            grown: of(&|change| change.effect == Effect::Grow && !change.is_shrink() && !change.is_pending),
            replaced: of(&|change| change.effect == Effect::Replace),
        }
    }
}

/// Whether a guest runs, as far as its state word tells.
fn runs(input: &Input<'_>, guest: &Guest) -> Reading<bool> {
    match &guest.run {
        Reading::Known(word) if input.capabilities.running_words.contains(&&**word) => Reading::Known(true),
        Reading::Known(word) if input.capabilities.stopped_words.contains(&&**word) => Reading::Known(false),
        Reading::Known(_) | Reading::Unknown => Reading::Unknown,
        Reading::Absent => Reading::Known(false),
    }
}

fn listed(changes: &[Change<'_>]) -> String {
    changes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn names(changes: &[Change<'_>]) -> String {
    changes.iter().map(|change| change.path()).collect::<Vec<_>>().join(", ")
}
