//! Carries out what was agreed to: asks leave for the steps that need it, writes the objects as the user, and removes what
//! is to go.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use http::Method;
use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams};
use kube::runtime::wait::{await_condition, conditions};
use serde_json::{Value, json};
use setpoint_api::change_set::{ChangeSet, ChangeSetStatus, Mode, Phase, StepState, StepStatus};
use setpoint_api::review::Decision;
use tokio::time::Instant;

use super::apply_set::{ApplySet, Extent};
use super::draft::{Draft, GROUND, Removal, Write};
use super::follow::Followed;
use super::preview::{Key, Question, planned, post, questions};
use super::standing::Aim;
use crate::approve::{Judgement, Policy, Signer, Verdict, give};
use crate::client::Reply;
use crate::get::JSON;
use crate::proposal::{ObjectAction, Proposal, ProposedSet};
use crate::resource::Resource;
use crate::session::Session;
use crate::terminal::{inert, remark};

/// How the objects are written.
#[derive(Debug)]
pub(crate) struct Execution<'a> {
    pub(crate) user: &'a str,
    pub(crate) set: Option<&'a ApplySet>,
    pub(crate) force: bool,
    /// A key to sign approvals with: its file, or `agent`.
    pub(crate) sign: Option<&'a str>,
    /// Whether only some of the files' objects are meant, so that the rest of a set stays what it is.
    pub(crate) is_partial: bool,
}

impl Execution<'_> {
    /// Does it all in order but for what others stand on, and returns the Machines to follow.
    pub(crate) async fn run(
        &self,
        session: &Session,
        draft: &Draft,
        shown: &Proposal,
    ) -> Result<BTreeMap<Followed, Aim>> {
        self.must_hold(session, draft, shown).await?;
        let asked = self.ask_leave(session, draft, shown).await?;
        let before = self.widen(session, draft).await?;
        let mut aims = BTreeMap::new();
        for write in &draft.writes {
            let written = write.send(session, self.force).await?;
            if write.is_machine() {
                let set = asked.get(&Key::of(write.namespace.as_ref(), &write.object));
                if let Some(set) = set.filter(|_| !write.was_as_shown(&written)) {
                    withdraw(session, set).await;
                    let title = inert(&write.change.title());
                    bail!("{title} was changed while it was written, and is not what was shown; plan again");
                }
                aims.insert(followed(write.namespace.as_ref(), &write.name), Aim::of(&written["metadata"]));
            }
        }
        for removal in draft.removals.iter().filter(|removal| !removal.is_ground()) {
            remove(session, removal).await?;
            if removal.is_machine() {
                aims.insert(followed(removal.namespace.as_ref(), &removal.name), Aim::Gone);
            }
        }
        self.narrow(session, draft, before).await?;
        Ok(aims)
    }

    /// Removes what others stood on, once they are gone. Says what is still there after a while.
    pub(crate) async fn clear(&self, session: &Session, draft: &Draft, patience: Duration) -> Result<Vec<String>> {
        let grounds: Vec<&Removal> = draft.removals.iter().filter(|removal| removal.is_ground()).collect();
        for removal in &grounds {
            remove(session, removal).await?;
        }
        let deadline = Instant::now().checked_add(patience);
        let mut left = Vec::new();
        for removal in grounds {
            let gone = gone(session, removal);
            let is_gone = match deadline {
                Some(deadline) => tokio::time::timeout_at(deadline, gone).await.unwrap_or(Ok(false))?,
                None => gone.await?,
            };
            left.extend((!is_gone).then(|| format!("{} {}", removal.change.kind, removal.change.title())));
        }
        Ok(left)
    }

    /// Writes only what other objects stand on, so that those can be planned.
    pub(crate) async fn lay_ground(&self, session: &Session, draft: &Draft) -> Result<()> {
        for write in draft.writes.iter().filter(|write| write.rank <= GROUND) {
            write.send(session, self.force).await?;
        }
        Ok(())
    }

    /// Where people must agree, what was shown is what would be written now.
    async fn must_hold(&self, session: &Session, draft: &Draft, shown: &Proposal) -> Result<()> {
        let held: BTreeSet<Key> = shown.change_sets.iter().filter(|set| !set.holds.is_empty()).map(key).collect();
        let is_held =
            |write: &&Write| write.is_machine() && held.contains(&Key::of(write.namespace.as_ref(), &write.object));
        for write in draft.writes.iter().filter(is_held) {
            if !write.still_holds(session, self.force).await? {
                let title = inert(&write.change.title());
                bail!(
                    "{title} was changed by somebody else since the plan was shown; no Machine was written, plan again"
                );
            }
        }
        Ok(())
    }

    /// A change set for every environment where people must agree, with the agreement of who asks.
    async fn ask_leave(&self, session: &Session, draft: &Draft, shown: &Proposal) -> Result<BTreeMap<Key, ChangeSet>> {
        let (questions, mut asked) = (questions(draft), BTreeMap::new());
        for proposed in shown.change_sets.iter().filter(|set| !set.holds.is_empty()) {
            let key = key(proposed);
            let question = questions.get(&key).context("a proposed change set has objects")?;
            let set = match self.asked_before(session, &key, question, proposed).await? {
                Some(set) => set,
                None => {
                    let made = post(session, &key, question, self.user, Mode::Execute).await?;
                    planned(session, &made).await?
                }
            };
            if let Some(moved) = moved(proposed, &set) {
                withdraw(session, &set).await;
                bail!(moved);
            }
            self.consent(session, proposed, &set).await?;
            asked.insert(key, set);
        }
        Ok(asked)
    }

    /// The change set in which the user has asked for just this, if it is still open: nobody is asked twice, and what people
    /// agreed to there counts.
    async fn asked_before(
        &self,
        session: &Session,
        key: &Key,
        question: &Question,
        proposed: &ProposedSet,
    ) -> Result<Option<ChangeSet>> {
        let sets: Api<ChangeSet> = Api::namespaced(session.server.client.clone(), &key.namespace);
        let list = sets.list(&ListParams::default()).await.map_err(|error| session.server.unreachable(error))?;
        let asks = |set: &ChangeSet| {
            let is_open = |phase: Phase| matches!(phase, Phase::Waiting | Phase::Running);
            let is_asked = |status: &ChangeSetStatus| status.phase.is_some_and(is_open) && status.gate_ref.is_some();
            set.spec.requested_by == self.user
                && set.spec.environment == key.environment
                && set.spec.mode == Mode::Execute
                && set.status.as_ref().is_some_and(is_asked)
                && question.is_asked_by(&set.spec)
                && moved(proposed, set).is_none()
                && can_be_decided(proposed, set)
        };
        Ok(list.items.into_iter().find(asks))
    }

    /// The approval of who asks, where it counts: the prompt was answered for exactly these steps. Where it does not, that
    /// is said, and the steps wait.
    async fn consent(&self, session: &Session, proposed: &ProposedSet, set: &ChangeSet) -> Result<()> {
        let (name, environment) = (name(set), inert(&proposed.environment));
        let ask = format!("`setpoint approve {} -n {}`", inert(&name), inert(&proposed.namespace));
        let policy = Policy::of(session, &proposed.environment).await?;
        if matches!(policy, Policy::Hidden) {
            remark(&format!("who must approve in environment {environment} is hidden from you; they say {ask}"));
            return Ok(());
        }
        let digests = proposed.own(self.sign.is_some());
        let mut awaits = proposed.holds.iter().any(|hold| !hold.own_suffices) || digests.len() < proposed.holds.len();
        if !digests.is_empty() {
            let signer = self.sign.map(|word| Signer::of(word, &policy.keys_of(self.user))).transpose()?;
            let verdict = Verdict {
                namespace: &proposed.namespace,
                gate: &name,
                change_set_uid: set.metadata.uid.clone(),
                decision: Decision::Approve,
                digests,
                comment: None,
                signer: signer.as_ref(),
            };
            match give(session, self.user, verdict).await? {
                Judgement::Counted(_) => {}
                void if void.is_stale() => {
                    withdraw(session, set).await;
                    bail!("something moved since the plan was shown: {void}; nothing was written, plan again")
                }
                void => {
                    remark(&void.to_string());
                    awaits = true;
                }
            }
        }
        if awaits {
            remark(&format!("others must approve: {ask}"));
        }
        Ok(())
    }

    /// Before anything is written, the set says where members may be.
    async fn widen(&self, session: &Session, draft: &Draft) -> Result<Extent> {
        let Some(set) = self.set else { return Ok(Extent::default()) };
        let before = set.extent(session).await?.unwrap_or_default();
        let mut extent = before.clone();
        draft.writes.iter().for_each(|write| extent.add(&write.resource, write.namespace.as_deref()));
        // The set may be in a namespace that the files bring.
        for write in draft.writes.iter().filter(|write| is_namespace(write, &set.namespace)) {
            write.send(session, self.force).await?;
        }
        set.write(session, &extent).await?;
        Ok(before)
    }

    /// Afterwards, where they are. What is not gone yet is still a member.
    async fn narrow(&self, session: &Session, draft: &Draft, before: Extent) -> Result<()> {
        let Some(set) = self.set else { return Ok(()) };
        let mut extent = if self.is_partial { before } else { Extent::default() };
        draft.writes.iter().for_each(|write| extent.add(&write.resource, write.namespace.as_deref()));
        draft.removals.iter().for_each(|gone| extent.add(&gone.resource, gone.namespace.as_deref()));
        set.write(session, &extent).await
    }
}

fn is_namespace(write: &Write, name: &str) -> bool {
    write.resource.word() == "namespace" && write.name == name && write.change.action == ObjectAction::Create
}

fn followed(namespace: Option<&String>, name: &str) -> Followed {
    Followed { namespace: namespace.cloned().unwrap_or_default(), name: name.to_owned() }
}

fn key(proposed: &ProposedSet) -> Key {
    Key { namespace: proposed.namespace.clone(), environment: proposed.environment.clone() }
}

fn name(set: &ChangeSet) -> String {
    set.metadata.name.clone().unwrap_or_default()
}

/// What is no longer as it was shown among the steps that need people, as a sentence.
fn moved(proposed: &ProposedSet, set: &ChangeSet) -> Option<String> {
    let steps = set.status.as_ref().map(|status| status.steps.as_slice()).unwrap_or_default();
    let is_there = |digest: &str| steps.iter().any(|step| step.digest == digest);
    let held = proposed.steps.iter().filter(|step| proposed.hold(&step.id).is_some());
    let changed: Vec<String> = held.filter(|step| !is_there(&step.digest)).map(|step| inert(&step.id)).collect();
    (!changed.is_empty()).then(|| {
        format!(
            "reality moved since the plan was shown: {} would not be what it was; nothing was written, plan again",
            changed.join(", ")
        )
    })
}

/// Whether people can still decide in a change set on every step that needs them: where one was done, or is not to be done
/// any more, an answer is of no use.
fn can_be_decided(proposed: &ProposedSet, set: &ChangeSet) -> bool {
    let states = set.status.as_ref().map(|status| status.step_states.as_slice()).unwrap_or_default();
    let is_over = |state: &StepStatus| state.spent || matches!(state.state, StepState::Done | StepState::Stale);
    let mut held = proposed.steps.iter().filter(|step| proposed.hold(&step.id).is_some());
    !held.any(|step| states.iter().any(|state| state.digest == step.digest && is_over(state)))
}

/// Takes back what nobody was shown. Who may not delete it is told that it stays: it gives no leave by itself.
async fn withdraw(session: &Session, set: &ChangeSet) {
    let namespace = set.metadata.namespace.as_deref().unwrap_or_default();
    let sets: Api<ChangeSet> = Api::namespaced(session.server.client.clone(), namespace);
    if let Err(error) = sets.delete(&name(set), &DeleteParams::default()).await {
        let why = session.server.unreachable(error);
        remark(&format!("the change set {} stays for an hour; it needs no answer ({why})", name(set)));
    }
}

/// Waits until an object is gone.
async fn gone(session: &Session, removal: &Removal) -> Result<bool> {
    let Resource { group, version, kind, plural, .. } = &removal.resource;
    let kind = GroupVersionKind::gvk(group, version, kind);
    let resource = ApiResource::from_gvk_with_plural(&kind, plural);
    let client = session.server.client.clone();
    let objects: Api<DynamicObject> = match &removal.namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &resource),
        None => Api::all_with(client, &resource),
    };
    let uid = removal.live["metadata"]["uid"].as_str().unwrap_or_default();
    await_condition(objects, &removal.name, conditions::is_deleted(uid)).await.context("cannot follow what goes")?;
    Ok(true)
}

async fn remove(session: &Session, removal: &Removal) -> Result<()> {
    let path = removal.resource.path(removal.namespace.as_deref(), Some(&removal.name));
    let options = json!({
        "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background",
        // Another object of the same name is not what was shown.
        "preconditions": {"uid": removal.live["metadata"]["uid"]},
    });
    let reply: Reply = session.server.send(Method::DELETE, &path, Some((JSON, &options))).await?;
    match reply {
        Reply::Refused(status) if status.code == 404 => Ok(()),
        reply => reply
            .object()
            .map(|_: Value| ())
            .with_context(|| format!("cannot delete {} {}", removal.change.kind, inert(&removal.change.title()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(name: &str) -> Value {
        json!({
            "id": format!("shop/{name}/delete"), "digest": format!("digest-of-{name}"), "action": "Delete",
            "target": {"namespace": "shop", "name": name, "kind": "Machine"}, "reason": "it goes", "origin": "Desired",
            "class": "Destructive", "classReason": "its data would be lost",
        })
    }

    #[test]
    fn who_asks_again_is_heard_where_an_answer_still_counts() {
        let hold = json!({"step": "shop/db/delete", "by": "1 person", "ownCounts": true, "ownSuffices": true, "signed": false});
        let proposed = json!({
            "namespace": "shop", "environment": "lab", "steps": [step("db"), step("web")], "holds": [hold],
        });
        let proposed: ProposedSet = serde_json::from_value(proposed).expect("a proposed set");
        let rows = [
            ("it waits", "db", "Waiting", false, true),
            ("it was rejected, and may be approved yet", "db", "Failed", false, true),
            ("it was done", "db", "Done", false, false),
            ("it is outdated", "db", "Stale", false, false),
            ("it was tried in vain", "db", "Running", true, false),
            ("one that needs nobody was done", "web", "Done", false, true),
        ];
        for (row, name, state, spent, expected) in rows {
            let state = json!({
                "id": format!("shop/{name}/delete"), "digest": format!("digest-of-{name}"), "state": state,
                "since": "2026-01-01T00:00:00Z", "spent": spent,
            });
            let set = json!({
                "apiVersion": "setpoint.dev/v1alpha1", "kind": "ChangeSet", "metadata": {"name": "apply-1"},
                "spec": {"environment": "lab", "mode": "Execute", "requestedBy": "carol"},
                "status": {"phase": "Running", "steps": [step("db"), step("web")], "stepStates": [state]},
            });
            let set: ChangeSet = serde_json::from_value(set).expect("a ChangeSet");
            assert_eq!(can_be_decided(&proposed, &set), expected, "{row}");
        }
    }
}
