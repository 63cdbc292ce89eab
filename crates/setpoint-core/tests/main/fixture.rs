//! Short words for machines, guests and scenes.

use jiff::Timestamp;
use setpoint_api::step::Target;
use setpoint_core::desired::{Create, Desired};
use setpoint_core::digest::Key;
use setpoint_core::observation::{Completeness, Config, Guest, Mark, Observation, Reading};
use setpoint_core::plan::{ChangeSet, Input, Orphans, Policy, plan};
use setpoint_core::registry::Capabilities;
use setpoint_core::value::{Fields, Value};
pub(crate) use setpoint_testkit::deployers::{GIB, GPU, MIB, RACK};

pub(crate) const CLUSTER: &str = "cluster-1";

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
        name: owner.target.name.as_str().into(),
        config: Config::known(fields),
        run: Reading::Known("running".into()),
        ..Guest::new(id, Some(Mark::new(CLUSTER, &owner.uid, Some("intent-1"))))
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
    machine.record.secrets = machine.secrets();
    machine
}

/// An environment to plan for.
pub(crate) struct Scene {
    pub(crate) environment: &'static str,
    pub(crate) capabilities: &'static Capabilities,
    pub(crate) desired: Vec<Desired>,
    pub(crate) observation: Observation,
    pub(crate) policy: Policy,
}

impl Scene {
    pub(crate) fn new(capabilities: &'static Capabilities, desired: Vec<Desired>, guests: Vec<Guest>) -> Scene {
        Scene {
            environment: capabilities.deployer,
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
            environment: self.environment,
            cluster: CLUSTER,
            capabilities: self.capabilities,
            desired: &self.desired,
            observation: &self.observation,
            policy: self.policy,
            key: &key,
        })
    }
}

/// The machine that most rows are about, of which nothing is on record.
pub(crate) fn web() -> Desired {
    Desired { fields: small(), ..machine("web") }
}

pub(crate) fn known_web() -> Desired {
    recorded(web(), "101")
}

pub(crate) fn web_guest() -> Guest {
    guest("101", &web(), small())
}

pub(crate) fn wants(fields: Fields) -> Desired {
    Desired { fields, ..known_web() }
}

pub(crate) fn runs(word: &str) -> Guest {
    Guest { run: Reading::Known(word.into()), ..web_guest() }
}

pub(crate) fn pinned(id: &str) -> Desired {
    Desired { provider_id: Some(id.into()), ..web() }
}

pub(crate) fn marked(guest: Guest, change: impl FnOnce(&mut Mark)) -> Guest {
    let mut mark = guest.mark.clone().expect("a guest of ours");
    change(&mut mark);
    Guest { mark: Some(mark), ..guest }
}

pub(crate) fn scene(desired: Vec<Desired>, guests: Vec<Guest>) -> Scene {
    Scene::new(&RACK, desired, guests)
}

/// A change set in a few words: a line for each object, then what waits on what, then what is refused.
pub(crate) fn brief(change_set: &ChangeSet) -> Vec<String> {
    let waiting =
        change_set.waiting.iter().map(|waiting| format!("{}: waits on {:?}", waiting.target.name, waiting.on));
    let refused =
        change_set.refused.iter().map(|refusal| format!("{}: refused {}", refusal.target.name, refusal.field));
    change_set.lines().into_iter().chain(waiting).chain(refused).collect()
}

pub(crate) fn limited(change: impl FnOnce(&mut Capabilities)) -> &'static Capabilities {
    let mut capabilities = RACK.clone();
    change(&mut capabilities);
    Box::leak(Box::new(capabilities))
}

pub(crate) fn check(rows: Vec<(&str, Scene, &[&str])>) {
    for (name, scene, expected) in rows {
        assert_eq!(brief(&scene.plan()), expected, "{name}");
    }
}
