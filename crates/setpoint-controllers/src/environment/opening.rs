//! The deployer of an Environment, opened as its spec says.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use parking_lot::Mutex;
use setpoint_api::environment::Environment;
use setpoint_deployer::Provider;
use setpoint_deployer::registry::{Context, Credentials};

use super::status::Standing;
use super::{Environments, Running, site};
use crate::node::{NodeAgent, Report};
use crate::runtime::{Error, Name};

impl Environments {
    /// Opens an Environment and has its agent run; or says why that cannot be.
    pub(super) async fn open(&self, key: &Name, environment: &Environment) -> Result<Result<(), Standing>, Error> {
        let spec = &environment.spec;
        let credentials_version = self.credentials_version(environment);
        let credentials = match self.credentials(environment).await? {
            Ok(credentials) => credentials,
            Err(missing) => return Ok(Err(missing)),
        };
        let context = Context {
            cluster: self.setup.cluster.as_str().into(),
            environment: key.name.to_string(),
            folder: self.setup.folder.join(&*key.name),
            credentials,
            read_only: self.nodes.read_only,
        };
        let settings = spec.config.clone().unwrap_or_default();
        let (name, version) = (&spec.deployer.name, spec.deployer.version.as_deref());
        let opened = match self.setup.registry.open(name, version, &settings, &context).await {
            Ok(opened) => opened,
            Err(error) => return Ok(Err(Standing::not_opened(&error.to_string()))),
        };
        let provider: Arc<dyn Provider> = opened.provider;
        // The one before it ends before the next begins.
        self.running.lock().remove(key);
        let reach = Arc::new(Mutex::new(None));
        self.setup.providers.put(&key.name, provider.clone());
        let agent = (provider.abilities().runs_pods && !self.nodes.read_only).then(|| {
            let report = self.report(key, reach.clone());
            (self.setup.host)(NodeAgent {
                context: self.nodes.clone(),
                caches: self.caches.clone(),
                dispatch: self.setup.dispatch.clone(),
                registration: site::registration(environment, provider.abilities(), &self.setup.cluster),
                provider: provider.clone(),
                cluster: self.setup.cluster.clone(),
                report: Some(report),
            })
        });
        let (uid, generation) = (environment.metadata.uid.clone(), environment.metadata.generation);
        let running = Running { uid, generation, credentials: credentials_version, provider, reach, agent };
        self.running.lock().insert(key.clone(), running);
        self.surveys.lock().remove(key);
        self.unanswered.lock().remove(key);
        Ok(Ok(()))
    }

    /// Takes down whether the place answers, and has the Environment say so where that is news.
    fn report(&self, key: &Name, reach: Arc<Mutex<Option<Result<(), String>>>>) -> Report {
        let (key, queue) = (key.clone(), self.queue.lock().clone());
        Arc::new(move |answer| {
            let before = reach.lock().replace(answer.clone());
            if before.as_ref() != Some(&answer) {
                queue.iter().for_each(|queue| queue.add(key.clone()));
            }
        })
    }

    /// Which version of its credentials an Environment would be opened with.
    pub(super) fn credentials_version(&self, environment: &Environment) -> Option<String> {
        let reference = environment.spec.credentials_secret_ref.as_ref()?;
        let secret = self.caches.secrets.get(&Name::new(&reference.namespace, &reference.name))?;
        secret.metadata.resource_version.clone()
    }

    async fn credentials(&self, environment: &Environment) -> Result<Result<Credentials, Standing>, Error> {
        let Some(reference) = &environment.spec.credentials_secret_ref else { return Ok(Ok(Credentials::default())) };
        let secrets: Api<Secret> = Api::namespaced(self.setup.nodes.clone(), &reference.namespace);
        let Some(secret) = secrets.get_opt(&reference.name).await? else {
            return Ok(Err(Standing::no_credentials(&reference.namespace, &reference.name)));
        };
        let text = |(key, value): (String, k8s_openapi::ByteString)| Some((key, String::from_utf8(value.0).ok()?));
        let entries: BTreeMap<String, String> = secret.data.into_iter().flatten().filter_map(text).collect();
        if entries.is_empty() {
            return Ok(Err(Standing::empty_credentials(&reference.namespace, &reference.name)));
        }
        Ok(Ok(Credentials(entries)))
    }
}
