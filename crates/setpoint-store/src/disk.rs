//! Changes of files and folders that are there in whole or not at all, also after a loss of power.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};

/// Writes a file that only its owner may read, and whose owner stays the same. A reader sees the old content or the new.
pub fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".new");
    let aside = PathBuf::from(aside);
    // One that was left behind may be open to more than its owner.
    absent(fs::remove_file(&aside))?;
    let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&aside)?;
    if let Ok(replaced) = fs::metadata(path)
        && replaced.uid() != file.metadata()?.uid()
    {
        fchown(&file, Some(replaced.uid()), Some(replaced.gid()))?;
    }
    file.write_all(content)?;
    file.sync_all()?;
    rename(&aside, path)
}

/// Takes everything in a folder, and the folder itself, from all but its owner. Links are not followed.
pub fn make_private(folder: &Path) -> io::Result<()> {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        close_to_others(&folder)?;
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() {
                // The owner of the folder may be removing what it no longer needs.
                absent(close_to_others(&entry.path()))?;
            }
        }
    }
    Ok(())
}

/// Takes a file or a folder from all but its owner.
pub fn close_to_others(path: &Path) -> io::Result<()> {
    let mode = fs::metadata(path)?.permissions().mode() & 0o7777;
    match mode & 0o077 {
        0 => Ok(()),
        _ => fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o700)),
    }
}

/// Renames a file or folder within its folder.
pub(crate) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)?;
    sync(folder_of(to))
}

/// Removes a folder and all that is in it; it need not be there.
pub(crate) fn remove_folder(path: &Path) -> io::Result<()> {
    absent(fs::remove_dir_all(path))?;
    sync(folder_of(path))
}

/// Makes what was made, renamed and removed in a folder last.
pub(crate) fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// The folder that a path lies in.
pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn absent(removed: io::Result<()>) -> io::Result<()> {
    removed.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
}
