//! A state folder with a process provider over it. What runs there ends with the test, whatever happens.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use futures::StreamExt;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use setpoint_core::observation::Mark;
use setpoint_core::pod::PodState;
use setpoint_deployer::process::order::LogLimits;
use setpoint_deployer::process::process_table;
use setpoint_deployer::process::record::{self, SHIM};
use setpoint_deployer::process::shim::kill_leftovers;
use setpoint_deployer::process::{ProcessProvider, Settings};
use setpoint_deployer::provider::{Body, Instance, Observed, Order, PodOrder, Scope, Variables};
use setpoint_deployer::session::{LogOptions, Logs};
use setpoint_deployer::{Provider, Result};
use tempfile::TempDir;

use crate::instance::executable;

/// How long anything may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Place {
    folder: TempDir,
    pub(crate) log_limits: LogLimits,
}

impl Place {
    pub(crate) fn new() -> Place {
        Place { folder: tempfile::tempdir().unwrap(), log_limits: LogLimits::default() }
    }

    pub(crate) fn open(&self) -> ProcessProvider {
        self.open_as("cluster")
    }

    pub(crate) fn open_as(&self, cluster: &str) -> ProcessProvider {
        let folder = self.folder.path().join("instances");
        let settings =
            Settings { folder, executable: executable(), cluster: cluster.into(), log_limits: self.log_limits };
        ProcessProvider::open(settings).unwrap()
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().join("instances")
    }

    pub(crate) fn folder(&self, id: &str) -> PathBuf {
        self.root().join(id)
    }

    pub(crate) fn shim_pid(&self, id: &str) -> Option<u32> {
        let identity: process_table::Identity = record::read(&self.folder(id), SHIM).ok()??;
        identity.is_alive().then_some(identity.pid)
    }

    /// Kills a shim as a crash would.
    pub(crate) fn kill_shim(&self, id: &str) {
        let pid = self.shim_pid(id).and_then(|pid| Pid::from_raw(pid as i32)).unwrap();
        kill_process(pid, Signal::KILL).unwrap();
    }

    fn ids(&self) -> Vec<String> {
        let entries = fs::read_dir(self.root()).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for id in self.ids() {
            if let Some(pid) = self.shim_pid(&id).and_then(|pid| Pid::from_raw(pid as i32)) {
                // It may just have ended.
                let _ = kill_process(pid, Signal::KILL);
            }
            while kill_leftovers(&id) {}
        }
    }
}

/// The processes that run for an instance, without its shim.
pub(crate) fn workloads(id: &str) -> Vec<u32> {
    let alive = process_table::entries().unwrap().into_iter().filter(|entry| !entry.is_zombie);
    let pids = alive.map(|entry| entry.identity.pid);
    pids.filter(|pid| process_table::has_variable(*pid, "SETPOINT_INSTANCE", id)).collect()
}

/// A Pod of one container `main` that runs a script.
pub(crate) fn script(script: &str) -> Value {
    json!({"restartPolicy": "Never", "containers": [{"name": "main", "command": ["sh", "-c", script]}]})
}

/// One that runs until it is asked to end.
pub(crate) fn sleeper() -> Value {
    script("trap 'exit 0' TERM; echo begun; sleep 100000 & wait")
}

pub(crate) fn pod(name: &str, spec: Value) -> PodOrder {
    PodOrder {
        namespace: "default".to_owned(),
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        spec: serde_json::from_value(spec).unwrap(),
        variables: [("main".to_owned(), Variables::default())].into(),
        volumes: Default::default(),
    }
}

pub(crate) fn order(name: &str, spec: Value) -> Order {
    order_of(pod(name, spec))
}

pub(crate) fn order_of(pod: PodOrder) -> Order {
    let mark = Mark {
        cluster: "cluster".into(),
        owner_uid: pod.uid.as_str().into(),
        intent: Some(format!("make-{}", pod.name).into()),
        spec_digest: None,
    };
    Order { mark, name: pod.name.clone(), provider_id: None, body: Body::Pod(Box::new(pod)) }
}

pub(crate) async fn observe(provider: &ProcessProvider) -> Observed {
    provider.observe(&Scope::Everything).await.unwrap()
}

pub(crate) async fn instance(provider: &ProcessProvider, id: &str) -> Option<Instance> {
    let observed = provider.observe(&Scope::Instance(id.into())).await.unwrap();
    observed.instance(id).cloned()
}

pub(crate) async fn run_word(provider: &ProcessProvider, id: &str) -> String {
    let instance = instance(provider, id).await.expect("it is there");
    instance.guest.run.known().map_or("unknown".to_owned(), |word| word.to_string())
}

/// Waits until a condition holds.
pub(crate) async fn eventually<T>(what: &str, mut condition: impl AsyncFnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = condition().await {
            return value;
        }
        assert!(start.elapsed() < PATIENCE, "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until the Pod is as it should be.
pub(crate) async fn wait_state(
    provider: &ProcessProvider,
    id: &str,
    what: &str,
    is_so: impl Fn(&PodState) -> bool,
) -> PodState {
    eventually(what, async || instance(provider, id).await?.pod.filter(|state| is_so(state))).await
}

pub(crate) async fn wait_running(provider: &ProcessProvider, id: &str) -> PodState {
    let all = |state: &PodState| state.containers.iter().all(|container| container.is_running());
    wait_state(provider, id, "its containers to run", all).await
}

pub(crate) async fn wait_word(provider: &ProcessProvider, id: &str, word: &str) {
    eventually(word, async || (run_word(provider, id).await == word).then_some(())).await;
}

pub(crate) async fn try_read_log(provider: &ProcessProvider, id: &str, options: LogOptions) -> Result<String> {
    let pieces: Vec<_> = Logs::read(provider, id, "main", options).await?.collect().await;
    let bytes: Vec<u8> = pieces.into_iter().flat_map(|piece| piece.unwrap()).collect();
    Ok(String::from_utf8(bytes).unwrap())
}

pub(crate) async fn read_log(provider: &ProcessProvider, id: &str, options: LogOptions) -> String {
    try_read_log(provider, id, options).await.unwrap()
}
