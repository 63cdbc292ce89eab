//! `setpoint apply`: shows what would change, asks, writes the objects as the user, and follows until nothing moves.

mod apply_set;
mod draft;
mod execute;
mod follow;
mod leaving;
mod preview;
mod progress;
mod prompt;
mod selection;
mod standing;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use clap::Args;
use kube::Api;
use kube::runtime::wait::await_condition;
use serde_json::{Value, json};
use setpoint_api::condition::ConditionStatus;
use setpoint_api::environment::Environment;
use setpoint_api::step::Counts;

pub(crate) use self::apply_set::{ApplySet, PART_OF};
pub(crate) use self::draft::{Draft, Request, draft, removals};
pub(crate) use self::execute::Execution;
pub(crate) use self::follow::{Followed, Followup, follow};
pub(crate) use self::preview::propose;
use self::prompt::Consented;
pub(crate) use self::prompt::agrees;
pub(crate) use self::selection::Selection;
pub(crate) use self::standing::{Aim, NOT_LOOKED_AT, condition, is_behind};
use crate::document::Files;
use crate::manifest::Manifest;
use crate::outcome::Outcome;
use crate::output::Output;
use crate::proposal::{Proposal, Saved, differences};
use crate::session::{Place, Session};
use crate::terminal::{inert, remark};

/// How long a new environment may take to answer before its Machines are planned.
const CONNECTING: Duration = Duration::from_secs(30);

#[derive(Debug, Args)]
pub(crate) struct Apply {
    /// A plan that `setpoint plan --out` saved: it is applied if it still holds, without asking
    #[arg(value_name = "PLAN", conflicts_with_all = ["paths", "set", "target", "exclude"])]
    plan: Option<PathBuf>,
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    consent: Consent,
    /// The form to print what was done in
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
    #[command(flatten)]
    place: Place,
}

/// What is applied.
#[derive(Debug, Args)]
pub(crate) struct Source {
    #[command(flatten)]
    pub(crate) files: Files,
    /// The apply set that the files are: what is no longer in them is deleted, through the gate
    #[arg(long, value_name = "NAME")]
    pub(crate) set: Option<String>,
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// Take over fields that others own
    #[arg(long)]
    pub(crate) force_conflicts: bool,
}

/// How a person agrees, and how long they wait.
#[derive(Debug, Args)]
pub(crate) struct Consent {
    /// Do not ask
    #[arg(short = 'y', long)]
    pub(crate) yes: bool,
    /// Sign your approval with this SSH key: its file, or `agent` for one that ssh-agent holds
    #[arg(long, value_name = "KEYFILE|agent")]
    pub(crate) sign: Option<String>,
    /// How long to follow what was begun
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    pub(crate) timeout: u64,
}

impl Source {
    pub(crate) fn apply_set(&self, session: &Session) -> Option<ApplySet> {
        let namespace = session.server.namespace.clone();
        self.set.clone().map(|name| ApplySet { name, namespace })
    }

    pub(crate) fn manifests(&self) -> Result<Vec<Manifest>> {
        ensure!(
            !self.files.paths.is_empty(),
            "nothing to read: name files or folders with -f, or - for standard input"
        );
        Manifest::read(&self.files)
    }

    /// What the objects ask for, and what that would change.
    pub(crate) async fn propose(
        &self,
        session: &Session,
        manifests: &[Manifest],
        set: Option<&ApplySet>,
        user: &str,
    ) -> Result<(Draft, Proposal)> {
        let request =
            Request { manifests: manifests.to_vec(), set, selection: &self.selection, force: self.force_conflicts };
        let mut draft = draft(session, request).await?;
        let proposal = propose(session, &mut draft, user).await?;
        Ok((draft, proposal))
    }
}

impl Apply {
    pub(crate) fn run(&self) -> Result<Outcome> {
        let saved = self.plan.as_deref().map(Saved::read).transpose()?;
        let reads_input = self.source.files.paths.iter().any(|path| path.as_os_str() == "-");
        ensure!(self.consent.yes || !reads_input, "standard input holds the objects, so nobody can be asked; say -y");
        let manifests = match &saved {
            Some(saved) => saved_manifests(saved)?,
            None => self.source.manifests()?,
        };
        self.place.run(async |session| self.apply(session, manifests, saved).await)
    }

    async fn apply(&self, session: &Session, manifests: Vec<Manifest>, saved: Option<Saved>) -> Result<Outcome> {
        let user = session.user().await?;
        let set = match &saved {
            Some(saved) => saved.set.clone().map(|(namespace, name)| ApplySet { name, namespace }),
            None => self.source.apply_set(session),
        };
        let (mut draft, mut proposal) = self.source.propose(session, &manifests, set.as_ref(), &user).await?;
        if let Some(saved) = &saved {
            still_holds(session, saved, &draft, &proposal).await?;
        }
        self.output.show(&proposal.text(self.output.style()))?;
        no_refusals(&proposal)?;
        if !proposal.has_changes() {
            report_nothing(self.output, &proposal)?;
            return Ok(Outcome::pending_if(proposal.is_stuck()));
        }
        let agreed = self.consent.yes || saved.is_some();
        if !agreed && !agrees("Apply these changes?").await? {
            remark("nothing was changed");
            return Ok(Outcome::Pending);
        }
        let execution = Execution {
            user: &user,
            set: set.as_ref(),
            force: self.source.force_conflicts,
            sign: self.consent.sign.as_deref(),
            is_partial: self.source.selection.is_partial(),
        };
        if draft.writes.iter().any(|write| write.is_machine() && write.change.note.is_some()) {
            execution.lay_ground(session, &draft).await?;
            connected(session, &draft).await;
            let shown = proposal;
            (draft, proposal) = self.source.propose(session, &manifests, set.as_ref(), &user).await?;
            no_refusals(&proposal)?;
            let consented = Consented::to(&proposal, &shown, self.consent.yes, saved.is_some());
            remark("what the Machines need can be told now:");
            self.output.show(&proposal.text(self.output.style()))?;
            // What was written meanwhile is a part of what is done.
            proposal.objects = shown.objects;
            match consented {
                Consented::Yes => {}
                Consented::Ask if agrees("Apply these changes too?").await? => {}
                Consented::Ask => {
                    remark("the objects above were written, and no Machine");
                    return Ok(Outcome::Pending);
                }
                Consented::No => {
                    remark("the saved plan does not show what needs approval here; no Machine was written, plan again");
                    return Ok(Outcome::Pending);
                }
            }
        }
        let followup = carry_out(session, &execution, &draft, &proposal, self.consent.timeout).await?;
        report(self.output, "Applied", &proposal, &followup)
    }
}

/// Executes, follows, and clears what others stood on.
pub(crate) async fn carry_out(
    session: &Session,
    execution: &Execution<'_>,
    draft: &Draft,
    proposal: &Proposal,
    timeout: u64,
) -> Result<Followup> {
    let aims = execution.run(session, draft, proposal).await?;
    let patience = Duration::from_secs(timeout);
    let mut followup = match aims.is_empty() {
        true => Followup::default(),
        false => follow(session, aims, patience).await?,
    };
    let grounds: Vec<String> = draft
        .removals
        .iter()
        .filter(|removal| removal.is_ground())
        .map(|removal| inert(&removal.change.title()))
        .collect();
    // A Machine whose deletion was refused is there as much as one whose deletion waits.
    if followup.is_done() {
        followup.leaving = execution.clear(session, draft, patience).await?;
    } else if !grounds.is_empty() {
        remark(&format!("{} stays until the Machines are gone; say it again then", grounds.join(", ")));
    }
    Ok(followup)
}

/// Says what became of it, and how the command ends.
pub(crate) fn report(output: Output, verb: &str, proposal: &Proposal, followup: &Followup) -> Result<Outcome> {
    let done = proposal.done(|namespace, name| followup.has_done(namespace, name), followup.is_done());
    let text = || {
        let parts = [(done.creates, "created"), (done.updates, "changed"), (done.deletes, "deleted")];
        let parts: Vec<String> =
            parts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
        let parts = if parts.is_empty() { "nothing yet".to_owned() } else { parts.join(", ") };
        format!("{verb}: {parts}{}\n", followup.rest())
    };
    output.print(text, || Ok(data(proposal, done, followup)))?;
    followup.no_failures()?;
    Ok(Outcome::pending_if(!followup.is_done()))
}

/// Says that there was nothing to do, to programs: people have read it.
pub(crate) fn report_nothing(output: Output, proposal: &Proposal) -> Result<()> {
    output.print(String::new, || Ok(data(proposal, Counts::default(), &Followup::default())))
}

fn data(proposal: &Proposal, done: Counts, followup: &Followup) -> Value {
    let done = json!({"creates": done.creates, "updates": done.updates, "deletes": done.deletes});
    json!({"proposal": proposal, "done": done, "machines": followup.data()})
}

/// Says how far Machines are.
pub(crate) fn report_of(output: Output, followup: &Followup) -> Result<Outcome> {
    output.print(|| followup.lines(), || Ok(json!({"machines": followup.data()})))?;
    followup.no_failures()?;
    Ok(Outcome::pending_if(!followup.is_done()))
}

/// What cannot be as it is written is not written.
fn no_refusals(proposal: &Proposal) -> Result<()> {
    match proposal.change_sets.iter().flat_map(|set| &set.refused).next() {
        Some(refusal) => {
            let (target, field) = (inert(&refusal.target.to_string()), inert(&refusal.field));
            bail!("{target} cannot be as it is written: {field}: {}; no Machine was written", inert(&refusal.message))
        }
        None => Ok(()),
    }
}

/// A plan is applied only as it was saved, and where.
async fn still_holds(session: &Session, saved: &Saved, draft: &Draft, now: &Proposal) -> Result<()> {
    ensure!(session.cluster().await? == saved.cluster, "the plan was made on another control plane; plan again here");
    let seals = draft.seals(saved.seals.salt.clone());
    let differences = differences((&saved.proposal, &saved.seals), (now, &seals));
    if differences.is_empty() {
        return Ok(());
    }
    let lines: Vec<String> = differences.iter().map(|line| format!("  {}", inert(line))).collect();
    bail!("the saved plan no longer holds; plan again:\n{}", lines.join("\n"))
}

fn saved_manifests(saved: &Saved) -> Result<Vec<Manifest>> {
    saved.objects.iter().map(|object| Manifest::of(object.clone(), "the saved plan".to_owned())).collect()
}

/// Waits until the environments that a draft brings answer, or do not. One that it does not bring does not come by waiting.
async fn connected(session: &Session, draft: &Draft) {
    let is_known = |environment: Option<&Environment>| {
        let status = environment.and_then(|environment| environment.status.as_ref());
        let ready = status.and_then(|status| condition(&status.conditions, "Ready"));
        ready.is_some_and(|ready| ready.status != ConditionStatus::Unknown)
    };
    for name in draft.environments() {
        let environments: Api<Environment> = Api::all(session.server.client.clone());
        // One that does not answer is said when its Machines are planned.
        let _ = tokio::time::timeout(CONNECTING, await_condition(environments, name, is_known)).await;
    }
}
