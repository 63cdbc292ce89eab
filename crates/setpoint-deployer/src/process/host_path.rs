//! Folders and files of the machine that a Pod mounts: what `hostPath.type` says of them is checked, or made.

use std::fs::{self, FileType, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use k8s_openapi::api::core::v1::PodSpec;

use crate::error::{Result, SpecError};

/// Checks the paths of a Pod's `hostPath` volumes, as it is made.
pub(super) fn check(spec: &PodSpec) -> Result<()> {
    for volume in spec.volumes.iter().flatten() {
        let Some(source) = &volume.host_path else { continue };
        let kind = source.type_.as_deref().unwrap_or_default();
        check_path(Path::new(&source.path), kind).map_err(|message| SpecError::Mount {
            volume: volume.name.clone(),
            message: format!("hostPath type check failed: {message} (hostPath.type is {kind})"),
        })?;
    }
    Ok(())
}

fn check_path(path: &Path, kind: &str) -> std::result::Result<(), String> {
    let shown = path.display();
    let (is_of, what): (fn(&FileType) -> bool, &str) = match kind {
        "" => return Ok(()),
        "Directory" | "DirectoryOrCreate" => (FileType::is_dir, "a directory"),
        "File" | "FileOrCreate" => (FileType::is_file, "a file"),
        "Socket" => (FileType::is_socket, "a socket file"),
        "CharDevice" => (FileType::is_char_device, "a character device"),
        "BlockDevice" => (FileType::is_block_device, "a block device"),
        _ => return Err(format!("{shown}: the type is not known")),
    };
    let made = match kind {
        "DirectoryOrCreate" => make_folder(path),
        "FileOrCreate" => make_file(path),
        _ => Ok(()),
    };
    match made {
        // What is there already is looked at below.
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(format!("{shown} cannot be made: {error}"));
        }
        _ => {}
    }
    match fs::metadata(path) {
        Ok(found) if is_of(&found.file_type()) => Ok(()),
        Ok(_) => Err(format!("{shown} is not {what}")),
        Err(error) => Err(format!("{shown} is not {what}: {error}")),
    }
}

/// A folder, and those it lies in as far as they are missing, that every user may list and pass through, whatever the umask.
fn make_folder(path: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = path.ancestors().take_while(|folder| fs::metadata(folder).is_err()).collect();
    for folder in missing.into_iter().rev() {
        match fs::create_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made.and_then(|()| open_to_all(folder))?,
        }
    }
    Ok(())
}

/// Users who may write where it lies could put another folder in its place, or a link, which is not followed.
fn open_to_all(folder: &Path) -> io::Result<()> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::DIRECTORY;
    let made = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(folder)?;
    made.set_permissions(Permissions::from_mode(0o755))
}

/// A file that every user may read, whatever the umask.
fn make_file(path: &Path) -> io::Result<()> {
    let made = OpenOptions::new().write(true).create_new(true).mode(0o644).open(path)?;
    made.set_permissions(Permissions::from_mode(0o644))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_path_is_what_its_type_says_or_is_made_so() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        fs::create_dir(at("folder")).unwrap();
        fs::write(at("file"), "kept").unwrap();
        let _socket = UnixListener::bind(at("socket")).unwrap();
        std::os::unix::fs::symlink("folder", at("link")).unwrap();
        let rows = [
            ("nothing", "", true),
            ("folder", "Directory", true),
            ("link", "Directory", true),
            ("file", "Directory", false),
            ("nothing", "Directory", false),
            ("new/inner", "DirectoryOrCreate", true),
            ("folder", "DirectoryOrCreate", true),
            ("file", "DirectoryOrCreate", false),
            ("file", "File", true),
            ("folder", "File", false),
            ("nothing", "File", false),
            ("new-file", "FileOrCreate", true),
            ("file", "FileOrCreate", true),
            ("folder", "FileOrCreate", false),
            ("none/new-file", "FileOrCreate", false),
            ("socket", "Socket", true),
            ("file", "Socket", false),
            ("/dev/null", "CharDevice", true),
            ("file", "CharDevice", false),
            ("/dev/null", "BlockDevice", false),
            ("file", "Disk", false),
        ];
        for (name, kind, fits) in rows {
            let path = place.path().join(name);
            let found = check_path(&path, kind);
            assert_eq!(found.is_ok(), fits, "{name} as {kind}: {found:?}");
            if let Err(message) = found {
                assert!(message.contains(&path.display().to_string()), "{message}");
            }
        }
        assert_eq!(fs::read_to_string(at("file")).unwrap(), "kept");
        assert!(at("new/inner").is_dir() && at("new-file").is_file() && !at("nothing").exists());
    }
}
