//! The file of an order. Variables may come from Secrets, so they lie in it sealed, under a key of the state folder.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::beneath;
use super::order::InstanceOrder;
use super::record::ORDER;
use crate::seal::SealKey;

/// The key, in the state folder.
const KEY: &str = ".key";

/// No file of an order is longer: it holds a Pod of at most 3 MiB, as the API takes it, and its variables.
pub(super) const MAX_BYTES: usize = 16 << 20;

/// An order as it is written. One of a former version has its variables in plain.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    #[serde(flatten)]
    order: InstanceOrder,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sealed_variables: Option<String>,
}

/// Where the key of a state folder is.
pub(super) fn key_of(state_folder: &Path) -> PathBuf {
    state_folder.join(KEY)
}

/// An order as it is written: its variables are sealed. `None` if it could not be read again.
pub(super) fn sealed(order: &InstanceOrder, key: &SealKey) -> io::Result<Option<Vec<u8>>> {
    let variables = serde_json::to_vec(&order.pod.variables)?;
    // Base64 has four bytes for three.
    if variables.len() > MAX_BYTES / 4 * 3 {
        return Ok(None);
    }
    let sealed = key.seal(&order.id, &variables)?;
    let mut order = order.clone();
    order.pod.variables = BTreeMap::new();
    let written = serde_json::to_vec(&Written { order, sealed_variables: Some(sealed) })?;
    Ok((written.len() <= MAX_BYTES).then_some(written))
}

/// Writes a sealed order into the new folder of its instance.
pub(super) fn write(folder: &Path, sealed: &[u8]) -> io::Result<()> {
    write_to(&folder.join(ORDER), sealed)
}

/// Seals the variables that a former version left in plain. Who runs the instance has read them already.
pub(super) fn seal_variables(folder: &Path, key: &SealKey) -> io::Result<()> {
    let Some(Written { order, sealed_variables: None }) = read_written(folder)? else { return Ok(()) };
    let Some(sealed) = sealed(&order, key)? else {
        let message = format!("sealed, {ORDER} would have more than the {MAX_BYTES} bytes that are read");
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    };
    let aside = folder.join(format!("{ORDER}.next"));
    match fs::remove_file(&aside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => write_to(&aside, &sealed)?,
    }
    fs::rename(aside, folder.join(ORDER))
}

fn write_to(path: &Path, sealed: &[u8]) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(sealed)?;
    file.sync_all()
}

/// What an instance was made from, without its variables; `None` if the folder is nobody's. An error tells where it is
/// damaged, not what is there.
pub(super) fn read(folder: &Path) -> io::Result<Option<InstanceOrder>> {
    Ok(read_written(folder)?.map(|written| written.order))
}

/// What an instance was made from.
pub(super) fn read_with_variables(folder: &Path) -> io::Result<Option<InstanceOrder>> {
    let Some(Written { mut order, sealed_variables }) = read_written(folder)? else { return Ok(None) };
    if let Some(sealed) = sealed_variables {
        let key = SealKey::open(&folder.join("..").join(KEY)).map_err(|error| {
            io::Error::new(error.kind(), format!("the key of its variables, {KEY} in the state folder: {error}"))
        })?;
        let variables = key.unseal(&order.id, &sealed).and_then(|text| serde_json::from_slice(&text).ok());
        let foreign = || io::Error::new(io::ErrorKind::InvalidData, format!("{KEY} is not the key of its variables"));
        order.pod.variables = variables.ok_or_else(foreign)?;
    }
    Ok(Some(order))
}

fn read_written(folder: &Path) -> io::Result<Option<Written>> {
    let file = match beneath::open(&folder.join(ORDER), 1) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        opened => opened?,
    };
    let mut text = Vec::new();
    file.take(MAX_BYTES as u64).read_to_end(&mut text)?;
    let damage = |error: serde_json::Error| {
        let place = format!("{ORDER} is damaged at line {} column {}", error.line(), error.column());
        io::Error::new(io::ErrorKind::InvalidData, place)
    };
    serde_json::from_slice(&text).map(Some).map_err(damage)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;

    /// An order of which one variable has this value.
    fn order(value: &str) -> InstanceOrder {
        serde_json::from_value(json!({
            "id": "an-id", "mark": {"cluster": "c", "ownerUid": "u"}, "name": "pod", "createdAt": Timestamp::UNIX_EPOCH,
            "pod": {
                "namespace": "default", "name": "pod", "uid": "u", "spec": {"containers": [{"name": "web"}]},
                "variables": {"web": [["A", value]]}, "volumes": {},
            },
            "logLimits": {"maxFileBytes": 1, "maxFiles": 1},
        }))
        .expect("an order")
    }

    #[test]
    fn variables_in_plain_are_sealed_unless_they_could_not_be_read_again() {
        let rows = [
            ("a few", "x".repeat(100), true),
            ("as many as a Pod may have", "x".repeat(8 << 20), true),
            ("characters that take six bytes each", "\u{1}".repeat(2_300_000), false),
        ];
        for (row, value, is_sealed) in rows {
            let state = tempfile::tempdir().expect("a folder");
            let key = SealKey::open_or_make(&key_of(state.path())).expect("a key");
            let folder = state.path().join("an-id");
            fs::create_dir(&folder).expect("room");
            let plain = serde_json::to_vec(&order(&value)).expect("JSON");
            assert!(plain.len() < MAX_BYTES, "{row}: a former version could read it");
            fs::write(folder.join(ORDER), plain).expect("room");
            assert_eq!(seal_variables(&folder, &key).is_ok(), is_sealed, "{row}");
            assert_eq!(
                read_written(&folder).expect("readable").expect("an order").sealed_variables.is_some(),
                is_sealed
            );
            let read = read_with_variables(&folder).expect("readable").expect("an order");
            assert!(read.pod.variables == order(&value).pod.variables, "{row}");
        }
    }
}
