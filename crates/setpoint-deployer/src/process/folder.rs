//! The folder of an instance: how it is laid out, how it comes to be, and how it goes.
//!
//! It is built aside and then renamed, and renamed again before it is removed: whoever looks sees all of it or nothing.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Container;
use serde::Serialize;

use super::files::{remove_if_there, write_files};
use super::inspection::mount_place;
use super::order::{InstanceOrder, container_root};
use super::record::{LOCK, ORDER};
use super::termination_log;
use crate::provider::{PodOrder, Volume};

/// What a folder is called while it is built, and while it is removed.
const NEW: &str = ".new-";
const GONE: &str = ".gone-";

/// No order is longer: it holds a Pod of at most 3 MiB, as the API takes it, and its variables.
pub(super) const MAX_ORDER_BYTES: u64 = 16 << 20;

/// Builds the folder of an instance beside its place, then puts it there. `false` if there was one already.
pub(super) fn create(root: &Path, order: &InstanceOrder, pod: &PodOrder) -> io::Result<bool> {
    let place = root.join(&order.id);
    if place.exists() {
        return Ok(false);
    }
    let aside = root.join(format!("{NEW}{}", order.id));
    remove_if_there(&aside)?;
    Layout::of(order).build(&aside, order, pod)?;
    sync(&aside)?;
    fs::rename(&aside, &place)?;
    sync(root)?;
    Ok(true)
}

/// Takes an instance away: from here on it is not there any more, whatever happens next. Returns what is left to be
/// removed, if it was there. Nobody else may be taking it away.
pub(super) fn put_away(root: &Path, id: &str) -> io::Result<Option<PathBuf>> {
    // One that could not be removed may still have the name.
    let mut names = (0_u64..).map(|number| root.join(format!("{GONE}{id}-{number}")));
    let gone = names.find(|gone| gone.symlink_metadata().is_err()).expect("numbers do not end");
    match fs::rename(root.join(id), &gone) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        renamed => renamed.map(|()| Some(gone)),
    }
}

/// Removes what was put away. What cannot be removed now is tried again when the state folder is opened next.
pub(super) fn remove(gone: &Path) {
    if let Err(error) = remove_if_there(gone) {
        tracing::warn!(%error, folder = %gone.display(), "what is left of an instance cannot be removed");
    }
}

/// Removes what a crash left half built or half removed. Nobody may be building meanwhile.
pub(super) fn sweep(root: &Path) -> io::Result<()> {
    for entry in fs::read_dir(root)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(NEW) || name.starts_with(GONE) {
            remove(&entry.path());
        }
    }
    Ok(())
}

/// Whether a name in the state folder can be that of an instance.
pub(super) fn is_id(name: &str) -> bool {
    !name.is_empty() && name.len() <= 128 && !name.starts_with('.') && !name.contains(['/', '\0'])
}

/// Makes the files of the Pod's volumes what the order says.
pub(super) fn update_volumes(folder: &Path, pod: &PodOrder) -> io::Result<()> {
    let group = group_of(pod);
    for (name, volume) in &pod.volumes {
        if let Volume::Files(files) = volume {
            write_files(&folder.join("volumes").join(name), files, group)?;
        }
    }
    Ok(())
}

/// Removes what containers wrote in an earlier life: in a new one their runs are counted anew.
pub(super) fn clear_logs(folder: &Path) -> io::Result<()> {
    for container in fs::read_dir(folder.join("logs"))? {
        for file in fs::read_dir(container?.path())? {
            fs::remove_file(file?.path())?;
        }
    }
    Ok(())
}

/// What an instance was made from; `None` if the folder is nobody's. An error tells where it is damaged, not what is there.
pub(super) fn read_order(folder: &Path) -> io::Result<Option<InstanceOrder>> {
    let file = match File::open(folder.join(ORDER)) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        opened => opened?,
    };
    let mut text = Vec::new();
    file.take(MAX_ORDER_BYTES).read_to_end(&mut text)?;
    let damage = |error: serde_json::Error| {
        let place = format!("{ORDER} is damaged at line {} column {}", error.line(), error.column());
        io::Error::new(io::ErrorKind::InvalidData, place)
    };
    serde_json::from_slice(&text).map(Some).map_err(damage)
}

/// How a folder is laid out for those who run in it.
struct Layout {
    /// Whether others than ourselves have to find their way in it.
    is_shared: bool,
    group: Option<u32>,
}

impl Layout {
    fn of(order: &InstanceOrder) -> Layout {
        let ourselves = i64::from(rustix::process::geteuid().as_raw());
        let is_other = |container: &Container| order.run_as_user(container).is_some_and(|user| user != ourselves);
        let group = group_of(&order.pod);
        Layout { is_shared: group.is_some() || order.containers().any(|(_, container)| is_other(container)), group }
    }

    fn build(&self, aside: &Path, order: &InstanceOrder, pod: &PodOrder) -> io::Result<()> {
        self.passage(aside)?;
        write_new(&aside.join(ORDER), order)?;
        fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(aside.join(LOCK))?;
        for inner in ["containers", "volumes"] {
            self.passage(&aside.join(inner))?;
        }
        make_private(&aside.join("logs"))?;
        for (name, volume) in &pod.volumes {
            self.volume(&aside.join("volumes").join(name), volume)?;
        }
        for (_, container) in order.containers() {
            make_private(&aside.join("logs").join(&container.name))?;
            self.passage(&aside.join("containers").join(&container.name))?;
            self.root(aside, order, container)?;
        }
        Ok(())
    }

    /// A folder that those who run here pass through, without seeing what else is in it.
    fn passage(&self, folder: &Path) -> io::Result<()> {
        make(folder, if self.is_shared { 0o711 } else { 0o700 })
    }

    fn volume(&self, place: &Path, volume: &Volume) -> io::Result<()> {
        match volume {
            Volume::Empty => {
                make(place, if self.is_shared { 0o777 } else { 0o700 })?;
                if self.group.is_some() {
                    chown(place, None, self.group)?;
                    fs::set_permissions(place, Permissions::from_mode(0o2777))?;
                }
                Ok(())
            }
            Volume::Host { path } => symlink(path, place),
            Volume::Files(files) => {
                make(place, if self.is_shared { 0o755 } else { 0o700 })?;
                write_files(place, files, self.group)
            }
        }
    }

    /// The folder that a container begins in, with a link to each of its volumes. The links are relative, so that who may
    /// not look into the state folder can follow them all the same.
    fn root(&self, aside: &Path, order: &InstanceOrder, container: &Container) -> io::Result<()> {
        let root = container_root(aside, &container.name);
        make(&root, if self.is_shared { 0o755 } else { 0o700 })?;
        if let Some(user) = order.run_as_user(container).and_then(|user| u32::try_from(user).ok()) {
            chown(&root, Some(user), None)?;
        }
        for mount in container.volume_mounts.iter().flatten() {
            let Some(place) = mount_place(&mount.mount_path) else { continue };
            let (name, parents) = place.split_last().expect("a place has at least one name");
            let folder: PathBuf = parents.iter().fold(root.clone(), |folder, parent| folder.join(parent));
            fs::create_dir_all(&folder)?;
            let up: PathBuf = ["..", "..", ".."].iter().copied().chain(parents.iter().map(|_| "..")).collect();
            let mut target = up.join("volumes").join(&mount.name);
            if let Some(part) = mount.sub_path.as_ref().filter(|part| !part.is_empty()) {
                if let Some(Volume::Empty) = order.pod.volumes.get(&mount.name) {
                    let part = aside.join("volumes").join(&mount.name).join(part);
                    fs::create_dir_all(&part)?;
                    fs::set_permissions(&part, Permissions::from_mode(if self.is_shared { 0o777 } else { 0o700 }))?;
                }
                target.push(part);
            }
            symlink(target, folder.join(name))?;
        }
        termination_log::link(&root, container)
    }
}

fn group_of(pod: &PodOrder) -> Option<u32> {
    let context = pod.spec.security_context.as_ref();
    context.and_then(|context| context.fs_group).and_then(|group| u32::try_from(group).ok())
}

fn make_private(folder: &Path) -> io::Result<()> {
    make(folder, 0o700)
}

/// A folder with exactly this mode, whatever the umask.
fn make(folder: &Path, mode: u32) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(folder)?;
    fs::set_permissions(folder, Permissions::from_mode(mode))
}

fn write_new<T: Serialize>(path: &Path, value: &T) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(&serde_json::to_vec(value)?)?;
    file.sync_all()
}

fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
