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
        letters(&digest, HASH_LENGTH)
    }
}

/// A digest as a short word, of no more than ten letters: so many are in the part of it that counts.
pub(crate) fn letters(digest: &[u8], length: usize) -> String {
    let mut number = digest.iter().take(8).fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    let letter = |_| {
        let letter = ALPHABET[(number % 27) as usize];
        number /= 27;
        char::from(letter)
    };
    (0..length).map(letter).collect()
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::workload::fixtures::{laid_over, object};

    fn template() -> Value {
        json!({
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "containers": [{"name": "c", "image": "web:1", "env": [{"name": "A", "value": "1"}]}],
                "volumes": [{"name": "v", "emptyDir": {}}],
            },
        })
    }

    fn identity(value: Value) -> Identity {
        Identity::of(&object(value))
    }

    #[test]
    fn the_hash_of_a_template_never_changes() {
        let identity = identity(template());
        assert_eq!((identity.hash(0).as_str(), identity.hash(1).as_str()), ("gm949kptft", "f4hbnn55s6"));
    }

    #[test]
    fn what_makes_another_template() {
        let container = |over: Value| json!({"spec": {"containers": [laid_over(template()["spec"]["containers"][0].clone(), over)]}});
        let rows: Vec<(&str, Value, bool)> = vec![
            ("the same", json!({}), true),
            ("labelled with a hash", json!({"metadata": {"labels": {LABEL: "bcdfg"}}}), true),
            ("an empty list and none", json!({"spec": {"tolerations": []}}), true),
            ("an empty map of annotations and none", json!({"metadata": {"annotations": {}}}), true),
            ("empty resources and none", container(json!({"resources": {}})), true),
            ("resources with an empty map and none", container(json!({"resources": {"limits": {}}})), true),
            ("no host network and nothing said of it", json!({"spec": {"hostNetwork": false}}), true),
            (
                "an empty value of a variable and none",
                container(json!({"env": [{"name": "A", "value": "1"}], "tty": false})),
                true,
            ),
            ("another image", container(json!({"image": "web:2"})), false),
            ("another variable", container(json!({"env": [{"name": "A", "value": "2"}]})), false),
            (
                "an annotation more, as a restart writes it",
                json!({"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "now"}}}),
                false,
            ),
            ("a label more, though its value is empty", json!({"metadata": {"labels": {"value": ""}}}), false),
            ("a volume of no kind", json!({"spec": {"volumes": [{"name": "v"}]}}), false),
            ("links off, where they are on unless said so", json!({"spec": {"enableServiceLinks": false}}), false),
        ];
        for (name, over, is_same) in rows {
            let other = laid_over(template(), over);
            assert_eq!(identity(template()) == identity(other), is_same, "{name}");
        }
    }

    #[test]
    fn a_hash_is_a_label_of_the_safe_alphabet() {
        let hashes: Vec<String> = (0..1000).map(|count| identity(template()).hash(count)).collect();
        for hash in &hashes {
            assert_eq!(hash.len(), HASH_LENGTH);
            assert!(hash.bytes().all(|byte| ALPHABET.contains(&byte)), "{hash}");
        }
        let distinct: std::collections::BTreeSet<&String> = hashes.iter().collect();
        assert_eq!(distinct.len(), hashes.len(), "each collision count gives another hash");
    }

    #[test]
    fn what_a_taken_name_means() {
        let deployment = |count: Value| -> Deployment {
            object(json!({
                "metadata": {"name": "web", "uid": "d-uid"},
                "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template()},
                "status": {"collisionCount": count},
            }))
        };
        let existing = |owner: &str, template: Value| -> ReplicaSet {
            object(json!({
                "metadata": {"name": "web-x", "ownerReferences": [
                    {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": owner, "controller": true},
                ]},
                "spec": {"selector": {}, "template": template},
            }))
        };
        let other = laid_over(template(), json!({"spec": {"hostname": "x"}}));
        let labelled = laid_over(template(), json!({"metadata": {"labels": {LABEL: "x"}}}));
        let rows = [
            ("by the one just created", Value::Null, existing("d-uid", labelled), NameTaken::ByItself),
            (
                "by another template: the count starts",
                Value::Null,
                existing("d-uid", other.clone()),
                NameTaken::ByAnother { collision_count: 1 },
            ),
            (
                "by another template again: the count goes on",
                json!(6),
                existing("d-uid", other),
                NameTaken::ByAnother { collision_count: 7 },
            ),
            (
                "by another Deployment's, though the template is the same",
                Value::Null,
                existing("other", template()),
                NameTaken::ByAnother { collision_count: 1 },
            ),
        ];
        for (name, count, existing, expected) in rows {
            assert_eq!(name_taken(&deployment(count), &existing), expected, "{name}");
        }
    }

    #[test]
    fn names_of_replica_sets_fit() {
        let rows = [
            ("short", "web".to_owned(), "web-bcdfg".to_owned()),
            ("too long: the end goes", "x".repeat(253), format!("{}-bcdfg", "x".repeat(247))),
            ("as long as fits", "x".repeat(247), format!("{}-bcdfg", "x".repeat(247))),
        ];
        for (name, deployment, expected) in rows {
            assert_eq!(replica_set_name(&deployment, "bcdfg"), expected, "{name}");
        }
    }
}
