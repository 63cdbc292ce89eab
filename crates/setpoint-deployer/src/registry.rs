//! Deployers by name and version, and the one way to open them: what comes out has deadlines and checks in front.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Map, Value};
use setpoint_core::version::Version;
use thiserror::Error;

use crate::checked::Checked;
use crate::conformance::Subject;
use crate::deployer::Deployer;
use crate::error::{self, Error, Fault, Operation};
use crate::guard::{Deadlines, Guarded, within};
use crate::provider::{Abilities, Answer, Provider};
use crate::read_only::ReadOnly;

/// A kind of deployer as it is registered. Shared as `Arc<dyn Driver>`.
pub trait Driver: fmt::Debug + Send + Sync + 'static {
    /// What environments call it: lower-case letters, digits and dashes.
    fn name(&self) -> &str;

    /// Such as `1.0.0`.
    fn version(&self) -> &str;

    /// What its providers can do. Always the same.
    fn abilities(&self) -> &Abilities;

    /// Opens it as an environment asks for it. Others go through [`Registry::open`].
    fn open<'a>(&'a self, settings: &'a Settings, context: &'a Context) -> Answer<'a, Parts>;

    /// A fresh place to run the conformance suite on.
    fn subject(&self) -> Answer<'_, Box<dyn Subject>>;
}

/// An environment's configuration of its deployer, in the deployer's own words.
pub type Settings = Map<String, Value>;

/// What a deployer is told besides its settings.
#[derive(Debug, Clone)]
pub struct Context {
    /// The control plane, as it stands in marks.
    pub cluster: Box<str>,
    /// The environment, for people.
    pub environment: String,
    /// A folder of this environment's own.
    pub folder: PathBuf,
    pub credentials: Credentials,
    /// Whether somebody only looks. A driver then changes neither the place nor the folder, which may not be there; calls
    /// that would are refused before it hears of them.
    pub read_only: bool,
}

/// What a provider wants to see before it lets us in. It is shown to nobody.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credentials(pub BTreeMap<String, String>);

/// What a driver opens.
#[derive(Debug, Clone)]
pub struct Parts {
    pub provider: Arc<dyn Provider>,
    /// If the place has revisions and traffic of its own.
    pub deployer: Option<Arc<dyn Deployer>>,
}

/// What everybody else gets.
#[derive(Debug, Clone)]
pub struct Opened {
    pub provider: Arc<Guarded>,
    pub deployer: Option<Checked>,
}

/// The deployers there are. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    /// In the order of names, then of versions.
    drivers: Vec<Arc<dyn Driver>>,
    deadlines: Deadlines,
}

/// Why there is no such deployer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RegistryError {
    #[error("there is no deployer {name}: there is {}", listed(.known))]
    Unknown { name: String, known: Vec<String> },
    #[error("there is no version {version} of the deployer {name}: there is {}", listed(.known))]
    NoSuchVersion { name: String, version: String, known: Vec<String> },
    #[error("{name}@{version} is registered already")]
    Twice { name: String, version: String },
    #[error("`{name}` cannot be a deployer's name: lower-case letters, digits and dashes can")]
    BadName { name: String },
    #[error("`{version}` cannot be the version of the deployer {name}: write it as 1.0.0")]
    BadVersion { name: String, version: String },
}

/// Why a deployer could not be opened.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OpenError {
    #[error(transparent)]
    Registry(#[from] RegistryError),
    #[error(transparent)]
    Driver(#[from] error::Error),
}

impl Registry {
    pub fn new(deadlines: Deadlines) -> Registry {
        Registry { drivers: Vec::new(), deadlines }
    }

    pub fn register(&mut self, driver: Arc<dyn Driver>) -> Result<(), RegistryError> {
        let (name, version) = (driver.name(), driver.version());
        if !is_name(name) {
            return Err(RegistryError::BadName { name: name.to_owned() });
        }
        if !is_version(version) {
            return Err(RegistryError::BadVersion { name: name.to_owned(), version: version.to_owned() });
        }
        let place = self.drivers.binary_search_by(|other| {
            (other.name(), Version::new(other.version())).cmp(&(name, Version::new(version)))
        });
        match place {
            Ok(_) => Err(RegistryError::Twice { name: name.to_owned(), version: version.to_owned() }),
            Err(place) => {
                self.drivers.insert(place, driver);
                Ok(())
            }
        }
    }

    /// The deployers there are, by name and then by version.
    pub fn drivers(&self) -> impl ExactSizeIterator<Item = &Arc<dyn Driver>> {
        self.drivers.iter()
    }

    /// The deployer of this name; of several versions the highest that begins like `version`. A pre-release has to be
    /// asked for in full.
    pub fn find(&self, name: &str, version: Option<&str>) -> Result<&Arc<dyn Driver>, RegistryError> {
        let of_name = || self.drivers.iter().filter(|driver| driver.name() == name);
        let known = |drivers: Vec<&Arc<dyn Driver>>| drivers.iter().map(|driver| reference(&***driver)).collect();
        if of_name().next().is_none() {
            return Err(RegistryError::Unknown { name: name.to_owned(), known: known(self.drivers.iter().collect()) });
        }
        of_name().rfind(|driver| matches(driver.version(), version)).ok_or_else(|| RegistryError::NoSuchVersion {
            name: name.to_owned(),
            version: version.unwrap_or("without a pre-release mark").to_owned(),
            known: known(of_name().collect()),
        })
    }

    /// As [`Registry::find`], by `process` or `process@1.2`.
    pub fn find_by_reference(&self, reference: &str) -> Result<&Arc<dyn Driver>, RegistryError> {
        match reference.split_once('@') {
            Some((name, version)) => self.find(name, Some(version)),
            None => self.find(reference, None),
        }
    }

    /// Opens a deployer. Whatever comes out refuses what cannot be, and answers in time.
    pub async fn open(
        &self,
        name: &str,
        version: Option<&str>,
        settings: &Settings,
        context: &Context,
    ) -> Result<Opened, OpenError> {
        let opened = within(self.deadlines.change, self.find(name, version)?.open(settings, context)).await;
        let late = |late| Err(Error::provider(Operation::Observe, &context.environment, Fault::Unreachable, late));
        let parts = opened.unwrap_or_else(late)?;
        let parts = if context.read_only { parts.read_only() } else { parts };
        Ok(parts.guarded(self.deadlines))
    }
}

impl Parts {
    /// What is left of it for who only looks.
    fn read_only(self) -> Parts {
        Parts { provider: Arc::new(ReadOnly(self.provider)), deployer: None }
    }

    pub(crate) fn guarded(self, deadlines: Deadlines) -> Opened {
        Opened {
            provider: Arc::new(Guarded::new(self.provider, deadlines)),
            deployer: self.deployer.map(|deployer| Checked::with_deadlines(deployer, deadlines)),
        }
    }
}

/// `process@1.0.0`.
pub fn reference(driver: &dyn Driver) -> String {
    format!("{}@{}", driver.name(), driver.version())
}

fn is_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&name.len()) && name.bytes().all(fits) && !name.starts_with('-') && !name.ends_with('-')
}

fn is_version(version: &str) -> bool {
    let release = version.split_once(['-', '+']).map_or(version, |(release, _)| release);
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    release.split('.').count() == 3 && release.split('.').all(is_number) && version.len() <= 64
}

fn matches(version: &str, wanted: Option<&str>) -> bool {
    let Some(wanted) = wanted else { return !version.contains('-') };
    if Version::new(version) == Version::new(wanted) {
        return true;
    }
    let wanted = wanted.strip_prefix('v').unwrap_or(wanted);
    let mut parts = version.split('.');
    !version.contains('-') && wanted.split('.').all(|part| parts.next() == Some(part))
}

fn listed(known: &[String]) -> String {
    if known.is_empty() { "none".to_owned() } else { known.join(", ") }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::Noop;

    /// A driver that is nothing but its name.
    #[derive(Debug)]
    struct Named(&'static str, &'static str);

    impl Driver for Named {
        fn name(&self) -> &str {
            self.0
        }

        fn version(&self) -> &str {
            self.1
        }

        fn abilities(&self) -> &Abilities {
            Noop.abilities()
        }

        fn open<'a>(&'a self, settings: &'a Settings, context: &'a Context) -> Answer<'a, Parts> {
            Noop.open(settings, context)
        }

        fn subject(&self) -> Answer<'_, Box<dyn Subject>> {
            Noop.subject()
        }
    }

    /// A driver whose place never answers.
    #[derive(Debug)]
    struct Silent;

    impl Driver for Silent {
        fn name(&self) -> &str {
            "silent"
        }

        fn version(&self) -> &str {
            "1.0.0"
        }

        fn abilities(&self) -> &Abilities {
            Noop.abilities()
        }

        fn open<'a>(&'a self, _: &'a Settings, _: &'a Context) -> Answer<'a, Parts> {
            Box::pin(std::future::pending())
        }

        fn subject(&self) -> Answer<'_, Box<dyn Subject>> {
            Noop.subject()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_deployer_that_does_not_open_is_given_up() {
        let mut registry = Registry::default();
        registry.register(Arc::new(Silent)).unwrap();
        let context = Context {
            cluster: "ours".into(),
            environment: "lab".to_owned(),
            folder: PathBuf::new(),
            credentials: Credentials::default(),
            read_only: false,
        };
        let opened = registry.open("silent", None, &Settings::default(), &context).await;
        let why = opened.map(drop).expect_err("nobody answers").to_string();
        assert!(why.contains("nothing came within 60 s"), "{why}");
    }

    fn registry() -> Registry {
        let mut registry = Registry::default();
        for version in ["1.10.0", "1.2.0", "1.2.7", "2.0.0-rc.1", "1.20.0"] {
            registry.register(Arc::new(Named("process", version))).unwrap();
        }
        registry.register(Arc::new(Named("future", "0.1.0-alpha"))).unwrap();
        registry
    }

    #[test]
    fn the_highest_version_that_fits_is_found() {
        let known = "process@1.2.0, process@1.2.7, process@1.10.0, process@1.20.0, process@2.0.0-rc.1";
        let rows = [
            ("a name alone", "process", Ok("process@1.20.0")),
            ("a major version", "process@1", Ok("process@1.20.0")),
            ("a minor version", "process@1.2", Ok("process@1.2.7")),
            ("a whole version", "process@1.2.0", Ok("process@1.2.0")),
            ("with a v", "process@v1.2", Ok("process@1.2.7")),
            ("a pre-release in full", "process@2.0.0-rc.1", Ok("process@2.0.0-rc.1")),
            (
                "a pre-release by its release",
                "process@2",
                Err(format!("there is no version 2 of the deployer process: there is {known}")),
            ),
            (
                "a version that nothing has",
                "process@1.3",
                Err(format!("there is no version 1.3 of the deployer process: there is {known}")),
            ),
            (
                "only a pre-release is there",
                "future",
                Err("there is no version without a pre-release mark of the deployer future: there is \
                     future@0.1.0-alpha"
                    .to_owned()),
            ),
            (
                "a name that nothing has",
                "proces",
                Err(format!("there is no deployer proces: there is future@0.1.0-alpha, {known}")),
            ),
        ];
        for (name, asked, expected) in rows {
            let found = registry().find_by_reference(asked).map(|driver| reference(&**driver));
            assert_eq!(found.map_err(|error| error.to_string()), expected.map(str::to_owned), "{name}");
        }
    }

    #[test]
    fn what_cannot_be_registered_is_refused() {
        let rows = [
            ("the same twice", "process", "1.2.0", "process@1.2.0 is registered already"),
            (
                "a name in capitals",
                "Process",
                "1.0.0",
                "`Process` cannot be a deployer's name: lower-case letters, digits and dashes can",
            ),
            ("no name", "", "1.0.0", "`` cannot be a deployer's name: lower-case letters, digits and dashes can"),
            (
                "a version of two parts",
                "process",
                "1.0",
                "`1.0` cannot be the version of the deployer process: write it as 1.0.0",
            ),
        ];
        for (name, driver, version, expected) in rows {
            let refused = registry().register(Arc::new(Named(driver, version)));
            assert_eq!(refused.map_err(|error| error.to_string()), Err(expected.to_owned()), "{name}");
        }
    }

    #[test]
    fn credentials_are_shown_to_nobody() {
        let credentials = Credentials(BTreeMap::from([("token".to_owned(), "abc".to_owned())]));
        assert_eq!(format!("{credentials:?}"), r#"{"token"}"#);
    }
}
