//! Which entries of the decision log are asked for.

use clap::ValueEnum;
use setpoint_api::review::Decision;
use setpoint_api::step::Target;
use setpoint_apiserver::audit::decisions::{Entry, Fact, RequestFact};

/// Kinds of decisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Kind {
    /// Approvals, whether they count or not
    Approve,
    /// Rejections, whether they count or not
    Reject,
    /// Steps that were begun, and what came of them
    Step,
    /// Requests that were refused, and reviews that do not count
    Refused,
    /// Writes of roles, bindings, tokens and environments, and deletions of what is managed
    Write,
    /// What was done with the data folder by commands
    Administration,
}

/// An object, by what people call it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ObjectName {
    kind: String,
    name: String,
}

impl ObjectName {
    pub(super) fn parse(text: &str) -> Result<ObjectName, String> {
        match text.split_once('/') {
            Some((kind, name)) if !kind.is_empty() && !name.is_empty() && !name.contains('/') => {
                Ok(ObjectName { kind: singular(kind), name: name.to_owned() })
            }
            _ => Err("an object is named like machine/web".to_owned()),
        }
    }

    fn is(&self, kind: &str, name: &str) -> bool {
        self.kind == singular(kind) && self.name == name
    }
}

/// A kind or a plural, with or without its group, as people say one of it.
fn singular(kind: &str) -> String {
    let kind = kind.split(['.', '/']).next().unwrap_or_default().to_lowercase();
    match kind.strip_suffix("ies") {
        Some(stem) => format!("{stem}y"),
        None => kind.strip_suffix('s').unwrap_or(&kind).to_owned(),
    }
}

/// What is asked for; everything, where nothing is said.
#[derive(Debug, Default)]
pub(super) struct Filter<'a> {
    pub(super) object: Option<&'a ObjectName>,
    pub(super) namespace: Option<&'a str>,
    pub(super) by: Option<&'a str>,
    pub(super) kinds: &'a [Kind],
}

impl Filter<'_> {
    pub(super) fn matches(&self, entry: &Entry) -> bool {
        let is_by = self.by.is_none_or(|by| entry.names().contains(by));
        let is_of_kind = self.kinds.is_empty() || self.kinds.iter().any(|kind| is_of(*kind, &entry.fact));
        // Where something may be missing, it may be this; only by whom or of what kind it was is not known.
        is_by && is_of_kind && (matches!(entry.fact, Fact::Gap(_)) || self.concerns(&entry.fact))
    }

    fn concerns(&self, fact: &Fact) -> bool {
        if self.object.is_none() && self.namespace.is_none() {
            return true;
        }
        objects(fact).into_iter().any(|(kind, namespace, name)| {
            let is_there = self.namespace.is_none_or(|wanted| wanted == namespace);
            is_there && self.object.is_none_or(|object| object.is(kind, name))
        })
    }
}

fn is_of(kind: Kind, fact: &Fact) -> bool {
    match (kind, fact) {
        (Kind::Approve, Fact::Review(review)) => review.decision == Decision::Approve,
        (Kind::Reject, Fact::Review(review)) => review.decision == Decision::Reject,
        (Kind::Refused, Fact::Review(review)) => review.counts == Some(false),
        (Kind::Refused, Fact::Refusal(_))
        | (Kind::Step, Fact::Step(_))
        | (Kind::Write, Fact::Write(_))
        | (Kind::Administration, Fact::Administration(_)) => true,
        _ => false,
    }
}

/// The objects that an entry is about, each by its kind, namespace and name.
fn objects(fact: &Fact) -> Vec<(&str, &str, &str)> {
    fn target(target: &Target) -> (&str, &str, &str) {
        (&target.kind, &target.namespace, &target.name)
    }
    match fact {
        Fact::Review(review) => {
            let namespace = review.namespace.as_str();
            let mut objects = vec![("review", namespace, review.name.as_str()), ("gate", namespace, &review.gate)];
            objects.push(("changeset", namespace, &review.gate));
            objects.extend(review.environment.as_deref().map(|environment| ("environment", "", environment)));
            objects.extend(review.steps.iter().filter_map(|step| step.target.as_ref()).map(target));
            objects
        }
        Fact::Step(step) => {
            let set = step.change_set.as_ref();
            let set = set.map(|set| ("changeset", set.namespace.as_str(), set.name.as_str()));
            let guest = step.guest.as_deref().map(|guest| ("guest", step.target.namespace.as_str(), guest));
            [target(&step.target), ("environment", "", step.environment.as_str())]
                .into_iter()
                .chain(set)
                .chain(guest)
                .collect()
        }
        Fact::Refusal(request) | Fact::Write(request) => vec![of_request(request)],
        Fact::Administration(_) | Fact::Gap(_) => Vec::new(),
    }
}

fn of_request(request: &RequestFact) -> (&str, &str, &str) {
    (&request.resource, request.namespace.as_deref().unwrap_or_default(), request.name.as_deref().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn entry(fact: Value) -> Entry {
        let mut object = json!({"id": "1", "time": "2026-01-02T03:04:05Z"});
        object.as_object_mut().expect("an object").extend(fact.as_object().cloned().expect("an object"));
        serde_json::from_value(object).expect("an entry")
    }

    fn entries() -> [(&'static str, Entry); 5] {
        let target = json!({"namespace": "shop", "name": "web", "kind": "Machine"});
        let review = json!({
            "kind": "Review", "by": "alice", "decision": "Approve", "namespace": "shop", "name": "yes", "uid": "r",
            "gate": "web-x2k4f", "counts": true, "reason": "Counted", "environment": "lab",
            "steps": [{"digest": "sha256:a", "target": target}],
        });
        let mut refused = review.clone();
        refused["counts"] = json!(false);
        refused["decision"] = json!("Reject");
        let step = json!({
            "kind": "Step", "action": "Replace", "target": target, "environment": "lab", "digest": "sha256:a",
            "guest": "101", "outcome": "Done", "approvedBy": ["alice"], "requestedBy": ["carol"],
        });
        let forbidden = json!({
            "kind": "Refusal", "by": "bob", "verb": "delete", "resource": "machines.setpoint.dev",
            "namespace": "shop", "name": "web", "request": "1",
        });
        let user = json!({"kind": "Administration", "by": "uid 0", "act": "create user", "subject": "alice"});
        [
            ("approved", entry(review)),
            ("rejected", entry(refused)),
            ("done", entry(step)),
            ("forbidden", entry(forbidden)),
            ("user", entry(user)),
        ]
    }

    #[test]
    fn entries_are_found_by_object_person_and_kind() {
        let web = ObjectName::parse("machine/web").expect("an object");
        let name = |text: &str| ObjectName::parse(text).expect("an object");
        let (plural, guest, set, other) =
            (name("Machines/web"), name("guest/101"), name("changeset/web-x2k4f"), name("machine/db"));
        let all = ["approved", "rejected", "done", "forbidden", "user"];
        let rows: [(&str, Filter<'_>, &[&str]); 11] = [
            ("everything", Filter::default(), &all),
            ("an object", Filter { object: Some(&web), ..Filter::default() }, &all[..4]),
            (
                "by its plural",
                Filter { object: Some(&plural), namespace: Some("shop"), ..Filter::default() },
                &all[..4],
            ),
            ("elsewhere", Filter { object: Some(&web), namespace: Some("bank"), ..Filter::default() }, &[]),
            ("another", Filter { object: Some(&other), ..Filter::default() }, &[]),
            ("a guest", Filter { object: Some(&guest), ..Filter::default() }, &["done"]),
            ("a change set", Filter { object: Some(&set), ..Filter::default() }, &["approved", "rejected"]),
            ("who approved", Filter { by: Some("alice"), ..Filter::default() }, &["approved", "rejected", "done"]),
            ("who asked", Filter { by: Some("carol"), ..Filter::default() }, &["done"]),
            (
                "approvals and steps",
                Filter { kinds: &[Kind::Approve, Kind::Step], ..Filter::default() },
                &["approved", "done"],
            ),
            ("refusals", Filter { kinds: &[Kind::Refused], ..Filter::default() }, &["rejected", "forbidden"]),
        ];
        for (row, filter, expected) in rows {
            let entries = entries();
            let found: Vec<&str> =
                entries.iter().filter(|(_, entry)| filter.matches(entry)).map(|(name, _)| *name).collect();
            assert_eq!(found, expected, "{row}");
        }
    }

    #[test]
    fn an_object_has_a_kind_and_a_name() {
        for text in ["web", "machine/", "/web", "machine/a/b", ""] {
            assert!(ObjectName::parse(text).is_err(), "{text:?}");
        }
        assert_eq!(singular("Capabilities.planspec.io"), "capability");
    }
}
