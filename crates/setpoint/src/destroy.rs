//! `setpoint destroy`: removes what files or an apply set hold, through the gate.

use anyhow::{Result, ensure};
use clap::Args;

use crate::apply::{
    ApplySet, Consent, Draft, Execution, Selection, agrees, carry_out, propose, removals, report, report_nothing,
};
use crate::document::Files;
use crate::manifest::Manifest;
use crate::outcome::Outcome;
use crate::output::Output;
use crate::session::{Place, Session};
use crate::terminal::remark;

#[derive(Debug, Args)]
pub(crate) struct Destroy {
    #[command(flatten)]
    files: Files,
    /// Everything that this apply set holds, and the set
    #[arg(long, value_name = "NAME", conflicts_with = "paths")]
    set: Option<String>,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    consent: Consent,
    /// The form to print what was done in
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
    #[command(flatten)]
    place: Place,
}

impl Destroy {
    pub(crate) fn run(&self) -> Result<Outcome> {
        ensure!(
            self.set.is_some() || !self.files.paths.is_empty(),
            "nothing to destroy: name files with -f, or an apply set with --set"
        );
        let reads_input = self.files.paths.iter().any(|path| path.as_os_str() == "-");
        ensure!(self.consent.yes || !reads_input, "standard input holds the objects, so nobody can be asked; say -y");
        // Without a file, those of this folder would be read.
        let manifests = if self.set.is_some() { Vec::new() } else { Manifest::read(&self.files)? };
        self.place.run(async |session| self.destroy(session, &manifests).await)
    }

    async fn destroy(&self, session: &Session, manifests: &[Manifest]) -> Result<Outcome> {
        let user = session.user().await?;
        let namespace = session.server.namespace.clone();
        let set = self.set.clone().map(|name| ApplySet { name, namespace });
        let removals = match &set {
            Some(set) => {
                set.must_exist(session).await?;
                let mut members = set.members(session, &session.server.resources().await?).await?;
                members.retain(|member| self.selection.takes(&member.change));
                members
            }
            None => removals(session, manifests, &self.selection).await?,
        };
        self.selection.must_take(removals.iter().map(|removal| &removal.change))?;
        let mut draft = Draft { writes: Vec::new(), removals };
        let proposal = propose(session, &mut draft, &user).await?;
        self.output.show(&proposal.text(self.output.style()))?;
        if draft.removals.is_empty() {
            report_nothing(self.output, &proposal)?;
            return Ok(Outcome::Settled);
        }
        if !self.consent.yes && !agrees("Destroy all of this?").await? {
            remark("nothing was destroyed");
            return Ok(Outcome::Pending);
        }
        let execution =
            Execution { user: &user, set: None, force: false, sign: self.consent.sign.as_deref(), is_partial: true };
        let followup = carry_out(session, &execution, &draft, &proposal, self.consent.timeout).await?;
        if let Some(set) = set.filter(|_| followup.is_done() && !self.selection.is_partial()) {
            set.forget(session).await?;
        }
        report(self.output, "Destroyed", &proposal, &followup)
    }
}
