//! What is done, what waits and what is refused, a sentence a row.

use jiff::SignedDuration;
use setpoint_api::price::Price;
use setpoint_api::step::Action;
use setpoint_core::desired::{Create, DeletionPolicy, Desired, Intent, Run};
use setpoint_core::observation::{Config, Guest, Reading};
use setpoint_core::plan::Orphans;
use setpoint_core::value::{Fields, Value};

use crate::fixture::{
    GIB, GPU, MIB, Scene, check, fields, foreign, guest, known_web, limited, machine, marked, now, pinned, recorded,
    runs, scene, small, wants, web, web_guest, with,
};

#[test]
fn what_is_there_and_what_is_not() {
    let never = Desired { create: Create::Never, ..web() };
    let mut environment_never = scene(vec![web()], vec![]);
    environment_never.policy.create = Create::Never;
    let another_cluster = marked(web_guest(), |mark| mark.cluster = "cluster-2".into());
    let elsewhere = another_cluster.clone();
    let mut seen_later = known_web();
    seen_later.record.observed_at = Some(now() + SignedDuration::from_secs(1));
    let another_owner = marked(web_guest(), |mark| mark.owner_uid = "uid-else".into());
    check(vec![
        ("nothing desired, nothing there", scene(vec![], vec![]), &[]),
        ("what is there is left alone", scene(vec![known_web()], vec![web_guest()]), &[]),
        ("what is not there is made", scene(vec![web()], vec![]), &["web: create"]),
        ("what was there and provably is no more is made", scene(vec![known_web()], vec![]), &["web: create"]),
        (
            "what cannot be seen right now is not made again",
            scene(vec![known_web()], vec![]).partial("timeout"),
            &["web: waits on Observation"],
        ),
        (
            "what is on record was seen after this look, which therefore proves nothing",
            scene(vec![seen_later], vec![]),
            &["web: waits on Observation"],
        ),
        (
            "what was never seen is not made either while not everything can be seen",
            scene(vec![web()], vec![]).partial("timeout"),
            &["web: waits on Observation"],
        ),
        (
            "what is seen is corrected though not everything can be seen",
            scene(vec![wants(with(small(), "cores", 4))], vec![web_guest()]).partial("timeout"),
            &["web: update (cores)"],
        ),
        (
            "a machine with create Never is not made, and that is said",
            scene(vec![never], vec![]),
            &["web: waits on Policy"],
        ),
        ("an environment with create Never makes nothing", environment_never, &["web: waits on Policy"]),
        (
            "a deployer that cannot create says so",
            Scene::new(limited(|capabilities| capabilities.creates = false), vec![web()], vec![]),
            &["web: waits on Policy"],
        ),
        ("a guest is found again by its mark, without a record", scene(vec![web()], vec![web_guest()]), &[]),
        (
            "a guest of the same name that is not ours is not touched",
            scene(vec![web()], vec![Guest { mark: None, ..web_guest() }]),
            &["web: create"],
        ),
        (
            "a recorded guest that lost its mark is not touched",
            scene(vec![known_web()], vec![Guest { mark: None, ..web_guest() }]),
            &["web: waits on Policy"],
        ),
        (
            "a recorded id that another control plane uses now is not ours",
            scene(vec![known_web()], vec![another_cluster.clone()]),
            &["web: create"],
        ),
        (
            "an id that was given to another object's guest is not ours",
            scene(vec![known_web()], vec![another_owner]).orphans(Orphans::Ignore),
            &["web: create"],
        ),
        (
            "what another control plane made is no orphan of ours",
            scene(vec![], vec![another_cluster]).orphans(Orphans::Delete),
            &[],
        ),
        (
            "what is foreign is never touched",
            scene(vec![], vec![foreign("900", small())]).orphans(Orphans::Delete),
            &[],
        ),
        (
            "an id that is shown twice is nobody's, whichever comes first",
            scene(vec![known_web()], vec![foreign("101", small()), elsewhere.clone()]),
            &["web: waits on Observation"],
        ),
        (
            "and whichever comes last",
            scene(vec![known_web()], vec![elsewhere, foreign("101", small())]),
            &["web: waits on Observation"],
        ),
        (
            "a guest of ours that became a template is not touched",
            scene(vec![wants(with(small(), "cores", 4))], vec![Guest { is_template: true, ..web_guest() }]),
            &["web: waits on Policy"],
        ),
        (
            "an orphan that is a template is not touched",
            scene(vec![], vec![Guest { is_template: true, ..web_guest() }]).orphans(Orphans::Delete),
            &[],
        ),
        (
            "the provider shows an id twice: nothing is done to it",
            scene(vec![known_web()], vec![runs("running"), runs("stopped")]),
            &["web: waits on Observation"],
        ),
    ]);
}

#[test]
fn pinned_guests() {
    let taken = marked(guest("900", &web(), small()), |mark| mark.owner_uid = "uid-else".into());
    let elsewhere = marked(guest("900", &web(), small()), |mark| mark.cluster = "cluster-2".into());
    let template = Guest { is_template: true, ..foreign("900", small()) };
    let other = Desired { provider_id: Some("900".into()), ..machine("other") };
    check(vec![
        ("an existing guest is adopted", scene(vec![pinned("900")], vec![foreign("900", small())]), &["web: adopt"]),
        (
            "an adopted guest is brought to what is desired after that",
            scene(
                vec![Desired { run: Some(Run::Stopped), ..pinned("900") }],
                vec![foreign("900", with(small(), "cores", 1))],
            ),
            &["web: adopt, update, stop (cores)"],
        ),
        (
            "a pinned guest that is not there is made under that id",
            scene(vec![pinned("900")], vec![]),
            &["web: create"],
        ),
        (
            "a pinned guest that is not there is refused where the provider chooses ids",
            Scene::new(&GPU, vec![Desired { provider_id: Some("p-9".into()), ..machine("web") }], vec![]),
            &["web: refused spec.providerId"],
        ),
        (
            "a pinned guest that cannot be seen is waited for",
            scene(vec![pinned("900")], vec![]).partial("timeout"),
            &["web: waits on Observation"],
        ),
        (
            "a guest of another object is refused",
            scene(vec![pinned("900")], vec![taken]).orphans(Orphans::Ignore),
            &["web: refused spec.providerId"],
        ),
        (
            "a guest of another control plane is refused",
            scene(vec![pinned("900")], vec![elsewhere]),
            &["web: refused spec.providerId"],
        ),
        ("a template is refused", scene(vec![pinned("900")], vec![template]), &["web: refused spec.providerId"]),
        (
            "two that claim one guest are both refused",
            scene(vec![pinned("900"), other.clone()], vec![foreign("900", small())]),
            &["other: refused spec.providerId", "web: refused spec.providerId"],
        ),
        (
            "two that claim one id are both refused even where nothing is there",
            scene(vec![pinned("900"), other.clone()], vec![]),
            &["other: refused spec.providerId", "web: refused spec.providerId"],
        ),
        (
            "a machine that has a guest cannot be moved to one that is not there",
            scene(vec![pinned("900")], vec![web_guest()]),
            &["web: refused spec.providerId"],
        ),
        (
            "one of two that claim a guest can be deleted, and the other has it then",
            scene(
                vec![pinned("900"), Desired { deletion: Some(DeletionPolicy::Delete), ..other.clone() }],
                vec![foreign("900", small())],
            ),
            &["web: adopt"],
        ),
        (
            "a machine that claims what it cannot have can be deleted",
            scene(
                vec![Desired { deletion: Some(DeletionPolicy::Delete), ..pinned("900") }],
                vec![Guest { is_template: true, ..foreign("900", small()) }],
            ),
            &[],
        ),
        (
            "a machine that has a guest cannot be moved to another",
            scene(vec![pinned("900")], vec![web_guest(), foreign("900", small())]),
            &["web: refused spec.providerId"],
        ),
        (
            "a deployer that cannot adopt refuses",
            Scene::new(
                limited(|capabilities| capabilities.adopts = false),
                vec![pinned("900")],
                vec![foreign("900", small())],
            ),
            &["web: refused spec.providerId"],
        ),
    ]);
}

/// With a call to guest 101 on record.
fn with_intent(mut machine: Desired, action: Action) -> Desired {
    machine.record.intents.push(Intent {
        id: "intent-2".into(),
        action,
        provider_id: Some("101".into()),
        started_at: now(),
        approved: false,
    });
    machine
}

/// With the call on record that made guest 101.
fn made_by_intent(machine: Desired) -> Desired {
    let mut machine = with_intent(machine, Action::Create);
    machine.record.intents[0].id = "intent-1".into();
    machine
}

#[test]
fn the_start_that_finishes_a_restart_costs_nothing() {
    let price = |text: &str| text.parse::<Price>().expect("a price");
    let wants = |fields: Fields| Desired { run: Some(Run::Running), hourly_price: Some(price("2")), ..wants(fields) };
    let stopped = || Guest { hourly_price: Some(price("1")), ..runs("stopped") };
    let bigger = || with(small(), "cores", 4);
    let rows = [
        ("it was stopped by somebody", wants(small()), vec!["1"]),
        ("a restart stopped it", with_intent(wants(small()), Action::Restart), vec!["0"]),
        ("it is changed as well", with_intent(wants(bigger()), Action::Restart), vec!["0", "1"]),
    ];
    for (name, desired, expected) in rows {
        let steps = scene(vec![desired], vec![stopped()]).plan().steps;
        assert_eq!(steps.last().map(|step| step.action), Some(Action::Start), "{name}");
        let costs: Vec<Option<Price>> = steps.iter().map(|step| step.hourly_cost_delta).collect();
        assert_eq!(costs, expected.into_iter().map(|cost| Some(price(cost))).collect::<Vec<_>>(), "{name}");
    }
}

#[test]
fn configuration() {
    let all = with(with(with(small(), "cores", 4), "memory", GIB), "tags", vec!["a"]);
    let unreadable = Guest { config: Config::Unreadable("403".into()), ..web_guest() };
    let unknown = |name| Guest {
        config: Config::Read { known: small(), pending: Fields::default(), unknown: vec![name] },
        ..web_guest()
    };
    let pending = Guest {
        config: Config::Read {
            known: with(small(), "hostname", "old"),
            pending: fields([("hostname", "new".into())]),
            unknown: vec![],
        },
        ..web_guest()
    };
    let renamed = with(small(), "hostname", "new");
    let with_disk = |size: i64| with(small(), "disk", size);
    let disk_guest = || Guest { config: Config::known(with_disk(20 * GIB)), ..web_guest() };
    check(vec![
        (
            "all in-place changes are one update",
            scene(vec![wants(all)], vec![web_guest()]),
            &["web: update (cores, memory, tags)"],
        ),
        (
            "nothing desired of a guest changes nothing of it",
            scene(vec![wants(Fields::default())], vec![web_guest()]),
            &[],
        ),
        (
            "a change that needs a restart restarts what runs, config first",
            scene(vec![wants(renamed.clone())], vec![web_guest()]),
            &["web: update, restart (hostname)"],
        ),
        (
            "a change that needs a restart does not start what is stopped",
            scene(vec![wants(renamed.clone())], vec![runs("stopped")]),
            &["web: update (hostname)"],
        ),
        (
            "a change that needs a restart does not restart what may not run",
            scene(vec![wants(renamed.clone())], vec![Guest { run: Reading::Unknown, ..web_guest() }]),
            &["web: update (hostname)"],
        ),
        (
            "what is to be stopped anyway is not restarted",
            scene(vec![Desired { run: Some(Run::Stopped), ..wants(renamed.clone()) }], vec![web_guest()]),
            &["web: update, stop (hostname)"],
        ),
        (
            "what is to be started anyway is started once",
            scene(vec![Desired { run: Some(Run::Running), ..wants(renamed.clone()) }], vec![runs("stopped")]),
            &["web: update, start (hostname)"],
        ),
        (
            "a restart that only got as far as the stop is finished",
            scene(vec![with_intent(known_web(), Action::Restart)], vec![runs("stopped")]),
            &["web: start"],
        ),
        (
            "a guest that was made and not started is started",
            scene(vec![made_by_intent(known_web())], vec![runs("stopped")]),
            &["web: start"],
        ),
        (
            "a stop that was wanted then is no restart",
            scene(vec![with_intent(known_web(), Action::Stop)], vec![runs("stopped")]),
            &[],
        ),
        (
            "a value as desired, but another one after the next start, is written again, without a restart",
            scene(vec![wants(with(small(), "hostname", "old"))], vec![pending.clone()]),
            &["web: update (hostname)"],
        ),
        (
            "a wrong image is seen, though the record says that nothing changed",
            scene(
                vec![known_web()],
                vec![Guest { config: Config::known(with(small(), "image", "other")), ..web_guest() }],
            ),
            &["web: replace (image)"],
        ),
        (
            "what would be replaced stays where nothing may be made",
            scene(
                vec![Desired { create: Create::Never, ..wants(with(with(small(), "image", "debian-13"), "cores", 4)) }],
                vec![web_guest()],
            ),
            &["web: update (cores)", "web: waits on Policy"],
        ),
        (
            "what insists on an id that the provider would not give again is not replaced",
            Scene::new(
                limited(|capabilities| capabilities.chooses_ids = false),
                vec![Desired { provider_id: Some("101".into()), ..wants(with(small(), "image", "debian-13")) }],
                vec![web_guest()],
            ),
            &["web: waits on Policy"],
        ),
        (
            "what a deployer cannot make is not replaced",
            Scene::new(
                limited(|capabilities| capabilities.creates = false),
                vec![wants(with(small(), "image", "debian-13"))],
                vec![web_guest()],
            ),
            &["web: waits on Policy"],
        ),
        (
            "a volume does not shrink",
            scene(
                vec![wants(with(small(), "volumes", [("data", [("size", GIB)])]))],
                vec![Guest {
                    config: Config::known(with(small(), "volumes", [("data", [("size", 2 * GIB)])])),
                    ..web_guest()
                }],
            ),
            &["web: refused spec.volumes.data"],
        ),
        (
            "a pending value is not converged, and not written twice",
            scene(vec![wants(renamed.clone())], vec![pending.clone()]),
            &["web: restart"],
        ),
        (
            "another value than the pending one is written",
            scene(vec![wants(with(small(), "hostname", "newer"))], vec![pending]),
            &["web: update, restart (hostname)"],
        ),
        (
            "a provider that restarts by itself is not told to restart",
            Scene::new(
                limited(|capabilities| capabilities.update_restarts = true),
                vec![wants(renamed)],
                vec![web_guest()],
            ),
            &["web: update (hostname)"],
        ),
        (
            "a disk grows by a step of its own",
            scene(vec![wants(with(with_disk(30 * GIB), "cores", 4))], vec![disk_guest()]),
            &["web: update, grow (cores, disk)"],
        ),
        (
            "a disk does not shrink, and the rest goes on",
            scene(vec![wants(with(with_disk(10 * GIB), "cores", 4))], vec![disk_guest()]),
            &["web: update (cores)", "web: refused spec.disk"],
        ),
        (
            "what the provider cannot change is refused, and the rest goes on",
            scene(vec![wants(with(with(small(), "node", "b"), "cores", 4))], vec![web_guest()]),
            &["web: update (cores)", "web: refused spec.node"],
        ),
        (
            "a new image is a new guest, with all other changes in it",
            scene(vec![wants(with(with(small(), "image", "debian-13"), "cores", 4))], vec![web_guest()]),
            &["web: replace (cores, image)"],
        ),
        (
            "what is protected is not replaced, and the rest goes on",
            scene(
                vec![Desired { protected: true, ..wants(with(with(small(), "image", "debian-13"), "cores", 4)) }],
                vec![web_guest()],
            ),
            &["web: update (cores)", "web: waits on Policy"],
        ),
        (
            "unreadable configuration is not written",
            scene(vec![wants(with(small(), "cores", 4))], vec![unreadable.clone()]),
            &["web: waits on Observation"],
        ),
        (
            "unreadable configuration blocks config steps only",
            scene(
                vec![Desired { run: Some(Run::Running), ..wants(small()) }],
                vec![Guest { run: Reading::Known("stopped".into()), ..unreadable.clone() }],
            ),
            &["web: start", "web: waits on Observation"],
        ),
        (
            "unreadable configuration that nothing desires is no matter",
            scene(vec![wants(Fields::default())], vec![unreadable]),
            &[],
        ),
        (
            "a field that could not be read is not written, others are",
            scene(vec![wants(with(with(small(), "cores", 4), "memory", GIB))], vec![unknown("memory")]),
            &["web: update (cores)", "web: waits on Observation"],
        ),
        (
            "a field that could not be read and that nothing desires is no matter",
            scene(vec![wants(small())], vec![unknown("tags")]),
            &[],
        ),
        (
            "the drift of a muted field is not corrected",
            scene(
                vec![Desired { muted: vec!["cores".into()], ..recorded(wants(with(small(), "cores", 4)), "101") }],
                vec![web_guest()],
            ),
            &[],
        ),
        (
            "a change of the desire for a muted field is carried out",
            scene(vec![Desired { muted: vec!["cores".into()], ..wants(with(small(), "cores", 4)) }], vec![web_guest()]),
            &["web: update (cores)"],
        ),
        (
            "a locked guest is waited for",
            scene(vec![wants(with(small(), "cores", 4))], vec![Guest { busy: Some("locked".into()), ..web_guest() }]),
            &["web: waits on Provider"],
        ),
        (
            "a locked guest that is as desired is no matter",
            scene(vec![wants(small())], vec![Guest { busy: Some("locked".into()), ..web_guest() }]),
            &[],
        ),
    ]);
}

#[test]
fn run_state() {
    let wants_run = |run| Desired { run, ..known_web() };
    let running = || vec![wants_run(Some(Run::Running))];
    let stopped = || vec![wants_run(Some(Run::Stopped))];
    check(vec![
        ("what runs and should", scene(running(), vec![runs("running")]), &[]),
        ("what is stopped and should be", scene(stopped(), vec![runs("stopped")]), &[]),
        ("what is stopped and should run", scene(running(), vec![runs("stopped")]), &["web: start"]),
        ("what runs and should not", scene(stopped(), vec![runs("running")]), &["web: stop"]),
        ("an unmanaged run state is left alone", scene(vec![wants_run(None)], vec![runs("stopped")]), &[]),
        ("any other word is not running", scene(running(), vec![runs("io-error")]), &["web: start"]),
        ("any other word is not stopped", scene(stopped(), vec![runs("paused")]), &["web: stop"]),
        ("what is on its way is waited for", scene(running(), vec![runs("starting")]), &["web: waits on Provider"]),
        (
            "a state that could not be read is not changed",
            scene(running(), vec![Guest { run: Reading::Unknown, ..web_guest() }]),
            &["web: waits on Observation"],
        ),
        (
            "a deployer without run state refuses one",
            Scene::new(limited(|capabilities| capabilities.has_run_state = false), running(), vec![web_guest()]),
            &["web: refused spec.run"],
        ),
    ]);
}

#[test]
fn impossible_desires_are_refused_by_their_field() {
    let wants_field = |name, value: Value| scene(vec![Desired { fields: with(small(), name, value), ..web() }], vec![]);
    check(vec![
        ("no cores", wants_field("cores", 0.into()), &["web: refused spec.cores"]),
        ("negative cores", wants_field("cores", (-1).into()), &["web: refused spec.cores"]),
        ("more cores than there can be", wants_field("cores", 129.into()), &["web: refused spec.cores"]),
        ("the most cores", wants_field("cores", 128.into()), &["web: create"]),
        ("memory under the minimum", wants_field("memory", (15 * MIB).into()), &["web: refused spec.memory"]),
        ("the least memory", wants_field("memory", (16 * MIB).into()), &["web: create"]),
        ("a field that the deployer does not know", wants_field("gpu", 1.into()), &["web: refused spec.gpu"]),
        (
            "all that is wrong is said at once",
            scene(vec![Desired { fields: with(with(small(), "cores", 0), "memory", 1), ..web() }], vec![]),
            &["web: refused spec.cores", "web: refused spec.memory"],
        ),
        (
            "a machine that is being deleted is deleted, however impossible",
            scene(
                vec![Desired {
                    fields: with(small(), "cores", 0),
                    deletion: Some(DeletionPolicy::Delete),
                    ..known_web()
                }],
                vec![web_guest()],
            ),
            &["web: delete"],
        ),
    ]);
}
