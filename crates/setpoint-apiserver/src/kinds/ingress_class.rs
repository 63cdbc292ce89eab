//! IngressClasses: who serves the Ingresses of a class.

use jiff::Timestamp;
use serde_json::Value;

use crate::columns;
use crate::kind::{Behaviour, Column, Part};
use setpoint_api::field::{Errors, Node};
use setpoint_api::names;

use super::defaults::{fill, section};
use super::domain_path;
use super::endpoints::report;
use super::immutable::validate_immutable;
use super::pod_spec::within;
use super::typed_reference;

#[derive(Debug)]
pub struct IngressClass;

const DEFAULT_ANNOTATION: &str = "ingressclass.kubernetes.io/is-default-class";
const CONTROLLER_MAX: usize = 250;

const COLUMNS: [Column; 4] = [
    columns::NAME,
    columns::text("Controller", "Who serves the Ingresses of this class."),
    columns::text("Parameters", "The object that has more to say about the class."),
    columns::AGE,
];

impl Behaviour for IngressClass {
    fn default(&self, object: &mut Value) {
        within(section(object, "spec"), "parameters", |parameters| fill(parameters, "scope", "Cluster"));
    }

    fn validate(&self, object: Node<'_, '_>, errors: &mut Errors) {
        let spec = object.field("spec");
        let controller = spec.field("controller");
        if controller.str().len() > CONTROLLER_MAX {
            errors.too_long(&controller.path, CONTROLLER_MAX);
        }
        domain_path::validate(controller, errors);
        let parameters = spec.field("parameters");
        if parameters.is_set() {
            validate_parameters(parameters, errors);
        }
    }

    fn validate_update(&self, object: Node<'_, '_>, old: &Value, _part: Part, errors: &mut Errors) {
        validate_immutable(object.field("spec").field("controller"), &old["spec"]["controller"], errors);
        self.validate(object, errors);
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn left_undone(&self) -> Option<&'static str> {
        Some("no controller serves the Ingresses of this class")
    }

    fn columns(&self) -> &[Column] {
        &COLUMNS
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let is_default = object["metadata"]["annotations"][DEFAULT_ANNOTATION] == "true";
        vec![
            if is_default { format!("{name} (default)") } else { name.to_owned() }.into(),
            object["spec"]["controller"].as_str().unwrap_or_default().into(),
            parameters_of(object).into(),
            columns::age_cell(object, now),
        ]
    }
}

fn validate_parameters(parameters: Node<'_, '_>, errors: &mut Errors) {
    typed_reference::validate(parameters, errors);
    let (scope, namespace) = (parameters.field("scope"), parameters.field("namespace"));
    match scope.str() {
        "Namespace" if !namespace.is_set() => {
            errors.required(&namespace.path, "`parameters.scope` is set to 'Namespace'");
        }
        "Namespace" => report(namespace, names::dns1123_label, errors),
        "Cluster" if namespace.is_set() => {
            errors.forbidden(&namespace.path, "`parameters.scope` is set to 'Cluster'");
        }
        "Cluster" => {}
        other => errors.unsupported(&scope.path, other, &["Cluster", "Namespace"]),
    }
}

fn parameters_of(object: &Value) -> String {
    let parameters = &object["spec"]["parameters"];
    let text = |field: &str| parameters[field].as_str().unwrap_or_default();
    match (parameters.is_object(), parameters["apiGroup"].as_str()) {
        (false, _) => columns::NONE.to_owned(),
        (true, Some(group)) => format!("{}.{group}/{}", text("kind"), text("name")),
        (true, None) => format!("{}/{}", text("kind"), text("name")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kinds::probe::{messages, update_messages};

    fn class(parameters: Value) -> Value {
        let mut object = json!({"metadata": {"name": "web"}, "spec": {"controller": "example.com/gate"}});
        if !parameters.is_null() {
            object["spec"]["parameters"] = parameters;
        }
        object
    }

    #[test]
    fn parameters_are_checked() {
        let parameters = |more: Value| {
            let mut parameters = json!({"apiGroup": "example.com", "kind": "Gate", "name": "main"});
            parameters.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
            class(parameters)
        };
        let rows = [
            ("none", class(Value::Null), vec![]),
            ("of the cluster", parameters(json!({})), vec![]),
            ("of a namespace", parameters(json!({"scope": "Namespace", "namespace": "web"})), vec![]),
            (
                "of no namespace",
                parameters(json!({"scope": "Namespace"})),
                vec!["spec.parameters.namespace: Required value: `parameters.scope` is set to 'Namespace'"],
            ),
            (
                "of the cluster in a namespace",
                parameters(json!({"namespace": "web"})),
                vec!["spec.parameters.namespace: Forbidden: `parameters.scope` is set to 'Cluster'"],
            ),
            (
                "of the world",
                parameters(json!({"scope": "World"})),
                vec![r#"spec.parameters.scope: Unsupported value: "World": supported values: "Cluster", "Namespace""#],
            ),
            (
                "of no kind and no name",
                class(json!({})),
                vec!["spec.parameters.kind: Required value", "spec.parameters.name: Required value"],
            ),
        ];
        for (name, object, expected) in rows {
            assert_eq!(messages(&IngressClass, &object), expected, "{name}");
        }
        let nobody = json!({"spec": {"controller": "gate"}});
        assert_eq!(
            messages(&IngressClass, &nobody),
            [r#"spec.controller: Invalid value: "gate": must be a domain-prefixed path (such as "acme.io/foo")"#]
        );
    }

    #[test]
    fn the_controller_stays() {
        let (old, mut new) = (class(Value::Null), class(Value::Null));
        new["spec"]["controller"] = json!("example.com/other");
        assert_eq!(
            update_messages(&IngressClass, &new, &old, Part::Main),
            [r#"spec.controller: Invalid value: "example.com/other": field is immutable"#]
        );
    }

    #[test]
    fn the_default_class_is_marked() {
        let mut object = class(json!({"apiGroup": "example.com", "kind": "Gate", "name": "main"}));
        object["metadata"]["annotations"] = json!({DEFAULT_ANNOTATION: "true"});
        let cells = IngressClass.cells(&object, Timestamp::UNIX_EPOCH);
        assert_eq!(cells[..3], [json!("web (default)"), json!("example.com/gate"), json!("Gate.example.com/main")]);
    }
}
