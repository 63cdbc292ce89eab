//! What a step says of itself: why, what it costs, what it follows, and what exactly its digest names.

use setpoint_api::price::Price;
use setpoint_api::step::{Action, Class, Origin, Target};
use setpoint_core::desired::{Create, DeletionPolicy, Desired, Run};
use setpoint_core::observation::{Config, Guest, Reading};
use setpoint_core::plan::{ChangeSet, GUEST, Orphans};
use setpoint_core::registry::Capabilities;
use setpoint_core::value::Value;

use crate::fixture::{
    GIB, GPU, MIB, RACK, Scene, fields, foreign, guest, key, known_web, machine, marked, recorded, runs, scene, small,
    target, wants, web, web_guest, with,
};

#[test]
fn a_step_says_why() {
    let drifted = Guest { config: Config::known(with(with(small(), "cores", 1), "memory", 1024 * MIB)), ..web_guest() };
    let described = |machine: Desired| Desired { fields: with(machine.fields.clone(), "description", "x"), ..machine };
    let digest_on_mark = |digest: String| marked(drifted.clone(), |mark| mark.spec_digest = Some(digest.into()));
    let rows = [
        (
            "drift: the desire is as it was carried out",
            recorded(described(web()), "101"),
            drifted.clone(),
            Origin::Drift,
            "spec drift: cores 1->2, description, memory 1024MiB->2048MiB",
        ),
        (
            "the desire changed since",
            described(known_web()),
            drifted.clone(),
            Origin::Desired,
            "spec changed: cores 1->2, description, memory 1024MiB->2048MiB",
        ),
        (
            "ours by mark, and nothing says what it was made from",
            web(),
            drifted.clone(),
            Origin::Unrecorded,
            "spec unrecorded: cores 1->2, memory 1024MiB->2048MiB",
        ),
        (
            "the mark says what it was made from where no record does",
            web(),
            digest_on_mark(web().spec_digest(&key())),
            Origin::Drift,
            "spec drift: cores 1->2, memory 1024MiB->2048MiB",
        ),
        (
            "the record counts more than the mark",
            known_web(),
            digest_on_mark("sha256:old".to_owned()),
            Origin::Drift,
            "spec drift: cores 1->2, memory 1024MiB->2048MiB",
        ),
        (
            "a run state is quoted as the provider says it",
            Desired { run: Some(Run::Running), ..known_web() },
            runs("Hibernated"),
            Origin::Drift,
            "run \"Hibernated\"->running",
        ),
    ];
    for (name, desired, guest, origin, reason) in rows {
        let change_set = scene(vec![desired], vec![guest]).plan();
        let step = &change_set.steps[0];
        assert_eq!((step.origin, &*step.reason), (origin, reason), "{name}");
    }
    let missing = scene(vec![known_web()], vec![]).plan();
    assert_eq!((missing.steps[0].origin, &*missing.steps[0].reason), (Origin::Drift, "missing (was 101)"));
}

#[test]
fn a_change_carries_the_old_and_the_new_spec_digest() {
    let before = known_web();
    let after = wants(with(small(), "cores", 4));
    let step = scene(vec![after.clone()], vec![web_guest()]).plan().steps.remove(0);
    assert_eq!(step.old_spec_digest.as_deref(), before.record.spec_digest.as_deref());
    assert_eq!(step.new_spec_digest, Some(after.spec_digest(&key())));
    let deleted = Desired { deletion: Some(DeletionPolicy::Delete), ..known_web() };
    let step = scene(vec![deleted], vec![web_guest()]).plan().steps.remove(0);
    assert_eq!((step.old_spec_digest, step.new_spec_digest), (Some(before.spec_digest(&key())), None));
}

#[test]
fn counts() {
    let desired = vec![
        machine("new"),
        wants(with(small(), "cores", 4)),
        Desired { fields: small(), ..machine("fine") },
        Desired { deletion: Some(DeletionPolicy::Delete), ..machine("old") },
        Desired { create: Create::Never, ..machine("never") },
        Desired { fields: with(small(), "cores", 0), ..machine("none") },
    ];
    let guests = vec![web_guest(), guest("102", &machine("fine"), small()), guest("103", &machine("old"), small())];
    let change_set = scene(desired, guests).plan();
    let counts = change_set.counts;
    assert_eq!((counts.creates, counts.updates, counts.deletes), (1, 1, 1));
    assert_eq!((counts.unchanged, counts.waiting, counts.refused), (1, 1, 1));
    assert!(change_set.has_changes());
    assert_eq!(change_set.actionable().len(), 3);
    let unchanged = scene(vec![known_web()], vec![web_guest()]).plan();
    assert!(!unchanged.has_changes());
}

#[test]
fn one_line_names_the_object_the_verb_and_the_fields() {
    let pod = Desired { fields: fields([("gpu.count", 2.into()), ("image", "vllm:2".into())]), ..machine("inference") };
    let observed = fields([("gpu.count", 2.into()), ("image", "vllm:1".into())]);
    let change_set = Scene::new(&GPU, vec![pod.clone()], vec![guest("p-1", &pod, observed)]).plan();
    assert_eq!(change_set.lines(), ["inference: update (image)"]);
}

#[test]
fn costs() {
    let priced = |machine: Desired, price: &str| Desired { hourly_price: Some(price.parse().unwrap()), ..machine };
    let costs = |guest: Guest, price: &str| Guest { hourly_price: Some(price.parse().unwrap()), ..guest };
    let bigger = || wants(with(small(), "cores", 4));
    for (name, scene, expected) in [
        ("a create costs its price", scene(vec![priced(web(), "0.5")], vec![]), Some("0.50")),
        (
            "an update costs the difference",
            scene(vec![priced(bigger(), "0.7")], vec![costs(web_guest(), "0.5")]),
            Some("0.20"),
        ),
        ("a smaller one saves", scene(vec![priced(bigger(), "0.2")], vec![costs(web_guest(), "0.5")]), Some("-0.30")),
        ("an unknown price is not nothing", scene(vec![bigger()], vec![costs(web_guest(), "0.5")]), None),
        (
            "a delete saves what it costs",
            scene(
                vec![Desired { deletion: Some(DeletionPolicy::Delete), ..known_web() }],
                vec![costs(web_guest(), "0.5")],
            ),
            Some("-0.50"),
        ),
        (
            "an update and a start cost the difference once",
            scene(
                vec![priced(Desired { run: Some(Run::Running), ..bigger() }, "0.7")],
                vec![costs(runs("stopped"), "0.1")],
            ),
            Some("0.60"),
        ),
        (
            "what is stopped and not managed costs no more for a change",
            scene(vec![priced(bigger(), "0.7")], vec![costs(runs("stopped"), "0.1")]),
            Some("0.00"),
        ),
        (
            "a larger disk costs the difference once",
            scene(
                vec![priced(wants(with(with(small(), "cores", 4), "disk", 20 * GIB)), "0.7")],
                vec![costs(Guest { config: Config::known(with(small(), "disk", 10 * GIB)), ..web_guest() }, "0.5")],
            ),
            Some("0.20"),
        ),
        (
            "what is made stopped costs nothing yet",
            scene(vec![priced(Desired { run: Some(Run::Stopped), ..web() }, "0.7")], vec![]),
            Some("0.00"),
        ),
    ] {
        let expected = expected.map(|text| text.parse::<Price>().unwrap());
        assert_eq!(scene.plan().hourly_cost_delta(), expected, "{name}");
    }
}

#[test]
fn a_digest_names_exactly_what_will_be_done() {
    let wants_cores = |cores: i64| wants(with(small(), "cores", cores));
    let digest = |desired: Desired, guest: Guest| scene(vec![desired], vec![guest]).plan().steps[0].digest.clone();
    let base = digest(wants_cores(4), web_guest());
    let secret = |text: &str| wants(with(small(), "env", [("TOKEN", Value::secret(text))]));
    for (name, other, same) in [
        ("the same again", digest(wants_cores(4), web_guest()), true),
        ("another value", digest(wants_cores(5), web_guest()), false),
        (
            "reality moved",
            digest(wants_cores(4), Guest { config: Config::known(with(small(), "cores", 3)), ..web_guest() }),
            false,
        ),
        (
            "another field as well",
            digest(wants(with(with(small(), "cores", 4), "tags", vec!["a"])), web_guest()),
            false,
        ),
        ("another guest", digest(recorded(wants_cores(4), "102"), Guest { id: "102".into(), ..web_guest() }), false),
        (
            "another object of the same name",
            digest(
                Desired { uid: "uid-2".into(), ..wants_cores(4) },
                marked(web_guest(), |mark| mark.owner_uid = "uid-2".into()),
            ),
            false,
        ),
        (
            "reality moved elsewhere",
            digest(wants_cores(4), Guest { config: Config::known(with(small(), "tags", vec!["x"])), ..web_guest() }),
            true,
        ),
        (
            "the guest now holds data, which an update does not touch",
            digest(wants_cores(4), Guest { holds_data: Reading::Known(true), ..web_guest() }),
            true,
        ),
    ] {
        assert_eq!(other == base, same, "{name}");
    }
    assert_ne!(digest(secret("one"), web_guest()), digest(secret("two"), web_guest()), "a secret counts, unseen");
}

#[test]
fn what_begins_an_object_is_the_same_step_before_the_object_is_written() {
    let digest = |desired: Desired, guests: Vec<Guest>| scene(vec![desired], guests).plan().steps[0].clone();
    let unwritten = |desired: Desired| Desired { uid: "".into(), ..desired };
    let pinned = || Desired { provider_id: Some("900".into()), ..web() };
    let taken_over = || vec![foreign("900", small())];
    let rows = [
        ("a create", Action::Create, digest(unwritten(web()), vec![]), digest(web(), vec![])),
        ("an adoption", Action::Adopt, digest(unwritten(pinned()), taken_over()), digest(pinned(), taken_over())),
    ];
    for (name, action, before, after) in rows {
        assert_eq!((before.action, after.action), (action, action), "{name}");
        assert_eq!(before.digest, after.digest, "{name}");
    }
}

#[test]
fn every_step_is_bound_to_its_environment() {
    let changed = || wants(with(small(), "cores", 4_i64));
    let pinned = || Desired { provider_id: Some("900".into()), ..web() };
    let rows = [
        (Action::Create, web(), vec![]),
        (Action::Adopt, pinned(), vec![foreign("900", small())]),
        (Action::Update, changed(), vec![web_guest()]),
    ];
    for (action, desired, guests) in rows {
        let step = |environment: &'static str| {
            let scene = Scene { environment, ..scene(vec![desired.clone()], guests.clone()) };
            scene.plan().steps.remove(0)
        };
        let (staging, production) = (step("staging"), step("production"));
        assert_eq!((staging.action, production.action), (action, action));
        assert_eq!(staging.digest, step("staging").digest, "{action:?}");
        assert_ne!(staging.digest, production.digest, "{action:?}");
    }
}

#[test]
fn an_approval_of_a_replacement_does_not_cover_data_that_appeared_since() {
    let desired = || wants(with(small(), "image", "debian-13"));
    let before = scene(vec![desired()], vec![web_guest()]).plan();
    let after = scene(vec![desired()], vec![Guest { holds_data: Reading::Known(true), ..web_guest() }]).plan();
    assert_eq!((before.steps[0].class, after.steps[0].class), (Class::Disruptive, Class::Destructive));
    assert_ne!(before.steps[0].digest, after.steps[0].digest);
}

#[test]
fn steps_of_a_guest_follow_each_other_and_those_it_depends_on() {
    let db = Desired { run: Some(Run::Stopped), provider_id: Some("900".into()), ..machine("db") };
    let web = Desired { depends_on: vec![target("db")], ..machine("web") };
    let change_set = scene(vec![web, db], vec![foreign("900", small())]).plan();
    let steps: Vec<(&str, Vec<&str>)> =
        change_set.steps.iter().map(|step| (&*step.id, step.depends_on.iter().map(String::as_str).collect())).collect();
    assert_eq!(
        steps,
        [("shop/db/adopt", vec![]), ("shop/db/stop", vec!["shop/db/adopt"]), ("shop/web/create", vec!["shop/db/stop"]),]
    );
}

#[test]
fn a_replacement_is_made_first_where_the_deployer_allows() {
    let bigger = |machine: Desired| Desired { fields: fields([("gpu.count", 2.into())]), ..machine };
    let pod = guest("p-1", &machine("web"), fields([("gpu.count", 1.into())]));
    let step = |scene: Scene| scene.plan().steps.remove(0);
    assert!(step(Scene::new(&GPU, vec![bigger(machine("web"))], vec![pod])).create_first);
    let image = wants(with(small(), "image", "debian-13"));
    let mut able = RACK.clone();
    able.creates_before_delete = true;
    let able: &'static Capabilities = Box::leak(Box::new(able));
    assert!(step(Scene::new(able, vec![image.clone()], vec![web_guest()])).create_first);
    let pinned = Desired { provider_id: Some("101".into()), ..image.clone() };
    assert!(!step(Scene::new(able, vec![pinned], vec![web_guest()])).create_first, "two guests cannot have one id");
    assert!(!step(scene(vec![image], vec![web_guest()])).create_first, "this deployer cannot");
}

#[test]
fn a_guest_without_an_owner_is_named_by_its_id() {
    let change_set = scene(vec![], vec![guest("300", &machine("gone"), small())]).orphans(Orphans::Delete).plan();
    let step = &change_set.steps[0];
    assert_eq!(step.target, Target { namespace: String::new(), name: "300".into(), kind: "Guest".into() });
    assert_eq!((&*step.id, step.action), ("guest:300/delete", Action::Delete));
}

#[test]
fn a_volume_that_is_taken_out_is_data_that_is_lost() {
    let volumes = |entries: Value| with(small(), "volumes", entries);
    let guest = Guest {
        config: Config::known(volumes([("data", [("size", GIB)]), ("logs", [("size", GIB)])].into())),
        ..web_guest()
    };
    let change_set = scene(vec![wants(volumes([("logs", [("size", GIB)])].into()))], vec![guest]).plan();
    let step = &change_set.steps[0];
    assert_eq!((step.action, step.class), (Action::Update, Class::Destructive));
    assert_eq!(step.class_reason, "the data of volumes.data would be lost");
}

#[test]
fn what_was_made_twice_goes_after_the_last_step_of_the_guest_that_stays() {
    let stays = Desired { run: Some(Run::Running), ..recorded(web(), "102") };
    let guests = vec![web_guest(), Guest { run: Reading::Known("stopped".into()), ..guest("102", &web(), small()) }];
    let change_set = scene(vec![stays], guests).plan();
    let steps: Vec<(&str, Vec<&str>)> =
        change_set.steps.iter().map(|step| (&*step.id, step.depends_on.iter().map(String::as_str).collect())).collect();
    assert_eq!(steps, [("shop/web/start", vec![]), ("guest:101/delete", vec!["shop/web/start"])]);
}

#[test]
fn what_was_made_twice_is_for_no_user_to_ask_about() {
    let wanted = wants(with(small(), "cores", 4));
    let plan = scene(vec![wanted.clone()], vec![web_guest(), guest("102", &wanted, small())]).plan();
    let guests = |plan: &ChangeSet| plan.steps.iter().filter(|step| step.target.kind == GUEST).count();
    assert_eq!((guests(&plan), plan.counts.deletes), (1, 1), "{plan}");
    let asked = plan.clone().without_surplus();
    assert_eq!((guests(&asked), asked.counts.deletes, asked.counts.updates), (0, 0, plan.counts.updates), "{asked}");
    let told: Vec<(&str, &str)> = asked.waiting.iter().map(|it| (&*it.target.name, &*it.message)).collect();
    let why = "shop/web has another guest; that is seen to by itself, and asked about where people must agree";
    assert_eq!((told, asked.counts.waiting), (vec![("102", why)], 1));
}

#[test]
fn a_spec_digest_tells_nothing_without_the_key() {
    let desired = wants(with(small(), "password", "hunter2"));
    let other = setpoint_core::digest::Key::new([8; 32]);
    assert_ne!(desired.spec_digest(&key()), desired.spec_digest(&other));
}

#[test]
fn an_approval_is_for_this_guest_and_this_purpose() {
    let orphan = |owner: &str, intent: &str| {
        let guest = marked(guest("300", &machine(owner), small()), |mark| mark.intent = Some(intent.into()));
        scene(vec![], vec![guest]).orphans(Orphans::Delete).plan().steps[0].digest.clone()
    };
    assert_eq!(orphan("a", "1"), orphan("a", "1"));
    assert_ne!(orphan("a", "1"), orphan("b", "1"), "the id was given to another object's guest");
    assert_ne!(orphan("a", "1"), orphan("a", "2"), "the guest was made anew under the same id");
    let restart = |name, value: &str| {
        let pending = Config::Read { known: small(), pending: fields([(name, value.into())]), unknown: vec![] };
        let desired = wants(with(small(), name, value));
        scene(vec![desired], vec![Guest { config: pending, ..web_guest() }]).plan().steps[0].digest.clone()
    };
    assert_ne!(restart("hostname", "a"), restart("env", "a"), "a restart is for something");
}

#[test]
fn where_long_values_differ_is_shown() {
    let image = |end: &str| format!("registry.example/{}@sha256:{end}", "a".repeat(100));
    let guest = Guest { config: Config::known(with(small(), "image", image("0001").as_str())), ..web_guest() };
    let change_set = scene(vec![wants(with(small(), "image", image("0002").as_str()))], vec![guest]).plan();
    let change = &change_set.steps[0].changes[0];
    assert_ne!(change.from, change.to);
    assert!(change.to.as_deref().is_some_and(|to| to.contains("sha256:0002")), "{change:?}");
}
