//! The variables of a container, from wherever its Pod says they come.

use k8s_openapi::api::core::v1::{Container, EnvVarSource, Pod};
use setpoint_api::names;

use super::content::Variables;
use super::expansion::expand;
use super::fields::{self, NodeFacts};
use super::references::{Found, ReferenceError};

/// The variables of a container, and the names of those that were left out because no program can be given them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environment {
    pub variables: Variables,
    pub skipped: Vec<String>,
}

/// Resolves the variables of a container. What `envFrom` names comes first, then `env` in its order, where a value can
/// refer to any variable that is set before it; a later one replaces an earlier one of its name.
pub fn resolve(
    pod: &Pod,
    container: &Container,
    found: &Found,
    node: &NodeFacts,
) -> Result<Environment, ReferenceError> {
    let mut environment = Environment::default();
    for source in container.env_from.iter().flatten() {
        let prefix = source.prefix.as_deref().unwrap_or_default();
        if let Some(reference) = &source.config_map_ref {
            let map = found.config_map(&reference.name, reference.optional)?;
            for (key, value) in map.iter().flat_map(|map| map.data.iter().flatten()) {
                environment.set_named(&format!("{prefix}{key}"), value.clone());
            }
        } else if let Some(reference) = &source.secret_ref {
            let secret = found.secret(&reference.name, reference.optional)?;
            for (key, value) in secret.iter().flat_map(|secret| secret.data.iter().flatten()) {
                let name = format!("{prefix}{key}");
                environment.set_named(&name, text(&name, &value.0)?);
            }
        }
    }
    for variable in container.env.iter().flatten() {
        let value = match (variable.value.as_deref().filter(|value| !value.is_empty()), &variable.value_from) {
            (Some(value), _) => Some(expand(value, |name| environment.variables.get(name))),
            (None, Some(source)) => from_source(&variable.name, source, pod, container, found, node)?,
            (None, None) => Some(String::new()),
        };
        if let Some(value) = value {
            environment.variables.set(&variable.name, value);
        }
    }
    let unusable = environment.variables.0.iter().find(|(_, value)| value.contains('\0'));
    match unusable {
        Some((name, _)) => Err(not_text(name)),
        None => Ok(environment),
    }
}

impl Environment {
    /// Sets a variable whose name comes from outside the Pod.
    fn set_named(&mut self, name: &str, value: String) {
        if names::relaxed_env_var_name(name).is_empty() {
            self.variables.set(name, value);
        } else {
            self.skipped.push(name.to_owned());
        }
    }
}

/// The value that a source gives; `None` if it is not there and need not be.
fn from_source(
    variable: &str,
    source: &EnvVarSource,
    pod: &Pod,
    container: &Container,
    found: &Found,
    node: &NodeFacts,
) -> Result<Option<String>, ReferenceError> {
    let namespace = || pod.metadata.namespace.clone().unwrap_or_default();
    if let Some(selector) = &source.field_ref {
        return fields::field(selector, pod, node).map(Some);
    }
    if let Some(selector) = &source.resource_field_ref {
        return fields::resource(selector, pod, Some(container), node).map(Some);
    }
    if let Some(selector) = &source.config_map_key_ref {
        let Some(map) = found.config_map(&selector.name, selector.optional)? else { return Ok(None) };
        let value = map.data.iter().flatten().find(|(key, _)| **key == selector.key).map(|(_, value)| value.clone());
        let (name, key) = (selector.name.clone(), selector.key.clone());
        return required(
            value,
            selector.optional,
            ReferenceError::NoConfigMapKey { namespace: namespace(), name, key },
        );
    }
    if let Some(selector) = &source.secret_key_ref {
        let Some(secret) = found.secret(&selector.name, selector.optional)? else { return Ok(None) };
        let value = secret.data.iter().flatten().find(|(key, _)| **key == selector.key);
        let value = value.map(|(_, value)| text(variable, &value.0)).transpose()?;
        let (name, key) = (selector.name.clone(), selector.key.clone());
        return required(value, selector.optional, ReferenceError::NoSecretKey { namespace: namespace(), name, key });
    }
    let message = "this source of a variable is not supported here".to_owned();
    Err(ReferenceError::Field { field: format!("env[{variable}].valueFrom"), message })
}

fn required<T>(value: Option<T>, optional: Option<bool>, missing: ReferenceError) -> Result<Option<T>, ReferenceError> {
    if value.is_none() && !optional.unwrap_or(false) { Err(missing) } else { Ok(value) }
}

fn text(name: &str, bytes: &[u8]) -> Result<String, ReferenceError> {
    std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| not_text(name))
}

fn not_text(name: &str) -> ReferenceError {
    let message = "the value is not text, which a variable has to be".to_owned();
    ReferenceError::Field { field: format!("env[{name}]"), message }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::pod::fixtures::{node, object, pod};

    fn found() -> Found {
        let maps = json!({"settings": {"data": {"COLOR": "blue", "a.b": "dots", "with=sign": "no"}}});
        let secrets =
            json!({"login": {"data": {"password": "aHVudGVyMg==", "binary": "/w=="}}, "zero": {"data": {"z": "AA=="}}});
        Found { config_maps: object(maps), secrets: object(secrets), ..Found::default() }
    }

    fn resolved(container: Value) -> Result<Environment, String> {
        let pod = pod(json!({"spec": {"containers": [container]}}));
        let container = pod.spec.as_ref().map(|spec| spec.containers[0].clone()).unwrap();
        resolve(&pod, &container, &found(), &node()).map_err(|error| error.to_string())
    }

    #[test]
    fn variables_come_from_where_the_pod_says() {
        let rows = [
            ("a value", json!({"env": [{"name": "A", "value": "1"}]}), "A=1"),
            ("no value", json!({"env": [{"name": "A"}]}), "A="),
            ("in their order", json!({"env": [{"name": "B", "value": "1"}, {"name": "A", "value": "2"}]}), "B=1 A=2"),
            (
                "an earlier variable",
                json!({"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)$(C)"}, {"name": "C", "value": "3"}]}),
                "A=1 B=1$(C) C=3",
            ),
            (
                "a later one replaces",
                json!({"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "$(A)2"}]}),
                "A=12",
            ),
            (
                "all of a ConfigMap but what cannot be a name",
                json!({"envFrom": [{"configMapRef": {"name": "settings"}}]}),
                "COLOR=blue a.b=dots !with=sign",
            ),
            (
                "with a prefix",
                json!({"envFrom": [{"prefix": "P_", "configMapRef": {"name": "settings"}}]}),
                "P_COLOR=blue P_a.b=dots !P_with=sign",
            ),
            (
                "env over envFrom, which it can refer to",
                json!({"envFrom": [{"configMapRef": {"name": "settings"}}], "env": [{"name": "COLOR", "value": "dark $(COLOR)"}]}),
                "COLOR=dark blue a.b=dots !with=sign",
            ),
            ("an optional ConfigMap", json!({"envFrom": [{"configMapRef": {"name": "no", "optional": true}}]}), ""),
            ("an optional Secret", json!({"envFrom": [{"secretRef": {"name": "no", "optional": true}}]}), ""),
            (
                "a key of a ConfigMap",
                json!({"env": [{"name": "C", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "COLOR"}}}]}),
                "C=blue",
            ),
            (
                "a key of a Secret",
                json!({"env": [{"name": "P", "valueFrom": {"secretKeyRef": {"name": "login", "key": "password"}}}]}),
                "P=hunter2",
            ),
            (
                "an optional key",
                json!({"env": [{"name": "P", "valueFrom": {"secretKeyRef": {"name": "login", "key": "no", "optional": true}}}]}),
                "",
            ),
            (
                "an optional key of what is not there",
                json!({"env": [{"name": "P", "valueFrom": {"configMapKeyRef": {"name": "no", "key": "no", "optional": true}}}]}),
                "",
            ),
            (
                "the Pod's own fields and its container's resources",
                json!({
                    "resources": {"limits": {"cpu": "2"}},
                    "env": [
                        {"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                        {"name": "L", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
                    ],
                }),
                "N=web L=2",
            ),
        ];
        for (name, container, expected) in rows {
            let Environment { variables, skipped } = resolved(container).expect(name);
            let variables = variables.0.iter().map(|(name, value)| format!("{name}={value}"));
            let skipped = skipped.iter().map(|name| format!("!{name}"));
            assert_eq!(variables.chain(skipped).collect::<Vec<_>>().join(" "), expected, "{name}");
        }
    }

    #[test]
    fn a_reference_that_leads_nowhere_is_named() {
        let key =
            |kind: &str, name: &str| json!({"env": [{"name": "A", "valueFrom": {kind: {"name": name, "key": "k"}}}]});
        let rows = [
            ("a ConfigMap", json!({"envFrom": [{"configMapRef": {"name": "no"}}]}), "configmap \"no\" not found"),
            ("a Secret", json!({"envFrom": [{"secretRef": {"name": "no"}}]}), "secret \"no\" not found"),
            ("of a key", key("configMapKeyRef", "no"), "configmap \"no\" not found"),
            ("a key", key("configMapKeyRef", "settings"), "couldn't find key k in ConfigMap shop/settings"),
            ("a key of a Secret", key("secretKeyRef", "login"), "couldn't find key k in Secret shop/login"),
            (
                "what is not text",
                json!({"envFrom": [{"secretRef": {"name": "login"}}]}),
                "env[binary]: the value is not text, which a variable has to be",
            ),
            (
                "what no program can be given",
                json!({"envFrom": [{"secretRef": {"name": "zero"}}]}),
                "env[z]: the value is not text, which a variable has to be",
            ),
            (
                "another source",
                json!({"env": [{"name": "A", "valueFrom": {}}]}),
                "env[A].valueFrom: this source of a variable is not supported here",
            ),
        ];
        for (name, container, expected) in rows {
            assert_eq!(resolved(container), Err(expected.to_owned()), "{name}");
        }
    }

    #[test]
    fn values_are_shown_to_nobody() {
        let container =
            json!({"env": [{"name": "P", "valueFrom": {"secretKeyRef": {"name": "login", "key": "password"}}}]});
        let shown = format!("{:?} {:?}", resolved(container), found());
        assert!(shown.contains("\"P\"") && !shown.contains("hunter2") && !shown.contains("aHVu"), "{shown}");
    }
}
