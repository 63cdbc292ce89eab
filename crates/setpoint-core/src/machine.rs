//! What a Machine desires, as the planner reads it; what goes on record of its guest; and what its status says.
//!
//! | module | what it decides |
//! | --- | --- |
//! | `departure` | what is held while its Environment is being deleted |
//! | `lifetime` | how long it may have a guest |
//! | `record` | which calls are settled by a look, which are begun |
//! | `sight` | which guest is a Machine's, and what of it is shown |
//! | `standing` | why the spec is not carried out, in one word and one sentence |
//! | `status` | the status after a look |
//! | `news` | whether a look at everything shows something that the status does not say |
//!
//! Amounts become whole numbers of base units, variables are replaced, and what comes from a Secret stays secret. A
//! field that is not set is left out, and so is not managed.

mod departure;
mod lifetime;
mod news;
mod record;
mod sight;
mod standing;
mod status;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use setpoint_api::field::Path;
use setpoint_api::interpolation::{Source, Text};
use setpoint_api::machine::{Machine, MachineStatus, Volume, muted_fields};
use setpoint_api::protection::is_protected;
use setpoint_api::quantity::Quantity;
use setpoint_api::step::{Refusal, Target};

pub use self::departure::hold_arrivals;
pub use self::lifetime::expires_at;
pub use self::news::is_news;
pub use self::record::{Settlement, begin, is_released, settle, strike_off};
pub use self::sight::{Seen, observed};
pub use self::standing::{Held, HeldBy, Standing, concerns_people, reason};
pub use self::status::{DRIFTED, READY, SYNCED, condition, is_settled, next_status, stood, unseen, wanted};
use crate::desired::{Desired, Intent, Record};
use crate::value::{Fields, Map, Value};

/// The kind of a target that is a Machine.
pub const KIND: &str = "Machine";
const SPEC: Path<'static> = Path::of("spec");

/// What a Machine desires, or everything that keeps it from being read. `sources` are the Secrets and ConfigMaps that it
/// names.
pub fn desire(machine: &Machine, sources: &[Source]) -> Result<Desired, Vec<Refusal>> {
    let metadata = &machine.metadata;
    let own = target(metadata);
    let mut reading = Reading { fields: Fields::default(), problems: Vec::new() };
    // What a guest that goes was to be like does not matter any more, and what it was made from may be gone.
    if metadata.deletion_timestamp.is_none() {
        reading.read(machine, sources);
    }
    let annotations = metadata.annotations.clone().unwrap_or_default();
    let muted = muted_fields(&annotations).unwrap_or_else(|errors| {
        let path = "metadata.annotations[setpoint.dev/mute-drift]";
        reading.problems.extend(errors.into_iter().map(|error| (path.to_owned(), error.to_string())));
        Default::default()
    });
    if !reading.problems.is_empty() {
        let refused = reading.problems.into_iter();
        return Err(refused.map(|(field, message)| Refusal { target: own.clone(), field, message }).collect());
    }
    let spec = &machine.spec;
    Ok(Desired {
        provider_id: spec.provider_id.as_deref().map(Into::into),
        fields: reading.fields,
        run: spec.run.filter(|_| !muted.contains("run")),
        create: spec.create,
        depends_on: spec.depends_on.iter().map(|name| Target { name: name.clone(), ..own.clone() }).collect(),
        protected: is_protected(metadata),
        deletion: metadata.deletion_timestamp.as_ref().map(|_| spec.deletion_policy),
        muted: muted.iter().map(|field| field.as_str().into()).collect(),
        record: machine.status.as_ref().map(record).unwrap_or_default(),
        ..Desired::new(own, metadata.uid.as_deref().unwrap_or_default())
    })
}

/// How a Machine is named in steps.
pub fn target(metadata: &ObjectMeta) -> Target {
    Target {
        namespace: metadata.namespace.clone().unwrap_or_default(),
        name: metadata.name.clone().unwrap_or_default(),
        kind: KIND.to_owned(),
    }
}

fn record(status: &MachineStatus) -> Record {
    Record {
        provider_id: status.provider_id.as_deref().map(Into::into),
        spec_digest: status.spec_digest.as_deref().map(Into::into),
        observed_at: status.observed_at,
        secrets: status.secret_fields.iter().map(|path| path.as_str().into()).collect(),
        intents: status
            .intents
            .iter()
            .map(|intent| Intent {
                id: intent.id.as_str().into(),
                action: intent.action,
                provider_id: intent.provider_id.as_deref().map(Into::into),
                started_at: intent.started_at,
                approved: intent.change_set.is_some(),
            })
            .collect(),
    }
}

struct Reading {
    fields: Fields,
    /// A field's path, and what is wrong there.
    problems: Vec<(String, String)>,
}

impl Reading {
    fn read(&mut self, machine: &Machine, sources: &[Source]) {
        let spec = &machine.spec;
        self.set("cores", spec.cores.map(i64::from));
        self.set("description", spec.description.as_deref());
        self.set("gpu.count", spec.gpu.as_ref().map(|gpu| i64::from(gpu.count)));
        self.set("gpu.type", spec.gpu.as_ref().and_then(|gpu| gpu.type_.as_deref()));
        self.set("image", spec.image.as_deref());
        self.amount("memory", &SPEC.field("memory"), spec.memory.as_deref());
        self.amount("disk", &SPEC.field("disk"), spec.disk.as_deref());
        let vram = spec.gpu.as_ref().and_then(|gpu| gpu.min_vram.as_deref());
        self.amount("gpu.minVram", &SPEC.field("gpu").field("minVram"), vram);
        let ports = spec.ports.as_ref().map(|ports| ports.iter().map(|port| Value::from(&*port.to_string())).collect());
        self.set("ports", ports.map(Value::List));
        let volumes = spec.volumes.as_ref().map(|volumes| self.volumes(volumes));
        self.set("volumes", volumes.map(Value::Map));
        if !spec.parameters.is_empty() {
            let parameters = spec.parameters.iter().map(|(name, value)| (&**name, &**value));
            self.set("parameters", Some(Value::Map(parameters.collect())));
        }
        match spec.resolve(machine.metadata.namespace.as_deref().unwrap_or_default(), sources) {
            Ok(resolved) => {
                self.set("command", resolved.command.map(|words| Value::List(words.iter().map(text).collect())));
                self.set("args", resolved.args.map(|words| Value::List(words.iter().map(text).collect())));
                let env = resolved.env.map(|env| env.iter().map(|(name, value)| (&**name, text(value))).collect());
                self.set("env", env.map(Value::Map));
            }
            Err(errors) => {
                self.problems.extend(errors.into_iter().map(|error| (error.field, error.problem.to_string())));
            }
        }
    }

    fn set(&mut self, name: &'static str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.fields.set(name, value);
        }
    }

    fn amount(&mut self, name: &'static str, path: &Path<'_>, text: Option<&str>) {
        let amount = text.and_then(|text| self.bytes(path, text));
        self.set(name, amount);
    }

    fn bytes(&mut self, path: &Path<'_>, text: &str) -> Option<i64> {
        match Quantity::parse(text) {
            Ok(quantity) => Some(quantity.value()),
            Err(error) => {
                self.problems.push((path.to_string(), error.to_string()));
                None
            }
        }
    }

    fn volumes(&mut self, volumes: &[Volume]) -> Map {
        let path = SPEC.field("volumes");
        let mut all = Map::default();
        for (index, volume) in volumes.iter().enumerate() {
            let mut entry = Map::default();
            let size = volume.size.as_deref().and_then(|size| self.bytes(&path.index(index).field("size"), size));
            let texts = [("mountPath", &volume.mount_path), ("providerId", &volume.provider_id)];
            for (name, text) in texts.into_iter().filter_map(|(name, text)| Some((name, text.as_deref()?))) {
                entry.set(name, text);
            }
            if let Some(size) = size {
                entry.set("size", size);
            }
            all.set(&*volume.name, Value::Map(entry));
        }
        all
    }
}

fn text(text: &Text) -> Value {
    if text.is_sensitive() { Value::secret(text.reveal()) } else { text.reveal().into() }
}
