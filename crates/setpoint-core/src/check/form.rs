//! The form of a change set: names, order, dependencies, counts, digests, and that no secret is in it.

use std::collections::BTreeSet;

use setpoint_api::step::{Action, Counts, Step, Target};

use super::scene::{GUEST, Scene};
use super::{Faults, Rule};
use crate::desired::{Desired, Elsewhere};
use crate::value::{SENSITIVE, Value};

/// A secret shorter than this may stand in a text by chance.
const TELLING: usize = 8;

const REMOVALS: [Action; 2] = [Action::Delete, Action::Release];

pub(super) fn check(scene: &Scene<'_>, faults: &mut Faults) {
    names(scene, faults);
    dependencies(scene, faults);
    for steps in scene.steps.values() {
        order(steps, faults);
    }
    deletes_come_last(scene, faults);
    objects_wait_for_each_other(scene, faults);
    refusals(scene, faults);
    counts(scene, faults);
    secrets(scene, faults);
}

fn names(scene: &Scene<'_>, faults: &mut Faults) {
    if scene.change_set.environment != scene.input.environment {
        faults.add(Rule::EnvironmentWrong, scene.change_set.environment.clone(), scene.input.environment);
    }
    let (mut ids, mut digests) = (BTreeSet::new(), BTreeSet::new());
    for step in &scene.change_set.steps {
        let action = format!("{:?}", step.action).to_lowercase();
        let Target { namespace, name, kind } = &step.target;
        let expected = match namespace.as_str() {
            "" if kind == GUEST => format!("guest:{name}/{action}"),
            _ => format!("{namespace}/{name}/{action}"),
        };
        if step.id != expected {
            faults.step(Rule::IdMalformed, step, format!("not {expected}"));
        }
        if !ids.insert(&step.id) {
            faults.step(Rule::IdRepeated, step, "");
        }
        if step.reason.trim().is_empty() || step.class_reason.trim().is_empty() {
            faults.step(Rule::ReasonMissing, step, "");
        }
        let is_digest = step.digest.strip_prefix("hmac-sha256:").is_some_and(|hex| hex.len() == 64);
        if !is_digest {
            faults.step(Rule::DigestMissing, step, &step.digest);
        } else if !digests.insert(&step.digest) {
            faults.step(Rule::DigestShared, step, &step.digest);
        }
    }
}

fn dependencies(scene: &Scene<'_>, faults: &mut Faults) {
    let all: BTreeSet<&str> = scene.change_set.steps.iter().map(|step| step.id.as_str()).collect();
    let mut earlier: BTreeSet<&str> = BTreeSet::new();
    for step in &scene.change_set.steps {
        for dependency in step.depends_on.iter().map(String::as_str) {
            if !all.contains(dependency) {
                faults.step(Rule::DependencyMissing, step, dependency);
            } else if !earlier.contains(dependency) {
                faults.step(Rule::DependencyLate, step, dependency);
            }
        }
        earlier.insert(&step.id);
    }
}

/// The steps of one object: each action once, in order, each after the one before.
fn order(steps: &[&Step], faults: &mut Faults) {
    for pair in steps.windows(2) {
        let (before, after) = (pair[0], pair[1]);
        if before.action == after.action {
            faults.step(Rule::ActionRepeated, after, "");
        } else if rank(before.action) >= rank(after.action) {
            faults.step(Rule::OrderBroken, after, format!("after {:?}", before.action));
        }
        if !after.depends_on.contains(&before.id) {
            faults.step(Rule::ChainBroken, after, &before.id);
        }
    }
}

/// What is there comes first, then its configuration, then whether it runs.
fn rank(action: Action) -> u8 {
    match action {
        Action::Adopt => 0,
        Action::Create | Action::Replace => 1,
        Action::Update => 2,
        Action::Grow => 3,
        Action::Stop => 4,
        Action::Start | Action::Restart => 5,
        Action::Release | Action::Delete => 6,
    }
}

fn deletes_come_last(scene: &Scene<'_>, faults: &mut Faults) {
    let steps = &scene.change_set.steps;
    let others_end = steps.iter().rposition(|step| !REMOVALS.contains(&step.action)).unwrap_or(0);
    for step in steps[..others_end].iter().filter(|step| REMOVALS.contains(&step.action)) {
        faults.step(Rule::DeletesEarly, step, "");
    }
}

/// What others depend on comes first and goes last.
fn objects_wait_for_each_other(scene: &Scene<'_>, faults: &mut Faults) {
    let waiting = scene.change_set.waiting.iter().map(|waiting| &waiting.target);
    let refused = scene.change_set.refused.iter().map(|refusal| &refusal.target);
    let stuck: BTreeSet<&Target> = waiting.chain(refused).collect();
    let ties = scene.change_set.steps.iter().flat_map(|step| step.depends_on.iter().map(|on| (&*step.id, on.as_str())));
    let ties: BTreeSet<(&str, &str)> = ties.collect();
    let depends = |step: &Step, on: &Step| ties.contains(&(step.id.as_str(), on.id.as_str()));
    for desired in scene.desired.values() {
        let steps = scene.steps.get(&desired.target).map_or(&[][..], Vec::as_slice);
        let removal = steps.iter().find(|step| step.action == Action::Delete);
        if let (Some(removal), Some(dependent)) = (removal, desired.needed_elsewhere.first()) {
            faults.step(Rule::DependentOutlived, removal, &dependent.name);
        }
        for other in &desired.depends_on {
            let is_ready_elsewhere = desired.elsewhere.get(other) == Some(&Elsewhere::AsDesired);
            let is_missing = !scene.desired.contains_key(other) && !is_ready_elsewhere;
            let others = scene.steps.get(other).map_or(&[][..], Vec::as_slice);
            let is_removed = |target: &Target| scene.desired.get(target).is_some_and(|it| it.deletion.is_some());
            match (desired.deletion.is_some(), steps.first(), others.last()) {
                (false, _, Some(last)) if last.action == Action::Delete => {
                    faults.step(Rule::DependentOutlived, last, &desired.target.name);
                }
                (false, Some(first), None) if is_missing || is_removed(other) || stuck.contains(other) => {
                    faults.step(Rule::DependencyIgnored, first, &other.name);
                }
                (false, Some(first), Some(last)) if !depends(first, last) => {
                    faults.step(Rule::DependencyIgnored, first, &last.id);
                }
                (true, Some(own), Some(its))
                    if its.action == Action::Delete
                        && !depends(its, own)
                        && !reaches(scene, other, &desired.target) =>
                {
                    faults.step(Rule::DependentOutlived, its, &own.id);
                }
                _ => {}
            }
        }
    }
}

/// Whether an object depends on another, at whatever distance.
fn reaches(scene: &Scene<'_>, from: &Target, to: &Target) -> bool {
    let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(target) = open.pop() {
        if target == to {
            return true;
        }
        if seen.insert(target) {
            open.extend(scene.desired.get(target).into_iter().flat_map(|desired| &desired.depends_on));
        }
    }
    false
}

/// What is refused is not done all the same.
fn refusals(scene: &Scene<'_>, faults: &mut Faults) {
    for refusal in &scene.change_set.refused {
        let field = refusal.field.trim_start_matches("spec.");
        let steps = scene.steps.get(&refusal.target).into_iter().flatten();
        for step in steps.filter(|step| step.changes.iter().any(|change| change.field == field)) {
            faults.step(Rule::RefusedDone, step, field);
        }
    }
}

fn counts(scene: &Scene<'_>, faults: &mut Faults) {
    let has = |steps: &[&Step], action: Action| steps.iter().any(|step| step.action == action);
    let waiting: BTreeSet<&Target> = scene.change_set.waiting.iter().map(|waiting| &waiting.target).collect();
    let refused: BTreeSet<&Target> = scene.change_set.refused.iter().map(|refusal| &refusal.target).collect();
    let is_mentioned =
        |target: &Target| scene.steps.contains_key(target) || waiting.contains(target) || refused.contains(target);
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let by_steps = |is: &dyn Fn(&[&Step]) -> bool| count(scene.steps.values().filter(|steps| is(steps)).count());
    let expected = Counts {
        creates: by_steps(&|steps| has(steps, Action::Create)),
        updates: by_steps(&|steps| !has(steps, Action::Create) && !has(steps, Action::Delete)),
        deletes: by_steps(&|steps| has(steps, Action::Delete)),
        unchanged: count(scene.desired.keys().filter(|target| !is_mentioned(target)).count()),
        waiting: count(waiting.len()),
        refused: count(refused.len()),
    };
    if expected != scene.change_set.counts {
        faults.add(Rule::CountsWrong, scene.change_set.environment.clone(), format!("not {expected:?}"));
    }
}

fn secrets(scene: &Scene<'_>, faults: &mut Faults) {
    for step in &scene.change_set.steps {
        let Some(desired) = scene.desired.get(&step.target) else { continue };
        for change in &step.changes {
            let shown = [&change.from, &change.to].into_iter().flatten();
            if is_secret(scene, desired, &change.field) && shown.into_iter().any(|text| text != SENSITIVE) {
                faults.step(Rule::SecretShown, step, &change.field);
            }
        }
        let changes = step.changes.iter().flat_map(|change| [&change.from, &change.to].into_iter().flatten());
        let texts = changes.chain([&step.reason, &step.class_reason]);
        if tells(&secrets_of(scene, desired), texts) {
            faults.step(Rule::SecretShown, step, "in its words");
        }
    }
    let waiting = scene.change_set.waiting.iter().map(|waiting| (&waiting.target, &waiting.message));
    let refused = scene.change_set.refused.iter().map(|refusal| (&refusal.target, &refusal.message));
    for (target, message) in waiting.chain(refused) {
        let Some(desired) = scene.desired.get(target) else { continue };
        if tells(&secrets_of(scene, desired), [message]) {
            faults.target(Rule::SecretShown, target, "in its message");
        }
    }
}

fn tells<'t>(secrets: &[&str], texts: impl IntoIterator<Item = &'t String>) -> bool {
    texts.into_iter().any(|text| secrets.iter().any(|secret| text.contains(secret)))
}

/// Whether a field, or the key of it that a path names, must not be shown.
fn is_secret(scene: &Scene<'_>, desired: &Desired, path: &str) -> bool {
    let Some((field, key)) = scene.input.capabilities.field_of(path) else { return false };
    let (name, by_registry) = (field.name, field.sensitive);
    let by_value = match (desired.fields.get(name), key) {
        (Some(Value::Map(entries)), Some(key)) => entries.get(key).is_some_and(Value::is_sensitive),
        (Some(value), _) => value.is_sensitive(),
        (None, _) => false,
    };
    by_registry || by_value
}

fn secrets_of<'a>(scene: &Scene<'_>, desired: &'a Desired) -> Vec<&'a str> {
    let mut found = Vec::new();
    for (name, value) in desired.fields.iter() {
        let all = scene.input.capabilities.field(name).is_some_and(|field| field.sensitive);
        collect_secrets(value, all, &mut found);
    }
    found
}

fn collect_secrets<'a>(value: &'a Value, all: bool, found: &mut Vec<&'a str>) {
    match value {
        Value::Secret(text) if text.len() >= TELLING => found.push(text),
        Value::Text(text) if all && text.len() >= TELLING => found.push(text),
        Value::List(items) => items.iter().for_each(|item| collect_secrets(item, all, found)),
        Value::Map(entries) => entries.iter().for_each(|(_, entry)| collect_secrets(entry, all, found)),
        _ => {}
    }
}
