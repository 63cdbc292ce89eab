//! The files of a volume, which change all at once: a reader sees all of the old ones or all of the new.
//!
//! As on Kubernetes, the files lie in a folder with a name of its own, `..data` points to the present one, and each entry
//! of the volume points through it. To change them is to write a new folder and to turn one link.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::Path;

use super::inspection::RESERVED_PREFIX;
use super::ownership::Users;
use crate::provider::VolumeFile;

const PRESENT: &str = "..data";
const NEXT_LINK: &str = "..data_tmp";

/// Makes the files of a volume exactly these, for those who use it. The volume's folders are not theirs, so that none of
/// them can have us write elsewhere.
pub(super) fn write_files(volume: &Path, files: &BTreeMap<String, VolumeFile>, users: &Users) -> io::Result<()> {
    let present = fs::read_link(volume.join(PRESENT)).ok();
    if present.is_some() && are_present(volume, files, users) {
        return Ok(());
    }
    let number = |path: &Path| path.to_str()?.strip_prefix(RESERVED_PREFIX)?.parse::<u64>().ok();
    let next = present.as_deref().and_then(number).map_or(0, |number| number + 1);
    let name = format!("{RESERVED_PREFIX}{next}");
    let folder = volume.join(&name);
    remove_if_there(&folder)?;
    make_folder(&folder, users)?;
    for (path, file) in files {
        write_file(&folder, path, file, users)?;
    }
    let next_link = volume.join(NEXT_LINK);
    match fs::remove_file(&next_link) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => symlink(&name, &next_link)?,
    }
    fs::rename(&next_link, volume.join(PRESENT))?;
    turn_entries(volume, files)?;
    match present {
        Some(old) if old != Path::new(&name) => remove_if_there(&volume.join(old)),
        _ => Ok(()),
    }
}

/// Whether the files are already what they should be.
fn are_present(volume: &Path, files: &BTreeMap<String, VolumeFile>, users: &Users) -> bool {
    let is_present = |(path, file): (&String, &VolumeFile)| {
        let place = volume.join(PRESENT).join(path);
        users.file(file.mode).is_of(&place) && fs::read(&place).is_ok_and(|content| content == file.content)
    };
    let wanted: BTreeSet<&str> = files.keys().map(|path| top(path)).collect();
    let Ok(entries) = entries(volume) else { return false };
    entries.iter().map(String::as_str).eq(wanted) && files.iter().all(is_present)
}

fn write_file(folder: &Path, path: &str, file: &VolumeFile, users: &Users) -> io::Result<()> {
    let place = folder.join(path);
    let parents: Vec<&Path> = Path::new(path).ancestors().skip(1).filter(|path| !path.as_os_str().is_empty()).collect();
    for parent in parents.into_iter().rev() {
        if !folder.join(parent).is_dir() {
            make_folder(&folder.join(parent), users)?;
        }
    }
    let mut written = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&place)?;
    written.write_all(&file.content)?;
    users.file(file.mode).apply(&place)
}

/// One link for each entry of the volume; those whose files are gone are removed.
fn turn_entries(volume: &Path, files: &BTreeMap<String, VolumeFile>) -> io::Result<()> {
    let wanted: BTreeSet<&str> = files.keys().map(|path| top(path)).collect();
    let there = entries(volume)?;
    for name in &wanted {
        if !there.contains(*name) {
            symlink(Path::new(PRESENT).join(name), volume.join(name))?;
        }
    }
    for name in there.iter().filter(|name| !wanted.contains(name.as_str())) {
        fs::remove_file(volume.join(name))?;
    }
    Ok(())
}

/// What a reader of the volume sees in it.
fn entries(volume: &Path) -> io::Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(volume)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if !name.starts_with(RESERVED_PREFIX) {
            names.insert(name);
        }
    }
    Ok(names)
}

fn top(path: &str) -> &str {
    path.split_once('/').map_or(path, |(top, _)| top)
}

/// A folder that the users of the volume may list, whatever the umask.
fn make_folder(folder: &Path, users: &Users) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(folder)?;
    users.passage(true).apply(folder)
}

/// Removes a folder with all that is in it, also where somebody has made folders that nothing may be removed from.
pub(super) fn remove_if_there(folder: &Path) -> io::Result<()> {
    let removed = match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_up(folder);
            fs::remove_dir_all(folder)
        }
        result => result,
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// Lets us do everything in a folder and all below it. What is not ours stays as it is: the removal tells of it.
fn open_up(folder: &Path) {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let _ = fs::set_permissions(&folder, Permissions::from_mode(0o700));
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        // Links are not followed: what they lead to is not ours to open.
        let inner = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        folders.extend(inner.map(|entry| entry.path()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(content: &[(&str, &str, u32)]) -> BTreeMap<String, VolumeFile> {
        let file = |content: &str, mode| VolumeFile { content: content.as_bytes().to_vec(), mode };
        content.iter().map(|(path, content, mode)| ((*path).to_owned(), file(content, *mode))).collect()
    }

    fn read(volume: &Path) -> Vec<(String, String, u32)> {
        let mut found = Vec::new();
        let mut folders = vec![volume.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                let name = path.strip_prefix(volume).unwrap().to_string_lossy().into_owned();
                if name.starts_with(RESERVED_PREFIX) {
                    continue;
                }
                match fs::metadata(&path).unwrap() {
                    there if there.is_dir() => folders.push(path),
                    there => {
                        let mode = there.permissions().mode() & 0o777;
                        found.push((name, fs::read_to_string(&path).unwrap(), mode));
                    }
                }
            }
        }
        found.sort();
        found
    }

    #[test]
    fn the_files_are_what_was_written_last() {
        let volume = tempfile::tempdir().unwrap();
        let steps = [
            files(&[("a", "1", 0o600), ("deep/er/b", "2", 0o600)]),
            files(&[("a", "1", 0o600), ("deep/er/b", "2", 0o600)]),
            files(&[("a", "changed", 0o400), ("c", "3", 0o500)]),
            files(&[]),
            files(&[("deep", "a file now", 0o600)]),
        ];
        for step in steps {
            write_files(volume.path(), &step, &Users::default()).unwrap();
            let text = |file: &VolumeFile| String::from_utf8(file.content.clone()).unwrap();
            let expected: Vec<_> = step.iter().map(|(path, file)| (path.clone(), text(file), file.mode)).collect();
            assert_eq!(read(volume.path()), expected);
            let kept = fs::read_dir(volume.path()).unwrap().filter(|entry| {
                let name = entry.as_ref().unwrap().file_name().to_string_lossy().into_owned();
                name.starts_with(RESERVED_PREFIX) && name != PRESENT
            });
            assert_eq!(kept.count(), 1, "old files are removed");
        }
    }

    #[test]
    fn what_was_closed_to_us_is_removed_too() {
        let place = tempfile::tempdir().unwrap();
        let outside = place.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::set_permissions(&outside, Permissions::from_mode(0o500)).unwrap();
        let folder = place.path().join("folder");
        let inner = folder.join("module/cache");
        fs::create_dir_all(&inner).unwrap();
        fs::write(inner.join("file"), "x").unwrap();
        symlink(&outside, folder.join("link")).unwrap();
        for closed in [&inner, &folder.join("module"), &folder] {
            fs::set_permissions(closed, Permissions::from_mode(0o500)).unwrap();
        }
        open_up(&folder);
        for opened in [&inner, &folder.join("module"), &folder] {
            assert_eq!(fs::metadata(opened).unwrap().permissions().mode() & 0o777, 0o700);
        }
        fs::set_permissions(&inner, Permissions::from_mode(0o500)).unwrap();
        remove_if_there(&folder).unwrap();
        remove_if_there(&folder).unwrap();
        assert!(!folder.exists());
        assert_eq!(fs::metadata(&outside).unwrap().permissions().mode() & 0o777, 0o500, "what a link leads to");
    }

    #[test]
    fn a_write_that_was_cut_off_is_finished_by_the_next() {
        let volume = tempfile::tempdir().unwrap();
        write_files(volume.path(), &files(&[("a", "1", 0o600)]), &Users::default()).unwrap();
        fs::create_dir(volume.path().join("..1")).unwrap();
        fs::write(volume.path().join("..1/half"), "x").unwrap();
        symlink("..1", volume.path().join(NEXT_LINK)).unwrap();
        write_files(volume.path(), &files(&[("b", "2", 0o600)]), &Users::default()).unwrap();
        assert_eq!(read(volume.path()), [("b".to_owned(), "2".to_owned(), 0o600)]);
    }
}
