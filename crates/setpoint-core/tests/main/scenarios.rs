//! Change sets that a person would meet, as the text they would read.

use setpoint_api::price::Price;
use setpoint_core::desired::{Create, DeletionPolicy, Desired, Elsewhere, Run};
use setpoint_core::observation::{Config, Guest, Reading};
use setpoint_core::plan::{ChangeSet, Orphans};
use setpoint_core::value::{Fields, Value};

use crate::fixture::{GIB, GPU, MIB, RACK, Scene, fields, foreign, guest, key, machine, recorded, small, target, with};

/// Compares with the snapshot of that name, and the change set with itself as JSON.
macro_rules! shows {
    ($scene:expr) => {{
        let change_set = $scene.plan();
        let json = serde_json::to_string(&change_set).unwrap();
        assert_eq!(serde_json::from_str::<ChangeSet>(&json).unwrap(), change_set, "it round-trips as JSON");
        insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
            insta::assert_snapshot!(change_set.to_string());
        });
    }};
}

fn price(text: &str) -> Option<Price> {
    Some(text.parse().expect("a price"))
}

fn desires(name: &str, fields: Fields) -> Desired {
    Desired { fields, ..machine(name) }
}

fn pod(name: &str, gpu: &str, count: i64) -> Desired {
    let fields = fields([("gpu.count", count.into()), ("gpu.type", gpu.into()), ("image", "vllm:1".into())]);
    Desired { hourly_price: price("0.69"), run: Some(Run::Running), ..desires(name, fields) }
}

fn running_pod(id: &str, owner: &Desired) -> Guest {
    Guest {
        run: Reading::Known("RUNNING".into()),
        hourly_price: owner.hourly_price,
        ..guest(id, owner, owner.fields.clone())
    }
}

#[test]
fn nothing_to_do() {
    let web = desires("web", small());
    let guest = guest("101", &web, small());
    shows!(Scene::new(&RACK, vec![web], vec![guest]));
}

#[test]
fn nothing_is_desired() {
    shows!(Scene::new(&RACK, vec![], vec![foreign("900", small())]));
}

#[test]
fn the_first_machine() {
    shows!(Scene::new(&RACK, vec![desires("web", with(small(), "description", "The shop.\nAsk Ann."))], vec![]));
}

#[test]
fn ten_machines_in_the_order_people_count() {
    let machines = (0..10).map(|number| desires(&format!("web-{}", number * 3 + 1), small())).rev().collect();
    shows!(Scene::new(&RACK, machines, vec![]));
}

#[test]
fn more_cores_and_memory() {
    let web = recorded(desires("web", small()), "101");
    let guest = guest("101", &web, small());
    let bigger = with(with(small(), "cores", 4), "memory", 4096 * MIB);
    let bigger = with(bigger, "description", "Bigger since the sale.");
    shows!(Scene::new(&RACK, vec![Desired { fields: bigger, ..web }], vec![guest]));
}

#[test]
fn somebody_changed_it_by_hand() {
    let web = recorded(desires("web", with(small(), "tags", vec!["shop", "web"])), "101");
    let by_hand = with(with(web.fields.clone(), "cores", 1), "tags", vec!["experiment"]);
    let guest = guest("101", &web, by_hand);
    shows!(Scene::new(&RACK, vec![web], vec![guest]));
}

#[test]
fn a_change_that_needs_a_restart() {
    let web = recorded(desires("web", with(small(), "env", [("MODE", "blue")])), "101");
    let guest = guest("101", &web, web.fields.clone());
    let green = with(with(small(), "env", [("MODE", "green")]), "cores", 4);
    shows!(Scene::new(&RACK, vec![Desired { fields: green, ..web }], vec![guest]));
}

#[test]
fn written_before_but_not_yet_in_effect() {
    let web = recorded(desires("web", with(small(), "hostname", "new")), "101");
    let config = Config::Read {
        known: with(small(), "hostname", "old"),
        pending: fields([("hostname", "new".into())]),
        unknown: vec![],
    };
    let guest = Guest { config, ..guest("101", &web, Fields::default()) };
    shows!(Scene::new(&RACK, vec![web], vec![guest]));
}

#[test]
fn an_image_without_data_to_lose() {
    let pod = recorded(pod("inference", "A100", 1), "p-1");
    let guest = running_pod("p-1", &pod);
    let fields = with(pod.fields.clone(), "gpu.type", "H100");
    shows!(Scene::new(&GPU, vec![Desired { fields, hourly_price: price("1.99"), ..pod }], vec![guest]));
}

#[test]
fn an_image_with_data_to_lose() {
    let db = recorded(Desired { provider_id: Some("102".into()), ..desires("db", small()) }, "102");
    let guest = Guest { holds_data: Reading::Known(true), ..guest("102", &db, small()) };
    shows!(Scene::new(&RACK, vec![Desired { fields: with(small(), "image", "debian-13"), ..db }], vec![guest]));
}

#[test]
fn a_disk_that_grows() {
    let db = recorded(desires("db", with(small(), "disk", 20 * GIB)), "102");
    let guest = guest("102", &db, db.fields.clone());
    shows!(Scene::new(&RACK, vec![Desired { fields: with(small(), "disk", 40 * GIB), ..db }], vec![guest]));
}

#[test]
fn a_disk_that_would_shrink() {
    let db = recorded(desires("db", with(small(), "disk", 40 * GIB)), "102");
    let guest = guest("102", &db, db.fields.clone());
    let smaller = with(with(small(), "disk", 20 * GIB), "cores", 3);
    shows!(Scene::new(&RACK, vec![Desired { fields: smaller, ..db }], vec![guest]));
}

#[test]
fn impossible_desires() {
    let none = desires("none", with(small(), "cores", 0));
    let tiny = desires("tiny", with(with(small(), "memory", MIB), "cores", 500));
    let alien = desires("alien", with(small(), "gpu.type", "A100"));
    shows!(Scene::new(&RACK, vec![none, tiny, alien], vec![]));
}

#[test]
fn a_guest_that_was_stopped() {
    let web = recorded(Desired { run: Some(Run::Running), ..desires("web", small()) }, "101");
    let guest = Guest { run: Reading::Known("stopped".into()), ..guest("101", &web, with(small(), "cores", 1)) };
    shows!(Scene::new(&RACK, vec![web], vec![guest]));
}

#[test]
fn a_guest_that_should_rest() {
    let web = recorded(Desired { run: Some(Run::Stopped), ..desires("web", small()) }, "101");
    let guest = guest("101", &web, small());
    shows!(Scene::new(&RACK, vec![web], vec![guest]));
}

#[test]
fn a_guest_that_is_gone() {
    shows!(Scene::new(&RACK, vec![recorded(desires("web", small()), "101")], vec![]));
}

#[test]
fn a_provider_that_shows_only_a_part() {
    let web = recorded(desires("web", small()), "101");
    let db = desires("db", small());
    let cache = recorded(desires("cache", with(small(), "cores", 4)), "103");
    let seen = guest("103", &cache, small());
    shows!(Scene::new(&RACK, vec![web, db, cache], vec![seen]).partial("node pve2 does not answer"));
}

#[test]
fn what_cannot_be_read_is_not_written() {
    let web = recorded(Desired { run: Some(Run::Running), ..desires("web", with(small(), "cores", 8)) }, "101");
    let db = recorded(desires("db", with(small(), "cores", 8)), "102");
    let web_guest = Guest {
        config: Config::Unreadable("403 from the provider".into()),
        run: Reading::Known("stopped".into()),
        ..guest("101", &web, small())
    };
    let config = Config::Read { known: small(), pending: Fields::default(), unknown: vec!["memory"] };
    let db_guest = Guest { config, ..guest("102", &db, small()) };
    shows!(Scene::new(&RACK, vec![web, db], vec![web_guest, db_guest]));
}

#[test]
fn taking_over_a_guest() {
    let web = Desired { provider_id: Some("900".into()), ..desires("web", with(small(), "cores", 4)) };
    shows!(Scene::new(&RACK, vec![web], vec![foreign("900", small())]));
}

#[test]
fn two_machines_and_one_guest() {
    let one = Desired { provider_id: Some("900".into()), ..desires("one", small()) };
    let other = Desired { provider_id: Some("900".into()), ..desires("other", small()) };
    shows!(Scene::new(&RACK, vec![one, other], vec![foreign("900", small())]));
}

#[test]
fn orphans_that_keep_billing() {
    let gone = pod("gone", "A100", 1);
    let orphan = running_pod("p-9", &gone);
    let with_data = Guest { holds_data: Reading::Known(true), ..running_pod("p-10", &gone) };
    let another = Guest { mark: None, ..running_pod("p-11", &gone) };
    shows!(Scene::new(&GPU, vec![], vec![another, with_data, orphan]).orphans(Orphans::Delete));
}

#[test]
fn orphans_that_are_only_reported() {
    let gone = pod("gone", "A100", 1);
    shows!(Scene::new(&GPU, vec![], vec![running_pod("p-9", &gone)]));
}

#[test]
fn machines_that_are_deleted() {
    let deleted = |name: &str, id: &str| Desired {
        deletion: Some(DeletionPolicy::Delete),
        ..recorded(desires(name, small()), id)
    };
    let (empty, full) = (deleted("empty", "101"), deleted("full", "102"));
    let safe = Desired { protected: true, ..deleted("safe", "103") };
    let kept = Desired { deletion: Some(DeletionPolicy::Retain), ..deleted("kept", "104") };
    let guests = vec![
        guest("101", &empty, small()),
        Guest { holds_data: Reading::Known(true), ..guest("102", &full, small()) },
        guest("103", &safe, small()),
        guest("104", &kept, small()),
    ];
    shows!(Scene::new(&RACK, vec![empty, full, safe, kept], guests));
}

#[test]
fn what_others_depend_on_comes_first() {
    let db = desires("zdb", small());
    let cache = Desired { depends_on: vec![target("zdb")], ..desires("cache", small()) };
    let web = Desired { depends_on: vec![target("cache"), target("zdb")], ..desires("app", small()) };
    shows!(Scene::new(&RACK, vec![web, cache, db], vec![]));
}

#[test]
fn what_depends_on_something_that_cannot_be() {
    let db = desires("db", with(small(), "cores", 0));
    let web = Desired { depends_on: vec![target("db")], ..desires("web", small()) };
    let page = Desired { depends_on: vec![target("web")], ..desires("page", small()) };
    let lost = Desired { depends_on: vec![target("ghost")], ..desires("lost", small()) };
    let chicken = Desired { depends_on: vec![target("egg")], ..desires("chicken", small()) };
    let egg = Desired { depends_on: vec![target("chicken")], ..desires("egg", small()) };
    shows!(Scene::new(&RACK, vec![web, db, page, lost, chicken, egg], vec![]));
}

#[test]
fn what_depends_on_something_in_another_environment() {
    let needs = |name: &str, other: Elsewhere| Desired {
        depends_on: vec![target("db")],
        elsewhere: [(target("db"), other)].into(),
        ..desires(name, small())
    };
    let all = vec![
        needs("ready", Elsewhere::AsDesired),
        needs("early", Elsewhere::NotYet),
        needs("late", Elsewhere::Leaving),
    ];
    shows!(Scene::new(&RACK, all, vec![]));
}

#[test]
fn secrets_are_not_shown() {
    let before = with(small(), "env", [("TOKEN", Value::secret("old-token")), ("MODE", "blue".into())]);
    let web = recorded(desires("web", with(before.clone(), "password", "hunter2")), "101");
    let plain = with(small(), "env", [("TOKEN", "old-token"), ("MODE", "blue"), ("LEFT", "over-token")]);
    let guest = guest("101", &web, with(plain, "password", "hunter1"));
    let after = with(small(), "env", [("TOKEN", Value::secret("new-token")), ("MODE", "green".into())]);
    shows!(Scene::new(&RACK, vec![Desired { fields: with(after, "password", "hunter2"), ..web }], vec![guest]));
}

#[test]
fn machines_that_are_never_made() {
    let web = Desired { create: Create::Never, ..desires("web", small()) };
    shows!(Scene::new(&RACK, vec![web], vec![]));
}

#[test]
fn a_gpu_pod_and_what_it_costs() {
    shows!(Scene::new(&GPU, vec![pod("inference", "A100", 2)], vec![]));
}

#[test]
fn two_guests_after_a_lost_answer() {
    let pod = recorded(pod("inference", "A100", 1), "p-1");
    let guests = vec![running_pod("p-2", &pod), running_pod("p-1", &pod)];
    shows!(Scene::new(&GPU, vec![pod], guests).orphans(Orphans::Delete));
}

#[test]
fn a_guest_that_is_locked() {
    let web = recorded(desires("web", with(small(), "cores", 4)), "101");
    let guest = Guest { busy: Some("locked: backup".into()), ..guest("101", &web, small()) };
    shows!(Scene::new(&RACK, vec![web], vec![guest]));
}

#[test]
fn one_pod_in_an_unknown_state_stops_no_other() {
    let (odd, fine) = (recorded(pod("odd", "A100", 1), "p-1"), pod("fine", "A100", 1));
    let guest = Guest {
        run: Reading::Unknown,
        holds_data: Reading::Unknown,
        config: Config::Unreadable("status WEIRD".into()),
        ..running_pod("p-1", &odd)
    };
    shows!(Scene::new(&GPU, vec![odd, fine], vec![guest]));
}

#[test]
fn a_fixed_key_makes_the_same_digests() {
    let change_set = Scene::new(&RACK, vec![desires("web", small())], vec![]).plan();
    assert_eq!(change_set.steps[0].new_spec_digest, Some(desires("web", small()).spec_digest(&key())));
}
