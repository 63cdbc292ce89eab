//! The table of facts about lists and patches, compared with the schemas in PyPI's `kubernetes-validate`.
//!
//! The package's folder is named by `SETPOINT_KUBERNETES_VALIDATE`, or else asked of Python. Without the package the test
//! fails: it is the only proof that the table is right.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use setpoint_apiserver::schema::{Schemas, Shape, Type};
use setpoint_apiserver::schema_facts::{self, Fact, List, Patch};

const FOLDER: &str = "SETPOINT_KUBERNETES_VALIDATE";
const VERSION: &str = "v1.36.0-local";

#[test]
fn facts_are_those_of_kubernetes() {
    let kubernetes = kubernetes_definitions();
    let schemas = Schemas::built_in();
    let mut differences = Vec::new();
    for name in schemas.names() {
        let schema = schemas.get(name).expect("a name of the registry is in the registry");
        match kubernetes.get(name) {
            Some(definition) => compare(schema_facts::short_name(name), schema.root(), definition, &mut differences),
            None => differences.push(format!("{name} is no type of Kubernetes")),
        }
    }
    let types: BTreeSet<&str> = schemas.names().map(schema_facts::short_name).collect();
    let facts = schema_facts::facts().iter().map(|fact| fact.type_name);
    let maps = schema_facts::atomic_maps().iter().map(|(type_name, _)| *type_name);
    for type_name in facts.chain(maps).chain(schema_facts::atomic_types().iter().copied()) {
        if !types.contains(type_name) {
            differences.push(format!("{type_name} has facts, but nothing we serve has that type"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

fn compare(type_name: &str, ours: Type<'_>, kubernetes: &Value, differences: &mut Vec<String>) {
    let properties = kubernetes["properties"].as_object().expect("an object type has properties");
    let names: BTreeSet<&str> = properties.keys().map(String::as_str).collect();
    let our_names: BTreeSet<&str> = ours.fields().iter().map(|field| &*field.name).collect();
    for name in names.symmetric_difference(&our_names) {
        differences.push(format!("{type_name}.{name}: only one of both has this field"));
    }
    let atomic = kubernetes["x-kubernetes-map-type"] == "atomic";
    if atomic != schema_facts::is_atomic_type(type_name) {
        differences.push(format!("{type_name}: atomic is {atomic}"));
    }
    for field in ours.fields() {
        let Some(theirs) = properties.get(&*field.name) else { continue };
        let is_list = matches!(field.shape, Shape::List(_));
        let expected = Facts::of_kubernetes(theirs, is_list);
        let found = Facts::of_table(type_name, &field.name, is_list);
        if expected != found {
            differences.push(format!("{type_name}.{}: expected {expected:?}, found {found:?}", field.name));
        }
    }
}

/// Everything the table can say about a field.
#[derive(Debug, PartialEq)]
struct Facts {
    list_type: String,
    keys: Vec<String>,
    merge_key: String,
    strategy: String,
    atomic_map: bool,
}

impl Facts {
    fn of_kubernetes(property: &Value, is_list: bool) -> Facts {
        let text = |name: &str| property[name].as_str().unwrap_or_default().to_owned();
        let keys = property["x-kubernetes-list-map-keys"].as_array().into_iter().flatten();
        let list_type = text("x-kubernetes-list-type");
        Facts {
            list_type: if is_list && list_type.is_empty() { "atomic".to_owned() } else { list_type },
            keys: keys.filter_map(Value::as_str).map(String::from).collect(),
            merge_key: text("x-kubernetes-patch-merge-key"),
            strategy: text("x-kubernetes-patch-strategy"),
            atomic_map: property["x-kubernetes-map-type"] == "atomic",
        }
    }

    fn of_table(type_name: &str, field: &str, is_list: bool) -> Facts {
        let (list, patch) = schema_facts::fact(type_name, field)
            .map_or((List::Atomic, Patch::default()), |Fact { list, patch, .. }| (*list, *patch));
        let (list_type, keys): (&str, &[&str]) = match list {
            List::Atomic if is_list => ("atomic", &[]),
            List::Atomic => ("", &[]),
            List::Set => ("set", &[]),
            List::Map(keys) => ("map", keys),
        };
        Facts {
            list_type: list_type.to_owned(),
            keys: keys.iter().map(ToString::to_string).collect(),
            merge_key: patch.merge_key.unwrap_or_default().to_owned(),
            strategy: patch.strategy().unwrap_or_default().to_owned(),
            atomic_map: schema_facts::is_atomic_map(type_name, field),
        }
    }
}

fn kubernetes_definitions() -> Value {
    let path = package_folder().join("kubernetes-json-schema").join(VERSION).join("_definitions.json");
    let text = std::fs::read(&path).unwrap_or_else(|error| {
        panic!("{}: {error}; `pip install kubernetes-validate` and name its folder in {FOLDER}", path.display())
    });
    let mut document: Value = serde_json::from_slice(&text).expect("the definitions are JSON");
    document["$defs"].take()
}

fn package_folder() -> PathBuf {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return folder.into();
    }
    let ask = "import importlib.util as u; print(u.find_spec('kubernetes_validate').submodule_search_locations[0])";
    let answer = Command::new("python3").args(["-c", ask]).output().expect("python3 runs");
    assert!(
        answer.status.success(),
        "the Python package kubernetes-validate is not installed: `pip install kubernetes-validate`, or name its folder in {FOLDER}"
    );
    String::from_utf8(answer.stdout).expect("a path is text").trim().into()
}
