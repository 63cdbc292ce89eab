//! Who may use an Environment, adopt what is there, and give that: tried as an attacker would, through the real binary.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use setpoint_testkit::{Client, Kubeconfig, wait_for};

use super::cluster::{Cluster, MACHINES, PATIENCE, condition, is_synced, machine, text};
use crate::SETPOINT;

const SHOP: &str = "/apis/setpoint.dev/v1alpha1/namespaces/shop/machines";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/shop";
const ACCESS_REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
const GROUP: &str = "rbac.authorization.k8s.io";

/// A place with a guest that somebody else made, and a namespace `shop`.
async fn town() -> Result<Cluster> {
    let existing = json!([{"id": "101", "name": "ledger", "cores": 2, "run": "Running", "holdsData": true}]);
    let cluster = Cluster::start(json!({"existing": existing}), json!({})).await?;
    cluster.client()?.post("/api/v1/namespaces", &json!({"metadata": {"name": "shop"}})).await?.success()?;
    Ok(cluster)
}

fn binding(name: &str, role: &str, subject: Value) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role}, "subjects": [subject],
    })
}

impl Cluster {
    /// Somebody with a credential of their own and a role in `shop`.
    async fn citizen(&self, who: &str, role: &str) -> Result<Client> {
        let credential = self.server.folder().join(format!("{who}.yaml"));
        fs::write(&credential, self.setpoint(&["user", "create", who])?)?;
        let subject = json!({"kind": "User", "apiGroup": GROUP, "name": who});
        let binding = binding(&format!("{who}-{role}"), role, subject);
        self.client()?.post(&format!("{RBAC}/rolebindings"), &binding).await?.success()?;
        Client::new(&Kubeconfig::read(&credential)?)
    }

    /// What a command on the server's folder prints.
    fn setpoint(&self, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(SETPOINT);
        let output = command.args(arguments).arg("--data-dir").arg(self.server.data_dir()).output()?;
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "{arguments:?}: {error}");
        Ok(String::from_utf8(output.stdout)?)
    }

    fn grant(&self, arguments: &[&str]) -> Result<String> {
        let always = ["env", "grant", "lab", "--namespace", "shop"];
        self.setpoint(&always.iter().chain(arguments).copied().collect::<Vec<_>>())
    }

    /// The answer to whether somebody may approve at the place, from `shop`.
    async fn may_approve(&self, user: &str, uid: &str) -> Result<bool> {
        let attributes = json!({
            "verb": "approve", "group": "setpoint.dev", "resource": "environments", "name": "lab", "namespace": "shop",
        });
        let review = json!({"spec": {"user": user, "uid": uid, "resourceAttributes": attributes}});
        let answer = self.client()?.post(ACCESS_REVIEWS, &review).await?.success()?;
        answer["status"]["allowed"].as_bool().context("an answer")
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_edit_takes_no_guest_by_its_id() -> Result<()> {
    let cluster = town().await?;
    let mut mallory = cluster.citizen("mallory", "edit").await?;
    let theft = machine("mine", json!({"providerId": "101", "run": "Stopped"}));
    let refused = mallory.post(SHOP, &theft).await?;
    let line = "setpoint env grant lab --namespace shop --user mallory --verbs use,adopt";
    ensure!(refused.status == 403 && refused.text().contains(line), "{}", refused.text());
    cluster.grant(&["--user", "mallory"])?;
    let refused = mallory.post(SHOP, &theft).await?;
    ensure!(refused.status == 403 && refused.text().contains("--verbs adopt"), "{}", refused.text());
    mallory.post(SHOP, &machine("mine", json!({"cores": 1}))).await?.success()?;
    let pin = json!({"spec": {"providerId": "101"}});
    let refused = mallory.patch(&format!("{SHOP}/mine"), "merge-patch", &pin).await?;
    ensure!(!refused.status.is_success(), "{}", refused.text());

    // Who may adopt has to be agreed with all the same.
    cluster.grant(&["--user", "mallory", "--verbs", "use,adopt"])?;
    let theft = machine("theirs", json!({"providerId": "101", "run": "Stopped"}));
    mallory.post(SHOP, &theft).await?.success()?;
    let waits = wait_for("the adoption to wait", PATIENCE, || async {
        let machine = cluster.client()?.get(&format!("{SHOP}/theirs")).await?.success()?;
        Ok((condition(&machine, "Synced")["reason"] == "Waiting").then_some(machine))
    });
    let machine = waits.await?;
    let told = text(&condition(&machine, "Synced")["message"]);
    ensure!(told.contains("Destructive"), "{told}");
    let truth = cluster.truth()?;
    let foreign = truth.values().filter(|guest| guest["mark"].is_null()).count();
    ensure!(foreign == 1, "it is not ours: {truth:#?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_holds_a_guest_keeps_it_and_others_are_refused_alone() -> Result<()> {
    let cluster = town().await?;
    cluster.make("bank", json!({"cores": 1, "image": "a:1"})).await?;
    let bank = cluster.synced("bank").await?;
    let id = text(&bank["status"]["providerId"]);
    let mut mallory = cluster.citizen("mallory", "edit").await?;
    cluster.grant(&["--user", "mallory", "--verbs", "use,adopt"])?;
    mallory.post(SHOP, &machine("mine", json!({"providerId": id, "run": "Stopped"}))).await?.success()?;
    let refused = wait_for("a refusal", PATIENCE, || async {
        let machine = cluster.client()?.get(&format!("{SHOP}/mine")).await?.success()?;
        Ok((condition(&machine, "Synced")["reason"] == "Refused").then_some(machine))
    });
    let refused = refused.await?;
    let told = text(&condition(&refused, "Synced")["message"]);
    let uid = text(&bank["metadata"]["uid"]);
    ensure!(!told.contains("bank") && !told.contains("default") && !told.contains(&uid), "{told}");

    // The other one goes on as if nothing had been written.
    cluster.change("bank", json!({"spec": {"cores": 2}})).await?;
    let bank = cluster
        .until("bank", "it to be changed", |bank| is_synced(bank) && bank["status"]["observed"]["cores"] == "2")
        .await?;
    ensure!(text(&bank["status"]["providerId"]) == id, "{bank:#}");

    // Two that name a guest that is nobody's yet: the first one has it, and only the second is refused.
    let first = cluster.make("ledger", json!({"providerId": "101", "create": "Never"})).await?;
    ensure!(first["spec"]["providerId"] == "101", "{first:#}");
    cluster.until("ledger", "it to wait", |it| condition(it, "Synced")["reason"] == "Waiting").await?;
    // The times of objects have seconds.
    let next_second = first["metadata"]["creationTimestamp"].clone();
    wait_for("the next second", PATIENCE, || async {
        let probe =
            cluster.client()?.post(&format!("{MACHINES}?dryRun=All"), &machine("probe", json!({}))).await?.success()?;
        Ok((probe["metadata"]["creationTimestamp"] != next_second).then_some(()))
    })
    .await?;
    mallory.post(SHOP, &machine("late", json!({"providerId": "101", "create": "Never"}))).await?.success()?;
    let late = wait_for("a refusal", PATIENCE, || async {
        let machine = cluster.client()?.get(&format!("{SHOP}/late")).await?.success()?;
        Ok((condition(&machine, "Synced")["reason"] == "Refused").then_some(machine))
    });
    let told = text(&condition(&late.await?, "Synced")["message"]);
    ensure!(told.contains("already claimed by a Machine of another namespace"), "{told}");
    let ledger = cluster.look_again("ledger").await?;
    ensure!(condition(&ledger, "Synced")["reason"] == "Waiting", "{ledger:#}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_administers_a_namespace_makes_no_approvers() -> Result<()> {
    let cluster = town().await?;
    let mut ada = cluster.citizen("ada", "admin").await?;
    cluster.grant(&["--user", "ada", "--verbs", "use,approve"])?;
    ensure!(cluster.may_approve("ada", "").await?, "she was given it");
    for name in ["one", "two"] {
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}});
        let made = ada.post("/api/v1/namespaces/shop/serviceaccounts", &account).await?.success()?;
        let subject = || json!({"kind": "ServiceAccount", "name": name, "namespace": "shop"});
        ada.post(&format!("{RBAC}/rolebindings"), &binding(name, "setpoint:reviewer", subject())).await?.success()?;
        let mut given = binding(&format!("{name}-approves"), "", subject());
        given["roleRef"] = json!({"apiGroup": GROUP, "kind": "Role", "name": "setpoint:lab:approve"});
        let refused = ada.post(&format!("{RBAC}/rolebindings"), &given).await?;
        let words = "takes \\\"update\\\" on it at the cluster scope";
        ensure!(refused.status == 403 && refused.text().contains(words), "{}", refused.text());
        let user = format!("system:serviceaccount:shop:{name}");
        ensure!(!cluster.may_approve(&user, &text(&made["metadata"]["uid"])).await?, "{name} may approve");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_was_revoked_or_has_no_binding_any_more_may_not_approve() -> Result<()> {
    let cluster = town().await?;
    cluster.citizen("alice", "setpoint:reviewer").await?;
    cluster.citizen("bob", "setpoint:reviewer").await?;
    ensure!(!cluster.may_approve("alice", "").await?, "a reviewer approves nowhere before that is granted");
    let told = cluster.grant(&["--user", "alice", "--user", "bob", "--verbs", "approve"])?;
    ensure!(told.contains("the user alice, the user bob may approve lab in the namespace shop"), "{told}");
    let again = cluster.grant(&["--user", "alice", "--verbs", "approve"])?;
    ensure!(again.contains("the user alice could approve lab in the namespace shop before"), "{again}");
    ensure!(cluster.may_approve("alice", "").await? && cluster.may_approve("bob", "").await?, "both may");
    cluster.setpoint(&["user", "revoke", "alice"])?;
    ensure!(!cluster.may_approve("alice", "").await?, "alice was revoked");
    ensure!(cluster.may_approve("bob", "").await?, "bob was not");
    cluster.client()?.delete(&format!("{RBAC}/rolebindings/setpoint:lab:approve")).await?.success()?;
    ensure!(!cluster.may_approve("bob", "").await?, "the binding is gone");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_run_where_their_account_may_have_them_run() -> Result<()> {
    let cluster = town().await?;
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    cluster.client()?.post("/api/v1/namespaces/shop/serviceaccounts", &account).await?;
    let mut mallory = cluster.citizen("mallory", "edit").await?;
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "x"}], "automountServiceAccountToken": false},
            },
        },
    });
    mallory.post("/apis/apps/v1/namespaces/shop/deployments", &deployment).await?.success()?;
    let pods = "/api/v1/namespaces/shop/pods";
    let pod = |what: &'static str, is_so: fn(&Value) -> bool| {
        let cluster = &cluster;
        wait_for(what, PATIENCE, move || async move { Ok(cluster.list(pods).await?.into_iter().find(is_so)) })
    };
    let is_told = |pod: &Value| text(&condition(pod, "PodScheduled")["message"]).contains("ServiceAccount may not use");
    pod("a Pod that is told why it has no node", is_told).await?;
    cluster.grant(&["--service-account", "default"])?;
    pod("the Pod to run", |pod| pod["spec"]["nodeName"] == "lab" && pod["status"]["phase"] == "Running").await?;
    Ok(())
}
