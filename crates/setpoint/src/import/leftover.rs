//! A Machine that an import made and that has nothing under care: it is removed again, or gives way to another import.

use std::time::Duration;

use anyhow::{Result, anyhow, ensure};
use http::Method;
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use setpoint_api::environment::Create;
use setpoint_api::machine::Machine;

use crate::client::Reply;
use crate::get::JSON;
use crate::session::Session;
use crate::terminal::inert;

/// How often a Machine is looked at again that changed while it was to be removed.
const ATTEMPTS: usize = 10;
/// What a Machine says that an import made, before anything was observed.
const SAID: [&str; 4] = ["create", "deletionPolicy", "environment", "providerId"];

/// Whether nobody would miss a Machine: it has no guest under care and none on the way to it.
pub(super) fn is_unused(machine: &Machine) -> bool {
    machine.status.as_ref().is_none_or(|status| status.provider_id.is_none() && status.intents.is_empty())
}

/// Whether a Machine is what an import leaves behind that failed or was stopped: it insists on a guest, says nothing of what
/// that is to be like, belongs to nobody, and is unused.
pub(super) fn is_leftover(machine: &Machine) -> bool {
    let spec = serde_json::to_value(&machine.spec).unwrap_or_default();
    let says_no_more = spec.as_object().is_some_and(|spec| spec.keys().all(|field| SAID.contains(&field.as_str())));
    let is_nobodys = machine.labels().is_empty()
        && machine.owner_references().is_empty()
        && machine.annotations().keys().all(|name| name.starts_with("setpoint.dev/"));
    machine.spec.create == Create::Never
        && machine.spec.provider_id.is_some()
        && says_no_more
        && is_nobodys
        && is_unused(machine)
}

/// Removes a Machine for as long as it is unused, and waits until it is gone. The version that was judged is the one that is
/// deleted, so that no guest goes with it that came under care meanwhile.
pub(super) async fn remove(session: &Session, machine: &Machine, within: Duration) -> Result<()> {
    let (name, uid) = (machine.name_any(), machine.uid().unwrap_or_default());
    let machines: Api<Machine> = Api::namespaced(session.server.client.clone(), &session.server.namespace);
    for _ in 0..ATTEMPTS {
        let found = machines.get_opt(&name).await.map_err(|error| session.server.unreachable(error))?;
        let Some(now) = found.filter(|found| found.metadata.uid == machine.metadata.uid) else { return Ok(()) };
        ensure!(is_unused(&now), "the Machine {} has a guest by now", inert(&name));
        if now.metadata.deletion_timestamp.is_none() && !deleted(session, &now).await? {
            continue;
        }
        let gone = tokio::time::timeout(within, await_condition(machines, &name, conditions::is_deleted(&uid))).await;
        let gone =
            gone.map_err(|_| anyhow!("the Machine {} is still being deleted; say it again then", inert(&name)))?;
        return gone.map(|_| ()).map_err(|error| anyhow!(inert(&error.to_string())));
    }
    Err(anyhow!("the Machine {} changes all the time", inert(&name)))
}

/// Whether just this version of it was deleted, or nothing.
async fn deleted(session: &Session, machine: &Machine) -> Result<bool> {
    let (namespace, name) = (session.server.namespace.as_str(), machine.name_any());
    let path = format!("/apis/setpoint.dev/v1alpha1/namespaces/{namespace}/machines/{name}");
    let options = json!({
        "apiVersion": "v1", "kind": "DeleteOptions",
        "preconditions": {"uid": machine.metadata.uid, "resourceVersion": machine.metadata.resource_version},
    });
    match session.server.send(Method::DELETE, &path, Some((JSON, &options))).await? {
        Reply::Refused(status) if status.code == 404 => Ok(true),
        Reply::Refused(status) if status.code == 409 => Ok(false),
        reply => reply.object().map(|_: Value| true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_an_import_left_behind_gives_way() {
        let bare = json!({"environment": "lab", "providerId": "17", "create": "Never", "deletionPolicy": "Delete"});
        let nameless = json!({"environment": "lab", "create": "Never"});
        let makes = json!({"environment": "lab", "providerId": "17"});
        let managed = json!({"environment": "lab", "providerId": "17", "create": "Never", "cores": 2});
        let (asked, none) = (json!({"annotations": {"setpoint.dev/requested-by": "carol"}}), json!({}));
        let intent = json!({
            "id": "i", "action": "Adopt", "digest": "d", "startedAt": "2026-01-01T00:00:00Z", "epoch": 1,
        });
        let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "u"});
        let rows = [
            ("just made", &bare, asked.clone(), none.clone(), true),
            ("seen, and yet to be agreed to", &bare, asked.clone(), json!({"observed": {"cores": "2"}}), true),
            ("its guest is under care", &bare, asked.clone(), json!({"providerId": "17"}), false),
            ("its guest is about to be", &bare, asked, json!({"intents": [intent]}), false),
            ("it insists on no guest", &nameless, none.clone(), none.clone(), false),
            ("it would make a guest", &makes, none.clone(), none.clone(), false),
            ("it says what the guest is to be like", &managed, none.clone(), none.clone(), false),
            ("it is in an apply set", &bare, json!({"labels": {"a": "b"}}), none.clone(), false),
            ("another tool marked it", &bare, json!({"annotations": {"example.com/a": "b"}}), none.clone(), false),
            ("it belongs to another object", &bare, json!({"ownerReferences": [owner]}), none, false),
        ];
        for (row, spec, mut metadata, status, expected) in rows {
            metadata["name"] = json!("db");
            let object = json!({
                "apiVersion": "setpoint.dev/v1alpha1", "kind": "Machine",
                "metadata": metadata, "spec": spec, "status": status,
            });
            let machine: Machine = serde_json::from_value(object).expect("a Machine");
            assert_eq!(is_leftover(&machine), expected, "{row}");
        }
    }
}
