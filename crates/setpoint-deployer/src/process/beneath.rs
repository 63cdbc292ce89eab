//! Opens files in folders that a Pod may be able to write to, so that nothing in there leads elsewhere or holds us up.
//!
//! A Pod can put a link, a FIFO or a device where we expect a file. No link is followed from a folder of ours on, and
//! nothing but a regular file is opened.

use std::ffi::OsStr;
use std::fs::{File, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, openat, unlinkat};
use rustix::io::Errno;

/// What every file is opened with. Without `NONBLOCK`, to open a FIFO would wait for its other end.
const CAREFUL: OFlags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// Opens a regular file for reading. The last `untrusted` names of its path may be a Pod's work.
pub(super) fn open(path: &Path, untrusted: usize) -> io::Result<File> {
    let (folder, name) = folder_of(path, untrusted)?;
    regular(openat(&folder, name, OFlags::RDONLY | CAREFUL, Mode::empty())?)
}

/// Opens a regular file to add to it; it is made, for its owner alone, if it is not there.
pub(super) fn append(path: &Path, untrusted: usize) -> io::Result<File> {
    let (folder, name) = folder_of(path, untrusted)?;
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | CAREFUL;
    regular(openat(&folder, name, flags, Mode::RUSR | Mode::WUSR)?)
}

/// Makes a new, empty file with this mode in the place of whatever is there.
pub(super) fn create(path: &Path, untrusted: usize, mode: u32) -> io::Result<File> {
    let (folder, name) = folder_of(path, untrusted)?;
    match unlinkat(&folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | CAREFUL;
    let file = File::from(openat(&folder, name, flags, Mode::RUSR | Mode::WUSR)?);
    file.set_permissions(Permissions::from_mode(mode))?;
    Ok(file)
}

/// A handle on what is of this type and nothing else, with which it can only be named: through `/proc/self/fd`.
pub(super) fn handle(path: &Path, untrusted: usize, wanted: FileType) -> io::Result<OwnedFd> {
    let (folder, name) = folder_of(path, untrusted)?;
    let found = openat(&folder, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    if FileType::from_raw_mode(fstat(&found)?.st_mode) != wanted {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("it is no {}", shown(wanted))));
    }
    Ok(found)
}

/// The folder of a file, and its name there.
fn folder_of(path: &Path, untrusted: usize) -> io::Result<(OwnedFd, &OsStr)> {
    let no_file = || io::Error::new(io::ErrorKind::InvalidInput, "this is not the path of a file");
    let ours = path.ancestors().nth(untrusted).ok_or_else(no_file)?;
    let ours = if ours.as_os_str().is_empty() { Path::new(".") } else { ours };
    let mut names = Vec::new();
    for component in path.components().rev().take(untrusted) {
        let Component::Normal(name) = component else { return Err(no_file()) };
        names.push(name);
    }
    let name = *names.first().ok_or_else(no_file)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut folder = rustix::fs::open(ours, flags, Mode::empty())?;
    for inner in names[1..].iter().rev() {
        folder = openat(&folder, *inner, flags | OFlags::NOFOLLOW, Mode::empty())?;
    }
    Ok((folder, name))
}

fn regular(opened: OwnedFd) -> io::Result<File> {
    let file = File::from(opened);
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"))
}

fn shown(wanted: FileType) -> &'static str {
    match wanted {
        FileType::Socket => "socket",
        FileType::Fifo => "FIFO",
        _ => "file of the expected type",
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{Read, Write};
    use std::os::unix::fs::symlink;

    use super::*;

    /// A folder of ours with one that a Pod can write to, and a secret outside of both.
    fn place() -> tempfile::TempDir {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir_all(place.path().join("ours/pods")).unwrap();
        fs::write(place.path().join("ours/pods/file"), "said").unwrap();
        fs::write(place.path().join("secret"), "secret").unwrap();
        fs::create_dir(place.path().join("elsewhere")).unwrap();
        fs::write(place.path().join("elsewhere/file"), "secret").unwrap();
        place
    }

    #[test]
    fn only_regular_files_that_are_where_they_seem_are_read() {
        let place = place();
        let pods = place.path().join("ours/pods");
        symlink("../../secret", pods.join("link")).unwrap();
        symlink("file", pods.join("link-to-file")).unwrap();
        symlink("../../elsewhere", pods.join("folder-link")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, pods.join("fifo"), Mode::RUSR | Mode::WUSR).unwrap();
        fs::create_dir(pods.join("folder")).unwrap();
        fs::hard_link(pods.join("file"), pods.join("folder/file")).unwrap();
        let rows = [
            ("a file", "file", 1, Some("said")),
            ("a file in a folder", "folder/file", 2, Some("said")),
            ("a link to a secret", "link", 1, None),
            ("a link to a file beside it", "link-to-file", 1, None),
            ("a file behind a link", "folder-link/file", 2, None),
            ("a file behind a link of ours", "folder-link/file", 1, Some("secret")),
            ("a FIFO, which nobody waits for", "fifo", 1, None),
            ("a folder", "folder", 1, None),
            ("nothing", "none", 1, None),
            ("a path that climbs", "../secret", 2, None),
        ];
        for (what, path, untrusted, expected) in rows {
            let read = open(&pods.join(path), untrusted).map(|mut file| {
                let mut text = String::new();
                file.read_to_string(&mut text).unwrap();
                text
            });
            assert_eq!(read.ok().as_deref(), expected, "{what}");
        }
        for path in ["link", "fifo", "folder", "folder-link/none"] {
            assert!(append(&pods.join(path), 2).is_err(), "{path}");
        }
        let handle = |name: &str, wanted| handle(&pods.join(name), 1, wanted).is_ok();
        assert!(handle("fifo", FileType::Fifo) && !handle("fifo", FileType::Socket) && !handle("link", FileType::Fifo));
    }

    #[test]
    fn what_is_in_the_place_of_a_new_file_is_replaced_and_not_written_through() {
        let place = place();
        let file = place.path().join("ours/pods/new");
        symlink("../../secret", &file).unwrap();
        create(&file, 2, 0o666).unwrap().write_all(b"mine").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o666);
        assert_eq!(fs::read_to_string(place.path().join("secret")).unwrap(), "secret");
        append(&file, 1).unwrap().write_all(b" too").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "mine too");
    }
}
