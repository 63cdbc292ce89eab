//! The file in which a container leaves why it ended.
//!
//! It lies beside the container's root. Where `terminationMessagePath` says, below the root, a link leads to it, as a
//! mount does; it is read from its own place, whatever has become of the link.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Container;

use super::beneath;
use super::inspection::mount_place;

const DEFAULT_PATH: &str = "/dev/termination-log";

/// The longest message.
const MAX_BYTES: u64 = 4096;

/// How many names of the file's path, from its end, a Pod may be able to change.
const UNTRUSTED: usize = 3;

/// Where it lies in the folder of an instance.
pub(super) fn file(folder: &Path, container: &str) -> PathBuf {
    folder.join("containers").join(container).join("termination-log")
}

/// Begins it anew for a run. Whoever the container runs as may write it.
pub(super) fn begin(folder: &Path, container: &str) -> io::Result<File> {
    beneath::create(&file(folder, container), UNTRUSTED, 0o666)
}

/// What a container has left to be told. What is no regular file any more says nothing.
pub(super) fn read(folder: &Path, container: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Ok(file) = beneath::open(&file(folder, container), UNTRUSTED) {
        // What cannot be read was not said.
        let _ = file.take(MAX_BYTES).read_to_end(&mut bytes);
    }
    bytes
}

/// Where `terminationMessagePath` leads to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Placement<'c> {
    /// To a link at this place below the container's root, name by name.
    Linked(Vec<&'c str>),
    /// Nowhere: nobody chose the path, and a mount lies over it.
    Hidden,
    /// Into a volume, which may not be the container's own, or over one.
    Mounted,
    /// It is no path of a file.
    Invalid,
}

pub(super) fn placement(container: &Container) -> Placement<'_> {
    let path = container.termination_message_path.as_deref().filter(|path| !path.is_empty()).unwrap_or(DEFAULT_PATH);
    let Some(place) = mount_place(path) else { return Placement::Invalid };
    let mut mounts = container.volume_mounts.iter().flatten().filter_map(|mount| mount_place(&mount.mount_path));
    match mounts.any(|mount| mount.starts_with(&place) || place.starts_with(&mount)) {
        true if path == DEFAULT_PATH => Placement::Hidden,
        true => Placement::Mounted,
        false => Placement::Linked(place),
    }
}

/// Puts the link into a new container's root, before anything has run in it.
pub(super) fn link(root: &Path, container: &Container) -> io::Result<()> {
    let Placement::Linked(place) = placement(container) else { return Ok(()) };
    let Some((name, parents)) = place.split_last() else { return Ok(()) };
    let folder: PathBuf = parents.iter().fold(root.to_owned(), |folder, parent| folder.join(parent));
    fs::create_dir_all(&folder)?;
    let up: PathBuf = parents.iter().map(|_| "..").chain([".."]).collect();
    symlink(up.join("termination-log"), folder.join(name))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::VolumeMount;

    use super::*;

    #[test]
    fn what_is_written_through_the_link_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("containers/web/root");
        fs::create_dir_all(&root).unwrap();
        for path in [None, Some("/why"), Some("a/deep//file")] {
            let container = Container { termination_message_path: path.map(str::to_owned), ..Container::default() };
            link(&root, &container).unwrap();
            assert!(matches!(placement(&container), Placement::Linked(_)));
            begin(folder.path(), "web").unwrap();
            assert_eq!(read(folder.path(), "web"), b"");
            let place = root.join(path.unwrap_or("/dev/termination-log").trim_start_matches('/'));
            fs::write(place, "because").unwrap();
            assert_eq!(read(folder.path(), "web"), b"because", "{path:?}");
        }
    }

    #[test]
    fn a_path_in_a_volume_is_not_ours_to_link() {
        let placed = |path: Option<&str>, mount: &str| {
            let mount = VolumeMount { mount_path: mount.to_owned(), ..VolumeMount::default() };
            let container = Container {
                termination_message_path: path.map(str::to_owned),
                volume_mounts: Some(vec![mount]),
                ..Container::default()
            };
            match placement(&container) {
                Placement::Linked(place) => place.join(" "),
                other => format!("{other:?}"),
            }
        };
        let rows = [
            (None, "/data", "dev termination-log"),
            (None, "/dev", "Hidden"),
            (None, "/dev/shm", "dev termination-log"),
            (Some("/dev/termination-log"), "/dev", "Hidden"),
            (Some("/tmp/why"), "/data", "tmp why"),
            (Some("/data/why"), "/data", "Mounted"),
            (Some("/data"), "/data/inner", "Mounted"),
            (Some("/data/../../order.json"), "/data", "Invalid"),
            (Some("/"), "/data", "Invalid"),
        ];
        for (path, mount, expected) in rows {
            assert_eq!(placed(path, mount), expected, "{path:?} with a mount at {mount}");
        }
    }
}
