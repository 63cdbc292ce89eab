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
use setpoint_api::change_set::{ChangeSet, Phase, StepState};
use setpoint_api::condition::Condition;
use setpoint_api::environment::Environment;
use setpoint_api::machine::Machine;
use setpoint_api::planspec::gate::{Gate, GatePhase};
use setpoint_api::requester::REQUESTED_BY;
use setpoint_api::review::Review;
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

    /// A change set of carol's that would make a Machine, once it is known what that takes.
    async fn ask(&self, name: &str, mode: &str) -> Result<ChangeSet> {
        let change_set = json!({
            "apiVersion": "setpoint.dev/v1alpha1", "kind": "ChangeSet", "metadata": {"name": name},
            "spec": {"environment": "lab", "mode": mode, "requestedBy": "carol", "objects": [machine()]},
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

    /// The change set that a controller made for the Machine, once it waits for people.
    async fn own_change_set(&self) -> Result<ChangeSet> {
        let sets: Api<ChangeSet> = Api::namespaced(self.admin.clone(), NAMESPACE);
        let machines: Api<Machine> = Api::namespaced(self.admin.clone(), NAMESPACE);
        let (sets, machines) = (&sets, &machines);
        wait_for("a change set of the Machine's own", PATIENCE, || async {
            let Some(uid) = machines.get_opt("web").await?.and_then(|machine| machine.metadata.uid) else {
                return Ok(None);
            };
            let is_own = |set: &ChangeSet| {
                let mut owners = set.metadata.owner_references.iter().flatten();
                phase(set) == Some(Phase::Waiting) && owners.any(|owner| owner.uid == uid)
            };
            Ok(sets.list(&ListParams::default()).await?.items.into_iter().find(is_own))
        })
        .await
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

fn digests(change_set: &ChangeSet) -> Vec<String> {
    let steps = change_set.status.iter().flat_map(|status| &status.steps);
    steps.map(|step| step.digest.clone()).collect()
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
    let preview = office.ask("preview", "Preview").await?;
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
    let asked = office.ask("web", "Execute").await?;
    ensure!(phase(&asked) == Some(Phase::Waiting), "{:?}", asked.status);
    let gate = office.gate("web", GatePhase::Waiting).await?;
    ensure!(gate.spec.required_approvers == Some(2) && gate.spec.target_ref.uid == asked.metadata.uid);
    let steps = digests(&asked);

    let own = office.review("carol", "own", verdict("carol", "web", "Approve", &steps)).await?;
    ensure!(reason(&own) == "Requester", "{own:?}");
    let first = office.review("alice", "first", verdict("alice", "web", "Approve", &steps)).await?;
    ensure!(reason(&first) == "Counted", "{first:?}");
    let again = office.review("alice", "then", verdict("alice", "web", "Approve", &steps)).await?;
    ensure!(reason(&again) == "Counted", "{again:?}");
    office.told("first", "Repeated").await?;
    office.gate("web", GatePhase::Waiting).await?;
    office.review("bob", "second", verdict("bob", "web", "Approve", &steps)).await?;
    let gate = office.gate("web", GatePhase::Approved).await?;
    let resolution = gate.status.and_then(|status| status.resolution).context("a resolution")?;
    ensure!(resolution.actors == ["alice", "bob"], "{resolution:?}");
    office.until("web", |set| phase(set) == Some(Phase::Running)).await?;
    Ok(())
}

#[tokio::test]
async fn a_rejection_ends_it_until_who_gave_it_thinks_better() -> Result<()> {
    let office = Office::open(rules(1)).await?;
    let steps = digests(&office.ask("web", "Execute").await?);
    office.review("alice", "no", verdict("alice", "web", "Reject", &steps)).await?;
    office.gate("web", GatePhase::Rejected).await?;
    let failed = office.until("web", |set| phase(set) == Some(Phase::Failed)).await?;
    let said = failed.status.iter().flat_map(|status| &status.step_states).filter_map(|step| step.message.clone());
    ensure!(said.collect::<String>().contains("rejected by alice"), "{:?}", failed.status);
    office.review("bob", "yes", verdict("bob", "web", "Approve", &steps)).await?;
    office.gate("web", GatePhase::Rejected).await?;
    // Of one person's two verdicts of the same second, the rejection is taken for the later one.
    let rejected_at = jiff::Timestamp::now().as_second();
    let is_later = || async { Ok((jiff::Timestamp::now().as_second() > rejected_at).then_some(())) };
    wait_for("the next second", PATIENCE, is_later).await?;
    office.review("alice", "after-all", verdict("alice", "web", "Approve", &steps)).await?;
    office.gate("web", GatePhase::Approved).await?;
    Ok(())
}

#[tokio::test]
async fn a_review_that_does_not_count_is_told_why_and_audited() -> Result<()> {
    let office = Office::open(rules(1)).await?;
    let steps = digests(&office.ask("web", "Execute").await?);
    let other = vec![format!("sha256:{}", "0".repeat(64))];
    let mut expired = verdict("alice", "web", "Approve", &steps);
    expired["expiresAt"] = json!("2026-01-01T00:00:00Z");
    let mut elsewhere = verdict("alice", "web", "Approve", &steps);
    elsewhere["clusterUid"] = json!("another");
    let mut comment = verdict("alice", "web", "Comment", &[]);
    comment["comment"] = json!("why now?");
    let rows = [
        ("stale", verdict("alice", "web", "Approve", &other), "Stale"),
        ("expired", expired, "Expired"),
        ("elsewhere", elsewhere, "OtherCluster"),
        ("comment", comment, "Comment"),
        ("nowhere", verdict("alice", "nothing", "Approve", &steps), "GateNotFound"),
    ];
    for (name, spec, expected) in rows {
        let answer = office.review("alice", name, spec).await?;
        ensure!(reason(&answer) == expected, "{name}: {answer:?}");
    }
    office.gate("web", GatePhase::Waiting).await?;
    for refused in ["Stale", "Expired", "OtherCluster", "GateNotFound"] {
        office.audited(refused).await?;
    }
    Ok(())
}

/// One that counted, and that nobody used before its time was over.
#[tokio::test]
async fn an_approval_ends_with_its_time() -> Result<()> {
    let office = Office::open(rules(1)).await?;
    let steps = digests(&office.ask("web", "Execute").await?);
    let mut spec = verdict("alice", "web", "Approve", &steps);
    let expires = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(8);
    spec["expiresAt"] = json!(expires.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    let answer = office.review("alice", "yes", spec).await?;
    ensure!(reason(&answer) == "Counted", "{answer:?}");
    office.told("yes", "Expired").await?;
    office.gate("web", GatePhase::Waiting).await?;
    office.until("web", |set| phase(set) == Some(Phase::Waiting)).await?;
    office.audited("Expired").await?;

    let machines: Api<Machine> = Api::namespaced(office.person("carol")?, NAMESPACE);
    machines.create(&PostParams::default(), &serde_json::from_value(machine())?).await?;
    let machines = &machines;
    let waits = |machine: &Machine| {
        let conditions = machine.status.iter().flat_map(|status| &status.conditions);
        let mut synced = conditions.filter(|condition| condition.type_ == "Synced");
        synced.any(|synced| synced.reason.as_deref() == Some("Waiting"))
    };
    let web = wait_for("the Machine to wait", PATIENCE, || async { Ok(machines.get_opt("web").await?.filter(waits)) });
    let made = web.await?.status.and_then(|status| status.provider_id);
    ensure!(made.is_none(), "it was made by a leave that had ended");
    Ok(())
}

#[tokio::test]
async fn nobody_reviews_or_asks_in_anothers_name() -> Result<()> {
    let office = Office::open(rules(1)).await?;
    let steps = digests(&office.ask("web", "Execute").await?);
    let review = |reviewer: &str| {
        let spec = verdict(reviewer, "web", "Approve", &steps);
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
    let mut forged = sets.get("web").await?;
    forged.metadata = kube::api::ObjectMeta { name: Some("forged".to_owned()), ..Default::default() };
    forged.spec.requested_by = "alice".to_owned();
    let refused = sets.create(&PostParams::default(), &forged).await;
    ensure!(matches!(&refused, Err(kube::Error::Api(status)) if status.code == 403), "{refused:?}");
    let succeeded = kube::api::Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
    let status = sets.patch_status("web", &kube::api::PatchParams::default(), &succeeded).await;
    ensure!(matches!(status, Err(kube::Error::Api(status)) if status.code == 403), "an admin writes no status");
    let mut owned = sets.get("web").await?;
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "any", "uid": "1", "controller": true});
    owned.metadata = serde_json::from_value(json!({"name": "owned", "ownerReferences": [owner]}))?;
    let refused = sets.create(&PostParams::default(), &owned).await;
    ensure!(matches!(&refused, Err(kube::Error::Api(status)) if status.code == 403), "{refused:?}");
    let refused = sets.delete("web", &DeleteParams::default()).await;
    ensure!(matches!(refused, Err(kube::Error::Api(status)) if status.code == 403), "what is decided stays on record");
    office.ask("preview", "Preview").await?;
    sets.delete("preview", &DeleteParams::default()).await.context("one's own preview")?;
    let reviewer: Api<Review> = Api::namespaced(office.person("alice")?, NAMESPACE);
    let taken_back = reviewer.delete("anything", &DeleteParams::default()).await;
    ensure!(matches!(taken_back, Err(kube::Error::Api(status)) if status.code == 403), "a reviewer takes nothing back");
    Ok(())
}

/// The whole way: asked, approved, written, done, and done once.
#[tokio::test]
async fn what_was_approved_is_done_once() -> Result<()> {
    let office = Office::open(rules(1)).await?;
    let asked = office.ask("web", "Execute").await?;
    office.review("alice", "yes", verdict("alice", "web", "Approve", &digests(&asked))).await?;
    office.gate("web", GatePhase::Approved).await?;
    let machines: Api<Machine> = Api::namespaced(office.person("carol")?, NAMESPACE);
    let machine: Machine = serde_json::from_value(machine())?;
    machines.create(&PostParams::default(), &machine).await?;
    let done = office.until("web", |set| phase(set) == Some(Phase::Succeeded)).await?;
    let states = done.status.iter().flat_map(|status| &status.step_states);
    ensure!(states.clone().all(|step| step.state == StepState::Done), "{:?}", done.status);
    let made = machines.get("web").await?;
    let requester = made.metadata.annotations.iter().flatten().find(|(key, _)| *key == REQUESTED_BY);
    ensure!(requester.is_some_and(|(_, who)| who == "carol"), "{:?}", made.metadata);
    let record = made.status.context("a status")?.done;
    ensure!(record.iter().any(|step| step.change_set == done.metadata.uid), "{record:?}");

    // The same again is another change: nobody has approved it.
    machines.delete("web", &DeleteParams::default()).await?;
    let deleting = office.own_change_set().await?;
    ensure!(deleting.spec.requested_by == "carol", "{:?}", deleting.spec);
    let name = deleting.metadata.name.clone().context("a name")?;
    // It goes with the Machine, perhaps before anybody can read what it was told.
    office.say("bob", "goodbye", verdict("bob", &name, "Approve", &digests(&deleting))).await?;
    let (machines, name) = (&machines, &name);
    wait_for("the Machine to go", PATIENCE, || async { Ok(machines.get_opt("web").await?.is_none().then_some(())) })
        .await
        .with_context(|| format!("by the leave of {name}"))?;
    machines.create(&PostParams::default(), &machine).await?;
    let again = office.own_change_set().await?;
    ensure!(digests(&again) == digests(&asked), "it is the same step");
    ensure!(phase(&office.until("web", |_| true).await?) == Some(Phase::Succeeded));
    let waiting = machines.get("web").await?.status.and_then(|status| status.provider_id);
    ensure!(waiting.is_none(), "it was made again by a leave that was used");
    Ok(())
}
