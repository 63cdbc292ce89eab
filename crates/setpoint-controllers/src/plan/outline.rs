//! A Plan as the controllers keep it: without its work, but with the verdict on it.
//!
//! The work may be a hundred thousand nodes, and nobody who resolves goals reads them. So a plan is judged when it is heard
//! of, once for each of its versions, and what is kept of it is small.

use std::borrow::Cow;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::Deserialize;
use setpoint_api::planspec::{Plan, PlanStatus};
use setpoint_core::resolve::{CheckedPlan, first_error};

use crate::runtime::Name;

/// Is read where a Plan is written.
#[derive(Debug, Clone, Deserialize)]
#[serde(from = "Plan")]
pub struct Outline {
    /// Without its graph, its context and its description.
    plan: Plan,
    node_count: usize,
    error: Option<String>,
}

impl Outline {
    /// The plan and the verdict on it, as resolution asks for them.
    pub fn checked(&self) -> CheckedPlan<'_> {
        CheckedPlan { plan: &self.plan, error: self.error() }
    }

    /// What is wrong with the plan.
    pub fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    pub fn node_count(&self) -> usize {
        self.node_count
    }

    pub fn status(&self) -> Option<&PlanStatus> {
        self.plan.status.as_ref()
    }

    /// The goal that it names. A reference without a namespace means the plan's own.
    pub fn goal(&self) -> Option<Name> {
        let goal = self.plan.spec.goal_ref.as_ref()?;
        let own = self.plan.metadata.namespace.as_deref();
        Some(Name::new(goal.namespace.as_deref().or(own).unwrap_or_default(), &goal.name))
    }
}

impl From<Plan> for Outline {
    fn from(mut plan: Plan) -> Outline {
        let error = first_error(&plan);
        let graph = std::mem::take(&mut plan.spec.graph);
        plan.spec.context = Vec::new();
        plan.spec.description = String::new();
        Outline { plan, node_count: graph.nodes.len(), error }
    }
}

impl Resource for Outline {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        Plan::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        Plan::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        Plan::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        Plan::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.plan.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.plan.metadata
    }
}
