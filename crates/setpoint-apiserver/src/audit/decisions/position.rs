//! Up to which commit of which control plane the log is written, as it was last noted.

use std::io::{self, ErrorKind};
use std::path::Path;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use setpoint_store::Revision;

const FILE: &str = "position.json";

/// A place in the order of commits. What was committed after it may be in the log as well.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Position {
    /// The uid of the namespace kube-system: the revisions of another control plane mean nothing here.
    pub(super) cluster: String,
    pub(super) revision: Revision,
    pub(super) time: Timestamp,
}

impl Position {
    /// What was noted last; `None` where nothing was, or what was cannot be read.
    pub(super) fn read(folder: &Path) -> io::Result<Option<Position>> {
        match std::fs::read(folder.join(FILE)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            text => Ok(serde_json::from_slice(&text?).ok()),
        }
    }

    pub(super) fn write(&self, folder: &Path) -> io::Result<()> {
        let text = serde_json::to_vec(self).expect("writing to memory cannot fail");
        setpoint_store::write_private(&folder.join(FILE), &text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_read_as_it_was_noted() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(Position::read(folder.path()).expect("no error"), None);
        let position = Position { cluster: "c".into(), revision: 7, time: Timestamp::constant(1, 0) };
        position.write(folder.path()).expect("room");
        assert_eq!(Position::read(folder.path()).expect("no error"), Some(position));
        std::fs::write(folder.path().join(FILE), "{").expect("room");
        assert_eq!(Position::read(folder.path()).expect("no error"), None, "what is damaged is as good as none");
    }
}
