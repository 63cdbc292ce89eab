//! What lies in an instance's folder besides its order: how a shim and the control plane tell each other things.
//!
//! Every file is replaced as a whole, so whoever reads sees the old one or the new one. None is forced to the disk: what
//! they tell of does not survive a loss of power either.

use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use setpoint_core::pod::PodState;

use super::beneath;
use super::cgroup::Cgroup;
use super::process_table::Identity;

pub const ORDER: &str = "order.json";
pub const SHIM: &str = "shim.json";
pub const STATE: &str = "state.json";
pub const STOP: &str = "stop.json";
pub const LOCK: &str = "lock";
pub const ATTACH: &str = "attach";

/// The most bytes that a file of an instance may have: no more is ever read.
const MAX_BYTES: u64 = 16 << 20;

/// What a shim says of its instance: the whole truth, at every change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StateRecord {
    pub state: PodState,
    /// The processes that containers run as now.
    #[serde(default)]
    pub processes: Vec<ContainerProcess>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerProcess {
    pub container: String,
    #[serde(flatten)]
    pub identity: Identity,
    /// What limits it and counts what it uses, where the machine has that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<Cgroup>,
}

/// That an instance is to stop: what the control plane wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StopRecord {
    pub deadline: Timestamp,
    pub requested_at: Timestamp,
}

/// Reads a file of an instance; nothing if it is not there.
pub fn read<T: DeserializeOwned>(folder: &Path, name: &str) -> io::Result<Option<T>> {
    let file = match beneath::open(&folder.join(name), 1) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("{name} has more than {MAX_BYTES} bytes")));
    }
    serde_json::from_slice(&bytes).map(Some).map_err(io::Error::from)
}

/// Replaces a file of an instance.
pub fn write<T: Serialize>(folder: &Path, name: &str, value: &T) -> io::Result<()> {
    replace(folder, name, &serde_json::to_vec(value)?)
}

pub(super) fn replace(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let next = folder.join(format!("{name}.next"));
    beneath::create(&next, 1, 0o600)?.write_all(bytes)?;
    fs::rename(&next, folder.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_replaced_as_a_whole() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read::<StopRecord>(folder.path(), STOP).unwrap(), None);
        let at = Timestamp::UNIX_EPOCH;
        let stop = StopRecord { deadline: at, requested_at: at };
        write(folder.path(), STOP, &stop).unwrap();
        assert_eq!(read(folder.path(), STOP).unwrap(), Some(stop));
        fs::write(folder.path().join(STOP), "{").unwrap();
        assert!(read::<StopRecord>(folder.path(), STOP).is_err());
    }
}
