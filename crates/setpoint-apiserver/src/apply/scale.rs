//! Who owns the replicas: the record of an object, seen through its `scale`.

use super::field_set::FieldSet;
use super::managers::{Entry, Managers};

const REPLICAS: [&str; 2] = ["spec", "replicas"];

/// The record of a Scale: those who own the replicas of the object it is of. `path` is where the object has them.
pub fn to_scale(managers: &Managers, path: &[&str], scale_version: &str) -> Managers {
    let replicas = FieldSet::of(path);
    let owners = managers.0.iter().filter(|entry| !entry.fields.intersection(&replicas).is_empty());
    Managers(
        owners
            .map(|entry| Entry {
                api_version: scale_version.to_owned(),
                fields: FieldSet::of(&REPLICAS),
                ..entry.clone()
            })
            .collect(),
    )
}

/// The record of an object after that of its Scale has changed. Who became an owner through the Scale has no time, as in
/// Kubernetes.
pub fn from_scale(managers: Managers, scale: Managers, path: &[&str], api_version: &str) -> Managers {
    let (replicas, of_scale) = (FieldSet::of(path), FieldSet::of(&REPLICAS));
    let owns = |entry: &Entry| !entry.fields.intersection(&of_scale).is_empty();
    let same = |a: &Entry, b: &Entry| {
        (&a.manager, a.operation, &a.subresource, &a.time) == (&b.manager, b.operation, &b.subresource, &b.time)
    };
    let mut owners: Vec<Entry> = scale.0.into_iter().filter(owns).collect();
    let mut entries = Vec::new();
    for mut entry in managers.0 {
        if !entry.fields.intersection(&replicas).is_empty() {
            match owners.iter().position(|owner| same(owner, &entry)) {
                Some(position) => drop(owners.remove(position)),
                None => entry.fields = entry.fields.difference(&replicas),
            }
        }
        entries.push(entry);
    }
    entries.extend(owners.into_iter().map(|owner| Entry {
        api_version: api_version.to_owned(),
        fields: replicas.clone(),
        time: None,
        ..owner
    }));
    let mut managers = Managers(entries);
    managers.drop_empty();
    managers
}
