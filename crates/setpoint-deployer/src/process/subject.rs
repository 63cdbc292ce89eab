//! A folder for the conformance suite, and a witness who reads the process table and the folder by itself.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use rustix::fs::inotify::{self, WatchFlags};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use setpoint_core::observation::Mark;

use super::provider::{ProcessProvider, Settings};
use crate::conformance::{CLUSTER, Faults, Faulty, Kind, SECRET, Seen, Subject, Weather, Witness, greeting, mark};
use crate::provider::{Body, Order, PodOrder, Provider, Variables};

/// Counts the places of this process, so that each is called otherwise.
static PLACES: AtomicU32 = AtomicU32::new(0);

/// A state folder of its own. What runs there ends with it.
#[derive(Debug)]
pub(super) struct ProcessSubject {
    executable: PathBuf,
    witness: ProcessTable,
    weather: Weather,
}

impl ProcessSubject {
    pub(super) fn new(executable: &Path) -> io::Result<ProcessSubject> {
        let number = PLACES.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("setpoint-processes-{}-{number}", std::process::id()));
        fs::create_dir(&folder)?;
        let witness = ProcessTable::new(fs::canonicalize(folder)?)?;
        Ok(ProcessSubject { executable: executable.to_owned(), witness, weather: Weather::default() })
    }

    fn open(&self, cluster: &str) -> ProcessProvider {
        let settings = Settings {
            folder: self.witness.folder.clone(),
            executable: self.executable.clone(),
            cluster: cluster.into(),
            log_limits: Default::default(),
        };
        // What the suite drops is to be cut off there.
        ProcessProvider::open(settings).expect("a folder of our own can be opened").cut_short()
    }
}

impl Subject for ProcessSubject {
    fn provider(&self) -> Arc<dyn Provider> {
        // The machine itself does not lose answers: they get lost on the way.
        Arc::new(Faulty::new(Arc::new(self.open(CLUSTER)), self.weather.clone()))
    }

    fn faults(&self) -> Option<&dyn Faults> {
        Some(&self.weather)
    }

    fn witness(&self) -> &dyn Witness {
        &self.witness
    }

    fn order(&self, name: &str, intent: &str, kind: Kind) -> Order {
        let body = match kind {
            Kind::Ordinary => "trap 'exit 0' TERM; sleep 100000 & wait".to_owned(),
            Kind::Lingering(time) => {
                format!("trap 'sleep {}; exit 0' TERM; sleep 100000 & wait", time.as_secs_f64())
            }
            Kind::Stubborn => "trap '' TERM; while :; do sleep 100000; done".to_owned(),
            Kind::Invalid => String::new(),
        };
        let command = match kind {
            Kind::Invalid => json!([]),
            _ => json!(["sh", "-c", format!("echo '{}'; {body}", greeting(name))]),
        };
        let spec = json!({"containers": [{"name": "main", "command": command}]});
        let pod = PodOrder {
            namespace: "default".to_owned(),
            name: name.to_owned(),
            uid: format!("uid-{name}"),
            spec: serde_json::from_value(spec).expect("the spec is one"),
            variables: [("main".to_owned(), Variables(vec![("SECRET".to_owned(), SECRET.to_owned())]))].into(),
            volumes: Default::default(),
        };
        Order { mark: mark(name, intent), name: name.to_owned(), provider_id: None, body: Body::Pod(Box::new(pod)) }
    }

    fn plant_foreign(&self) -> BoxFuture<'_, Box<str>> {
        async {
            let mut order = self.order("foreign", "foreign", Kind::Ordinary);
            order.mark.cluster = "another".into();
            let id = self.open("another").create(&order).await.expect("another control plane can make instances");
            while !self.witness.runs(&id) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            id
        }
        .boxed()
    }
}

/// What lies in the folder besides instances.
const NO_INSTANCES: [&[u8]; 3] = [b".lock", b".key", b".key.new"];

/// Who runs is told by the process table alone, whose it is by the folder alone.
#[derive(Debug)]
struct ProcessTable {
    folder: PathBuf,
    changes: OwnedFd,
    count: Mutex<u64>,
}

impl ProcessTable {
    fn new(folder: PathBuf) -> io::Result<ProcessTable> {
        let changes = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
        let flags = WatchFlags::CREATE | WatchFlags::DELETE | WatchFlags::MOVED_TO | WatchFlags::MOVED_FROM;
        inotify::add_watch(&changes, &folder, flags)?;
        Ok(ProcessTable { folder, changes, count: Mutex::new(0) })
    }

    /// The shims and workloads of an instance.
    fn processes(&self, id: &str) -> BTreeSet<i32> {
        let place = self.folder.join(id);
        let variable = format!("SETPOINT_INSTANCE={id}");
        let has = |file: PathBuf, wanted: &str| {
            fs::read(file).is_ok_and(|text| text.split(|byte| *byte == 0).any(|word| word == wanted.as_bytes()))
        };
        let entries = fs::read_dir("/proc").expect("the process table can be read");
        let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
        let is_its = |pid: &i32| {
            let process = Path::new("/proc").join(pid.to_string());
            let works_there = fs::read_link(process.join("cwd")).is_ok_and(|folder| folder == place);
            works_there || has(process.join("environ"), &variable)
        };
        pids.filter(is_its).collect()
    }

    fn runs(&self, id: &str) -> bool {
        !self.processes(id).is_empty()
    }

    fn ids(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten();
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        names.filter(|name| !name.starts_with('.')).collect()
    }

    fn mark(&self, id: &str) -> Option<Mark> {
        let order: Value = serde_json::from_slice(&fs::read(self.folder.join(id).join("order.json")).ok()?).ok()?;
        let text = |name: &str| order["mark"][name].as_str().map(Box::from);
        let (cluster, owner_uid) = (text("cluster")?, text("ownerUid")?);
        let mark = Mark { cluster, owner_uid, intent: text("intent"), spec_digest: text("specDigest") };
        (&*mark.cluster == CLUSTER).then_some(mark)
    }
}

impl Witness for ProcessTable {
    fn instances(&self) -> BoxFuture<'_, Vec<Seen>> {
        let seen = |id: String| Seen { mark: self.mark(&id), running: self.runs(&id), id: id.into() };
        async move { self.ids().into_iter().map(seen).collect() }.boxed()
    }

    /// Whatever is made or removed appears in the folder or vanishes from it.
    fn calls(&self) -> BoxFuture<'_, u64> {
        let mut count = self.count.lock();
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(&self.changes, &mut buffer);
        while let Ok(event) = reader.next() {
            *count += u64::from(event.file_name().is_some_and(|name| !NO_INSTANCES.contains(&name.to_bytes())));
        }
        std::future::ready(*count).boxed()
    }
}

impl Drop for ProcessTable {
    /// Shims first: what they ran goes with them.
    fn drop(&mut self) {
        for id in self.ids() {
            for pid in self.processes(&id).into_iter().filter_map(Pid::from_raw) {
                // It may just have ended.
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            tracing::warn!(%error, folder = %self.folder.display(), "a folder of the suite was left behind");
        }
    }
}
