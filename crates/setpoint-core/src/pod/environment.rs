//! The variables of a Pod's containers, from wherever the Pod says they come.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, EnvVarSource, Pod};
use setpoint_api::names;
use thiserror::Error;

use super::arguments;
use super::content::Variables;
use super::expansion::expand;
use super::fields::{self, NodeFacts};
use super::limits::{LimitError, PodBytes, ProcessBytes, env_field, room_for_value, shortened, variable_bytes};
use super::references::{Found, ReferenceError, containers};

/// How many names that cannot be variables are told, and how much of each.
const MAX_SKIPPED: usize = 16;
const SKIPPED_BYTES: usize = 64;

/// The variables of a Pod's containers by the name of each, and the names of those that were left out because no program
/// can be given them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environment {
    pub variables: BTreeMap<String, Variables>,
    pub skipped: Vec<String>,
}

/// Why a container cannot be given its variables or its command.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("container {container:?}: {error}")]
pub struct ContainerError {
    pub container: String,
    #[source]
    pub error: ReferenceError,
}

/// Resolves the variables of all containers, and proves that each can be started with them: that its command line is not
/// too long either.
pub fn resolve(pod: &Pod, found: &Found, node: &NodeFacts) -> Result<Environment, ContainerError> {
    let mut environment = Environment::default();
    let mut pod_bytes = PodBytes::default();
    for container in pod.spec.iter().flat_map(containers) {
        let failed = |error| ContainerError { container: container.name.clone(), error };
        let source = Source { pod, container, found, node };
        let mut made = ContainerVariables::new(&mut pod_bytes, &mut environment.skipped);
        made.add_all(source).map_err(failed)?;
        made.check_command(container).map_err(|error| failed(error.into()))?;
        let variables = made.variables;
        environment.variables.insert(container.name.clone(), variables);
    }
    Ok(environment)
}

/// Where the variables of a container come from.
#[derive(Clone, Copy)]
struct Source<'a> {
    pod: &'a Pod,
    container: &'a Container,
    found: &'a Found,
    node: &'a NodeFacts,
}

/// The variables of one container, as they come together.
struct ContainerVariables<'a> {
    variables: Variables,
    /// Where each stands.
    places: BTreeMap<String, usize>,
    bytes: ProcessBytes,
    pod_bytes: &'a mut PodBytes,
    skipped: &'a mut Vec<String>,
}

impl<'a> ContainerVariables<'a> {
    fn new(pod_bytes: &'a mut PodBytes, skipped: &'a mut Vec<String>) -> ContainerVariables<'a> {
        let (variables, places, bytes) = (Variables::default(), BTreeMap::new(), ProcessBytes::with_reserve());
        ContainerVariables { variables, places, bytes, pod_bytes, skipped }
    }

    /// What `envFrom` names comes first, then `env` in its order, where a value can refer to any variable that is set before
    /// it; a later one replaces an earlier one of its name.
    fn add_all(&mut self, source: Source<'_>) -> Result<(), ReferenceError> {
        let Source { container, found, .. } = source;
        for source in container.env_from.iter().flatten() {
            let prefix = source.prefix.as_deref().unwrap_or_default();
            if let Some(reference) = &source.config_map_ref {
                let map = found.config_map(&reference.name, reference.optional)?;
                for (key, value) in map.iter().flat_map(|map| map.data.iter().flatten()) {
                    self.set_named(&format!("{prefix}{key}"), value.as_bytes())?;
                }
            } else if let Some(reference) = &source.secret_ref {
                let secret = found.secret(&reference.name, reference.optional)?;
                for (key, value) in secret.iter().flat_map(|secret| secret.data.iter().flatten()) {
                    self.set_named(&format!("{prefix}{key}"), &value.0)?;
                }
            }
        }
        for variable in container.env.iter().flatten() {
            let name = &variable.name;
            let value = match (variable.value.as_deref().filter(|value| !value.is_empty()), &variable.value_from) {
                (Some(value), _) => Some(self.expanded(name, value)?),
                (None, Some(from)) => from_source(name, from, source)?,
                (None, None) => Some(String::new()),
            };
            if let Some(value) = value {
                self.set(name, value)?;
            }
        }
        Ok(())
    }

    fn check_command(&mut self, container: &Container) -> Result<(), LimitError> {
        let (variables, places) = (&self.variables, &self.places);
        let resolved = arguments::resolve(container, &mut self.bytes, |name| get(variables, places, name))?;
        let bytes = resolved.iter().map(String::len).sum();
        self.pod_bytes.add(bytes, || "command".to_owned())
    }

    fn expanded(&self, name: &str, value: &str) -> Result<String, LimitError> {
        let expanded = expand(value, room_for_value(name), |name| get(&self.variables, &self.places, name));
        expanded.ok_or_else(|| LimitError::String { subject: env_field(name) })
    }

    /// Sets a variable whose name comes from outside the Pod.
    fn set_named(&mut self, name: &str, value: &[u8]) -> Result<(), ReferenceError> {
        self.pod_bytes.add(name.len(), || env_field(name))?;
        if names::relaxed_env_var_name(name).is_empty() {
            self.check_length(name, value.len())?;
            return self.set(name, text(name, value)?);
        }
        if self.skipped.len() < MAX_SKIPPED {
            self.skipped.push(shortened(name, SKIPPED_BYTES));
        }
        Ok(())
    }

    /// Sets a variable, in the place where it stood if it was set before.
    fn set(&mut self, name: &str, value: String) -> Result<(), ReferenceError> {
        self.check_length(name, value.len())?;
        if value.contains('\0') {
            return Err(not_text(name));
        }
        let bytes = variable_bytes(name, value.len());
        self.pod_bytes.add(bytes, || env_field(name))?;
        let place = self.places.get(name).copied();
        if let Some((_, known)) = place.and_then(|place| self.variables.0.get(place)) {
            self.bytes.remove(variable_bytes(name, known.len()));
        }
        self.bytes.add(bytes, || env_field(name))?;
        match place.and_then(|place| self.variables.0.get_mut(place)) {
            Some((_, known)) => *known = value,
            None => {
                self.places.insert(name.to_owned(), self.variables.0.len());
                self.variables.0.push((name.to_owned(), value));
            }
        }
        Ok(())
    }

    /// Asked before a value is copied.
    fn check_length(&self, name: &str, value_bytes: usize) -> Result<(), LimitError> {
        match value_bytes > room_for_value(name) {
            true => Err(LimitError::String { subject: env_field(name) }),
            false => Ok(()),
        }
    }
}

fn get<'v>(variables: &'v Variables, places: &BTreeMap<String, usize>, name: &str) -> Option<&'v str> {
    places.get(name).and_then(|place| variables.0.get(*place)).map(|(_, value)| value.as_str())
}

/// The value that a source gives; `None` if it is not there and need not be.
fn from_source(variable: &str, from: &EnvVarSource, source: Source<'_>) -> Result<Option<String>, ReferenceError> {
    let Source { pod, container, found, node } = source;
    let namespace = || pod.metadata.namespace.clone().unwrap_or_default();
    let too_long = || LimitError::String { subject: env_field(variable) };
    if let Some(selector) = &from.field_ref {
        return fields::field(selector, pod, node).map(Some);
    }
    if let Some(selector) = &from.resource_field_ref {
        return fields::resource(selector, pod, Some(container), node).map(Some);
    }
    if let Some(selector) = &from.config_map_key_ref {
        let Some(map) = found.config_map(&selector.name, selector.optional)? else { return Ok(None) };
        let value = map.data.as_ref().and_then(|data| data.get(&selector.key));
        if value.is_some_and(|value| value.len() > room_for_value(variable)) {
            return Err(too_long().into());
        }
        let (name, key) = (selector.name.clone(), selector.key.clone());
        return required(
            value.cloned(),
            selector.optional,
            ReferenceError::NoConfigMapKey { namespace: namespace(), name, key },
        );
    }
    if let Some(selector) = &from.secret_key_ref {
        let Some(secret) = found.secret(&selector.name, selector.optional)? else { return Ok(None) };
        let value = secret.data.as_ref().and_then(|data| data.get(&selector.key));
        if value.is_some_and(|value| value.0.len() > room_for_value(variable)) {
            return Err(too_long().into());
        }
        let value = value.map(|value| text(variable, &value.0)).transpose()?;
        let (name, key) = (selector.name.clone(), selector.key.clone());
        return required(value, selector.optional, ReferenceError::NoSecretKey { namespace: namespace(), name, key });
    }
    let message = "this source of a variable is not supported here".to_owned();
    Err(ReferenceError::Field { field: format!("{}.valueFrom", env_field(variable)), message })
}

fn required<T>(value: Option<T>, optional: Option<bool>, missing: ReferenceError) -> Result<Option<T>, ReferenceError> {
    if value.is_none() && !optional.unwrap_or(false) { Err(missing) } else { Ok(value) }
}

fn text(name: &str, bytes: &[u8]) -> Result<String, ReferenceError> {
    std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| not_text(name))
}

fn not_text(name: &str) -> ReferenceError {
    let message = "the value is not text, which a variable has to be".to_owned();
    ReferenceError::Field { field: env_field(name), message }
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

    fn resolved(mut container: Value) -> Result<(Variables, Vec<String>), String> {
        container["name"] = json!("web");
        let pod = pod(json!({"spec": {"containers": [container]}}));
        let Environment { mut variables, skipped } =
            resolve(&pod, &found(), &node()).map_err(|ContainerError { error, .. }| error.to_string())?;
        Ok((variables.remove("web").unwrap(), skipped))
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
            let (variables, skipped) = resolved(container).expect(name);
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

    /// Values that refer to the value before, each ten times: a thousand bytes become a gigabyte in six steps.
    fn growing(steps: usize) -> Vec<Value> {
        let value = |step: usize| match step {
            0 => "x".repeat(1000),
            step => format!("$(A{})", step - 1).repeat(10),
        };
        (0..=steps).map(|step| json!({"name": format!("A{step}"), "value": value(step)})).collect()
    }

    #[test]
    fn what_grows_too_long_is_refused_by_name() {
        let long = "x".repeat(100_000);
        let many = |count: usize| (0..count).map(|number| json!({"name": format!("V{number}"), "value": long}));
        let rows = [
            ("values within values", json!({"env": growing(8)}), "env[A3]: the value is too long"),
            (
                "a long value",
                json!({"env": [{"name": "A", "value": "x".repeat(131_072)}]}),
                "env[A]: the value is too long",
            ),
            ("much together", json!({"env": many(30).collect::<Vec<_>>()}), "env[V20]: argument list too long"),
            (
                "much in the command",
                json!({"env": many(10).collect::<Vec<_>>(), "command": vec!["$(V0)"; 30]}),
                "command[10]: argument list too long",
            ),
            ("a long argument", json!({"env": growing(2), "args": ["$(A2)$(A2)"]}), "args[0]: the value is too long"),
            (
                "a long name",
                json!({"env": [{"name": "N".repeat(200_000)}]}),
                "env[NNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNN…]: the value is too long",
            ),
        ];
        for (name, container, expected) in rows {
            let error = resolved(container).expect_err(name);
            assert!(error.starts_with(expected) && error.len() < 500, "{name}: {error}");
        }
        let replaced: Vec<Value> = (0..50).map(|_| json!({"name": "A", "value": long})).collect();
        assert!(resolved(json!({"env": replaced})).is_ok(), "what is replaced takes no room in the process");
    }

    #[test]
    fn many_containers_with_the_same_variables_are_refused_as_a_pod() {
        let keys = (0..10).map(|key| (format!("key{key}"), json!("x".repeat(100_000))));
        let map = json!({"big": {"data": keys.collect::<serde_json::Map<_, _>>()}});
        let found = Found { config_maps: object(map), ..Found::default() };
        let resolve_with = |count: usize, prefix: &str| {
            let from = json!([{"prefix": prefix, "configMapRef": {"name": "big"}}]);
            let container = |number| json!({"name": format!("c{number}"), "envFrom": from});
            let pod = pod(json!({"spec": {"containers": (0..count).map(container).collect::<Vec<_>>()}}));
            resolve(&pod, &found, &node()).map(|environment| environment.skipped)
        };
        assert_eq!(resolve_with(8, ""), Ok(Vec::new()));
        let error = resolve_with(1000, "").unwrap_err();
        assert_eq!(error.container, "c8");
        assert!(error.to_string().contains("all containers of a Pod may have 8388608 bytes together"), "{error}");
        let no_name = "=".repeat(1000);
        assert_eq!(resolve_with(100, &no_name).unwrap().len(), MAX_SKIPPED, "only some of what was left out is told");
        assert!(resolve_with(10_000, &no_name).is_err(), "to pass over names is work too");
    }

    /// With a search through all variables for each reference this takes minutes.
    #[test]
    fn many_variables_are_found_at_once() {
        let variables = (0..30_000).map(|number| json!({"name": format!("V{number}"), "value": "$(V29999)$(V0)"}));
        let (variables, _) = resolved(json!({"env": variables.collect::<Vec<_>>()})).unwrap();
        assert_eq!(variables.0.len(), 30_000);
    }
}
