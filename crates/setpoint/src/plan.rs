//! `setpoint plan`: what `setpoint apply` would change, and nothing is.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};

use crate::apply::Source;
use crate::manifest::Manifest;
use crate::outcome::Outcome;
use crate::output::Output;
use crate::proposal::{Proposal, Saved, Seals};
use crate::session::{Place, Session};
use crate::style::Style;
use crate::terminal::remark;

#[derive(Debug, Args)]
pub(crate) struct Plan {
    #[command(flatten)]
    source: Source,
    /// Save the plan, for `setpoint apply PLAN`; the file holds the objects, Secrets too
    #[arg(long, value_name = "PLAN", conflicts_with_all = ["target", "exclude"])]
    out: Option<PathBuf>,
    /// The form to print it in
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
    #[command(flatten)]
    place: Place,
}

impl Plan {
    pub(crate) fn run(&self) -> Result<Outcome> {
        let manifests = self.source.manifests()?;
        self.place.look(async |session| self.plan(session, manifests).await)
    }

    async fn plan(&self, session: &Session, manifests: Vec<Manifest>) -> Result<Outcome> {
        let user = session.user().await?;
        let set = self.source.apply_set(session);
        let (draft, proposal) = self.source.propose(session, &manifests, set.as_ref(), &user).await?;
        self.output.print(|| proposal.text(Style::of_stdout()), || data(&proposal))?;
        let outcome = Outcome::pending_if(proposal.has_changes() || proposal.is_stuck());
        if let Some(path) = &self.out {
            let set = set.map(|set| (set.namespace, set.name));
            let objects = manifests.into_iter().map(|manifest| manifest.object).collect();
            let seals = draft.seals(Seals::salt());
            Saved::new(session.cluster().await?, set, objects, proposal, seals).write(path)?;
            remark(&format!("saved: `setpoint apply {}` applies exactly this", path.display()));
        }
        Ok(outcome)
    }
}

/// A proposal for programs, with how much it is.
pub(crate) fn data(proposal: &Proposal) -> Result<Value> {
    let mut data = serde_json::to_value(proposal)?;
    data["summary"] = json!(proposal.counts());
    if let Some(delta) = proposal.hourly_cost_delta() {
        data["summary"]["hourlyCostDelta"] = json!(delta);
    }
    Ok(data)
}
