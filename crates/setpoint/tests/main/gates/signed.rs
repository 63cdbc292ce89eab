//! Reviews that must be signed: with real keys, by `ssh-keygen` and by an agent.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use kube::Api;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use setpoint_api::change_set::ChangeSet;
use setpoint_api::planspec::gate::GatePhase;
use setpoint_api::review::{Review, ReviewSpec};
use setpoint_testkit::wait_for;

use super::{NAMESPACE, Office, PATIENCE, digests, reason, verdict};
use crate::SETPOINT;

const NONCE: &str = "0123456789abcdef";

/// A pair of keys in a folder, and what signs with it.
struct Signer {
    key: PathBuf,
}

impl Signer {
    fn new(folder: &Path, name: &str) -> Result<Signer> {
        let key = folder.join(name);
        let mut keygen = Command::new("ssh-keygen");
        let made = keygen.args(["-q", "-t", "ed25519", "-N", "", "-C", name, "-f"]).arg(&key).status()?;
        ensure!(made.success(), "ssh-keygen makes a key");
        Ok(Signer { key })
    }

    fn public(&self) -> Result<String> {
        Ok(fs::read_to_string(self.key.with_extension("pub"))?.trim().to_owned())
    }

    fn sign(&self, text: &str, namespace: &str) -> Result<String> {
        let file = self.key.with_extension("txt");
        fs::write(&file, text)?;
        let mut keygen = Command::new("ssh-keygen");
        let signed = keygen.args(["-q", "-Y", "sign", "-n", namespace, "-f"]).arg(&self.key).arg(&file).status()?;
        ensure!(signed.success(), "ssh-keygen signs");
        let signature = self.key.with_extension("txt.sig");
        let armored = fs::read_to_string(&signature)?;
        fs::remove_file(signature)?;
        Ok(armored)
    }
}

/// A verdict with everything that a signature binds.
fn bound(steps: &[String], cluster: &str, set: &ChangeSet, nonce: &str) -> Value {
    let mut spec = verdict("alice", "web", "Approve", steps);
    let expires = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1);
    spec["expiresAt"] = json!(expires.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    spec["nonce"] = json!(nonce);
    spec["clusterUid"] = json!(cluster);
    spec["changeSetUid"] = json!(set.metadata.uid);
    spec
}

fn signed(mut spec: Value, signer: &Signer, namespace: &str) -> Result<Value> {
    let statement = serde_json::from_value::<ReviewSpec>(spec.clone())?.statement(NAMESPACE);
    spec["signature"] = json!(signer.sign(&statement, namespace)?);
    Ok(spec)
}

#[tokio::test]
async fn only_a_listed_key_approves_and_only_once() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let alice = Signer::new(folder.path(), "alice")?;
    let bob = Signer::new(folder.path(), "bob")?;
    let clerk = Signer::new(folder.path(), "clerk")?;
    let mallory = Signer::new(folder.path(), "mallory")?;
    let key = |signer: &Signer, principal: &str, role: &str| {
        anyhow::Ok(json!({"publicKey": signer.public()?, "principal": principal, "role": role}))
    };
    let rule = |class: &str| json!({"class": class, "approvals": 1, "signature": true, "roles": ["operator"]});
    let office = Office::open(json!({
        "rules": [rule("Benign"), rule("Spend")],
        "keys": [
            key(&alice, "alice", "operator")?, key(&clerk, "alice", "clerk")?, key(&bob, "bob", "operator")?,
        ],
    }))
    .await?;
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(office.admin.clone());
    let cluster = namespaces.get("kube-system").await?.metadata.uid.context("a uid")?;
    let set = office.ask("web", "Execute").await?;
    let steps = digests(&set);
    let spec = |nonce: &str| bound(&steps, &cluster, &set, nonce);

    let mut altered = signed(spec("altered-0123456789"), &alice, "setpoint-gate")?;
    altered["nonce"] = json!("another-0123456789");
    let mut cut = signed(spec("malformed-0123456789"), &alice, "setpoint-gate")?;
    cut["signature"] = json!("-----BEGIN SSH SIGNATURE-----\nAAAA\n-----END SSH SIGNATURE-----");
    let rows = [
        ("unsigned", verdict("alice", "web", "Approve", &steps), "Unsigned"),
        ("malformed", cut, "MalformedSignature"),
        ("git", signed(spec("for-git-0123456789"), &alice, "git")?, "OtherNamespace"),
        ("stranger", signed(spec("stranger-0123456789"), &mallory, "setpoint-gate")?, "KeyNotListed"),
        ("of-bob", signed(spec("of-bob-0123456789"), &bob, "setpoint-gate")?, "KeyOfAnother"),
        ("as-clerk", signed(spec("as-clerk-0123456789"), &clerk, "setpoint-gate")?, "RoleNotAllowed"),
        ("altered", altered, "InvalidSignature"),
    ];
    for (name, spec, expected) in rows {
        let answer = office.review("alice", name, spec).await?;
        ensure!(reason(&answer) == expected, "{name}: {answer:?}");
    }
    office.gate("web", GatePhase::Waiting).await?;

    let approval = signed(spec(NONCE), &alice, "setpoint-gate")?;
    let answer = office.review("alice", "approval", approval.clone()).await?;
    ensure!(reason(&answer) == "Counted", "{answer:?}");
    office.gate("web", GatePhase::Approved).await?;
    let is_recorded =
        |set: &ChangeSet| set.status.iter().flat_map(|status| &status.nonces).any(|used| used.nonce == NONCE);
    office.until("web", is_recorded).await?;

    // A copy is one while the first is there, too, and takes nothing from it.
    let copy = office.review("alice", "copy", approval.clone()).await?;
    ensure!(reason(&copy) == "NonceUsed", "{copy:?}");
    office.told("approval", "Counted").await?;

    let reviews: Api<Review> = Api::namespaced(office.admin.clone(), NAMESPACE);
    reviews.delete("approval", &DeleteParams::default()).await?;
    office.gate("web", GatePhase::Waiting).await?;
    let replayed = office.review("alice", "replayed", approval.clone()).await?;
    ensure!(reason(&replayed) == "NonceUsed", "{replayed:?}");
    office.gate("web", GatePhase::Waiting).await?;
    office.audited("NonceUsed").await?;

    // Another change set of the same name asks for the same steps.
    let sets: Api<ChangeSet> = Api::namespaced(office.admin.clone(), NAMESPACE);
    sets.delete("web", &DeleteParams::default()).await?;
    let reviews_of_old = || async { Ok(reviews.get_opt("replayed").await?.is_none().then_some(())) };
    wait_for("the reviews of the old one to go with it", PATIENCE, reviews_of_old).await?;
    ensure!(digests(&office.ask("web", "Execute").await?) == steps, "the same steps");
    let again = office.review("alice", "again", approval).await?;
    ensure!(reason(&again) == "OtherChangeSet", "{again:?}");
    office.gate("web", GatePhase::Waiting).await?;
    Ok(())
}

/// Who may review and do nothing else cannot read the namespace by which the control plane is known.
#[tokio::test]
async fn who_may_only_review_signs_what_counts() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let alice = Signer::new(folder.path(), "alice")?;
    let rule = |class: &str| json!({"class": class, "approvals": 1, "signature": true, "roles": ["operator"]});
    let office = Office::open(json!({
        "rules": [rule("Benign"), rule("Spend")],
        "keys": [{"publicKey": alice.public()?, "principal": "alice", "role": "operator"}],
    }))
    .await?;
    office.ask("web", "Execute").await?;
    office.gate("web", GatePhase::Waiting).await?;
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(office.person("alice")?);
    let hidden = namespaces.get("kube-system").await;
    ensure!(matches!(&hidden, Err(kube::Error::Api(status)) if status.code == 403), "{hidden:?}");
    let mut command = Command::new(SETPOINT);
    command.args(["approve", "-y", "web", "-n", NAMESPACE, "--sign"]).arg(&alice.key);
    let approved = command.arg("--kubeconfig").arg(office.credential("alice")).output()?;
    ensure!(approved.status.success(), "{}", String::from_utf8_lossy(&approved.stderr));
    let gate = office.gate("web", GatePhase::Approved).await?;
    let resolution = gate.status.and_then(|status| status.resolution).context("a resolution")?;
    ensure!(resolution.actors == ["alice"], "{resolution:?}");
    Ok(())
}
