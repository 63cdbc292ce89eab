//! Who asked for what, as the server knows it and nobody else can say.
//!
//! Two annotations would be easy to forge, and two fields are easy to get wrong, if their writers were believed. So what an
//! object says of its writer must be its writer: a review is given by who writes it, and a change set is asked for by who
//! writes it, or by whom a controller names. Who acts as another is who they really are, and gives no reviews: whose word
//! it is must be beyond doubt. And a change set that says to be made for an
//! object is taken for what that object's controller asks: only controllers say so.
//!
//! Of what people want, the server itself writes down who wanted it last. What it and the controllers write for others is
//! nobody's wish; and where the server deletes, because an owner or a namespace goes, it is not known whose it is.

use serde_json::{Value, json};
use setpoint_api::machine::MUTE_DRIFT;
use setpoint_api::protection::PROTECTED;
use setpoint_api::requester::{REQUESTED_BY, UNKNOWN};

use super::Change;
use crate::audit::RefusedReview;
pub(super) use crate::authentication::CONTROLLERS;
use crate::authentication::Caller;
use crate::failure::{Failure, Result};
use crate::registry::{Resource, text_at};

/// How many are remembered who changed what an object asks for before it is carried out.
const MAX_REQUESTERS: usize = 16;

/// Why a review may not count although its writer did nothing that they may not.
const NO_REFUSAL: [&str; 3] = ["Comment", "Repeated", "Superseded"];
/// Why one may count no more; of one that never did it is a refusal.
const OVER: &str = "Outdated";

/// Refuses a review or a change set in somebody else's name, and a change set in the name of an object.
pub(super) fn check(change: &Change<'_>) -> Result<()> {
    check_author(change)?;
    check_owners(change)
}

fn check_author(change: &Change<'_>) -> Result<()> {
    let (None, Some(after)) = (change.before, change.after) else { return Ok(()) };
    let writer = change.caller.real().user.as_str();
    let field = match own(change.resource) {
        Some("reviews") if change.caller.impersonator.is_some() => {
            return Err(Failure::impersonated(change.resource, change.name(), writer));
        }
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

fn check_owners(change: &Change<'_>) -> Result<()> {
    let Some(after) = change.after.filter(|_| own(change.resource) == Some("changesets")) else { return Ok(()) };
    let writer = change.caller.real().user.as_str();
    let owners = |object: &Value| object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
    let is_same = change.before.map(owners).unwrap_or_default() == owners(after);
    // The server takes away owners that are gone.
    if is_same || serves(writer) {
        return Ok(());
    }
    let why = "metadata.ownerReferences of a change set is written by the controller that makes it for an object";
    Err(Failure::forbidden(change.resource, change.name(), why))
}

/// Writes down who asks for what an object says from now on, or keeps who did.
pub fn stamp(resource: &Resource, caller: &Caller, before: Option<&Value>, after: &mut Value) {
    if !matches!(own(resource), Some("environments" | "machines")) {
        return;
    }
    let writer = caller.real().user.as_str();
    let is_new = before.is_none_or(|before| before["spec"] != after["spec"] || orders(before) != orders(after));
    let kept = before.and_then(|before| before["metadata"]["annotations"][REQUESTED_BY].as_str());
    let kept = kept.map(str::to_owned);
    let requester = match before {
        Some(before) if serves(writer) => match goes(before) == goes(after) {
            true => kept,
            false => Some(also(kept.as_deref(), UNKNOWN)),
        },
        Some(_) if !is_new => kept,
        Some(before) if own(resource) == Some("machines") && !is_carried_out(before) => {
            Some(also(kept.as_deref(), writer))
        }
        _ => Some(writer.to_owned()),
    };
    let annotations = &mut after["metadata"]["annotations"];
    match requester {
        Some(requester) => annotations[REQUESTED_BY] = json!(requester),
        None => {
            annotations.as_object_mut().map(|annotations| annotations.remove(REQUESTED_BY));
        }
    }
}

/// Those who asked before, with one more, who is the last now. Who was not known is somebody by then.
fn also(before: Option<&str>, writer: &str) -> String {
    let known = before.into_iter().flat_map(|names| names.split('\n'));
    let mut names: Vec<&str> = known.filter(|name| *name != writer && *name != UNKNOWN).collect();
    if names.len() >= MAX_REQUESTERS {
        // Whoever is forgotten could approve what they asked for.
        names = vec![UNKNOWN];
    }
    names.push(writer);
    names.join("\n")
}

/// Whether what a Machine asks for is done, so that nobody waits for leave to do it.
fn is_carried_out(machine: &Value) -> bool {
    let (metadata, status) = (&machine["metadata"], &machine["status"]);
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    let is_synced = conditions.any(|condition| condition["type"] == "Synced" && condition["status"] == "True");
    is_synced && !goes(machine) && status["observedGeneration"] == metadata["generation"]
}

/// What an object's metadata orders: whether it goes, with what it goes, whether it is protected, and what of its drift is
/// muted.
fn orders(object: &Value) -> (bool, [&Value; 4]) {
    let metadata = &object["metadata"];
    let (labels, annotations) = (&metadata["labels"], &metadata["annotations"]);
    let marks = [&metadata["ownerReferences"], &labels[PROTECTED], &annotations[PROTECTED], &annotations[MUTE_DRIFT]];
    (goes(object), marks)
}

fn goes(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

/// Whether a user is the server or the controllers, who write what others want.
fn serves(user: &str) -> bool {
    user == CONTROLLERS || user == Caller::server().identity.user
}

/// What the audit log is told where a change says of a review that it does not count: who gave it, and why not.
pub fn refused_review(resource: &Resource, before: &Value, after: &Value) -> Option<RefusedReview> {
    if own(resource) != Some("reviews") {
        return None;
    }
    let told = accepted(before).map(|accepted| accepted["reason"].as_str().unwrap_or_default());
    let accepted = accepted(after).filter(|accepted| accepted["status"] == "False")?;
    let reason = accepted["reason"].as_str().unwrap_or_default();
    let is_refusal = !NO_REFUSAL.contains(&reason) && (reason != OVER || told.is_none());
    let reason = Some(reason).filter(|reason| is_refusal && told != Some(*reason))?;
    let (reviewer, gate) = (text_at(after, &["spec", "reviewer"]), text_at(after, &["spec", "gate"]));
    Some(RefusedReview(format!("{reason}: the review of the gate {gate:?} by {reviewer:?} does not count")))
}

/// What a review was told of itself.
fn accepted(review: &Value) -> Option<&Value> {
    let mut conditions = review["status"]["conditions"].as_array().into_iter().flatten();
    conditions.find(|condition| condition["type"] == "Accepted")
}

/// The plural of a kind of ours.
fn own(resource: &Resource) -> Option<&str> {
    (resource.group == setpoint_api::GROUP).then_some(&*resource.plural)
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{acting_as, caller, judge, judge_by, resource};
    use super::*;

    #[test]
    fn who_asked_is_whom_the_server_knows() {
        let machine = |cores: u32, by: Option<&str>, deleted: bool| {
            let mut machine = json!({"metadata": {"name": "web", "generation": 1}, "spec": {"cores": cores}});
            let synced = json!([{"type": "Synced", "status": "True"}]);
            machine["status"] = json!({"observedGeneration": 1, "conditions": synced});
            if let Some(by) = by {
                machine["metadata"]["annotations"] = json!({REQUESTED_BY: by, "other": "kept"});
            }
            if deleted {
                machine["metadata"]["deletionTimestamp"] = json!("2026-11-15T12:00:00Z");
            }
            machine
        };
        let marked = |kind: &str, mark: &str, value: &str| {
            let mut machine = machine(1, Some("alice"), false);
            machine["metadata"][kind][mark] = json!(value);
            machine
        };
        let owned = || {
            let mut machine = machine(1, Some("alice"), false);
            machine["metadata"]["ownerReferences"] = json!([{"kind": "ConfigMap", "name": "bait", "uid": "1"}]);
            machine
        };
        let old = || Some(machine(1, Some("alice"), false));
        let rows = [
            ("it is made", None, machine(1, None, false), Some("carol")),
            ("it is made in another's name", None, machine(1, Some("alice"), false), Some("carol")),
            ("its spec is changed", old(), machine(2, Some("alice"), false), Some("carol")),
            ("it is deleted", old(), machine(1, Some("alice"), true), Some("carol")),
            ("it is protected", old(), marked("labels", PROTECTED, "true"), Some("carol")),
            ("it is protected by an annotation", old(), marked("annotations", PROTECTED, "true"), Some("carol")),
            (
                "it is protected no longer",
                Some(marked("annotations", PROTECTED, "true")),
                machine(1, Some("alice"), false),
                Some("carol"),
            ),
            ("its drift is muted", old(), marked("annotations", MUTE_DRIFT, "cores"), Some("carol")),
            (
                "other drift of it is muted",
                Some(marked("annotations", MUTE_DRIFT, "cores")),
                marked("annotations", MUTE_DRIFT, "memory"),
                Some("carol"),
            ),
            ("it is to go with something else", old(), owned(), Some("carol")),
            ("it is to go with nothing else any more", Some(owned()), machine(1, Some("alice"), false), Some("carol")),
            ("it gets a label that orders nothing", old(), marked("labels", "team", "shop"), Some("alice")),
            ("something else is changed", old(), machine(1, Some("alice"), false), Some("alice")),
            ("it is written without the annotation", old(), machine(1, None, false), Some("alice")),
            ("it is forged", old(), machine(1, Some("bob"), false), Some("alice")),
            ("it was there before", Some(machine(1, None, false)), machine(1, Some("bob"), false), None),
        ];
        for (name, before, mut after, expected) in rows {
            stamp(&resource("Machine"), &caller("carol"), before.as_ref(), &mut after);
            assert_eq!(after["metadata"]["annotations"][REQUESTED_BY].as_str(), expected, "{name}");
        }
        let waits = |by: &str, deleted: bool| {
            let mut machine = machine(1, Some(by), deleted);
            machine["status"]["conditions"][0]["status"] = json!("False");
            machine
        };
        let many = (0..MAX_REQUESTERS).map(|number| format!("u{number}")).collect::<Vec<_>>().join("\n");
        let rows = [
            ("what alice asked for is not done", waits("alice", false), "alice\ncarol"),
            ("carol asks again", waits("carol\nalice", false), "alice\ncarol"),
            ("it is being deleted, as alice asked", waits("alice", true), "alice\ncarol"),
            ("nobody knew who deletes it", waits("alice\nsystem:unknown", true), "alice\ncarol"),
            ("too many asked to remember", waits(&many, false), "system:unknown\ncarol"),
        ];
        for (name, before, expected) in rows {
            let mut after = before.clone();
            after["spec"]["cores"] = json!(7);
            stamp(&resource("Machine"), &caller("carol"), Some(&before), &mut after);
            assert_eq!(after["metadata"]["annotations"][REQUESTED_BY], expected, "{name}");
        }
        let mut app = machine(1, None, false);
        stamp(&resource("App"), &caller("carol"), None, &mut app);
        assert_eq!(app, machine(1, None, false), "nothing else is stamped");
    }

    #[test]
    fn who_writes_for_others_asks_for_nothing() {
        let server = Caller::server().identity.user.clone();
        let machine = |by: Option<&str>, finalizers: &[&str], is_deleted: bool| {
            let time = is_deleted.then_some("2026-11-15T12:00:00Z");
            let annotations = by.map(|by| json!({REQUESTED_BY: by}));
            json!({"metadata": {"annotations": annotations, "finalizers": finalizers, "deletionTimestamp": time}})
        };
        let alices = || machine(Some("alice"), &[], false);
        type Row<'a> = (&'a str, &'a str, Value, Value, Option<&'a str>);
        let rows: [Row<'_>; 6] = [
            ("a controller holds it", CONTROLLERS, alices(), machine(None, &["a"], false), Some("alice")),
            (
                "a controller lets it go",
                CONTROLLERS,
                machine(Some("alice"), &["a"], true),
                machine(None, &[], true),
                Some("alice"),
            ),
            ("the server writes it", &server, alices(), machine(Some("bob"), &[], false), Some("alice")),
            ("its owner is gone", &server, alices(), machine(Some("alice"), &[], true), Some("alice\nsystem:unknown")),
            (
                "it goes already when its owner is gone",
                &server,
                machine(Some("alice"), &[], true),
                machine(Some("alice"), &[], true),
                Some("alice"),
            ),
            ("nobody knew before", &server, machine(None, &[], false), machine(None, &["a"], false), None),
        ];
        for (name, user, before, mut after, expected) in rows {
            stamp(&resource("Machine"), &caller(user), Some(&before), &mut after);
            assert_eq!(after["metadata"]["annotations"][REQUESTED_BY].as_str(), expected, "{name}");
        }
    }

    #[test]
    fn who_acts_as_another_is_who_they_are_and_reviews_nothing() {
        let mallory = acting_as("mallory", "alice");
        let mut machine = json!({"metadata": {"name": "web"}, "spec": {"cores": 1}});
        stamp(&resource("Machine"), &mallory, None, &mut machine);
        assert_eq!(machine["metadata"]["annotations"][REQUESTED_BY], "mallory");
        let controller = acting_as("mallory", CONTROLLERS);
        let mut deleted = machine.clone();
        deleted["metadata"]["deletionTimestamp"] = json!("2026-11-15T12:00:00Z");
        stamp(&resource("Machine"), &controller, Some(&machine), &mut deleted);
        assert_eq!(deleted["metadata"]["annotations"][REQUESTED_BY], "mallory", "also as a controller");
        for reviewer in ["alice", "mallory"] {
            let review = json!({"spec": {"reviewer": reviewer}});
            let refusal = judge_by(&mallory, "Review", (None, Some(&review)), check).expect_err("a refusal");
            assert!(refusal.message().ends_with("a review is given by who it is of, and mallory acts as another"));
        }
        let change_set = |requester: &str| json!({"spec": {"requestedBy": requester}});
        let ask = |requester: &str| judge_by(&mallory, "ChangeSet", (None, Some(&change_set(requester))), check);
        assert_eq!((ask("alice").is_ok(), ask("mallory").is_ok()), (false, true));
    }

    #[test]
    fn nobody_writes_in_anothers_name() {
        let review = |reviewer: &str| ("Review", json!({"spec": {"reviewer": reviewer}}));
        let change_set = |requester: &str| ("ChangeSet", json!({"spec": {"requestedBy": requester}}));
        let owned = |requester: &str| {
            let owner = json!({"kind": "Machine", "name": "web", "uid": "1", "controller": true});
            ("ChangeSet", json!({"metadata": {"ownerReferences": [owner]}, "spec": {"requestedBy": requester}}))
        };
        let rows = [
            ("one's own review", "carol", review("carol"), true),
            ("another's review", "carol", review("alice"), false),
            ("a review by a group", "carol", review("people"), false),
            ("a review by a controller", CONTROLLERS, review("carol"), false),
            ("one's own change set", "carol", change_set("carol"), true),
            ("another's change set", "carol", change_set("alice"), false),
            ("a change set by a controller", CONTROLLERS, change_set("carol"), true),
            ("a change set for an object", "carol", owned("carol"), false),
            ("a change set for an object by its controller", CONTROLLERS, owned("carol"), true),
        ];
        for (name, user, (kind, object), is_allowed) in rows {
            assert_eq!(judge(user, kind, (None, Some(&object)), check).is_ok(), is_allowed, "{name}");
        }
    }

    #[test]
    fn only_controllers_say_for_which_object_a_change_set_is_made() {
        let change_set = |owners: &[&str], note: &str| {
            let owners: Vec<Value> = owners.iter().map(|uid| json!({"uid": uid, "controller": true})).collect();
            json!({
                "metadata": {"ownerReferences": owners, "annotations": {"note": note}},
                "spec": {"requestedBy": "alice"},
            })
        };
        let server = Caller::server().identity.user.clone();
        type Row<'a> = (&'a str, &'a str, &'a [&'a str], &'a [&'a str], bool);
        let rows: [Row<'_>; 6] = [
            ("something else is written", "carol", &["1"], &["1"], true),
            ("an owner is named", "carol", &[], &["1"], false),
            ("an owner is taken away", "carol", &["1"], &[], false),
            ("an owner is exchanged", "carol", &["1"], &["2"], false),
            ("a controller names one", CONTROLLERS, &[], &["1"], true),
            ("the server takes away one that is gone", server.as_str(), &["1"], &[], true),
        ];
        for (name, user, before, after, is_allowed) in rows {
            let (before, after) = (change_set(before, "old"), change_set(after, "new"));
            let judged = judge(user, "ChangeSet", (Some(&before), Some(&after)), check);
            assert_eq!(judged.is_ok(), is_allowed, "{name}");
        }
        let machine = |uid: &str| json!({"metadata": {"ownerReferences": [{"uid": uid}]}});
        let adopted = judge("carol", "Machine", (Some(&machine("1")), Some(&machine("2"))), check);
        assert!(adopted.is_ok(), "other kinds are free");
    }

    #[test]
    fn a_review_that_is_refused_is_told_once_and_by_its_reason() {
        let review = |status: &str, reason: &str| {
            json!({
                "spec": {"gate": "web", "reviewer": "carol"},
                "status": {"conditions": [{"type": "Accepted", "status": status, "reason": reason}]},
            })
        };
        let new = json!({"spec": {"gate": "web", "reviewer": "carol"}});
        let told =
            |before: &Value, after: &Value| refused_review(&resource("Review"), before, after).map(|told| told.0);
        let expected = "Expired: the review of the gate \"web\" by \"carol\" does not count";
        assert_eq!(told(&new, &review("False", "Expired")).as_deref(), Some(expected));
        assert_eq!(told(&review("True", "Counted"), &review("False", "Expired")).as_deref(), Some(expected));
        assert_eq!(told(&review("False", "Expired"), &review("False", "Expired")), None, "it was told");
        assert_eq!(told(&new, &review("True", "Counted")), None, "it counts");
        assert_eq!(told(&new, &review("False", "Comment")), None, "it is no verdict");
        assert!(told(&new, &review("False", "Outdated")).is_some(), "it never counted");
        assert_eq!(told(&review("True", "Counted"), &review("False", "Outdated")), None, "it did until now");
    }
}
