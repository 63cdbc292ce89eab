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

/// No order is longer: it holds a Pod of at most 3 MiB, as the API takes it, and its variables.
pub(super) const MAX_BYTES: u64 = 16 << 20;

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

/// Writes the order of an instance into its new folder.
pub(super) fn write(folder: &Path, order: &InstanceOrder, key: &SealKey) -> io::Result<()> {
    write_to(&folder.join(ORDER), order, key)
}

/// Seals the variables that a former version left in plain. Who runs the instance has read them already.
pub(super) fn seal_variables(folder: &Path, key: &SealKey) -> io::Result<()> {
    let Some(Written { order, sealed_variables: None }) = read_written(folder)? else { return Ok(()) };
    let aside = folder.join(format!("{ORDER}.next"));
    match fs::remove_file(&aside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => write_to(&aside, &order, key)?,
    }
    fs::rename(aside, folder.join(ORDER))
}

fn write_to(path: &Path, order: &InstanceOrder, key: &SealKey) -> io::Result<()> {
    let sealed = key.seal(&order.id, &serde_json::to_vec(&order.pod.variables)?)?;
    let mut order = order.clone();
    order.pod.variables = BTreeMap::new();
    let written = Written { order, sealed_variables: Some(sealed) };
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(&serde_json::to_vec(&written)?)?;
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
    file.take(MAX_BYTES).read_to_end(&mut text)?;
    let damage = |error: serde_json::Error| {
        let place = format!("{ORDER} is damaged at line {} column {}", error.line(), error.column());
        io::Error::new(io::ErrorKind::InvalidData, place)
    };
    serde_json::from_slice(&text).map(Some).map_err(damage)
}
