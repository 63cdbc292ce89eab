//! Users of one machine, each with a Pod: none reads what another's Pod was given, or what a Secret said.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use setpoint_testkit::{Server, process_table, wait_for};

use super::pod_place::is_root;
use crate::SETPOINT;

const PODS: &str = "/api/v1/namespaces/default/pods";
const PATIENCE: Duration = Duration::from_secs(60);
const OWNER: u32 = 61_001;
const OTHER: u32 = 61_002;

/// What the owner's Pod does: it reads all that it was given, by links and by whole paths, and leaves something of its own.
const SCRIPT: &str = "cat secret/password && test -s token/key && wc -c < $SETPOINT_ROOT/token/key && echo own > scratch/file && echo $PASSWORD > /dev/null && echo read-it-all; \
    sleep 100000";

fn pod(name: &str, user: Option<u32>, script: &str) -> Value {
    let mounts = json!([
        {"name": "secret", "mountPath": "/secret"}, {"name": "token", "mountPath": "/token"},
        {"name": "scratch", "mountPath": "/scratch"},
    ]);
    let password = json!({"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "login", "key": "password"}}});
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {
            "terminationGracePeriodSeconds": 1, "serviceAccountName": "app",
            "securityContext": user.map(|user| json!({"runAsUser": user})).unwrap_or_default(),
            "containers": [{
                "name": "main", "command": ["sh", "-c", script], "env": [password], "volumeMounts": mounts,
            }],
            "volumes": [
                {"name": "secret", "secret": {"secretName": "login"}},
                {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "key"}}]}},
                {"name": "scratch", "emptyDir": {}},
            ],
        },
    })
}

/// A text that nothing else holds.
fn unlikely() -> String {
    format!("planted{:016x}", rand::random::<u64>())
}

/// What the Pods refer to.
async fn make_secret(server: &Server, password: &str) -> Result<()> {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"}, "stringData": {"password": password}});
    server.client()?.post("/api/v1/namespaces/default/secrets", &secret).await?.success()?;
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "app"}});
    server.client()?.post("/api/v1/namespaces/default/serviceaccounts", &account).await?.success()?;
    Ok(())
}

async fn run(server: &Server, pod: &Value) -> Result<()> {
    server.client()?.post(PODS, pod).await?.success()?;
    let name = pod["metadata"]["name"].as_str().context("a name")?;
    let path = format!("{PODS}/{name}");
    let ready = wait_for("the Pod to run", PATIENCE, || async {
        let pod = server.client()?.get(&path).await?.success()?;
        Ok((pod["status"]["phase"] == "Running").then_some(()))
    });
    match ready.await {
        Ok(()) => Ok(()),
        Err(error) => Err(error.context(server.client()?.get(&path).await?.text())),
    }
}

/// Waits until a Pod has said something.
async fn says(server: &Server, name: &str, words: &str) -> Result<()> {
    let path = format!("{PODS}/{name}/log");
    let said = wait_for("the Pod's words", PATIENCE, || async {
        let log = server.client()?.get(&path).await?.text();
        Ok(log.contains(words).then_some(()))
    });
    match said.await {
        Ok(()) => Ok(()),
        Err(error) => Err(error.context(server.client()?.get(&path).await?.text())),
    }
}

/// The folders of all Pods.
fn folders(data: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(data.join("pods"))? {
        let path = entry?.path();
        if path.join("order.json").exists() {
            found.push(path);
        }
    }
    Ok(found)
}

/// Every file and folder below one, links not followed.
fn below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = vec![folder.to_owned()];
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            }
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// Whether a shell of this user can do something with a path.
fn can(user: u32, what: &str, path: &Path) -> Result<bool> {
    let mut command = Command::new("sh");
    command.args(["-c", what, "sh"]).arg(path).uid(user).gid(user).current_dir("/").env_clear();
    command.env("PATH", "/usr/bin:/bin");
    Ok(command.output()?.status.success())
}

const READ: &str = "test -f \"$1\" && cat \"$1\" > /dev/null";
const LIST: &str = "ls \"$1\" > /dev/null";
const WRITE: &str = "echo x >> \"$1\"";
const REPLACE: &str = "mv \"$1\" \"$1.mine\"";

async fn start() -> Result<Option<Server>> {
    if !is_root()? {
        return Ok(None);
    }
    let server = Server::start_with_local_node(SETPOINT).await?;
    fs::set_permissions(server.folder(), fs::Permissions::from_mode(0o711))?;
    Ok(Some(server))
}

#[tokio::test]
async fn a_pod_reads_what_it_was_given_and_no_other_user_does() -> Result<()> {
    let Some(server) = start().await? else { return Ok(()) };
    let password = unlikely();
    make_secret(&server, &password).await?;
    run(&server, &pod("mine", Some(OWNER), SCRIPT)).await?;
    says(&server, "mine", "read-it-all").await?;
    let folders = folders(&server.data_dir())?;
    let [folder] = folders.as_slice() else { anyhow::bail!("one Pod has one folder: {folders:?}") };
    let metadata = fs::metadata(folder)?;
    ensure!((metadata.mode() & 0o777, metadata.gid()) == (0o710, OWNER), "{:o}", metadata.mode());
    // Even one who knows every name gets nowhere.
    let all = below(folder)?;
    ensure!(all.iter().any(|path| path.ends_with("password")), "the search finds what is there: {all:?}");
    for path in &all {
        for (what, doing) in [("read", READ), ("list", LIST)] {
            ensure!(!can(OTHER, doing, path)?, "another user can {what} {}", path.display());
        }
    }
    ensure!(!can(OTHER, LIST, &server.data_dir())? && !can(OTHER, LIST, &server.data_dir().join("pods"))?);
    // What the shim and the control plane tell each other is not the Pod's either.
    for name in ["order.json", "state.json", "shim.json", "shim.log", "lock", "logs/main/0.log"] {
        let path = folder.join(name);
        ensure!(path.exists(), "{name}");
        for (what, doing) in [("read", READ), ("write", WRITE), ("replace", REPLACE)] {
            ensure!(!can(OWNER, doing, &path)?, "the Pod's user can {what} {name}");
        }
    }
    for name in ["volumes/secret/..data/password", "volumes/token/..data/key"] {
        let metadata = fs::metadata(folder.join(name))?;
        ensure!(metadata.uid() == OWNER && metadata.mode() & 0o077 == 0, "{name}: {:o}", metadata.mode());
        ensure!(can(OWNER, READ, &folder.join(name))?, "the Pod's user cannot read {name}");
    }
    ensure!(fs::metadata(folder.join("volumes/scratch/file"))?.uid() == OWNER, "what it made is its own");
    Ok(())
}

#[tokio::test]
async fn nobody_is_told_the_name_of_a_pods_folder() -> Result<()> {
    let Some(server) = start().await? else { return Ok(()) };
    make_secret(&server, &unlikely()).await?;
    run(&server, &pod("mine", Some(OWNER), SCRIPT)).await?;
    says(&server, "mine", "read-it-all").await?;
    let folder = folders(&server.data_dir())?.pop().context("a folder")?;
    let name = folder.file_name().and_then(|name| name.to_str()).context("a name")?;
    for process in process_table::processes()? {
        // What anybody can read of a process.
        for file in ["cmdline", "cgroup", "stat"] {
            let text = fs::read(format!("/proc/{}/{file}", process.pid)).unwrap_or_default();
            ensure!(!String::from_utf8_lossy(&text).contains(name), "{file} of {:?} tells the folder", process.command);
        }
    }
    Ok(())
}

#[tokio::test]
async fn what_a_secret_says_lies_nowhere_in_plain() -> Result<()> {
    let Some(mut server) = start().await? else { return Ok(()) };
    let password = unlikely();
    make_secret(&server, &password).await?;
    run(&server, &pod("mine", Some(OWNER), SCRIPT)).await?;
    run(&server, &pod("ours", None, SCRIPT)).await?;
    says(&server, "mine", "read-it-all").await?;
    let environment = json!({
        "apiVersion": "setpoint.dev/v1alpha1", "kind": "Environment", "metadata": {"name": "lab"},
        "spec": {"deployer": {"name": "simulated"}, "config": {"durable": true}, "observeIntervalSeconds": 1},
    });
    server.client()?.post("/apis/setpoint.dev/v1alpha1/environments", &environment).await?.success()?;
    let machines = "/apis/setpoint.dev/v1alpha1/namespaces/default/machines";
    let machine = json!({
        "apiVersion": "setpoint.dev/v1alpha1", "kind": "Machine", "metadata": {"name": "web"},
        "spec": {
            "environment": "lab", "image": "debian-12", "cores": 2, "memory": "1Gi",
            "env": [{"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "login", "key": "password"}}}],
        },
    });
    server.client()?.post(machines, &machine).await?.success()?;
    let is_synced = |machine: &Value| {
        let conditions = machine["status"]["conditions"].as_array();
        conditions.is_some_and(|all| all.iter().any(|one| one["type"] == "Synced" && one["status"] == "True"))
    };
    wait_for("the Machine to be synced", PATIENCE, || async {
        let machine = server.client()?.get(&format!("{machines}/web")).await?.success()?;
        Ok(is_synced(&machine).then_some(()))
    })
    .await?;
    for restarted in [false, true] {
        if restarted {
            server.restart().await?;
        }
        let mut given = 0;
        for path in below(&server.data_dir())? {
            let metadata = fs::symlink_metadata(&path)?;
            if !metadata.is_file() || !holds(&fs::read(&path)?, password.as_bytes()) {
                continue;
            }
            // The files of a Pod's own Secret volume, which its user alone can read, and what it chose to say of them.
            let told = path.strip_prefix(server.data_dir().join("pods"))?.components().nth(1).context("a folder")?;
            let part = told.as_os_str().to_string_lossy().into_owned();
            ensure!(["volumes", "logs"].contains(&part.as_str()), "{} holds a Secret in plain", path.display());
            ensure!(metadata.mode() & 0o077 == 0, "{} can be read by others", path.display());
            given += usize::from(part == "volumes");
        }
        ensure!(given == 2, "{given} of 2 Pods were given the Secret");
    }
    Ok(())
}

fn holds(content: &[u8], text: &[u8]) -> bool {
    memchr::memmem::find(content, text).is_some()
}

#[tokio::test]
async fn a_data_directory_that_was_moved_still_ends_its_pods() -> Result<()> {
    let mut before = Server::start_with_local_node(SETPOINT).await?;
    let mut after = Server::new(SETPOINT, &[])?.running_pods();
    make_secret(&before, &unlikely()).await?;
    let seconds = 100_000 + rand::random::<u32>() % 100_000;
    let script = format!("trap 'echo asked-to-end; exit 0' TERM; echo begun; sleep {seconds} & wait");
    run(&before, &pod("moved", None, &script)).await?;
    says(&before, "moved", "begun").await?;
    before.terminate().await?;
    fs::rename(before.data_dir(), after.data_dir())?;
    after.restart().await?;
    run_again(&after, "moved").await?;
    let began = std::time::Instant::now();
    let path = format!("{PODS}/moved?gracePeriodSeconds=30");
    after.client()?.delete(&path).await?.success()?;
    wait_for("the Pod to be gone", PATIENCE, || async {
        Ok((after.client()?.get(&format!("{PODS}/moved")).await?.status == 404).then_some(()))
    })
    .await?;
    ensure!(began.elapsed() < Duration::from_secs(20), "it was asked to end, and had not to be killed");
    wait_for("its processes to end", PATIENCE, || async {
        let left = process_table::commanded(&format!("sleep {seconds}"))?.len()
            + process_table::shims_in(&after.data_dir())?.len();
        Ok((left == 0).then_some(()))
    })
    .await?;
    ensure!(folders(&after.data_dir())?.is_empty(), "nothing of it is left");
    Ok(())
}

/// Waits until a server has taken a Pod up again.
async fn run_again(server: &Server, name: &str) -> Result<()> {
    wait_for("the Pod to be taken up again", PATIENCE, || async {
        let pod = server.client()?.get(&format!("{PODS}/{name}")).await?.success()?;
        let restarts = &pod["status"]["containerStatuses"][0]["restartCount"];
        ensure!(restarts == 0, "it was begun anew: {pod}");
        Ok((pod["status"]["phase"] == "Running").then_some(()))
    })
    .await
}
