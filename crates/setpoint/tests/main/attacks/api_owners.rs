//! References to owners that are somebody else's.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use setpoint_testkit::{Server, wait_for};

use crate::SETPOINT;

const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reference_from_another_namespace_holds_up_no_deletion() -> Result<()> {
    let server = Server::start_with(SETPOINT, &["--store", "memory"]).await?;
    let mut client = server.client()?;
    for namespace in ["mine", "theirs"] {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        client.post("/api/v1/namespaces", &object).await?.success()?;
    }
    let maps = |namespace: &str| format!("/api/v1/namespaces/{namespace}/configmaps");
    for (row, version, kind, policy) in [
        ("of its kind", "v1", "ConfigMap", "Foreground"),
        ("of a kind that is not served", "example.com/v1", "Nothing", "Foreground"),
        ("of a kind that is not served, to be orphaned", "example.com/v1", "Nothing", "Orphan"),
    ] {
        let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}});
        let owner = client.post(&maps("mine"), &owner).await?.success()?;
        let reference = json!({
            "apiVersion": version, "kind": kind, "name": "owner", "uid": owner["metadata"]["uid"],
            "blockOwnerDeletion": true,
        });
        // It does not go even if it should, so that it is there for as long as the owner is looked at.
        let dependent = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
            "name": "dependent", "finalizers": ["example.com/held"], "ownerReferences": [reference],
        }});
        client.post(&maps("theirs"), &dependent).await?.success()?;

        let path = format!("{}/owner", maps("mine"));
        client.delete(&format!("{path}?propagationPolicy={policy}")).await?.success()?;
        wait_for(format!("the owner to go ({row})"), PATIENCE, || async {
            Ok((server.client()?.get(&path).await?.status == 404).then_some(()))
        })
        .await?;

        let path = format!("{}/dependent", maps("theirs"));
        ensure!(client.get(&path).await?.status == 200, "{row}: the dependent has a finalizer");
        client.delete(&path).await?.success()?;
        let released = json!({"metadata": {"finalizers": Value::Null}});
        client.patch(&path, "merge-patch", &released).await?.success()?;
        ensure!(client.get(&path).await?.status == 404, "{row}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reference_in_the_namespace_still_does() -> Result<()> {
    let server = Server::start_with(SETPOINT, &["--store", "memory"]).await?;
    let mut client = server.client()?;
    let maps = "/api/v1/namespaces/default/configmaps";
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}});
    let owner = client.post(maps, &owner).await?.success()?;
    let reference = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"], "blockOwnerDeletion": true,
    });
    let dependent = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
        "name": "dependent", "finalizers": ["example.com/held"], "ownerReferences": [reference],
    }});
    client.post(maps, &dependent).await?.success()?;
    client.delete(&format!("{maps}/owner?propagationPolicy=Foreground")).await?.success()?;
    let dependent = format!("{maps}/dependent");
    wait_for("the dependent to be deleted", PATIENCE, || async {
        let object = server.client()?.get(&dependent).await?.success()?;
        Ok(object["metadata"]["deletionTimestamp"].is_string().then_some(()))
    })
    .await?;
    ensure!(client.get(&format!("{maps}/owner")).await?.status == 200, "the owner waits for it");
    let released = json!({"metadata": {"finalizers": Value::Null}});
    client.patch(&dependent, "merge-patch", &released).await?.success()?;
    wait_for("the owner to go", PATIENCE, || async {
        Ok((server.client()?.get(&format!("{maps}/owner")).await?.status == 404).then_some(()))
    })
    .await
}
