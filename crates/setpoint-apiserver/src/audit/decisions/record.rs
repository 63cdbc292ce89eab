//! One entry of the decision log: who decided or did what, when, and what came of it.

use std::collections::BTreeSet;
use std::net::IpAddr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use setpoint_api::review;
use setpoint_api::step::{Action, Class, Target};

use crate::audit::event::shortened;

/// The longest message of an entry.
const LONGEST_MESSAGE: usize = 512;
/// How many users an entry names.
const MAX_NAMES: usize = 32;

/// An entry: a JSON object on a line of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// What was written twice has the same id both times.
    pub id: String,
    /// When it happened.
    pub time: Timestamp,
    #[serde(flatten)]
    pub fact: Fact,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub enum Fact {
    Review(ReviewFact),
    Step(StepFact),
    Refusal(RequestFact),
    Write(RequestFact),
    Administration(AdministrationFact),
    Gap(GapFact),
}

/// A review, and whether it counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReviewFact {
    pub by: String,
    pub decision: review::Decision,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub gate: String,
    /// Whether it counts from now on; absent where nobody has judged it yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts: Option<bool>,
    /// Why, or why not: the reason of its condition `Accepted`.
    pub reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The reason that it was told before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change_set: Option<ChangeSetName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
    /// The steps that it is about. A review of many steps has several entries.
    pub steps: Vec<ReviewedStep>,
    /// The fingerprint of the SSH key that its signature names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature_key: Option<String>,
}

/// A step that a review is about; what its change set says of it, where that lists it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReviewedStep {
    pub digest: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<Action>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<Class>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guest: Option<String>,
}

/// A change set; its name is known as long as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangeSetName {
    pub uid: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
}

/// A step that was taken.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StepFact {
    pub action: Action,
    pub target: Target,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    pub environment: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guest: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<Class>,
    pub digest: String,
    pub outcome: StepOutcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent: Option<String>,
    /// The change set whose approvals it uses; absent where nobody had to be asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change_set: Option<ChangeSetName>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approved_by: Vec<String>,
    /// Who has given an approval of which it was not on record yet whether it counts. The controller that takes the step
    /// judges for itself, perhaps before that is written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvals_not_judged: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requested_by: Vec<String>,
}

/// How far a step came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StepOutcome {
    /// It is on record, and the provider is called next.
    Begun,
    /// It was seen to be done.
    Done,
    /// The provider may have been called, and no effect was seen.
    Unseen,
    /// It failed, and surely had no effect.
    Failed,
    /// Its object was removed before its outcome was on record.
    ObjectRemoved,
}

/// A request of somebody who is not one of our own controllers or nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestFact {
    pub by: String,
    /// Whom they acted as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acting_as: Option<String>,
    pub verb: String,
    /// The plural and group of a resource, with its subresource, or a path.
    pub resource: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// Why it was refused. Of a Secret or a token nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<IpAddr>,
    /// The `auditID` of the request in the audit log.
    pub request: String,
}

/// Something that was done with the data folder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AdministrationFact {
    /// The user of the operating system, by number.
    pub by: String,
    /// What was done, such as `create user`.
    pub act: String,
    /// With what it was done.
    pub subject: String,
}

/// A time of which decisions may be missing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GapFact {
    pub since: Timestamp,
    pub message: String,
}

impl Entry {
    /// The entry as a line of bounded length.
    pub fn line(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).expect("writing to memory cannot fail");
        line.push(b'\n');
        line
    }

    /// Everybody who decided, asked for, or did it.
    pub fn names(&self) -> BTreeSet<&str> {
        match &self.fact {
            Fact::Review(review) => BTreeSet::from([review.by.as_str()]),
            Fact::Step(step) => {
                let names = step.approved_by.iter().chain(&step.approvals_not_judged).chain(&step.requested_by);
                names.map(String::as_str).collect()
            }
            Fact::Refusal(request) | Fact::Write(request) => {
                [Some(&request.by), request.acting_as.as_ref()].into_iter().flatten().map(String::as_str).collect()
            }
            Fact::Administration(administration) => BTreeSet::from([administration.by.as_str()]),
            Fact::Gap(_) => BTreeSet::new(),
        }
    }
}

/// A message of bounded length.
pub(super) fn message(text: &str) -> String {
    shortened(text.into(), LONGEST_MESSAGE).into_owned()
}

/// As many names as an entry has room for.
pub(super) fn names<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    names.into_iter().filter(|name| !name.is_empty()).take(MAX_NAMES).map(message).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_entry_is_read_as_it_was_written() {
        let target = Target { namespace: "shop".into(), name: "web".into(), kind: "Machine".into() };
        let step = StepFact {
            action: Action::Replace,
            target,
            uid: Some("u1".into()),
            environment: "lab".into(),
            guest: Some("101".into()),
            class: Some(Class::Destructive),
            digest: "sha256:a".into(),
            outcome: StepOutcome::Done,
            message: None,
            intent: Some("web-1".into()),
            change_set: Some(ChangeSetName { uid: "c1".into(), namespace: "shop".into(), name: "web-x2k4f".into() }),
            approved_by: vec!["alice".into()],
            approvals_not_judged: Vec::new(),
            requested_by: vec!["carol".into()],
        };
        let time = "2026-01-02T03:04:05Z".parse().expect("a time");
        let entry = Entry { id: "1".into(), time, fact: Fact::Step(step) };
        let line = entry.line();
        assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1, "one line");
        assert_eq!(serde_json::from_slice::<Entry>(&line).expect("an entry"), entry);
        let value: serde_json::Value = serde_json::from_slice(&line).expect("JSON");
        assert_eq!((&value["kind"], &value["outcome"]), (&json!("Step"), &json!("Done")));
        assert_eq!(entry.names().into_iter().collect::<Vec<_>>(), ["alice", "carol"]);
    }

    #[test]
    fn texts_are_bounded() {
        assert!(message(&"é".repeat(LONGEST_MESSAGE)).len() < LONGEST_MESSAGE + 20);
        assert_eq!(names(std::iter::repeat_n("x", 1000)).len(), MAX_NAMES);
    }
}
