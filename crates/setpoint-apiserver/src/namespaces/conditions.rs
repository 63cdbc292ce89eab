//! What a namespace that is being deleted says of what still keeps it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::deletion::seconds;

/// Objects of one resource that are still there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Remaining {
    /// Such as `configmaps` or `deployments.apps`.
    pub(super) resource: String,
    /// The finalizers of each object.
    pub(super) finalizers: Vec<Vec<String>>,
}

/// The longest message. What remains may be named at any length, and the namespace has to have room for it.
const MESSAGE_BYTES: usize = 8 * 1024;

/// Puts what remains into the status, as conditions.
pub(super) fn set(namespace: &mut Value, remaining: &[Remaining], now: Timestamp) {
    let content: Vec<String> = remaining
        .iter()
        .map(|remaining| format!("{} has {} resource instances", remaining.resource, remaining.finalizers.len()))
        .collect();
    let mut holders = BTreeMap::<&str, usize>::new();
    for finalizer in remaining.iter().flat_map(|remaining| remaining.finalizers.iter().flatten()) {
        *holders.entry(finalizer).or_default() += 1;
    }
    let held: Vec<String> =
        holders.iter().map(|(finalizer, count)| format!("{finalizer} in {count} resource instances")).collect();
    let content_remains = match content.as_slice() {
        [] => ("False", "ContentRemoved", "All content successfully removed".to_owned()),
        content => ("True", "SomeResourcesRemain", format!("Some resources are remaining: {}", content.join(", "))),
    };
    let finalizers_remain = match held.as_slice() {
        [] => ("False", "ContentHasNoFinalizers", "All content-preserving finalizers finished".to_owned()),
        held => {
            let message = format!("Some content in the namespace has finalizers remaining: {}", held.join(", "));
            ("True", "SomeFinalizersRemain", message)
        }
    };
    set_condition(namespace, "NamespaceContentRemaining", content_remains, now);
    set_condition(namespace, "NamespaceFinalizersRemaining", finalizers_remain, now);
}

/// `lastTransitionTime` moves only when the status does.
fn set_condition(namespace: &mut Value, kind: &str, is: (&str, &str, String), now: Timestamp) {
    let (status, reason, mut message) = is;
    if message.len() > MESSAGE_BYTES {
        message.truncate(message.floor_char_boundary(MESSAGE_BYTES));
        message.push_str(" and more");
    }
    if !namespace["status"]["conditions"].is_array() {
        namespace["status"]["conditions"] = json!([]);
    }
    let Some(conditions) = namespace["status"]["conditions"].as_array_mut() else { return };
    let found = conditions.iter().position(|condition| condition["type"] == kind);
    let since = match found {
        Some(index) if conditions[index]["status"] == status => conditions[index]["lastTransitionTime"].clone(),
        _ => seconds(now).into(),
    };
    let condition =
        json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": since});
    match found {
        Some(index) => conditions[index] = condition,
        None => conditions.push(condition),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(namespace: &Value, kind: &str) -> Value {
        let conditions = namespace["status"]["conditions"].as_array().expect("conditions were set");
        conditions.iter().find(|condition| condition["type"] == kind).expect("this condition was set").clone()
    }

    #[test]
    fn what_keeps_a_namespace_is_counted_and_named() {
        let mut namespace = json!({"status": {"phase": "Terminating"}});
        let kept = vec![vec!["a.io/x".to_owned()], vec!["a.io/x".to_owned(), "b.io/y".to_owned()]];
        let remaining = [Remaining { resource: "configmaps".into(), finalizers: kept }];
        set(&mut namespace, &remaining, "2030-01-01T00:00:00Z".parse().expect("a time"));
        assert_eq!(
            condition(&namespace, "NamespaceContentRemaining")["message"],
            "Some resources are remaining: configmaps has 2 resource instances"
        );
        assert_eq!(
            condition(&namespace, "NamespaceFinalizersRemaining")["message"],
            "Some content in the namespace has finalizers remaining: a.io/x in 2 resource instances, \
             b.io/y in 1 resource instances"
        );
    }

    #[test]
    fn a_message_is_cut_where_it_would_not_fit() {
        let mut namespace = json!({});
        let kept = (0..2_000).map(|number| vec![format!("a.io/ünïque-{number}")]).collect();
        let remaining = [Remaining { resource: "configmaps".into(), finalizers: kept }];
        set(&mut namespace, &remaining, "2030-01-01T00:00:00Z".parse().expect("a time"));
        let condition = condition(&namespace, "NamespaceFinalizersRemaining");
        let message = condition["message"].as_str().expect("a message");
        assert!(message.len() < MESSAGE_BYTES + 16 && message.ends_with(" and more"), "{} bytes", message.len());
    }

    #[test]
    fn the_time_of_a_transition_moves_only_with_the_status() {
        let mut namespace = json!({});
        let (first, later) = ("2030-01-01T00:00:00Z", "2030-01-02T00:00:00Z");
        let kept = |count| [Remaining { resource: "pods".into(), finalizers: vec![Vec::new(); count] }];
        set(&mut namespace, &kept(3), first.parse().expect("a time"));
        set(&mut namespace, &kept(2), later.parse().expect("a time"));
        let remaining = condition(&namespace, "NamespaceContentRemaining");
        assert_eq!((&remaining["lastTransitionTime"], &remaining["status"]), (&json!(first), &json!("True")));
        set(&mut namespace, &[], later.parse().expect("a time"));
        let remaining = condition(&namespace, "NamespaceContentRemaining");
        assert_eq!((&remaining["lastTransitionTime"], &remaining["status"]), (&json!(later), &json!("False")));
    }
}
