//! Which objects are whose: what a controller keeps, adopts, releases and leaves alone.
//!
//! Ownership is the controller reference, by uid; the selector only says what may be adopted and what must be let go.
//! So two controllers with the same selector never fight over an object, and an object whose owner is unknown belongs
//! to that unknown owner.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};

use super::pod_state;
use crate::labels;

/// A controller that owns objects by reference and finds them by selector.
#[derive(Debug, Clone, Copy)]
pub struct Owner<'a> {
    metadata: &'a ObjectMeta,
    api_version: &'static str,
    kind: &'static str,
    selector: Option<&'a LabelSelector>,
}

/// What an owner does about an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// It is the owner's already, and stays so.
    Keep,
    /// It is nobody's and fits: the owner writes itself into it.
    Adopt,
    /// It is the owner's but fits no longer: the owner takes its name out of it.
    Release,
    /// It is not the owner's, and stays so.
    Ignore(Ignored),
}

/// Why an object is left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ignored {
    /// Another controller owns it, whether we know that controller or not.
    OwnedByAnother,
    /// The selector does not match.
    NotSelected,
    /// The object is on its way out.
    ObjectDeleted,
    /// The owner is on its way out, and changes nothing any more.
    OwnerDeleted,
    /// The object is in another namespace.
    OtherNamespace,
    /// The pod has finished: it is no replica and does not become one.
    Finished,
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Claim::Keep => "keep",
            Claim::Adopt => "adopt: it has no owner and the selector matches",
            Claim::Release => "release: the selector no longer matches",
            Claim::Ignore(Ignored::OwnedByAnother) => "leave alone: another controller owns it",
            Claim::Ignore(Ignored::NotSelected) => "leave alone: the selector does not match",
            Claim::Ignore(Ignored::ObjectDeleted) => "leave alone: it is being deleted",
            Claim::Ignore(Ignored::OwnerDeleted) => "leave alone: the owner is being deleted",
            Claim::Ignore(Ignored::OtherNamespace) => "leave alone: it is in another namespace",
            Claim::Ignore(Ignored::Finished) => "leave alone: it has finished",
        })
    }
}

impl<'a> From<&'a ReplicaSet> for Owner<'a> {
    fn from(set: &'a ReplicaSet) -> Self {
        let selector = set.spec.as_ref().map(|spec| &spec.selector);
        Owner { metadata: &set.metadata, api_version: "apps/v1", kind: "ReplicaSet", selector }
    }
}

impl<'a> From<&'a Deployment> for Owner<'a> {
    fn from(deployment: &'a Deployment) -> Self {
        let selector = deployment.spec.as_ref().map(|spec| &spec.selector);
        Owner { metadata: &deployment.metadata, api_version: "apps/v1", kind: "Deployment", selector }
    }
}

impl<'a> From<&'a Job> for Owner<'a> {
    fn from(job: &'a Job) -> Self {
        let selector = job.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        Owner { metadata: &job.metadata, api_version: "batch/v1", kind: "Job", selector }
    }
}

impl Owner<'_> {
    /// What to do about an object. The answer to `Adopt` is to be written only after the owner was read afresh: a
    /// cached owner may have been deleted and made anew under its name.
    pub fn claim(&self, object: &ObjectMeta) -> Claim {
        let selected = || self.selects(object.labels.as_ref());
        let owner_deleted = self.metadata.deletion_timestamp.is_some();
        match controller_of(object) {
            Some(controller) if Some(controller.uid.as_str()) != self.metadata.uid.as_deref() => {
                Claim::Ignore(Ignored::OwnedByAnother)
            }
            Some(_) if selected() => Claim::Keep,
            _ if owner_deleted => Claim::Ignore(Ignored::OwnerDeleted),
            Some(_) => Claim::Release,
            None if object.namespace != self.metadata.namespace => Claim::Ignore(Ignored::OtherNamespace),
            None if !selected() => Claim::Ignore(Ignored::NotSelected),
            None if object.deletion_timestamp.is_some() => Claim::Ignore(Ignored::ObjectDeleted),
            None => Claim::Adopt,
        }
    }

    /// What to do about a pod: as for any object, but a pod that has finished or is on its way out stays as it is.
    pub fn claim_pod(&self, pod: &Pod) -> Claim {
        match self.claim(&pod.metadata) {
            Claim::Adopt | Claim::Release if pod_state::is_finished(pod) => Claim::Ignore(Ignored::Finished),
            Claim::Release if pod_state::is_terminating(pod) => Claim::Ignore(Ignored::ObjectDeleted),
            claim => claim,
        }
    }

    /// The reference that makes an object the owner's.
    pub fn reference(&self) -> OwnerReference {
        OwnerReference {
            api_version: self.api_version.to_owned(),
            kind: self.kind.to_owned(),
            name: self.metadata.name.clone().unwrap_or_default(),
            uid: self.metadata.uid.clone().unwrap_or_default(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }
    }

    /// A workload whose selector is empty selects nothing, lest it take everything.
    fn selects(&self, labels: Option<&BTreeMap<String, String>>) -> bool {
        self.selector.is_some_and(|selector| !is_empty(selector) && matches(selector, labels))
    }
}

/// The controller that owns the object: the one owner that says so of itself.
pub fn controller_of(object: &ObjectMeta) -> Option<&OwnerReference> {
    object.owner_references.iter().flatten().find(|reference| reference.controller == Some(true))
}

/// Whether the selector restricts nothing.
pub fn is_empty(selector: &LabelSelector) -> bool {
    selector.match_labels.as_ref().is_none_or(BTreeMap::is_empty)
        && selector.match_expressions.as_ref().is_none_or(Vec::is_empty)
}

/// Whether the selector matches the labels. An empty selector matches everything; one that cannot be understood
/// matches nothing.
pub fn matches(selector: &LabelSelector, labels: Option<&BTreeMap<String, String>>) -> bool {
    labels::unmet(selector, labels).is_none()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::workload::fixtures::{laid_over, object, pod};

    fn replica_set(over: Value) -> ReplicaSet {
        let base = json!({
            "metadata": {"name": "web-1", "uid": "rs-uid", "namespace": "shop"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}},
        });
        object(laid_over(base, over))
    }

    #[test]
    fn what_an_owner_does_about_a_pod() {
        use Ignored::*;
        let orphan = json!({"metadata": {"ownerReferences": null}});
        let but = |over: Value| laid_over(orphan.clone(), over);
        let other = |uid: &str| {
            json!({"metadata": {"ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": uid, "controller": true},
            ]}})
        };
        let relabelled = json!({"metadata": {"labels": {"app": "debug"}}});
        let deleted = json!({"metadata": {"deletionTimestamp": "2026-03-01T11:59:00Z"}});
        let rows: Vec<(&str, Value, Value, Claim)> = vec![
            ("its own pod is kept", json!({}), json!({}), Claim::Keep),
            ("its own pod is kept while it is deleted itself", deleted.clone(), json!({}), Claim::Keep),
            ("its own pod is kept while the pod terminates", json!({}), deleted.clone(), Claim::Keep),
            ("a pod that nobody owns and that fits is adopted", json!({}), orphan.clone(), Claim::Adopt),
            (
                "a pod that has an owner but no controller is adopted",
                json!({}),
                json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "x", "uid": "x"}]}}),
                Claim::Adopt,
            ),
            (
                "a pod of another controller with the same selector is left to it",
                json!({}),
                other("other-uid"),
                Claim::Ignore(OwnedByAnother),
            ),
            (
                "a pod of a former owner of the same name is not ours: the uid counts",
                json!({"metadata": {"uid": "rs-uid-2"}}),
                json!({}),
                Claim::Ignore(OwnedByAnother),
            ),
            (
                "a pod whose owner nobody knows is left alone",
                json!({}),
                other("never-seen"),
                Claim::Ignore(OwnedByAnother),
            ),
            ("a relabelled pod is released", json!({}), relabelled.clone(), Claim::Release),
            (
                "a relabelled pod that terminates is not worth releasing",
                json!({}),
                laid_over(relabelled.clone(), deleted.clone()),
                Claim::Ignore(ObjectDeleted),
            ),
            (
                "a relabelled pod is not released by an owner that is being deleted",
                deleted.clone(),
                relabelled,
                Claim::Ignore(OwnerDeleted),
            ),
            (
                "an owner that is being deleted adopts nothing",
                deleted.clone(),
                orphan.clone(),
                Claim::Ignore(OwnerDeleted),
            ),
            ("a terminating orphan is not adopted", json!({}), but(deleted), Claim::Ignore(ObjectDeleted)),
            (
                "an orphan that does not fit is left alone",
                json!({}),
                but(json!({"metadata": {"labels": {"app": "db"}}})),
                Claim::Ignore(NotSelected),
            ),
            (
                "an orphan of another namespace is left alone",
                json!({}),
                but(json!({"metadata": {"namespace": "other"}})),
                Claim::Ignore(OtherNamespace),
            ),
            (
                "a finished orphan is not adopted",
                json!({}),
                but(json!({"status": {"phase": "Failed"}})),
                Claim::Ignore(Finished),
            ),
            (
                "an empty selector adopts nothing",
                json!({"spec": {"selector": {"matchLabels": null}}}),
                orphan,
                Claim::Ignore(NotSelected),
            ),
        ];
        for (name, owner, over, expected) in rows {
            let owner = replica_set(owner);
            assert_eq!(Owner::from(&owner).claim_pod(&pod("p", over)), expected, "{name}");
        }
    }

    #[test]
    fn which_labels_a_selector_matches() {
        let expression = |operator: &str, values: Value| json!({"matchExpressions": [{"key": "tier", "operator": operator, "values": values}]});
        let rows: Vec<(&str, Value, Value, bool)> = vec![
            ("an empty selector matches everything", json!({}), json!({"a": "b"}), true),
            ("labels that are there match", json!({"matchLabels": {"a": "b"}}), json!({"a": "b", "c": "d"}), true),
            ("another value does not match", json!({"matchLabels": {"a": "b"}}), json!({"a": "c"}), false),
            ("no labels do not match", json!({"matchLabels": {"a": "b"}}), Value::Null, false),
            ("In matches a listed value", expression("In", json!(["x", "y"])), json!({"tier": "y"}), true),
            ("In does not match an absent key", expression("In", json!(["x"])), json!({}), false),
            ("NotIn matches an absent key", expression("NotIn", json!(["x"])), json!({}), true),
            ("NotIn does not match a listed value", expression("NotIn", json!(["x"])), json!({"tier": "x"}), false),
            ("Exists matches any value", expression("Exists", Value::Null), json!({"tier": ""}), true),
            ("DoesNotExist matches an absent key", expression("DoesNotExist", Value::Null), json!({}), true),
            ("DoesNotExist does not match a key", expression("DoesNotExist", Value::Null), json!({"tier": ""}), false),
            ("an unknown operator matches nothing", expression("Near", json!(["x"])), json!({"tier": "x"}), false),
            (
                "labels and expressions must both match",
                json!({"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "tier", "operator": "Exists"}]}),
                json!({"a": "b"}),
                false,
            ),
        ];
        for (name, selector, labels, expected) in rows {
            let labels: Option<BTreeMap<String, String>> = object(labels);
            assert_eq!(matches(&object(selector), labels.as_ref()), expected, "{name}");
        }
    }

    #[test]
    fn an_adopted_object_names_its_controller() {
        let owner = replica_set(json!({}));
        let reference = Owner::from(&owner).reference();
        assert_eq!((reference.kind.as_str(), reference.uid.as_str()), ("ReplicaSet", "rs-uid"));
        assert_eq!((reference.controller, reference.block_owner_deletion), (Some(true), Some(true)));
    }
}
