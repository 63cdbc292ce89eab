//! What a deletion does to an object: nothing yet, a mark, or the end.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::kind::Behaviour;
use crate::object_meta::{FOREGROUND, ORPHAN};
use crate::query::{DeleteOptions, Propagation};
use crate::registry::{Rules, text_at};

/// The longest that an object may go on after its deletion, about 68 years: the time of its end must be one that can be
/// written.
const GRACE_PERIOD_MAX_S: i64 = i32::MAX as i64;

/// What is to be done, and the object as the answer shows it.
#[derive(Debug, Clone, PartialEq)]
pub enum Deletion {
    Remove(Value),
    Mark(Value),
    /// It is on its way already, and this deletion changes nothing about that.
    Keep,
}

/// Decides on a deletion whose preconditions hold.
pub fn decide(kind: &dyn Behaviour, rules: Rules, object: &Value, options: &DeleteOptions, now: Timestamp) -> Deletion {
    let mut marked = object.clone();
    set_finalizers(&mut marked, finalizers(object, propagation(rules, options.propagation)));
    let grace = kind.grace_period_seconds(object, options.grace_period_seconds);
    let grace = grace.map(|seconds| seconds.clamp(0, GRACE_PERIOD_MAX_S));
    let done = match (deletion_timestamp(object), grace) {
        (None, None) => {
            if has_finalizers(&marked) {
                mark(&mut marked, now, 0);
            }
            true
        }
        (None, Some(grace)) => {
            mark(&mut marked, now, grace);
            grace == 0
        }
        (Some(was), Some(grace)) => {
            let before = object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
            if options.grace_period_seconds.is_some() && grace < before {
                let shorter = SignedDuration::from_secs(before.saturating_sub(grace));
                let end = was.checked_sub(shorter).unwrap_or(now);
                marked["metadata"]["deletionTimestamp"] = seconds(end).into();
                marked["metadata"]["deletionGracePeriodSeconds"] = grace.into();
                grace == 0
            } else {
                before == 0
            }
        }
        (Some(_), None) => true,
    };
    if done && !has_finalizers(&marked) {
        Deletion::Remove(marked)
    } else if marked == *object {
        Deletion::Keep
    } else {
        Deletion::Mark(marked)
    }
}

/// Whether an update has taken away the last thing that kept a deleted object.
pub fn is_released(object: &Value) -> bool {
    let metadata = &object["metadata"];
    metadata["deletionTimestamp"].is_string()
        && metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) == 0
        && !has_finalizers(object)
        && object["spec"]["finalizers"].as_array().is_none_or(Vec::is_empty)
}

/// Marks a namespace: it stays until it is empty.
pub fn mark_namespace(namespace: &mut Value, now: Timestamp) {
    if deletion_timestamp(namespace).is_none() {
        namespace["metadata"]["deletionTimestamp"] = seconds(now).into();
    }
    namespace["status"]["phase"] = "Terminating".into();
}

/// A time as Kubernetes writes it: UTC, to the second.
pub fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn deletion_timestamp(object: &Value) -> Option<Timestamp> {
    text_at(object, &["metadata", "deletionTimestamp"]).parse().ok()
}

fn mark(object: &mut Value, now: Timestamp, grace: i64) {
    let metadata = &mut object["metadata"];
    let end = now.checked_add(SignedDuration::from_secs(grace)).unwrap_or(Timestamp::MAX);
    metadata["deletionTimestamp"] = seconds(end).into();
    metadata["deletionGracePeriodSeconds"] = grace.into();
    if let Some(generation) = metadata["generation"].as_i64().filter(|generation| *generation > 0) {
        metadata["generation"] = generation.saturating_add(1).into();
    }
}

/// What happens to dependents when nobody says.
fn propagation(rules: Rules, asked: Option<Propagation>) -> Option<Propagation> {
    asked.or(rules.orphans_by_default.then_some(Propagation::Orphan))
}

/// The finalizers under which the garbage collector will find its orders.
fn finalizers(object: &Value, propagation: Option<Propagation>) -> Vec<String> {
    let mut finalizers: Vec<String> = object["metadata"]["finalizers"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    let order = match propagation {
        None => return finalizers,
        Some(Propagation::Orphan) => Some(ORPHAN),
        Some(Propagation::Foreground) => Some(FOREGROUND),
        Some(Propagation::Background) => None,
    };
    finalizers
        .retain(|finalizer| (finalizer != ORPHAN && finalizer != FOREGROUND) || Some(finalizer.as_str()) == order);
    if let Some(order) = order
        && !finalizers.iter().any(|finalizer| finalizer == order)
    {
        finalizers.push(order.to_owned());
    }
    finalizers
}

fn set_finalizers(object: &mut Value, finalizers: Vec<String>) {
    let Some(metadata) = object["metadata"].as_object_mut() else { return };
    if finalizers.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers".to_owned(), json!(finalizers));
    }
}

fn has_finalizers(object: &Value) -> bool {
    object["metadata"]["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::Column;

    #[derive(Debug)]
    struct Graceful(bool);

    impl Behaviour for Graceful {
        fn grace_period_seconds(&self, _: &Value, requested: Option<i64>) -> Option<i64> {
            self.0.then(|| requested.unwrap_or(30))
        }

        fn columns(&self) -> &[Column] {
            &[]
        }

        fn cells(&self, _: &Value, _: Timestamp) -> Vec<Value> {
            Vec::new()
        }
    }

    fn run(graceful: bool, rules: Rules, metadata: Value, options: DeleteOptions) -> Deletion {
        let now = "2030-01-01T00:00:00Z".parse().expect("a time");
        decide(&Graceful(graceful), rules, &json!({"metadata": metadata}), &options, now)
    }

    fn with_grace(grace: i64) -> DeleteOptions {
        DeleteOptions { grace_period_seconds: Some(grace), ..DeleteOptions::default() }
    }

    fn with_policy(policy: Propagation) -> DeleteOptions {
        DeleteOptions { propagation: Some(policy), ..DeleteOptions::default() }
    }

    type Row = (&'static str, bool, Rules, Value, DeleteOptions, Deletion);

    /// Numbers that lead out of what a time or a count can be.
    fn extremes() -> [Row; 5] {
        let longest = json!({"deletionTimestamp": "2098-01-19T03:14:07Z", "deletionGracePeriodSeconds": 2147483647});
        let forever = json!({"deletionTimestamp": "9999-12-30T22:00:00Z", "deletionGracePeriodSeconds": i64::MAX});
        [
            (
                "grace without end",
                true,
                Rules::default(),
                json!({}),
                with_grace(i64::MAX),
                Deletion::Mark(longest.clone()),
            ),
            ("grace without end twice", true, Rules::default(), longest, with_grace(i64::MAX), Deletion::Keep),
            (
                "an end to grace without end",
                true,
                Rules::default(),
                forever,
                with_grace(1),
                Deletion::Mark(json!({"deletionTimestamp": "2030-01-01T00:00:00Z", "deletionGracePeriodSeconds": 1})),
            ),
            (
                "negative grace",
                true,
                Rules::default(),
                json!({}),
                with_grace(i64::MIN),
                Deletion::Remove(json!({"deletionTimestamp": "2030-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0})),
            ),
            (
                "the last generation there is",
                false,
                Rules::default(),
                json!({"finalizers": ["a/b"], "generation": i64::MAX}),
                DeleteOptions::default(),
                Deletion::Mark(json!({
                    "finalizers": ["a/b"], "generation": i64::MAX,
                    "deletionTimestamp": "2030-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0,
                })),
            ),
        ]
    }

    #[test]
    fn deletions_end_mark_or_wait() {
        let marked = json!({
            "finalizers": ["a/b"], "deletionTimestamp": "2030-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0,
        });
        let pending = json!({"deletionTimestamp": "2030-01-01T00:00:30Z", "deletionGracePeriodSeconds": 30});
        let keeps = Rules { orphans_by_default: true, ..Rules::default() };
        let rows = [
            (
                "nothing holds it",
                false,
                Rules::default(),
                json!({}),
                DeleteOptions::default(),
                Deletion::Remove(json!({})),
            ),
            (
                "a finalizer holds it",
                false,
                Rules::default(),
                json!({"finalizers": ["a/b"]}),
                DeleteOptions::default(),
                Deletion::Mark(marked.clone()),
            ),
            ("deleted twice", false, Rules::default(), marked, DeleteOptions::default(), Deletion::Keep),
            (
                "the generation counts it",
                false,
                Rules::default(),
                json!({"finalizers": ["a/b"], "generation": 4}),
                DeleteOptions::default(),
                Deletion::Mark(json!({
                    "finalizers": ["a/b"], "generation": 5,
                    "deletionTimestamp": "2030-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0,
                })),
            ),
            (
                "foreground waits for the garbage collector",
                false,
                Rules::default(),
                json!({}),
                with_policy(Propagation::Foreground),
                Deletion::Mark(json!({
                    "finalizers": [FOREGROUND],
                    "deletionTimestamp": "2030-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0,
                })),
            ),
            (
                "a kind that orphans by default",
                false,
                keeps,
                json!({}),
                DeleteOptions::default(),
                Deletion::Mark(json!({
                    "finalizers": [ORPHAN],
                    "deletionTimestamp": "2030-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0,
                })),
            ),
            (
                "unless it is told not to",
                false,
                keeps,
                json!({}),
                with_policy(Propagation::Background),
                Deletion::Remove(json!({})),
            ),
            ("grace", true, Rules::default(), json!({}), DeleteOptions::default(), Deletion::Mark(pending.clone())),
            ("grace twice", true, Rules::default(), pending.clone(), DeleteOptions::default(), Deletion::Keep),
            ("longer grace comes too late", true, Rules::default(), pending.clone(), with_grace(60), Deletion::Keep),
            (
                "shorter grace counts",
                true,
                Rules::default(),
                pending.clone(),
                with_grace(10),
                Deletion::Mark(json!({"deletionTimestamp": "2030-01-01T00:00:10Z", "deletionGracePeriodSeconds": 10})),
            ),
            (
                "by force",
                true,
                Rules::default(),
                pending,
                with_grace(0),
                Deletion::Remove(json!({"deletionTimestamp": "2030-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0})),
            ),
        ];
        for (row, graceful, rules, metadata, options, expected) in rows.into_iter().chain(extremes()) {
            let expected = match expected {
                Deletion::Remove(metadata) => Deletion::Remove(json!({"metadata": metadata})),
                Deletion::Mark(metadata) => Deletion::Mark(json!({"metadata": metadata})),
                Deletion::Keep => Deletion::Keep,
            };
            assert_eq!(run(graceful, rules, metadata, options), expected, "{row}");
        }
    }
}
