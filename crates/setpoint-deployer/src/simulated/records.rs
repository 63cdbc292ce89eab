//! The records of a place that outlives the process: a file for each instance, and one for what the place has to remember.
//!
//! A file is replaced as a whole, and before whoever asked for the change is answered. So a process that is killed at any
//! instant leaves a place in which each request was done or was not. Revisions and splits of the platform are not kept.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use setpoint_core::value::{Fields, Value};

use super::blueprint::{Body, PodPlan};
use super::cloud::Cloud;
use super::fields;
use super::instance::{Instance, Ownership, Power};

const MEMORY: &str = "place.json";

/// Where the records of a place are.
#[derive(Debug)]
pub(super) struct Records {
    folder: PathBuf,
    memory: Memory,
}

/// What a place remembers beside its instances.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Memory {
    pub(super) tag: u16,
    /// The last number that was given: none is given twice.
    pub(super) last: u64,
    /// The guests of the config that were put there.
    pub(super) planted: BTreeSet<String>,
}

/// An instance as it is written.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    id: Option<Box<str>>,
    name: Box<str>,
    mark: Option<KeptMark>,
    machine: Option<serde_json::Map<String, Json>>,
    pod: Option<Box<PodPlan>>,
    pending: serde_json::Map<String, Json>,
    power: Power,
    is_unfinished: bool,
    busy_until: Timestamp,
    shows_from: Timestamp,
    holds_data: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct KeptMark {
    cluster: Box<str>,
    owner: Box<str>,
    intent: Option<Box<str>>,
    spec_digest: Option<Box<str>>,
}

impl Records {
    /// The records in a folder, and the place that they tell of; `tag` is that of a new place.
    pub(super) fn open(folder: &Path, tag: u16) -> io::Result<(Records, Cloud)> {
        fs::create_dir_all(folder)?;
        let memory = match fs::read(folder.join(MEMORY)) {
            Ok(bytes) => serde_json::from_slice(&bytes)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Memory { tag, ..Memory::default() },
            Err(error) => return Err(error),
        };
        let mut cloud = Cloud::new(memory.tag);
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let stem = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse().ok());
            let (Some(serial), Some("json")) = (stem, path.extension().and_then(|end| end.to_str())) else { continue };
            let kept: Kept = serde_json::from_slice(&fs::read(&path)?)?;
            kept.put_back(serial, &mut cloud);
        }
        cloud.resume_after(memory.last);
        Ok((Records { folder: folder.to_owned(), memory }, cloud))
    }

    pub(super) fn planted(&self) -> &BTreeSet<String> {
        &self.memory.planted
    }

    /// Writes down what became of instances since it was last told.
    pub(super) fn keep(&mut self, cloud: &Cloud, planted: &BTreeSet<String>) -> io::Result<()> {
        let touched: BTreeSet<u64> = cloud.touched().iter().copied().collect();
        let memory = Memory { tag: cloud.tag(), last: cloud.last(), planted: planted.clone() };
        // First the number, then what has it: it must never be given again.
        if memory != self.memory {
            self.write(MEMORY, &memory)?;
            self.memory = memory;
        }
        for serial in touched {
            let name = format!("{serial}.json");
            match cloud.get(serial) {
                Some(instance) => self.write(&name, &Kept::of(cloud.given_id(serial), instance))?,
                None => match fs::remove_file(self.folder.join(name)) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                },
            }
        }
        Ok(())
    }

    fn write(&self, name: &str, content: &impl Serialize) -> io::Result<()> {
        let unfinished = self.folder.join(format!("{name}.new"));
        fs::write(&unfinished, serde_json::to_vec(content)?)?;
        fs::rename(unfinished, self.folder.join(name))
    }
}

impl Kept {
    fn of(id: Option<&str>, instance: &Instance) -> Kept {
        let (machine, pod) = match &instance.body {
            Body::Machine(fields) => (Some(written(fields)), None),
            Body::Pod(plan) => (None, Some(plan.clone())),
        };
        Kept {
            id: id.map(Into::into),
            name: instance.name.clone(),
            mark: instance.mark.as_ref().map(|mark| KeptMark {
                cluster: (*mark.cluster).into(),
                owner: (*mark.owner).into(),
                intent: mark.intent.as_deref().map(Into::into),
                spec_digest: mark.spec_digest.clone(),
            }),
            machine,
            pod,
            pending: written(&instance.pending),
            power: instance.power,
            is_unfinished: instance.is_unfinished,
            busy_until: instance.busy_until,
            shows_from: instance.shows_from,
            holds_data: instance.holds_data,
        }
    }

    fn put_back(self, serial: u64, cloud: &mut Cloud) {
        let mark = self.mark.map(|mark| Ownership {
            cluster: (*mark.cluster).into(),
            owner: (*mark.owner).into(),
            intent: mark.intent.as_deref().map(Into::into),
            spec_digest: mark.spec_digest,
        });
        let body = match self.pod {
            Some(plan) => Body::Pod(plan),
            None => Body::Machine(read(self.machine.unwrap_or_default())),
        };
        cloud.put_back(
            serial,
            Instance {
                name: self.name,
                mark,
                body,
                pending: read(self.pending),
                power: self.power,
                is_unfinished: self.is_unfinished,
                busy_until: self.busy_until,
                shows_from: self.shows_from,
                holds_data: self.holds_data,
            },
        );
        if let Some(id) = self.id {
            cloud.name(serial, &id);
        }
    }
}

fn written(fields: &Fields) -> serde_json::Map<String, Json> {
    fields.iter().map(|(name, value)| (name.to_owned(), to_json(value))).collect()
}

fn read(fields: serde_json::Map<String, Json>) -> Fields {
    let known = fields.into_iter().filter_map(|(name, value)| Some((fields::field(&name)?.name, from_json(value)?)));
    known.collect()
}

/// A secret is a text like any other once the place has it.
fn to_json(value: &Value) -> Json {
    match value {
        Value::Bool(value) => Json::from(*value),
        Value::Integer(value) => Json::from(*value),
        Value::Text(text) => Json::from(text.as_str()),
        Value::Secret(text) => Json::from(&**text),
        Value::List(items) => items.iter().map(to_json).collect(),
        Value::Map(entries) => entries.iter().map(|(name, value)| (name.to_owned(), to_json(value))).collect(),
    }
}

fn from_json(json: Json) -> Option<Value> {
    Some(match json {
        Json::Bool(value) => Value::Bool(value),
        Json::Number(number) => Value::Integer(number.as_i64()?),
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(items) => Value::List(items.into_iter().filter_map(from_json).collect()),
        Json::Object(members) => {
            let entries = members.into_iter().filter_map(|(name, value)| Some((name, from_json(value)?)));
            Value::Map(entries.collect())
        }
        Json::Null => return None,
    })
}
