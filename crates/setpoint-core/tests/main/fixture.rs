//! Two deployers as data, and short words for machines, guests and scenes.

use jiff::Timestamp;
use setpoint_api::step::{Effect, Target};
use setpoint_core::desired::{Create, Desired};
use setpoint_core::digest::Key;
use setpoint_core::observation::{Completeness, Config, Guest, Mark, Observation, Reading};
use setpoint_core::plan::{ChangeSet, Input, Orphans, Policy, plan};
use setpoint_core::registry::{Capabilities, Field, Literal, Normalizer, OtherKeys, Unit};
use setpoint_core::value::{Fields, Value};

pub(crate) const MIB: i64 = 1 << 20;
pub(crate) const GIB: i64 = 1 << 30;
pub(crate) const CLUSTER: &str = "cluster-1";

/// Guests on a rack: numbered, with a power state, changed in place, disks that only grow.
pub(crate) static RACK: Capabilities = Capabilities {
    deployer: "rack",
    fields: &[
        Field { min: Some(1), max: Some(128), ..Field::new("cores", Effect::InPlace) },
        Field {
            normalizers: &[Normalizer::TrailingNewline, Normalizer::Default(Literal::Text(""))],
            is_prose: true,
            ..Field::new("description", Effect::InPlace)
        },
        Field { unit: Unit::Gibibytes, min: Some(GIB), ..Field::new("disk", Effect::Grow) },
        Field { normalizers: &[Normalizer::Default(Literal::EmptyMap)], ..Field::new("env", Effect::Restart) },
        Field { normalizers: &[Normalizer::Case], ..Field::new("hostname", Effect::Restart) },
        Field::new("image", Effect::Replace),
        Field { unit: Unit::Mebibytes, min: Some(16 * MIB), ..Field::new("memory", Effect::InPlace) },
        Field::new("node", Effect::Unsupported),
        Field { normalizers: &[Normalizer::Default(Literal::Bool(false))], ..Field::new("onboot", Effect::InPlace) },
        Field { sensitive: true, ..Field::new("password", Effect::InPlace) },
        Field { normalizers: &[Normalizer::Order], ..Field::new("tags", Effect::InPlace) },
    ],
    creates: true,
    adopts: true,
    has_run_state: true,
    chooses_ids: true,
    creates_before_delete: false,
    update_restarts: false,
    bills: false,
    settle_seconds: 60,
    running_words: &["running"],
    stopped_words: &["stopped"],
    passing_words: &["starting", "stopping"],
};

/// GPU pods by the second: the provider chooses ids, bills, and restarts a pod to change it.
pub(crate) static GPU: Capabilities = Capabilities {
    deployer: "gpu-cloud",
    fields: &[
        Field {
            other_keys: OtherKeys::Ours { except_prefixes: &["PROVIDER_"] },
            normalizers: &[Normalizer::Default(Literal::EmptyMap)],
            ..Field::new("env", Effect::InPlace)
        },
        Field { min: Some(1), max: Some(8), ..Field::new("gpu_count", Effect::Replace) },
        Field { normalizers: &[Normalizer::Case], ..Field::new("gpu_type", Effect::Replace) },
        Field::new("image", Effect::InPlace),
        Field { normalizers: &[Normalizer::Order], ..Field::new("ports", Effect::InPlace) },
    ],
    chooses_ids: false,
    creates_before_delete: true,
    update_restarts: true,
    bills: true,
    running_words: &["RUNNING"],
    stopped_words: &["EXITED"],
    passing_words: &["PENDING"],
    ..RACK
};

pub(crate) fn now() -> Timestamp {
    "2026-11-15T12:00:00Z".parse().expect("a time")
}

pub(crate) fn key() -> Key {
    Key::new([7; 32])
}

pub(crate) fn target(name: &str) -> Target {
    Target { namespace: "shop".into(), name: name.into(), kind: "Machine".into() }
}

pub(crate) fn machine(name: &str) -> Desired {
    Desired::new(target(name), &format!("uid-{name}"))
}

pub(crate) fn fields<const N: usize>(fields: [(&'static str, Value); N]) -> Fields {
    fields.into_iter().collect()
}

/// The usual machine: two cores, 2048 MiB, an image.
pub(crate) fn small() -> Fields {
    fields([("cores", 2.into()), ("image", "debian-12".into()), ("memory", (2048 * MIB).into())])
}

pub(crate) fn with(mut fields: Fields, name: &'static str, value: impl Into<Value>) -> Fields {
    fields.set(name, value);
    fields
}

/// A guest that we made for a machine, runs, and holds no data.
pub(crate) fn guest(id: &str, owner: &Desired, fields: Fields) -> Guest {
    Guest {
        id: id.into(),
        name: owner.target.name.as_str().into(),
        mark: Some(Mark {
            cluster: CLUSTER.into(),
            owner_uid: owner.uid.clone(),
            intent: Some("intent-1".into()),
            spec_digest: None,
        }),
        config: Config::known(fields),
        run: Reading::Known("running".into()),
        holds_data: Reading::Known(false),
        busy: None,
        is_template: false,
        hourly_price: None,
    }
}

/// A guest that somebody else made.
pub(crate) fn foreign(id: &str, fields: Fields) -> Guest {
    let nobody = machine("nobody");
    Guest { mark: None, holds_data: Reading::Known(true), ..guest(id, &nobody, fields) }
}

/// The machine as it stands on record once it was carried out.
pub(crate) fn recorded(mut machine: Desired, id: &str) -> Desired {
    machine.record.provider_id = Some(id.into());
    machine.record.spec_digest = Some(machine.spec_digest(&key()).into());
    machine
}

/// An environment to plan for.
pub(crate) struct Scene {
    pub(crate) capabilities: &'static Capabilities,
    pub(crate) desired: Vec<Desired>,
    pub(crate) observation: Observation,
    pub(crate) policy: Policy,
}

impl Scene {
    pub(crate) fn new(capabilities: &'static Capabilities, desired: Vec<Desired>, guests: Vec<Guest>) -> Scene {
        Scene {
            capabilities,
            desired,
            observation: Observation { completeness: Completeness::Complete, guests, observed_at: now() },
            policy: Policy { create: Create::Always, orphans: Orphans::Report },
        }
    }

    pub(crate) fn partial(mut self, reason: &str) -> Scene {
        self.observation.completeness = Completeness::Partial(reason.into());
        self
    }

    pub(crate) fn orphans(mut self, orphans: Orphans) -> Scene {
        self.policy.orphans = orphans;
        self
    }

    pub(crate) fn plan(&self) -> ChangeSet {
        let key = key();
        plan(&Input {
            environment: self.capabilities.deployer,
            cluster: CLUSTER,
            capabilities: self.capabilities,
            desired: &self.desired,
            observation: &self.observation,
            policy: self.policy,
            key: &key,
            now: now(),
        })
    }
}
