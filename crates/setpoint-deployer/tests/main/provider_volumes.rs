//! Volumes of processes: where they are found, who may read them, and how their files change.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};
use setpoint_core::pod::PodState;
use setpoint_deployer::provider::{Body, Order, Variables, Volume, VolumeFile};
use setpoint_deployer::{Error, Provider, SpecError};

use crate::place::{Place, eventually, order_of, pod, read_log, wait_running, wait_word};

const SECRET: &str = "correct-horse";

fn files(content: &[(&str, &str)]) -> Volume {
    let file = |content: &str| VolumeFile { content: content.as_bytes().to_vec(), mode: 0o400 };
    Volume::Files(content.iter().map(|(path, content)| ((*path).to_owned(), file(content))).collect())
}

fn order(script: &str, secret: &[(&str, &str)], host: &str) -> Order {
    let mut pod = pod("web", spec(script));
    pod.variables = [("main".to_owned(), Variables(vec![("TOKEN".to_owned(), SECRET.to_owned())]))].into();
    pod.volumes = BTreeMap::from([
        ("secret".to_owned(), files(secret)),
        ("work".to_owned(), Volume::Empty),
        ("host".to_owned(), Volume::Host { path: host.to_owned() }),
    ]);
    order_of(pod)
}

fn spec(script: &str) -> Value {
    json!({
        "restartPolicy": "Never",
        "containers": [{
            "name": "main",
            "command": ["sh", "-c", script],
            "volumeMounts": [
                {"name": "secret", "mountPath": "/etc/secret"},
                {"name": "work", "mountPath": "/work"},
                {"name": "work", "mountPath": "/part", "subPath": "deep/er"},
                {"name": "host", "mountPath": "/host"},
            ],
        }],
        "volumes": [{"name": "secret"}, {"name": "work"}, {"name": "host"}],
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn volumes_are_found_where_they_are_mounted() {
    let place = Place::new();
    let provider = place.open();
    let host = tempfile::tempdir().unwrap();
    fs::write(host.path().join("file"), "of the host\n").unwrap();
    let script = "cat etc/secret/password $SETPOINT_ROOT/host/file; echo; echo x > work/a; echo y > part/b; ls work/deep/er; sleep 100000";
    let secret = [("password", "changeme\n"), ("keys/private", SECRET)];
    let order = order(script, &secret, host.path().to_str().unwrap());
    let id = provider.create(&order).await.unwrap();
    wait_running(&provider, &id).await;
    let expected = "changeme\nof the host\n\nb\n";
    eventually("its words", async || (read_log(&provider, &id, Default::default()).await == expected).then_some(()))
        .await;
    let mode = |path: &str| fs::metadata(place.folder(&id).join(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(""), 0o700);
    assert_eq!(mode("order.json"), 0o600);
    assert_eq!(mode("volumes/secret/password"), 0o400);
    assert_eq!(mode("volumes/secret/keys/private"), 0o400);
    assert_eq!(mode("volumes/secret"), 0o700);
    provider.delete("end", &id).await.unwrap();
    assert!(host.path().join("file").exists(), "what is the host's stays");
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_shown_a_secret() {
    let place = Place::new();
    let provider = place.open();
    let secret = [("password", SECRET)];
    let order = order("sleep 100000", &secret, "/");
    let id = provider.create(&order).await.unwrap();
    wait_running(&provider, &id).await;
    let observed = crate::place::observe(&provider).await;
    let shown = format!("{order:?} {provider:?} {observed:?}");
    assert!(!shown.contains(SECRET), "{shown}");
    for file in ["order.json", "state.json", "shim.json", "shim.log"] {
        assert!(!fs::read_to_string(place.folder(&id).join(file)).unwrap().contains(SECRET), "{file}");
    }
    let pid = place.shim_pid(&id).unwrap();
    let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap();
    assert!(!String::from_utf8_lossy(&arguments).contains(SECRET));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_former_version_left_in_plain_is_sealed_and_still_known() {
    let place = Place::new();
    let provider = place.open();
    let mut order = order("echo said $TOKEN; sleep 100000", &[("password", "x")], "/");
    let Body::Pod(pod) = &mut order.body else { unreachable!() };
    pod.spec.restart_policy = Some("Always".to_owned());
    let id = provider.create(&order).await.unwrap();
    wait_running(&provider, &id).await;
    let path = place.folder(&id).join("order.json");
    let mut plain: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    plain.as_object_mut().unwrap().remove("sealedVariables");
    plain["pod"]["variables"] = serde_json::to_value(BTreeMap::from([("main", [["TOKEN", SECRET]])])).unwrap();
    fs::write(&path, plain.to_string()).unwrap();
    drop(provider);
    let provider = place.open();
    assert!(!fs::read_to_string(&path).unwrap().contains(SECRET));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    place.kill_shim(&id);
    wait_word(&provider, &id, "stopped").await;
    provider.start("again", &id).await.unwrap();
    let said = format!("said {SECRET}\n");
    eventually("the variable", async || {
        wait_running(&provider, &id).await;
        (read_log(&provider, &id, Default::default()).await.ends_with(&said)).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_files_change_in_place() {
    let place = Place::new();
    let provider = place.open();
    let script = "while :; do cat etc/secret/password 2>/dev/null; sleep 0.02; done";
    let id = provider.create(&order(script, &[("password", "old\n")], "/")).await.unwrap();
    let before = wait_running(&provider, &id).await;
    let changed = order(script, &[("password", "new\n"), ("more", "x")], "/");
    for _ in 0..2 {
        provider.update("change", &id, &changed).await.unwrap();
    }
    eventually("the new file to be read", async || {
        read_log(&provider, &id, Default::default()).await.ends_with("new\n").then_some(())
    })
    .await;
    let after = wait_running(&provider, &id).await;
    let run = |state: &PodState| (state.containers[0].restarts, state.containers[0].run_id.clone());
    assert_eq!(run(&after), run(&before), "nothing was restarted");

    let error = provider.update("change", &id, &order("another command", &[], "/")).await.unwrap_err();
    let Error::Spec(SpecError::Field { field, .. }) = &error else { panic!("{error}") };
    assert_eq!(field, "spec.containers[0]");
    let error = provider.update("change", "nothing", &changed).await.unwrap_err();
    assert!(error.is_not_found(), "{error}");
}
