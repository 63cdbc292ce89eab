//! The node agent and the scheduler against the real API server, with a provider that does as it is told.

mod fake_provider;
mod fixture;

use std::time::Duration;

use anyhow::{Context, Result};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Secret};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use setpoint_core::pod::{NoticeKind, Phase};
use setpoint_testkit::wait_for;

use self::fake_provider::{end, exit};
use self::fixture::Cluster;

fn condition<'a>(pod: &'a Value, type_: &str) -> &'a Value {
    let conditions = pod["status"]["conditions"].as_array().expect("conditions");
    conditions.iter().find(|condition| condition["type"] == type_).expect(type_)
}

fn waiting_reason(pod: &Value) -> &Value {
    &pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"]
}

#[tokio::test]
async fn a_pod_is_bound_made_told_of_and_removed() -> Result<()> {
    let cluster = Cluster::start().await?;
    let uid = cluster.run("web", json!({})).await?;
    let pod = cluster.until("web", |pod| condition_holds(pod, "Ready")).await?;
    assert_eq!(pod["spec"]["nodeName"], "local");
    assert_eq!(pod["status"]["phase"], "Running");
    assert_eq!(pod["status"]["podIP"], "127.0.0.1");
    assert_eq!(pod["status"]["containerStatuses"][0]["containerID"], "fake://web-1");
    assert_eq!(pod["status"]["qosClass"], "BestEffort");
    assert_eq!(condition(&pod, "PodScheduled")["status"], "True");
    cluster.until_told("web", "Scheduled", 1).await?;
    cluster.until_told("web", "Started", 1).await?;

    cluster.delete("web", 7).await?;
    cluster.until_gone("web").await?;
    assert!(cluster.provider.made_for(&uid).is_none(), "nothing is left of it");
    assert_eq!(cluster.provider.calls(), ["create web", "stop within 7 s", "delete"], "each step once");
    Ok(())
}

fn condition_holds(pod: &Value, type_: &str) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|condition| condition["type"] == type_ && condition["status"] == "True")
}

#[tokio::test]
async fn what_a_pod_refers_to_is_given_to_it_once_it_is_there() -> Result<()> {
    let cluster = Cluster::start().await?;
    let secret = serde_json::from_value(json!({"metadata": {"name": "login"}, "stringData": {"password": "hunter2"}}))?;
    Api::<Secret>::namespaced(cluster.admin.clone(), "default").create(&PostParams::default(), &secret).await?;
    let uid = cluster
        .run(
            "web",
            json!({
                "containers": [{"name": "web", "image": "a", "env": [
                    {"name": "COLOR", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "color"}}},
                    {"name": "URL", "value": "http://$(COLOR)"},
                ]}],
                "serviceAccountName": "default",
                "volumes": [
                    {"name": "keys", "secret": {"secretName": "login"}},
                    {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}},
                ],
            }),
        )
        .await?;
    let pod = cluster.until("web", |pod| waiting_reason(pod) == "CreateContainerConfigError").await?;
    assert_eq!(pod["status"]["phase"], "Pending");
    assert_eq!(cluster.until_told("web", "Failed", 1).await?, "Error: configmap \"settings\" not found");
    assert_eq!(cluster.provider.calls(), [""; 0], "nothing is made by half");

    let map = serde_json::from_value(json!({"metadata": {"name": "settings"}, "data": {"color": "blue"}}))?;
    Api::<ConfigMap>::namespaced(cluster.admin.clone(), "default").create(&PostParams::default(), &map).await?;
    cluster.until_running("web").await?;
    let order = cluster.provider.made_for(&uid).and_then(|made| made.order).context("an order")?;
    assert_eq!(order.variables["web"].get("URL"), Some("http://blue"));
    let setpoint_deployer::provider::Volume::Files(files) = &order.volumes["keys"] else { panic!("files") };
    assert_eq!(files["password"].content, b"hunter2");
    let setpoint_deployer::provider::Volume::Files(files) = &order.volumes["token"] else { panic!("files") };
    assert_eq!(files["token"].content.iter().filter(|byte| **byte == b'.').count(), 2, "a signed token");
    Ok(())
}

#[tokio::test]
async fn what_a_provider_refuses_is_told_on_the_pod() -> Result<()> {
    let cluster = Cluster::start().await?;
    cluster.run("refused", json!({})).await?;
    let pod = cluster.until("refused", |pod| waiting_reason(pod) == "CreateContainerError").await?;
    let message = &pod["status"]["containerStatuses"][0]["state"]["waiting"]["message"];
    assert_eq!(message, "refused: spec.containers[0].image: is not known here");
    Ok(())
}

#[tokio::test]
async fn a_pod_that_ends_keeps_what_is_left_until_it_is_deleted() -> Result<()> {
    let cluster = Cluster::start().await?;
    let uid = cluster.run("job", json!({"restartPolicy": "Never"})).await?;
    cluster.until_running("job").await?;
    cluster.provider.change(&uid, |made| end(made, 3));
    let pod = cluster.until("job", |pod| pod["status"]["phase"] == "Failed").await?;
    assert_eq!(pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"], 3);
    assert_eq!(condition(&pod, "Ready")["reason"], "PodFailed");
    assert!(cluster.provider.made_for(&uid).is_some(), "its logs can still be read");
    cluster.delete("job", 30).await?;
    cluster.until_gone("job").await?;
    cluster.eventually("it to be cleared away", |provider| provider.made_for(&uid).is_none().then_some(())).await
}

#[tokio::test]
async fn restarts_are_told_and_counted() -> Result<()> {
    let cluster = Cluster::start().await?;
    let uid = cluster.run("web", json!({})).await?;
    cluster.until_running("web").await?;
    for restarts in 1..=3 {
        cluster.provider.change(&uid, |made| {
            let container = &mut made.state.containers[0];
            container.last_exit = Some(exit(1, None));
            container.restarts = restarts;
            container.is_ready = false;
            let (reason, message) = ("CrashLoopBackOff".to_owned(), "back-off 10s".to_owned());
            container.phase = Phase::Waiting { reason, message };
            let message = "Back-off restarting failed container".to_owned();
            made.state.note(Timestamp::now(), NoticeKind::Warning, "BackOff", Some("web"), message);
        });
        let pod = cluster.until("web", |pod| pod["status"]["containerStatuses"][0]["restartCount"] == restarts).await?;
        assert_eq!(waiting_reason(&pod), "CrashLoopBackOff");
        assert_eq!(pod["status"]["phase"], "Running", "it will run again");
        cluster.until_told("web", "BackOff", i32::try_from(restarts)?).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_new_agent_takes_up_what_the_last_one_left() -> Result<()> {
    let mut cluster = Cluster::start().await?;
    let (web, gone) = (cluster.run("web", json!({})).await?, cluster.run("gone", json!({})).await?);
    cluster.until_running("web").await?;
    cluster.until_running("gone").await?;
    cluster.until_told("web", "Started", 1).await?;
    cluster.crash_node().await;
    cluster.pods().delete("gone", &kube::api::DeleteParams::default().grace_period(0)).await?;
    cluster.provider.put(&cluster.id, "a-pod-that-is-long-gone");
    cluster.provider.put("another-cluster", "somebody-elses");
    cluster.provider.change(&web, |made| {
        made.state.note(Timestamp::now(), NoticeKind::Normal, "Pulled", None, "meanwhile".to_owned());
    });
    let calls = cluster.provider.calls().len();

    cluster.start_node();
    for uid in [gone.as_str(), "a-pod-that-is-long-gone"] {
        cluster.eventually("what has no Pod to go", |provider| provider.made_for(uid).is_none().then_some(())).await?;
    }
    cluster.until_told("web", "Pulled", 1).await?;
    cluster.until_told("web", "Started", 1).await?;
    let later = cluster.provider.calls().split_off(calls);
    assert!(later.iter().all(|call| call.starts_with("stop") || call == "delete"), "{later:?}");
    assert!(cluster.provider.made_for(&web).is_some() && cluster.provider.made_for("somebody-elses").is_some());
    Ok(())
}

#[tokio::test]
async fn what_nobody_looks_after_is_started_and_what_is_lost_is_made_again() -> Result<()> {
    let cluster = Cluster::start().await?;
    let uid = cluster.run("web", json!({})).await?;
    let once = cluster.run("once", json!({"restartPolicy": "Never"})).await?;
    cluster.until_running("web").await?;
    cluster.until_running("once").await?;
    cluster.provider.change(&uid, |made| made.is_looked_after = false);
    let is_kept = |made: fake_provider::Made| made.is_looked_after.then_some(());
    cluster.eventually("it to be started", |provider| provider.made_for(&uid).and_then(is_kept)).await?;
    cluster.provider.lose(&uid);
    cluster.eventually("it to be made again", |provider| provider.made_for(&uid).map(drop)).await?;
    cluster.provider.lose(&once);
    let pod = cluster.until("once", |pod| pod["status"]["phase"] == "Failed").await?;
    let ended = &pod["status"]["containerStatuses"][0]["state"]["terminated"];
    assert_eq!((&ended["reason"], &ended["exitCode"]), (&json!("ContainerStatusUnknown"), &json!(137)));
    assert!(cluster.provider.made_for(&once).is_none(), "what may run once does not run twice");
    Ok(())
}

#[tokio::test]
async fn the_time_to_end_can_be_shortened() -> Result<()> {
    let cluster = Cluster::start().await?;
    cluster.run("stubborn", json!({})).await?;
    cluster.until_running("stubborn").await?;
    cluster.delete("stubborn", 600).await?;
    let ordered = |grace: &'static str| {
        cluster.eventually(grace, move |provider| provider.calls().contains(&grace.to_owned()).then_some(()))
    };
    ordered("stop within 600 s").await?;
    cluster.delete("stubborn", 1).await?;
    ordered("stop within 1 s").await?;
    cluster.until_gone("stubborn").await
}

#[tokio::test]
async fn a_fault_in_the_work_on_one_pod_is_told_and_disturbs_no_other() -> Result<()> {
    let cluster = Cluster::start().await?;
    cluster.run("panics", json!({})).await?;
    let message = cluster.until_told("panics", "InternalError", 1).await?;
    assert!(message.contains("this Pod makes us panic"), "{message}");
    cluster.run("web", json!({})).await?;
    cluster.until_running("web").await.map(drop)
}

#[tokio::test]
async fn a_pod_that_fits_nowhere_waits_until_it_does() -> Result<()> {
    let cluster = Cluster::start().await?;
    // That there is a node, and that it is ready.
    cluster.run("first", json!({})).await?;
    cluster.until_running("first").await?;
    cluster.run("picky", json!({"nodeSelector": {"disk": "ssd"}})).await?;
    cluster.run("gated", json!({"schedulingGates": [{"name": "example.com/wait"}]})).await?;
    cluster.run("others", json!({"schedulerName": "another"})).await?;
    let pod = cluster.until("picky", |pod| pod["status"]["conditions"][0]["reason"] == "Unschedulable").await?;
    assert_eq!(condition(&pod, "PodScheduled")["status"], "False");
    let expected = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.";
    assert_eq!(cluster.until_told("picky", "FailedScheduling", 1).await?, expected);
    let label = Patch::Merge(json!({"metadata": {"labels": {"disk": "ssd"}}}));
    Api::<Node>::all(cluster.admin.clone()).patch("local", &PatchParams::default(), &label).await?;
    cluster.until("picky", |pod| pod["spec"]["nodeName"] == "local").await?;
    for name in ["gated", "others"] {
        let pod = serde_json::to_value(cluster.pods().get(name).await?)?;
        assert_eq!(pod["spec"]["nodeName"], Value::Null, "{name}");
    }
    Ok(())
}

#[tokio::test]
async fn the_node_is_there_and_alive() -> Result<()> {
    let cluster = Cluster::start().await?;
    let nodes: Api<Node> = Api::all(cluster.admin.clone());
    let leases: Api<Lease> = Api::namespaced(cluster.admin.clone(), "kube-node-lease");
    let (node, lease) = wait_for("the node and its lease", Duration::from_secs(30), || async {
        Ok(nodes.get_opt("local").await?.zip(leases.get_opt("local").await?))
    })
    .await?;
    let node = serde_json::to_value(node)?;
    assert_eq!(node["metadata"]["labels"]["kubernetes.io/hostname"], "local");
    assert_eq!(node["metadata"]["labels"]["setpoint.dev/environment"], "local");
    assert_eq!(node["status"]["conditions"][0]["type"], "Ready");
    assert_eq!(node["status"]["conditions"][0]["status"], "True");
    assert!(node["status"]["capacity"]["cpu"].is_string() && node["status"]["nodeInfo"]["kernelVersion"].is_string());
    let lease = serde_json::to_value(lease)?;
    assert_eq!(lease["spec"]["leaseDurationSeconds"], 40);
    assert_eq!(lease["metadata"]["ownerReferences"][0]["uid"], node["metadata"]["uid"]);
    Ok(())
}
