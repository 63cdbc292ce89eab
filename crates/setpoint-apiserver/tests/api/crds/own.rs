//! Our own kinds: there from the start, kept up to date, not deleted by accident, strict about what they do not know.

use serde_json::{Value, json};

use super::DEFINITIONS;
use crate::fixture::{Api, TABLE};

const ENVIRONMENTS: &str = "/apis/setpoint.dev/v1alpha1/environments";
const GOALS: &str = "/apis/planspec.io/v1alpha1/namespaces/default/goals";
const MARK: &str = "setpoint.dev/protected";

fn definition(name: &str) -> String {
    format!("{DEFINITIONS}/{name}")
}

fn environment(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "setpoint.dev/v1alpha1", "kind": "Environment", "metadata": {"name": name}, "spec": spec})
}

fn goal(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "planspec.io/v1alpha1", "kind": "Goal", "metadata": {"name": name}, "spec": spec})
}

#[tokio::test]
async fn every_kind_of_ours_is_served_from_the_start() {
    let api = Api::new().await;
    for crd in setpoint_api::crds::all() {
        let (group, plural) = (&crd.spec.group, &crd.spec.names.plural);
        let list = api.get(format!("/apis/{group}/v1alpha1/{plural}")).await.expect(200);
        assert_eq!(list["kind"], format!("{}List", crd.spec.names.kind));
        let conditions =
            api.get(definition(&format!("{plural}.{group}"))).await.expect(200)["status"]["conditions"].clone();
        let established =
            conditions.as_array().into_iter().flatten().any(|c| c["type"] == "Established" && c["status"] == "True");
        assert!(established, "{plural}: {conditions}");
    }
    api.post(ENVIRONMENTS, environment("lab", json!({"deployer": {"name": "process"}}))).await.expect(201);
    let table = api.get(ENVIRONMENTS).accept(TABLE).await.expect(200);
    assert_eq!(table["rows"][0]["cells"][0], "lab");
}

#[tokio::test]
async fn a_start_that_finds_them_as_they_should_be_writes_nothing() {
    let api = Api::new().await;
    let before = api.store.revision();
    api.server.stop();
    let again = api.reopened().await;
    assert_eq!(again.store.revision(), before);
    again.get(ENVIRONMENTS).await.expect(200);
}

#[tokio::test]
async fn a_start_sets_right_what_is_ours_and_keeps_what_is_not() {
    let api = Api::new().await;
    let path = definition("environments.setpoint.dev");
    let ours = api.get(&path).await.expect(200)["spec"].clone();
    let meddling = json!([
        {"op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/description", "value": "something else"},
        {"op": "remove", "path": "/spec/names/shortNames"},
        {"op": "add", "path": "/metadata/labels", "value": {"team": "platform"}},
    ]);
    let meddled = api.json_patch(&path, meddling).await.expect(200);
    assert_ne!(meddled["spec"], ours);
    api.server.stop();
    let again = api.reopened().await;
    let upgraded = again.get(&path).await.expect(200);
    assert_eq!(upgraded["spec"], ours, "what is ours is as before");
    assert_eq!(upgraded["metadata"]["labels"], json!({"team": "platform"}), "what others added stays");
    assert_eq!(upgraded["status"]["acceptedNames"]["shortNames"], ours["names"]["shortNames"]);
}

#[tokio::test]
async fn none_is_deleted_by_accident() {
    let api = Api::new().await;
    api.post(ENVIRONMENTS, environment("lab", json!({"deployer": {"name": "process"}}))).await.expect(201);
    let path = definition("environments.setpoint.dev");
    let before = api.store.revision();
    let remedy = "kubectl annotate customresourcedefinitions.apiextensions.k8s.io environments.setpoint.dev setpoint.dev/protected-";
    api.delete(&path).await.refused(403, "Forbidden", &["environments.setpoint.dev", "protected", remedy]);
    api.delete_with(&path, json!({"propagationPolicy": "Foreground"})).await.refused(403, "Forbidden", &["protected"]);
    api.delete(format!("{path}?dryRun=All")).await.refused(403, "Forbidden", &["protected"]);
    api.delete(DEFINITIONS).await.refused(403, "Forbidden", &["protected"]);
    assert_eq!(api.store.revision(), before, "nothing was written");

    api.merge_patch(&path, json!({"metadata": {"annotations": {MARK: null}}})).await.expect(200);
    api.delete(&path).await.expect(200);
    api.eventually(&path, |answer| answer.status == 404).await;
    api.server.stop();
    let again = api.reopened().await;
    assert!(again.names(ENVIRONMENTS).await.is_empty(), "the next start brings the kind back, without its objects");
    again.delete(&path).await.refused(403, "Forbidden", &["protected"]);
}

#[tokio::test]
async fn unknown_fields_are_refused_in_our_group_and_told_in_planspecs() {
    let api = Api::new().await;
    let misspelt = || environment("lab", json!({"deployer": {"name": "process"}, "gaurdrails": {}}));
    let unknown = r#"unknown field \"spec.gaurdrails\""#;
    let words = ["strict decoding error", "unknown field", "spec.gaurdrails"];
    api.post(ENVIRONMENTS, misspelt()).await.refused(400, "BadRequest", &words);
    api.get(format!("{ENVIRONMENTS}/lab")).await.expect(404);
    let warned = api.post(format!("{ENVIRONMENTS}?fieldValidation=Warn"), misspelt()).await.expect(201);
    assert!(warned.warnings()[0].contains(unknown), "{:?}", warned.warnings());
    let patch = json!({"spec": {"guardrials": {}}});
    api.merge_patch(format!("{ENVIRONMENTS}/lab"), patch.clone()).await.refused(422, "Invalid", &["spec.guardrials"]);
    let ignored = api.merge_patch(format!("{ENVIRONMENTS}/lab?fieldValidation=Ignore"), patch).await.expect(200);
    assert!(ignored.warnings().is_empty());

    let published = || goal("fast", json!({"description": "be fast", "owner": "somebody"}));
    let warned = api.post(GOALS, published()).await.expect(201);
    assert!(warned.warnings()[0].contains("spec.owner"), "{:?}", warned.warnings());
    let strict = api.post(format!("{GOALS}?fieldValidation=Strict"), published()).await;
    strict.refused(400, "BadRequest", &["spec.owner"]);
}

#[tokio::test]
async fn rules_that_no_schema_says_hold_too() {
    let api = Api::new().await;
    let rule = json!({"class": "Destructive", "approvals": 1, "signature": true, "roles": ["operator"]});
    let key = json!({"publicKey": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJc6gfxDOHvzBlnH8pB3wXbZ4rTLUCoqyXzzZKM0bRAp", "principal": "ana", "role": "viewer"});
    let spec = json!({"deployer": {"name": "process"}, "approval": {"rules": [rule], "keys": [key]}});
    let refused = api.post(ENVIRONMENTS, environment("lab", spec)).await;
    let refused = refused.refused(422, "Invalid", &["no key has this role"]);
    assert!(refused.fields().contains("spec.approval.rules[0].roles[0]"), "{:?}", refused.fields());
    api.get(format!("{ENVIRONMENTS}/lab")).await.expect(404);
}

#[tokio::test]
async fn a_definition_from_a_newer_binary_is_served_as_it_is() {
    let api = Api::new().await;
    let path = definition("environments.setpoint.dev");
    let mut versions = api.get(&path).await.expect(200)["spec"]["versions"].clone();
    let mut newer = versions[0].clone();
    newer["name"] = json!("v1beta1");
    versions[0]["storage"] = json!(false);
    versions.as_array_mut().expect("a list").push(newer);
    api.merge_patch(&path, json!({"spec": {"versions": versions}})).await.expect(200);
    let stored = environment("lab", json!({"deployer": {"name": "process"}}));
    api.post(ENVIRONMENTS, stored).await.expect(201);
    api.server.stop();
    let again = api.reopened().await;
    assert_eq!(again.names("/apis/setpoint.dev/v1beta1/environments").await, ["lab"], "nothing is lost by going back");
    assert_eq!(again.names(ENVIRONMENTS).await, ["lab"]);
}
