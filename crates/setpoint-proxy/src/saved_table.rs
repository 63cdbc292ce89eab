//! The last table on disk, so that a proxy serves when it starts while the control plane is down.
//!
//! It holds TLS keys: its folder and itself are for their owner alone.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::table::TableSpec;

/// A table that was read, and how long ago it was written.
#[derive(Clone, Debug, PartialEq)]
pub struct SavedTable {
    pub spec: TableSpec,
    pub age: Duration,
}

#[derive(Debug, thiserror::Error)]
pub enum SavedTableError {
    #[error("the saved table {} cannot be used", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("the saved table {} is not a table of this version", path.display())]
    Malformed { path: PathBuf, source: serde_json::Error },
    #[error("the saved table {} can be read by others than its owner: chmod 0600", path.display())]
    Exposed { path: PathBuf },
}

/// Writes the table; either the whole of it is there afterwards or the one before.
pub fn save(path: &Path, spec: &TableSpec) -> Result<(), SavedTableError> {
    write(path, spec).map_err(|source| SavedTableError::Io { path: path.to_owned(), source })
}

fn write(path: &Path, spec: &TableSpec) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let next = path.with_extension("next");
    match fs::remove_file(&next) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&next)?;
    file.write_all(&serde_json::to_vec(spec)?)?;
    file.sync_all()?;
    fs::rename(&next, path)?;
    File::open(folder)?.sync_all()
}

/// Reads the last table; none if there never was one.
pub fn load(path: &Path) -> Result<Option<SavedTable>, SavedTableError> {
    let failed = |source| SavedTableError::Io { path: path.to_owned(), source };
    let text = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read.map_err(failed)?,
    };
    let metadata = fs::metadata(path).map_err(failed)?;
    if metadata.permissions().mode() & 0o077 != 0 {
        return Err(SavedTableError::Exposed { path: path.to_owned() });
    }
    let spec =
        serde_json::from_slice(&text).map_err(|source| SavedTableError::Malformed { path: path.to_owned(), source })?;
    let written = metadata.modified().map_err(failed)?;
    Ok(Some(SavedTable { spec, age: SystemTime::now().duration_since(written).unwrap_or_default() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_for_its_owner_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("proxy/table.json");
        assert_eq!(load(&path).expect("nothing is wrong"), None);
        for version in 1..3 {
            let spec = TableSpec { version, ..TableSpec::default() };
            save(&path, &spec).expect("it is written");
            let saved = load(&path).expect("it is read").expect("it is there");
            assert_eq!(saved.spec, spec);
            assert!(saved.age < Duration::from_secs(60));
        }
        let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().expect("a folder"))), (0o600, 0o700));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("it is ours");
        assert!(matches!(load(&path), Err(SavedTableError::Exposed { .. })));
    }

    #[test]
    fn what_is_no_table_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("table.json");
        save(&path, &TableSpec::default()).expect("it is written");
        fs::write(&path, "{\"version\":").expect("it is written");
        let error = load(&path).expect_err("it is cut off").to_string();
        assert!(error.contains("is not a table"), "{error}");
    }
}
