//! Change sets, gates and reviews through the real binary: who may decide, what counts, and what each other one is told.

mod signed;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use setpoint_api::change_set::{ChangeSet, EntryState, Phase};
use setpoint_api::condition::Condition;
use setpoint_api::environment::Environment;
use setpoint_api::machine::Machine;
use setpoint_api::planspec::gate::{Gate, GatePhase};
use setpoint_api::requester::REQUESTED_BY;
use setpoint_api::review::Review;
use setpoint_testkit::grants::on_every_environment;
use setpoint_testkit::{Server, wait_for};

use crate::SETPOINT;

const PATIENCE: Duration = Duration::from_secs(60);
const NAMESPACE: &str = "shop";

/// A server with a simulated Environment whose rules are given, and people who may ask and review.
struct Office {
    server: Server,
    admin: Client,
    people: BTreeMap<&'static str, Client>,
}

impl Office {
    async fn open(approval: Value) -> Result<Office> {
        let server = Server::start(SETPOINT).await?;
        let admin = client(Kubeconfig::read_from(server.kubeconfig_path())?, None).await?;
        let mut office = Office { admin, server, people: BTreeMap::new() };
        let namespace = serde_json::from_value(json!({"metadata": {"name": NAMESPACE}}))?;
        Api::<Namespace>::all(office.admin.clone()).create(&PostParams::default(), &namespace).await?;
        let environment = json!({
            "apiVersion": "setpoint.dev/v1alpha1", "kind": "Environment", "metadata": {"name": "lab"},
            "spec": {"deployer": {"name": "simulated"}, "approval": approval},
        });
        let environments: Api<Environment> = Api::all(office.admin.clone());
        environments.create(&PostParams::default(), &serde_json::from_value(environment)?).await?;
        for who in ["alice", "bob", "carol"] {
            for (path, object) in on_every_environment(&["use", "approve"], "User", who) {
                office.server.client()?.post(path, &object).await?.success()?;
            }
        }
        for (who, role) in [("alice", "setpoint:reviewer"), ("bob", "setpoint:reviewer"), ("carol", "admin")] {
            let binding = json!({
                "metadata": {"name": format!("{who}-reviews")},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
                "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": who}],
            });
            let bindings: Api<k8s_openapi::api::rbac::v1::RoleBinding> =
                Api::namespaced(office.admin.clone(), NAMESPACE);
            bindings.create(&PostParams::default(), &serde_json::from_value(binding)?).await?;
            let known = office.known(who).await?;
            office.people.insert(who, known);
        }
        Ok(office)
    }

    /// Somebody with a credential of their own.
    async fn known(&self, user: &str) -> Result<Client> {
        let mut command = Command::new(SETPOINT);
        let output = command.args(["user", "create", user, "--data-dir"]).arg(self.server.data_dir()).output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        std::fs::write(self.credential(user), output.stdout)?;
        client(Kubeconfig::read_from(self.credential(user))?, None).await
    }

    fn credential(&self, user: &str) -> PathBuf {
        self.server.folder().join(format!("{user}.yaml"))
    }

    fn person(&self, user: &str) -> Result<Client> {
        self.people.get(user).cloned().with_context(|| format!("nobody knows {user}"))
    }

    /// Carol writes a Machine; gives back the change set that asks about it.
    async fn asked(&self) -> Result<(ChangeSet, String, Vec<String>)> {
        let machines: Api<Machine> = Api::namespaced(self.person("carol")?, NAMESPACE);
        machines.create(&PostParams::default(), &serde_json::from_value(machine())?).await?;
        self.waiting().await
    }

    /// A change set of carol's that shows what making a Machine would take.
    async fn preview(&self, name: &str) -> Result<ChangeSet> {
        let change_set = json!({
            "apiVersion": "setpoint.dev/v1alpha1", "kind": "ChangeSet", "metadata": {"name": name},
            "spec": {"environment": "lab", "mode": "Preview", "requestedBy": "carol", "objects": [machine()]},
        });
        let sets: Api<ChangeSet> = Api::namespaced(self.person("carol")?, NAMESPACE);
        sets.create(&PostParams::default(), &serde_json::from_value(change_set)?).await?;
        self.until(name, |set| phase(set).is_some_and(|phase| phase != Phase::Pending)).await
    }

    async fn until(&self, name: &str, holds: impl Fn(&ChangeSet) -> bool) -> Result<ChangeSet> {
        let sets: Api<ChangeSet> = Api::namespaced(self.admin.clone(), NAMESPACE);
        let (sets, holds) = (&sets, &holds);
        let found = wait_for(format!("the change set {name}"), PATIENCE, || async {
            Ok(sets.get_opt(name).await?.filter(|set| holds(set)))
        });
        match found.await {
            Ok(found) => Ok(found),
            Err(error) => Err(error.context(format!("{:?}", sets.get_opt(name).await?.and_then(|set| set.status)))),
        }
    }

    /// The change set that asks about the Machine as it is, its name, and the digests of its steps, once it waits for people.
    async fn waiting(&self) -> Result<(ChangeSet, String, Vec<String>)> {
        let sets: Api<ChangeSet> = Api::namespaced(self.admin.clone(), NAMESPACE);
        let machines: Api<Machine> = Api::namespaced(self.admin.clone(), NAMESPACE);
        let (sets, machines) = (&sets, &machines);
        let found = wait_for("a change set for the Machine", PATIENCE, || async {
            let Some(uid) = machines.get_opt("web").await?.and_then(|machine| machine.metadata.uid) else {
                return Ok(None);
            };
            let asks = |set: &ChangeSet| {
                let mut entries = set.status.iter().flat_map(|status| &status.entries);
                phase(set) == Some(Phase::Waiting) && entries.any(|entry| entry.object.as_ref() == Some(&uid))
            };
            Ok(sets.list(&ListParams::default()).await?.items.into_iter().find(asks))
        });
        let found = found.await?;
        let name = found.metadata.name.clone().context("a name")?;
        let digests = found.spec.steps.iter().map(|step| step.digest.clone()).collect();
        Ok((found, name, digests))
    }

    async fn gate(&self, name: &str, phase: GatePhase) -> Result<Gate> {
        let gates: Api<Gate> = Api::namespaced(self.admin.clone(), NAMESPACE);
        let gates = &gates;
        wait_for(format!("the gate {name} to be {phase:?}"), PATIENCE, || async {
            let gate = gates.get_opt(name).await?;
            Ok(gate.filter(|gate| gate.status.as_ref().and_then(|status| status.phase) == Some(phase)))
        })
        .await
    }

    /// Gives a verdict, and says what it is told.
    async fn review(&self, who: &str, name: &str, spec: Value) -> Result<Condition> {
        self.say(who, name, spec).await?;
        self.answer(name).await
    }

    async fn say(&self, who: &str, name: &str, spec: Value) -> Result<()> {
        let review = json!({
            "apiVersion": "setpoint.dev/v1alpha1", "kind": "Review", "metadata": {"name": name}, "spec": spec,
        });
        let reviews: Api<Review> = Api::namespaced(self.person(who)?, NAMESPACE);
        reviews.create(&PostParams::default(), &serde_json::from_value(review)?).await?;
        Ok(())
    }

    async fn answer(&self, name: &str) -> Result<Condition> {
        let reviews: Api<Review> = Api::namespaced(self.admin.clone(), NAMESPACE);
        let reviews = &reviews;
        wait_for(format!("an answer to the review {name}"), PATIENCE, || async {
            let status = reviews.get_opt(name).await?.and_then(|review| review.status);
            Ok(status.and_then(|status| status.conditions.into_iter().find(|one| one.type_ == "Accepted")))
        })
        .await
    }

    async fn told(&self, name: &str, reason: &str) -> Result<()> {
        let wanted = Some(reason);
        wait_for(format!("the review {name} to be told {reason}"), PATIENCE, || async {
            let answer = self.answer(name).await?;
            Ok((answer.reason.as_deref() == wanted).then_some(()))
        })
        .await
    }

    /// Waits for the line that the audit log has of a review that was refused for this reason.
    async fn audited(&self, reason: &str) -> Result<()> {
        let path = self.server.data_dir().join("audit/audit.log");
        let (path, line) = (&path, format!(r#""setpoint.dev/refused-review":"{reason}: the review of the gate"#));
        let line = &line;
        wait_for(format!("{reason} in the audit log"), PATIENCE, || async move {
            Ok(std::fs::read_to_string(path)?.contains(line).then_some(()))
        })
        .await
    }
}

fn machine() -> Value {
    json!({
        "apiVersion": "setpoint.dev/v1alpha1", "kind": "Machine",
        "metadata": {"name": "web", "namespace": NAMESPACE},
        "spec": {"environment": "lab", "cores": 2, "memory": "2Gi"},
    })
}

/// Whose credential a kubeconfig has, or somebody whom they act as.
async fn client(kubeconfig: Kubeconfig, acting_as: Option<&str>) -> Result<Client> {
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.auth_info.impersonate = acting_as.map(str::to_owned);
    Ok(Client::try_from(config)?)
}

/// What makes a Machine needs so many approvals, by anybody but who asked.
fn rules(approvals: u32) -> Value {
    let rule = |class: &str| json!({"class": class, "approvals": approvals, "requesterMayApprove": false});
    json!({"rules": [rule("Benign"), rule("Disruptive"), rule("Spend"), rule("Destructive")]})
}

fn verdict(who: &str, gate: &str, decision: &str, digests: &[String]) -> Value {
    json!({"gate": gate, "decision": decision, "reviewer": who, "digests": digests})
}

fn reason(answer: &Condition) -> &str {
    answer.reason.as_deref().unwrap_or_default()
}

fn phase(change_set: &ChangeSet) -> Option<Phase> {
    change_set.status.as_ref().and_then(|status| status.phase)
}

#[tokio::test]
async fn a_preview_shows_what_would_be_done_and_opens_no_gate() -> Result<()> {
    let office = Office::open(rules(1)).await?;
    let preview = office.preview("preview").await?;
    let status = preview.status.clone().context("a status")?;
    ensure!(phase(&preview) == Some(Phase::Planned), "{status:?}");
    ensure!(status.counts.is_some_and(|counts| counts.creates == 1), "{status:?}");
    ensure!(status.steps.iter().any(|step| step.id == "shop/web/create"), "{status:?}");
    let gates: Api<Gate> = Api::namespaced(office.admin.clone(), NAMESPACE);
    ensure!(gates.get_opt("preview").await?.is_none());
    let machines: Api<Machine> = Api::namespaced(office.admin.clone(), NAMESPACE);
    ensure!(machines.get_opt("web").await?.is_none(), "nothing is written");
    Ok(())
}

#[tokio::test]
async fn two_people_approve_and_who_asked_is_none_of_them() -> Result<()> {
    let office = Office::open(rules(2)).await?;
    let (asked, web, steps) = office.asked().await?;
    ensure!(asked.spec.requested_by == "carol" && asked.spec.rules.len() == 4, "{:?}", asked.spec);
    let gate = office.gate(&web, GatePhase::Waiting).await?;
    ensure!(gate.spec.required_approvers == Some(2) && gate.spec.target_ref.uid == asked.metadata.uid);

    let own = office.review("carol", "own", verdict("carol", &web, "Approve", &steps)).await?;
    ensure!(reason(&own) == "Requester", "{own:?}");
    let first = office.review("alice", "first", verdict("alice", &web, "Approve", &steps)).await?;
    ensure!(reason(&first) == "Counted", "{first:?}");
    let again = office.review("alice", "then", verdict("alice", &web, "Approve", &steps)).await?;
    ensure!(reason(&again) == "Counted", "{again:?}");
    office.told("first", "Repeated").await?;
    office.gate(&web, GatePhase::Waiting).await?;
    office.review("bob", "second", verdict("bob", &web, "Approve", &steps)).await?;
    let gate = office.gate(&web, GatePhase::Approved).await?;
    let resolution = gate.status.and_then(|status| status.resolution).context("a resolution")?;
    ensure!(resolution.actors == ["alice", "bob"], "{resolution:?}");
    office.until(&web, |set| phase(set) == Some(Phase::Succeeded)).await?;
    Ok(())
}

#[tokio::test]
async fn who_may_not_approve_decides_nothing() -> Result<()> {
    let office = Office::open(rules(1)).await?;
    let (_, web, steps) = office.asked().await?;
    let bindings: Api<k8s_openapi::api::rbac::v1::ClusterRoleBinding> = Api::all(office.admin.clone());
    for binding in bindings.list(&ListParams::default()).await?.items {
        let names_alice = binding.subjects.iter().flatten().any(|subject| subject.name == "alice");
        if names_alice {
            let name = binding.metadata.name.as_deref().unwrap_or_default();
            bindings.delete(name, &DeleteParams::default()).await?;
        }
    }
    let answer = office.review("alice", "revoked", verdict("alice", &web, "Approve", &steps)).await?;
    ensure!(reason(&answer) == "NotAllowed", "{answer:?}");
    let answer = office.review("alice", "no", verdict("alice", &web, "Reject", &steps)).await?;
    ensure!(reason(&answer) == "NotAllowed", "{answer:?}");
    office.gate(&web, GatePhase::Waiting).await?;
    office.review("bob", "yes", verdict("bob", &web, "Approve", &steps)).await?;
    office.until(&web, |set| phase(set) == Some(Phase::Succeeded)).await?;
    Ok(())
}

#[tokio::test]
async fn a_rejection_holds_until_it_is_withdrawn() -> Result<()> {
    let office = Office::open(rules(1)).await?;
    let (_, web, steps) = office.asked().await?;
    office.review("alice", "no", verdict("alice", &web, "Reject", &steps)).await?;
    office.gate(&web, GatePhase::Rejected).await?;
    let failed = office.until(&web, |set| phase(set) == Some(Phase::Failed)).await?;
    let said = failed.status.iter().flat_map(|status| &status.entries).filter_map(|entry| entry.message.clone());
    ensure!(said.collect::<String>().contains("rejected by alice"), "{:?}", failed.status);
    office.review("bob", "yes", verdict("bob", &web, "Approve", &steps)).await?;
    office.gate(&web, GatePhase::Rejected).await?;
    // Edited away and back, the step stays rejected, and nobody else is asked.
    let machines: Api<Machine> = Api::namespaced(office.person("carol")?, NAMESPACE);
    for cores in [3, 2] {
        let patch = kube::api::Patch::Merge(json!({"spec": {"cores": cores}}));
        let written = machines.patch("web", &kube::api::PatchParams::default(), &patch).await?;
        let (machines, generation) = (&machines, written.metadata.generation);
        wait_for("the Machine to be planned", PATIENCE, || async {
            let status = machines.get("web").await?.status.unwrap_or_default();
            Ok((status.observed_generation == generation).then_some(()))
        })
        .await?;
    }
    let machines = &machines;
    wait_for("the Machine to say that it is rejected", PATIENCE, || async {
        let conditions = machines.get("web").await?.status.unwrap_or_default().conditions;
        let mut synced = conditions.iter().filter(|condition| condition.type_ == "Synced");
        let told = synced.any(|synced| synced.message.as_deref().unwrap_or_default().contains("rejected by alice"));
        Ok(told.then_some(()))
    })
    .await?;
    // Of somebody else's two verdicts of the same second, the rejection is taken for the later one.
    let rejected_at = jiff::Timestamp::now().as_second();
    let is_later = || async { Ok((jiff::Timestamp::now().as_second() > rejected_at).then_some(())) };
    wait_for("the next second", PATIENCE, is_later).await?;
    office.review("bob", "withdrawn", verdict("bob", &web, "Withdraw", &steps)).await?;
    office.told("no", "Withdrawn").await?;
    // It was written meanwhile, so what bob approved before is asked again.
    let (_, again, steps) = office.waiting().await?;
    ensure!(again != web, "{again}");
    office.review("bob", "again", verdict("bob", &again, "Approve", &steps)).await?;
    office.until(&again, |set| phase(set) == Some(Phase::Succeeded)).await?;
    Ok(())
}

#[tokio::test]
async fn an_edit_that_leaves_the_step_as_it_is_leaves_its_approval() -> Result<()> {
    let office = Office::open(rules(2)).await?;
    let (_, made, steps) = office.asked().await?;
    for who in ["alice", "bob"] {
        office.review(who, &format!("{who}-makes"), verdict(who, &made, "Approve", &steps)).await?;
    }
    office.until(&made, |set| phase(set) == Some(Phase::Succeeded)).await?;
    let machines: Api<Machine> = Api::namespaced(office.person("carol")?, NAMESPACE);
    let write = |spec: Value| {
        let (machines, patch) = (&machines, kube::api::Patch::Merge(json!({"spec": spec})));
        async move { machines.patch("web", &kube::api::PatchParams::default(), &patch).await }
    };
    write(json!({"cores": 3})).await?;
    let (_, web, steps) = office.waiting().await?;
    office.review("alice", "first", verdict("alice", &web, "Approve", &steps)).await?;
    // What becomes of the guest later is no part of what is changed now.
    let written = write(json!({"deletionPolicy": "Retain"})).await?;
    office
        .until(&web, |set| {
            let mut entries = set.status.iter().flat_map(|status| &status.entries);
            entries.any(|entry| entry.generation == written.metadata.generation)
        })
        .await?;
    office.review("bob", "second", verdict("bob", &web, "Approve", &steps)).await?;
    office.until(&web, |set| phase(set) == Some(Phase::Succeeded)).await?;
    Ok(())
}

#[tokio::test]
async fn what_is_written_together_is_asked_in_one_change_set() -> Result<()> {
    let office = Office::open(rules(1)).await?;
    let machines: Api<Machine> = Api::namespaced(office.person("carol")?, NAMESPACE);
    for number in 0..20 {
        let mut machine = machine();
        machine["metadata"]["name"] = json!(format!("web-{number}"));
        machines.create(&PostParams::default(), &serde_json::from_value(machine)?).await?;
    }
    let sets: Api<ChangeSet> = Api::namespaced(office.admin.clone(), NAMESPACE);
    let sets = &sets;
    let found = wait_for("all of them to be asked", PATIENCE, || async {
        let found = sets.list(&ListParams::default()).await?.items;
        let steps: usize = found.iter().map(|set| set.spec.steps.len()).sum();
        Ok((steps == 20).then_some(found))
    });
    let found = found.await?;
    ensure!(found.len() == 1, "{} change sets", found.len());
    Ok(())
}

#[tokio::test]
async fn a_review_that_does_not_count_is_told_why_and_audited() -> Result<()> {
    let office = Office::open(rules(1)).await?;
    let (_, web, steps) = office.asked().await?;
    let other = vec![format!("sha256:{}", "0".repeat(64))];
    let mut expired = verdict("alice", &web, "Approve", &steps);
    expired["expiresAt"] = json!("2026-01-01T00:00:00Z");
    let mut elsewhere = verdict("alice", &web, "Approve", &steps);
    elsewhere["clusterUid"] = json!("another");
    let mut comment = verdict("alice", &web, "Comment", &[]);
    comment["comment"] = json!("why now?");
    let rows = [
        ("stale", verdict("alice", &web, "Approve", &other), "Stale"),
        ("expired", expired, "Expired"),
        ("elsewhere", elsewhere, "OtherCluster"),
        ("comment", comment, "Comment"),
        ("nowhere", verdict("alice", "nothing", "Approve", &steps), "GateNotFound"),
    ];
    for (name, spec, expected) in rows {
        let answer = office.review("alice", name, spec).await?;
        ensure!(reason(&answer) == expected, "{name}: {answer:?}");
    }
    office.gate(&web, GatePhase::Waiting).await?;
    for refused in ["Stale", "Expired", "OtherCluster", "GateNotFound"] {
        office.audited(refused).await?;
    }
    Ok(())
}

/// One of two that counted, and that nobody used before its time was over.
#[tokio::test]
async fn an_approval_ends_with_its_time_and_its_step_stays_open() -> Result<()> {
    let office = Office::open(rules(2)).await?;
    let (_, web, steps) = office.asked().await?;
    let mut spec = verdict("alice", &web, "Approve", &steps);
    let expires = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(8);
    spec["expiresAt"] = json!(expires.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    let answer = office.review("alice", "yes", spec).await?;
    ensure!(reason(&answer) == "Counted", "{answer:?}");
    office.told("yes", "Expired").await?;
    office.gate(&web, GatePhase::Waiting).await?;
    office.audited("Expired").await?;
    office.review("bob", "too-late", verdict("bob", &web, "Approve", &steps)).await?;
    office.until(&web, |set| phase(set) == Some(Phase::Waiting)).await?;
    let machines: Api<Machine> = Api::namespaced(office.admin.clone(), NAMESPACE);
    let made = machines.get("web").await?.status.and_then(|status| status.provider_id);
    ensure!(made.is_none(), "it was made by an approval that had ended");
    office.review("alice", "after-all", verdict("alice", &web, "Approve", &steps)).await?;
    office.until(&web, |set| phase(set) == Some(Phase::Succeeded)).await?;
    Ok(())
}

#[tokio::test]
async fn nobody_reviews_or_asks_in_anothers_name() -> Result<()> {
    let office = Office::open(rules(1)).await?;
    let (_, web, steps) = office.asked().await?;
    let review = |reviewer: &str| {
        let spec = verdict(reviewer, &web, "Approve", &steps);
        let kind = json!({"apiVersion": "setpoint.dev/v1alpha1", "kind": "Review", "metadata": {"name": "forged"}});
        let mut review = kind;
        review["spec"] = spec;
        serde_json::from_value::<Review>(review)
    };
    let reviews: Api<Review> = Api::namespaced(office.person("alice")?, NAMESPACE);
    for name in ["bob", "setpoint:reviewer"] {
        let refused = reviews.create(&PostParams::default(), &review(name)?).await;
        let Err(kube::Error::Api(status)) = refused else { anyhow::bail!("a review in the name of {name} is taken") };
        ensure!(status.code == 403 && status.message.contains("must be the user who writes it"), "{status:?}");
    }
    let as_alice = client(Kubeconfig::read_from(office.server.kubeconfig_path())?, Some("alice")).await?;
    let refused = Api::namespaced(as_alice, NAMESPACE).create(&PostParams::default(), &review("alice")?).await;
    let Err(kube::Error::Api(status)) = refused else { anyhow::bail!("a review by who acts as another is taken") };
    ensure!(status.code == 403 && status.message.contains("acts as another"), "{status:?}");
    let sets: Api<ChangeSet> = Api::namespaced(office.person("carol")?, NAMESPACE);
    let mut forged = sets.get(&web).await?;
    forged.metadata = kube::api::ObjectMeta { name: Some("forged".to_owned()), ..Default::default() };
    forged.spec.requested_by = "alice".to_owned();
    let refused = sets.create(&PostParams::default(), &forged).await;
    ensure!(matches!(&refused, Err(kube::Error::Api(status)) if status.code == 403), "{refused:?}");
    let succeeded = kube::api::Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
    let status = sets.patch_status(&web, &kube::api::PatchParams::default(), &succeeded).await;
    ensure!(matches!(status, Err(kube::Error::Api(status)) if status.code == 403), "an admin writes no status");
    let mut owned = sets.get(&web).await?;
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "any", "uid": "1", "controller": true});
    owned.metadata = serde_json::from_value(json!({"name": "owned", "ownerReferences": [owner]}))?;
    let refused = sets.create(&PostParams::default(), &owned).await;
    ensure!(matches!(&refused, Err(kube::Error::Api(status)) if status.code == 403), "{refused:?}");
    let refused = sets.delete(&web, &DeleteParams::default()).await;
    ensure!(matches!(refused, Err(kube::Error::Api(status)) if status.code == 403), "what is decided stays on record");
    office.preview("preview").await?;
    sets.delete("preview", &DeleteParams::default()).await.context("one's own preview")?;
    let reviewer: Api<Review> = Api::namespaced(office.person("alice")?, NAMESPACE);
    let taken_back = reviewer.delete("anything", &DeleteParams::default()).await;
    ensure!(matches!(taken_back, Err(kube::Error::Api(status)) if status.code == 403), "a reviewer takes nothing back");
    Ok(())
}

/// The whole way: written, asked, approved, done, and done once.
#[tokio::test]
async fn what_was_approved_is_done_once() -> Result<()> {
    let office = Office::open(rules(1)).await?;
    let (asked, web, steps) = office.asked().await?;
    office.review("alice", "yes", verdict("alice", &web, "Approve", &steps)).await?;
    office.gate(&web, GatePhase::Approved).await?;
    let done = office.until(&web, |set| phase(set) == Some(Phase::Succeeded)).await?;
    let mut entries = done.status.iter().flat_map(|status| &status.entries);
    ensure!(entries.all(|entry| entry.state == EntryState::Done), "{:?}", done.status);
    let machines: Api<Machine> = Api::namespaced(office.person("carol")?, NAMESPACE);
    let made = machines.get("web").await?;
    let requester = made.metadata.annotations.iter().flatten().find(|(key, _)| *key == REQUESTED_BY);
    ensure!(requester.is_some_and(|(_, who)| who == "carol"), "{:?}", made.metadata);
    let record = made.status.context("a status")?.done;
    ensure!(record.iter().any(|step| step.change_set == done.metadata.uid), "{record:?}");

    // Its removal is another step: nobody has approved it.
    machines.delete("web", &DeleteParams::default()).await?;
    let (_, deleting, goodbye) = office.waiting().await?;
    office.review("bob", "goodbye", verdict("bob", &deleting, "Approve", &goodbye)).await?;
    let machines = &machines;
    wait_for("the Machine to go", PATIENCE, || async { Ok(machines.get_opt("web").await?.is_none().then_some(())) })
        .await
        .with_context(|| format!("by the approvals in {deleting}"))?;
    office.until(&deleting, |set| phase(set) == Some(Phase::Succeeded)).await?;
    // What approved its creation once is used.
    let (again, name, same) = office.asked().await?;
    ensure!(name != web && same == steps, "it is the same step, asked anew: {:?}", again.spec);
    ensure!(again.metadata.uid != asked.metadata.uid);
    let waiting = machines.get("web").await?.status.and_then(|status| status.provider_id);
    ensure!(waiting.is_none(), "it was made again by approvals that were used");
    Ok(())
}

/// Nobody but Setpoint asks: what a user lists says what they like.
#[tokio::test]
async fn a_change_set_that_a_user_opens_authorizes_nothing() -> Result<()> {
    let office = Office::open(rules(1)).await?;
    let (asked, _, steps) = office.asked().await?;
    let sets: Api<ChangeSet> = Api::namespaced(office.person("carol")?, NAMESPACE);
    let mut forged = asked.clone();
    (forged.metadata, forged.status) = (Default::default(), None);
    forged.metadata.name = Some("forged".to_owned());
    forged.spec.steps[0].reason = "nothing to worry about".to_owned();
    if sets.create(&PostParams::default(), &forged).await.is_ok() {
        let closed = office.until("forged", |set| phase(set) == Some(Phase::Stale)).await?;
        let mut entries = closed.status.iter().flat_map(|status| &status.entries);
        ensure!(entries.all(|entry| entry.state == EntryState::NotWanted), "{:?}", closed.status);
        office.say("alice", "deceived", verdict("alice", "forged", "Approve", &steps)).await?;
    }
    let machines: Api<Machine> = Api::namespaced(office.admin.clone(), NAMESPACE);
    ensure!(machines.get("web").await?.status.and_then(|status| status.provider_id).is_none());
    Ok(())
}
