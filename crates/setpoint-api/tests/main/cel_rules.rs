//! The rules in the schemas hold what the Rust rules hold, where an API server without ours checks them.

use kube_cel::{CompiledSchema, Validator, compile_schema, estimate_rule_cost};
use serde_json::{Value, json};
use setpoint_api::crds::all;

use crate::fixture::object;

fn schema(kind: &str) -> Value {
    let crd = all().into_iter().find(|crd| crd.spec.names.kind == kind).expect("a kind");
    crate::fixture::schema(&crd)
}

fn least(kind: &str) -> Value {
    match kind {
        "Environment" => json!({"deployer": {"name": "simulated"}}),
        "Machine" => json!({"environment": "rack"}),
        "App" => json!({"template": {}, "strategy": {"maxUnavailable": 0}}),
        "Revision" => {
            json!({"appRef": {"name": "web"}, "number": 1, "environment": "local", "template": {}, "digest": "d"})
        }
        "TrafficSplit" => json!({"app": "web", "entries": [{"revision": "web-1", "weightBps": 10_000}]}),
        "Plan" => json!({"graph": {"nodes": []}}),
        "ChangeSet" => json!({"environment": "rack", "mode": "Preview", "requestedBy": "alice"}),
        _ => json!({"gate": "g", "decision": "Approve", "digests": ["sha256:0"], "reviewer": "alice"}),
    }
}

#[test]
fn rules_hold_for_objects_and_their_changes() {
    let moved = "a Machine cannot be moved to another environment: make another Machine there";
    let rows: Vec<(&str, &str, Option<Value>, Value, &str)> = vec![
        ("a machine", "Machine", None, json!({}), ""),
        ("a machine that is as it was", "Machine", Some(json!({"providerId": "1"})), json!({"providerId": "1"}), ""),
        ("a pin that comes later", "Machine", Some(json!({})), json!({"providerId": "1"}), ""),
        (
            "a pin that changes",
            "Machine",
            Some(json!({"providerId": "1"})),
            json!({"providerId": "2"}),
            "providerId cannot be changed once it is set",
        ),
        (
            "a pin that goes",
            "Machine",
            Some(json!({"providerId": "1"})),
            json!({}),
            "providerId cannot be changed once it is set",
        ),
        ("a guest that moves", "Machine", Some(json!({})), json!({"environment": "b"}), moved),
        ("a GPU of no type", "Machine", None, json!({"gpu": {"count": 1}}), "a type or minVram must say which GPU"),
        (
            "a fallback from nothing",
            "Machine",
            None,
            json!({"gpu": {"minVram": "1Gi", "fallback": ["a"]}}),
            "a fallback needs a type to fall back from",
        ),
        (
            "two values of a variable",
            "Machine",
            None,
            json!({"env": [{"name": "A", "value": "", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}),
            "a variable has a value or a valueFrom, not both",
        ),
        (
            "a source of nothing",
            "Machine",
            None,
            json!({"env": [{"name": "A", "valueFrom": {}}]}),
            "exactly one of secretKeyRef and configMapKeyRef must be set",
        ),
        (
            "variables from nowhere",
            "Machine",
            None,
            json!({"variablesFrom": [{}]}),
            "exactly one of secret and configMap must be set",
        ),
        (
            "a volume nobody asked a size for",
            "Machine",
            None,
            json!({"volumes": [{"name": "a"}]}),
            "a volume has a size to be made with, or the providerId of one that exists",
        ),
        ("an environment", "Environment", None, json!({}), ""),
        (
            "a deployer that changes",
            "Environment",
            Some(json!({})),
            json!({"deployer": {"name": "other"}}),
            "the deployer of an environment cannot be changed",
        ),
        ("a deployer of another version", "Environment", Some(json!({})), json!({"deployer": {"version": "2"}}), ""),
        (
            "signatures without keys",
            "Environment",
            None,
            json!({"approval": {"rules": [{"class": "Spend", "approvals": 1, "signature": true}]}}),
            "a rule that requires a signature needs keys to check it with",
        ),
        (
            "approvals without signatures",
            "Environment",
            None,
            json!({"approval": {"rules": [{"class": "Spend", "approvals": 1}]}}),
            "",
        ),
        (
            "a change set",
            "ChangeSet",
            None,
            json!({"objects": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}]}),
            "",
        ),
        (
            "a Secret in a change set",
            "ChangeSet",
            None,
            json!({"objects": [{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}]}),
            "a change set never carries Secrets",
        ),
        (
            "a change set that changes",
            "ChangeSet",
            Some(json!({})),
            json!({"mode": "Execute"}),
            "the spec of a change set cannot be changed",
        ),
        (
            "a list in a change set",
            "ChangeSet",
            None,
            json!({"objects": [{"apiVersion": "v1", "kind": "List", "metadata": {"name": "a"}, "items": []}]}),
            "a change set names its objects one by one, not in lists",
        ),
        ("an app", "App", None, json!({"strategy": {"steps": [{"weightBps": 100}, {"pause": {}}]}}), ""),
        (
            "an app that could replace nothing",
            "App",
            None,
            json!({"strategy": {"surge": 0}}),
            "surge 0 needs maxUnavailable of at least 1: otherwise nothing can ever be replaced",
        ),
        (
            "a step that is two things",
            "App",
            None,
            json!({"strategy": {"steps": [{"weightBps": 100, "pause": {}}]}}),
            "exactly one of weightBps, pause and analysis must be set",
        ),
        (
            "a client known by nothing",
            "App",
            None,
            json!({"route": {"port": 80, "sticky": {}}}),
            "exactly one of cookie and header must be set",
        ),
        (
            "a pause of a revision",
            "App",
            None,
            json!({"request": {"id": "1", "verb": "Pause", "revision": "web-1"}}),
            "only Undo names a revision",
        ),
        ("a revision that is as it was", "Revision", Some(json!({})), json!({}), ""),
        (
            "a revision that changes",
            "Revision",
            Some(json!({})),
            json!({"number": 2}),
            "a Revision is immutable: change the App instead",
        ),
        ("a split", "TrafficSplit", Some(json!({})), json!({}), ""),
        (
            "a split that is not whole",
            "TrafficSplit",
            None,
            json!({"entries": [{"revision": "web-1", "weightBps": 9_999}]}),
            "weights must sum to exactly 10000 basis points",
        ),
        (
            "a split that goes to another app",
            "TrafficSplit",
            Some(json!({})),
            json!({"app": "shop"}),
            "field is immutable",
        ),
        ("a plan", "Plan", None, json!({}), ""),
        ("a plan of no version", "Plan", None, json!({"series": "a"}), "series and version go together"),
        (
            "a gate of a plan that names none",
            "Plan",
            None,
            json!({"graph": {"nodes": [{"id": "a", "kind": "Gate"}]}}),
            "a Gate node needs gateRef, and no other may have it",
        ),
        ("a review", "Review", None, json!({}), ""),
        ("a review that is as it was", "Review", Some(json!({})), json!({}), ""),
        (
            "a review that changes",
            "Review",
            Some(json!({})),
            json!({"decision": "Reject"}),
            "a review cannot be changed",
        ),
        (
            "a verdict on nothing",
            "Review",
            None,
            json!({"digests": null}),
            "a verdict names the digests of the steps it is about",
        ),
        ("a comment without a text", "Review", None, json!({"decision": "Comment"}), "a comment needs a text"),
        (
            "a signature that binds nothing",
            "Review",
            None,
            json!({"signature": "x"}),
            "a signed review has a nonce, expiresAt, clusterUid and changeSetUid",
        ),
    ];
    for (name, kind, old, new, says) in rows {
        let old = old.map(|spec| object(kind, &least(kind), &spec));
        let new = object(kind, &least(kind), &new);
        let told = Validator::new().validate(&schema(kind), &new, old.as_ref()).err();
        let told: Vec<String> = told.into_iter().flat_map(|all| all.into_vec()).map(|error| error.message).collect();
        assert_eq!(told.join("; "), says, "{name}");
    }
}

#[test]
fn a_pin_that_comes_later_is_of_the_guest_that_is_there() {
    let other = "providerId is of another guest than the one that it has: make another Machine for it";
    let fixed = "providerId cannot be changed once it is set";
    let (pinned, more) = (json!({"providerId": "102"}), json!({"providerId": "102", "cores": 2}));
    let rows = [
        ("nothing is known of a guest", json!({}), None, &pinned, ""),
        ("there is no guest yet", json!({}), Some(json!({})), &pinned, ""),
        ("it is the guest", json!({}), Some(json!({"providerId": "102"})), &pinned, ""),
        ("it is another", json!({}), Some(json!({"providerId": "101"})), &pinned, other),
        ("a pin from before", pinned.clone(), Some(json!({"providerId": "101"})), &more, ""),
        ("a pin goes with its guest", pinned.clone(), Some(json!({"providerId": "102"})), &json!({}), fixed),
    ];
    for (name, old, status, new, says) in rows {
        let mut old = object("Machine", &least("Machine"), &old);
        let mut new = object("Machine", &least("Machine"), new);
        if let Some(status) = status {
            (old["status"], new["status"]) = (status.clone(), status);
        }
        let told = Validator::new().validate(&schema("Machine"), &new, Some(&old)).err();
        let told: Vec<String> = told.into_iter().flat_map(|all| all.into_vec()).map(|error| error.message).collect();
        assert_eq!(told.join("; "), says, "{name}");
    }
}

#[test]
fn every_rule_compiles_and_is_cheap() {
    for crd in all() {
        let compiled = compile_schema(&schema(&crd.spec.names.kind));
        each(&compiled, &mut |node| {
            assert!(!node.has_errors(), "{:?}: {:?}", crd.metadata.name, node.compilation_errors());
            for rule in node.validations.iter().flatten() {
                let warnings = estimate_rule_cost(&rule.rule.rule, node);
                assert!(warnings.is_empty(), "{:?}: {warnings:?}", crd.metadata.name);
            }
        });
    }
}

fn each<'s>(node: &'s CompiledSchema, visit: &mut impl FnMut(&'s CompiledSchema)) {
    visit(node);
    let nested = [&node.items, &node.additional_properties];
    nested.into_iter().flatten().for_each(|child| each(child, visit));
    node.properties.values().for_each(|child| each(child, visit));
}
