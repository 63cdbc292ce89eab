//! Who looks changes nothing, a copy acts for nobody, and a mistyped folder stays a mistake.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use setpoint_testkit::Server;
use tempfile::TempDir;

use super::pod_place::is_root;
use crate::SETPOINT;

const PATIENCE: Duration = Duration::from_secs(60);

/// A place that outlives the process, in which what belongs to nothing is removed after a second, and changes need nobody.
const ENVIRONMENT: &str = "
apiVersion: setpoint.dev/v1alpha1
kind: Environment
metadata: {name: lab}
spec:
  deployer: {name: simulated}
  config: {durable: true}
  observeIntervalSeconds: 1
  orphanPolicy: Delete
";
const MACHINE: &str = "
apiVersion: setpoint.dev/v1alpha1
kind: Machine
metadata: {name: web}
spec: {environment: lab, image: debian-12, cores: 2, memory: 1Gi}
";

/// A user's data home, in which commands work without a server.
struct Home(TempDir);

impl Home {
    fn new() -> Result<Home> {
        let home = Home(tempfile::Builder::new().prefix("setpoint-look-").tempdir()?);
        fs::write(home.file("lab.yaml"), ENVIRONMENT)?;
        fs::write(home.file("web.yaml"), MACHINE)?;
        Ok(home)
    }

    /// One with an Environment and the guest of a Machine in it.
    fn with_a_guest() -> Result<Home> {
        let home = Home::new()?;
        home.done(&["apply", "-y", "-f", "lab.yaml", "-f", "web.yaml"])?;
        ensure!(home.guests(&home.data())?.len() == 1, "the guest is there");
        Ok(home)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn data(&self) -> PathBuf {
        self.file("setpoint")
    }

    fn run(&self, arguments: &[&str]) -> Result<Output> {
        let mut command = Command::new(SETPOINT);
        command.args(arguments).current_dir(self.0.path()).env("XDG_DATA_HOME", self.0.path()).env_remove("KUBECONFIG");
        Ok(command.output()?)
    }

    fn done(&self, arguments: &[&str]) -> Result<String> {
        let output = self.run(arguments)?;
        ensure!(output.status.success(), "{arguments:?}: {}", said(&output));
        Ok(said(&output))
    }

    fn refused(&self, arguments: &[&str]) -> Result<String> {
        let output = self.run(arguments)?;
        ensure!(output.status.code() == Some(1), "{arguments:?} was not refused: {}", said(&output));
        Ok(said(&output))
    }

    /// The records of the guests in a data folder.
    fn guests(&self, data: &Path) -> Result<Vec<PathBuf>> {
        let place = data.join("environments/lab/place");
        let is_guest = |path: &PathBuf| {
            let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
            stem.parse::<u64>().is_ok()
        };
        let entries = fs::read_dir(place)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
        Ok(entries.into_iter().filter(is_guest).collect())
    }
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Every file below a folder with its content, but for those of the engine: to read it is to open it.
fn content(folder: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        match path.is_dir() {
            true if path.ends_with("store/engine") => {}
            true => found.extend(content(&path)?),
            false => drop(found.insert(path.clone(), fs::read(&path)?)),
        }
    }
    Ok(found)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let output = Command::new("cp").arg("-a").arg(from).arg(to).output()?;
    ensure!(output.status.success(), "{}", said(&output));
    Ok(())
}

#[test]
fn looks_without_a_server_change_nothing() -> Result<()> {
    let home = Home::with_a_guest()?;
    for guest in home.guests(&home.data())? {
        fs::remove_file(guest)?;
    }
    let before = content(&home.data())?;
    let drift = home.run(&["drift"])?;
    ensure!(drift.status.code() == Some(2), "{}", said(&drift));
    ensure!(said(&drift).contains("default/web") && !said(&drift).contains("Nothing has drifted"), "{}", said(&drift));
    ensure!(said(&drift).contains("changes nothing"), "{}", said(&drift));
    home.run(&["status"])?;
    let plan = home.run(&["plan", "-f", "lab.yaml", "-f", "web.yaml"])?;
    ensure!(plan.status.code() == Some(2) && said(&plan).contains("create"), "a fresh look: {}", said(&plan));
    home.done(&["validate", "-f", "lab.yaml"])?;
    home.refused(&["resolve", "ship"])?;
    let after = content(&home.data())?;
    let changed: Vec<&PathBuf> =
        after.iter().filter(|(path, text)| before.get(*path) != Some(text)).map(|(path, _)| path).collect();
    ensure!(changed.is_empty() && before.len() == after.len(), "somebody wrote {changed:?}");
    ensure!(home.guests(&home.data())?.is_empty(), "nobody made a guest");
    // Who acts makes it again.
    let deadline = Instant::now() + PATIENCE;
    while home.guests(&home.data())?.is_empty() {
        ensure!(Instant::now() < deadline, "the guest is not back");
        home.done(&["apply", "-y", "-f", "web.yaml"])?;
    }
    Ok(())
}

#[test]
fn a_restored_copy_removes_no_guests_and_acts_only_once_it_was_adopted() -> Result<()> {
    let home = Home::new()?;
    home.done(&["apply", "-y", "-f", "lab.yaml"])?;
    let restored = home.file("restored");
    copy(&home.data(), &restored)?;
    home.done(&["apply", "-y", "-f", "web.yaml"])?;
    // The copy knows nothing of the Machine whose guest it sees.
    if restored.join("environments").exists() {
        fs::remove_dir_all(restored.join("environments"))?;
    }
    copy(&home.data().join("environments"), &restored.join("environments"))?;
    let named = restored.to_str().context("a name")?;
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(4) {
        let status = said(&home.run(&["status", "--data-dir", named])?);
        ensure!(status.contains("lab"), "{status}");
        ensure!(home.guests(&restored)?.len() == 1, "a look removed the guest of the original: {status}");
    }
    for acting in [
        &["apply", "-y", "-f", "lab.yaml", "--data-dir", named][..],
        &["reconcile", "environment/lab", "--data-dir", named],
        &["up", "--listen", "127.0.0.1:0", "--no-local", "--data-dir", named],
    ] {
        let error = home.refused(acting)?;
        for word in ["is a copy of control plane", "setpoint since", "setpoint data adopt --data-dir"] {
            ensure!(error.replace("on this machine ", "").contains(word), "{acting:?}: {error}");
        }
    }
    ensure!(home.guests(&restored)?.len() == 1, "who was refused did nothing");
    ensure!(home.done(&["data", "show", "--data-dir", named])?.contains("no: this is a copy"), "it says so");
    let adopted = home.done(&["data", "adopt", "--data-dir", named])?;
    ensure!(adopted.contains("start nothing on"), "{adopted}");
    ensure!(home.done(&["data", "show", "--data-dir", named])?.contains("lives here:     yes"), "it says so");
    let audit = home.done(&["audit", "--data-dir", named])?;
    ensure!(audit.contains("adopt data directory"), "{audit}");
    home.done(&["apply", "-y", "-f", "lab.yaml", "--data-dir", named])?;
    let error = home.refused(&["apply", "-y", "-f", "web.yaml"])?;
    ensure!(error.contains("was told to live in"), "the original acts no more: {error}");
    Ok(())
}

/// Makes a data directory what a version left behind that gave no ids.
fn forget_identity(data: &Path) -> Result<()> {
    fs::remove_file(data.join("control-plane.json"))?;
    fs::remove_file(data.join("store/acknowledged"))?;
    fs::write(data.join("store/format"), "2\n")?;
    Ok(())
}

#[test]
fn a_backup_of_a_former_version_removes_no_guests_and_acts_only_once_it_was_adopted() -> Result<()> {
    let home = Home::new()?;
    home.done(&["apply", "-y", "-f", "lab.yaml"])?;
    let restored = home.file("restored");
    copy(&home.data(), &restored)?;
    forget_identity(&restored)?;
    home.done(&["apply", "-y", "-f", "web.yaml"])?;
    if restored.join("environments").exists() {
        fs::remove_dir_all(restored.join("environments"))?;
    }
    copy(&home.data().join("environments"), &restored.join("environments"))?;
    let named = restored.to_str().context("a name")?;
    for _ in 0..2 {
        for acting in [
            &["apply", "-y", "-f", "lab.yaml", "--data-dir", named][..],
            &["up", "--listen", "127.0.0.1:0", "--no-local", "--data-dir", named],
        ] {
            let error = home.refused(acting)?;
            ensure!(error.contains("a former version wrote it") && error.contains("setpoint data adopt"), "{error}");
        }
    }
    ensure!(home.guests(&restored)?.len() == 1, "who was refused did nothing");
    ensure!(said(&home.run(&["status", "--data-dir", named])?).contains("lab"), "a look is possible");
    home.done(&["data", "adopt", "--data-dir", named])?;
    home.done(&["apply", "-y", "-f", "lab.yaml", "--data-dir", named])?;
    Ok(())
}

#[tokio::test]
async fn a_directory_of_a_former_version_without_environments_is_brought_up_to_date() -> Result<()> {
    let mut server = Server::start(SETPOINT).await?;
    server.terminate().await?;
    forget_identity(&server.data_dir())?;
    server.restart().await?;
    ensure!(server.data_dir().join("control-plane.json").exists(), "it has an id now");
    Ok(())
}

#[tokio::test]
async fn a_directory_in_which_a_former_status_left_keys_is_usable() -> Result<()> {
    let mut server = Server::start(SETPOINT).await?;
    server.terminate().await?;
    let data = server.data_dir();
    forget_identity(&data)?;
    // What `up` makes and that `status` did not.
    for name in ["users.json", "ca.crt", "ca.key", "admin.token", "kubeconfig"] {
        fs::remove_file(data.join(name))?;
    }
    ensure!(data.join("service-accounts.key").exists(), "it left this");
    server.restart().await?;
    server.client()?.get("/readyz").await?;
    Ok(())
}

#[tokio::test]
async fn what_root_does_in_the_directory_of_a_user_leaves_all_of_it_to_that_user() -> Result<()> {
    const SERVICE: u32 = 61_005;
    if !is_root()? {
        return Ok(());
    }
    let (mut server, home) = (Server::start(SETPOINT).await?, Home::new()?);
    server.terminate().await?;
    let data = server.data_dir();
    fs::remove_dir_all(data.join("audit"))?;
    fs::remove_file(data.join("control-plane.json"))?;
    fs::remove_file(data.join("users.json"))?;
    fs::remove_file(data.join("service-accounts.key"))?;
    let given = Command::new("chown").arg("-R").arg(SERVICE.to_string()).arg(&data).output()?;
    ensure!(given.status.success(), "{}", said(&given));
    let named = data.to_str().context("a name")?;
    for command in [
        &["data", "adopt"][..],
        &["user", "create", "jane"],
        &["status"],
        &["apply", "-y", "-f", "lab.yaml", "-f", "web.yaml"],
    ] {
        home.done(&[command, &["--data-dir", named]].concat())?;
        let mut folders = vec![data.clone()];
        while let Some(folder) = folders.pop() {
            let owner = fs::metadata(&folder)?.uid();
            ensure!(owner == SERVICE, "{command:?}: {} is {owner}'s", folder.display());
            for entry in fs::read_dir(&folder)? {
                let path = entry?.path();
                let owner = fs::symlink_metadata(&path)?.uid();
                match path.is_dir() {
                    true => folders.push(path),
                    false => ensure!(owner == SERVICE, "{command:?}: {} is {owner}'s", path.display()),
                }
            }
        }
    }
    Ok(())
}

#[test]
fn a_folder_that_was_renamed_is_no_copy() -> Result<()> {
    let home = Home::with_a_guest()?;
    let moved = home.file("moved");
    fs::rename(home.data(), &moved)?;
    let named = moved.to_str().context("a name")?;
    home.done(&["apply", "-y", "-f", "web.yaml", "--data-dir", named])?;
    let shown = home.done(&["data", "show", "--data-dir", named])?;
    ensure!(shown.contains("lives here:     yes") && shown.contains(named), "{shown}");
    Ok(())
}

#[test]
fn a_typo_is_an_error_and_makes_nothing() -> Result<()> {
    let home = Home::with_a_guest()?;
    let (typo, other) = (home.file("setpiont"), home.file("papers"));
    fs::create_dir(&other)?;
    fs::write(other.join("letter.txt"), "")?;
    let commands: [&[&str]; 12] = [
        &["status"],
        &["drift"],
        &["plan", "-f", "web.yaml"],
        &["apply", "-y", "-f", "web.yaml"],
        &["destroy", "-y", "-f", "web.yaml"],
        &["reconcile", "web"],
        &["approve", "-y", "web"],
        &["import", "lab", "7", "web"],
        &["user", "list"],
        &["secrets", "rotate"],
        &["data", "show"],
        &["data", "adopt"],
    ];
    for command in commands {
        for (folder, found) in
            [(&typo, "beside it there is lab.yaml, papers, setpoint, web.yaml"), (&other, "letter.txt")]
        {
            let named = folder.to_str().context("a name")?;
            let error = home.refused(&[command, &["--data-dir", named][..]].concat())?;
            ensure!(error.contains(found) && error.contains("expected: control-plane.json"), "{command:?}: {error}");
        }
        ensure!(!typo.exists(), "{command:?} made it");
    }
    let named = other.to_str().context("a name")?;
    let error = home.refused(&["up", "--listen", "127.0.0.1:0", "--data-dir", named])?;
    ensure!(error.contains("not empty (letter.txt)"), "{error}");
    Ok(())
}

#[tokio::test]
async fn what_a_command_began_a_server_goes_on_with() -> Result<()> {
    let mut server = Server::new(SETPOINT, &[])?;
    let home = Home::new()?;
    ensure!(home.done(&["plan", "-f", "lab.yaml"]).is_err(), "something is to be done");
    home.run(&["status"])?;
    ensure!(!home.data().exists(), "a look makes no folder");
    home.done(&["apply", "-y", "-f", "lab.yaml", "-f", "web.yaml"])?;
    fs::rename(home.data(), server.data_dir())?;
    server.restart().await?;
    let machines = server.client()?.get("/apis/setpoint.dev/v1alpha1/namespaces/default/machines").await?.success()?;
    ensure!(machines["items"].as_array().is_some_and(|items| items.len() == 1), "{machines}");
    Ok(())
}

#[tokio::test]
async fn nobody_but_its_owner_can_read_a_data_directory() -> Result<()> {
    let home = Home::with_a_guest()?;
    let mut server = Server::new(SETPOINT, &[])?;
    fs::rename(home.data(), server.data_dir())?;
    // As a former version, or a careless copy, may have left it.
    for path in content(&server.data_dir())?.keys().filter(|path| path.extension().is_none_or(|end| end != "key")) {
        if !path.ends_with("users.json") {
            fs::set_permissions(path, fs::Permissions::from_mode(0o644))?;
        }
    }
    for folder in ["", "store", "store/engine", "audit", "environments", "environments/lab", "environments/lab/place"] {
        fs::set_permissions(server.data_dir().join(folder), fs::Permissions::from_mode(0o755))?;
    }
    server.restart().await?;
    let mut folders = vec![server.data_dir()];
    while let Some(folder) = folders.pop() {
        let mode = fs::metadata(&folder)?.permissions().mode() & 0o777;
        ensure!(mode & 0o066 == 0, "{} can be read: {mode:o}", folder.display());
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            let mode = fs::symlink_metadata(&path)?.permissions().mode() & 0o777;
            match path.is_dir() {
                true => folders.push(path),
                false => ensure!(mode & 0o077 == 0, "{} can be read: {mode:o}", path.display()),
            }
        }
    }
    Ok(())
}
