//! What people are shown, word by word.

use serde_json::{Value, json};
use setpoint_api::environment::{Approval, ApprovalRule};
use setpoint_api::step::{Action, Class, Counts, Effect, FieldChange, Origin, Refusal, Step, Target, Waiting, WaitsOn};

use super::*;
use crate::style::Style;

fn target(name: &str) -> Target {
    Target { namespace: "shop".to_owned(), name: name.to_owned(), kind: "Machine".to_owned() }
}

fn field(name: &str, from: Option<&str>, to: Option<&str>, effect: Effect) -> FieldChange {
    FieldChange { field: name.to_owned(), from: from.map(str::to_owned), to: to.map(str::to_owned), effect }
}

fn step(name: &str, action: Action, class: Class, guest: Option<&str>, changes: Vec<FieldChange>) -> Step {
    Step {
        id: format!("shop/{name}/{}", text::verb(action)),
        target: target(name),
        action,
        provider_id: guest.map(str::to_owned),
        reason: "new".to_owned(),
        origin: Origin::Desired,
        changes,
        class,
        class_reason: "it is so".to_owned(),
        interrupts: false,
        create_first: false,
        hourly_cost_delta: None,
        spends: false,
        depends_on: Vec::new(),
        old_spec_digest: None,
        new_spec_digest: None,
        digest: format!("digest-of-{name}"),
    }
}

fn create() -> Step {
    let changes = vec![
        field("cores", None, Some("2"), Effect::InPlace),
        field("image", None, Some("debian-12"), Effect::Replace),
    ];
    let cost = Some("0.10".parse().expect("a price"));
    Step { hourly_cost_delta: cost, ..step("web", Action::Create, Class::Spend, None, changes) }
}

fn set(steps: Vec<Step>, counts: Counts) -> ProposedSet {
    let holds = holds(&steps, None, "alice");
    let cost = steps.iter().filter_map(|step| step.hourly_cost_delta).reduce(|one, other| one + other);
    ProposedSet {
        namespace: "shop".to_owned(),
        environment: "lab".to_owned(),
        steps,
        counts,
        hourly_cost_delta: cost,
        holds,
        ..ProposedSet::default()
    }
}

fn config_map(colour: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"colour": colour}})
}

fn object(kind: &str, live: Option<&Value>, wanted: Option<&Value>) -> ObjectChange {
    ObjectChange::between(kind.to_owned(), Some("shop".to_owned()), "settings".to_owned(), live, wanted)
}

#[test]
fn what_would_be_done_is_shown_with_its_reasons() {
    let db = Step {
        reason: "spec drift: memory 2048MiB->4096MiB".to_owned(),
        ..step(
            "db",
            Action::Update,
            Class::Disruptive,
            Some("sim-2"),
            vec![
                field("memory", Some("2048MiB"), Some("4096MiB"), Effect::InPlace),
                field("env.MODE", Some("blue"), None, Effect::Restart),
            ],
        )
    };
    let cache = Step {
        depends_on: vec!["shop/db/update".to_owned()],
        ..step(
            "cache",
            Action::Replace,
            Class::Destructive,
            Some("sim-3"),
            vec![field("image", Some("a"), Some("b\u{1b}[2J"), Effect::Replace)],
        )
    };
    let gone = step("gone", Action::Delete, Class::Destructive, Some("sim-4"), Vec::new());
    let counts = Counts { creates: 1, updates: 2, deletes: 1, ..Counts::default() };
    let (before, after) = (config_map("blue"), config_map("red"));
    let objects =
        vec![object("configmap", Some(&before), Some(&after)), object("secret", Some(&before), Some(&before))];
    let proposal = Proposal { objects, change_sets: vec![set(vec![create(), db, cache, gone], counts)] };
    assert_eq!(
        proposal.text(Style::Plain),
        r#"  ~ update configmap shop/settings
        data.colour  "blue" -> "red"

In environment lab

  + create shop/web
        cores  2
        image  debian-12
      reason: new
      class:  Spend, +$0.10/h: it is so

  ~ update shop/db (guest sim-2)
        memory    2048MiB -> 4096MiB
        env.MODE  blue -> (removed) (at the next start)
      reason: spec drift: memory 2048MiB->4096MiB
      class:  Disruptive: it is so

-/+ replace shop/cache (guest sim-3)
        image  a -> b\u001b[2J (forces replacement)
      reason: new
      class:  Destructive: it is so
      after:  shop/db/update
      waits:  for approval by 1 person

  - delete shop/gone (guest sim-4)
      reason: new
      class:  Destructive: it is so
      waits:  for approval by 1 person

Plan: 1 to create, 3 to change, 1 to delete, 1 unchanged; +$0.10/h (waits for approval by 1 person)
"#
    );
}

#[test]
fn the_last_line_says_how_much_it_is() {
    let waiting = Waiting {
        target: target("db"),
        action: Some(Action::Update),
        on: WaitsOn::Provider,
        message: "it is locked: backup".to_owned(),
    };
    let refusal =
        Refusal { target: target("db"), field: "spec.disk".to_owned(), message: "it can only grow".to_owned() };
    let stuck = ProposedSet {
        waiting: vec![waiting],
        refused: vec![refusal],
        ..set(Vec::new(), Counts { waiting: 1, refused: 1, ..Counts::default() })
    };
    let machine =
        ObjectChange { kind: MACHINE.to_owned(), name: "web".to_owned(), ..object("", None, Some(&config_map("x"))) };
    let note = Some("planned once environment lab is there".to_owned());
    let placeless = ObjectChange { action: ObjectAction::Unchanged, changes: Vec::new(), note, ..machine.clone() };
    assert!(Proposal { objects: vec![placeless.clone()], change_sets: Vec::new() }.is_stuck(), "nothing is done of it");
    let only = |set: ProposedSet| Proposal { objects: Vec::new(), change_sets: vec![set] };
    let rows = [
        ("nothing at all", Proposal::default(), "Nothing to do.\n"),
        (
            "nothing that can be done",
            only(stuck.clone()),
            "In environment lab\n\nWaiting:\n  shop/db  update: it is locked: backup\n\n\
             Refused:\n  shop/db  spec.disk: it can only grow\n\nNothing to do. (1 waiting, 1 refused)\n",
        ),
        (
            "a Machine whose environment is not there",
            Proposal { objects: vec![placeless], change_sets: Vec::new() },
            "    keep machine.setpoint.dev shop/web\n      note: planned once environment lab is there\n\n\
             Nothing to do. (1 unchanged)\n",
        ),
        (
            "a Machine is told by its guest, and counted once",
            Proposal {
                objects: vec![machine],
                change_sets: vec![set(vec![create()], Counts { creates: 1, ..Counts::default() })],
            },
            "In environment lab\n\n  + create shop/web\n        cores  2\n        image  debian-12\n      \
             reason: new\n      class:  Spend, +$0.10/h: it is so\n\nPlan: 1 to create; +$0.10/h\n",
        ),
    ];
    for (row, proposal, expected) in rows {
        assert_eq!(proposal.text(Style::Plain), expected, "{row}");
    }
}

#[test]
fn what_limits_hold_back_is_told_beside_who_must_approve() {
    let told = |state: &str, message: &str| {
        let status = json!({
            "id": "shop/web/create", "digest": "d", "state": state, "message": message, "since": "2026-11-15T12:00:00Z",
        });
        let limited = vec![Limited::of(&serde_json::from_value(status).expect("a step's status"))];
        let one = Counts { creates: 1, ..Counts::default() };
        let web = Step { class: Class::Destructive, ..create() };
        let set = ProposedSet { limited, ..set(vec![web], one) };
        Proposal { objects: Vec::new(), change_sets: vec![set] }.text(Style::Plain)
    };
    let head = "In environment lab\n\n  + create shop/web\n        cores  2\n        image  debian-12\n      reason: new\n      \
                class:  Destructive, +$0.10/h: it is so\n      waits:  for approval by 1 person\n      ";
    let last = "\n\nPlan: 1 to create; +$0.10/h (waits for approval by 1 person; 1 step is beyond limits)\n";
    let full = told("Waiting", "waits: maxInstances 1 is used up until something else goes");
    assert_eq!(full, format!("{head}waits:  maxInstances 1 is used up until something else goes{last}"));
    let never = told("Failed", "refused: this step alone is more than maxInstances 0 allows");
    assert_eq!(never, format!("{head}refused: this step alone is more than maxInstances 0 allows{last}"));
}

#[test]
fn only_what_is_done_is_counted_as_done() {
    let change = |kind: &str, name: &str, action: ObjectAction| {
        let namespace = Some("shop".to_owned());
        ObjectChange { action, ..ObjectChange::between(kind.to_owned(), namespace, name.to_owned(), None, None) }
    };
    let objects = vec![
        change(MACHINE, "web", ObjectAction::Create),
        change(MACHINE, "db", ObjectAction::Delete),
        change(MACHINE, "mail", ObjectAction::Delete),
        change("configmap", "settings", ObjectAction::Update),
        change("configmap", "other", ObjectAction::Unchanged),
        change("environment.setpoint.dev", "lab", ObjectAction::Delete),
    ];
    let delete = step("db", Action::Delete, Class::Destructive, Some("8"), Vec::new());
    let (update, start) = (Action::Update, Action::Start);
    let steps = vec![
        create(),
        delete,
        step("app", update, Class::Benign, Some("9"), Vec::new()),
        step("app", start, Class::Benign, Some("9"), Vec::new()),
    ];
    let proposal = Proposal { objects, change_sets: vec![set(steps, Counts::default())] };
    type Row<'a> = (&'a str, &'a [&'a str], bool, (u32, u32, u32));
    let rows: [Row<'_>; 4] = [
        ("no Machine is", &[], false, (0, 1, 0)),
        ("a deletion waits", &["web", "app", "mail"], false, (1, 2, 1)),
        ("one is gone that had no guest", &["mail"], false, (0, 1, 1)),
        ("all are", &["web", "app", "db", "mail"], true, (1, 2, 3)),
    ];
    for (row, done, is_cleared, expected) in rows {
        let done = proposal.done(|namespace, name| namespace == "shop" && done.contains(&name), is_cleared);
        assert_eq!((done.creates, done.updates, done.deletes), expected, "{row}");
    }
}

#[test]
fn who_asks_approves_what_they_may() {
    let steps = || vec![step("db", Action::Delete, Class::Destructive, Some("8"), Vec::new()), create()];
    let held = |signature: bool, requester_may_approve: bool| {
        let rule = ApprovalRule {
            class: Class::Destructive,
            approvals: 1,
            roles: Vec::new(),
            signature,
            requester_may_approve,
            expiry_seconds: 60,
        };
        let approval = Approval { rules: vec![rule], keys: Vec::new() };
        ProposedSet { holds: holds(&steps(), Some(&approval), "alice"), ..set(steps(), Counts::default()) }
    };
    let rows = [
        ("it may be anybody", held(false, true), false, 1),
        ("it may be anybody else", held(false, false), false, 0),
        ("it must be signed, and is not", held(true, true), false, 0),
        ("it must be signed, and is", held(true, true), true, 1),
    ];
    for (row, set, signs, expected) in rows {
        assert_eq!(set.own(signs).len(), expected, "{row}");
    }
}

#[test]
fn colours_are_added_and_nothing_else() {
    let proposal = Proposal { objects: Vec::new(), change_sets: vec![set(vec![create()], Counts::default())] };
    let coloured = proposal.text(Style::Coloured);
    assert!(coloured.contains("\u{1b}[32m  +\u{1b}[0m create \u{1b}[1mshop/web\u{1b}[0m"), "{coloured}");
    let mut plain = coloured;
    for code in ["0", "1", "2", "31", "32", "33"] {
        plain = plain.replace(&format!("\u{1b}[{code}m"), "");
    }
    assert_eq!(plain, proposal.text(Style::Plain));
}

#[test]
fn a_hold_says_who_must_approve() {
    let rule = |approvals, roles: &[&str], signature, requester_may_approve| ApprovalRule {
        class: Class::Destructive,
        approvals,
        roles: roles.iter().map(|&role| role.to_owned()).collect(),
        signature,
        requester_may_approve,
        expiry_seconds: 60,
    };
    let rows = [
        ("by default", None, Some(("1 person", true, true))),
        ("nobody", Some(rule(0, &[], false, true)), None),
        ("two", Some(rule(2, &[], false, true)), Some(("2 people", true, false))),
        ("another", Some(rule(1, &[], false, false)), Some(("1 person other than alice", false, false))),
        ("a signature", Some(rule(1, &[], true, true)), Some(("1 person who signs", true, true))),
        (
            "roles",
            Some(rule(2, &["operator", "owner"], true, false)),
            Some(("2 people who sign as operator or owner other than alice", false, false)),
        ),
    ];
    for (row, rule, expected) in rows {
        let policy = rule.map(|rule| Approval { rules: vec![rule], keys: Vec::new() });
        let steps = [step("gone", Action::Delete, Class::Destructive, None, Vec::new())];
        let holds = holds(&steps, policy.as_ref(), "alice");
        let told = holds.first().map(|hold| (hold.by.as_str(), hold.own_counts, hold.own_suffices));
        assert_eq!(told, expected, "{row}");
    }
}

#[test]
fn an_object_is_compared_by_what_people_write() {
    let live = |colour: &str| {
        let mut object = config_map(colour);
        object["metadata"] = json!({
            "name": "settings", "uid": "u", "resourceVersion": "7", "creationTimestamp": "t", "managedFields": [],
            "annotations": {"setpoint.dev/requested-by": "bob"},
        });
        object["status"] = json!({"seen": true});
        object
    };
    let secret = |value: &str| json!({"apiVersion": "v1", "kind": "Secret", "data": {"password": value}});
    let rows = [
        ("the same", object("configmap", Some(&live("blue")), Some(&config_map("blue"))), "Unchanged []"),
        (
            "changed",
            object("configmap", Some(&live("blue")), Some(&config_map("red"))),
            "Update [data.colour \"blue\" \"red\"]",
        ),
        ("new", object("configmap", None, Some(&config_map("red"))), "Create [data.colour - \"red\"]"),
        ("gone", object("configmap", Some(&live("blue")), None), "Delete []"),
        ("never there", object("configmap", None, None), "Unchanged []"),
        (
            "a Secret's value",
            object("secret", Some(&secret("b3Bl")), Some(&secret("c2Vz"))),
            "Update [data.password (sensitive) (sensitive)]",
        ),
        ("a new Secret", object("secret", None, Some(&secret("b3Bl"))), "Create [data.password - (sensitive)]"),
    ];
    for (row, change, expected) in rows {
        let side = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        let edits = change.changes.iter().map(|edit| format!("{} {} {}", edit.field, side(&edit.from), side(&edit.to)));
        let told = format!("{:?} [{}]", change.action, edits.collect::<Vec<_>>().join(", "));
        assert_eq!(told, expected, "{row}");
    }
}

#[test]
fn a_saved_plan_tells_what_is_no_longer_so() {
    let (before, after, other) = (config_map("blue"), config_map("red"), config_map("green"));
    let proposal = |steps: Vec<Step>, wanted: &Value| Proposal {
        objects: vec![object("configmap", Some(&before), Some(wanted))],
        change_sets: vec![set(steps, Counts::default())],
    };
    let shown = proposal(vec![create()], &after);
    let changed = Step { digest: "another".to_owned(), ..create() };
    let gone = step("gone", Action::Delete, Class::Destructive, None, Vec::new());
    let rows: [(&str, Proposal, &[&str]); 5] = [
        ("the same", shown.clone(), &[]),
        ("another digest", proposal(vec![changed], &after), &["step shop/web/create in lab is not what it was"]),
        ("a step more", proposal(vec![create(), gone], &after), &["step shop/gone/delete in lab is new"]),
        (
            "nothing to do any more",
            proposal(Vec::new(), &before),
            &["step shop/web/create in lab is no longer needed", "configmap shop/settings is as desired now"],
        ),
        ("another object", proposal(vec![create()], &other), &["configmap shop/settings would be changed otherwise"]),
    ];
    for (row, now, expected) in rows {
        let seals = Seals::of("salt".to_owned(), std::iter::empty());
        assert_eq!(differences((&shown, &seals), (&now, &seals)), expected, "{row}");
    }
}

#[test]
fn a_saved_plan_tells_what_is_hidden_and_no_longer_so() {
    let secret = |value: &str| json!({"apiVersion": "v1", "kind": "Secret", "data": {"password": value}});
    let long = |end: &str| config_map(&format!("{}{end}", "x".repeat(200)));
    let labelled = |mut object: Value| {
        object["metadata"]["labels"] = json!({"team": "a"});
        object
    };
    let otherwise = |kind: &str| vec![format!("{kind} shop/settings would be changed otherwise")];
    let rotated = (secret("b3Bl"), secret("c2Vz"));
    let rows = [
        ("the same Secret", "secret", rotated.clone(), rotated.clone(), vec![]),
        ("another Secret is replaced", "secret", rotated, (secret("YWJj"), secret("c2Vz")), otherwise("secret")),
        (
            "a long text ends otherwise",
            "configmap",
            (long("a"), long("c")),
            (long("b"), long("c")),
            otherwise("configmap"),
        ),
        (
            "a field that stays as it is",
            "configmap",
            (long("a"), long("c")),
            (labelled(long("a")), labelled(long("c"))),
            vec![],
        ),
    ];
    for (row, kind, then, today, expected) in rows {
        let sealed = |(live, wanted): &(Value, Value), salt: &str| {
            let change = object(kind, Some(live), Some(wanted));
            let seals = Seals::of(salt.to_owned(), [(&change, live, wanted)].into_iter());
            (Proposal { objects: vec![change], change_sets: Vec::new() }, seals)
        };
        let ((shown, seals), (now, seals_now)) = (sealed(&then, "salt"), sealed(&today, "salt"));
        assert_eq!(differences((&shown, &seals), (&now, &seals_now)), expected, "{row}");
        assert_ne!(seals, sealed(&then, "pepper").1, "{row}: nobody knows a digest without its salt");
        let file = serde_json::to_string(&seals).expect("JSON");
        assert!(!file.contains("b3Bl") && !file.contains("c2Vz"), "{row}: {file}");
    }
}

#[test]
fn labels_and_annotations_of_what_is_new_are_shown() {
    let metadata = json!({
        "name": "settings", "namespace": "shop",
        "labels": {"app": "shop", "applyset.kubernetes.io/part-of": "applyset-1-v1"},
        "annotations": {"example.com/owner": "alice", "setpoint.dev/requested-by": "alice"},
    });
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"colour": "blue"}});
    let proposal = Proposal { objects: vec![object("configmap", None, Some(&map))], change_sets: Vec::new() };
    assert_eq!(
        proposal.text(Style::Plain),
        r#"  + create configmap shop/settings
        metadata.labels.app                        "shop"
        metadata.annotations["example.com/owner"]  "alice"
        data.colour                                "blue"

Plan: 1 to create
"#
    );
}

#[test]
fn marks_of_a_machine_are_shown_beside_its_guest() {
    let marked = |label: &str| json!({"kind": "Machine", "metadata": {"labels": {"app": label}}, "spec": {"cores": 2}});
    let change = ObjectChange { name: "web".to_owned(), ..object(MACHINE, None, Some(&marked("shop"))) };
    let set = set(vec![create()], Counts { creates: 1, ..Counts::default() });
    let text = Proposal { objects: vec![change], change_sets: vec![set] }.text(Style::Plain);
    let shown =
        "  + create machine.setpoint.dev shop/web\n        metadata.labels.app  \"shop\"\n\nIn environment lab\n";
    assert!(text.starts_with(shown), "{text}");
    assert!(text.ends_with("Plan: 1 to create; +$0.10/h\n"), "{text}");
}
