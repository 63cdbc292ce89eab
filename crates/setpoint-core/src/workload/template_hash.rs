//! The name of a pod template: a short text that is the same for the same template, in all versions of Setpoint.
//!
//! It is taken over a canonical form: keys in order, and without what only looks different (an empty list and none, say),
//! so that two spellings of one template do not become two ReplicaSets. It need not be what Kubernetes would compute:
//! whether a ReplicaSet is a Deployment's newest is decided by its template, never by this name.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::selection;

/// The label that carries the hash.
pub const LABEL: &str = "pod-template-hash";

/// Letters and digits of which no word can be made by accident.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
const HASH_LENGTH: usize = 10;

/// The longest name of an object.
const NAME_MAX: usize = 253;

/// Fields whose value, if empty, is the same as none. (Of most objects that is not so: `emptyDir: {}` is a volume.)
const EMPTY_IS_NONE: [&str; 7] =
    ["annotations", "labels", "limits", "metadata", "nodeSelector", "requests", "resources"];
/// Fields whose `false` is the same as none. (Of others it is not: they are true unless said otherwise.)
const FALSE_IS_NONE: [&str; 7] = ["hostIPC", "hostNetwork", "hostPID", "readOnly", "stdin", "stdinOnce", "tty"];
/// Fields whose keys are the user's own: inside, nothing is the same as none.
const MAPS: [&str; 7] =
    ["annotations", "labels", "limits", "matchLabels", "nodeSelector", "requests", "volumeAttributes"];

/// What a template is, as far as two templates can be the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity([u8; 32]);

impl Identity {
    /// The template's identity, whatever hash it is labelled with.
    pub fn of(template: &PodTemplateSpec) -> Identity {
        let mut value = serde_json::to_value(template).expect("a template is made of text keys and plain values");
        if let Some(labels) = value.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
            labels.remove(LABEL);
        }
        let mut hasher = Sha256::new();
        write_canonical(&value, false, &mut hasher);
        Identity(hasher.finalize().into())
    }

    /// The hash as a label's value. Another collision count gives another hash.
    pub fn hash(&self, collision_count: i32) -> String {
        let digest = Sha256::new().chain_update(self.0).chain_update(collision_count.to_be_bytes()).finalize();
        let mut number = digest.iter().take(8).fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
        let letter = |_| {
            let letter = ALPHABET[(number % 27) as usize];
            number /= 27;
            char::from(letter)
        };
        (0..HASH_LENGTH).map(letter).collect()
    }
}

/// What stands in the way of creating a ReplicaSet under a name that is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameTaken {
    /// By the very ReplicaSet that was to be created: the watch is behind.
    ByItself,
    /// By something else: try again with this collision count.
    ByAnother { collision_count: i32 },
}

/// What to make of a ReplicaSet that has the name a new one was to get.
pub fn name_taken(deployment: &Deployment, existing: &ReplicaSet) -> NameTaken {
    let owner = selection::controller_of(&existing.metadata).map(|controller| controller.uid.as_str());
    let is_ours = owner.is_some() && owner == deployment.metadata.uid.as_deref();
    let wanted = deployment.spec.as_ref().map(|spec| Identity::of(&spec.template));
    let found = existing.spec.as_ref().and_then(|spec| spec.template.as_ref()).map(Identity::of);
    if is_ours && wanted.is_some() && wanted == found {
        return NameTaken::ByItself;
    }
    NameTaken::ByAnother { collision_count: collision_count(deployment).saturating_add(1) }
}

/// How often the names of this Deployment's ReplicaSets collided so far.
pub fn collision_count(deployment: &Deployment) -> i32 {
    deployment.status.as_ref().and_then(|status| status.collision_count).unwrap_or_default()
}

/// The name of the ReplicaSet of a template with this hash; a Deployment's name that is too long loses its end.
pub fn replica_set_name(deployment: &str, hash: &str) -> String {
    let room = NAME_MAX - 1 - hash.len();
    let cut = (0..=deployment.len().min(room)).rev().find(|end| deployment.is_char_boundary(*end)).unwrap_or_default();
    format!("{}-{hash}", &deployment[..cut])
}

/// Feeds the hasher; each value is delimited, so that no two values give the same bytes.
fn write_canonical(value: &Value, in_map: bool, hasher: &mut Sha256) {
    match value {
        Value::Object(members) => {
            let mut members: Vec<(&String, &Value)> =
                members.iter().filter(|(key, value)| in_map || !is_none(key, value)).collect();
            members.sort_unstable_by_key(|(key, _)| *key);
            hasher.update(format!("{{{}", members.len()));
            for (key, value) in members {
                write_text(key, hasher);
                write_canonical(value, !in_map && MAPS.contains(&key.as_str()), hasher);
            }
        }
        Value::Array(items) => {
            hasher.update(format!("[{}", items.len()));
            items.iter().for_each(|item| write_canonical(item, in_map, hasher));
        }
        Value::String(text) => write_text(text, hasher),
        plain => hasher.update(format!("={plain};")),
    }
}

fn write_text(text: &str, hasher: &mut Sha256) {
    hasher.update(format!("\"{}:", text.len()));
    hasher.update(text);
}

/// Whether a field says no more than if it were absent.
fn is_none(key: &str, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Bool(false) => FALSE_IS_NONE.contains(&key),
        Value::String(text) => key == "value" && text.is_empty(),
        Value::Object(members) => {
            EMPTY_IS_NONE.contains(&key)
                && members.iter().all(|(inner, value)| !MAPS.contains(&key) && is_none(inner, value))
        }
        _ => false,
    }
}
