//! An entry of the decision log, as a sentence and as a row of a table.

use setpoint_api::review::Decision;
use setpoint_api::step::{Action, Class, Target};
use setpoint_apiserver::audit::decisions::{
    ChangeSetName, Entry, Fact, RequestFact, ReviewFact, ReviewedStep, StepFact, StepOutcome,
};

use crate::drift::seconds;

/// How many steps of a review a sentence names.
const NAMED: usize = 3;

pub(super) fn sentence(entry: &Entry) -> String {
    let words = match &entry.fact {
        Fact::Review(review) => of_review(review),
        Fact::Step(step) => of_step(step),
        Fact::Refusal(request) => format!("{} was refused to {}", who(request), what(request)) + &why(request),
        Fact::Write(request) => format!("{} did {}", who(request), what(request)),
        Fact::Administration(fact) => format!("{} on the server's machine: {} {}", fact.by, fact.act, fact.subject),
        Fact::Gap(gap) => format!("decisions since {} may be missing: {}", seconds(gap.since), gap.message),
    };
    format!("{} {words}", seconds(entry.time))
}

fn of_review(review: &ReviewFact) -> String {
    let (done, noun) = match review.decision {
        Decision::Approve => ("approved", "approval"),
        Decision::Reject => ("rejected", "rejection"),
        Decision::Comment => ("commented on", "comment"),
    };
    let (by, steps) = (&review.by, steps(&review.steps));
    let set = format!("in change set {}", in_namespace(&review.namespace, &review.gate));
    let key = review.signature_key.as_deref().map(|key| format!(", signed with {key}")).unwrap_or_default();
    match review.counts {
        Some(true) => return format!("{by} {done} {steps} {set}{key}"),
        None => return format!("{by} gave the {noun} of {steps} {set}{key}; it is not judged yet"),
        Some(false) => {}
    }
    let why = review.message.as_deref().map(|message| format!(": {message}")).unwrap_or_default();
    let more = if review.before.as_deref() == Some("Counted") { " any more" } else { "" };
    format!("the {noun} by {by} of {steps} {set} does not count{more} ({}){why}", review.reason)
}

fn steps(steps: &[ReviewedStep]) -> String {
    let named: Vec<String> = steps.iter().take(NAMED).map(reviewed).collect();
    let more = match steps.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more steps"),
    };
    if named.is_empty() { "no step".to_owned() } else { named.join(", ") + &more }
}

fn reviewed(step: &ReviewedStep) -> String {
    match (step.action, &step.target) {
        (Some(action), Some(target)) => action_on(action, target, step.class),
        _ => format!("the step {}", step.digest),
    }
}

/// `Replace of machine shop/web (Destructive)`
fn action_on(action: Action, target: &Target, class: Option<Class>) -> String {
    let class = class.map(|class| format!(" ({class:?})")).unwrap_or_default();
    format!("{action:?} of {}{class}", object(target))
}

fn object(target: &Target) -> String {
    match target.namespace.as_str() {
        "" => target.to_string(),
        _ => format!("{} {target}", target.kind.to_lowercase()),
    }
}

fn of_step(step: &StepFact) -> String {
    let guest = step.guest.as_deref().filter(|guest| *guest != step.target.name);
    let guest = guest.map(|guest| format!(", guest {guest}")).unwrap_or_default();
    let what =
        format!("{}{guest} in environment {}", action_on(step.action, &step.target, step.class), step.environment);
    let how = match step.outcome {
        StepOutcome::Begun => format!("setpoint began {what}"),
        StepOutcome::Done => format!("setpoint did {what}"),
        StepOutcome::Unseen => format!("setpoint tried {what} and saw no effect"),
        StepOutcome::Failed => format!("setpoint failed to do {what}"),
        StepOutcome::ObjectRemoved => format!("setpoint began {what}, which ended with the removal of the object"),
    };
    let why = step.message.as_deref().map(|message| format!(": {message}")).unwrap_or_default();
    let set = step.change_set.as_ref().map(|set| format!("; in change set {}", change_set(set))).unwrap_or_default();
    let list = |label: &str, names: &[String]| match names {
        [] => String::new(),
        names => format!("; {label} {}", names.join(", ")),
    };
    let approved = list("approved by", &step.approved_by);
    let given = list("approvals that were not judged yet:", &step.approvals_not_judged);
    let asked = list("asked for by", &step.requested_by);
    format!("{how}{why}{approved}{given}{asked}{set}")
}

fn change_set(set: &ChangeSetName) -> String {
    if set.name.is_empty() { format!("with uid {}", set.uid) } else { in_namespace(&set.namespace, &set.name) }
}

fn in_namespace(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

fn who(request: &RequestFact) -> String {
    match &request.acting_as {
        Some(other) => format!("{} as {other}", request.by),
        None => request.by.clone(),
    }
}

fn what(request: &RequestFact) -> String {
    let namespace = request.namespace.as_deref().unwrap_or_default();
    let name = match (namespace, request.name.as_deref()) {
        ("", None) => String::new(),
        (namespace, None) => format!(" in namespace {namespace}"),
        (namespace, Some(name)) => format!(" {}", in_namespace(namespace, name)),
    };
    format!("{} {}{name}", request.verb, request.resource)
}

fn why(request: &RequestFact) -> String {
    request.message.as_deref().map(|message| format!(": {message}")).unwrap_or_default()
}

/// The names of the columns.
pub(super) fn head(is_wide: bool) -> Vec<String> {
    let more: &[&str] = if is_wide { &["GUEST", "DIGEST", "KEY", "ID"] } else { &[] };
    ["TIME", "WHO", "WHAT", "OBJECT", "CLASS", "OUTCOME", "CHANGE SET"]
        .iter()
        .chain(more)
        .map(ToString::to_string)
        .collect()
}

/// The cells of an entry. Of several steps the first stands for all.
pub(super) fn row(entry: &Entry, is_wide: bool) -> Vec<String> {
    let class = |class: Option<Class>| class.map(|class| format!("{class:?}")).unwrap_or_default();
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let ([who, what, on, class, outcome, set], more) = match &entry.fact {
        Fact::Review(review) => {
            let first = review.steps.first();
            let others = review.steps.len().saturating_sub(1);
            let target = first.and_then(|step| step.target.as_ref()).map(object).unwrap_or_default();
            let target = if others == 0 { target } else { format!("{target} and {others} more") };
            let action = first.and_then(|step| step.action).map(|action| format!(" {action:?}")).unwrap_or_default();
            let what = format!("{:?}{action}", review.decision);
            let outcome = review.reason.clone();
            let set = in_namespace(&review.namespace, &review.gate);
            let guest = first.and_then(|step| step.guest.clone()).unwrap_or_default();
            let digest = first.map(|step| step.digest.clone()).unwrap_or_default();
            let class = class(first.and_then(|step| step.class));
            ([review.by.clone(), what, target, class, outcome, set], [guest, digest, text(&review.signature_key)])
        }
        Fact::Step(step) => {
            let set = step.change_set.as_ref().map(change_set).unwrap_or_default();
            let (what, outcome) = (format!("{:?}", step.action), format!("{:?}", step.outcome));
            let cells = ["setpoint".to_owned(), what, object(&step.target), class(step.class), outcome, set];
            (cells, [text(&step.guest), step.digest.clone(), String::new()])
        }
        Fact::Refusal(request) | Fact::Write(request) => {
            let outcome = if matches!(entry.fact, Fact::Refusal(_)) { "Refused" } else { "Done" };
            let namespace = request.namespace.as_deref().unwrap_or_default();
            let name = in_namespace(namespace, request.name.as_deref().unwrap_or_default());
            let on = format!("{} {name}", request.resource);
            let cells = [who(request), request.verb.clone(), on, String::new(), outcome.to_owned(), String::new()];
            (cells, Default::default())
        }
        Fact::Administration(fact) => {
            let cells = [
                fact.by.clone(),
                fact.act.clone(),
                fact.subject.clone(),
                String::new(),
                "Done".to_owned(),
                String::new(),
            ];
            (cells, Default::default())
        }
        Fact::Gap(gap) => {
            let what = format!("since {}", seconds(gap.since));
            (
                [String::new(), what, String::new(), String::new(), "MayBeMissing".to_owned(), String::new()],
                Default::default(),
            )
        }
    };
    let mut cells = vec![seconds(entry.time), who, what, on, class, outcome, set];
    if is_wide {
        cells.extend(more);
        cells.push(entry.id.clone());
    }
    cells
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn entry(fact: Value) -> Entry {
        let mut object = json!({"id": "1", "time": "2026-01-02T03:04:05.6Z"});
        object.as_object_mut().expect("an object").extend(fact.as_object().cloned().expect("an object"));
        serde_json::from_value(object).expect("an entry")
    }

    fn facts() -> Vec<Value> {
        let target = json!({"namespace": "shop", "name": "web", "kind": "Machine"});
        let one = json!({"digest": "sha256:a", "action": "Replace", "class": "Destructive", "target": target});
        let review = |counts: bool, reason: &str| {
            json!({
                "kind": "Review", "by": "alice", "decision": "Approve", "namespace": "shop", "name": "yes", "uid": "r",
                "gate": "web-x2k4f", "counts": counts, "reason": reason, "steps": [one],
            })
        };
        let mut given = review(false, "Given");
        given.as_object_mut().expect("an object").remove("counts");
        let mut signed = review(true, "Counted");
        signed["signatureKey"] = json!("SHA256:abc");
        signed["steps"] = json!([one, {"digest": "sha256:b"}, one, one, one]);
        let mut expired = review(false, "Expired");
        expired["message"] = json!("it expired at noon");
        expired["before"] = json!("Counted");
        let step = |outcome: &str| {
            json!({
                "kind": "Step", "action": "Replace", "class": "Destructive", "target": target, "environment": "lab",
                "digest": "sha256:a", "guest": "101", "outcome": outcome, "approvedBy": ["alice", "bob"],
                "requestedBy": ["carol"], "changeSet": {"uid": "c", "namespace": "shop", "name": "web-x2k4f"},
            })
        };
        let mut failed = step("Failed");
        failed["message"] = json!("disk is full");
        let guest = json!({"namespace": "", "name": "7", "kind": "Guest"});
        let orphan = json!({
            "kind": "Step", "action": "Delete", "target": guest, "environment": "lab", "digest": "sha256:a", "guest": "7",
            "outcome": "Done", "changeSet": {"uid": "c"},
        });
        let request = |kind: &str, message: Option<&str>| {
            json!({
                "kind": kind, "by": "bob", "verb": "delete", "resource": "machines.setpoint.dev", "namespace": "shop",
                "name": "web", "request": "1", "message": message,
            })
        };
        let user = json!({"kind": "Administration", "by": "uid 0", "act": "create user", "subject": "alice"});
        let gap = json!({"kind": "Gap", "since": "2026-01-01T00:00:00Z", "message": "it was away"});
        vec![
            review(true, "Counted"),
            given,
            signed,
            expired,
            step("Begun"),
            step("Done"),
            failed,
            orphan,
            request("Refusal", Some("it is protected")),
            request("Write", None),
            user,
            gap,
        ]
    }

    #[test]
    fn an_entry_reads_as_a_sentence() {
        const SET: &str = "in change set shop/web-x2k4f";
        const WHAT: &str = "Replace of machine shop/web (Destructive)";
        const BY: &str = "approved by alice, bob; asked for by carol; in change set shop/web-x2k4f";
        let expected = [
            format!("alice approved {WHAT} {SET}"),
            format!("alice gave the approval of {WHAT} {SET}; it is not judged yet"),
            format!("alice approved {WHAT}, the step sha256:b, {WHAT} and 2 more steps {SET}, signed with SHA256:abc"),
            format!("the approval by alice of {WHAT} {SET} does not count any more (Expired): it expired at noon"),
            format!("setpoint began {WHAT}, guest 101 in environment lab; {BY}"),
            format!("setpoint did {WHAT}, guest 101 in environment lab; {BY}"),
            format!("setpoint failed to do {WHAT}, guest 101 in environment lab: disk is full; {BY}"),
            "setpoint did Delete of guest 7 in environment lab; in change set with uid c".to_owned(),
            "bob was refused to delete machines.setpoint.dev shop/web: it is protected".to_owned(),
            "bob did delete machines.setpoint.dev shop/web".to_owned(),
            "uid 0 on the server's machine: create user alice".to_owned(),
            "decisions since 2026-01-01T00:00:00Z may be missing: it was away".to_owned(),
        ];
        for (fact, expected) in facts().into_iter().zip(expected) {
            assert_eq!(sentence(&entry(fact)), format!("2026-01-02T03:04:05Z {expected}"));
        }
    }

    #[test]
    fn every_row_has_a_cell_for_each_column() {
        for fact in facts() {
            let entry = entry(fact);
            for is_wide in [false, true] {
                assert_eq!(row(&entry, is_wide).len(), head(is_wide).len(), "{entry:?}");
            }
        }
        let first = entry(facts().swap_remove(0));
        let expected = [
            "2026-01-02T03:04:05Z",
            "alice",
            "Approve Replace",
            "machine shop/web",
            "Destructive",
            "Counted",
            "shop/web-x2k4f",
        ];
        assert_eq!(row(&first, false), expected);
    }
}
