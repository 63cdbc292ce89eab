//! An instance in a folder of its own with a real shim, that is gone after the test whatever happens.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::Value;
use setpoint_core::pod::{ContainerState, Phase, PodState, PortState};
use setpoint_deployer::process::order::{InstanceOrder, LogLimits, WrittenMark};
use setpoint_deployer::process::process_table::{self, Identity};
use setpoint_deployer::process::record::{self, StateRecord, StopRecord};
use setpoint_deployer::process::shim;
use setpoint_deployer::provider::{PodOrder, Variables};
use tempfile::TempDir;

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Instance {
    pub(crate) id: String,
    public_id: String,
    folder: TempDir,
    shim: Option<Child>,
}

impl Instance {
    /// An instance of this Pod with a running shim.
    pub(crate) fn start(spec: Value) -> Instance {
        Instance::start_with(spec, Vec::new(), LogLimits::default())
    }

    pub(crate) fn start_with(spec: Value, ports: Vec<PortState>, log_limits: LogLimits) -> Instance {
        let folder = tempfile::tempdir().unwrap();
        let id = format!("t{}", folder.path().file_name().unwrap().to_string_lossy().replace('.', ""));
        let order = InstanceOrder {
            id: id.clone(),
            mark: WrittenMark { cluster: "c".into(), owner_uid: "u1".into(), intent: None, spec_digest: None },
            name: "web".to_owned(),
            created_at: Timestamp::now(),
            pod: PodOrder {
                namespace: "default".to_owned(),
                name: "web".to_owned(),
                uid: "u1".to_owned(),
                spec: serde_json::from_value(spec).unwrap(),
                variables: BTreeMap::from([("a".to_owned(), Variables(vec![("GREETING".into(), "hello".into())]))]),
                volumes: BTreeMap::new(),
            },
            ports,
            log_limits,
        };
        for (_, container) in order.containers() {
            let root = folder.path().join("containers").join(&container.name).join("root");
            fs::create_dir_all(&root).unwrap();
            if let Some(user) = order.run_as_user(container).filter(|user| *user != 0) {
                fs::set_permissions(folder.path(), Permissions::from_mode(0o711)).unwrap();
                chown(&root, u32::try_from(user).ok(), None).unwrap();
            }
        }
        record::write(folder.path(), record::ORDER, &order).unwrap();
        let mut instance = Instance { id, public_id: order.public_id(), folder, shim: None };
        instance.start_shim();
        instance
    }

    pub(crate) fn start_shim(&mut self) {
        self.shim = Some(self.shim_command().spawn().unwrap());
    }

    pub(crate) fn shim_command(&self) -> Command {
        let mut command = Command::new(executable());
        // What is in the control plane's environment must not come through.
        command.arg(shim::SUBCOMMAND).env("CONTROL_PLANE_SECRET", "x").stdin(Stdio::null());
        command.current_dir(self.folder.path());
        command
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn root(&self, container: &str) -> PathBuf {
        self.path().join("containers").join(container).join("root")
    }

    pub(crate) fn shim_pid(&self) -> u32 {
        self.shim.as_ref().unwrap().id()
    }

    pub(crate) fn record(&self) -> Option<StateRecord> {
        record::read(self.path(), record::STATE).unwrap()
    }

    pub(crate) fn state(&self) -> PodState {
        self.record().expect("the shim has written its state").state
    }

    pub(crate) fn process(&self, container: &str) -> Option<Identity> {
        let processes = self.record()?.processes;
        processes.into_iter().find(|process| process.container == container).map(|process| process.identity)
    }

    /// Waits until a container is as it should be.
    pub(crate) fn wait(&self, what: &str, container: &str, is_so: impl Fn(&ContainerState) -> bool) -> ContainerState {
        wait_for(what, || {
            let state = self.record()?.state.container(container)?.clone();
            is_so(&state).then_some(state)
        })
    }

    pub(crate) fn wait_running(&self, container: &str) -> Identity {
        self.wait("running", container, ContainerState::is_running);
        self.process(container).unwrap()
    }

    /// Asks the shim to end everything, as the control plane does.
    pub(crate) fn stop(&self, grace: Duration) {
        let now = Timestamp::now();
        let stop = StopRecord { deadline: now + grace, requested_at: now };
        record::write(self.path(), record::STOP, &stop).unwrap();
        self.signal(rustix::process::Signal::USR1);
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.shim_pid() as i32).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Waits until the shim has ended, and gives back the last state.
    pub(crate) fn ended(&mut self) -> PodState {
        let mut shim = self.shim.take().unwrap();
        let status = wait_for("the shim to end", || shim.try_wait().unwrap());
        assert!(status.success(), "{status}");
        self.assert_nothing_left();
        self.state()
    }

    /// Kills the shim as a crash would.
    pub(crate) fn crash(&mut self) {
        let mut shim = self.shim.take().unwrap();
        shim.kill().unwrap();
        shim.wait().unwrap();
    }

    /// No process and no control group of the instance.
    pub(crate) fn assert_nothing_left(&self) {
        let left = |pid: &u32| process_table::has_variable(*pid, "SETPOINT_INSTANCE", &self.id);
        let entries = process_table::entries().unwrap();
        let pids: Vec<u32> = entries.iter().map(|entry| entry.identity.pid).filter(left).collect();
        assert!(pids.is_empty(), "processes are left: {pids:?}");
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap();
        for line in groups.lines() {
            let mut parts = line.splitn(3, ':').skip(1);
            let (tree, path) = (parts.next().unwrap(), parts.next().unwrap());
            let folder = format!("/sys/fs/cgroup/{tree}{path}");
            let names = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name());
            let own: Vec<_> = names.filter(|name| name.to_string_lossy().contains(&self.public_id)).collect();
            assert!(own.is_empty(), "control groups are left: {own:?}");
        }
    }

    /// The lines of a container's log, oldest first, without what stands before them.
    pub(crate) fn log(&self, container: &str, run: u32) -> String {
        let folder = self.path().join("logs").join(container);
        let aside = (1..9).rev().map(|number| folder.join(format!("{run}.log.{number}")));
        let files = aside.chain([folder.join(format!("{run}.log"))]);
        let text: String = files.filter_map(|file| fs::read_to_string(file).ok()).collect();
        let mut lines = String::new();
        for line in text.lines() {
            let parts: Vec<&str> = line.splitn(4, ' ').collect();
            parts[0].parse::<Timestamp>().unwrap();
            assert!(matches!(parts[1], "stdout" | "stderr"), "{line}");
            lines.push_str(parts[3]);
            if parts[2] == "F" {
                lines.push('\n');
            }
        }
        lines
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if let Some(mut shim) = self.shim.take() {
            // The test has failed already, or does not care.
            let _ = shim.kill();
            let _ = shim.wait();
        }
        while shim::kill_leftovers(&self.id) {}
    }
}

/// The reason and code of an end.
pub(crate) fn end(container: &ContainerState) -> (String, i32) {
    match &container.phase {
        Phase::Ended(exit) => (exit.reason.clone(), exit.code),
        other => panic!("it has not ended: {other:?}"),
    }
}

/// A Pod with one container `a` that is a shell script.
pub(crate) fn script(policy: &str, script: &str) -> Value {
    serde_json::json!({"restartPolicy": policy, "containers": [{"name": "a", "command": ["sh", "-c", script]}]})
}

pub(crate) fn wait_for<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(start.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

/// The example that is built together with the tests.
pub(crate) fn executable() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let built = own.ancestors().nth(2).unwrap().join("examples/shim");
    assert!(built.exists(), "{} is missing: build the examples too", built.display());
    built
}
