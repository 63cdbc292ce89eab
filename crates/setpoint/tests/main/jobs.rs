//! Jobs of real processes, whose server is killed while they run.

use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};
use setpoint_testkit::{Server, wait_for};

use crate::SETPOINT;

const PATIENCE: Duration = Duration::from_secs(120);
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";

async fn status(server: &Server, name: &str) -> Result<Value> {
    let job = server.client()?.get(&format!("{JOBS}/{name}")).await?.success()?;
    Ok(job["status"].clone())
}

fn is(status: &Value, type_: &str) -> bool {
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| condition["type"] == type_ && condition["status"] == "True")
}

/// Every third success the server is killed, without a warning.
#[tokio::test]
async fn each_pod_is_counted_once_though_the_server_is_killed_again_and_again() -> Result<()> {
    let mut server = Server::start_with_local_node(SETPOINT).await?;
    let completions = 12;
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "sum"},
        "spec": {"completions": completions, "parallelism": 3, "backoffLimit": 0, "template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "c", "command": ["true"]}],
        }}},
    });
    server.client()?.post(JOBS, &job).await?.success()?;
    for step in 1..4 {
        wait_for("some Pods to succeed", PATIENCE, || async {
            let status = status(&server, "sum").await?;
            Ok((status["succeeded"].as_i64().unwrap_or(0) >= step * 3 || is(&status, "Complete")).then_some(()))
        })
        .await?;
        server.restart().await?;
    }
    let done = wait_for("the Job to complete", PATIENCE, || async {
        Ok(Some(status(&server, "sum").await?).filter(|status| is(status, "Complete") || is(status, "Failed")))
    })
    .await?;
    assert_eq!((&done["succeeded"], &done["failed"], is(&done, "Complete")), (&json!(completions), &Value::Null, true));
    let pods = server.client()?.get("/api/v1/namespaces/default/pods?labelSelector=job-name%3Dsum").await?;
    let pods = pods.success()?;
    let pods = pods["items"].as_array().cloned().unwrap_or_default();
    assert_eq!(pods.len(), completions, "no Pod was made that was not needed");
    assert!(pods.iter().all(|pod| pod["metadata"]["finalizers"].is_null()), "nobody is kept for ever");
    Ok(())
}
