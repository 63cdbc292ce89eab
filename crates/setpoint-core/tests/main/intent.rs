//! What became of a call: a crash before it, a lost answer after it, half of it, twice of it.

use jiff::{SignedDuration, Timestamp};
use setpoint_api::step::Action;
use setpoint_core::desired::{Desired, Intent, Run};
use setpoint_core::intent::{Evidence, Outcome, Settled, recover, settle};
use setpoint_core::observation::{Completeness, Config, Guest, Mark, Observation, Reading};
use setpoint_core::registry::Capabilities;

use crate::fixture::{CLUSTER, GIB, GPU, RACK, guest, key, machine, now, small, with};

const ID: &str = "call-7";

struct Row {
    name: &'static str,
    action: Action,
    /// The guest that the call was made to.
    to: Option<&'static str>,
    age_seconds: i64,
    desired: Desired,
    guests: Vec<Guest>,
    is_partial: bool,
    capabilities: &'static Capabilities,
    expected: &'static str,
}

fn desired() -> Desired {
    Desired { fields: small(), run: Some(Run::Running), ..machine("web") }
}

fn row(name: &'static str, action: Action, expected: &'static str) -> Row {
    let to = (action != Action::Create).then_some("101");
    Row {
        name,
        action,
        to,
        age_seconds: 600,
        desired: desired(),
        guests: vec![],
        is_partial: false,
        capabilities: &RACK,
        expected,
    }
}

/// A guest of ours, as desired, made by an earlier call.
fn ours(id: &str) -> Guest {
    guest(id, &desired(), small())
}

/// A guest that this very call made.
fn made(id: &str) -> Guest {
    let mark = Mark { intent: Some(ID.into()), ..ours(id).mark.expect("it is ours") };
    Guest { mark: Some(mark), ..ours(id) }
}

fn theirs(id: &str) -> Guest {
    let mark = Mark { cluster: "another".into(), ..made(id).mark.expect("it is marked") };
    Guest { mark: Some(mark), ..ours(id) }
}

fn with_word(word: &str) -> Vec<Guest> {
    vec![Guest { run: Reading::Known(word.into()), ..ours("101") }]
}

fn with_cores(cores: i64) -> Guest {
    Guest { config: Config::known(with(small(), "cores", cores)), ..ours("101") }
}

fn pending(name: &'static str, value: &str) -> Guest {
    let pending = [(name, value)].into_iter().collect();
    Guest { config: Config::Read { known: small(), pending, unknown: vec![] }, ..ours("101") }
}

fn busy() -> Guest {
    Guest { busy: Some("locked (backup)".into()), ..with_cores(4) }
}

fn rows() -> Vec<Row> {
    use Action::*;
    let hostname = Desired { fields: with(small(), "hostname", "Web"), ..desired() };
    let disk = |size: i64| Desired { fields: with(small(), "disk", size * GIB), ..desired() };
    let disk_of = |size: i64| Guest { config: Config::known(with(small(), "disk", size * GIB)), ..ours("101") };
    let recorded = |id: &str| {
        let mut desired = desired();
        desired.record.provider_id = Some(id.into());
        desired
    };
    let lost = "it was not done and can be tried again";
    vec![
        row("crashed before the create", Create, lost),
        Row { guests: vec![made("101")], ..row("the answer to a create was lost", Create, "it was done, to 101") },
        Row {
            guests: vec![ours("101")],
            ..row("a guest of the object is there, whoever made it", Create, "it was done, to 101")
        },
        Row {
            age_seconds: 59,
            ..row(
                "a new guest may not show yet",
                Create,
                "its outcome is not known: a new guest may take 60s to appear",
            )
        },
        Row { age_seconds: 60, ..row("once it should have shown it is lost", Create, lost) },
        Row {
            age_seconds: 1,
            guests: vec![made("101")],
            ..row("what shows early is done early", Create, "it was done, to 101")
        },
        Row {
            is_partial: true,
            ..row(
                "not everything could be seen, so nothing is proven",
                Create,
                "its outcome is not known: not everything could be observed: a node is down",
            )
        },
        Row {
            is_partial: true,
            guests: vec![made("101")],
            ..row("what is seen is proven even then", Create, "it was done, to 101")
        },
        Row { guests: vec![theirs("101")], ..row("another control plane's guest proves nothing", Create, lost) },
        Row {
            age_seconds: -5,
            guests: vec![made("101")],
            ..row(
                "an observation from before the call proves nothing",
                Create,
                "its outcome is not known: nothing was observed since the call",
            )
        },
        Row {
            guests: vec![made("101"), made("9")],
            ..row("done twice, the lowest id is kept", Create, "it was done twice: 9 is kept, 101 is surplus")
        },
        Row {
            guests: vec![ours("9"), made("101")],
            ..row("done twice, the one of this call is kept", Create, "it was done twice: 101 is kept, 9 is surplus")
        },
        Row {
            guests: vec![ours("9"), made("101"), made("10")],
            desired: recorded("101"),
            ..row("done thrice, the recorded one is kept", Create, "it was done twice: 101 is kept, 9, 10 is surplus")
        },
        Row { guests: vec![with_cores(4)], ..row("crashed before the update", Update, lost) },
        Row { guests: vec![ours("101")], ..row("the answer to an update was lost", Update, "it was done, to 101") },
        Row {
            guests: vec![busy()],
            ..row("an update may still be under way", Update, "its outcome is not known: 101 is busy: locked (backup)")
        },
        Row {
            guests: vec![Guest { config: Config::Unreadable("no answer".into()), ..ours("101") }],
            ..row(
                "an update that cannot be read back",
                Update,
                "its outcome is not known: cores of 101 could not be read",
            )
        },
        Row {
            guests: vec![pending("hostname", "web")],
            desired: hostname.clone(),
            ..row("written, and waiting for the next start", Update, "it was done, to 101")
        },
        Row {
            guests: vec![pending("hostname", "db")],
            desired: hostname,
            ..row("something else waits for the next start", Update, lost)
        },
        Row { ..row("an update of a guest that is gone", Update, lost) },
        Row {
            is_partial: true,
            ..row(
                "an update of a guest that is not seen",
                Update,
                "its outcome is not known: not everything could be observed: a node is down",
            )
        },
        Row { to: None, ..row("an update to no guest was never made", Update, lost) },
        Row {
            guests: vec![disk_of(4)],
            desired: disk(4),
            ..row("the answer to growing was lost", Grow, "it was done, to 101")
        },
        Row { guests: vec![disk_of(2)], desired: disk(4), ..row("crashed before growing", Grow, lost) },
        Row { guests: vec![with_cores(4)], ..row("growing has nothing to do with cores", Grow, "it was done, to 101") },
        Row { guests: with_word("running"), ..row("the answer to a start was lost", Start, "it was done, to 101") },
        Row { guests: with_word("stopped"), ..row("crashed before the start", Start, lost) },
        Row {
            guests: with_word("starting"),
            ..row("it still starts", Start, "its outcome is not known: 101 is starting")
        },
        Row { guests: with_word("panicked"), ..row("a state nobody knows is not running", Start, lost) },
        Row {
            guests: vec![Guest { run: Reading::Unknown, ..ours("101") }],
            ..row("a state that cannot be read", Start, "its outcome is not known: the state of 101 could not be read")
        },
        Row {
            guests: with_word("stopped"),
            ..row("a restart got as far as the stop", Restart, "it was done by half and is to be finished")
        },
        Row {
            guests: with_word("stopped"),
            desired: Desired { run: None, ..desired() },
            ..row(
                "so it did where nobody says whether it is to run",
                Restart,
                "it was done by half and is to be finished",
            )
        },
        Row {
            guests: with_word("stopped"),
            desired: Desired { run: Some(Run::Stopped), ..desired() },
            ..row("what is to be stopped by now is not started again", Restart, lost)
        },
        Row { guests: with_word("running"), ..row("it runs again after a restart", Restart, "it was done, to 101") },
        Row { guests: with_word("stopped"), ..row("the answer to a stop was lost", Stop, "it was done, to 101") },
        Row { guests: with_word("running"), ..row("crashed before the stop", Stop, lost) },
        Row {
            guests: with_word("stopping"),
            ..row("it still stops", Stop, "its outcome is not known: 101 is stopping")
        },
        row("the answer to a delete was lost", Delete, "it was done, to 101"),
        Row { guests: vec![ours("101")], ..row("crashed before the delete", Delete, lost) },
        Row {
            is_partial: true,
            ..row(
                "a guest that is not seen is not proven deleted",
                Delete,
                "its outcome is not known: not everything could be observed: a node is down",
            )
        },
        Row {
            guests: vec![busy()],
            ..row("a delete under way", Delete, "its outcome is not known: 101 is busy: locked (backup)")
        },
        Row { guests: vec![ours("101")], ..row("the answer to an adoption was lost", Adopt, "it was done, to 101") },
        Row { guests: vec![Guest { mark: None, ..ours("101") }], ..row("crashed before the adoption", Adopt, lost) },
        Row { guests: vec![theirs("101")], ..row("somebody else adopted it", Adopt, lost) },
        Row {
            guests: vec![Guest { mark: None, ..ours("101") }],
            ..row("the answer to a release was lost", Release, "it was done, to 101")
        },
        Row { guests: vec![ours("101")], ..row("crashed before the release", Release, lost) },
        Row { guests: vec![ours("101")], ..row("crashed before the replacement", Replace, lost) },
        Row {
            guests: vec![ours("101")],
            age_seconds: 1,
            ..row(
                "another operator is only about to remove the old one",
                Replace,
                "its outcome is not known: it may be under way for 60s",
            )
        },
        Row {
            guests: vec![made("102")],
            ..row("the answer to a replacement was lost", Replace, "it was done, to 102")
        },
        Row { guests: vec![made("101")], ..row("replaced under the same id", Replace, "it was done, to 101") },
        row("removed, and crashed before the new one was made", Replace, "it removed 101, and nothing is in its place"),
        Row { guests: vec![theirs("101")], ..row("the old one is there, and not ours any more", Replace, lost) },
        Row { capabilities: &GPU, ..row("somebody removed the old one before the new one was made", Replace, lost) },
        Row {
            age_seconds: 1,
            ..row(
                "removed, and the new one may not show yet",
                Replace,
                "its outcome is not known: a new guest may take 60s to appear",
            )
        },
        Row {
            guests: vec![ours("101"), made("102")],
            capabilities: &GPU,
            ..row(
                "the new one is made, the old one not yet removed",
                Replace,
                "it was done twice: 102 is kept, 101 is surplus",
            )
        },
        Row {
            guests: vec![ours("101")],
            capabilities: &GPU,
            age_seconds: 1,
            ..row(
                "the new one comes first and may not show yet",
                Replace,
                "its outcome is not known: a new guest may take 60s to appear",
            )
        },
        Row {
            guests: vec![busy()],
            ..row("the old one is being removed", Replace, "its outcome is not known: 101 is busy: locked (backup)")
        },
        Row {
            guests: vec![made("102")],
            is_partial: true,
            ..row(
                "the old one is not seen, which does not prove it gone",
                Replace,
                "its outcome is not known: not everything could be observed: a node is down",
            )
        },
    ]
}

fn intent(id: &str, action: Action, to: Option<&str>, started_at: Timestamp) -> Intent {
    Intent { id: id.into(), action, provider_id: to.map(Into::into), started_at, approved: false }
}

fn observation(guests: Vec<Guest>, is_partial: bool) -> Observation {
    let completeness =
        if is_partial { Completeness::Partial("a node is down".to_owned()) } else { Completeness::Complete };
    Observation { completeness, guests, observed_at: now() }
}

#[test]
fn the_outcome_of_a_call_is_what_was_observed() {
    for Row { name, action, to, age_seconds, desired, guests, is_partial, capabilities, expected } in rows() {
        let intent = intent(ID, action, to, now() - SignedDuration::from_secs(age_seconds));
        let mut desired = desired;
        desired.record.intents = vec![intent.clone()];
        let observation = observation(guests, is_partial);
        let outcome = recover(&intent, &desired, &Evidence::new(CLUSTER, capabilities, &key(), &observation));
        assert_eq!(outcome.to_string(), expected, "{name}");
        let mut reversed = observation.clone();
        reversed.guests.reverse();
        let again = recover(&intent, &desired, &Evidence::new(CLUSTER, capabilities, &key(), &reversed));
        assert_eq!(again, outcome, "{name}: in whatever order guests are listed");
    }
}

#[test]
fn an_object_goes_on_once_every_outcome_is_known() {
    let long_ago = now() - SignedDuration::from_secs(600);
    let create = || intent(ID, Action::Create, None, long_ago);
    let fresh = || intent("call-8", Action::Create, None, now());
    let delete = || intent("call-9", Action::Delete, Some("101"), long_ago);
    let rows = [
        ("nothing was begun and nothing is on record", None, vec![], vec![], "goes on without a guest"),
        ("nothing was begun, the record stands", Some("101"), vec![], vec![], "goes on with 101"),
        ("a create was lost", None, vec![create()], vec![], "goes on without a guest"),
        ("a create was done", None, vec![create()], vec![made("101")], "goes on with 101"),
        (
            "a create was done twice",
            None,
            vec![create()],
            vec![made("101"), made("102")],
            "goes on with 101; 102 is surplus",
        ),
        ("a delete was done", Some("101"), vec![delete()], vec![], "goes on without a guest"),
        (
            "a replacement got as far as the removal",
            Some("101"),
            vec![intent(ID, Action::Replace, Some("101"), long_ago)],
            vec![],
            "goes on without a guest",
        ),
        (
            "an update was begun after the last look",
            Some("101"),
            vec![intent(ID, Action::Update, Some("101"), now() + SignedDuration::from_secs(1))],
            vec![made("101")],
            "waits for the outcome of Update: nothing was observed since the call",
        ),
        (
            "an update cannot be read back, and does no harm twice",
            Some("101"),
            vec![intent(ID, Action::Update, Some("101"), long_ago)],
            vec![Guest { config: Config::Unreadable("no answer".into()), ..made("101") }],
            "goes on with 101",
        ),
        (
            "one outcome of two is not known",
            None,
            vec![fresh(), create()],
            vec![],
            "waits for the outcome of Create: a new guest may take 60s to appear",
        ),
    ];
    // An approval serves once: nobody gives up on what may still show.
    let approved_at = |action, to, started_at| Intent { approved: true, ..intent(ID, action, Some(to), started_at) };
    let approved = [
        (
            "an approved update may still show",
            Some("101"),
            vec![approved_at(Action::Update, "101", now() - SignedDuration::from_secs(59))],
            vec![with_cores(4)],
            "waits for the outcome of Update: what was approved may take 60s to show",
        ),
        (
            "an approved update does not show",
            Some("101"),
            vec![approved_at(Action::Update, "101", now() - SignedDuration::from_secs(60))],
            vec![with_cores(4)],
            "goes on with 101",
        ),
        (
            "an approved update shows at once",
            Some("101"),
            vec![approved_at(Action::Update, "101", now())],
            vec![ours("101")],
            "goes on with 101",
        ),
        (
            "an approved delete is proven not to have happened",
            Some("101"),
            vec![approved_at(Action::Delete, "101", now())],
            vec![ours("101")],
            "goes on with 101",
        ),
    ];
    for (name, recorded, intents, guests, expected) in rows.into_iter().chain(approved) {
        let mut desired = desired();
        desired.record.provider_id = recorded.map(Into::into);
        desired.record.intents = intents;
        let observation = observation(guests, false);
        let key = key();
        let evidence = Evidence::new(CLUSTER, &RACK, &key, &observation);
        assert_eq!(settle(&desired, &evidence).to_string(), expected, "{name}");
        desired.record.intents.reverse();
        assert_eq!(settle(&desired, &evidence).to_string(), expected, "{name}: in whatever order they are recorded");
    }
}

#[test]
fn a_look_from_before_what_is_on_record_proves_nothing() {
    for (name, seconds, expected) in [
        ("the record is from a later look", 1, "waits for the outcome of Update: what is on record was observed later"),
        ("the record is from this very look", 0, "goes on with 101"),
        ("the record is from an earlier look", -1, "goes on with 101"),
    ] {
        let mut desired = desired();
        desired.record.provider_id = Some("101".into());
        desired.record.intents = vec![intent(ID, Action::Update, Some("101"), now() - SignedDuration::from_secs(9))];
        desired.record.observed_at = Some(now() + SignedDuration::from_secs(seconds));
        let (observation, key) = (observation(vec![made("101")], false), key());
        let evidence = Evidence::new(CLUSTER, &RACK, &key, &observation);
        assert_eq!(settle(&desired, &evidence).to_string(), expected, "{name}");
    }
}

#[test]
fn only_what_could_be_done_twice_is_waited_for() {
    for row in rows() {
        let mut desired = row.desired;
        let started_at = now() - SignedDuration::from_secs(row.age_seconds);
        desired.record.intents = vec![intent(ID, row.action, row.to, started_at)];
        let observation = observation(row.guests, row.is_partial);
        let key = key();
        let evidence = Evidence::new(CLUSTER, row.capabilities, &key, &observation);
        let is_unknown = matches!(recover(&desired.record.intents[0], &desired, &evidence), Outcome::Unknown { .. });
        let makes = matches!(row.action, Action::Create | Action::Replace);
        let waits = matches!(settle(&desired, &evidence), Settled::Wait { .. });
        assert_eq!(waits, is_unknown && makes, "{}", row.name);
    }
}
