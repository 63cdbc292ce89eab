//! The checker finds what is wrong: sound change sets are spoilt, one rule at a time.

use std::collections::BTreeSet;

use jiff::SignedDuration;
use setpoint_api::price::Price;
use setpoint_api::step::{Action, Class, Effect, FieldChange, Origin, Refusal, Step};
use setpoint_core::check::{Rule, Violation, check};
use setpoint_core::desired::{Create, DeletionPolicy, Desired, Elsewhere, Intent, Run};
use setpoint_core::observation::{Completeness, Config, Guest, Reading};
use setpoint_core::plan::{ChangeSet, Input, Orphans};
use setpoint_core::registry::Capabilities;
use setpoint_core::value::Value;

use crate::fixture::{
    CLUSTER, GIB, GPU, RACK, Scene, foreign, guest, key, machine, now, recorded, small, target, with,
};

const PASSWORD: &str = "correct-horse";

/// A sound change set, what is done to it or to its input, and the rule that is broken then.
struct Row {
    name: &'static str,
    rule: Rule,
    scene: fn() -> Scene,
    spoil: fn(&mut Scene, &mut ChangeSet),
}

fn row(name: &'static str, rule: Rule, scene: fn() -> Scene, spoil: fn(&mut Scene, &mut ChangeSet)) -> Row {
    Row { name, rule, scene, spoil }
}

fn web() -> Desired {
    Desired { fields: small(), run: Some(Run::Running), ..machine("web") }
}

/// One machine on record with one guest.
fn one(desired: Desired, change: impl FnOnce(Guest) -> Guest) -> Scene {
    let guest = change(guest("101", &desired, small()));
    Scene::new(&RACK, vec![recorded(desired, "101")], vec![guest])
}

fn updates() -> Scene {
    one(web(), |guest| Guest { config: Config::known(with(small(), "cores", 4)), ..guest })
}

fn creates() -> Scene {
    Scene::new(&RACK, vec![web()], vec![])
}

fn spends() -> Scene {
    let pod = Desired { hourly_price: Some(Price::from_micros(340_000)), ..machine("pod") };
    Scene::new(&GPU, vec![pod], vec![])
}

fn restarts() -> Scene {
    one(Desired { fields: with(small(), "hostname", "web"), ..web() }, |guest| guest)
}

fn grows() -> Scene {
    let desired = Desired { fields: with(small(), "disk", 8 * GIB), ..web() };
    one(desired, |guest| Guest { config: Config::known(with(small(), "disk", 4 * GIB)), ..guest })
}

fn replaces() -> Scene {
    one(Desired { fields: with(small(), "image", "alpine"), ..web() }, |guest| guest)
}

fn deletes() -> Scene {
    one(Desired { deletion: Some(DeletionPolicy::Delete), ..web() }, |guest| guest)
}

fn releases() -> Scene {
    one(Desired { deletion: Some(DeletionPolicy::Retain), ..web() }, |guest| guest)
}

fn starts() -> Scene {
    one(web(), |guest| Guest { run: Reading::Known("stopped".into()), ..guest })
}

fn stops() -> Scene {
    one(Desired { run: Some(Run::Stopped), ..web() }, |guest| guest)
}

fn adopts() -> Scene {
    let pinned = Desired { provider_id: Some("101".into()), ..web() };
    Scene::new(&RACK, vec![pinned], vec![foreign("101", with(small(), "cores", 4))])
}

fn sweeps() -> Scene {
    Scene::new(&RACK, vec![], vec![guest("101", &machine("nobody"), small())]).orphans(Orphans::Delete)
}

fn keeps_a_secret() -> Scene {
    one(Desired { fields: with(small(), "password", Value::secret(PASSWORD)), ..web() }, |guest| guest)
}

fn settled() -> Scene {
    one(web(), |guest| guest)
}

/// `web` depends on `db`, and both are to be made.
fn chained() -> Scene {
    let web = Desired { depends_on: vec![target("db")], ..web() };
    Scene::new(&RACK, vec![web, machine("db")], vec![])
}

/// `web` depends on `db`, and both are being deleted.
fn dismantled() -> Scene {
    let web = Desired { depends_on: vec![target("db")], deletion: Some(DeletionPolicy::Delete), ..web() };
    let db = Desired { deletion: Some(DeletionPolicy::Delete), ..machine("db") };
    let guests = vec![guest("101", &web, small()), guest("102", &db, small())];
    Scene::new(&RACK, vec![web, db], guests)
}

/// One is made, another is deleted.
fn mixed() -> Scene {
    let old = Desired { deletion: Some(DeletionPolicy::Delete), ..machine("old") };
    let guest = guest("101", &old, small());
    Scene::new(&RACK, vec![web(), old], vec![guest])
}

fn first(change_set: &mut ChangeSet) -> &mut Step {
    &mut change_set.steps[0]
}

fn add_change(change_set: &mut ChangeSet, field: &str, effect: Effect) {
    let change = FieldChange { field: field.into(), from: Some("a".into()), to: Some("b".into()), effect };
    first(change_set).changes.push(change);
}

fn begun(action: Action) -> Vec<Intent> {
    let started_at = now() - SignedDuration::from_secs(1);
    vec![Intent { id: "call".into(), action, provider_id: None, started_at, approved: false }]
}

fn rows() -> Vec<Row> {
    let mut rows = rows_of_form();
    rows.extend(rows_of_subject());
    rows.extend(rows_of_content());
    rows.extend(rows_of_stakes());
    rows.extend(rows_of_silence());
    rows
}

fn rows_of_form() -> Vec<Row> {
    vec![
        row("an id of its own making", Rule::IdMalformed, updates, |_, set| first(set).id = "step-1".into()),
        row("an id of another action", Rule::IdMalformed, sweeps, |_, set| first(set).id = "guest/101/stop".into()),
        row("the same step twice", Rule::IdRepeated, updates, |_, set| set.steps.push(set.steps[0].clone())),
        row("no reason", Rule::ReasonMissing, updates, |_, set| first(set).reason.clear()),
        row("no reason for the class", Rule::ReasonMissing, updates, |_, set| first(set).class_reason = " ".into()),
        row("no digest", Rule::DigestMissing, updates, |_, set| first(set).digest.clear()),
        row("half a digest", Rule::DigestMissing, updates, |_, set| first(set).digest.truncate(20)),
        row("one digest for two steps", Rule::DigestShared, restarts, |_, set| {
            set.steps[1].digest = set.steps[0].digest.clone();
        }),
        row("a dependency on nothing", Rule::DependencyMissing, updates, |_, set| {
            first(set).depends_on.push("shop/db/create".into());
        }),
        row("a dependency on what comes later", Rule::DependencyLate, restarts, |_, set| {
            let later = set.steps[1].id.clone();
            first(set).depends_on.push(later);
        }),
        row("a dependency on itself", Rule::DependencyLate, updates, |_, set| {
            let own = first(set).id.clone();
            first(set).depends_on.push(own);
        }),
        row("a restart that does not wait for the update", Rule::ChainBroken, restarts, |_, set| {
            set.steps[1].depends_on.clear();
        }),
        row("stopped before it is configured", Rule::OrderBroken, restarts, |_, set| set.steps.swap(0, 1)),
        row("two updates of one guest", Rule::ActionRepeated, updates, |_, set| set.steps.push(set.steps[0].clone())),
        row("deleted before another is made", Rule::DeletesEarly, mixed, |_, set| set.steps.reverse()),
        row("made without waiting for what it needs", Rule::DependencyIgnored, chained, |_, set| {
            set.steps[1].depends_on.clear();
        }),
        row("made though what it needs is refused", Rule::DependencyIgnored, chained, |_, set| {
            let refused = set.steps.remove(0);
            set.steps[0].depends_on.clear();
            set.refused.push(Refusal { target: refused.target, field: "spec.cores".into(), message: "0".into() });
        }),
        row("made though what it needs is not desired", Rule::DependencyIgnored, creates, |scene, _| {
            scene.desired[0].depends_on.push(target("ghost"));
        }),
        row("made though what it needs elsewhere is not there yet", Rule::DependencyIgnored, creates, |scene, _| {
            scene.desired[0].depends_on.push(target("ghost"));
            scene.desired[0].elsewhere.insert(target("ghost"), Elsewhere::NotYet);
        }),
        row("removed though something elsewhere needs it", Rule::DependentOutlived, deletes, |scene, _| {
            scene.desired[0].needed_elsewhere.push(target("front"));
        }),
        row("removed before what needs it", Rule::DependentOutlived, dismantled, |_, set| {
            set.steps[1].depends_on.clear();
        }),
        row("removed though something needs it", Rule::DependentOutlived, deletes, |scene, _| {
            scene.desired.push(Desired { depends_on: vec![target("web")], ..machine("front") });
        }),
        row("refused and done all the same", Rule::RefusedDone, updates, |_, set| {
            let target = set.steps[0].target.clone();
            set.refused.push(Refusal { target, field: "spec.cores".into(), message: "too few".into() });
        }),
        row("an update that is not counted", Rule::CountsWrong, updates, |_, set| set.counts.updates = 0),
        row("a machine that is not counted at all", Rule::CountsWrong, settled, |_, set| set.counts.unchanged = 0),
        row("for another environment", Rule::EnvironmentWrong, updates, |_, set| set.environment = "else".into()),
        row("a secret in a change", Rule::SecretShown, keeps_a_secret, |_, set| {
            first(set).changes[0].to = Some(PASSWORD.into());
        }),
        row("what a secret was before", Rule::SecretShown, keeps_a_secret, |_, set| {
            first(set).changes[0].from = Some("hunter2".into());
        }),
        row("a secret in a reason", Rule::SecretShown, keeps_a_secret, |_, set| {
            first(set).reason = format!("password ->{PASSWORD}");
        }),
    ]
}

fn rows_of_subject() -> Vec<Row> {
    vec![
        row("for an object that nobody desires", Rule::TargetUnknown, updates, |scene, _| scene.desired.clear()),
        row("an orphan of another control plane", Rule::TargetUnknown, sweeps, |scene, _| {
            scene.observation.guests[0].mark.as_mut().expect("it is marked").cluster = "another".into();
        }),
        row("an orphan that nobody marked", Rule::TargetUnknown, sweeps, |scene, _| {
            scene.observation.guests[0].mark = None;
        }),
        row("two machines of one name", Rule::TwinTargets, updates, |scene, _| {
            scene.desired.push(scene.desired[0].clone());
        }),
        row("to no guest", Rule::GuestUnnamed, updates, |_, set| first(set).provider_id = None),
        row("to a guest that was not seen", Rule::GuestUnseen, updates, |_, set| {
            first(set).provider_id = Some("999".into());
        }),
        row("to a guest of another control plane", Rule::GuestForeign, updates, |scene, _| {
            scene.observation.guests[0].mark.as_mut().expect("it is marked").cluster = "another".into();
        }),
        row("to a guest of another object", Rule::GuestForeign, updates, |scene, _| {
            scene.observation.guests[0].mark.as_mut().expect("it is marked").owner_uid = "uid-db".into();
        }),
        row("to a guest without a mark", Rule::GuestUnmarked, updates, |scene, _| {
            scene.observation.guests[0].mark = None;
        }),
        row("deleting what was never ours", Rule::GuestUnmarked, deletes, |scene, _| {
            scene.observation.guests[0].mark = None;
        }),
        row("to a guest that is locked", Rule::GuestBusy, updates, |scene, _| {
            scene.observation.guests[0].busy = Some("backup".into());
        }),
        row("to a template", Rule::GuestTemplate, updates, |scene, _| scene.observation.guests[0].is_template = true),
        row("to another guest than the pinned one", Rule::GuestWrong, updates, |scene, _| {
            scene.desired[0].provider_id = Some("102".into());
        }),
        row("adopting a guest that nobody insists on", Rule::GuestWrong, adopts, |scene, _| {
            scene.desired[0].provider_id = None;
        }),
        row("for a guest that two claim", Rule::ClaimedTwice, updates, |scene, _| {
            scene.desired.push(Desired { provider_id: Some("101".into()), ..machine("rival") });
        }),
        row("made while an earlier create may still show", Rule::OutcomeUnknown, creates, |scene, _| {
            scene.desired[0].record.intents = begun(Action::Create);
        }),
        row("made though not everything was seen", Rule::CreateUnproven, creates, |scene, _| {
            scene.observation.completeness = Completeness::Partial("a node is down".into());
        }),
        row("made though it is there", Rule::CreateNeedless, creates, |scene, _| {
            scene.observation.guests.push(guest("101", &scene.desired[0], small()));
        }),
        row("made though the recorded guest only lost its mark", Rule::CreateNeedless, creates, |scene, _| {
            scene.desired[0].record.provider_id = Some("101".into());
            scene.observation.guests.push(foreign("101", small()));
        }),
        row("made though the machine says never", Rule::CreateForbidden, creates, |scene, _| {
            scene.desired[0].create = Create::Never;
        }),
        row("made though the environment says never", Rule::CreateForbidden, creates, |scene, _| {
            scene.policy.create = Create::Never;
        }),
        row("deleted though it is desired", Rule::DeleteUnrequested, deletes, |scene, _| {
            scene.desired[0].deletion = None;
        }),
        row("deleted though it is to be kept", Rule::DeleteUnrequested, deletes, |scene, _| {
            scene.desired[0].deletion = Some(DeletionPolicy::Retain);
        }),
        row("released though it is desired", Rule::DeleteUnrequested, releases, |scene, _| {
            scene.desired[0].deletion = None;
        }),
        row("swept though orphans are only reported", Rule::DeleteUnrequested, sweeps, |scene, _| {
            scene.policy.orphans = Orphans::Report;
        }),
        row("swept though somebody wants it", Rule::DeleteUnrequested, sweeps, |scene, _| {
            scene.desired.push(machine("nobody"));
        }),
        row("deleted though it is protected", Rule::DeleteProtected, deletes, |scene, _| {
            scene.desired[0].protected = true;
        }),
        row("replaced though it is protected", Rule::DeleteProtected, replaces, |scene, _| {
            scene.desired[0].protected = true;
        }),
        row("changed though it is being deleted", Rule::DeletedChanged, updates, |scene, _| {
            scene.desired[0].deletion = Some(DeletionPolicy::Retain);
        }),
        row("made where nothing can be made", Rule::ActionUnable, creates, |scene, _| {
            scene.capabilities = Box::leak(Box::new(Capabilities { creates: false, ..RACK.clone() }));
        }),
        row("made first where that cannot be", Rule::ActionUnable, replaces, |_, set| first(set).create_first = true),
        row("started though it is to be stopped", Rule::RunUnwanted, starts, |scene, _| {
            scene.desired[0].run = Some(Run::Stopped);
        }),
        row("stopped though nobody manages that", Rule::RunUnwanted, stops, |scene, _| scene.desired[0].run = None),
        row("started though it runs", Rule::RunUnwanted, starts, |scene, _| {
            scene.observation.guests[0].run = Reading::Known("running".into());
        }),
        row("stopped for a restart and left so", Rule::RunUnwanted, restarts, |_, set| {
            set.steps[1].action = Action::Stop;
            set.steps[1].id = "shop/web/stop".into();
        }),
        row("started while it stops", Rule::RunPassing, starts, |scene, _| {
            scene.observation.guests[0].run = Reading::Known("stopping".into());
        }),
        row("started though nobody knows whether it runs", Rule::WrittenBlind, starts, |scene, _| {
            scene.observation.guests[0].run = Reading::Unknown;
        }),
    ]
}

fn rows_of_content() -> Vec<Row> {
    vec![
        row("written over unreadable configuration", Rule::WrittenBlind, updates, |scene, _| {
            scene.observation.guests[0].config = Config::Unreadable("no answer".into());
        }),
        row("written over a field that could not be read", Rule::WrittenBlind, updates, |scene, _| {
            if let Config::Read { unknown, .. } = &mut scene.observation.guests[0].config {
                unknown.push("cores");
            }
        }),
        row("a field that nobody desires", Rule::FieldUnmanaged, updates, |_, set| {
            add_change(set, "onboot", Effect::InPlace);
        }),
        row("for a machine with a field that nobody knows", Rule::FieldUnregistered, updates, |scene, _| {
            scene.desired[0].fields.set("gaurdrails", true);
        }),
        row("a field twice", Rule::FieldRepeated, updates, |_, set| add_change(set, "cores", Effect::InPlace)),
        row("a muted drift", Rule::FieldMuted, updates, |scene, set| {
            scene.desired[0].muted.push("cores".into());
            first(set).origin = Origin::Drift;
        }),
        row("for a machine with no cores", Rule::BoundsIgnored, updates, |scene, _| {
            scene.desired[0].fields.set("cores", 0);
        }),
        row("for a machine with more cores than there can be", Rule::BoundsIgnored, creates, |scene, _| {
            scene.desired[0].fields.set("cores", 129);
        }),
        row("a new image by an update", Rule::EffectWrong, updates, |_, set| add_change(set, "image", Effect::InPlace)),
        row("a replacement that nothing needs", Rule::EffectWrong, replaces, |_, set| {
            first(set).changes = vec![FieldChange {
                field: "cores".into(),
                from: Some("4".into()),
                to: Some("2".into()),
                effect: Effect::InPlace,
            }];
        }),
        row("an update of nothing", Rule::ChangesMissing, updates, |_, set| first(set).changes.clear()),
        row("a smaller disk", Rule::ShrinkPlanned, grows, |scene, _| scene.desired[0].fields.set("disk", 2 * GIB)),
        row("a disk of the same size", Rule::ShrinkPlanned, grows, |scene, _| {
            scene.desired[0].fields.set("disk", 4 * GIB + 1);
        }),
        row("a new hostname without a restart", Rule::RestartMissing, restarts, |_, set| set.steps.truncate(1)),
        row("what was planned for another desire", Rule::SpecDigestWrong, updates, |scene, _| {
            scene.desired[0].fields.set("onboot", true);
        }),
        row("a digest of nothing", Rule::SpecDigestWrong, creates, |_, set| first(set).new_spec_digest = None),
    ]
}

fn rows_of_stakes() -> Vec<Row> {
    vec![
        row("a delete of data as if it were nothing", Rule::ClassTooLow, deletes, |scene, _| {
            scene.observation.guests[0].holds_data = Reading::Known(true);
        }),
        row("a delete though data may be there", Rule::ClassTooLow, deletes, |scene, _| {
            scene.observation.guests[0].holds_data = Reading::Unknown;
        }),
        row("a delete though nobody says anything of data", Rule::ClassTooLow, deletes, |scene, _| {
            scene.observation.guests[0].holds_data = Reading::Absent;
        }),
        row("a delete of what was adopted", Rule::ClassTooLow, deletes, |scene, _| {
            scene.observation.guests[0].mark.as_mut().expect("it is marked").intent = None;
        }),
        row("a sweep of data", Rule::ClassTooLow, sweeps, |scene, _| {
            scene.observation.guests[0].holds_data = Reading::Known(true);
        }),
        row("a replacement as if nothing were down", Rule::ClassTooLow, replaces, |_, set| {
            first(set).class = Class::Benign;
        }),
        row("a replacement of data as a mere interruption", Rule::ClassTooLow, replaces, |scene, _| {
            scene.observation.guests[0].holds_data = Reading::Known(true);
        }),
        row("a stop as if nothing ran", Rule::ClassTooLow, stops, |_, set| first(set).class = Class::Benign),
        row("a stop of a guest in a state nobody knows", Rule::ClassTooLow, stops, |scene, set| {
            scene.observation.guests[0].run = Reading::Known("panicked".into());
            first(set).class = Class::Benign;
        }),
        row("money as if it were nothing", Rule::ClassTooLow, spends, |_, set| first(set).class = Class::Benign),
        row("money though no price is known", Rule::ClassTooLow, spends, |_, set| {
            first(set).hourly_cost_delta = None;
            first(set).class = Class::Disruptive;
        }),
        row("a dearer update as if it were free", Rule::ClassTooLow, updates, |_, set| {
            first(set).hourly_cost_delta = Some(Price::from_micros(1));
        }),
    ]
}

fn rows_of_silence() -> Vec<Row> {
    vec![
        row("no guest, and nothing said", Rule::SilentlySkipped, settled, |scene, _| scene.observation.guests.clear()),
        row("stopped, and nothing said", Rule::SilentlySkipped, settled, |scene, _| {
            scene.observation.guests[0].run = Reading::Known("stopped".into());
        }),
        row("unreadable, and nothing said", Rule::SilentlySkipped, settled, |scene, _| {
            scene.observation.guests[0].config = Config::Unreadable("no answer".into());
        }),
        row("other cores, and nothing said", Rule::SilentlySkipped, settled, |scene, _| {
            scene.desired[0].fields.set("cores", 8);
        }),
        row("no cores at all, and nothing said", Rule::SilentlySkipped, settled, |scene, _| {
            scene.desired[0].fields.set("cores", 0);
        }),
        row("somebody else's guest, and nothing said", Rule::SilentlySkipped, settled, |scene, _| {
            scene.desired[0].provider_id = Some("101".into());
            scene.observation.guests[0].mark = None;
        }),
        row("still there after the object, and nothing said", Rule::SilentlySkipped, settled, |scene, _| {
            scene.desired[0].deletion = Some(DeletionPolicy::Delete);
        }),
        row("claimed by two, and nothing said", Rule::SilentlySkipped, settled, |scene, set| {
            scene.desired.push(Desired { provider_id: Some("101".into()), ..machine("rival") });
            set.counts.unchanged = 2;
        }),
    ]
}

fn violations(scene: &Scene, change_set: &ChangeSet) -> Vec<Violation> {
    let input = Input {
        environment: scene.capabilities.deployer,
        cluster: CLUSTER,
        capabilities: scene.capabilities,
        desired: &scene.desired,
        observation: &scene.observation,
        policy: scene.policy,
        key: &key(),
    };
    check(&input, change_set)
}

#[test]
fn a_spoilt_change_set_is_found() {
    for Row { name, rule, scene, spoil } in rows() {
        let mut scene = scene();
        let mut change_set = scene.plan();
        let sound = violations(&scene, &change_set);
        assert!(sound.is_empty(), "{name}: before it is spoilt: {sound:?}\n{change_set}");
        spoil(&mut scene, &mut change_set);
        let found = violations(&scene, &change_set);
        let rules: BTreeSet<Rule> = found.iter().map(|violation| violation.rule).collect();
        assert!(rules.contains(&rule), "{name}: {rule:?} not in {rules:?}\n{change_set}");
    }
}

#[test]
fn every_rule_can_be_broken() {
    let broken: BTreeSet<Rule> = rows().iter().map(|row| row.rule).collect();
    let unbroken: Vec<&Rule> = Rule::ALL.iter().filter(|rule| !broken.contains(rule)).collect();
    assert!(unbroken.is_empty(), "no row breaks {unbroken:?}");
}

#[test]
fn a_violation_reads_as_a_sentence() {
    let scene = updates();
    let mut change_set = scene.plan();
    change_set.steps[0].provider_id = Some("999".into());
    let told: Vec<String> = violations(&scene, &change_set).iter().map(ToString::to_string).collect();
    assert_eq!(told, ["shop/web/update: a step is done to a guest that was not observed (999)"]);
}
