//! What is looser than the policy in force, and what is judged by until it is approved.

use proptest::prelude::*;
use serde_json::{Value, json};
use setpoint_api::environment::{Environment, EnvironmentSpec, PolicyInForce};
use setpoint_api::step::{Action, Class};
use setpoint_core::digest::Key;
use setpoint_core::loosens::{self, bare, loosens};
use setpoint_core::stricter::{rules, rules_for, stricter, tightened};

const ALICE: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKzzmkBGzJ4dpOBiJHIrE8YsHjz3HrPmbP9nHpFbLTYI";
const BOB: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBqfQ1yZ1rVQ3X2mU0pYp2o2a0cYJ0m7e3Qm5oD6R8sT";

fn spec(more: Value) -> EnvironmentSpec {
    let mut spec = json!({"deployer": {"name": "simulated"}});
    spec.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
    serde_json::from_value(spec).unwrap_or_else(|error| panic!("{more}: {error}"))
}

fn in_force(more: Value) -> PolicyInForce {
    PolicyInForce { spec: spec(more), protected: false, was_ready: true, unlocked: None }
}

/// What is looser, as `field: class`.
fn looser(from: Value, to: Value) -> Vec<String> {
    told(&loosens(&in_force(from), &spec(to), false))
}

fn told(loosened: &[loosens::Loosened]) -> Vec<String> {
    loosened.iter().map(|loosened| format!("{}: {:?}", loosened.field, loosened.class)).collect()
}

fn rule(class: &str, more: Value) -> Value {
    let mut rule = json!({"class": class, "approvals": 1});
    rule.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
    json!({"approval": {"rules": [rule]}})
}

fn signed(keys: &[(&str, &str, &str)], roles: &[&str]) -> Value {
    let keys: Vec<Value> = keys
        .iter()
        .map(|(key, principal, role)| json!({"publicKey": key, "principal": principal, "role": role}))
        .collect();
    let rule = json!({"class": "Destructive", "approvals": 1, "signature": true, "roles": roles});
    json!({"approval": {"rules": [rule], "keys": keys}})
}

fn limit(name: &str, value: Value) -> Value {
    json!({"guardrails": {name: value}})
}

fn freeze(until: &str) -> Value {
    json!({"windows": [{"classes": ["Destructive"], "freeze": {"from": "2026-12-20T00:00:00Z", "until": until}}]})
}

fn open(days: &[&str]) -> Value {
    let opening = |day: &&str| {
        let opening = json!({"days": [day], "from": "09:00", "until": "17:00", "timeZone": "UTC"});
        json!({"classes": ["Spend"], "opening": opening})
    };
    json!({"windows": days.iter().map(opening).collect::<Vec<_>>()})
}

#[test]
fn a_rule_that_asks_for_less_is_looser() {
    let none = || json!({});
    type Row = (&'static str, Value, Value, &'static [&'static str]);
    let rows: [Row; 21] = [
        ("nothing is said", none(), none(), &[]),
        ("the default is written down", none(), rule("Destructive", none()), &[]),
        (
            "less than the default",
            none(),
            rule("Destructive", json!({"approvals": 0})),
            &["approval.rules[Destructive].approvals: Destructive"],
        ),
        ("more than the default", none(), rule("Destructive", json!({"approvals": 2})), &[]),
        (
            "back to the default",
            rule("Destructive", json!({"approvals": 2})),
            none(),
            &["approval.rules[Destructive].approvals: Destructive"],
        ),
        (
            "fewer approvals of another class",
            rule("Spend", json!({"approvals": 2})),
            rule("Spend", json!({"approvals": 1})),
            &["approval.rules[Spend].approvals: Spend"],
        ),
        ("the least class counts, too", rule("Benign", none()), none(), &["approval.rules[Benign].approvals: Benign"]),
        (
            "none was needed",
            rule("Spend", json!({"approvals": 0})),
            rule("Spend", json!({"expirySeconds": 90_000})),
            &[],
        ),
        (
            "the requester may approve",
            rule("Destructive", json!({"requesterMayApprove": false})),
            rule("Destructive", none()),
            &["approval.rules[Destructive].requesterMayApprove: Destructive"],
        ),
        (
            "approvals last longer",
            rule("Destructive", json!({"expirySeconds": 600})),
            rule("Destructive", json!({"expirySeconds": 601})),
            &["approval.rules[Destructive].expirySeconds: Destructive"],
        ),
        (
            "approvals last less long",
            rule("Destructive", json!({"expirySeconds": 600})),
            rule("Destructive", json!({"expirySeconds": 599})),
            &[],
        ),
        (
            "ServiceAccounts count",
            rule("Destructive", none()),
            rule("Destructive", json!({"serviceAccounts": true})),
            &["approval.rules[Destructive].serviceAccounts: Destructive"],
        ),
        (
            "no signature any more",
            signed(&[(ALICE, "alice", "owner")], &[]),
            rule("Destructive", none()),
            &["approval.rules[Destructive].signature: Destructive"],
        ),
        ("a signature from now on", rule("Destructive", none()), signed(&[(ALICE, "alice", "owner")], &[]), &[]),
        (
            "any role",
            signed(&[(ALICE, "alice", "owner")], &["owner"]),
            signed(&[(ALICE, "alice", "owner")], &[]),
            &["approval.rules[Destructive].roles: Destructive"],
        ),
        (
            "one role of two",
            signed(&[(ALICE, "alice", "owner"), (BOB, "bob", "operator")], &["owner", "operator"]),
            signed(&[(ALICE, "alice", "owner"), (BOB, "bob", "operator")], &["owner"]),
            &[],
        ),
        (
            "one more key",
            signed(&[(ALICE, "alice", "owner")], &[]),
            signed(&[(ALICE, "alice", "owner"), (BOB, "bob", "owner")], &[]),
            &["approval.keys[AAAAC3NzaC1lZDI1NTE5AAAAIBqfQ1yZ1rVQ3X2mU0pYp2o2a0cYJ0m7e3Qm5oD6R8sT]: Destructive"],
        ),
        (
            "one more key that may sign nothing",
            signed(&[(ALICE, "alice", "owner")], &["owner"]),
            signed(&[(ALICE, "alice", "owner"), (BOB, "bob", "operator")], &["owner"]),
            &[],
        ),
        (
            "a key is another's",
            signed(&[(ALICE, "alice", "owner")], &[]),
            signed(&[(ALICE, "mallory", "owner")], &[]),
            &["approval.keys[AAAAC3NzaC1lZDI1NTE5AAAAIKzzmkBGzJ4dpOBiJHIrE8YsHjz3HrPmbP9nHpFbLTYI]: Destructive"],
        ),
        (
            "a key is taken away",
            signed(&[(ALICE, "alice", "owner"), (BOB, "bob", "owner")], &[]),
            signed(&[(ALICE, "alice", "owner")], &[]),
            &[],
        ),
        (
            "keys that nobody is asked for",
            none(),
            json!({"approval": {"keys": [
            {"publicKey": ALICE, "principal": "alice", "role": "owner"}]}}),
            &[],
        ),
    ];
    for (name, from, to, expected) in rows {
        assert_eq!(looser(from, to), expected, "{name}");
    }
}

#[test]
fn a_limit_that_is_raised_or_removed_is_looser() {
    let rows = [
        ("maxHourlyCost", json!("1.00"), json!("2.00"), "Spend"),
        ("maxAddedCostPerHour", json!("1.00"), json!("2.00"), "Spend"),
        ("maxGpus", json!(1), json!(2), "Spend"),
        ("maxInstances", json!(1), json!(2), "Spend"),
        ("maxDestroysPerHour", json!(1), json!(2), "Destructive"),
        ("maxMovedBpsPerHour", json!(1), json!(2), "Disruptive"),
        ("ttlSeconds", json!(60), json!(61), "Spend"),
        ("allowFallback", json!(false), json!(true), "Spend"),
    ];
    for (name, low, high, class) in rows {
        let expected = [format!("guardrails.{name}: {class}")];
        let (lower, higher) = (limit(name, low), limit(name, high));
        assert_eq!(looser(lower.clone(), higher.clone()), expected, "{name} is raised");
        assert!(looser(higher.clone(), lower.clone()).is_empty(), "{name} is lowered");
        assert!(looser(lower.clone(), lower.clone()).is_empty(), "{name} is as before");
        let is_limit = name != "allowFallback";
        assert_eq!(looser(lower.clone(), json!({})).is_empty(), !is_limit, "{name} is removed");
        assert!(looser(json!({}), lower).is_empty(), "{name} is set");
    }
}

#[test]
fn a_limit_of_a_namespace_that_is_raised_or_removed_is_looser() {
    let entry = |name: &str, gpus: u32| json!({"namespace": name, "maxGpus": gpus});
    let limits = |entries: &[Value]| json!({"guardrails": {"namespaces": entries}});
    let looser_of = |name: &str| vec![format!("guardrails.namespaces[{name}].maxGpus: Spend")];
    let rows = [
        ("it is raised", limits(&[entry("shop", 1)]), limits(&[entry("shop", 2)]), looser_of("shop")),
        ("it is lowered", limits(&[entry("shop", 2)]), limits(&[entry("shop", 1)]), vec![]),
        ("it is removed", limits(&[entry("shop", 1)]), json!({}), looser_of("shop")),
        ("it is set", json!({}), limits(&[entry("shop", 1)]), vec![]),
        ("that of all is raised", limits(&[entry("*", 1)]), limits(&[entry("*", 2)]), looser_of("*")),
        (
            "one gets more than all",
            limits(&[entry("*", 1)]),
            limits(&[entry("*", 1), entry("shop", 2)]),
            looser_of("shop"),
        ),
        ("one gets less than all", limits(&[entry("*", 2)]), limits(&[entry("*", 2), entry("shop", 1)]), vec![]),
        (
            "one falls back to all",
            limits(&[entry("*", 2), entry("shop", 1)]),
            limits(&[entry("*", 2)]),
            looser_of("shop"),
        ),
    ];
    for (name, from, to, expected) in rows {
        assert_eq!(looser(from.clone(), to.clone()), expected, "{name}");
        let judged = stricter(&in_force(from.clone()), &spec(to.clone()));
        for policy in [from, to] {
            assert_eq!(told(&loosens(&in_force(policy), &judged, false)), Vec::<String>::new(), "{name}, judged");
        }
    }
}

#[test]
fn what_else_is_looser() {
    let none = || json!({});
    let hook = |url: &str| json!({"notifications": {"webhook": {"url": url}}});
    let command = |word: &str| json!({"notifications": {"command": [word]}});
    let secret = |name: &str| json!({"credentialsSecretRef": {"namespace": "ops", "name": name}});
    type Row = (&'static str, Value, Value, &'static [&'static str]);
    let rows: [Row; 24] = [
        ("configuration that is added", none(), json!({"config": {"bootMs": 1}}), &["config.bootMs: Destructive"]),
        (
            "configuration that is changed",
            json!({"config": {"bootMs": 1, "capacity": 5}}),
            json!({"config": {"bootMs": 2, "capacity": 5}}),
            &["config.bootMs: Destructive"],
        ),
        ("configuration that is removed", json!({"config": {"bootMs": 1}}), none(), &["config.bootMs: Destructive"]),
        ("other credentials", secret("a"), secret("b"), &["credentialsSecretRef: Destructive"]),
        (
            "another version",
            none(),
            json!({"deployer": {"name": "simulated", "version": "2"}}),
            &["deployer.version: Destructive"],
        ),
        ("guests are made", json!({"create": "Never"}), none(), &["create: Spend"]),
        ("no guests are made", none(), json!({"create": "Never"}), &[]),
        ("orphans are deleted", none(), json!({"orphanPolicy": "Delete"}), &["orphanPolicy: Destructive"]),
        ("orphans are only told of", json!({"orphanPolicy": "Delete"}), none(), &[]),
        ("requests have less time", none(), json!({"drainSeconds": 5}), &["drainSeconds: Disruptive"]),
        ("requests have more time", none(), json!({"drainSeconds": 60}), &[]),
        ("looks are rarer", none(), json!({"observeIntervalSeconds": 600}), &[]),
        ("somebody is told", none(), hook("https://example.com"), &[]),
        (
            "somebody else is told",
            hook("https://example.com"),
            hook("https://example.org"),
            &["notifications.webhook: Disruptive"],
        ),
        ("nobody is told", hook("https://example.com"), none(), &["notifications.webhook: Disruptive"]),
        ("a command is run", none(), command("a"), &["notifications.command: Destructive"]),
        ("another command is run", command("a"), command("b"), &["notifications.command: Destructive"]),
        ("no command is run", command("a"), none(), &[]),
        ("a freeze is added", none(), freeze("2027-01-04T00:00:00Z"), &[]),
        ("a freeze is longer", freeze("2027-01-04T00:00:00Z"), freeze("2027-02-01T00:00:00Z"), &[]),
        (
            "a freeze is shorter",
            freeze("2027-01-04T00:00:00Z"),
            freeze("2026-12-24T00:00:00Z"),
            &["windows[Destructive]: Destructive"],
        ),
        ("a freeze is lifted", freeze("2027-01-04T00:00:00Z"), none(), &["windows[Destructive]: Destructive"]),
        ("hours are removed while others are left", open(&["Mon", "Tue"]), open(&["Mon"]), &[]),
        ("the first hours", none(), open(&["Mon"]), &[]),
    ];
    for (name, from, to, expected) in rows {
        assert_eq!(looser(from, to), expected, "{name}");
    }
    assert_eq!(looser(open(&["Mon"]), open(&["Mon", "Tue"])), ["windows[Spend]: Spend"], "hours are added");
    assert_eq!(looser(open(&["Mon"]), json!({})), ["windows[Spend]: Spend"], "the last hours are removed");
    let young = PolicyInForce { was_ready: false, ..in_force(json!({"config": {"bootMs": 1}})) };
    assert!(loosens(&young, &spec(json!({})), false).is_empty(), "what was never reached holds nothing");
    let protected = PolicyInForce { protected: true, ..in_force(json!({})) };
    assert!(loosens(&protected, &spec(json!({})), true).is_empty(), "it stays protected");
    assert_eq!(told(&loosens(&protected, &spec(json!({})), false)), ["protected: Destructive"]);
}

#[test]
fn an_environment_that_is_deleted_sheds_its_rules() {
    let rows: [(&str, Value, &[&str]); 4] = [
        ("without rules", json!({"config": {"bootMs": 1}, "orphanPolicy": "Delete"}), &[]),
        ("with a stricter rule", rule("Spend", json!({})), &["approval.rules[Spend].approvals: Spend"]),
        ("with a looser rule", rule("Destructive", json!({"approvals": 0})), &[]),
        ("with a limit", limit("maxGpus", json!(1)), &["guardrails.maxGpus: Spend"]),
    ];
    for (name, policy, expected) in rows {
        assert_eq!(told(&loosens(&in_force(policy.clone()), &bare(&spec(policy)), false)), expected, "{name}");
    }
}

fn environment(wanted: Value, policy: Value) -> Environment {
    let mut environment = Environment::new("lab", spec(wanted));
    environment.metadata.uid = Some("uid".to_owned());
    environment.status = Some(Default::default());
    environment.status.as_mut().expect("a status").policy = Some(in_force(policy));
    environment
}

#[test]
fn a_step_to_loosen_is_of_its_fields_and_its_environment() {
    let key = Key::new([7; 32]);
    let step = |environment: &Environment| {
        let policy = environment.status.as_ref().and_then(|status| status.policy.as_ref()).expect("a policy");
        loosens::step(environment, &loosens(policy, &environment.spec, false), &key)
    };
    let both = json!({"maxGpus": 1, "maxDestroysPerHour": 1});
    let of = |gpus: u32| environment(limit("maxGpus", json!(gpus)), json!({"guardrails": both}));
    let one = step(&of(2)).expect("a step");
    assert_eq!(
        (one.action, one.class, one.id.as_str()),
        (Action::Loosen, Class::Destructive, "environment:lab/loosen")
    );
    assert_eq!(Vec::from_iter(one.classes()), [Class::Benign, Class::Spend, Class::Destructive]);
    let fields: Vec<&str> = one.changes.iter().map(|change| change.field.as_str()).collect();
    assert_eq!(fields, ["spec.guardrails.maxGpus", "spec.guardrails.maxDestroysPerHour"]);
    assert_ne!(step(&of(3)).expect("a step").digest, one.digest, "it would be looser");
    let mut other = of(2);
    other.metadata.uid = Some("other".to_owned());
    assert_ne!(step(&other).expect("a step").digest, one.digest, "another Environment of the name");
    let mut later = of(2);
    later.metadata.generation = Some(9);
    later.spec.observe_interval_seconds = 77;
    assert_eq!(step(&later).expect("a step").digest, one.digest, "what else is written is not asked about");
    assert_eq!(step(&environment(json!({}), json!({}))), None);
}

#[test]
fn steps_are_judged_by_the_stricter_rules_and_a_looser_policy_by_that_in_force() {
    let looser = environment(
        json!({"approval": {"rules": [{"class": "Destructive", "approvals": 0}]}, "guardrails": {"maxGpus": 9}}),
        json!({"approval": {"rules": [{"class": "Destructive", "approvals": 2}]}, "guardrails": {"maxInstances": 3}}),
    );
    let judged = rules(&looser);
    let approvals = |spec: &EnvironmentSpec, class| spec.approval.as_ref().map(|it| it.requirement(class).approvals);
    assert_eq!(approvals(&judged, Class::Destructive), Some(2), "it is not looser yet");
    let limits = judged.guardrails.clone().unwrap_or_default();
    assert_eq!((limits.max_gpus, limits.max_instances), (Some(9), Some(3)), "each limit holds");
    let policy = looser.status.as_ref().and_then(|status| status.policy.as_ref()).expect("a policy");
    let found = loosens(policy, &looser.spec, false);
    let step = loosens::step(&looser, &found, &Key::new([7; 32])).expect("a step");
    let by = rules_for(&looser, std::slice::from_ref(&step));
    assert_eq!((approvals(&by, Class::Destructive), &by.guardrails), (Some(2), &None));
    // Its own tightening waits for nobody.
    let wanted = PolicyInForce { spec: looser.spec.clone(), ..in_force(json!({})) };
    let next = tightened(policy, &wanted, &found);
    assert_eq!(next.spec.guardrails.unwrap_or_default().max_gpus, Some(9));
    assert_eq!(approvals(&policy.spec, Class::Destructive), Some(2));
}

/// Specs whose rules differ in every field that can be looser.
fn any_spec() -> impl Strategy<Value = EnvironmentSpec> {
    let rule = (0_u32..3, any::<bool>(), any::<bool>(), 60_u32..120, 0_usize..4);
    let rules = (rule.clone(), rule, any::<bool>(), 0_usize..4);
    let limits = proptest::collection::vec(proptest::option::of(60_u32..64), 7);
    let windows = proptest::collection::vec((0_usize..3, any::<bool>(), 0_u8..4), 0..3);
    let rest = (any::<bool>(), any::<bool>(), 0_u32..40, 0_u8..3, 0_u8..3, 0_u8..3);
    (rules, limits, windows, rest).prop_map(|(rules, limits, windows, rest)| {
        let roles = [vec![], vec!["owner"], vec!["operator"], vec!["owner", "operator"]];
        let rule = |class: &str, rule: (u32, bool, bool, u32, usize), signature: bool| {
            json!({
                "class": class, "approvals": rule.0, "requesterMayApprove": rule.1, "serviceAccounts": rule.2,
                "expirySeconds": rule.3, "roles": if signature { roles[rule.4].clone() } else { vec![] },
                "signature": signature,
            })
        };
        let (one, other, signature, keys) = rules;
        let known = [
            json!({"publicKey": ALICE, "principal": "alice", "role": "owner"}),
            json!({"publicKey": BOB, "principal": "bob", "role": "operator"}),
            json!({"publicKey": ALICE, "principal": "mallory", "role": "operator"}),
        ];
        let keys = if keys == 3 { vec![&known[0], &known[1]] } else { vec![&known[keys]] };
        let classes = ["Spend", "Destructive"];
        let windows: Vec<Value> = windows
            .into_iter()
            .map(|(class, is_freeze, at)| {
                let classes = if class == 2 { json!([]) } else { json!([classes[class]]) };
                if is_freeze {
                    let until = format!("2027-01-0{}T00:00:00Z", at + 2);
                    json!({"classes": classes, "freeze": {"from": "2027-01-01T00:00:00Z", "until": until}})
                } else {
                    let opening = json!({"from": format!("0{at}:00"), "until": "17:00", "timeZone": "UTC"});
                    json!({"classes": classes, "opening": opening})
                }
            })
            .collect();
        let (create, orphans, drain, config, hook, command) = rest;
        let mut all = json!({
            "approval": {"rules": [rule("Spend", one, false), rule("Destructive", other, signature)], "keys": keys},
            "guardrails": {
                "maxHourlyCost": limits[0].map(|it| format!("{it}.00")), "maxGpus": limits[1],
                "maxAddedCostPerHour": limits[2].map(|it| format!("{it}.00")), "maxInstances": limits[3],
                "maxDestroysPerHour": limits[4], "maxMovedBpsPerHour": limits[5], "ttlSeconds": limits[6],
            },
            "windows": windows, "create": if create { "Always" } else { "Never" },
            "orphanPolicy": if orphans { "Report" } else { "Delete" }, "drainSeconds": drain,
            "config": {"bootMs": config}, "notifications": {},
        });
        if hook > 0 {
            all["notifications"]["webhook"] = json!({"url": format!("https://example.com/{hook}")});
        }
        if command > 0 {
            all["notifications"]["command"] = json!([format!("/bin/{command}")]);
        }
        spec(all)
    })
}

proptest! {
    #[test]
    fn what_is_as_before_is_not_looser(one in any_spec()) {
        let policy = PolicyInForce { spec: one.clone(), ..in_force(json!({})) };
        prop_assert_eq!(loosens(&policy, &one, false), []);
    }

    #[test]
    fn the_stricter_of_two_is_looser_than_neither(one in any_spec(), other in any_spec()) {
        let policy = |spec: &EnvironmentSpec| PolicyInForce { spec: spec.clone(), ..in_force(json!({})) };
        let judged = stricter(&policy(&one), &other);
        prop_assert_eq!(loosens(&policy(&one), &judged, false), []);
        // How a place is opened and who is told has no order: that stays as it is in force.
        let rules: Vec<String> = told(&loosens(&policy(&other), &judged, false));
        let is_rule = |field: &&String| !field.starts_with("config") && !field.starts_with("notifications");
        prop_assert_eq!(rules.iter().filter(is_rule).collect::<Vec<_>>(), Vec::<&String>::new());
    }

    #[test]
    fn what_needs_nobody_is_put_in_force_and_what_is_looser_still_is(one in any_spec(), other in any_spec()) {
        let policy = PolicyInForce { spec: one, ..in_force(json!({})) };
        let wanted = PolicyInForce { spec: other.clone(), ..in_force(json!({})) };
        let found = loosens(&policy, &other, false);
        let next = tightened(&policy, &wanted, &found);
        prop_assert_eq!(loosens(&policy, &next.spec, false), []);
        let left = loosens(&next, &other, false);
        prop_assert_eq!(left.is_empty(), found.is_empty());
        if found.is_empty() {
            prop_assert_eq!(next.spec, other);
        }
    }
}
