//! What people do to workloads, Pods, Services and the places where they run.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Node, Pod, Service};
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Resource};
use serde_json::{Value, json};
use setpoint_api::environment::Environment;
use setpoint_deployer::simulated::{EXIT_AFTER_MS, EXIT_CODE};

use super::machines::EXISTING;
use super::{Users, pick};
use crate::dev::simulate::ledger::{Books, Ledger, Shelf};
use crate::dev::simulate::places;

/// What may be there at once, so that a run stays small enough to be read.
const DEPLOYMENTS: [&str; 2] = ["web", "api"];
const REPLICA_SETS: [&str; 2] = ["lone", "pair"];
const JOBS: [&str; 2] = ["sum", "mail"];
const SERVICES: [&str; 2] = ["front", "back"];

/// What is done, and how often compared to the others.
pub(super) const ACTIONS: [(u32, Action); 19] = [
    (4, Action::CreateDeployment),
    (4, Action::ScaleDeployment),
    (4, Action::ChangeTemplate),
    (1, Action::Pause),
    (2, Action::Undo),
    (1, Action::DeleteDeployment),
    (2, Action::CreateReplicaSet),
    (2, Action::ScaleReplicaSet),
    (1, Action::DeleteReplicaSet),
    (2, Action::CreateJob),
    (1, Action::DeleteJob),
    (2, Action::CreateService),
    (1, Action::DeleteService),
    (4, Action::DeletePod),
    (1, Action::RelabelPod),
    (1, Action::CreatePod),
    (2, Action::CreateEnvironment),
    (1, Action::DeleteEnvironment),
    (1, Action::DeleteNode),
];

#[derive(Debug, Clone, Copy)]
pub(super) enum Action {
    CreateDeployment,
    ScaleDeployment,
    ChangeTemplate,
    Pause,
    Undo,
    DeleteDeployment,
    CreateReplicaSet,
    ScaleReplicaSet,
    DeleteReplicaSet,
    CreateJob,
    DeleteJob,
    CreateService,
    DeleteService,
    DeletePod,
    RelabelPod,
    CreatePod,
    CreateEnvironment,
    DeleteEnvironment,
    DeleteNode,
}

impl Users {
    /// Sees to it that Pods have somewhere to run.
    pub(in crate::dev::simulate) async fn settle_somewhere(&self, ledger: &Ledger) {
        let is_missing = ledger.read(|books| {
            books.environments.values().all(|environment| environment.metadata.deletion_timestamp.is_some())
                && !books.environments.contains_key(places::NAMES[0])
        });
        if is_missing {
            let seed = self.dice.between(0, 1 << 32);
            let _ = self
                .send_workload(Action::CreateEnvironment, places::NAMES[0], environment(places::NAMES[0], seed))
                .await;
        }
    }

    /// To whom it is done, and the body of the request.
    pub(super) fn choose_workload(&self, action: Action, books: &Books) -> Option<(String, Value)> {
        let dice = &self.dice;
        let replicas = dice.below(6);
        match action {
            Action::CreateDeployment => {
                let name = self.absent(&DEPLOYMENTS, &books.deployments)?;
                let strategy = match dice.below(4) {
                    0 => json!({"type": "Recreate"}),
                    kind => {
                        let (surge, unavailable) = [(1, 0), (0, 1), (2, 1)][kind - 1];
                        let rolling = json!({"maxSurge": surge, "maxUnavailable": unavailable});
                        json!({"type": "RollingUpdate", "rollingUpdate": rolling})
                    }
                };
                let spec = json!({
                    "replicas": replicas, "strategy": strategy, "revisionHistoryLimit": dice.below(3),
                    "progressDeadlineSeconds": 60,
                    "selector": {"matchLabels": {"app": name}}, "template": self.template(name, "Always"),
                });
                Some((name.to_owned(), json!({"metadata": {"name": name}, "spec": spec})))
            }
            Action::ScaleDeployment => self.any(&books.deployments, json!({"spec": {"replicas": replicas}})),
            Action::ChangeTemplate => {
                let (name, _) = self.any(&books.deployments, Value::Null)?;
                let template = self.template(&name, "Always");
                Some((name, json!({"spec": {"template": template}})))
            }
            Action::Pause => self.any(&books.deployments, json!({"spec": {"paused": dice.permille(500)}})),
            Action::Undo => {
                let (name, _) = self.any(&books.deployments, Value::Null)?;
                let sets: Vec<_> = books.replica_sets.values().filter(|set| is_owned(&***set, &name)).collect();
                let mut template = json!(dice.pick(&sets)?.spec.as_ref()?.template);
                template.pointer_mut("/metadata/labels")?.as_object_mut()?.remove("pod-template-hash");
                let replaced = json!([{"op": "replace", "path": "/spec/template", "value": template}]);
                Some((name, replaced))
            }
            Action::DeleteDeployment => self.any(&books.deployments, Value::Null),
            Action::CreateReplicaSet => {
                let name = self.absent(&REPLICA_SETS, &books.replica_sets)?;
                // Two that select the same must not fight for each other's Pods.
                let spec = json!({
                    "replicas": replicas,
                    "selector": {"matchLabels": {"app": "lone"}}, "template": self.template("lone", "Always"),
                });
                Some((name.to_owned(), json!({"metadata": {"name": name}, "spec": spec})))
            }
            Action::ScaleReplicaSet => {
                let lone: Shelf<ReplicaSet> = lone(books);
                self.any(&lone, json!({"spec": {"replicas": replicas}}))
            }
            Action::DeleteReplicaSet => self.any(&books.replica_sets, Value::Null),
            Action::CreateJob => {
                let name = self.absent(&JOBS, &books.jobs)?;
                let spec = json!({
                    "completions": dice.below(4) + 1, "parallelism": dice.below(3) + 1, "backoffLimit": 2,
                    "ttlSecondsAfterFinished": dice.permille(300).then_some(30),
                    "template": self.template(name, "Never"),
                });
                Some((name.to_owned(), json!({"metadata": {"name": name}, "spec": spec})))
            }
            Action::DeleteJob => self.any(&books.jobs, Value::Null),
            Action::CreateService => {
                let name = self.absent(&SERVICES, &books.services)?;
                let app = dice.pick(&["web", "api", "lone"])?;
                let ports = json!([{"name": "http", "port": 80, "targetPort": if dice.permille(500) { json!("http") } else { json!(80) }}]);
                let spec = json!({"selector": {"app": app}, "ports": ports});
                Some((name.to_owned(), json!({"metadata": {"name": name}, "spec": spec})))
            }
            Action::DeleteService => {
                let ours = books
                    .services
                    .iter()
                    .filter(|(_, service)| SERVICES.contains(&service.metadata.name.as_deref().unwrap_or_default()));
                self.any(&ours.map(|(name, service)| (name.clone(), service.clone())).collect(), Value::Null)
            }
            Action::DeletePod => self.any(&books.pods, Value::Null),
            Action::RelabelPod => {
                let app = dice.pick(&["web", "api", "lone", "stray"])?;
                self.any(&books.pods, json!({"metadata": {"labels": {"app": app}}}))
            }
            Action::CreatePod => {
                let (name, app) = (format!("orphan-{}", self.count), dice.pick(&["web", "lone", "stray"])?);
                let mut pod = self.template(app, "Always");
                pod["metadata"]["name"] = json!(name);
                Some((name, pod))
            }
            Action::CreateEnvironment => {
                let absent = places::NAMES.into_iter().filter(|name| !books.environments.contains_key(*name));
                let name = *dice.pick(&absent.collect::<Vec<_>>())?;
                Some((name.to_owned(), environment(name, dice.between(0, 1 << 32))))
            }
            Action::DeleteEnvironment => Some((pick(dice, &books.environments)?, Value::Null)),
            Action::DeleteNode => Some((pick(dice, &books.nodes)?, Value::Null)),
        }
    }

    pub(super) async fn send_workload(&self, action: Action, name: &str, body: Value) -> kube::Result<()> {
        match action {
            Action::CreateDeployment => self.create::<Deployment>(body).await,
            Action::ScaleDeployment | Action::ChangeTemplate | Action::Pause => {
                self.patch::<Deployment>(name, body).await
            }
            Action::Undo => self.replace::<Deployment>(name, body).await,
            Action::DeleteDeployment => self.delete::<Deployment>(name).await,
            Action::CreateReplicaSet => self.create::<ReplicaSet>(body).await,
            Action::ScaleReplicaSet => self.patch::<ReplicaSet>(name, body).await,
            Action::DeleteReplicaSet => self.delete::<ReplicaSet>(name).await,
            Action::CreateJob => self.create::<Job>(body).await,
            Action::DeleteJob => self.delete::<Job>(name).await,
            Action::CreateService => self.create::<Service>(body).await,
            Action::DeleteService => self.delete::<Service>(name).await,
            Action::DeletePod => self.delete::<Pod>(name).await,
            Action::RelabelPod => self.patch::<Pod>(name, body).await,
            Action::CreatePod => self.create::<Pod>(body).await,
            Action::CreateEnvironment => {
                let environment = serde_json::from_value(body).map_err(kube::Error::SerdeError)?;
                self.environments().create(&PostParams::default(), &environment).await.map(drop)
            }
            Action::DeleteEnvironment => self.environments().delete(name, &DeleteParams::default()).await.map(drop),
            Action::DeleteNode => {
                Api::<Node>::all(self.client.clone()).delete(name, &DeleteParams::default()).await.map(drop)
            }
        }
    }

    fn environments(&self) -> Api<Environment> {
        Api::all(self.client.clone())
    }

    /// A Pod template that no other is like.
    fn template(&self, app: &str, restart_policy: &str) -> Value {
        let mut variables = vec![json!({"name": "VERSION", "value": self.count.to_string()})];
        if restart_policy == "Never" {
            let code = if self.dice.permille(200) { "1" } else { "0" };
            variables.push(json!({"name": EXIT_CODE, "value": code}));
            variables.push(json!({"name": EXIT_AFTER_MS, "value": self.dice.between(0, 5000).to_string()}));
        }
        let ports = json!([{"name": "http", "containerPort": 8080}]);
        let container = json!({"name": "main", "image": app, "env": variables, "ports": ports});
        json!({
            "metadata": {"labels": {"app": app}},
            "spec": {"containers": [container], "restartPolicy": restart_policy, "terminationGracePeriodSeconds": 5},
        })
    }
}

/// A place with something in it that was there before, and with rules: two people for what is destroyed.
fn environment(name: &str, seed: u64) -> Value {
    let existing = json!([{"id": EXISTING, "name": "old", "cores": 2, "holdsData": true}]);
    let rule = json!({"class": "Destructive", "approvals": 2, "requesterMayApprove": false});
    json!({"metadata": {"name": name}, "spec": {
        "deployer": {"name": "simulated"}, "config": {"seed": seed, "hourlyPrice": "0.10", "existing": existing},
        "approval": {"rules": [rule]}, "orphanPolicy": "Delete",
        "guardrails": {"maxDestroysPerHour": 4, "maxAddedCostPerHour": "2.00"},
    }})
}

/// The ReplicaSets that no Deployment owns.
fn lone(books: &Books) -> Shelf<ReplicaSet> {
    let lone = |set: &ReplicaSet| REPLICA_SETS.contains(&set.metadata.name.as_deref().unwrap_or_default());
    let sets = books.replica_sets.iter().filter(|(_, set)| lone(set));
    sets.map(|(name, set)| (name.clone(), set.clone())).collect()
}

fn is_owned<K: Resource>(object: &K, owner: &str) -> bool {
    object.meta().owner_references.iter().flatten().any(|reference| reference.name == owner)
}
