//! Who asked for what, as the server knows it and nobody else can say.
//!
//! Two annotations would be easy to forge, and two fields are easy to get wrong, if their writers were believed. So what an
//! object says of its writer must be its writer: a review is given by who writes it, and a change set is asked for by who
//! writes it, or by whom a controller names. Who acts as another is the other.
//!
//! Of what people want, the server itself writes down who wanted it last.

use serde_json::{Value, json};
use setpoint_api::requester::REQUESTED_BY;

use super::Change;
use crate::audit::RefusedReview;
use crate::authentication::Caller;
use crate::failure::{Failure, Result};
use crate::registry::{Resource, text_at};

/// Who makes change sets for those whose objects it serves.
const CONTROLLERS: &str = "system:kube-controller-manager";

/// Refuses a review or a change set in somebody else's name.
pub(super) fn check(change: &Change<'_>) -> Result<()> {
    let (None, Some(after)) = (change.before, change.after) else { return Ok(()) };
    let writer = change.caller.identity.user.as_str();
    let field = match own(change.resource) {
        Some("reviews") => "reviewer",
        Some("changesets") if writer != CONTROLLERS => "requestedBy",
        _ => return Ok(()),
    };
    let named = text_at(after, &["spec", field]);
    if named == writer {
        return Ok(());
    }
    let why = format!("spec.{field} is {named:?} and must be the user who writes it, {writer:?}");
    Err(Failure::forbidden(change.resource, change.name(), &why))
}

/// Writes down who asks for what an object says from now on, or keeps who did.
pub fn stamp(resource: &Resource, caller: &Caller, before: Option<&Value>, after: &mut Value) {
    if !matches!(own(resource), Some("environments" | "machines")) {
        return;
    }
    let is_new = before.is_none_or(|before| {
        before["spec"] != after["spec"]
            || before["metadata"]["deletionTimestamp"].is_string() != after["metadata"]["deletionTimestamp"].is_string()
    });
    let requester = match before.filter(|_| !is_new) {
        Some(before) => before["metadata"]["annotations"][REQUESTED_BY].as_str(),
        None => Some(caller.identity.user.as_str()),
    };
    let annotations = &mut after["metadata"]["annotations"];
    match requester {
        Some(requester) => annotations[REQUESTED_BY] = json!(requester),
        None => {
            annotations.as_object_mut().map(|annotations| annotations.remove(REQUESTED_BY));
        }
    }
}

/// What the audit log is told where a change says of a review that it does not count: who gave it, and why not.
pub fn refused_review(resource: &Resource, before: &Value, after: &Value) -> Option<RefusedReview> {
    if own(resource) != Some("reviews") {
        return None;
    }
    let refusal = |review: &Value| {
        let mut conditions = review["status"]["conditions"].as_array().into_iter().flatten();
        let accepted = conditions.find(|condition| condition["type"] == "Accepted")?;
        (accepted["status"] == "False").then(|| accepted["reason"].as_str().unwrap_or_default().to_owned())
    };
    let reason = refusal(after).filter(|reason| refusal(before).as_ref() != Some(reason))?;
    let (reviewer, gate) = (text_at(after, &["spec", "reviewer"]), text_at(after, &["spec", "gate"]));
    Some(RefusedReview(format!("{reason}: the review of the gate {gate:?} by {reviewer:?} does not count")))
}

/// The plural of a kind of ours.
fn own(resource: &Resource) -> Option<&str> {
    (resource.group == setpoint_api::GROUP).then_some(&*resource.plural)
}
