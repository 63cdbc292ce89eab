//! What counts as a difference, and how it reads.

use setpoint_api::step::Effect;
use setpoint_core::desired::{Desired, Record};
use setpoint_core::diff::diff;
use setpoint_core::observation::{Config, Guest};
use setpoint_core::registry::Capabilities;
use setpoint_core::value::{Fields, Value};

use crate::fixture::{GIB, GPU, MIB, RACK, fields, machine, recorded};

struct Row {
    name: &'static str,
    deployer: &'static Capabilities,
    desired: Fields,
    observed: Fields,
    reads: &'static [&'static str],
}

fn row<const D: usize, const O: usize>(
    name: &'static str,
    desired: [(&'static str, Value); D],
    observed: [(&'static str, Value); O],
    reads: &'static [&'static str],
) -> Row {
    Row { name, deployer: &RACK, desired: fields(desired), observed: fields(observed), reads }
}

/// A volume that holds so many bytes.
fn volume(size: i64) -> Value {
    let entry = [("mountPath", Value::from("/data")), ("size", size.into())];
    Value::Map([("data", Value::Map(entry.into_iter().collect()))].into_iter().collect())
}

fn on(deployer: &'static Capabilities, row: Row) -> Row {
    Row { deployer, ..row }
}

#[test]
fn differences() {
    let rows = [
        row("equal values do not differ", [("cores", 2.into())], [("cores", 2.into())], &[]),
        row("a number is compared", [("cores", 4.into())], [("cores", 2.into())], &["cores 2->4"]),
        row("an unset desired field is unmanaged", [], [("cores", 2.into()), ("memory", MIB.into())], &[]),
        row("an absent field differs", [("cores", 4.into())], [], &["cores none->4"]),
        row(
            "amounts are shown in the provider's unit",
            [("memory", (4096 * MIB).into())],
            [("memory", (2048 * MIB).into())],
            &["memory 2048MiB->4096MiB"],
        ),
        row(
            "an amount is floored to the provider's unit",
            [("memory", (2048 * MIB + 1000).into())],
            [("memory", (2048 * MIB).into())],
            &[],
        ),
        row(
            "an amount one unit away differs",
            [("memory", (2049 * MIB).into())],
            [("memory", (2048 * MIB + 1000).into())],
            &["memory 2048MiB->2049MiB"],
        ),
        row(
            "4G are 3814 MiB, and no drift for ever",
            [("memory", 4_000_000_000.into())],
            [("memory", (3814 * MIB).into())],
            &[],
        ),
        row(
            "a trailing newline of a description is no difference",
            [("description", "the shop".into())],
            [("description", "the shop\n".into())],
            &[],
        ),
        row(
            "several trailing line ends are none either",
            [("description", "the shop\r\n".into())],
            [("description", "the shop\n\n".into())],
            &[],
        ),
        row(
            "a line end within a description counts",
            [("description", "the\nshop".into())],
            [("description", "the shop".into())],
            &["description"],
        ),
        row("an absent description equals an empty one", [("description", "".into())], [], &[]),
        row(
            "an empty description differs from a written one, and prose is not shown",
            [("description", "".into())],
            [("description", "old".into())],
            &["description"],
        ),
        row(
            "the order of tags does not count",
            [("tags", vec!["a", "b"].into())],
            [("tags", vec!["b", "a"].into())],
            &[],
        ),
        row(
            "a missing tag counts",
            [("tags", vec!["a", "b"].into())],
            [("tags", vec!["b"].into())],
            &["tags [b]->[a, b]"],
        ),
        row(
            "a tag twice is not a tag once",
            [("tags", vec!["a", "a"].into())],
            [("tags", vec!["a"].into())],
            &["tags [a]->[a, a]"],
        ),
        row("the case of a host name does not count", [("hostname", "Web".into())], [("hostname", "web".into())], &[]),
        row(
            "the case of an image counts",
            [("image", "Debian".into())],
            [("image", "debian".into())],
            &["image debian->Debian"],
        ),
        row("an absent flag equals its default", [("onboot", false.into())], [], &[]),
        row("an absent flag differs from the other value", [("onboot", true.into())], [], &["onboot none->true"]),
        row("an empty text is shown as such", [("image", "".into())], [("image", "a".into())], &["image a->\"\""]),
        row(
            "a map is compared key by key",
            [("env", [("A", "1"), ("B", "2")].into())],
            [("env", [("A", "1"), ("B", "3")].into())],
            &["env.B 3->2"],
        ),
        row(
            "a key that is not desired is removed, and its value not shown",
            [("env", [("A", "1")].into())],
            [("env", [("A", "1"), ("B", "3")].into())],
            &["env.B"],
        ),
        row(
            "what a volume holds is shown in the largest unit that leaves nothing over",
            [("volumes", volume(20 << 30))],
            [("volumes", volume(10 << 20))],
            &["volumes.data {mountPath: /data, size: 10MiB}->{mountPath: /data, size: 20GiB}"],
        ),
        row(
            "to the byte",
            [("volumes", volume(10 << 20))],
            [("volumes", volume((10 << 20) - 1))],
            &["volumes.data {mountPath: /data, size: 10485759 bytes}->{mountPath: /data, size: 10MiB}"],
        ),
        row("keys of an absent map are added", [("env", [("A", "1")].into())], [], &["env.A none->1"]),
        row("an empty map equals an absent one", [("env", Value::Map(Default::default()))], [], &[]),
        row(
            "an empty desired map removes what is there",
            [("env", Value::Map(Default::default()))],
            [("env", [("A", "1")].into())],
            &["env.A"],
        ),
        on(
            &GPU,
            row(
                "the provider's own keys are left alone",
                [("env", [("A", "1")].into())],
                [("env", [("A", "1"), ("PROVIDER_ID", "x")].into())],
                &[],
            ),
        ),
        on(
            &GPU,
            row(
                "a desired key of the provider's is compared all the same",
                [("env", [("PROVIDER_ID", "y")].into())],
                [("env", [("PROVIDER_ID", "x")].into())],
                &["env.PROVIDER_ID x->y"],
            ),
        ),
        row(
            "a secret equals what the provider gives back",
            [("env", [("A", Value::secret("s3cret"))].into())],
            [("env", [("A", "s3cret")].into())],
            &[],
        ),
        row(
            "a changed secret is named and not shown",
            [("env", [("A", Value::secret("s3cret"))].into())],
            [("env", [("A", "older")].into())],
            &["env.A"],
        ),
        row(
            "a sensitive field is named and not shown",
            [("password", "new".into())],
            [("password", "old".into())],
            &["password"],
        ),
        row(
            "a disk is compared in GiB",
            [("disk", (40 * GIB).into())],
            [("disk", (20 * GIB).into())],
            &["disk 20GiB->40GiB"],
        ),
        row("values of different kinds differ", [("image", "1".into())], [("image", 1.into())], &["image 1->1"]),
        row(
            "several changes come in the order of their names",
            [("memory", GIB.into()), ("cores", 2.into())],
            [("memory", MIB.into()), ("cores", 1.into())],
            &["cores 1->2", "memory 1MiB->1024MiB"],
        ),
    ];
    for Row { name, deployer, desired, observed, reads } in rows {
        let observed = Config::known(observed);
        let desired = recorded(Desired { fields: desired, ..machine("web") }, "101");
        let diff = diff(&desired, &observed, deployer);
        let changes: Vec<String> = diff.changes.iter().map(ToString::to_string).collect();
        assert_eq!(changes, reads, "{name}");
    }
}

#[test]
fn what_could_not_be_read_does_not_differ() {
    let desired = Desired { fields: fields([("cores", 4.into()), ("memory", GIB.into())]), ..machine("web") };
    let partly =
        Config::Read { known: fields([("memory", MIB.into())]), pending: Fields::default(), unknown: vec!["cores"] };
    let found = diff(&desired, &partly, &RACK);
    assert_eq!(found.changes.iter().map(ToString::to_string).collect::<Vec<_>>(), ["memory 1MiB->1024MiB"]);
    assert_eq!(found.unknown, ["cores"]);

    let unreadable = Config::Unreadable("403".into());
    let found = diff(&desired, &unreadable, &RACK);
    assert!(found.changes.is_empty());
    assert_eq!(found.unknown, ["cores", "memory"]);
}

#[test]
fn muted_fields_are_left_alone() {
    let desired = |muted: &[&str]| Desired {
        muted: muted.iter().map(|path| (*path).into()).collect(),
        ..recorded(
            Desired {
                fields: fields([("cores", 4.into()), ("env", [("A", "1"), ("B", "2")].into())]),
                ..machine("web")
            },
            "101",
        )
    };
    let observed = Config::known(fields([("cores", 2.into()), ("env", [("A", "x"), ("B", "y")].into())]));
    for (name, muted, reads) in [
        ("nothing is muted", &[][..], &["cores 2->4", "env.A x->1", "env.B y->2"][..]),
        ("a field is muted", &["cores"], &["env.A x->1", "env.B y->2"]),
        ("one key of a map is muted", &["env.B"], &["cores 2->4", "env.A x->1"]),
        ("a whole map is muted", &["env"], &["cores 2->4"]),
        (
            "a field that only begins alike is not muted",
            &["core", "env.BB"],
            &["cores 2->4", "env.A x->1", "env.B y->2"],
        ),
    ] {
        let desired = desired(muted);
        let found: Vec<String> =
            diff(&desired, &observed, &RACK).unmuted(&desired).changes.iter().map(ToString::to_string).collect();
        assert_eq!(found, reads, "{name}");
    }
}

#[test]
fn a_patch_holds_whole_values_and_leaves_alone_what_is_not_ours() {
    let desired = Desired {
        fields: fields([("env", [("A", "1"), ("B", "2")].into()), ("image", "v2".into())]),
        muted: vec!["env.B".into()],
        ..machine("web")
    };
    let observed = Config::known(fields([
        ("env", [("A", "0"), ("B", "muted"), ("OLD", "x"), ("PROVIDER_ID", "p")].into()),
        ("image", "v1".into()),
    ]));
    let patch = diff(&desired, &observed, &GPU).unmuted(&desired).patch(&observed, |_| true);
    assert_eq!(
        patch,
        fields([("env", [("A", "1"), ("B", "muted"), ("PROVIDER_ID", "p")].into()), ("image", "v2".into())])
    );
}

#[test]
fn what_is_long_is_shortened_and_what_is_secret_is_hidden_from_debug() {
    let long = "x".repeat(200);
    let desired = Desired { fields: fields([("image", long.as_str().into())]), ..machine("web") };
    let observed = Config::known(fields([("image", "a\nb".into())]));
    let change = diff(&desired, &observed, &RACK).changes[0].shown();
    assert_eq!(change.from.as_deref(), Some("a⏎b"));
    assert_eq!(change.to.as_ref(), Some(&long), "who decides sees what becomes of it");
    assert!(
        diff(&desired, &observed, &RACK).changes[0].to_string().ends_with("… (200 bytes)"),
        "in a line it is short"
    );
    let longer = Desired { fields: fields([("image", "x".repeat(2000).as_str().into())]), ..machine("web") };
    let change = diff(&longer, &observed, &RACK).changes[0].shown();
    assert_eq!(change.to, Some(format!("{}… (2000 bytes)", "x".repeat(1024))));

    let secret = Desired { fields: fields([("env", [("A", Value::secret("s3cret"))].into())]), ..machine("web") };
    let guest: Guest = crate::fixture::guest("1", &secret, secret.fields.clone());
    assert!(!format!("{secret:?} {guest:?}").contains("s3cret"));
}

#[test]
fn what_was_a_secret_is_not_shown_when_it_is_one_no_more() {
    let carried_out = |secrets: &[&str]| Record {
        spec_digest: Some("hmac-sha256:1".into()),
        secrets: secrets.iter().map(|path| (*path).into()).collect(),
        ..Record::default()
    };
    let made = |field: &'static str, text: &str| match field {
        "env" => fields([(field, [("TOKEN", text)].into())]),
        _ => fields([(field, vec![text].into())]),
    };
    for (name, field, record, from, to) in [
        ("a variable on record", "env", carried_out(&["env.TOKEN"]), "(sensitive)", "public"),
        ("a variable, and nothing is on record of the guest", "env", Record::default(), "(sensitive)", "public"),
        ("a variable that came from no Secret", "env", carried_out(&["env.OTHER"]), "s3cret", "public"),
        ("an argument on record", "args", carried_out(&["args"]), "(sensitive)", "[public]"),
        ("an argument, and nothing is on record of the guest", "args", Record::default(), "(sensitive)", "[public]"),
        ("an argument that came from no Secret", "args", carried_out(&[]), "[s3cret]", "[public]"),
        ("on record, where nobody expects a secret", "tags", carried_out(&["tags"]), "(sensitive)", "[public]"),
        ("where nobody expects a secret", "tags", Record::default(), "[s3cret]", "[public]"),
    ] {
        let desired = Desired { fields: made(field, "public"), record, ..machine("web") };
        let observed = Config::known(made(field, "s3cret"));
        let found = diff(&desired, &observed, &RACK);
        let shown = found.changes[0].shown();
        assert_eq!((shown.from.as_deref(), shown.to.as_deref()), (Some(from), Some(to)), "{name}");
        assert_eq!(found.changes[0].to_string().contains("s3cret"), from.contains("s3cret"), "{name}");
    }
}

#[test]
fn what_goes_is_shown_unless_it_may_have_been_a_secret() {
    for (name, field, from, shown) in [
        ("a volume", "volumes", Value::from([("data", 10_i64)]), "10 bytes"),
        ("a variable, which somebody may have added", "env", Value::from([("TOKEN", "s3cret")]), "(sensitive)"),
    ] {
        let empty = Value::Map(Default::default());
        let record = Record { spec_digest: Some("hmac-sha256:1".into()), ..Record::default() };
        let desired = Desired { fields: fields([(field, empty)]), record, ..machine("web") };
        let observed = Config::known(fields([(field, from)]));
        let change = diff(&desired, &observed, &RACK).changes[0].shown();
        assert_eq!((change.from.as_deref(), change.to.as_deref()), (Some(shown), None), "{name}");
    }
}

#[test]
fn what_is_pending_counts_too() {
    let config = |known: &str, pending: &str| Config::Read {
        known: fields([("hostname", known.into())]),
        pending: fields([("hostname", pending.into())]),
        unknown: vec![],
    };
    let desired = Desired { fields: fields([("hostname", "new".into())]), ..machine("web") };
    for (name, config, expected) in [
        ("written before, and waiting for a start", config("old", "new"), Some(("old", true, Effect::Restart))),
        ("something else is waiting for a start", config("old", "other"), Some(("old", false, Effect::Restart))),
        ("as desired, but not after the next start", config("new", "other"), Some(("other", false, Effect::InPlace))),
        ("as desired, now and then", config("new", "new"), None),
    ] {
        let found = diff(&desired, &config, &RACK);
        let change = found.changes.first();
        let seen = change
            .map(|change| (change.from.and_then(Value::as_text).unwrap_or_default(), change.is_pending, change.effect));
        assert_eq!(seen, expected, "{name}");
    }
}

#[test]
fn nothing_that_a_provider_says_moves_the_cursor() {
    let desired = Desired { fields: fields([("image", "a".into())]), ..machine("web") };
    let observed = Config::known(fields([("image", "x\u{1b}[2Jy\u{202e}z\u{200b}\r\nw".into())]));
    let found = diff(&desired, &observed, &RACK);
    assert_eq!(found.changes[0].to_string(), r"image x\u{1b}[2Jy\u{202e}z\u{200b}\r⏎w->a");
}
