//! Changes of files and folders that are there in whole or not at all, also after a loss of power.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};

const ROOT: u32 = 0;

/// Writes a file that only its owner may read; who that is, [`keep_owner`] says. A reader sees the old content or the new.
pub fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    write_with(path, content, |file| keep_owner(file, path))
}

/// Writes a file that only who writes it may read, whoever's folder it lies in.
pub fn write_own(path: &Path, content: &[u8]) -> io::Result<()> {
    write_with(path, content, |_| Ok(()))
}

fn write_with(path: &Path, content: &[u8], give: impl FnOnce(&File) -> io::Result<()>) -> io::Result<()> {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".new");
    let aside = PathBuf::from(aside);
    // One that was left behind may be open to more than its owner.
    absent(fs::remove_file(&aside))?;
    let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&aside)?;
    give(&file)?;
    file.write_all(content)?;
    file.sync_all()?;
    rename(&aside, path)
}

/// Gives a new file, or a new folder, at a path to the owner of what it replaces. Where it replaces nothing and root made
/// it, it belongs to the owner of the folder that it lies in: a command that root runs leaves nothing behind that the user
/// whose folder it is cannot read.
pub fn keep_owner(made: &File, path: &Path) -> io::Result<()> {
    let own = made.metadata()?;
    let is_other = |found: &fs::Metadata| (found.dev(), found.ino()) != (own.dev(), own.ino());
    let owner = match fs::metadata(path).ok().filter(is_other) {
        Some(replaced) => replaced,
        None if own.uid() == ROOT => fs::metadata(folder_of(path))?,
        None => return Ok(()),
    };
    match owner.uid() == own.uid() {
        true => Ok(()),
        false => fchown(made, Some(owner.uid()), Some(owner.gid())),
    }
}

/// Makes a folder, and those it lies in as far as they are missing, for its owner alone. Who that is, [`keep_owner`] says.
pub fn make_folder(path: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = path.ancestors().take_while(|folder| !is_there(folder)).collect();
    for folder in missing.into_iter().rev() {
        match fs::DirBuilder::new().mode(0o700).create(folder) {
            // Somebody else has just made it.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made.and_then(|()| keep_owner(&File::open(folder)?, folder))?,
        }
    }
    Ok(())
}

fn is_there(folder: &Path) -> bool {
    folder.as_os_str().is_empty() || fs::metadata(folder).is_ok()
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::chown;

    use super::*;

    const SERVICE: u32 = 61_004;

    #[test]
    fn what_root_makes_in_the_folder_of_a_user_belongs_to_that_user() {
        let temporary = tempfile::tempdir().expect("a folder");
        let folder = temporary.path();
        if chown(folder, Some(SERVICE), Some(SERVICE)).is_err() {
            assert!(std::env::var_os("SETPOINT_TESTS_WITHOUT_ROOT").is_some(), "only root can give a folder away");
            return;
        }
        write(&folder.join("new"), b"a").expect("room");
        make_folder(&folder.join("outer/inner")).expect("room");
        let begun = File::create(folder.join("outer/inner/begun")).expect("room");
        keep_owner(&begun, &folder.join("outer/inner/begun")).expect("it is root's");
        chown(folder.join("new"), Some(SERVICE + 1), None).expect("it is root's");
        write(&folder.join("new"), b"b").expect("room");
        let rows = [
            ("a file that is replaced", "new", SERVICE + 1),
            ("a folder", "outer", SERVICE),
            ("a folder in it", "outer/inner", SERVICE),
            ("a file that is begun", "outer/inner/begun", SERVICE),
        ];
        for (row, name, owner) in rows {
            assert_eq!(fs::metadata(folder.join(name)).expect("it is there").uid(), owner, "{row}");
        }
    }
}
