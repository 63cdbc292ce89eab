//! What is wrong with an order or a call, whichever provider it is for; and what of an order must not be shown.

use std::fmt;

use setpoint_core::observation::Mark;
use setpoint_core::registry::Field;
use setpoint_core::value::{Fields, SENSITIVE, Value};

use crate::error::{Error, Result, SpecError};
use crate::provider::{Abilities, Body, Order, PodOrder, Scope, Volume};

/// How long a name, an id or an intent may be.
const MAX_NAME: usize = 1024;
/// How much of what a provider says is kept.
const MAX_RESPONSE: usize = 4096;
/// A value that is shorter would be found by chance in any text, and is no secret to anybody.
const MIN_SECRET: usize = 4;

impl Order {
    /// Refuses what no provider of these abilities could make.
    pub(crate) fn check(&self, abilities: &Abilities) -> Result<()> {
        check_name(self.target(), "mark.intent", self.intent())?;
        self.check_change(abilities)
    }

    /// Refuses what no provider of these abilities could make of an instance that is there. One that was adopted names no
    /// intent.
    pub(crate) fn check_change(&self, abilities: &Abilities) -> Result<()> {
        let target = self.target();
        check_name(target, "name", &self.name)?;
        if let Some(intent) = &self.mark.intent {
            check_name(target, "mark.intent", intent)?;
        }
        check_name(target, "mark.ownerUid", &self.mark.owner_uid)?;
        check_name(target, "mark.cluster", &self.mark.cluster)?;
        if let Some(id) = &self.provider_id {
            check_name(target, "providerId", id)?;
            if !abilities.guests.chooses_ids {
                return Err(unable(abilities, "give an instance an id of our choice"));
            }
        }
        match &self.body {
            _ if !abilities.guests.creates => Err(unable(abilities, "make instances")),
            Body::Pod(_) if !abilities.runs_pods => Err(unable(abilities, "run Pods")),
            Body::Machine(_) if !abilities.runs_machines => Err(unable(abilities, "run Machines")),
            Body::Pod(pod) => check_pod(target, pod, abilities),
            Body::Machine(fields) => check_fields(target, fields, abilities),
        }
    }

    fn target(&self) -> &str {
        if self.name.is_empty() { "an order" } else { &self.name }
    }

    /// An error as it can be shown: without what the order keeps secret, and no longer than anybody would read.
    pub(crate) fn redact(&self, error: Error) -> Error {
        let Error::Provider(mut error) = error else { return error };
        let mut secrets = Vec::new();
        match &self.body {
            Body::Machine(fields) => fields.iter().for_each(|(_, value)| secrets_of(value, &mut secrets)),
            Body::Pod(pod) => {
                secrets.extend(pod.variables.values().flat_map(|set| &set.0).map(|(_, value)| value.clone()));
                for volume in pod.volumes.values() {
                    if let Volume::Files(files) = volume {
                        secrets.extend(files.values().map(|file| String::from_utf8_lossy(&file.content).into_owned()));
                    }
                }
            }
        }
        for secret in secrets.iter().filter(|secret| secret.trim().len() >= MIN_SECRET) {
            error.response = error.response.replace(secret.trim(), SENSITIVE);
        }
        if error.response.len() > MAX_RESPONSE {
            error.response.truncate(error.response.floor_char_boundary(MAX_RESPONSE));
            error.response.push('…');
        }
        error.into()
    }
}

pub(crate) fn check_scope(scope: &Scope) -> Result<()> {
    match scope {
        Scope::Everything => Ok(()),
        Scope::Instance(id) => check_name("an observation", "id", id),
        Scope::Owner(owner) => check_name("an observation", "owner", owner),
    }
}

pub(crate) fn check_call(intent: &str, id: &str) -> Result<()> {
    check_name("a call", "id", id)?;
    check_name(id, "intent", intent)
}

/// Refuses a mark that would not say whose an instance is.
pub(crate) fn check_mark(id: &str, mark: Option<&Mark>, abilities: &Abilities) -> Result<()> {
    if !abilities.guests.adopts {
        return Err(unable(abilities, marking(mark.is_some())));
    }
    let Some(mark) = mark else { return Ok(()) };
    check_name(id, "mark.ownerUid", &mark.owner_uid)?;
    check_name(id, "mark.cluster", &mark.cluster)
}

/// What it is to write a mark on an instance, or to take it off.
pub(crate) fn marking(is_adopted: bool) -> &'static str {
    if is_adopted { "adopt instances" } else { "release instances" }
}

pub(crate) fn unable(abilities: &Abilities, ability: &str) -> Error {
    SpecError::Unable { deployer: abilities.guests.deployer.to_owned(), ability: ability.to_owned() }.into()
}

fn check_name(target: &str, field: &str, name: &str) -> Result<()> {
    let message = match name {
        "" => "is required",
        name if name.len() > MAX_NAME => "is too long",
        name if name.chars().any(char::is_control) => "must not hold control characters",
        _ => return Ok(()),
    };
    Err(Error::field(target, field, message))
}

fn check_pod(target: &str, pod: &PodOrder, abilities: &Abilities) -> Result<()> {
    check_name(target, "metadata.namespace", &pod.namespace)?;
    check_name(target, "metadata.name", &pod.name)?;
    check_name(target, "metadata.uid", &pod.uid)?;
    if pod.spec.containers.is_empty() {
        return Err(Error::field(target, "spec.containers", "is required"));
    }
    let init = pod.spec.init_containers.iter().flatten().map(|container| ("spec.initContainers", container));
    let main = pod.spec.containers.iter().map(|container| ("spec.containers", container));
    for (list, container) in init.chain(main) {
        check_name(target, &format!("{list}.name"), &container.name)?;
        if abilities.needs_image && container.image.as_deref().unwrap_or_default().is_empty() {
            return Err(Error::field(target, &format!("{list}[{}].image", container.name), "is required here"));
        }
    }
    Ok(())
}

fn check_fields(target: &str, fields: &Fields, abilities: &Abilities) -> Result<()> {
    for (name, value) in fields.iter() {
        let Some(field) = abilities.guests.field(name) else {
            let message = format!("the deployer {} knows no such field", abilities.guests.deployer);
            return Err(Error::field(target, name, message));
        };
        check_amount(target, field, value)?;
    }
    Ok(())
}

fn check_amount(target: &str, field: &Field, value: &Value) -> Result<()> {
    let Value::Integer(amount) = value else { return Ok(()) };
    if let Some(min) = field.min.filter(|min| amount < min) {
        return Err(Error::field(target, field.name, format!("must be at least {min}")));
    }
    if let Some(max) = field.max.filter(|max| amount > max) {
        return Err(Error::field(target, field.name, format!("must be at most {max}")));
    }
    Ok(())
}

fn secrets_of(value: &Value, secrets: &mut Vec<String>) {
    match value {
        Value::Secret(text) => secrets.push(text.to_string()),
        Value::List(items) => items.iter().for_each(|item| secrets_of(item, secrets)),
        Value::Map(entries) => entries.iter().for_each(|(_, value)| secrets_of(value, secrets)),
        Value::Bool(_) | Value::Integer(_) | Value::Text(_) => {}
    }
}

/// What an observation is about, as it stands in errors.
impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scope::Everything => f.write_str("everything"),
            Scope::Instance(id) => f.write_str(id),
            Scope::Owner(owner) => write!(f, "what belongs to {owner}"),
        }
    }
}
