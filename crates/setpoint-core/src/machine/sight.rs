//! Which guest is a Machine's, and what of it is shown.

use std::collections::{BTreeMap, BTreeSet};

use crate::desired::Desired;
use crate::diff;
use crate::digest::Key;
use crate::gate::{Gpus, gpus_held, gpus_wanted};
use crate::intent::Evidence;
use crate::observation::{Config, Guest, Observation};
use crate::registry::{Capabilities, Field};
use crate::value::{SENSITIVE, Value};

/// A look at an environment, and what it takes to understand it.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// This control plane, as marks name it.
    pub cluster: &'a str,
    pub capabilities: &'a Capabilities,
    pub key: &'a Key,
    pub observation: &'a Observation,
}

impl<'a> Seen<'a> {
    pub fn evidence(&self) -> Evidence<'a> {
        Evidence::new(self.cluster, self.capabilities, self.key, self.observation)
    }

    /// The guests that carry the mark of a desire.
    pub fn owned<'s>(&'s self, desired: &'s Desired) -> impl Iterator<Item = &'a Guest> + Clone + 's {
        let is_owned = |guest: &&Guest| {
            let mark = guest.mark.as_ref();
            mark.is_some_and(|mark| *mark.cluster == *self.cluster && mark.owner_uid == desired.uid)
        };
        self.observation.guests.iter().filter(is_owned)
    }

    /// The guest of a desire: the one that carries its mark, or the one that it insists on and that nobody has yet.
    pub fn guest(&self, desired: &Desired) -> Option<&'a Guest> {
        desired.kept(self.owned(desired), self.key).or_else(|| {
            let pinned = desired.provider_id.as_deref()?;
            self.observation.guests.iter().find(|guest| *guest.id == *pinned && guest.mark.is_none())
        })
    }

    /// The GPUs that a desire's guest holds and will hold; none where it has to do with none.
    pub fn gpus(&self, desired: &Desired) -> Option<Gpus> {
        let held = self.guest(desired).map_or(Some(0), |guest| gpus_held(&guest.config)).unwrap_or_default();
        let gpus = Gpus { held, wanted: gpus_wanted(&desired.fields) };
        (gpus != Gpus::default()).then_some(gpus)
    }

    /// The guests by which the calls for a desire are judged.
    pub(super) fn concerning(&self, desired: &Desired) -> Vec<&'a Guest> {
        let record = &desired.record;
        let intended = record.intents.iter().filter_map(|intent| intent.provider_id.as_deref());
        let ids: BTreeSet<&str> =
            intended.chain(desired.provider_id.as_deref()).chain(record.provider_id.as_deref()).collect();
        let owned: BTreeSet<&str> = self.owned(desired).map(|guest| &*guest.id).collect();
        let all = self.observation.guests.iter();
        all.filter(|guest| ids.contains(&*guest.id) || owned.contains(&*guest.id)).collect()
    }
}

/// What a guest is like, as people see it; none where it could not be read. `hides` says of a path of a field that it was
/// written from a Secret, or may have been: that is not shown.
pub fn observed(
    config: &Config,
    capabilities: &Capabilities,
    hides: impl Fn(&Field, &str) -> bool,
) -> Option<BTreeMap<String, String>> {
    let Config::Read { known, .. } = config else { return None };
    let mut shown = BTreeMap::new();
    for (name, value) in known.iter() {
        let Some(field) = capabilities.field(name) else { continue };
        match value {
            Value::Map(entries) => {
                let paths = entries.iter().map(|(key, value)| (format!("{name}.{key}"), value));
                shown.extend(paths.map(|(path, value)| (path.clone(), text(field, &path, value, &hides))));
            }
            _ => {
                shown.insert(name.to_owned(), text(field, name, value, &hides));
            }
        }
    }
    Some(shown)
}

fn text(field: &Field, path: &str, value: &Value, hides: impl Fn(&Field, &str) -> bool) -> String {
    if hides(field, path) { SENSITIVE.to_owned() } else { diff::text(field, value) }
}
