//! The Gate of a change set: that it is there where people are asked, and what it says.

use std::sync::Arc;

use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Resource};
use serde_json::json;
use setpoint_api::change_set::ChangeSet;
use setpoint_api::condition::{Condition, ConditionStatus};
use setpoint_api::planspec::gate::{CLUSTER_UID, Gate, GatePhase, GateSpec, GateStatus, GateType, TargetReference};
use setpoint_api::step::Step;
use setpoint_core::conditions;
use setpoint_core::count::counted;
use setpoint_core::gate::{Decision, Need, Verdict, gate_status};
use setpoint_core::pod::NoticeKind;

use super::{Case, ChangeSets};
use crate::events::is_code;
use crate::ownership::unless_moved;
use crate::refusal;
use crate::runtime::{Error, Name, Round};

/// How many steps a Gate's description names.
const TOLD: usize = 10;

impl ChangeSets {
    /// The Gate of a change set, as it is to be; none where nobody has to be asked.
    pub(super) async fn gate(
        &self,
        case: &Case,
        decision: &Decision,
        round: &mut Round,
    ) -> Result<Option<Arc<Gate>>, Error> {
        let change_set = &case.change_set;
        let gate = match self.caches.gates.get(&Name::of(&**change_set)) {
            Some(gate) if !is_gate_of(&gate, change_set) => {
                let name = gate.metadata.name.clone().unwrap_or_default();
                return Err(Error::Held(format!("there is a Gate {name} already that is not of this change set")));
            }
            Some(gate) => match self.describe_gate(change_set, decision, gate, round).await? {
                Some(gate) => gate,
                None => return Ok(None),
            },
            None if decision.waits_for_people() => match self.open_gate(change_set, decision, round).await? {
                Some(gate) => Arc::new(gate),
                None => return Ok(None),
            },
            None => return Ok(None),
        };
        self.write_gate(case, decision, &gate, round).await?;
        Ok(Some(gate))
    }

    /// Makes the Gate; none if there is one by now, or nothing can be made any more.
    async fn open_gate(
        &self,
        change_set: &ChangeSet,
        decision: &Decision,
        round: &mut Round,
    ) -> Result<Option<Gate>, Error> {
        let wanted = gate_of(change_set, decision, self.planning.cluster());
        match self.gates(change_set).create(&PostParams::default(), &wanted).await {
            Ok(made) => {
                round.wrote(&self.caches.gates, &made);
                Ok(Some(made))
            }
            Err(error) if is_code(&error, 409) || refusal::is_of_a_namespace_that_goes(&error) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Has the Gate say what people are asked now: its change set may list other steps than it did. None if the Gate is not
    /// as it was read.
    async fn describe_gate(
        &self,
        change_set: &ChangeSet,
        decision: &Decision,
        gate: Arc<Gate>,
        round: &mut Round,
    ) -> Result<Option<Arc<Gate>>, Error> {
        let wanted = gate_of(change_set, decision, self.planning.cluster()).spec;
        if !decision.waits_for_people() || wanted == gate.spec {
            return Ok(Some(gate));
        }
        let seen = json!({"uid": gate.metadata.uid, "resourceVersion": gate.metadata.resource_version});
        let asked = json!({
            "description": wanted.description, "requiredApprovers": wanted.required_approvers, "context": wanted.context,
        });
        let patch = Patch::Merge(json!({"metadata": seen, "spec": asked}));
        let name = gate.metadata.name.as_deref().unwrap_or_default();
        let written = self.gates(change_set).patch(name, &PatchParams::default(), &patch).await;
        let Some(written) = unless_moved(written)? else { return Ok(None) };
        round.wrote(&self.caches.gates, &written);
        Ok(Some(Arc::new(written)))
    }

    /// Has the Gate say what was decided, and tells people of it where that is news.
    async fn write_gate(&self, case: &Case, decision: &Decision, gate: &Gate, round: &mut Round) -> Result<(), Error> {
        let old = gate.status.clone().unwrap_or_default();
        let new = status(case, decision, gate, &old, round.now);
        if new == old {
            return Ok(());
        }
        let metadata = &gate.metadata;
        let seen = json!({"uid": metadata.uid, "resourceVersion": metadata.resource_version});
        let mut told = json!(new);
        // A merge patch takes away what it names as null.
        for field in ["resolution", "decidedGeneration"] {
            if told.get(field).is_none() {
                told[field] = json!(null);
            }
        }
        let patch = Patch::Merge(json!({"metadata": seen, "status": told}));
        let name = metadata.name.as_deref().unwrap_or_default();
        let written = self.gates(&case.change_set).patch_status(name, &PatchParams::default(), &patch).await;
        let Some(written) = unless_moved(written)? else { return Ok(()) };
        round.wrote(&self.caches.gates, &written);
        if old.phase != new.phase {
            self.announce(&case.change_set, &new, decision);
        }
        Ok(())
    }

    fn announce(&self, change_set: &ChangeSet, status: &GateStatus, decision: &Decision) {
        let (kind, reason) = match status.phase {
            Some(GatePhase::Waiting) => (NoticeKind::Normal, "GateWaiting"),
            Some(GatePhase::Approved) => (NoticeKind::Normal, "GateApproved"),
            Some(GatePhase::Rejected) => (NoticeKind::Warning, "GateRejected"),
            Some(GatePhase::Pending) | None => return,
        };
        let actors = status.resolution.as_ref().map(|resolution| resolution.actors.join(", ")).unwrap_or_default();
        let message = match status.phase {
            Some(GatePhase::Waiting) => waits_for(decision),
            Some(GatePhase::Approved) if actors.is_empty() => "nobody has to approve any more".to_owned(),
            Some(GatePhase::Approved) => format!("approved by {actors}"),
            _ => format!("rejected by {actors}"),
        };
        self.recorder.say(change_set, kind, reason, &message);
    }

    fn gates(&self, change_set: &ChangeSet) -> Api<Gate> {
        Api::namespaced(self.client.clone(), change_set.metadata.namespace.as_deref().unwrap_or_default())
    }
}

fn is_gate_of(gate: &Gate, change_set: &ChangeSet) -> bool {
    let owners = gate.metadata.owner_references.iter().flatten();
    owners.into_iter().any(|owner| Some(&owner.uid) == change_set.metadata.uid.as_ref())
}

/// Who signs names the control plane, and may not be able to ask for it.
fn gate_of(change_set: &ChangeSet, decision: &Decision, cluster: &str) -> Gate {
    let metadata = &change_set.metadata;
    let name = metadata.name.clone().unwrap_or_default();
    let steps = change_set.status.as_ref().map_or(&[][..], |status| &status.steps);
    let required = missing(decision).map(|(_, approvals)| approvals.required).max().unwrap_or(1);
    let spec = GateSpec {
        gate_type: GateType::Approval,
        target_ref: TargetReference {
            api_version: Some(ChangeSet::api_version(&()).into_owned()),
            kind: ChangeSet::kind(&()).into_owned(),
            name: name.clone(),
            namespace: metadata.namespace.clone(),
            uid: metadata.uid.clone(),
            node_id: None,
        },
        description: Some(description(change_set, steps)),
        reviewers: Vec::new(),
        required_approvers: i32::try_from(required).ok(),
        context: Some(json!({CLUSTER_UID: cluster})),
    };
    let mut gate = Gate::new(&name, spec);
    gate.metadata.namespace = metadata.namespace.clone();
    gate.metadata.owner_references = change_set.controller_owner_ref(&()).map(|owner| vec![owner]);
    gate
}

fn description(change_set: &ChangeSet, steps: &[Step]) -> String {
    let spec = &change_set.spec;
    let told = steps.iter().take(TOLD).map(|step| format!("\n{} ({:?}): {}", step.id, step.class, step.reason));
    let more = steps.len().saturating_sub(TOLD);
    let rest = if more > 0 { format!("\nand {more} more") } else { String::new() };
    let count = counted(steps.len(), "step");
    let head = format!("{} asks for {count} in {}:", spec.requested_by, spec.environment);
    format!("{head}{}{rest}", told.collect::<String>())
}

fn status(case: &Case, decision: &Decision, gate: &Gate, old: &GateStatus, now: jiff::Timestamp) -> GateStatus {
    let evidence = case.evidence();
    let mut new = gate_status(&evidence, decision);
    let generation = gate.metadata.generation;
    let is_decided = matches!(new.phase, Some(GatePhase::Approved | GatePhase::Rejected));
    let condition = Condition {
        type_: "Decided".to_owned(),
        status: if is_decided { ConditionStatus::True } else { ConditionStatus::False },
        reason: new.phase.map(|phase| format!("{phase:?}")),
        message: match new.phase {
            Some(GatePhase::Pending) => Some("nothing that it asks about is to be done now".to_owned()),
            _ => (!is_decided).then(|| waits_for(decision)).filter(|message| !message.is_empty()),
        },
        last_transition_time: None,
        observed_generation: generation,
    };
    new.conditions.clone_from(&old.conditions);
    conditions::set(&mut new.conditions, condition, now);
    new.observed_generation = generation;
    new.decided_generation = is_decided.then_some(generation).flatten();
    new
}

/// What the first step that waits for people waits for, and how many more do.
fn waits_for(decision: &Decision) -> String {
    let mut waiting = missing(decision).map(|(step, approvals)| format!("{step}: {approvals}"));
    let first = waiting.next().unwrap_or_default();
    match waiting.count() {
        0 => first,
        more => format!("{first}; and {more} more"),
    }
}

fn missing(decision: &Decision) -> impl Iterator<Item = (&str, &setpoint_core::gate::Approvals)> {
    decision.steps.iter().flat_map(|judged| {
        let needs = match &judged.verdict {
            Verdict::Wait { needs } => needs.as_slice(),
            Verdict::Run | Verdict::Refuse { .. } => &[],
        };
        needs.iter().filter_map(|need| match need {
            Need::Approvals(approvals) => Some((judged.step.as_str(), approvals)),
            _ => None,
        })
    })
}
