//! Writes into ClusterRoles what they take together from others, so that people can read it.
//!
//! Decisions do not wait for it: the policy follows the members of such a role by itself.

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};
use setpoint_store::At;

use super::PAUSE;
use crate::authorization::{Kind, Rule};
use crate::failure::Result;
use crate::kinds::rbac::GROUP;
use crate::object::Stored;
use crate::registry::{Resource, text_at};
use crate::server::Shared;
use crate::verbs;

/// Who owns rules that were taken together, as in Kubernetes.
const MANAGER: &str = "clusterrole-aggregation-controller";

/// Keeps them as they should be until the server stops.
pub async fn run(server: Arc<Shared>) {
    let mut stopping = server.stopping();
    loop {
        tokio::select! {
            biased;
            () = server.policy.cluster_roles.notified() => {}
            _ = stopping.wait_for(|stopping| *stopping) => return,
        }
        if let Err(failure) = write(&server).await {
            tracing::warn!(?failure, "the rules of ClusterRoles could not be taken together yet");
            tokio::time::sleep(PAUSE).await;
            server.policy.cluster_roles.notify_one();
        }
    }
}

/// Writes the rules of every ClusterRole whose own are no longer those of its members.
pub async fn write(server: &Shared) -> Result<()> {
    let resource = server.registry().built_in(GROUP, "v1", Kind::ClusterRole.plural());
    for (name, rules) in gathered(server) {
        if let Some(config) = configuration(server, &resource, &name, &rules).await? {
            match verbs::apply_as_server(server, resource.clone(), &name, &config, MANAGER).await {
                // It went, or is another one by now; whoever did that has asked for another look.
                Err(failure) if matches!(failure.code, StatusCode::CONFLICT | StatusCode::NOT_FOUND) => {}
                outcome => outcome?,
            }
        }
    }
    Ok(())
}

fn gathered(server: &Shared) -> Vec<(String, Vec<Rule>)> {
    let policy = server.policy.read();
    let rules = |name: &str| policy.aggregated_rules(name).into_iter().flatten().cloned().collect();
    policy.aggregating_roles().map(|name| (name.to_owned(), rules(name))).collect()
}

/// What to apply to a role so that it has these rules; none if it has them, or is gone.
async fn configuration(server: &Shared, resource: &Resource, name: &str, rules: &[Rule]) -> Result<Option<Value>> {
    let Some(entry) = server.store.get(&resource.key(None, name), At::Now).await?.value else { return Ok(None) };
    let role = resource.value(&Stored::from(&entry));
    if Rule::read_all(&role["rules"]) == rules {
        return Ok(None);
    }
    let rules: Vec<Value> = rules.iter().map(Rule::to_json).collect();
    // By its uid, so that one that is gone is not made again.
    let metadata = json!({"name": name, "uid": text_at(&role, &["metadata", "uid"])});
    Ok(Some(json!({"apiVersion": resource.api_version(), "kind": "ClusterRole", "metadata": metadata, "rules": rules})))
}
