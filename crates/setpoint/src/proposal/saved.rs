//! A proposal in a file, to be applied later if it still holds.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::object::substance;
use super::{ObjectAction, ObjectChange, Proposal};
use crate::token;

const VERSION: u32 = 2;
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
    pub(crate) seals: Seals,
}

/// What is behind the words that are shown of changes, where those are a Secret's or cut: a digest of each in full. The
/// salt keeps a Secret that is replaced, and that is not in the file, from being told by a digest that others know.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Seals {
    pub(crate) salt: String,
    digests: BTreeMap<String, String>,
}

impl Saved {
    pub(crate) fn new(
        cluster: String,
        set: Option<(String, String)>,
        objects: Vec<Value>,
        proposal: Proposal,
        seals: Seals,
    ) -> Saved {
        Saved { version: VERSION, cluster, set, objects, proposal, seals }
    }

    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_vec_pretty(self).context("cannot write the plan as JSON")?;
        setpoint_store::write_own(path, &text).with_context(|| format!("cannot write {}", path.display()))
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

impl Seals {
    /// A salt for a plan that is to be saved.
    pub(crate) fn salt() -> String {
        token::random()
    }

    /// Seals changes of objects, each with what is stored and what would be.
    pub(crate) fn of<'a>(
        salt: String,
        changes: impl Iterator<Item = (&'a ObjectChange, &'a Value, &'a Value)>,
    ) -> Seals {
        let changed = changes.filter(|(change, ..)| change.action == ObjectAction::Update);
        let sealed = changed.map(|(change, live, wanted)| {
            let digest = Sha256::digest(format!("{salt} {}", substance(live, wanted)));
            (name(change), digest.iter().map(|byte| format!("{byte:02x}")).collect())
        });
        let digests = sealed.collect();
        Seals { salt, digests }
    }

    /// Whether an object that would be changed then and now would be changed otherwise.
    fn is_broken(&self, now: &Seals, object: &str) -> bool {
        self.digests.get(object) != now.digests.get(object)
    }
}

/// What is no longer as it was shown, a line each: steps by their digests, objects by what becomes of them.
pub(crate) fn differences(shown: (&Proposal, &Seals), now: (&Proposal, &Seals)) -> Vec<String> {
    let mut lines = Vec::new();
    let ((shown, seals), (now, seals_now)) = (shown, now);
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
        if then.get(object) != Some(change) || seals.is_broken(seals_now, object) {
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

fn objects(proposal: &Proposal) -> BTreeMap<String, &ObjectChange> {
    let changed = proposal.objects.iter().filter(|object| object.action != ObjectAction::Unchanged);
    changed.map(|object| (name(object), object)).collect()
}

fn name(object: &ObjectChange) -> String {
    format!("{} {}", object.kind, object.title())
}
