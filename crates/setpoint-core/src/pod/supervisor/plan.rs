//! What a Pod's specification says about how its containers are to be run.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, PodSpec, Probe};

use super::probe::{ProbeKind, ProbePlan};
use crate::pod::Role;

/// No time in a Pod is longer than this: ten years.
const LONGEST: u64 = 10 * 365 * 24 * 3600;

/// How long a Pod that does not say it may take to stop.
const GRACE_SECONDS: i64 = 30;

/// How the containers of a Pod are to be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The Pod as messages name it: `name_namespace(uid)`.
    pub pod: String,
    /// How long its containers may take to stop.
    pub grace: Duration,
    /// Init containers in their order, then the others in theirs.
    pub containers: Vec<ContainerPlan>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerPlan {
    pub name: String,
    pub role: Role,
    pub policy: RestartPolicy,
    pub startup: Option<ProbePlan>,
    pub readiness: Option<ProbePlan>,
    pub liveness: Option<ProbePlan>,
    pub has_post_start: bool,
    pub has_pre_stop: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestartPolicy {
    Always,
    OnFailure,
    Never,
}

impl Plan {
    pub fn new(namespace: &str, name: &str, uid: &str, spec: &PodSpec) -> Plan {
        let policy = RestartPolicy::parse(spec.restart_policy.as_deref()).unwrap_or(RestartPolicy::Always);
        let init = spec.init_containers.iter().flatten().map(|container| init(container, policy));
        let main = spec.containers.iter().map(|container| plan(container, Role::Main, policy));
        Plan {
            pod: format!("{name}_{namespace}({uid})"),
            grace: seconds(spec.termination_grace_period_seconds.unwrap_or(GRACE_SECONDS)),
            containers: init.chain(main).collect(),
        }
    }

    /// A container's specification, in the plan's order.
    pub fn specification(spec: &PodSpec, index: usize) -> Option<&Container> {
        spec.init_containers.iter().flatten().chain(&spec.containers).nth(index)
    }
}

impl ContainerPlan {
    pub fn probe(&self, kind: ProbeKind) -> Option<&ProbePlan> {
        match kind {
            ProbeKind::Startup => self.startup.as_ref(),
            ProbeKind::Readiness => self.readiness.as_ref(),
            ProbeKind::Liveness => self.liveness.as_ref(),
        }
    }

    /// Whether a run that ended so is followed by another.
    pub(super) fn restarts_after(&self, code: i32) -> bool {
        match (self.role, self.policy) {
            (_, RestartPolicy::Never) => false,
            (Role::Sidecar, _) => true,
            (Role::Init, _) | (Role::Main, RestartPolicy::OnFailure) => code != 0,
            (Role::Main, RestartPolicy::Always) => true,
        }
    }
}

impl RestartPolicy {
    fn parse(text: Option<&str>) -> Option<RestartPolicy> {
        match text? {
            "Always" => Some(RestartPolicy::Always),
            "OnFailure" => Some(RestartPolicy::OnFailure),
            "Never" => Some(RestartPolicy::Never),
            _ => None,
        }
    }
}

fn init(container: &Container, policy: RestartPolicy) -> ContainerPlan {
    let is_sidecar = container.restart_policy.as_deref() == Some("Always");
    plan(container, if is_sidecar { Role::Sidecar } else { Role::Init }, policy)
}

fn plan(container: &Container, role: Role, policy: RestartPolicy) -> ContainerPlan {
    let lifecycle = container.lifecycle.as_ref();
    ContainerPlan {
        name: container.name.clone(),
        role,
        policy: RestartPolicy::parse(container.restart_policy.as_deref()).unwrap_or(policy),
        startup: container.startup_probe.as_ref().map(probe),
        readiness: container.readiness_probe.as_ref().map(probe),
        liveness: container.liveness_probe.as_ref().map(probe),
        has_post_start: lifecycle.is_some_and(|lifecycle| lifecycle.post_start.is_some()),
        has_pre_stop: lifecycle.is_some_and(|lifecycle| lifecycle.pre_stop.is_some()),
    }
}

fn probe(probe: &Probe) -> ProbePlan {
    let at_least_one = |value: Option<i32>, default: i32| value.filter(|value| *value > 0).unwrap_or(default);
    ProbePlan {
        initial_delay: seconds(probe.initial_delay_seconds.unwrap_or(0).into()),
        period: seconds(at_least_one(probe.period_seconds, 10).into()),
        timeout: seconds(at_least_one(probe.timeout_seconds, 1).into()),
        success_threshold: at_least_one(probe.success_threshold, 1).unsigned_abs(),
        failure_threshold: at_least_one(probe.failure_threshold, 3).unsigned_abs(),
        grace: probe.termination_grace_period_seconds.map(seconds),
    }
}

fn seconds(value: i64) -> Duration {
    Duration::from_secs(u64::try_from(value).unwrap_or(0).min(LONGEST))
}
