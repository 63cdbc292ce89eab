//! `setpoint approve` and `setpoint reject`: a person's verdict on steps that a change set lists.

mod approver;
mod policy;
mod review;

use std::time::Duration;

use anyhow::{Result, bail, ensure};
use clap::Args;
use kube::api::ListParams;
use kube::runtime::wait::await_condition;
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use setpoint_api::change_set::{ChangeSet, Entry, EntryState, Mode};
use setpoint_api::environment::{Approval, Requirement};
use setpoint_api::machine::Machine;
use setpoint_api::review::Decision;
use setpoint_api::step::Step;
use setpoint_core::count::counted;

pub(crate) use self::approver::Approver;
pub(crate) use self::policy::Policy;
use self::review::{Verdict, give};
use crate::outcome::Outcome;
use crate::output::Output;
use crate::proposal::steps_text;
use crate::session::{Place, Session};
use crate::signature::Signer;
use crate::terminal::{agrees, inert, remark};

/// How long it may take until a verdict shows in the change set. Where it changes nothing, so long is waited.
const MOMENT: Duration = Duration::from_secs(3);
/// How long what was approved is followed where nobody else would carry it out.
const CARRYING_OUT: Duration = Duration::from_secs(60);

#[derive(Debug, Args)]
pub(crate) struct Approve {
    #[command(flatten)]
    verdict: Arguments,
}

#[derive(Debug, Args)]
pub(crate) struct Reject {
    /// Take rejections back: yours, or those of others if you may approve
    #[arg(long)]
    withdraw: bool,
    #[command(flatten)]
    verdict: Arguments,
}

#[derive(Debug, Args)]
struct Arguments {
    /// The change set; `setpoint status` lists those that wait
    change_set: String,
    /// Only this step, by its id; may be repeated
    #[arg(long, value_name = "ID")]
    step: Vec<String>,
    /// Why, for whoever reads it later
    #[arg(long, value_name = "TEXT")]
    comment: Option<String>,
    /// Sign with this SSH key: its file, or `agent` for one that ssh-agent holds
    #[arg(long, value_name = "KEYFILE|agent")]
    sign: Option<String>,
    /// Do not ask
    #[arg(short = 'y', long)]
    yes: bool,
    /// The form to print the verdict in
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
    #[command(flatten)]
    place: Place,
}

impl Approve {
    pub(crate) fn run(&self) -> Result<Outcome> {
        self.verdict.place.run(async |session| self.verdict.give(session, Decision::Approve).await)
    }
}

impl Reject {
    pub(crate) fn run(&self) -> Result<Outcome> {
        let decision = if self.withdraw { Decision::Withdraw } else { Decision::Reject };
        self.verdict.place.run(async |session| self.verdict.give(session, decision).await)
    }
}

/// What a step is in a change set. One that no controller has judged yet waits.
fn state(set: &ChangeSet, step: &Step) -> EntryState {
    entry(set, step).map_or(EntryState::Waiting, |entry| entry.state)
}

fn message<'a>(set: &'a ChangeSet, step: &Step) -> Option<&'a str> {
    entry(set, step)?.message.as_deref()
}

fn entry<'a>(set: &'a ChangeSet, step: &Step) -> Option<&'a Entry> {
    set.status.as_ref()?.entries.iter().find(|entry| entry.digest == step.digest)
}

/// What the approval of a step takes: each of its classes has a rule of its own.
fn requirements<'a>(approval: &'a Approval, step: &Step) -> impl Iterator<Item = Requirement<'a>> {
    let needed = step.classes().into_iter().map(|class| approval.requirement(class));
    needed.filter(|needed| needed.approvals > 0)
}

/// `waits: 1 of 2 approvals, not by carol`.
fn stands(set: &ChangeSet, step: &Step) -> String {
    let state = state(set, step);
    message(set, step).map_or_else(|| state.to_string(), |why| format!("{state}: {why}"))
}

impl Arguments {
    async fn give(&self, session: &Session, decision: Decision) -> Result<Outcome> {
        // What a look has shown to wait is asked for by whoever acts, as soon as they have looked too.
        session.look().await?;
        let set = self.found(session).await?;
        let (name, user) = (inert(&self.change_set), session.user().await?);
        let steps = self.steps(&set, decision)?;
        if steps.is_empty() {
            let what = if decision == Decision::Withdraw { "is rejected" } else { "waits for a verdict" };
            remark(&format!("no step of {name} {what}"));
            self.output.print(String::new, || Ok(data(&set, decision, &steps, None, &set)))?;
            return Ok(Outcome::Settled);
        }
        let (environment, asks) = (inert(&set.spec.environment), inert(&set.spec.requested_by));
        let head = format!("{name} in environment {environment}, asked for by {asks}\n");
        let told = |step: &Step| vec![("state:", stands(&set, step))];
        self.output.show(&(head + &steps_text(&steps, told, self.output.style()) + "\n"))?;
        let signer = self.signer(session, &set, &steps, &user).await?;
        let (ask, done) = match decision {
            Decision::Approve => ("Approve", "approved"),
            Decision::Withdraw => ("Take back the rejection of", "took back the rejection of"),
            Decision::Reject | Decision::Comment => ("Reject", "rejected"),
        };
        let count =
            if steps.len() == 1 { "this step".to_owned() } else { format!("these {}", counted(steps.len(), "step")) };
        if !self.yes && !agrees(&format!("{ask} {count} as {}?", inert(&user))).await? {
            remark("nothing was said");
            return Ok(Outcome::Pending);
        }
        let digests = steps.iter().map(|step| step.digest.clone()).collect();
        let (comment, signer) = (self.comment.clone(), signer.as_ref());
        let verdict = Verdict { set: &set, decision, digests, comment, signer };
        let review = give(session, &user, verdict).await?.counted()?;
        let now = after(session, &set, &steps, decision).await;
        let is_approval = decision == Decision::Approve;
        let left: Vec<&Step> = steps.iter().filter(|step| is_approval && is_left(session, &now, step)).collect();
        let rest: String = left.iter().map(|step| inert(&format!("; {} {}", step.id, stands(&now, step)))).collect();
        let text = || format!("{done} {count} of {name}{rest}\n");
        self.output.print(text, || Ok(data(&set, decision, &steps, Some(&review.name_any()), &now)))?;
        Ok(Outcome::pending_if(!left.is_empty()))
    }

    async fn found(&self, session: &Session) -> Result<ChangeSet> {
        let (name, namespace) = (self.change_set.as_str(), session.server.namespace.as_str());
        let sets: Api<ChangeSet> = Api::namespaced(session.server.client.clone(), namespace);
        let found = sets.get_opt(name).await.map_err(|error| session.server.unreachable(error))?;
        let Some(set) = found else {
            let (name, hint) = (inert(name), hint(session).await);
            bail!("there is no change set {name:?} in namespace {}; {hint}", inert(namespace));
        };
        ensure!(
            set.spec.mode == Mode::Execute,
            "{} is a preview: nothing waits for it; `setpoint apply` writes what it shows, and then its steps are asked for",
            inert(name)
        );
        Ok(set)
    }

    /// The steps that are meant: those that are named, or all that the decision can be about.
    fn steps(&self, set: &ChangeSet, decision: Decision) -> Result<Vec<Step>> {
        if let Some(unknown) = self.step.iter().find(|id| !set.spec.steps.iter().any(|step| step.id == **id)) {
            let known: Vec<String> = set.spec.steps.iter().map(|step| inert(&step.id)).collect();
            bail!("there is no step {:?}; the steps are {}", inert(unknown), known.join(", "));
        }
        let (name, namespace) = (inert(&self.change_set), inert(&set.namespace().unwrap_or_default()));
        let (mut meant, mut rejected) = (Vec::new(), Vec::new());
        for step in set.spec.steps.iter().filter(|step| self.step.is_empty() || self.step.contains(&step.id)) {
            match (state(set, step), decision) {
                (state, _) if state.is_closed() && !self.step.is_empty() => {
                    let stands = inert(&stands(set, step));
                    bail!("{} is closed ({stands}): nothing is done by its approvals any more", inert(&step.id))
                }
                (state, _) if state.is_closed() => {}
                (EntryState::Rejected, Decision::Approve) => rejected.push(step),
                (EntryState::Rejected, _) => meant.push(step.clone()),
                (_, Decision::Withdraw) => {}
                _ => meant.push(step.clone()),
            }
        }
        if let Some(first) = rejected.first() {
            let (id, why) = (inert(&first.id), inert(&stands(set, first)));
            let withdraw = format!("`setpoint reject --withdraw {name} -n {namespace} --step {id}`");
            ensure!(
                self.step.is_empty() && !meant.is_empty(),
                "{id} is {why}; {withdraw} takes the rejection back, and then it can be approved"
            );
            let are = if rejected.len() == 1 { "step is" } else { "steps are" };
            remark(&format!("{} {are} left out as rejected, such as {id}; {withdraw} takes that back", rejected.len()));
        }
        Ok(meant)
    }

    /// What to sign with. A rejection counts as an approval does: only if it is signed where signatures are asked for.
    async fn signer(&self, session: &Session, set: &ChangeSet, steps: &[Step], user: &str) -> Result<Option<Signer>> {
        let environment = &set.spec.environment;
        if let Some(word) = &self.sign {
            let policy = Policy::of(session, environment).await?;
            return Signer::of(word, &policy.keys_of(user)).map(Some);
        }
        let rules = Approval { rules: set.spec.rules.clone(), keys: Vec::new() };
        let is_signed = |step: &&Step| requirements(&rules, step).any(|needed| needed.signature);
        if let Some(step) = steps.iter().find(is_signed) {
            let (environment, id) = (inert(environment), inert(&step.id));
            bail!("environment {environment} asks for a signature for {id}; sign with --sign KEYFILE or --sign agent");
        }
        Ok(None)
    }
}

/// Whether something is left to be done before a step that was approved is taken. Where the control plane ends with the
/// command, that is all that is not over.
fn is_left(session: &Session, set: &ChangeSet, step: &Step) -> bool {
    match state(set, step) {
        EntryState::Waiting | EntryState::Rejected => true,
        state => session.here.is_some() && !state.is_closed(),
    }
}

/// The change set once a verdict shows in it, as far as that can be read. Where nobody else would carry the steps out, they
/// are followed for a while.
async fn after(session: &Session, before: &ChangeSet, steps: &[Step], decision: Decision) -> ChangeSet {
    let sets: Api<ChangeSet> = Api::namespaced(session.server.client.clone(), &before.namespace().unwrap_or_default());
    let name = before.name_any();
    let told = |set: &ChangeSet| steps.iter().map(|step| stands(set, step)).collect::<Vec<_>>();
    let was = told(before);
    let is_news = |set: Option<&ChangeSet>| set.is_none_or(|set| told(set) != was);
    let is_over = |set: Option<&ChangeSet>| {
        set.is_none_or(|set| {
            let is_asked = |step: &Step| matches!(state(set, step), EntryState::Waiting | EntryState::Rejected);
            steps.iter().all(|step| state(set, step).is_closed() || is_asked(step))
        })
    };
    let _ = tokio::time::timeout(MOMENT, await_condition(sets.clone(), &name, is_news)).await;
    if session.here.is_some() && decision == Decision::Approve {
        let _ = tokio::time::timeout(CARRYING_OUT, await_condition(sets.clone(), &name, is_over)).await;
    }
    let now = sets.get_opt(&name).await.ok().flatten().filter(|now| now.metadata.uid == before.metadata.uid);
    now.unwrap_or_else(|| before.clone())
}

/// Where those are listed that wait. Who reviews may not be able to read the Machines, and `setpoint status` shows them too.
async fn hint(session: &Session) -> String {
    let namespace = &session.server.namespace;
    let machines: Api<Machine> = Api::namespaced(session.server.client.clone(), namespace);
    match machines.list(&ListParams::default().limit(1)).await {
        Err(kube::Error::Api(status)) if status.code == 403 => {
            format!("`kubectl get gates -n {}` lists those that wait", inert(namespace))
        }
        _ => "`setpoint status` lists those that wait".to_owned(),
    }
}

/// A verdict for programs; without a review where there was nothing to say.
fn data(set: &ChangeSet, decision: Decision, steps: &[Step], review: Option<&str>, now: &ChangeSet) -> Value {
    let entry = |step: &Step| json!({"step": step.id, "state": state(now, step), "message": message(now, step)});
    json!({
        "changeSet": {"namespace": set.metadata.namespace, "name": set.metadata.name},
        "environment": set.spec.environment,
        "decision": decision,
        "steps": steps,
        "review": review,
        "entries": steps.iter().map(entry).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(states: &[(&str, &str)]) -> ChangeSet {
        let step = |name: &str| {
            json!({
                "id": format!("shop/{name}/delete"), "digest": name, "action": "Delete", "reason": "it goes",
                "target": {"namespace": "shop", "name": name, "kind": "Machine"}, "class": "Destructive",
                "classReason": "its data would be lost", "origin": "Desired",
            })
        };
        let steps: Vec<Value> = states.iter().map(|(name, _)| step(name)).collect();
        let entry = |(name, state): &(&str, &str)| json!({"digest": name, "state": state, "message": "so", "since": "2026-01-01T00:00:00Z"});
        let entries: Vec<Value> = states.iter().map(entry).collect();
        let set = json!({
            "apiVersion": "setpoint.dev/v1alpha1", "kind": "ChangeSet", "metadata": {"name": "lab-1", "namespace": "shop"},
            "spec": {"environment": "lab", "mode": "Execute", "requestedBy": "carol", "steps": steps},
            "status": {"entries": entries},
        });
        serde_json::from_value(set).expect("a ChangeSet")
    }

    fn meant(set: &ChangeSet, named: &[&str], decision: Decision) -> String {
        use clap::Parser as _;
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            arguments: Arguments,
        }
        let steps = named.iter().map(|name| format!("--step=shop/{name}/delete"));
        let line = ["setpoint".to_owned(), "lab-1".to_owned()].into_iter().chain(steps);
        let arguments = Line::try_parse_from(line).expect("arguments").arguments;
        match arguments.steps(set, decision) {
            Ok(steps) => steps.iter().map(|step| step.digest.as_str()).collect::<Vec<_>>().join(" "),
            Err(error) => format!("error: {error}"),
        }
    }

    #[test]
    fn a_verdict_is_about_steps_that_are_open() {
        let all = set(&[("a", "Waiting"), ("b", "Rejected"), ("c", "Done"), ("d", "Approved"), ("e", "Superseded")]);
        let rejected = set(&[("b", "Rejected"), ("c", "Done")]);
        let refused = "error: shop/b/delete is rejected: so; `setpoint reject --withdraw lab-1 -n shop --step shop/b/delete` \
                       takes the rejection back, and then it can be approved";
        let closed = "error: shop/c/delete is closed (done: so): nothing is done by its approvals any more";
        let unknown = "error: there is no step \"shop/x/delete\"; the steps are shop/b/delete, shop/c/delete";
        let rows = [
            ("what is rejected is left out", &all, &[][..], Decision::Approve, "a d"),
            ("nothing else is left", &rejected, &[], Decision::Approve, refused),
            ("what is rejected is named", &all, &["b"], Decision::Approve, refused),
            ("what is closed is named", &all, &["c"], Decision::Approve, closed),
            ("all that is open is rejected", &all, &[], Decision::Reject, "a b d"),
            ("a rejection is taken back", &all, &[], Decision::Withdraw, "b"),
            ("a step that there is not", &rejected, &["x"], Decision::Reject, unknown),
        ];
        for (row, set, named, decision, expected) in rows {
            assert_eq!(meant(set, named, decision), expected, "{row}");
        }
    }
}
