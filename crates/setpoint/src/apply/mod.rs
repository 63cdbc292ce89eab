//! `setpoint apply`: shows what would change, asks, writes just that as the user, approves it, and follows until nothing
//! moves.

mod execute;
mod preview;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use clap::Args;
use kube::Api;
use kube::runtime::wait::await_condition;
use serde_json::{Value, json};
use setpoint_api::condition::ConditionStatus;
use setpoint_api::environment::Environment;
use setpoint_api::step::{Action, Counts};

pub(crate) use self::execute::{Execution, destroys};
pub(crate) use self::preview::propose;
use crate::document::Files;
use crate::follow::{Followup, condition};
use crate::manifest::Manifest;
use crate::objects::{ApplySet, Draft, Request, Selection, draft};
use crate::outcome::Outcome;
use crate::output::Output;
use crate::proposal::{Proposal, Saved, Seals, differences};
use crate::session::{Place, Session};
use crate::terminal::{agrees, inert, remark};

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
    /// Delete and replace nothing: such steps are not approved and stay pending, and no object is deleted
    #[arg(long)]
    no_destroy: bool,
    /// Let an apply set lose everything that it holds
    #[arg(long, requires = "set")]
    allow_empty: bool,
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
        if self.allow_empty { Manifest::read_any(&self.files) } else { Manifest::read(&self.files) }
    }

    /// What the objects ask for, and what that would change. Whoever saved a plan has seen what a set loses.
    pub(crate) async fn propose(
        &self,
        session: &Session,
        manifests: &[Manifest],
        set: Option<&ApplySet>,
        user: &str,
        is_saved: bool,
    ) -> Result<(Draft, Proposal)> {
        let request = Request {
            manifests: manifests.to_vec(),
            set,
            selection: &self.selection,
            force: self.force_conflicts,
            keeps: self.no_destroy,
            allow_empty: self.allow_empty || is_saved,
        };
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
        let propose = async || self.source.propose(session, &manifests, set.as_ref(), &user, saved.is_some()).await;
        let (mut draft, mut proposal) = propose().await?;
        if let Some(saved) = &saved {
            let here = session.cluster().await?;
            ensure!(here == saved.cluster, "the plan was made on another control plane; plan again here");
            let now = draft.seals(saved.seals.salt.clone());
            must_be_as_shown((&saved.proposal, &saved.seals), (&proposal, &now), "the saved plan no longer holds")?;
        }
        self.output.show(&proposal.text(self.output.style()))?;
        let kept = kept(&draft, &proposal);
        kept.iter().for_each(|line| remark(&format!("--no-destroy: {line}")));
        no_refusals(&proposal)?;
        if !proposal.has_changes() {
            report_nothing(self.output, &proposal)?;
            return Ok(Outcome::pending_if(proposal.is_stuck() || !kept.is_empty()));
        }
        let asks = !self.consent.yes && saved.is_none();
        if asks {
            if !agrees(&question(&draft, "Apply these changes?", &proposal)).await? {
                remark("nothing was changed");
                return Ok(Outcome::Pending);
            }
            (draft, proposal) = unchanged((draft, proposal), propose().await?)?;
        }
        let execution = Execution {
            user: &user,
            set: set.as_ref(),
            force: self.source.force_conflicts,
            sign: self.consent.sign.as_deref(),
            is_partial: self.source.selection.is_partial(),
            patience: Duration::from_secs(self.consent.timeout),
        };
        if draft.writes.iter().any(|write| write.is_machine() && write.change.note.is_some()) {
            execution.lay_ground(session, &draft).await?;
            connected(session, &draft).await;
            let shown = proposal;
            (draft, proposal) = propose().await?;
            no_refusals(&proposal)?;
            remark("what the Machines need can be told now:");
            self.output.show(&proposal.text(self.output.style()))?;
            if !proposal.held().is_subset(&shown.held()) {
                if saved.is_some() {
                    remark("the saved plan does not show what needs approval here; no Machine was written, plan again");
                    return Ok(Outcome::Pending);
                }
                if asks {
                    if !agrees(&question(&draft, "Apply these changes too?", &proposal)).await? {
                        remark("the objects above were written, and no Machine");
                        return Ok(Outcome::Pending);
                    }
                    (draft, proposal) = unchanged((draft, proposal), propose().await?)?;
                }
            }
            // What was written meanwhile is a part of what is done.
            proposal.objects = shown.objects;
        }
        let followup = execution.run(session, &draft, &proposal).await?;
        let outcome = report(self.output, "Applied", &proposal, &followup)?;
        Ok(outcome.max(Outcome::pending_if(!kept.is_empty())))
    }
}

/// What a person agreed to, as it is now, if that is still the same.
pub(crate) fn unchanged(shown: (Draft, Proposal), now: (Draft, Proposal)) -> Result<(Draft, Proposal)> {
    let salt = Seals::salt();
    let (seals, seals_now) = (shown.0.seals(salt.clone()), now.0.seals(salt));
    must_be_as_shown(
        (&shown.1, &seals),
        (&now.1, &seals_now),
        "this is no longer what was shown; nothing was written",
    )?;
    Ok(now)
}

fn must_be_as_shown(shown: (&Proposal, &Seals), now: (&Proposal, &Seals), what: &str) -> Result<()> {
    let differences = differences(shown, now);
    let lines: Vec<String> = differences.iter().map(|line| format!("  {}", inert(line))).collect();
    ensure!(lines.is_empty(), "{what}; plan again:\n{}", lines.join("\n"));
    Ok(())
}

/// What is asked, after what cannot be taken back.
pub(crate) fn question(draft: &Draft, question: &str, proposal: &Proposal) -> String {
    let steps = proposal.change_sets.iter().flat_map(|set| &set.steps);
    let deleted: BTreeSet<String> =
        steps.filter(|step| step.action == Action::Delete).map(|step| inert(&step.target.to_string())).collect();
    let removed = draft.removals.iter().filter(|removal| removal.is_machine());
    let machines: Vec<String> = removed.map(|removal| inert(&removal.change.title())).collect();
    let machines: Vec<&str> = machines.iter().filter(|title| deleted.contains(*title)).map(String::as_str).collect();
    match machines.as_slice() {
        [] => question.to_owned(),
        machines => format!(
            "The deletion of {} cannot be taken back: where it is rejected, the Machine stays Terminating, with its guest. The \
             ways out are then to withdraw the rejection and approve, or to set spec.deletionPolicy to Retain: the Machine \
             goes, and the guest stays.\n{question}",
            machines.join(", ")
        ),
    }
}

/// What is not done for the sake of --no-destroy.
pub(crate) fn kept(draft: &Draft, proposal: &Proposal) -> Vec<String> {
    let steps = proposal.change_sets.iter().flat_map(|set| &set.steps).filter(|step| draft.keeps && destroys(step));
    let pending = steps.map(|step| format!("{} is not approved and stays pending", step.id));
    draft.kept.iter().cloned().chain(pending).collect()
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
