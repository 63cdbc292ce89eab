//! A stand-in for nodes and their agents: it binds Pods, runs them in no time, and lets go of those that are deleted.

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::ledger::Ledger;

/// Makes the one node there is.
pub(super) async fn register(client: &Client) -> kube::Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    let node = json!({"metadata": {"name": "sim"}});
    let node = serde_json::from_value(node).map_err(kube::Error::SerdeError)?;
    nodes.create(&PostParams::default(), &node).await?;
    let status = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    nodes.patch_status("sim", &PatchParams::default(), &Patch::Merge(status)).await.map(drop)
}

/// What a Pod needs next, if anything.
pub(super) enum Need {
    Bind,
    Run,
    End,
    LetGo,
}

pub(super) fn needs(ledger: &Ledger) -> Vec<(String, Need)> {
    ledger.read(|books| {
        let pods = books.pods.values();
        pods.filter_map(|pod| Some((pod.metadata.name.clone()?, need(pod)?))).collect()
    })
}

fn need(pod: &Pod) -> Option<Need> {
    let (spec, status) = (pod.spec.as_ref()?, pod.status.as_ref());
    if pod.metadata.deletion_timestamp.is_some() {
        return Some(Need::LetGo);
    }
    match status.and_then(|status| status.phase.as_deref()).unwrap_or("Pending") {
        "Pending" if spec.node_name.is_none() => Some(Need::Bind),
        "Pending" => Some(Need::Run),
        "Running" if spec.restart_policy.as_deref() == Some("Never") => Some(Need::End),
        _ => None,
    }
}

pub(super) async fn act(client: &Client, name: &str, need: &Need) -> kube::Result<()> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    match need {
        Need::Bind => {
            let binding = json!({"metadata": {"name": name}, "target": {"kind": "Node", "name": "sim"}});
            let parameters = PostParams::default();
            pods.create_subresource::<Value, Value>("binding", name, &parameters, &binding).await.map(drop)
        }
        Need::Run => status(&pods, name, "Running", "True").await,
        Need::End => status(&pods, name, "Succeeded", "False").await,
        Need::LetGo => pods.delete(name, &DeleteParams::default().grace_period(0)).await.map(drop),
    }
}

async fn status(pods: &Api<Pod>, name: &str, phase: &str, ready: &str) -> kube::Result<()> {
    let conditions = json!([{"type": "Ready", "status": ready, "lastTransitionTime": "2030-03-17T17:46:40Z"}]);
    let ips = json!([{"ip": "127.0.0.1"}]);
    let patch = json!({"status": {"phase": phase, "podIP": "127.0.0.1", "podIPs": ips, "conditions": conditions}});
    pods.patch_status(name, &PatchParams::default(), &Patch::Strategic(patch)).await.map(drop)
}
