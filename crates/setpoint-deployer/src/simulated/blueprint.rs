//! What an instance is made from: an order, read and found possible, and shortened to what a simulated place keeps of it.

use std::time::Duration;

use k8s_openapi::api::core::v1::Container;
use serde::{Deserialize, Serialize};
use setpoint_core::observation::Mark;
use setpoint_core::pod::Role;
use setpoint_core::value::Fields;

use super::fields;
use crate::error::Result;
use crate::provider::{self, Order, PodOrder};
use crate::{Error, SpecError};

/// A container with this variable ends by itself with the code that it holds.
pub const EXIT_CODE: &str = "SIMULATED_EXIT_CODE";
/// After how many milliseconds it does; at once where this is not set.
pub const EXIT_AFTER_MS: &str = "SIMULATED_EXIT_AFTER_MS";
/// A container in which this is `false` runs and is never ready.
pub const READY: &str = "SIMULATED_READY";
/// How many milliseconds a container takes to end once it is asked to.
pub const STOP_MS: &str = "SIMULATED_STOP_MS";
/// The first line of a container's log.
pub const SAYS: &str = "SIMULATED_SAYS";

const MAX_NAME: usize = 253;

#[derive(Debug, Clone)]
pub(super) struct Blueprint {
    pub(super) mark: Mark,
    pub(super) name: Box<str>,
    pub(super) body: Body,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Body {
    Machine(Fields),
    Pod(Box<PodPlan>),
}

/// What a simulated Pod is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct PodPlan {
    pub(super) containers: Vec<ContainerPlan>,
    pub(super) restarts: Restarts,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct ContainerPlan {
    pub(super) name: Box<str>,
    pub(super) role: Role,
    pub(super) ports: Vec<(Option<Box<str>>, u16)>,
    /// After how long it ends by itself, and with which code.
    pub(super) exit: Option<(Duration, i32)>,
    pub(super) gets_ready: bool,
    /// How long it takes to end once it is asked to, if it has a mind of its own about that.
    pub(super) stops_after: Option<Duration>,
    /// What it writes as it starts.
    pub(super) says: Option<Box<str>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Restarts {
    Always,
    OnFailure,
    Never,
}

impl Blueprint {
    /// Reads an order to make something.
    pub(super) fn to_make(order: &Order, cluster: &str) -> Result<Blueprint> {
        if order.intent().is_empty() {
            return Err(Error::field(&order.name, "mark.intent", "nothing is made without an intent"));
        }
        Blueprint::read(order, cluster)
    }

    /// Reads an order of the control plane `cluster`. What is wrong with it is found here, before anything is sent.
    pub(super) fn read(order: &Order, cluster: &str) -> Result<Blueprint> {
        let wrong = |field: &str, message: &str| Err(Error::field(&order.name, field, message));
        if order.name.is_empty() || order.name.len() > MAX_NAME {
            return wrong("metadata.name", "must be 1 to 253 bytes long");
        }
        if *order.mark.cluster != *cluster {
            return wrong("mark.cluster", "is another control plane's");
        }
        if order.provider_id.is_some() {
            return wrong("spec.providerId", "simulated chooses ids itself");
        }
        let body = match &order.body {
            provider::Body::Machine(fields) => Body::Machine(machine(&order.name, fields)?),
            provider::Body::Pod(pod) => Body::Pod(Box::new(PodPlan::read(pod)?)),
        };
        Ok(Blueprint { mark: order.mark.clone(), name: order.name.as_str().into(), body })
    }
}

fn machine(target: &str, given: &Fields) -> Result<Fields> {
    for (name, value) in given.iter() {
        let path = format!("spec.{name}");
        match fields::field(name) {
            None => return Err(Error::field(target, &path, "simulated does not know this field")),
            Some(field) => {
                if let Some(problem) = fields::problem(field, value) {
                    return Err(Error::field(target, &path, problem));
                }
            }
        }
    }
    Ok(fields::kept(given))
}

impl PodPlan {
    fn read(order: &PodOrder) -> Result<PodPlan> {
        let spec = &order.spec;
        let restarts = match spec.restart_policy.as_deref() {
            None | Some("Always") => Restarts::Always,
            Some("OnFailure") => Restarts::OnFailure,
            Some("Never") => Restarts::Never,
            Some(_) => {
                let message = "must be Always, OnFailure or Never";
                return Err(Error::field(&order.name, "spec.restartPolicy", message));
            }
        };
        if spec.containers.is_empty() {
            return Err(Error::field(&order.name, "spec.containers", "a Pod has at least one container"));
        }
        let init = spec.init_containers.iter().flatten().map(|container| {
            let goes_on = container.restart_policy.as_deref() == Some("Always");
            (container, if goes_on { Role::Sidecar } else { Role::Init })
        });
        let all = init.chain(spec.containers.iter().map(|container| (container, Role::Main)));
        let containers = all.map(|(container, role)| ContainerPlan::read(order, container, role));
        Ok(PodPlan { containers: containers.collect::<Result<_>>()?, restarts })
    }
}

impl ContainerPlan {
    fn read(order: &PodOrder, container: &Container, role: Role) -> Result<ContainerPlan> {
        let variables = order.variables.get(&container.name);
        let variable = |name: &str| {
            let all = variables.into_iter().flat_map(|variables| &variables.0);
            all.rev().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
        };
        let wrong = |name: &str| SpecError::Field {
            target: order.name.clone(),
            field: format!("spec.containers[{}].env[{name}]", container.name),
            message: "must be a whole number".to_owned(),
        };
        let code = variable(EXIT_CODE).map(|text| text.parse::<i32>().map_err(|_| wrong(EXIT_CODE))).transpose()?;
        let time = |name: &str| -> Result<Option<Duration>> {
            let milliseconds = variable(name).map(|text| text.parse::<u32>().map_err(|_| wrong(name))).transpose()?;
            Ok(milliseconds.map(|milliseconds| Duration::from_millis(milliseconds.into())))
        };
        let after = time(EXIT_AFTER_MS)?.unwrap_or_default();
        let ports =
            container.ports.iter().flatten().filter_map(|port| {
                Some((port.name.as_deref().map(Into::into), u16::try_from(port.container_port).ok()?))
            });
        Ok(ContainerPlan {
            name: container.name.as_str().into(),
            role,
            ports: ports.collect(),
            exit: code.map(|code| (after, code)).or((role == Role::Init).then_some((after, 0))),
            gets_ready: variable(READY) != Some("false"),
            stops_after: time(STOP_MS)?,
            says: variable(SAYS).map(Into::into),
        })
    }
}
