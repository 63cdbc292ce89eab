//! The records of a place that outlives the process: a file for each instance, and one for what the place has to remember.
//!
//! A file is replaced as a whole, and before whoever asked for the change is answered. So a process that is killed at any
//! instant leaves a place in which each request was done or was not. Revisions and splits of the platform are not kept.
//! Only their owner can read the files, and what may come from a Secret lies in them sealed.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use setpoint_core::value::{Fields, Value};

use super::blueprint::{Body, PodPlan};
use super::cloud::Cloud;
use super::fields;
use super::instance::{Instance, Ownership, Power};
use crate::seal::SealKey;

const MEMORY: &str = "place.json";
/// The key that values are sealed with.
const KEY: &str = ".key";
/// What stands for a sealed value.
const SEALED: &str = "sealed";

/// Where the records of a place are.
#[derive(Debug)]
pub(super) struct Records {
    folder: PathBuf,
    key: SealKey,
    memory: Memory,
}

/// What records tell of.
struct Told {
    cloud: Cloud,
    memory: Memory,
    /// The instances of which something lies in plain that is to be sealed.
    plain: Vec<u64>,
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
    /// The records in a folder, and the place that they tell of; `tag` is that of a new place. What a former version left
    /// in plain is sealed.
    pub(super) fn open(folder: &Path, tag: u16) -> io::Result<(Records, Cloud)> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        make_private(folder)?;
        let key = SealKey::open_or_make(&folder.join(KEY))?;
        let Told { cloud, memory, plain } = read_all(folder, tag, Some(&key))?;
        let records = Records { folder: folder.to_owned(), key, memory };
        plain.iter().try_for_each(|serial| records.keep_one(*serial, &cloud))?;
        Ok((records, cloud))
    }

    /// The place that the records in a folder tell of, and what was planted there. Nothing is written.
    pub(super) fn read(folder: &Path, tag: u16) -> io::Result<(Cloud, BTreeSet<String>)> {
        let key = match SealKey::open(&folder.join(KEY)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            opened => Some(opened?),
        };
        let Told { cloud, memory, .. } = read_all(folder, tag, key.as_ref())?;
        Ok((cloud, memory.planted))
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
            self.keep_one(serial, cloud)?;
        }
        Ok(())
    }

    fn keep_one(&self, serial: u64, cloud: &Cloud) -> io::Result<()> {
        let name = file_of(serial);
        let Some(instance) = cloud.get(serial) else {
            return match fs::remove_file(self.folder.join(name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            };
        };
        let mut kept = serde_json::to_value(Kept::of(cloud.given_id(serial), instance))?;
        for part in secret_parts(&mut kept).into_iter().filter(|part| !part.is_null()) {
            *part = json!({ SEALED: self.key.seal(&name, part.to_string().as_bytes())? });
        }
        self.write(&name, &kept)
    }

    fn write(&self, name: &str, content: &impl Serialize) -> io::Result<()> {
        let unfinished = self.folder.join(format!("{name}.new"));
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
        file.write_all(&serde_json::to_vec(content)?)?;
        fs::rename(unfinished, self.folder.join(name))
    }
}

fn file_of(serial: u64) -> String {
    format!("{serial}.json")
}

/// Takes what a former version left open from all but its owner.
fn make_private(folder: &Path) -> io::Result<()> {
    fs::set_permissions(folder, Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        if metadata.is_file() && metadata.permissions().mode() & 0o077 != 0 {
            fs::set_permissions(entry.path(), Permissions::from_mode(0o600))?;
        }
    }
    Ok(())
}

fn read_all(folder: &Path, tag: u16, key: Option<&SealKey>) -> io::Result<Told> {
    let memory = match fs::read(folder.join(MEMORY)) {
        Ok(bytes) => serde_json::from_slice(&bytes)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Memory { tag, ..Memory::default() },
        Err(error) => return Err(error),
    };
    let (mut cloud, mut plain) = (Cloud::new(memory.tag), Vec::new());
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        entries => Some(entries?),
    };
    for entry in entries.into_iter().flatten() {
        let path = entry?.path();
        let stem = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse().ok());
        let (Some(serial), Some("json")) = (stem, path.extension().and_then(|end| end.to_str())) else { continue };
        let mut kept: Json = serde_json::from_slice(&fs::read(&path)?)?;
        for part in secret_parts(&mut kept).into_iter().filter(|part| !part.is_null()) {
            match part.get(SEALED).and_then(Json::as_str) {
                Some(sealed) => *part = unsealed(&file_of(serial), sealed, key)?,
                None => plain.push(serial),
            }
        }
        serde_json::from_value::<Kept>(kept)?.put_back(serial, &mut cloud);
    }
    plain.dedup();
    cloud.resume_after(memory.last);
    Ok(Told { cloud, memory, plain })
}

fn unsealed(name: &str, sealed: &str, key: Option<&SealKey>) -> io::Result<Json> {
    let text = key.and_then(|key| key.unseal(name, sealed));
    let lost =
        || io::Error::new(io::ErrorKind::InvalidData, format!("{KEY} is not the key that {name} is sealed with"));
    Ok(serde_json::from_slice(&text.ok_or_else(lost)?)?)
}

/// The values of a record that may come from a Secret.
fn secret_parts(kept: &mut Json) -> Vec<&mut Json> {
    let Some(kept) = kept.as_object_mut() else { return Vec::new() };
    let mut parts = Vec::new();
    for (name, part) in kept.iter_mut() {
        match (name.as_str(), part) {
            ("machine" | "pending", Json::Object(fields)) => {
                let may_be_secret = |name: &str| fields::field(name).is_some_and(|field| field.may_be_secret);
                parts.extend(fields.iter_mut().filter(|(name, _)| may_be_secret(name)).map(|(_, value)| value));
            }
            ("pod", Json::Object(pod)) => {
                let containers = pod.get_mut("containers").and_then(Json::as_array_mut);
                parts.extend(containers.into_iter().flatten().filter_map(|container| container.get_mut("says")));
            }
            _ => {}
        }
    }
    parts
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

/// A secret is a text like any other once the place has it; its field is sealed as a whole.
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

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "correct-horse";

    fn texts(folder: &Path) -> String {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        entries.map(|path| String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned()).collect()
    }

    fn modes(folder: &Path) -> BTreeSet<u32> {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().metadata().unwrap());
        entries.map(|metadata| metadata.permissions().mode() & 0o777).collect()
    }

    /// A record as former versions wrote it.
    fn plain_record() -> Json {
        let power = Power::On { asked: Timestamp::UNIX_EPOCH, runs_from: Timestamp::UNIX_EPOCH };
        json!({
            "id": null, "name": "web", "mark": null, "pod": null, "pending": {"args": [SECRET]},
            "machine": {"cores": 2, "env": {"TOKEN": SECRET}}, "power": power, "is_unfinished": false,
            "busy_until": "2026-01-01T00:00:00Z", "shows_from": "2026-01-01T00:00:00Z", "holds_data": false,
        })
    }

    #[test]
    fn what_may_come_from_a_secret_is_sealed_also_where_it_was_in_plain() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("7.json"), plain_record().to_string()).unwrap();
        fs::set_permissions(folder.path().join("7.json"), Permissions::from_mode(0o644)).unwrap();
        let (read, _) = Records::read(folder.path(), 1).unwrap();
        assert!(texts(folder.path()).contains(SECRET), "a look writes nothing");
        let (_, opened) = Records::open(folder.path(), 1).unwrap();
        let (_, again) = Records::open(folder.path(), 1).unwrap();
        let text = texts(folder.path());
        assert!(!text.contains(SECRET) && text.contains("\"cores\":2"), "{text}");
        assert_eq!(modes(folder.path()), [0o600].into());
        for cloud in [&read, &opened, &again] {
            let instance = cloud.get(7).unwrap();
            let Body::Machine(fields) = &instance.body else { unreachable!() };
            let expected = Value::Map([("TOKEN".to_owned(), Value::from(SECRET))].into_iter().collect());
            assert_eq!(fields.get("env"), Some(&expected));
            assert_eq!(instance.pending.get("args"), Some(&Value::from(vec![SECRET])));
        }
        fs::remove_file(folder.path().join(KEY)).unwrap();
        assert!(Records::open(folder.path(), 1).is_err(), "without its key nothing is made up");
    }
}
