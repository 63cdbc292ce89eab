//! Which Environments are taken, and what they ask for.

use serde_json::{Value, json};
use setpoint_api::environment::{Approval, Create, Environment, OrphanPolicy};
use setpoint_api::step::Class;

use crate::fixture::{object, told, typed};

const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKzzmkBGzJ4dpOBiJHIrE8YsHjz3HrPmbP9nHpFbLTYI alice";
const SAME_KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKzzmkBGzJ4dpOBiJHIrE8YsHjz3HrPmbP9nHpFbLTYI other-comment";

fn environment(spec: &Value) -> Environment {
    typed(object("Environment", &json!({"deployer": {"name": "simulated"}}), spec))
}

#[test]
fn what_is_wrong_is_said_with_its_field() {
    let key = |role: &str| json!({"publicKey": KEY, "principal": "alice", "role": role});
    let rule = |more: Value| {
        let mut rule = json!({"class": "Destructive", "approvals": 1});
        rule.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        rule
    };
    let rows: Vec<(&str, Value, &[&str])> = vec![
        ("the least that is an environment", json!({}), &[]),
        ("a deployer has a name", json!({"deployer": {"name": ""}}), &["spec.deployer.name: Required value"]),
        (
            "a version is a version",
            json!({"deployer": {"version": "latest"}}),
            &[r#"spec.deployer.version: Invalid value: "latest": must be a version, such as "1" or "1.2.3""#],
        ),
        ("a version may be short, prefixed and a pre-release", json!({"deployer": {"version": "v1.2-rc.1"}}), &[]),
        (
            "a Secret is named whole",
            json!({"credentialsSecretRef": {"namespace": "", "name": ""}}),
            &["spec.credentialsSecretRef.namespace: Required value", "spec.credentialsSecretRef.name: Required value"],
        ),
        (
            "a limit of cost is not negative",
            json!({"guardrails": {"maxHourlyCost": "-1", "maxAddedCostPerHour": "-0.5"}}),
            &[
                r#"spec.guardrails.maxHourlyCost: Invalid value: "-1.00": must not be negative"#,
                r#"spec.guardrails.maxAddedCostPerHour: Invalid value: "-0.50": must not be negative"#,
            ],
        ),
        (
            "a limit of zero allows nothing and is allowed",
            json!({"guardrails": {"maxGpus": 0, "maxHourlyCost": "0"}}),
            &[],
        ),
        (
            "a time to live of seconds would delete what was just made",
            json!({"guardrails": {"ttlSeconds": 59}}),
            &["spec.guardrails.ttlSeconds: Invalid value: 59: must be greater than or equal to 60"],
        ),
        (
            "nobody is promised what nothing does",
            json!({"guardrails": {"allowFallback": true}}),
            &["spec.guardrails.allowFallback: Forbidden: no deployer offers another type of GPU yet"],
        ),
        (
            "no more destroys are allowed than the ledger can count",
            json!({"guardrails": {"maxDestroysPerHour": 1001}}),
            &["spec.guardrails.maxDestroysPerHour: Invalid value: 1001: must be less than or equal to 1000"],
        ),
        (
            "intervals have bounds",
            json!({"observeIntervalSeconds": 0, "drainSeconds": 90000}),
            &[
                "spec.observeIntervalSeconds: Invalid value: 0: must be between 1 and 86400, inclusive",
                "spec.drainSeconds: Invalid value: 90000: must be between 0 and 86400, inclusive",
            ],
        ),
        (
            "a signature needs a key to check it with",
            json!({"approval": {"rules": [rule(json!({"signature": true}))]}}),
            &["spec.approval.rules[0].signature: Invalid value: true: needs keys to check a signature with"],
        ),
        (
            "a role is one that a key has",
            json!({"approval": {"rules": [rule(json!({"signature": true, "roles": ["owner"]}))], "keys": [key("operator")]}}),
            &[r#"spec.approval.rules[0].roles[0]: Invalid value: "owner": no key has this role"#],
        ),
        (
            "a role without a signature would be nobody's",
            json!({"approval": {"rules": [rule(json!({"roles": ["operator"]}))], "keys": [key("operator")]}}),
            &[
                "spec.approval.rules[0].signature: Invalid value: false: must be true where roles are named: a role is a key's",
            ],
        ),
        (
            "a quorum that nobody can reach is refused",
            json!({"approval": {"rules": [rule(json!({"approvals": 2, "signature": true}))], "keys": [key("operator")]}}),
            &["spec.approval.rules[0].approvals: Invalid value: 2: only 1 of the people with keys may approve"],
        ),
        (
            "an approval expires, and not at once",
            json!({"approval": {"rules": [rule(json!({"expirySeconds": 5}))]}}),
            &["spec.approval.rules[0].expirySeconds: Invalid value: 5: must be between 60 and 2592000, inclusive"],
        ),
        (
            "a class has one rule",
            json!({"approval": {"rules": [rule(json!({})), rule(json!({}))]}}),
            &[r#"spec.approval.rules[1].class: Duplicate value: "Destructive""#],
        ),
        (
            "the same key under another comment is the same key",
            json!({"approval": {"keys": [key("a"), {"publicKey": SAME_KEY, "principal": "bob", "role": "b"}]}}),
            &[
                r#"spec.approval.keys[1].publicKey: Duplicate value: "AAAAC3NzaC1lZDI1NTE5AAAAIKzzmkBGzJ4dpOBiJHIrE8YsHjz3HrPmbP9nHpFbLTYI""#,
            ],
        ),
        (
            "a key of a type that cannot be checked is refused",
            json!({"approval": {"keys": [{"publicKey": "ssh-dss AAAAB3NzaC1kc3M", "principal": "bob", "role": "b"}]}}),
            &[
                r#"spec.approval.keys[0].publicKey: Unsupported value: "ssh-dss": supported values: "ssh-ed25519", "ssh-rsa", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521""#,
            ],
        ),
        (
            "a key whose material is of another type is refused",
            json!({"approval": {"keys": [{"publicKey": "ssh-ed25519 AAAAB3NzaC1yc2E", "principal": "bob", "role": "b"}]}}),
            &[
                r#"spec.approval.keys[0].publicKey: Invalid value: "ssh-ed25519 AAAAB3NzaC1yc2E": must be a public key such as "ssh-ed25519 AAAA…""#,
            ],
        ),
        (
            "a private key is refused without being repeated",
            json!({"approval": {"keys": [{"publicKey": "-----BEGIN OPENSSH PRIVATE KEY-----", "principal": "bob", "role": "b"}]}}),
            &[
                "spec.approval.keys[0].publicKey: Forbidden: this is a private key; make a new pair, and put the public key here",
            ],
        ),
        (
            "a key has a holder and a role",
            json!({"approval": {"keys": [{"publicKey": KEY, "principal": "", "role": ""}]}}),
            &[
                "spec.approval.keys[0].principal: Required value: the user who holds the key",
                "spec.approval.keys[0].role: Required value",
            ],
        ),
        (
            "everything is said at once",
            json!({"deployer": {"name": "A"}, "observeIntervalSeconds": 0, "guardrails": {"ttlSeconds": 1}}),
            &[
                r#"spec.deployer.name: Invalid value: "A": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"#,
                "spec.guardrails.ttlSeconds: Invalid value: 1: must be greater than or equal to 60",
                "spec.observeIntervalSeconds: Invalid value: 0: must be between 1 and 86400, inclusive",
            ],
        ),
    ];
    for (name, spec, says) in rows {
        assert_eq!(told(&environment(&spec).validate()), says, "{name}");
    }
}

#[test]
fn the_deployer_stays() {
    let old = environment(&json!({}));
    let other = environment(&json!({"deployer": {"name": "runpod"}}));
    let newer = environment(&json!({"deployer": {"version": "2"}}));
    assert_eq!(told(&newer.validate_update(&old)), [""; 0]);
    assert_eq!(
        told(&other.validate_update(&old)),
        ["spec.deployer.name: Forbidden: the deployer of an environment cannot be changed"]
    );
}

#[test]
fn an_environment_that_says_little_is_careful() {
    let spec = environment(&json!({})).spec;
    assert_eq!((spec.create, spec.orphan_policy), (Create::Always, OrphanPolicy::Report));
    assert_eq!((spec.observe_interval_seconds, spec.drain_seconds), (30, 30));
    assert_eq!((spec.guardrails, spec.approval), (None, None));
}

#[test]
fn a_step_needs_what_its_class_asks_for() {
    let strict = environment(&json!({"approval": {
        "rules": [{"class": "Spend", "approvals": 2, "signature": true, "requesterMayApprove": false, "roles": ["owner"]}],
        "keys": [{"publicKey": KEY, "principal": "alice", "role": "owner"}],
    }}));
    let strict = strict.spec.approval.unwrap();
    let silent = Approval::default();
    let rows = [
        ("what is benign needs nobody", &silent, Class::Benign, (0, false, true)),
        ("downtime needs nobody unless it is said", &silent, Class::Disruptive, (0, false, true)),
        ("money needs nobody unless it is said", &silent, Class::Spend, (0, false, true)),
        ("what destroys needs one person", &silent, Class::Destructive, (1, false, true)),
        ("a rule holds for its class", &strict, Class::Spend, (2, true, false)),
        ("and for no other", &strict, Class::Destructive, (1, false, true)),
    ];
    for (name, approval, class, expected) in rows {
        let needs = approval.requirement(class);
        assert_eq!((needs.approvals, needs.signature, needs.requester_may_approve), expected, "{name}");
        assert_eq!(needs.expiry_seconds, 86_400, "{name}");
    }
    assert_eq!(strict.requirement(Class::Spend).roles, ["owner"]);
}
