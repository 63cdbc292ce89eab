//! Whose the files of the store and of places are, where root works in the data directory of a user: the user's, as everything
//! else there but what Pods have.
//!
//! That user may change what lies there while root looks at it. So root follows no links, goes from each open folder to the
//! next, and gives away no file that has another name elsewhere.

use std::io;
use std::path::Path;

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, Stat, fchown, fstat, openat};
use rustix::process::{Gid, Uid};

const ROOT: u32 = 0;

/// Gives all that root made in a folder of a data directory to the owner of the directory.
pub(super) fn give(data: &Path, name: &str) -> io::Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let data = openat(CWD, data, FOLDER, Mode::empty())?;
    let owner = fstat(&data)?;
    if owner.st_uid == ROOT {
        return Ok(());
    }
    match open(&data, name.as_ref())? {
        Some(folder) => give_folder(folder, &owner),
        None => Ok(()),
    }
}

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// A folder or a file in a folder; `None` if it is gone, or neither.
fn open(folder: &OwnedFd, name: &Path) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    match openat(folder, name, flags, Mode::empty()) {
        Ok(opened) => Ok(Some(opened)),
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::LOOP | rustix::io::Errno::NXIO) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn give_folder(folder: OwnedFd, owner: &Stat) -> io::Result<()> {
    let mut folders = vec![folder];
    while let Some(folder) = folders.pop() {
        if open(&folder, "order.json".as_ref())?.is_some() {
            // A Pod's, whose deployer says to whom each part belongs.
            continue;
        }
        give_one(&folder, owner)?;
        for entry in Dir::read_from(&folder)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            let name = Path::new(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(name));
            let Some(opened) = open(&folder, name)? else { continue };
            let found = fstat(&opened)?;
            match FileType::from_raw_mode(found.st_mode) {
                FileType::Directory => folders.push(opened),
                FileType::RegularFile if found.st_nlink == 1 => give_one(&opened, owner)?,
                _ => {}
            }
        }
    }
    Ok(())
}

fn give_one(made: impl AsFd, owner: &Stat) -> io::Result<()> {
    if fstat(&made)?.st_uid != ROOT {
        return Ok(());
    }
    Ok(fchown(made, Some(Uid::from_raw(owner.st_uid)), Some(Gid::from_raw(owner.st_gid)))?)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, chown, symlink};

    use super::*;

    const SERVICE: u32 = 61_004;

    #[test]
    fn what_root_made_in_the_store_of_a_user_becomes_that_users_and_nothing_else_does() {
        let temporary = tempfile::tempdir().expect("a folder");
        let data = temporary.path().join("data");
        fs::create_dir_all(data.join("store/engine")).expect("room");
        fs::create_dir(data.join("store/pod")).expect("room");
        let made = [
            "data/store/engine/1",
            "data/store/format",
            "data/store/pod/order.json",
            "data/notes",
            "outside",
            "named-twice",
        ];
        for name in made {
            fs::write(temporary.path().join(name), "").expect("room");
        }
        symlink("../../outside", data.join("store/link")).expect("room");
        fs::hard_link(temporary.path().join("named-twice"), data.join("store/twice")).expect("room");
        if chown(&data, Some(SERVICE), Some(SERVICE)).is_err() {
            assert!(std::env::var_os("SETPOINT_TESTS_WITHOUT_ROOT").is_some(), "only root can give a folder away");
            return;
        }
        give(&data, "store").expect("it is root's");
        give(&data, "nothing").expect("absence is no error");
        let rows = [
            ("data/store", SERVICE),
            ("data/store/engine", SERVICE),
            ("data/store/engine/1", SERVICE),
            ("data/store/format", SERVICE),
            ("data/store/pod", ROOT),
            ("data/store/pod/order.json", ROOT),
            ("data/notes", ROOT),
            ("outside", ROOT),
            ("named-twice", ROOT),
        ];
        for (name, owner) in rows {
            assert_eq!(fs::metadata(temporary.path().join(name)).expect("it is there").uid(), owner, "{name}");
        }
    }
}
