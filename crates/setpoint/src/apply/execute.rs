//! Carries out what was agreed to: writes the objects as the user, removes what is to go, and follows the Machines, with the
//! user's approval of the steps that were shown.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result};
use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::wait::{await_condition, conditions};
use setpoint_api::step::{Action, Class, Step};
use tokio::time::Instant;

use crate::approve::Approver;
use crate::follow::{Aim, Followed, Followup, follow};
use crate::objects::{ApplySet, Draft, Extent, GROUND, ObjectAction, Removal, Write};
use crate::proposal::Proposal;
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
    /// How long what was begun is followed.
    pub(crate) patience: Duration,
}

/// Whether a step deletes or replaces a guest, or destroys data in another way.
pub(crate) fn destroys(step: &Step) -> bool {
    let is_removal = matches!(step.action, Action::Delete | Action::Replace);
    is_removal || (step.class == Class::Destructive && step.action != Action::Adopt)
}

impl Execution<'_> {
    /// Writes, follows with the approval of what was shown, and clears what others stood on.
    pub(crate) async fn run(&self, session: &Session, draft: &Draft, shown: &Proposal) -> Result<Followup> {
        let aims = self.write(session, draft).await?;
        let steps = shown.change_sets.iter().flat_map(|set| &set.steps);
        let approved = steps.filter(|step| !draft.keeps || !destroys(step));
        let mut followup = Followup::default();
        if !aims.is_empty() {
            let approver = Approver::new(session, self.user, self.sign, approved);
            followup = follow(session, aims, Some(approver), self.patience).await?;
        }
        let grounds: Vec<&Removal> = draft.removals.iter().filter(|removal| removal.change.is_ground()).collect();
        // A Machine whose deletion was refused is there as much as one whose deletion waits.
        if followup.is_done() {
            followup.leaving = self.clear(session, &grounds).await?;
        } else if !grounds.is_empty() {
            let titles: Vec<String> = grounds.iter().map(|removal| inert(&removal.change.title())).collect();
            remark(&format!("{} stays until the Machines are gone; say it again then", titles.join(", ")));
        }
        Ok(followup)
    }

    /// Writes and removes it all in order but for what others stand on, and returns the Machines to follow.
    async fn write(&self, session: &Session, draft: &Draft) -> Result<BTreeMap<Followed, Aim>> {
        let before = self.widen(session, draft).await?;
        let mut aims = BTreeMap::new();
        for write in &draft.writes {
            let written = write.send(session, self.force).await?;
            if write.is_machine() {
                aims.insert(followed(write.namespace.as_ref(), &write.name), Aim::of(&written["metadata"]));
            }
        }
        for removal in draft.removals.iter().filter(|removal| !removal.change.is_ground()) {
            removal.send(session).await?;
            if removal.is_machine() {
                aims.insert(followed(removal.namespace.as_ref(), &removal.name), Aim::Gone);
            }
        }
        self.narrow(session, draft, before).await?;
        Ok(aims)
    }

    /// Removes what others stood on, once they are gone. Says what is still there after a while.
    async fn clear(&self, session: &Session, grounds: &[&Removal]) -> Result<Vec<String>> {
        for removal in grounds {
            removal.send(session).await?;
        }
        let deadline = Instant::now().checked_add(self.patience);
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
        let mut extent = if self.is_partial || draft.keeps { before } else { Extent::default() };
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_destroys_is_told_by_what_it_does_and_by_what_is_lost() {
        let rows = [
            ("Delete", "Benign", true),
            ("Replace", "Disruptive", true),
            ("Update", "Destructive", true),
            ("Adopt", "Destructive", false),
            ("Update", "Disruptive", false),
            ("Create", "Spend", false),
            ("Release", "Spend", false),
        ];
        for (action, class, expected) in rows {
            let step = json!({
                "id": "shop/db/x", "digest": "d", "action": action, "reason": "", "origin": "Desired", "class": class,
                "classReason": "", "target": {"namespace": "shop", "name": "db", "kind": "Machine"},
            });
            let step: Step = serde_json::from_value(step).expect("a step");
            assert_eq!(destroys(&step), expected, "{action} {class}");
        }
    }
}
