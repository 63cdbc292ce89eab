//! Which fields a document may have, and what is said of the others.

use serde_json::{Value, json};
use setpoint_api::documents::{DocumentError, FieldValidation, decode};
use setpoint_api::machine::Machine;

fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).expect("YAML")
}

#[test]
fn unknown_fields_are_refused_with_their_path() {
    let machine =
        |spec: &str| format!("apiVersion: setpoint.dev/v1alpha1\nkind: Machine\nmetadata: {{name: a}}\nspec: {spec}");
    let environment = |spec: &str| {
        format!("apiVersion: setpoint.dev/v1alpha1\nkind: Environment\nmetadata: {{name: a}}\nspec: {spec}")
    };
    let rows: Vec<(&str, String, &str)> = vec![
        ("a sound document", machine("{environment: rack, env: [{name: A, value: b}]}"), ""),
        (
            "a misspelt guardrail does not pass in silence",
            environment("{deployer: {name: x}, gaurdrails: {maxGpus: 1}}"),
            r#"unknown field "spec.gaurdrails" (did you mean "guardrails"?)"#,
        ),
        (
            "a field in other case is not that field",
            machine("{environment: rack, providerID: '101'}"),
            r#"unknown field "spec.providerID" (did you mean "providerId"?)"#,
        ),
        (
            "a field deep in a list",
            machine("{environment: rack, env: [{name: A}, {name: B, valeu: c}]}"),
            r#"unknown field "spec.env[1].valeu" (did you mean "value"?)"#,
        ),
        ("a field like no other", machine("{environment: rack, healthCheck: {}}"), r#"unknown field "spec.healthCheck""#),
        (
            "a field one level too high",
            "apiVersion: setpoint.dev/v1alpha1\nkind: Machine\nmetadata: {name: a}\nspec: {environment: r}\ncores: 2".into(),
            r#"unknown field "cores""#,
        ),
        (
            "a field of metadata",
            "apiVersion: setpoint.dev/v1alpha1\nkind: Machine\nmetadata: {name: a, lables: {}}\nspec: {environment: r}".into(),
            r#"unknown field "metadata.lables" (did you mean "labels"?)"#,
        ),
        ("what only the deployer knows", environment("{deployer: {name: x}, config: {anything: {goes: [1]}}}"), ""),
        ("parameters have any name", machine("{environment: rack, parameters: {whatever: '1'}}"), ""),
        (
            "whole objects inside keep what they have",
            "apiVersion: setpoint.dev/v1alpha1\nkind: ChangeSet\nmetadata: {name: a}\nspec: {environment: r, mode: Preview, \
             requestedBy: a, objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: x}, data: {k: v}}]}"
                .into(),
            "",
        ),
        (
            "all of them are said",
            machine("{enviroment: rack, memroy: 1Gi, disc: 1Gi}"),
            "unknown field \"spec.disc\" (did you mean \"disk\"?)\n\
             unknown field \"spec.enviroment\" (did you mean \"environment\"?)\n\
             unknown field \"spec.memroy\" (did you mean \"memory\"?)",
        ),
    ];
    for (name, text, says) in rows {
        let told = decode(yaml(&text)).err().map(|error| error.to_string()).unwrap_or_default();
        // The order of a document's members is its reader's: what is said is compared line by line.
        let mut told: Vec<&str> = told.lines().collect();
        told.sort_unstable();
        assert_eq!(told.join("\n"), says, "{name}");
    }
}

#[test]
fn a_document_says_what_it_is() {
    let rows = [
        ("a list is no document", json!([]), "must be an object with apiVersion and kind"),
        ("nothing is no document", Value::Null, "must be an object with apiVersion and kind"),
        ("no apiVersion", json!({"kind": "Machine"}), "apiVersion must be set"),
        ("no kind", json!({"apiVersion": "setpoint.dev/v1alpha1"}), "kind must be set"),
        (
            "a kind that is misspelt",
            json!({"apiVersion": "setpoint.dev/v1alpha1", "kind": "Machien"}),
            r#"no kind "Machien" in "setpoint.dev/v1alpha1" (did you mean "Machine"?)"#,
        ),
        (
            "a kind in other case is another kind",
            json!({"apiVersion": "setpoint.dev/v1alpha1", "kind": "machine"}),
            r#"no kind "machine" in "setpoint.dev/v1alpha1" (did you mean "Machine"?)"#,
        ),
        (
            "a version that does not exist",
            json!({"apiVersion": "setpoint.dev/v2", "kind": "Machine"}),
            r#"no kind "Machine" in "setpoint.dev/v2""#,
        ),
    ];
    for (name, document, says) in rows {
        assert_eq!(decode(document).map_err(|error| error.to_string()), Err(says.to_owned()), "{name}");
    }
}

#[test]
fn our_kinds_are_strict_and_published_ones_are_warned_of() {
    assert_eq!(FieldValidation::of_group("setpoint.dev"), FieldValidation::Strict);
    assert_eq!(FieldValidation::of_group("planspec.io"), FieldValidation::Warn);
}

#[test]
fn a_key_that_comes_twice_is_refused_when_it_is_read() {
    assert!(serde_saphyr::from_str::<Value>("spec: {cores: 1, cores: 2}").is_err());
}

#[test]
fn a_sound_document_becomes_its_kind() {
    let text =
        "apiVersion: setpoint.dev/v1alpha1\nkind: Machine\nmetadata: {name: a}\nspec: {environment: rack, cores: 2}";
    let machine: Machine = decode(yaml(text)).unwrap().into_kind().unwrap();
    assert_eq!((machine.metadata.name.as_deref(), machine.spec.cores), (Some("a"), Some(2)));
}

#[test]
fn an_error_carries_what_it_found() {
    let document = json!({"apiVersion": "setpoint.dev/v1alpha1", "kind": "Machine", "spec": {"core": 1}});
    let Err(DocumentError::UnknownFields(fields)) = decode(document) else { panic!("an unknown field passed") };
    assert_eq!((fields[0].path.as_str(), fields[0].suggestion.as_deref()), ("spec.core", Some("cores")));
}
