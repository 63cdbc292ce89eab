//! What counts as drift, since when, and whether anybody hears of it.

use jiff::Timestamp;
use setpoint_api::machine::DriftedField;
use setpoint_api::step::{Effect, FieldChange, Origin};
use setpoint_core::desired::{Desired, Run};
use setpoint_core::drift::{Summary, Told, track};
use setpoint_core::observation::{Config, Guest, Reading};
use setpoint_core::value::Fields;

use crate::fixture::{guest, machine, now, small};

const EARLIER: &str = "2026-11-15T11:00:00Z";
const LONG_AGO: &str = "2026-11-01T00:00:00Z";

fn time(text: &str) -> Timestamp {
    text.parse().expect("a time")
}

fn differs(field: &str, from: &str, to: &str) -> FieldChange {
    FieldChange { field: field.into(), from: Some(from.into()), to: Some(to.into()), effect: Effect::InPlace }
}

fn drift(field: &str, observed: &str, desired: &str, since: &str) -> DriftedField {
    let shown = |text: &str| Some(text.to_owned());
    DriftedField {
        field: field.into(),
        desired: shown(desired),
        observed: shown(observed),
        since: time(since),
        muted: false,
    }
}

fn muted(drift: DriftedField) -> DriftedField {
    DriftedField { muted: true, ..drift }
}

fn blind(fields: &[&'static str]) -> Config {
    Config::Read { known: Fields::default(), pending: Fields::default(), unknown: fields.to_vec() }
}

struct Row {
    name: &'static str,
    previous: Vec<DriftedField>,
    differences: Vec<FieldChange>,
    origin: Origin,
    desired: Desired,
    config: Config,
    run: Reading<Box<str>>,
    expected: Vec<DriftedField>,
    summary: &'static str,
}

fn row(name: &'static str) -> Row {
    Row {
        name,
        previous: vec![],
        differences: vec![],
        origin: Origin::Drift,
        desired: Desired { fields: small(), run: Some(Run::Running), ..machine("web") },
        config: Config::known(small()),
        run: Reading::Known("running".into()),
        expected: vec![],
        summary: "no drift",
    }
}

#[test]
fn drift_is_kept_from_look_to_look() {
    let cores = || drift("cores", "4", "2", EARLIER);
    let mutes = |path: &str| Desired { muted: vec![path.into()], ..row("").desired };
    let rows = [
        row("nothing differs, nothing drifts"),
        Row {
            differences: vec![differs("cores", "4", "2")],
            expected: vec![drift("cores", "4", "2", "2026-11-15T12:00:00Z")],
            summary: "drift: cores since 2026-11-15T12:00:00Z",
            ..row("a new difference drifts from now on")
        },
        Row {
            previous: vec![cores()],
            differences: vec![differs("cores", "4", "2")],
            expected: vec![cores()],
            summary: "drift: cores since 2026-11-15T11:00:00Z",
            ..row("what still differs keeps the time since when")
        },
        Row {
            previous: vec![cores()],
            differences: vec![differs("cores", "8", "2")],
            expected: vec![drift("cores", "8", "2", EARLIER)],
            summary: "drift: cores since 2026-11-15T11:00:00Z",
            ..row("a value that moves on still differs since then")
        },
        Row { previous: vec![cores()], ..row("what no longer differs is cleared") },
        Row {
            previous: vec![cores()],
            config: blind(&["cores"]),
            expected: vec![cores()],
            summary: "drift: cores since 2026-11-15T11:00:00Z",
            ..row("a field that cannot be read is not cleared")
        },
        Row {
            differences: vec![differs("cores", "4", "2")],
            config: blind(&["cores"]),
            ..row("a field that cannot be read is not added either")
        },
        Row {
            previous: vec![cores(), drift("memory", "1", "2", LONG_AGO)],
            config: Config::Unreadable("no answer".into()),
            expected: vec![cores(), drift("memory", "1", "2", LONG_AGO)],
            summary: "drift: cores, memory since 2026-11-01T00:00:00Z",
            ..row("unreadable configuration keeps all drift of fields")
        },
        Row {
            previous: vec![drift("run", "stopped", "running", EARLIER)],
            config: Config::Unreadable("no answer".into()),
            ..row("unreadable configuration does not keep the drift of the run state")
        },
        Row {
            previous: vec![drift("run", "stopped", "running", EARLIER)],
            run: Reading::Unknown,
            expected: vec![drift("run", "stopped", "running", EARLIER)],
            summary: "drift: run since 2026-11-15T11:00:00Z",
            ..row("an unknown run state keeps its drift")
        },
        Row {
            differences: vec![differs("run", "stopped", "running")],
            run: Reading::Known("stopped".into()),
            expected: vec![drift("run", "stopped", "running", "2026-11-15T12:00:00Z")],
            summary: "drift: run since 2026-11-15T12:00:00Z",
            ..row("a guest that was stopped drifts though its fields do not")
        },
        Row {
            differences: vec![differs("cores", "4", "2")],
            desired: mutes("cores"),
            expected: vec![muted(drift("cores", "4", "2", "2026-11-15T12:00:00Z"))],
            summary: "no drift (1 muted)",
            ..row("a muted field is written down and raises no alarm")
        },
        Row {
            previous: vec![cores()],
            differences: vec![differs("cores", "4", "2")],
            desired: mutes("cores"),
            expected: vec![muted(cores())],
            summary: "no drift (1 muted)",
            ..row("muting does not move the time since when")
        },
        Row {
            previous: vec![muted(cores())],
            differences: vec![differs("cores", "4", "2")],
            expected: vec![cores()],
            summary: "drift: cores since 2026-11-15T11:00:00Z",
            ..row("nor does unmuting")
        },
        Row {
            differences: vec![differs("env.MODEL", "a", "b"), differs("env.SIZE", "a", "b")],
            desired: mutes("env.MODEL"),
            expected: vec![
                muted(drift("env.MODEL", "a", "b", "2026-11-15T12:00:00Z")),
                drift("env.SIZE", "a", "b", "2026-11-15T12:00:00Z"),
            ],
            summary: "drift: env.SIZE since 2026-11-15T12:00:00Z (1 muted)",
            ..row("one key is muted, its neighbour is not")
        },
        Row {
            differences: vec![differs("env.MODEL", "a", "b")],
            desired: mutes("env"),
            expected: vec![muted(drift("env.MODEL", "a", "b", "2026-11-15T12:00:00Z"))],
            summary: "no drift (1 muted)",
            ..row("muting a field mutes its keys")
        },
        Row {
            differences: vec![differs("cores", "2", "4")],
            origin: Origin::Desired,
            ..row("what the desire changed is yet to be done and no drift")
        },
        Row {
            previous: vec![cores()],
            differences: vec![differs("cores", "4", "6"), differs("memory", "1", "2")],
            origin: Origin::Desired,
            expected: vec![drift("cores", "4", "6", EARLIER)],
            summary: "drift: cores since 2026-11-15T11:00:00Z",
            ..row("what drifted before a change of the desire goes on drifting")
        },
        Row {
            differences: vec![differs("cores", "2", "4")],
            origin: Origin::Unrecorded,
            ..row("without a record there is nothing to drift from")
        },
        Row {
            previous: vec![drift("disk", "1", "2", EARLIER)],
            config: blind(&["disk"]),
            ..row("a field that is no longer desired cannot drift, seen or not")
        },
        Row {
            differences: vec![differs("memory", "1", "2"), differs("cores", "4", "2")],
            previous: vec![cores()],
            expected: vec![cores(), drift("memory", "1", "2", "2026-11-15T12:00:00Z")],
            summary: "drift: cores, memory since 2026-11-15T11:00:00Z",
            ..row("drift is sorted by field, and the summary says the earliest time")
        },
    ];
    for Row { name, previous, differences, origin, desired, config, run, expected, summary } in rows {
        let seen = Guest { config, run, ..guest("101", &desired, small()) };
        let actual = track(&previous, &differences, origin, &seen, &desired, now());
        assert_eq!(actual, expected, "{name}");
        assert_eq!(Summary(&actual).to_string(), summary, "{name}");
        let json = serde_json::to_string(&actual).expect("drift is JSON");
        assert_eq!(serde_json::from_str::<Vec<DriftedField>>(&json).expect("it was drift"), actual, "{name}");
        let again = track(&actual, &differences, origin, &seen, &desired, now());
        assert_eq!(again, actual, "{name}: a second look at the same changes nothing");
    }
}

#[test]
fn drift_reads_as_a_sentence() {
    let cores = drift("cores", "4", "2", EARLIER);
    assert_eq!(Told(&cores).to_string(), "cores is 4, not 2, since 2026-11-15T11:00:00Z");
    let model = DriftedField { observed: None, ..muted(drift("env.MODEL", "", "llama", EARLIER)) };
    assert_eq!(Told(&model).to_string(), "env.MODEL is (absent), not llama, since 2026-11-15T11:00:00Z (muted)");
}
