//! A proposal in a file, to be applied later if it still holds.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ObjectAction, Proposal};

const VERSION: u32 = 1;
/// The largest file that is read.
const LARGEST: u64 = 64 << 20;

/// What was shown, and what it was made from. The objects may hold Secrets, so the file is its owner's alone.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Saved {
    version: u32,
    /// The control plane it was made on, by the uid of its namespace kube-system.
    pub(crate) cluster: String,
    /// The apply set that the objects belong to, with its namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) set: Option<(String, String)>,
    /// The objects as their author wrote them.
    pub(crate) objects: Vec<Value>,
    pub(crate) proposal: Proposal,
}

impl Saved {
    pub(crate) fn new(
        cluster: String,
        set: Option<(String, String)>,
        objects: Vec<Value>,
        proposal: Proposal,
    ) -> Saved {
        Saved { version: VERSION, cluster, set, objects, proposal }
    }

    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_vec_pretty(self).context("cannot write the plan as JSON")?;
        setpoint_store::write_private(path, &text).with_context(|| format!("cannot write {}", path.display()))
    }

    pub(crate) fn read(path: &Path) -> Result<Saved> {
        let shown = path.display();
        let size = std::fs::metadata(path).with_context(|| format!("cannot read {shown}"))?.len();
        ensure!(size <= LARGEST, "{shown} is larger than any saved plan");
        let text = std::fs::read(path).with_context(|| format!("cannot read {shown}"))?;
        let saved: Saved = serde_json::from_slice(&text)
            .with_context(|| format!("{shown} is no saved plan; `setpoint plan --out FILE` makes one"))?;
        ensure!(saved.version == VERSION, "{shown} was saved by another version of setpoint; plan again");
        Ok(saved)
    }
}

/// What is no longer as it was shown, a line each: steps by their digests, objects by what becomes of them.
pub(crate) fn differences(shown: &Proposal, now: &Proposal) -> Vec<String> {
    let mut lines = Vec::new();
    let (then, today) = (digests(shown), digests(now));
    for (step, digest) in &then {
        match today.get(step) {
            None => lines.push(format!("step {step} is no longer needed")),
            Some(other) if other != digest => lines.push(format!("step {step} is not what it was")),
            Some(_) => {}
        }
    }
    lines.extend(today.keys().filter(|step| !then.contains_key(*step)).map(|step| format!("step {step} is new")));
    let (then, today) = (objects(shown), objects(now));
    for (object, change) in &today {
        if then.get(object) != Some(change) {
            lines.push(format!("{object} would be changed otherwise"));
        }
    }
    lines.extend(
        then.keys().filter(|object| !today.contains_key(*object)).map(|object| format!("{object} is as desired now")),
    );
    lines
}

fn digests(proposal: &Proposal) -> BTreeMap<String, &str> {
    let sets = proposal.change_sets.iter();
    let steps =
        sets.flat_map(|set| set.steps.iter().map(move |step| (format!("{} in {}", step.id, set.environment), step)));
    steps.map(|(name, step)| (name, step.digest.as_str())).collect()
}

fn objects(proposal: &Proposal) -> BTreeMap<String, &super::ObjectChange> {
    let changed = proposal.objects.iter().filter(|object| object.action != ObjectAction::Unchanged);
    changed.map(|object| (format!("{} {}", object.kind, object.title()), object)).collect()
}
