//! Who approved and who did what stays known: whatever is written meanwhile, whatever is deleted, however the server dies.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use setpoint_testkit::{Client, Kubeconfig, Server, wait_for};

use crate::SETPOINT;

const PATIENCE: Duration = Duration::from_secs(120);
const MACHINES: &str = "/apis/setpoint.dev/v1alpha1/namespaces/shop/machines";
const SETS: &str = "/apis/setpoint.dev/v1alpha1/namespaces/shop/changesets";
const REVIEWS: &str = "/apis/setpoint.dev/v1alpha1/namespaces/shop/reviews";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/shop/deployments";
const SECRET: &str = "planted-hunter2";
/// How many Pods it takes to write more about them than a small audit log holds.
const PODS: u64 = 400;

/// A server with a place where every step needs somebody's approval, alice, who gives it, and bob, who may do nothing.
struct Shop {
    server: Server,
}

impl Shop {
    async fn open(options: &[&str]) -> Result<Shop> {
        let mut server = Server::new(SETPOINT, options)?;
        // As a careless copy of a folder may leave it.
        let folder = server.data_dir().join("audit/decisions");
        fs::create_dir_all(&folder)?;
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755))?;
        server.restart().await?;
        let shop = Shop { server };
        let mut client = shop.server.client()?;
        client.post("/api/v1/namespaces", &json!({"metadata": {"name": "shop"}})).await?.success()?;
        let rule = |class: &str| json!({"class": class, "approvals": 1, "requesterMayApprove": false});
        let rules = json!([rule("Benign"), rule("Disruptive"), rule("Spend"), rule("Destructive")]);
        let environment = json!({
            "apiVersion": "setpoint.dev/v1alpha1", "kind": "Environment",
            "metadata": {"name": "lab"}, "spec": {"deployer": {"name": "simulated"}, "approval": {"rules": rules}},
        });
        client.post("/apis/setpoint.dev/v1alpha1/environments", &environment).await?.success()?;
        let binding = json!({
            "metadata": {"name": "alice-reviews"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "setpoint:reviewer"},
            "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "alice"}],
        });
        let bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/shop/rolebindings";
        client.post(bindings, &binding).await?.success()?;
        let secret = json!({"metadata": {"name": "token"}, "stringData": {"key": SECRET}});
        client.post("/api/v1/namespaces/shop/secrets", &secret).await?.success()?;
        for user in ["alice", "bob"] {
            let output =
                shop.setpoint(&["user", "create", user, "--token", "--data-dir"], &[&shop.server.data_dir()])?;
            fs::write(shop.credential(user), output)?;
        }
        Ok(shop)
    }

    /// The output of a command that succeeds.
    fn setpoint(&self, arguments: &[&str], paths: &[&Path]) -> Result<String> {
        let output = run(arguments, paths)?;
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "{arguments:?}: {error}");
        Ok(String::from_utf8(output.stdout)?)
    }

    fn audit(&self, arguments: &[&str]) -> Result<String> {
        let arguments: Vec<&str> = ["audit"].iter().chain(arguments).chain(&["--data-dir"]).copied().collect();
        self.setpoint(&arguments, &[&self.server.data_dir()])
    }

    fn credential(&self, user: &str) -> PathBuf {
        self.server.folder().join(format!("{user}.yaml"))
    }

    fn person(&self, user: &str) -> Result<Client> {
        Client::new(&Kubeconfig::read(&self.credential(user))?)
    }

    /// Waits for the change set of a Machine that waits for people, and has alice approve it.
    async fn approve(&self, action: &str) -> Result<String> {
        let found = wait_for(format!("a change set that asks to {action}"), PATIENCE, || async {
            let list = self.server.client()?.get(SETS).await?.success()?;
            let asks = |set: &&Value| {
                let steps = set["status"]["steps"].as_array();
                set["status"]["phase"] == "Waiting" && steps.is_some_and(|steps| steps[0]["action"] == action)
            };
            Ok(list["items"].as_array().and_then(|sets| sets.iter().find(asks)).cloned())
        });
        let name = found.await?["metadata"]["name"].as_str().context("a name")?.to_owned();
        let credential = self.credential("alice");
        self.setpoint(&["approve", &name, "-y", "-n", "shop", "--kubeconfig"], &[&credential])?;
        Ok(name)
    }

    /// A Machine that reads a Secret, made by the administrator with alice's approval.
    async fn make_machine(&self) -> Result<String> {
        let variable = json!({"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "token", "key": "key"}}});
        let spec = json!({"environment": "lab", "cores": 2, "env": [variable]});
        let machine = machine(json!({"name": "web"}), spec);
        self.server.client()?.post(MACHINES, &machine).await?.success()?;
        let set = self.approve("Create").await?;
        wait_for("the Machine to be there", PATIENCE, || async {
            let machine = self.server.client()?.get(&format!("{MACHINES}/web")).await?.success()?;
            Ok(machine["status"]["done"][0].is_object().then_some(()))
        })
        .await?;
        Ok(set)
    }

    async fn delete_machine(&self) -> Result<()> {
        self.server.client()?.delete(&format!("{MACHINES}/web")).await?.success()?;
        self.approve("Delete").await?;
        wait_for("the Machine to go", PATIENCE, || async {
            Ok((self.server.client()?.get(&format!("{MACHINES}/web")).await?.status == 404).then_some(()))
        })
        .await
    }

    /// Has the controllers and nodes write for a while, in the background of somebody's one request.
    async fn be_busy(&self) -> Result<()> {
        let template = json!({
            "metadata": {"labels": {"app": "busy"}},
            "spec": {"containers": [{"name": "web", "image": "x"}], "automountServiceAccountToken": false},
        });
        let spec = json!({"replicas": PODS, "selector": {"matchLabels": {"app": "busy"}}, "template": template});
        let deployment = json!({"metadata": {"name": "busy"}, "spec": spec});
        self.server.client()?.post(DEPLOYMENTS, &deployment).await?.success()?;
        wait_for("the Pods to be ready", PATIENCE, || async {
            let deployment = self.server.client()?.get(&format!("{DEPLOYMENTS}/busy")).await?.success()?;
            Ok((deployment["status"]["readyReplicas"] == PODS).then_some(()))
        })
        .await
    }

    /// Waits until `setpoint audit` answers with this.
    async fn told(&self, arguments: &[&str], expected: &str) -> Result<String> {
        let answer = wait_for(format!("{expected:?} in the answer to {arguments:?}"), PATIENCE, || async {
            let answer = self.audit(arguments)?;
            Ok(answer.contains(expected).then_some(answer))
        });
        answer.await.with_context(|| self.audit(&[]).unwrap_or_default())
    }

    fn requests(&self) -> Result<String> {
        let content = fs::read(self.server.data_dir().join("audit/audit.log"))?;
        Ok(String::from_utf8_lossy(&content).into_owned())
    }
}

fn machine(metadata: Value, spec: Value) -> Value {
    json!({"apiVersion": "setpoint.dev/v1alpha1", "kind": "Machine", "metadata": metadata, "spec": spec})
}

fn run(arguments: &[&str], paths: &[&Path]) -> Result<Output> {
    Ok(Command::new(SETPOINT).args(arguments).args(paths).env_remove("KUBECONFIG").output()?)
}

/// What is below a folder: the mode of each, and when its content last changed.
fn below(folder: &Path) -> Result<BTreeMap<PathBuf, (u32, i64, i64)>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let metadata = fs::symlink_metadata(&path)?;
        if metadata.is_dir() {
            found.extend(below(&path)?);
        }
        found.insert(path, (metadata.mode() & 0o777, metadata.mtime(), metadata.mtime_nsec()));
    }
    Ok(found)
}

const SMALL: &[&str] = &["--audit-log-size", "1", "--audit-log-files", "1"];

#[tokio::test]
async fn what_controllers_write_pushes_no_approval_out_of_the_audit_log() -> Result<()> {
    let shop = Shop::open(SMALL).await?;
    shop.make_machine().await?;
    shop.be_busy().await?;
    let requests = shop.requests()?;
    let reviews = |line: &&str| line.contains(r#""resource":"reviews""#) && line.contains(r#""username":"alice""#);
    ensure!(requests.lines().any(|line| reviews(&line)), "alice's review is no longer in the audit log");
    let is_routine = |line: &&str| {
        let is_ours = line.contains(r#""username":"system:"#) && line.contains(r#""code":20"#);
        is_ours && (line.contains(r#""subresource":"status""#) || line.contains(r#""resource":"leases""#))
    };
    let routine = requests.lines().find(is_routine).filter(|line| !line.contains("refused-review"));
    ensure!(routine.is_none(), "{routine:?}");
    shop.told(&["--by", "alice"], "alice approved Create of machine shop/web").await?;
    Ok(())
}

#[tokio::test]
async fn an_approval_is_known_when_it_has_left_the_audit_log() -> Result<()> {
    let shop = Shop::open(&[SMALL, &["--audit-log-all"]].concat()).await?;
    let set = shop.make_machine().await?;
    shop.be_busy().await?;
    let requests = shop.requests()?;
    ensure!(requests.contains(r#""subresource":"status""#), "routine writes are there where they are asked for");
    let is_made = r#""verb":"create","user":{"username":"alice""#;
    ensure!(!requests.contains(is_made), "the load is too small to show anything");
    let approved = format!("in change set shop/{set}");
    let answer = shop.told(&["--object", "machine/web", "-n", "shop"], &approved).await?;
    ensure!(answer.contains("alice approved Create of machine shop/web"), "{answer}");
    Ok(())
}

#[tokio::test]
async fn who_did_what_is_known_of_what_is_deleted_and_after_a_crash() -> Result<()> {
    let mut shop = Shop::open(&[]).await?;
    shop.make_machine().await?;
    shop.delete_machine().await?;
    // At once: what is not written yet has to be after the next start.
    shop.server.kill9()?;
    shop.server.restart().await?;
    let about = ["--object", "machine/web", "-n", "shop"];
    let answer = shop.told(&about, "setpoint began Delete of machine shop/web").await?;
    for expected in [
        "alice approved Create of machine shop/web",
        "setpoint began Create of machine shop/web",
        "setpoint did Create of machine shop/web",
        "in environment lab",
        // Who approved is known also where a step was begun before anybody wrote that the approval counts.
        "alice; asked for by admin; in change set shop/",
        "admin did delete machines.setpoint.dev shop/web",
    ] {
        ensure!(answer.contains(expected), "{expected:?} is missing in:\n{answer}");
    }
    // A Machine may be gone before anybody has written that the approval of its deletion counts.
    let gone = answer.lines().find(|line| line.contains("setpoint began Delete of machine shop/web"));
    ensure!(gone.is_some_and(|line| line.contains("alice")), "{answer}");
    let given = answer.lines().filter(|line| line.contains(" alice ") && line.contains("Delete of machine shop/web"));
    ensure!(given.count() > 0, "{answer}");
    for line in answer.lines() {
        ensure!(answer.matches(line).count() == 1, "it is told twice: {line}");
    }
    let times: Vec<&str> = answer.lines().filter_map(|line| line.split(' ').next()).collect();
    ensure!(times.is_sorted_by(|newer, older| newer >= older), "the newest first:\n{answer}");

    // Without a server, in every form, and only what was asked for.
    shop.server.terminate().await?;
    let before = below(&shop.server.data_dir())?;
    let json: Value = serde_json::from_str(&shop.audit(&["--decision", "step", "-o", "json"])?)?;
    let steps = json.as_array().context("a list")?;
    let begun = steps.iter().find(|step| step["action"] == "Delete" && step["outcome"] == "Begun");
    let begun = begun.with_context(|| format!("{json:#}"))?;
    ensure!(begun["guest"].is_string() && begun["uid"].is_string() && begun["class"].is_string(), "{begun:#}");
    ensure!(steps.iter().all(|step| step["kind"] == "Step"), "{json:#}");
    let yaml = shop.audit(&["--by", "alice", "--decision", "approve", "-o", "yaml"])?;
    ensure!(yaml.matches("kind: Review").count() >= 2 && !yaml.contains("kind: Step"), "{yaml}");
    let table = shop.audit(&["-o", "wide", "--limit", "2"])?;
    ensure!(table.starts_with("TIME") && table.lines().count() == 3, "{table}");
    ensure!(shop.audit(&["--since", "2000-01-01T00:00:00Z", "--by", "nobody"])?.is_empty());
    ensure!(shop.audit(&["--since", "0s"])?.is_empty());
    ensure!(below(&shop.server.data_dir())? == before, "to look changes nothing");

    // Nothing of it can be read by others, and no value of a Secret is in it.
    let decisions = shop.server.data_dir().join("audit");
    for (path, (mode, ..)) in below(&decisions)? {
        ensure!(mode & 0o077 == 0, "{} has mode {mode:o}", path.display());
        if path.is_file() {
            ensure!(!String::from_utf8_lossy(&fs::read(&path)?).contains(SECRET), "{}", path.display());
        }
    }
    Ok(())
}

#[tokio::test]
async fn what_was_refused_and_who_was_let_in_is_known() -> Result<()> {
    let shop = Shop::open(&[]).await?;
    let mut admin = shop.server.client()?;
    let labels = json!({"setpoint.dev/protected": "true"});
    let protected = machine(json!({"name": "db", "labels": labels}), json!({"environment": "lab", "cores": 1}));
    admin.post(MACHINES, &protected).await?.success()?;
    ensure!(admin.delete(&format!("{MACHINES}/db")).await?.status == 403, "it is protected");
    let mut bob = shop.person("bob")?;
    ensure!(bob.delete(&format!("{MACHINES}/db")).await?.status == 403, "bob may do nothing");
    let secret = json!({"metadata": {"name": "token"}, "stringData": {"key": SECRET}});
    ensure!(bob.put("/api/v1/namespaces/shop/secrets/token", &secret).await?.status == 403);
    let digest = format!("sha256:{}", "0".repeat(64));
    let review = json!({
        "apiVersion": "setpoint.dev/v1alpha1", "kind": "Review",
        "metadata": {"name": "early"},
        "spec": {"gate": "nothing", "decision": "Approve", "reviewer": "alice", "digests": [digest]},
    });
    shop.person("alice")?.post(REVIEWS, &review).await?.success()?;
    let refused = shop.told(&["--decision", "refused"], "the approval by alice").await?;
    for expected in [
        "admin was refused to delete machines.setpoint.dev shop/db: ",
        "bob was refused to delete machines.setpoint.dev shop/db: ",
        "bob was refused to update secrets shop/token\n",
        "in change set shop/nothing does not count (GateNotFound)",
    ] {
        ensure!(refused.contains(expected), "{expected:?} is missing in:\n{refused}");
    }
    let bobs = shop.audit(&["--by", "bob"])?;
    ensure!(bobs.lines().count() == 2 && !bobs.contains("admin"), "{bobs}");
    shop.setpoint(&["user", "revoke", "bob", "--data-dir"], &[&shop.server.data_dir()])?;
    let users = shop.audit(&["--decision", "administration"])?;
    for expected in ["create user alice", "create user bob", "revoke user bob"] {
        ensure!(users.contains(expected), "{expected:?} is missing in:\n{users}");
    }
    let writes = shop.audit(&["--decision", "write", "-n", "shop"])?;
    let expected = "admin did create rolebindings.rbac.authorization.k8s.io shop/alice-reviews";
    ensure!(writes.contains(expected), "{writes}");
    Ok(())
}

#[test]
fn to_ask_where_nothing_is_makes_nothing() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let missing = folder.path().join("typo");
    for (path, expected) in [(missing.as_path(), "there is no data folder"), (folder.path(), "has no decision log")] {
        let output = run(&["audit", "--data-dir"], &[path])?;
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.code() == Some(1) && error.contains(expected), "{error}");
    }
    ensure!(fs::read_dir(folder.path())?.next().is_none(), "something was made");
    Ok(())
}
