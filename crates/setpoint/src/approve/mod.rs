//! `setpoint approve` and `setpoint reject`: a person's verdict on the steps of a change set.

mod policy;
mod review;
mod signature;
mod standing;

use anyhow::{Result, bail, ensure};
use clap::Args;
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};
use setpoint_api::change_set::{ChangeSet, Mode, StepState};
use setpoint_api::machine::Machine;
use setpoint_api::review::{Decision, Review};
use setpoint_api::step::Step;

pub(crate) use self::policy::Policy;
pub(crate) use self::review::{Judgement, Verdict, give};
pub(crate) use self::signature::Signer;
use self::standing::Left;
use crate::apply::agrees;
use crate::outcome::Outcome;
use crate::output::Output;
use crate::proposal::{holds, steps_text};
use crate::session::{Place, Session};
use crate::terminal::{inert, remark};

#[derive(Debug, Args)]
pub(crate) struct Approve {
    #[command(flatten)]
    verdict: Arguments,
}

#[derive(Debug, Args)]
pub(crate) struct Reject {
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
        self.verdict.place.run(async |session| self.verdict.give(session, Decision::Reject).await)
    }
}

impl Arguments {
    async fn give(&self, session: &Session, decision: Decision) -> Result<Outcome> {
        let (name, namespace) = (self.change_set.as_str(), session.server.namespace.as_str());
        // What a look has shown to wait is asked for by whoever acts, as soon as they have looked too.
        session.look().await?;
        let sets: Api<ChangeSet> = Api::namespaced(session.server.client.clone(), namespace);
        let found = sets.get_opt(name).await.map_err(|error| session.server.unreachable(error))?;
        let Some(set) = found else {
            let (name, hint) = (inert(name), hint(session).await);
            bail!("there is no change set {name:?} in namespace {}; {hint}", inert(namespace));
        };
        ensure!(
            set.spec.mode == Mode::Execute,
            "{} is a preview: nothing waits for it; `setpoint apply` asks for what it shows",
            inert(name)
        );
        if let Some(why) = self.outdated(&set) {
            bail!("{} is outdated: {}; {}", inert(name), inert(&why), hint(session).await);
        }
        let user = session.user().await?;
        let policy = Policy::of(session, &set.spec.environment).await?;
        let steps = self.steps(&set)?;
        let holds = holds(&steps, policy.approval(), &set.spec.requested_by);
        if steps.is_empty() {
            remark(&format!("no step of {name} waits for a verdict"));
            self.output.print(String::new, || Ok(data(&set, decision, &steps, None, &[])))?;
            return Ok(Outcome::Settled);
        }
        let head = format!(
            "{} in environment {}, asked for by {}\n",
            inert(name),
            inert(&set.spec.environment),
            inert(&set.spec.requested_by)
        );
        let stands = |step: &Step| Left::of(&set, step).map(Left::titled).into_iter().collect();
        self.output.show(&(head + &steps_text(&steps, stands, self.output.style()) + "\n"))?;
        let signer = self.sign.as_deref().map(|word| Signer::of(word, &policy.keys_of(&user))).transpose()?;
        // A rejection counts as an approval does: only if it is signed where signatures are asked for.
        if let Some(hold) = holds.iter().find(|hold| hold.signed).filter(|_| signer.is_none()) {
            bail!(
                "environment {} asks for a signature ({}); sign with --sign KEYFILE or --sign agent",
                inert(&set.spec.environment),
                inert(&hold.by)
            );
        }
        let verb = if decision == Decision::Approve { "Approve" } else { "Reject" };
        let count = if steps.len() == 1 { "this step".to_owned() } else { format!("these {} steps", steps.len()) };
        if !self.yes && !agrees(&format!("{verb} {count} as {}?", inert(&user))).await? {
            remark("nothing was said");
            return Ok(Outcome::Pending);
        }
        let digests = steps.iter().map(|step| step.digest.clone()).collect();
        let comment = self.comment.clone();
        let (change_set_uid, signer) = (set.metadata.uid.clone(), signer.as_ref());
        let verdict = Verdict { namespace, gate: name, change_set_uid, decision, digests, comment, signer };
        // Others may have said something while this was read.
        let before = sets.get_opt(name).await.ok().flatten().unwrap_or_else(|| set.clone());
        let judgement = give(session, &user, verdict).await?;
        // It gives no leave, but it takes the rejection back that it comes after.
        let is_approval = decision == Decision::Approve;
        if is_approval && judgement.is_outdated() && Left::is_taken_back(session, &before, &steps).await {
            let name = inert(name);
            let text = || format!("took back the rejection of {count} of {name}; people are asked anew\n");
            self.output.print(text, || Ok(data(&set, decision, &steps, None, &[])))?;
            return Ok(Outcome::Pending);
        }
        let review = judgement.counted()?;
        let done = if decision == Decision::Approve { "approved" } else { "rejected" };
        let left = match decision {
            Decision::Approve => {
                let left = Left::after(session, &before, &steps).await;
                // The control plane of this process ends with it.
                match left.is_empty() && session.here.is_some() {
                    true => Left::under_way(session, &before, &steps).await,
                    false => left,
                }
            }
            Decision::Reject | Decision::Comment => Vec::new(),
        };
        let rest: String = left.iter().map(|left| format!("; {}", inert(&left.sentence()))).collect();
        let text = || format!("{done} {count} of {}{rest}\n", inert(name));
        self.output.print(text, || Ok(data(&set, decision, &steps, Some(&review), &left)))?;
        Ok(Outcome::pending_if(!left.is_empty()))
    }

    /// Why nobody is to decide on what is meant, if nobody is: all that is left of it is stale.
    fn outdated(&self, set: &ChangeSet) -> Option<String> {
        let status = set.status.as_ref()?;
        let meant = status.step_states.iter().filter(|state| self.step.is_empty() || self.step.contains(&state.id));
        let left = || meant.clone().filter(|state| state.state != StepState::Done);
        let is_outdated = left().next().is_some() && left().all(|state| state.state == StepState::Stale);
        let why = || left().find_map(|state| state.message.clone()).unwrap_or_default();
        is_outdated.then(why)
    }

    /// The steps that are meant: those that are named, or all that are neither done nor stale. Who rejected one may think
    /// better of it.
    fn steps(&self, set: &ChangeSet) -> Result<Vec<Step>> {
        let status = set.status.clone().unwrap_or_default();
        if let Some(unknown) = self.step.iter().find(|id| !status.steps.iter().any(|step| step.id == **id)) {
            let known: Vec<String> = status.steps.iter().map(|step| inert(&step.id)).collect();
            bail!("there is no step {:?}; the steps are {}", inert(unknown), known.join(", "));
        }
        let is_over = |step: &Step| {
            let state = status.step_states.iter().find(|state| state.id == step.id).map(|state| state.state);
            matches!(state, Some(StepState::Done | StepState::Stale))
        };
        let is_meant = |step: &Step| match self.step.is_empty() {
            true => !is_over(step),
            false => self.step.contains(&step.id),
        };
        Ok(status.steps.iter().filter(|step| is_meant(step)).cloned().collect())
    }
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
fn data(set: &ChangeSet, decision: Decision, steps: &[Step], review: Option<&Review>, left: &[Left]) -> Value {
    let left: Vec<Value> = left.iter().map(|left| json!({"step": left.step, "message": left.why})).collect();
    json!({
        "changeSet": {"namespace": set.metadata.namespace, "name": set.metadata.name},
        "environment": set.spec.environment,
        "decision": decision,
        "steps": steps,
        "review": review.and_then(|review| review.metadata.name.as_deref()),
        "waiting": left,
    })
}
