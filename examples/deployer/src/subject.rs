//! What the suite runs on: a folder of its own, and a witness who reads the files.

use std::sync::Arc;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{Container, PodSpec};
use setpoint_core::observation::Mark;
use setpoint_deployer::conformance::{CLUSTER, Kind, SECRET, Seen, Subject, Witness, mark};
use setpoint_deployer::provider::{Body, Order, PodOrder, Provider, Variables};
use setpoint_deployer::{Error, Fault, Operation, Result};
use tempfile::TempDir;

use crate::folder::{Entry, Folder};
use crate::provider::Client;

#[derive(Debug)]
pub struct Place {
    folder: Folder,
    /// Removed with the place.
    _parent: TempDir,
}

impl Place {
    pub fn new() -> Result<Place> {
        let made = tempfile::tempdir().and_then(|parent| {
            let folder = parent.path().join("instances");
            std::fs::create_dir(&folder)?;
            Ok(Place { folder: Folder::at(&folder), _parent: parent })
        });
        made.map_err(|error| Error::provider(Operation::Create, "a folder", Fault::Broken, error.to_string()))
    }
}

impl Subject for Place {
    fn provider(&self) -> Arc<dyn Provider> {
        Arc::new(Client::new(CLUSTER, self.folder.clone()))
    }

    fn witness(&self) -> &dyn Witness {
        self
    }

    fn order(&self, name: &str, intent: &str, kind: Kind) -> Order {
        let command = match kind {
            Kind::Ordinary => vec!["run".to_owned()],
            Kind::Lingering(time) => vec!["linger".to_owned(), time.as_millis().to_string()],
            Kind::Stubborn => vec!["stay".to_owned()],
            Kind::Invalid => vec!["fly".to_owned()],
        };
        let container = Container { name: "main".to_owned(), command: Some(command), ..Default::default() };
        let variables = Variables(vec![("PASSWORD".to_owned(), SECRET.to_owned())]);
        let pod = PodOrder {
            namespace: "conformance".to_owned(),
            name: name.to_owned(),
            uid: format!("uid-{name}"),
            spec: PodSpec { containers: vec![container], ..Default::default() },
            variables: [("main".to_owned(), variables)].into(),
            volumes: Default::default(),
        };
        Order { mark: mark(name, intent), name: name.to_owned(), provider_id: None, body: Body::Pod(Box::new(pod)) }
    }

    fn plant_foreign(&self) -> BoxFuture<'_, Box<str>> {
        Box::pin(async {
            let entry = Entry { name: "foreign".to_owned(), mark: None, needs_ms: None, ends_at: None };
            self.folder.write("foreign", &entry).expect("the folder can be written");
            "foreign".into()
        })
    }
}

impl Witness for Place {
    fn instances(&self) -> BoxFuture<'_, Vec<Seen>> {
        Box::pin(async {
            let seen = |(id, entry): (String, Entry)| {
                let running = entry.runs();
                let mark = entry.mark.map(|mark| Mark {
                    cluster: mark.cluster,
                    owner_uid: mark.owner_uid,
                    intent: mark.intent,
                    spec_digest: mark.spec_digest,
                });
                Seen { id: id.into(), mark, running }
            };
            self.folder.entries().expect("the folder can be read").into_iter().map(seen).collect()
        })
    }

    /// The folder has no log of requests; when it was last changed does as well.
    fn calls(&self) -> BoxFuture<'_, u64> {
        Box::pin(async {
            let changed = self.folder.changed_at().expect("the folder can be read");
            changed.as_nanosecond().unsigned_abs() as u64
        })
    }
}
