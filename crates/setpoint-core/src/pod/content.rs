//! What a Pod's containers are given: variables and the content of volumes. Both may hold secrets and show them to nobody.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// The variables of a container, in the order in which they are set. Their values may come from Secrets and are shown to
/// nobody.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variables(pub Vec<(String, String)>);

/// What a volume holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Volume {
    /// An empty folder that lives as long as the Pod.
    Empty,
    /// A folder of the machine.
    Host { path: String },
    /// Files by their path in the volume.
    Files(BTreeMap<String, VolumeFile>),
}

/// A file of a volume. Its content may come from a Secret and is shown to nobody.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeFile {
    pub content: Vec<u8>,
    /// Who may read it, as `chmod` takes it.
    pub mode: u32,
}

impl Variables {
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

impl fmt::Debug for VolumeFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VolumeFile({} bytes, {:o})", self.content.len(), self.mode)
    }
}
