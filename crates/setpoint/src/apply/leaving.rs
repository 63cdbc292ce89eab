//! What is being deleted cannot be applied: what is written to it goes with it, and a yes to the files is none to its
//! deletion.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use kube::Api;
use serde_json::Value;
use setpoint_api::environment::Environment;

use super::draft::Write;
use crate::session::Session;
use crate::terminal::inert;

/// Whether somebody has deleted an object that is still there.
pub(super) fn is_leaving(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

/// Nothing that is written is being deleted, nor the place of a Machine that would be new.
pub(super) async fn must_stay(session: &Session, writes: &[Write]) -> Result<()> {
    let leaving: Vec<String> = writes.iter().filter_map(told).collect();
    if let Some(what) = sentence(&leaving) {
        bail!(what);
    }
    let environments: Api<Environment> = Api::all(session.server.client.clone());
    let new = writes.iter().filter(|write| write.is_machine() && write.live.is_none());
    let places: BTreeSet<&str> = new.filter_map(|write| write.object["spec"]["environment"].as_str()).collect();
    for place in places {
        // Who may not read it is told by its Machines.
        let Ok(Some(found)) = environments.get_opt(place).await else { continue };
        if found.metadata.deletion_timestamp.is_some() {
            let finalizers = found.metadata.finalizers.unwrap_or_default();
            let held = held(&finalizers.iter().map(String::as_str).collect::<Vec<_>>());
            let place = inert(place);
            bail!(
                "environment {place} is being deleted{held}, so no Machine can be made in it; apply again once it is gone"
            );
        }
    }
    Ok(())
}

/// What is being deleted, and what it waits for.
fn told(write: &Write) -> Option<String> {
    let live = write.live.as_ref().filter(|live| is_leaving(live))?;
    Some(format!("{} {}{}", write.change.kind, inert(&write.change.title()), waits_for(live)))
}

/// What a deletion waits for: what a Machine says of it, or what others have put before it.
fn waits_for(live: &Value) -> String {
    let conditions = live["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let unmet = |condition: &&Value| condition["type"] == "Synced" && condition["status"] != "True";
    let message = conditions.iter().find(unmet).and_then(|synced| synced["message"].as_str()).unwrap_or_default();
    if !message.is_empty() {
        return format!(" ({})", inert(message));
    }
    let finalizers = live["metadata"]["finalizers"].as_array().map(Vec::as_slice).unwrap_or_default();
    held(&finalizers.iter().filter_map(Value::as_str).collect::<Vec<_>>())
}

fn held(finalizers: &[&str]) -> String {
    match finalizers {
        [] => String::new(),
        [one] => format!(" (the finalizer {} holds it)", inert(one)),
        several => format!(" (the finalizers {} hold it)", inert(&several.join(", "))),
    }
}

fn sentence(leaving: &[String]) -> Option<String> {
    match leaving {
        [] => None,
        [one] => Some(format!("{one} is being deleted and cannot be applied; apply again once it is gone")),
        several => Some(format!(
            "{} objects are being deleted and cannot be applied; apply again once they are gone:\n  {}",
            several.len(),
            several.join("\n  ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_deletion_is_told_with_what_it_waits_for() {
        let object = |finalizers: Value, synced: Value| {
            json!({
                "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": finalizers},
                "status": {"conditions": [synced]},
            })
        };
        let gate = json!({"type": "Synced", "status": "False", "message": "needs Destructive: 0 of 1 approval"});
        let synced = json!({"type": "Synced", "status": "True", "message": "all is done"});
        let rows = [
            ("a gate", object(json!(["setpoint.dev/guest"]), gate), " (needs Destructive: 0 of 1 approval)"),
            (
                "it has yet to be looked at",
                object(json!(["setpoint.dev/guest"]), synced),
                " (the finalizer setpoint.dev/guest holds it)",
            ),
            ("several finalizers", object(json!(["a", "b"]), Value::Null), " (the finalizers a, b hold it)"),
            ("a moment", object(Value::Null, Value::Null), ""),
        ];
        for (row, live, expected) in rows {
            assert_eq!(waits_for(&live), expected, "{row}");
            assert!(is_leaving(&live), "{row}");
        }
        assert!(!is_leaving(&json!({"metadata": {"name": "web", "deletionTimestamp": null}})));
    }

    #[test]
    fn everything_that_is_being_deleted_is_named() {
        let one = ["machine.setpoint.dev shop/db (a gate)".to_owned()];
        assert_eq!(sentence(&[]), None);
        assert_eq!(
            sentence(&one).as_deref(),
            Some(
                "machine.setpoint.dev shop/db (a gate) is being deleted and cannot be applied; apply again once it is gone"
            )
        );
        let two = ["environment.setpoint.dev lab".to_owned(), one[0].clone()];
        assert_eq!(
            sentence(&two).as_deref(),
            Some(
                "2 objects are being deleted and cannot be applied; apply again once they are gone:\n  \
                 environment.setpoint.dev lab\n  machine.setpoint.dev shop/db (a gate)"
            )
        );
    }
}
