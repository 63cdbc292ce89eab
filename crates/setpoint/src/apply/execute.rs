//! Carries out what was agreed to: asks leave for the steps that need it, writes the objects as the user, and removes what
//! is to go.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail};
use http::Method;
use kube::Api;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use setpoint_api::change_set::{ChangeSet, Mode};
use setpoint_api::review::Decision;

use super::apply_set::{ApplySet, Extent};
use super::draft::{Draft, GROUND, Removal, Write};
use super::follow::{Aim, Followed};
use super::preview::{Key, planned, post, questions};
use crate::approve::{self, Policy, Signer, Verdict, judged};
use crate::client::Reply;
use crate::get::JSON;
use crate::proposal::{ObjectAction, Proposal, ProposedSet};
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
        self.ask_leave(session, draft, shown).await?;
        let before = self.widen(session, draft).await?;
        let mut aims = BTreeMap::new();
        for write in &draft.writes {
            let written = write.send(session, self.force).await?;
            if write.is_machine() {
                let generation = written["metadata"]["generation"].as_i64().unwrap_or_default();
                aims.insert(followed(write.namespace.as_ref(), &write.name), Aim::Synced { generation });
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

    /// Removes what others stood on, once they are gone.
    pub(crate) async fn clear(&self, session: &Session, draft: &Draft) -> Result<()> {
        for removal in draft.removals.iter().filter(|removal| removal.is_ground()) {
            remove(session, removal).await?;
        }
        Ok(())
    }

    /// Writes only what other objects stand on, so that those can be planned.
    pub(crate) async fn lay_ground(&self, session: &Session, draft: &Draft) -> Result<()> {
        for write in draft.writes.iter().filter(|write| write.rank <= GROUND) {
            write.send(session, self.force).await?;
        }
        Ok(())
    }

    /// A change set for every environment where people must agree, with the agreement of who asks.
    async fn ask_leave(&self, session: &Session, draft: &Draft, shown: &Proposal) -> Result<()> {
        let questions = questions(draft);
        for proposed in shown.change_sets.iter().filter(|set| !set.holds.is_empty()) {
            let key = Key { namespace: proposed.namespace.clone(), environment: proposed.environment.clone() };
            let question = questions.get(&key).context("a proposed change set has objects")?;
            let made = post(session, &key, question, self.user, Mode::Execute).await?;
            let set = planned(session, &made).await?;
            if let Err(error) = still_as_shown(proposed, &set) {
                let sets: Api<ChangeSet> = Api::namespaced(session.server.client.clone(), &key.namespace);
                // What nobody approves does nothing.
                let _ = sets.delete(&name(&set), &DeleteParams::default()).await;
                return Err(error);
            }
            self.consent(session, proposed, &set).await?;
        }
        Ok(())
    }

    /// The approval of who asks, where it counts: the prompt was answered for exactly these steps.
    async fn consent(&self, session: &Session, proposed: &ProposedSet, set: &ChangeSet) -> Result<()> {
        let may = |signed: bool| !signed || self.sign.is_some();
        let held = proposed.steps.iter().filter_map(|step| Some((step, proposed.hold(&step.id)?)));
        let own = held.filter(|(_, hold)| hold.own_counts && may(hold.signed));
        let digests: Vec<String> = own.map(|(step, _)| step.digest.clone()).collect();
        let name = name(set);
        if digests.len() < proposed.holds.len() {
            let namespace = inert(&proposed.namespace);
            remark(&format!("others must approve: `setpoint approve {} -n {namespace}`", inert(&name)));
        }
        if digests.is_empty() {
            return Ok(());
        }
        let listed = Policy::of(session, &proposed.environment).await?.keys_of(self.user);
        let signer = self.sign.map(|word| Signer::of(word, &listed)).transpose()?;
        let verdict = Verdict {
            namespace: &proposed.namespace,
            gate: &name,
            change_set_uid: set.metadata.uid.clone(),
            decision: Decision::Approve,
            digests,
            comment: None,
            signer: signer.as_ref(),
        };
        let review = approve::post(session, self.user, verdict).await?;
        judged(session, &review).await
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

fn name(set: &ChangeSet) -> String {
    set.metadata.name.clone().unwrap_or_default()
}

/// Every step that was shown and needs people must be there as it was shown.
fn still_as_shown(proposed: &ProposedSet, set: &ChangeSet) -> Result<()> {
    let steps = set.status.as_ref().map(|status| status.steps.as_slice()).unwrap_or_default();
    let is_there = |digest: &str| steps.iter().any(|step| step.digest == digest);
    let held = proposed.steps.iter().filter(|step| proposed.hold(&step.id).is_some());
    let changed: Vec<String> = held.filter(|step| !is_there(&step.digest)).map(|step| inert(&step.id)).collect();
    if changed.is_empty() {
        return Ok(());
    }
    bail!(
        "reality moved since the plan was shown: {} would not be what it was; nothing was written, plan again",
        changed.join(", ")
    )
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
