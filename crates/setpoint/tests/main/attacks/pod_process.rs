//! Pods that reach for what is not theirs, by links, pipes, open files and privileges.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::pod_place::{PodPlace, is_root, script};
use crate::SETPOINT;

fn container(fields: Value, what: &str) -> Value {
    let mut container = script(what);
    for (name, value) in fields.as_object().into_iter().flatten() {
        container[name] = value.clone();
    }
    json!({"containers": [container]})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_were_open_where_the_server_was_started_reach_no_pod() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (secret, starter) = (folder.path().join("secret"), folder.path().join("start"));
    fs::write(&secret, "private")?;
    fs::write(&starter, format!("#!/bin/sh\nexec 7<'{}'\nexec '{SETPOINT}' \"$@\"\n", secret.display()))?;
    fs::set_permissions(&starter, fs::Permissions::from_mode(0o755))?;
    let place = PodPlace::start_by(&starter).await?;
    let script = "echo own; ls -l /proc/self/fd; echo shim; ls -l /proc/$PPID/fd; echo read; cat <&7; true";
    place.create("open", container(json!({}), script)).await?;
    let said = place.said("open").await?;
    ensure!(!said.contains("secret") && !said.contains("private"), "{said}");
    let own = said.split("shim\n").next().unwrap_or_default();
    let open: Vec<&str> = own.lines().filter(|line| line.contains(" -> ")).collect();
    // `ls` itself has the folder open that it lists.
    ensure!(open.len() == 4 && open.iter().any(|line| line.contains(" 3 -> /proc/")), "{said}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_pod_puts_in_the_place_of_our_files_leads_nowhere() -> Result<()> {
    let place = PodPlace::start().await?;
    let token = place.server.data_dir().join("admin.token");
    let secret = fs::read_to_string(&token)?.trim().to_owned();
    ensure!(secret.len() > 10, "a token");
    let victim = place.server.folder().join("victim");
    fs::write(&victim, "intact")?;
    let (token, victim_path) = (token.display(), victim.display());

    let linked = format!("ln -sf '{token}' \"$SETPOINT_TERMINATION_LOG\"; echo the end; exit 1");
    place.create("linked", container(json!({}), &linked)).await?;
    let falls_back = json!({"terminationMessagePolicy": "FallbackToLogsOnError"});
    place.create("linked-log", container(falls_back.clone(), &linked)).await?;
    let fifo = "rm -f \"$SETPOINT_TERMINATION_LOG\"; mkfifo \"$SETPOINT_TERMINATION_LOG\"; exit 1";
    place.create("fifo", container(json!({}), fifo)).await?;
    let folder = "$SETPOINT_ROOT/../../..";
    let log = format!("ln -sf '{token}' \"{folder}/logs/web/0.log\"");
    place.create("log", container(json!({}), &log)).await?;
    // Once it has run, what it left there is a link when the next run begins.
    let again =
        format!("test -e ran && exit 0; touch ran; ln -sf '{victim_path}' \"$SETPOINT_TERMINATION_LOG\"; exit 1");
    let mut spec = container(json!({}), &again);
    spec["restartPolicy"] = json!("OnFailure");
    place.create("again", spec).await?;
    let state = format!("mkfifo \"{folder}/fifo\"; mv \"{folder}/fifo\" \"{folder}/state.json\"; sleep 1");
    place.create("state", container(json!({}), &state)).await?;

    assert_eq!(place.last_words("linked").await?, "", "a link is nothing that was said");
    assert_eq!(place.last_words("linked-log").await?, "the end\n", "the end of the log is told instead");
    assert_eq!(place.last_words("fifo").await?, "", "nobody waits for a FIFO");
    place.ended("log").await?;
    let shown = place.log("log").await.unwrap_or_default();
    ensure!(!shown.contains(&secret), "the log shows what it is a link to");
    place.ended("again").await?;
    assert_eq!(fs::read_to_string(&victim)?, "intact", "nothing is written through a link");
    place.ended("state").await?;
    for name in ["linked", "linked-log", "fifo", "log", "again", "state"] {
        let pod = place.pod(name).await?.to_string();
        ensure!(!pod.contains(&secret), "{name} tells the token");
    }
    place.runs("beside").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_container_leaves_its_last_words_where_it_says() -> Result<()> {
    let place = PodPlace::start().await?;
    let rows = [
        ("chosen", json!({"terminationMessagePath": "/var/why"}), "echo because > var/why", "because\n"),
        ("default", json!({}), "echo because > dev/termination-log", "because\n"),
        (
            "variable",
            json!({"terminationMessagePath": "/why"}),
            "echo because > \"$SETPOINT_TERMINATION_LOG\"",
            "because\n",
        ),
        (
            "spoken",
            json!({"terminationMessagePolicy": "FallbackToLogsOnError"}),
            "echo because > dev/termination-log; echo log; exit 1",
            "because\n",
        ),
        ("log", json!({"terminationMessagePolicy": "FallbackToLogsOnError"}), "echo log; exit 1", "log\n"),
        ("fine", json!({"terminationMessagePolicy": "FallbackToLogsOnError"}), "echo log", ""),
    ];
    for (name, fields, what, _) in &rows {
        place.create(name, container(fields.clone(), what)).await?;
    }
    for (name, _, _, words) in &rows {
        assert_eq!(place.last_words(name).await?, *words, "{name}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_path_of_the_machine_has_to_be_what_the_pod_says() -> Result<()> {
    let place = PodPlace::start().await?;
    let folder = place.server.folder().join("machine");
    fs::create_dir(&folder)?;
    fs::write(folder.join("file"), "kept")?;
    let mounting = |name: &str, kind: &str| {
        let path = folder.join(name);
        let volume = json!({"name": "host", "hostPath": {"path": path, "type": kind}});
        let mounts = json!({"volumeMounts": [{"name": "host", "mountPath": "/host"}]});
        let mut spec = container(mounts, "test -e host && echo there");
        spec["volumes"] = json!([volume]);
        spec
    };
    let refused = [
        ("no-folder", "none", "Directory", "is not a directory"),
        ("no-file", "none", "File", "is not a file"),
        ("file-as-folder", "file", "Directory", "is not a directory"),
        ("file-to-make-folder", "file", "DirectoryOrCreate", "is not a directory"),
        ("no-socket", "file", "Socket", "is not a socket file"),
        ("no-device", "file", "CharDevice", "is not a character device"),
        ("no-disk", "file", "BlockDevice", "is not a block device"),
    ];
    let mounted = [
        ("file", "file", "File"),
        ("made", "new/folder", "DirectoryOrCreate"),
        ("made-file", "new-file", "FileOrCreate"),
    ];
    for (pod, name, kind) in
        mounted.iter().copied().chain(refused.iter().map(|(pod, name, kind, _)| (*pod, *name, *kind)))
    {
        place.create(pod, mounting(name, kind)).await?;
    }
    for (pod, ..) in mounted {
        assert_eq!(place.said(pod).await?, "there\n", "{pod}");
    }
    for (pod, name, kind, words) in refused {
        let (message, _) = place.told(pod, "FailedMount").await?;
        let path = folder.join(name).display().to_string();
        ensure!([&path, kind, words].iter().all(|part| message.contains(*part)), "{pod}: {message}");
        place.waiting(pod, "ContainerCreating").await?;
    }
    for (name, mode) in [("new", 0o755), ("new/folder", 0o755), ("new-file", 0o644)] {
        assert_eq!(fs::metadata(folder.join(name))?.permissions().mode() & 0o777, mode, "{name} is for all users");
    }
    if is_root()? {
        for path in [place.server.folder(), folder.as_path()] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o711))?;
        }
        let rows = [
            ("user-folder", "new/folder", "DirectoryOrCreate", "ls"),
            ("user-file", "new-file", "FileOrCreate", "cat"),
        ];
        for (pod, name, kind, read) in rows {
            let mut spec = mounting(name, kind);
            spec["securityContext"] = json!({"runAsUser": 61_003});
            spec["containers"][0]["command"] = json!(["sh", "-c", format!("{read} host && echo there")]);
            place.create(pod, spec).await?;
            assert_eq!(place.said(pod).await?, "there\n", "{pod}");
        }
    }
    fs::create_dir(folder.join("none"))?;
    assert_eq!(place.said("no-folder").await?, "there\n", "it starts as soon as the folder is there");
    Ok(())
}

/// A line of `/proc/self/status`, in hexadecimal.
fn status(said: &str, name: &str) -> Result<u64> {
    let line = said.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    Ok(u64::from_str_radix(line.with_context(|| format!("no {name} in {said}"))?.trim(), 16)?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn privileges_that_a_container_gives_up_are_gone() -> Result<()> {
    let place = PodPlace::start().await?;
    let show = "cat /proc/self/status";
    let charted = json!({
        "capabilities": {"drop": ["ALL"]}, "allowPrivilegeEscalation": false, "seccompProfile": {"type": "RuntimeDefault"},
    });
    let mut probed =
        container(json!({"securityContext": charted}), "while ! test -s probe; do sleep 0.1; done; cat probe");
    probed["containers"][0]["startupProbe"] =
        json!({"periodSeconds": 1, "exec": {"command": ["sh", "-c", "cat /proc/self/status > part && mv part probe"]}});
    place.create("probed", probed).await?;
    place.create("charted", container(json!({"securityContext": charted}), show)).await?;
    for name in ["charted", "probed"] {
        let said = place.said(name).await?;
        for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
            assert_eq!(status(&said, set)?, 0, "{set} of {name}");
        }
        assert_eq!((status(&said, "NoNewPrivs")?, status(&said, "Seccomp")?), (1, 2), "{name}");
        if is_root()? {
            assert_eq!(status(&said, "CapBnd")?, 0, "{name}");
        }
    }
    if is_root()? {
        let one = json!({"capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}});
        place.create("one", container(json!({"securityContext": one}), show)).await?;
        let said = place.said("one").await?;
        assert_eq!((status(&said, "CapEff")?, status(&said, "CapBnd")?), (1 << 10, 1 << 10), "{said}");
        assert_eq!((status(&said, "NoNewPrivs")?, status(&said, "Seccomp")?), (0, 0), "only what was asked for");
    }
    // A user without capabilities may make a user namespace, and be root in it: the filter refuses that.
    let unshare = "unshare --user true 2>/dev/null && echo made || echo refused; mount -t tmpfs none . 2>/dev/null && echo mounted || true; ls / > /dev/null && date > /dev/null && echo works";
    let filtered = json!({"seccompProfile": {"type": "RuntimeDefault"}});
    let mut spec = json!({"containers": [script(unshare)]});
    spec["securityContext"] = filtered;
    place.create("filtered", spec).await?;
    assert_eq!(place.said("filtered").await?, "refused\nworks\n");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_only_container_writes_to_its_volumes_alone() -> Result<()> {
    let place = PodPlace::start().await?;
    let outside = place.server.folder().join("outside");
    fs::create_dir(&outside)?;
    let tries = format!(
        "for place in own '{0}/file' data/file kept/file \"$SETPOINT_TERMINATION_LOG\" /dev/null; do \
         (echo x > \"$place\") 2>/dev/null && echo \"wrote $(basename \"$place\") in $(basename \"$(dirname \"$place\")\")\"; done; \
         rm -rf '{0}' 2>/dev/null; true",
        outside.display()
    );
    let mounts = json!([
        {"name": "data", "mountPath": "/data"}, {"name": "kept", "mountPath": "/kept", "readOnly": true},
    ]);
    let fields = json!({"securityContext": {"readOnlyRootFilesystem": true}, "volumeMounts": mounts});
    let mut spec = container(fields, &tries);
    spec["volumes"] = json!([{"name": "data", "emptyDir": {}}, {"name": "kept", "emptyDir": {}}]);
    place.create("read-only", spec).await?;
    let said = place.said("read-only").await?;
    assert_eq!(said, "wrote file in data\nwrote termination-log in web\nwrote null in dev\n");
    ensure!(outside.is_dir() && !outside.join("file").exists(), "nothing outside has changed");
    assert_eq!(place.last_words("read-only").await?, "x\n");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_process_cannot_be_given_is_refused_by_its_field() -> Result<()> {
    let place = PodPlace::start().await?;
    let own = |context: Value| container(json!({"securityContext": context}), "echo ran");
    let of_pod = |context: Value| {
        let mut spec = container(json!({}), "echo ran");
        spec["securityContext"] = context;
        spec
    };
    let localhost = || json!({"seccompProfile": {"type": "Localhost", "localhostProfile": "mine.json"}});
    let rows = [
        (
            "sysctls",
            of_pod(json!({"sysctls": [{"name": "kernel.msgmax", "value": "65536"}]})),
            "securityContext.sysctls",
        ),
        ("profile", own(localhost()), "securityContext.seccompProfile"),
        ("pod-profile", of_pod(localhost()), "securityContext.seccompProfile"),
        ("se-linux", own(json!({"seLinuxOptions": {"level": "s0:c1"}})), "securityContext.seLinuxOptions"),
        ("app-armor", own(json!({"appArmorProfile": {"type": "RuntimeDefault"}})), "securityContext.appArmorProfile"),
        ("unknown", own(json!({"capabilities": {"drop": ["FLY"]}})), "securityContext.capabilities.drop"),
    ];
    for (name, spec, _) in &rows {
        place.create(name, spec.clone()).await?;
    }
    for (name, _, field) in &rows {
        let message = place.waiting(name, "CreateContainerError").await?;
        ensure!(message.contains(field), "{name}: {message}");
        let (told, _) = place.told(name, "Failed").await?;
        ensure!(told.contains(field), "{name}: {told}");
    }
    place.create("unconfined", own(json!({"seccompProfile": {"type": "Unconfined"}}))).await?;
    assert_eq!(place.said("unconfined").await?, "ran\n");
    Ok(())
}
