//! What goes on record of a Machine's guest after a look, and what its status says.

use serde_json::{Value as Json, json};
use setpoint_api::condition::ConditionStatus;
use setpoint_api::machine::{DoneStep, Machine, MachineStatus};
use setpoint_api::step::Action;
use setpoint_core::machine::{
    DRIFTED, READY, SYNCED, Seen, Standing, begin, condition, desire, is_news, is_released, next_status, settle, stood,
    unseen, wanted,
};
use setpoint_core::observation::{Completeness, Config, Guest, Observation, Reading};
use setpoint_core::plan::{ChangeSet, Input, Orphans, Policy, plan};
use setpoint_core::value::Value;

use crate::fixture::{CLUSTER, RACK, foreign, guest, key, machine as desired_machine, now, small, with};

/// A Machine like the usual guest, carried out a while ago.
fn known(change: impl FnOnce(&mut Json)) -> Machine {
    let mut whole = json!({
        "apiVersion": "setpoint.dev/v1alpha1",
        "kind": "Machine",
        "metadata": {"name": "web", "namespace": "shop", "uid": "uid-web", "generation": 1},
        "spec": {
            "environment": "rack", "cores": 2, "memory": "2Gi", "image": "debian-12", "run": "Running",
        },
    });
    let fresh: Machine = serde_json::from_value(whole.clone()).expect("a Machine");
    let digest = desire(&fresh, &[]).expect("a desire").spec_digest(&key());
    whole["status"] = json!({
        "observedGeneration": 1, "providerId": "101", "run": "running", "specDigest": digest,
        "observed": {"cores": "2", "image": "debian-12", "memory": "2048MiB"},
        "conditions": [{"type": "Synced", "status": "True"}],
    });
    change(&mut whole);
    serde_json::from_value(whole).expect("a Machine")
}

fn ours() -> Guest {
    guest("101", &desired_machine("web"), small())
}

fn look(guests: Vec<Guest>) -> Observation {
    Observation { completeness: Completeness::Complete, guests, observed_at: now() }
}

fn partial() -> Observation {
    Observation { completeness: Completeness::Partial("half of it is down".to_owned()), ..look(vec![]) }
}

/// The status after a look, and what was planned by it.
fn after(machine: &Machine, observation: &Observation) -> (MachineStatus, ChangeSet) {
    let (key, desired) = (key(), vec![desire(machine, &[]).expect("a desire")]);
    let policy = Policy { create: Default::default(), orphans: Orphans::Ignore };
    let change_set = plan(&Input {
        environment: "rack",
        cluster: CLUSTER,
        capabilities: &RACK,
        desired: &desired,
        observation,
        policy,
        key: &key,
    });
    let seen = Seen { cluster: CLUSTER, capabilities: &RACK, key: &key, observation };
    let settlement = settle(&machine.status.clone().unwrap_or_default(), &desired[0], &seen);
    let standing = Standing::of(&change_set, &[], !settlement.intents.is_empty());
    (next_status(machine, &desired[0], &settlement, &seen, &standing, wanted(&change_set), now()), change_set)
}

#[test]
fn a_status_says_what_was_seen() {
    let said = |status: &MachineStatus, type_: &str| {
        let condition = condition(status, type_).expect("a condition");
        let (reason, message) = (condition.reason.clone(), condition.message.clone());
        format!("{:?} {}: {}", condition.status, reason.unwrap_or_default(), message.unwrap_or_default())
    };
    let with_run = |word: &str| Guest { run: Reading::Known(word.into()), ..ours() };
    let with_config = |config| Guest { config, ..ours() };
    let rows: Vec<(&str, Machine, Observation, [&str; 3])> = vec![
        (
            "a guest that is as desired",
            known(|_| {}),
            look(vec![ours()]),
            ["True AsDesired: guest 101 is running", "True Synced: the spec is carried out", "False NoDrift: no drift"],
        ),
        (
            "one that somebody changed",
            known(|_| {}),
            look(vec![with_config(Config::known(with(small(), "cores", 4)))]),
            [
                "True AsDesired: guest 101 is running",
                "False Progressing: spec drift: cores 4->2",
                "True Drifted: drift: cores since 2026-11-15T12:00:00Z",
            ],
        ),
        (
            "one that is to be another",
            known(|machine| {
                machine["spec"]["cores"] = json!(8);
                machine["metadata"]["generation"] = json!(2);
            }),
            look(vec![ours()]),
            [
                "True AsDesired: guest 101 is running",
                "False Progressing: spec changed: cores 2->8",
                "False NoDrift: no drift",
            ],
        ),
        (
            "one that somebody stopped",
            known(|_| {}),
            look(vec![with_run("stopped")]),
            [
                "False OtherState: run \"stopped\"->running",
                "False Progressing: run \"stopped\"->running",
                "True Drifted: drift: run since 2026-11-15T12:00:00Z",
            ],
        ),
        (
            "one that is on its way",
            known(|_| {}),
            look(vec![with_run("starting")]),
            [
                "False OtherState: run \"starting\"->running",
                "False Progressing: it is starting",
                "False NoDrift: no drift",
            ],
        ),
        (
            "one that is gone",
            known(|_| {}),
            look(vec![]),
            [
                "False Missing: missing (was 101)",
                "False Progressing: missing (was 101)",
                "True Drifted: drift: guest since 2026-11-15T12:00:00Z",
            ],
        ),
        (
            "one that is gone, and is not made anew",
            known(|machine| machine["spec"]["create"] = json!("Never")),
            look(vec![]),
            [
                "False Missing: missing (was 101)",
                "False Waiting: not there, and create is Never",
                "True Drifted: drift: guest since 2026-11-15T12:00:00Z",
            ],
        ),
        (
            "one that is gone because it was to be another, of which nothing shows",
            known(|machine| {
                machine["status"]["intents"] = json!([{
                    "id": "intent-1", "action": "Replace", "digest": "d", "startedAt": "2026-11-15T11:00:00Z",
                    "epoch": 1, "providerId": "101",
                }]);
            }),
            look(vec![]),
            ["False Missing: missing (was 101)", "False Progressing: new", "False NoDrift: no drift"],
        ),
        (
            "one that is gone, and differed before",
            known(|machine| {
                let field = |field: &str, since: &str| json!({"field": field, "desired": "2", "since": since});
                machine["status"]["drift"] =
                    json!([field("cores", "2026-11-15T10:00:00Z"), field("guest", "2026-11-15T11:00:00Z")]);
            }),
            look(vec![]),
            [
                "False Missing: missing (was 101)",
                "False Progressing: missing (was 101)",
                "True Drifted: drift: guest since 2026-11-15T11:00:00Z",
            ],
        ),
        (
            "one that was gone, and is back",
            known(|machine| {
                machine["status"]["drift"] = json!([{"field": "guest", "since": "2026-11-15T11:00:00Z"}]);
            }),
            look(vec![ours()]),
            ["True AsDesired: guest 101 is running", "True Synced: the spec is carried out", "False NoDrift: no drift"],
        ),
        (
            "one that is gone as it should",
            known(|machine| machine["metadata"]["deletionTimestamp"] = json!("2026-11-15T11:59:00Z")),
            look(vec![]),
            ["False Missing: missing (was 101)", "True Synced: the spec is carried out", "False NoDrift: no drift"],
        ),
        (
            "one that never was",
            known(|machine| machine["status"] = json!({})),
            look(vec![]),
            ["False Missing: it has no guest yet", "False Progressing: new", "False NoDrift: no drift"],
        ),
        (
            "one that could not be seen",
            known(|_| {}),
            partial(),
            [
                "Unknown Unobserved: its guest was not seen, and not everything could be",
                "False Unobserved: not seen, but not everything could be read: half of it is down",
                "False NoDrift: no drift",
            ],
        ),
        (
            "one whose config could not be read",
            known(|_| {}),
            look(vec![with_config(Config::Unreadable("locked".into()))]),
            [
                "True AsDesired: guest 101 is running",
                "False Unobserved: its configuration could not be read and is not changed: locked",
                "False NoDrift: no drift",
            ],
        ),
        (
            "a drift that nobody wants to hear of",
            known(|machine| {
                machine["metadata"]["annotations"] = json!({"setpoint.dev/mute-drift": "cores"});
            }),
            look(vec![with_config(Config::known(with(small(), "cores", 4)))]),
            [
                "True AsDesired: guest 101 is running",
                "True Synced: the spec is carried out",
                "False NoDrift: no drift (1 muted)",
            ],
        ),
    ];
    for (name, machine, observation, expected) in rows {
        let (status, _) = after(&machine, &observation);
        let told = [READY, SYNCED, DRIFTED].map(|type_| said(&status, type_));
        assert_eq!(told, expected, "{name}");
    }
}

#[test]
fn a_look_that_shows_nothing_new_changes_nothing() {
    let machine = known(|_| {});
    let (status, _) = after(&machine, &look(vec![ours()]));
    let told = Machine { status: Some(status.clone()), ..machine };
    let later = Observation { observed_at: now() + jiff::SignedDuration::from_secs(30), ..look(vec![ours()]) };
    assert_eq!(after(&told, &later).0, status);
}

#[test]
fn a_secret_is_not_shown() {
    let secret = |value: &str| with(small(), "env", Value::from([("TOKEN", value), ("MODE", "blue")]));
    let machine = known(|machine| {
        machine["spec"]["env"] = json!([{"name": "MODE", "value": "blue"}]);
        machine["status"]["secretFields"] = json!(["env.TOKEN"]);
    });
    let (status, _) = after(&machine, &look(vec![Guest { config: Config::known(secret("s3cret")), ..ours() }]));
    assert_eq!(status.observed.get("env.TOKEN").map(String::as_str), Some("(sensitive)"));
    assert_eq!(status.observed.get("env.MODE").map(String::as_str), Some("blue"));
    assert!(!format!("{status:?}").contains("s3cret"));
    let unrecorded = known(|machine| machine["status"] = json!({}));
    let (status, _) = after(&unrecorded, &look(vec![Guest { config: Config::known(secret("s3cret")), ..ours() }]));
    assert!(!format!("{status:?}").contains("s3cret"), "without a record nobody knows what was secret");
}

#[test]
fn a_secret_is_remembered_until_it_is_written_over_or_gone() {
    let variable = |text: &str| Config::known(with(small(), "env", Value::from([("TOKEN", text)])));
    let unread = || Config::Read { known: small(), pending: Default::default(), unknown: vec!["env"] };
    let recorded = |machine: &mut Json| machine["status"]["secretFields"] = json!(["env.TOKEN"]);
    let public = |machine: &mut Json| {
        recorded(machine);
        machine["spec"]["env"] = json!([{"name": "TOKEN", "value": "public"}]);
    };
    let rows = [
        ("nobody says any more what it is to be", known(recorded), variable("s3cret"), &["env.TOKEN"][..]),
        ("nobody does, and it cannot be read", known(recorded), unread(), &["env.TOKEN"]),
        ("nobody does, and it is gone", known(recorded), Config::known(small()), &[]),
        ("it is another, in plain", known(public), variable("public"), &[]),
    ];
    for (name, machine, config, expected) in rows {
        let (status, _) = after(&machine, &look(vec![Guest { config, ..ours() }]));
        let synced = condition(&status, SYNCED).and_then(|synced| synced.reason.clone());
        assert_eq!(synced.as_deref(), Some("Synced"), "{name}");
        assert_eq!(status.secret_fields, expected, "{name}");
        assert!(!format!("{status:?}").contains("s3cret"), "{name}");
    }
    let guest = || Guest { config: variable("s3cret"), ..ours() };
    let (unmanaged, _) = after(&known(recorded), &look(vec![guest()]));
    let rewritten = Machine { status: Some(unmanaged), ..known(public) };
    let (status, change_set) = after(&rewritten, &look(vec![guest()]));
    let change = &change_set.steps[0].changes[0];
    assert_eq!((change.field.as_str(), change.from.as_deref()), ("env.TOKEN", Some("(sensitive)")));
    assert!(!format!("{status:?} {:?}", change_set.steps).contains("s3cret"), "it is not shown later either");
}

#[test]
fn an_argument_is_shown_where_it_came_from_no_secret() {
    let seen = || Guest { config: Config::known(with(small(), "args", vec!["--token=s3cret"])), ..ours() };
    let plain = |machine: &mut Json| machine["spec"]["args"] = json!(["--token=s3cret"]);
    let recorded = |machine: &mut Json| machine["status"]["secretFields"] = json!(["args"]);
    let rows: [(&str, Machine, &str); 4] = [
        ("it is desired in plain", known(plain), "[--token=s3cret]"),
        ("nobody says what it is to be", known(|_| {}), "(sensitive)"),
        ("it was written from a Secret", known(recorded), "(sensitive)"),
        (
            "it was written from a Secret, and is yet to be another",
            known(|machine| {
                recorded(machine);
                machine["spec"]["args"] = json!(["--token=public"]);
            }),
            "(sensitive)",
        ),
    ];
    for (name, machine, expected) in rows {
        let (status, change_set) = after(&machine, &look(vec![seen()]));
        assert_eq!(status.observed.get("args").map(String::as_str), Some(expected), "{name}");
        let is_told = format!("{status:?} {:?}", change_set.steps).contains("s3cret");
        assert_eq!(is_told, expected.contains("s3cret"), "{name}");
    }
}

#[test]
fn where_nobody_can_be_asked_a_machine_says_what_is_left_to_do() {
    let unheard = Standing::provider_error("needs Destructive: 0 of 1 approval").unheard();
    let told = "its namespace is being deleted, where nobody can be asked any more (needs Destructive: 0 of 1 approval): \
                to let it go, remove the finalizer setpoint.dev/machine; its guest stays then, and its Environment tells \
                of it as an orphan";
    assert_eq!((unheard.reason, unheard.message.as_str()), ("Waiting", told));
}

#[test]
fn a_call_is_settled_by_what_a_look_shows() {
    let call = |action: &str, id: Option<&str>| {
        known(|machine| {
            machine["status"]["intents"] = json!([{
                "id": "intent-1", "action": action, "digest": "d", "startedAt": "2026-11-15T11:00:00Z", "epoch": 1,
                "providerId": id,
            }]);
        })
    };
    let approved = |mut machine: Machine| {
        let intents = machine.status.iter_mut().flat_map(|status| &mut status.intents);
        intents.for_each(|intent| intent.change_set = Some("set".to_owned()));
        machine
    };
    let clamped = || Guest { config: Config::known(with(small(), "cores", 1)), ..ours() };
    let rows = [
        ("a create that shows", call("Create", None), look(vec![ours()]), (0, 1, Some("101"))),
        ("a create that came to nothing", call("Create", None), look(vec![]), (0, 0, Some("101"))),
        ("a create of which nothing can be said", call("Create", None), partial(), (1, 0, Some("101"))),
        ("a delete that shows", call("Delete", Some("101")), look(vec![]), (0, 1, None)),
        ("a delete that did not happen", call("Delete", Some("101")), look(vec![ours()]), (0, 0, Some("101"))),
        ("a replacement that removed, and made nothing", call("Replace", Some("101")), look(vec![]), (0, 0, None)),
        (
            "an approved one that removed, and made nothing",
            approved(call("Replace", Some("101"))),
            look(vec![]),
            (0, 1, None),
        ),
        ("an update that shows", call("Update", Some("101")), look(vec![ours()]), (0, 1, Some("101"))),
        ("an update that does not show", call("Update", Some("101")), look(vec![clamped()]), (0, 0, Some("101"))),
        (
            "an approved one that does not show",
            approved(call("Update", Some("101"))),
            look(vec![clamped()]),
            (0, 1, Some("101")),
        ),
        (
            "an approved delete that did not happen",
            approved(call("Delete", Some("101"))),
            look(vec![ours()]),
            (0, 0, Some("101")),
        ),
    ];
    for (name, machine, observation, (open, done, id)) in rows {
        let desired = desire(&machine, &[]).expect("a desire");
        let seen = Seen { cluster: CLUSTER, capabilities: &RACK, key: &key(), observation: &observation };
        let settled = settle(machine.status.as_ref().expect("a status"), &desired, &seen);
        let found = (settled.intents.len(), settled.done.len(), settled.provider_id.as_deref());
        assert_eq!(found, (open, done, id), "{name}");
    }
}

#[test]
fn a_call_has_one_id_until_something_is_done() {
    let machine = known(|machine| machine["metadata"]["generation"] = json!(2));
    let (status, change_set) = after(&machine, &look(vec![]));
    let step = &change_set.steps[0];
    let one = begin(&status, "uid-web", step, None, 1, now()).expect("an intent");
    let again = begin(&status, "uid-web", step, None, 2, now()).expect("an intent");
    assert_eq!((one.action, &one.id), (Action::Create, &again.id));
    let mut later = status.clone();
    let digest = "d".to_owned();
    let step_done = DoneStep { action: Action::Create, digest, at: now(), change_set: None, unseen: false };
    later.done.push(step_done);
    assert_ne!(begin(&later, "uid-web", step, None, 1, now()).expect("an intent").id, one.id);
    let full = MachineStatus { intents: vec![one; setpoint_api::machine::MAX_INTENTS], ..status };
    assert_eq!(begin(&full, "uid-web", step, None, 1, now()), None, "there is an end to it");
}

#[test]
fn a_machine_goes_when_nothing_is_left_of_it() {
    let leaving = || known(|machine| machine["metadata"]["deletionTimestamp"] = json!("2026-11-15T11:59:00Z"));
    let rows = [
        ("nothing is there", leaving(), look(vec![]), true),
        ("its guest is there", leaving(), look(vec![ours()]), false),
        ("not everything was seen", leaving(), partial(), false),
        ("somebody else's guest is there", leaving(), look(vec![foreign("7", small())]), true),
        ("it is not being deleted", known(|_| {}), look(vec![]), false),
    ];
    for (name, machine, observation, expected) in rows {
        let (_, change_set) = after(&machine, &observation);
        let desired = desire(&machine, &[]).expect("a desire");
        let seen = Seen { cluster: CLUSTER, capabilities: &RACK, key: &key(), observation: &observation };
        let settlement = settle(machine.status.as_ref().expect("a status"), &desired, &seen);
        assert_eq!(is_released(&desired, &change_set, &settlement, &seen), expected, "{name}");
    }
}

#[test]
fn a_sweep_wakes_those_to_whom_it_is_news() {
    let with_cores = |cores: i64| Guest { config: Config::known(with(small(), "cores", cores)), ..ours() };
    let with_secret =
        |value: &str| Guest { config: Config::known(with(small(), "env", Value::from([("TOKEN", value)]))), ..ours() };
    let unmarked = || Guest { mark: None, ..ours() };
    let secretive = || known(|machine| machine["status"]["observed"]["env.TOKEN"] = json!("(sensitive)"));
    let rows = vec![
        ("all is as it was told", known(|_| {}), vec![ours()], None, false),
        ("a field is another", known(|_| {}), vec![with_cores(4)], None, true),
        ("it stopped", known(|_| {}), vec![Guest { run: Reading::Known("stopped".into()), ..ours() }], None, true),
        ("it is gone", known(|_| {}), vec![], None, true),
        ("it is there twice", known(|_| {}), vec![ours(), guest("102", &desired_machine("web"), small())], None, true),
        (
            "the one it insists on has come",
            known(|machine| machine["status"] = json!({})),
            vec![unmarked()],
            None,
            true,
        ),
        (
            "that one is nobody's, and was told of",
            known(|machine| machine["status"]["providerId"] = Json::Null),
            vec![unmarked()],
            None,
            false,
        ),
        ("its guest has lost our mark", known(|_| {}), vec![unmarked()], None, true),
        ("nothing was ever told", known(|machine| machine["status"] = Json::Null), vec![ours()], None, true),
        (
            "it cannot be read",
            known(|_| {}),
            vec![Guest { config: Config::Unreadable("x".into()), ..ours() }],
            None,
            false,
        ),
        ("a secret is the same", secretive(), vec![with_secret("a")], Some(with_secret("a")), false),
        ("a secret is another", secretive(), vec![with_secret("b")], Some(with_secret("a")), true),
        ("a secret was never compared", secretive(), vec![with_secret("a")], None, true),
    ];
    for (name, machine, guests, before, expected) in rows {
        let guests: Vec<&Guest> = guests.iter().collect();
        let found = is_news(&machine, &guests, || before.as_ref(), &Completeness::Complete, &RACK);
        assert_eq!(found, expected, "{name}");
    }
    let unseen = Completeness::Partial("half".to_owned());
    assert!(!is_news(&known(|_| {}), &[], || None, &unseen, &RACK), "what was not seen is not gone");
}

#[test]
fn a_status_says_what_is_wanted_where_that_is_known() {
    let count = |status: &MachineStatus| status.wanted.as_ref().map(Vec::len);
    let off = Guest { run: Reading::Known("stopped".into()), ..ours() };
    let rows = [
        ("it is as desired", look(vec![ours()]), None),
        ("a step is to be taken", look(vec![off]), Some(1)),
        ("not all was seen", partial(), None),
    ];
    for (name, observation, expected) in rows {
        assert_eq!(count(&after(&known(|_| {}), &observation).0), expected, "{name}");
    }
    let rows = [("nobody has planned for another spec yet", 2, None), ("what was planned still is", 1, Some(1))];
    for (name, generation, expected) in rows {
        let machine = known(|machine| {
            machine["metadata"]["generation"] = json!(generation);
            machine["status"]["wanted"] = json!(["sha256:a"]);
        });
        assert_eq!(count(&stood(&machine, &Standing::provider_error("it is down"), now())), expected, "{name}");
    }
}

#[test]
fn of_a_place_that_cannot_be_looked_at_nothing_is_known() {
    let machine = known(|machine| {
        let conditions = machine["status"]["conditions"].as_array_mut().expect("conditions");
        conditions.push(json!({"type": "Ready", "status": "True"}));
    });
    let status = unseen(&machine, "there is no Secret", now());
    for type_ in [READY, SYNCED] {
        let condition = condition(&status, type_).expect("a condition");
        let said = (condition.status, condition.reason.as_deref(), condition.message.as_deref());
        assert_eq!(said, (ConditionStatus::Unknown, Some("Unobserved"), Some("there is no Secret")), "{type_}");
    }
    assert_eq!(status.provider_id.as_deref(), Some("101"), "what was known of the guest stays on record");
}
