//! The folder of an instance: how it is laid out, how it comes to be, and how it goes.
//!
//! It is built aside and then renamed, and renamed again before it is removed: whoever looks sees all of it or nothing.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Container;

use super::files::{remove_if_there, write_files};
use super::inspection::mount_place;
use super::order::{InstanceOrder, container_root};
use super::order_file;
use super::ownership::{Access, Users};
use super::record::LOCK;
use super::termination_log::{self, Placement};
use crate::provider::{PodOrder, Volume};

/// What a folder is called while it is built, and while it is removed.
const NEW: &str = ".new-";
const GONE: &str = ".gone-";

/// Builds the folder of an instance beside its place, with its order as it is written, then puts it there. `false` if there
/// was one already.
pub(super) fn create(root: &Path, order: &InstanceOrder, pod: &PodOrder, sealed: &[u8]) -> io::Result<bool> {
    let place = root.join(&order.id);
    if place.exists() {
        return Ok(false);
    }
    let aside = root.join(format!("{NEW}{}", order.id));
    remove_if_there(&aside)?;
    Layout { folder: &aside, order }.build(pod, sealed)?;
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
pub(super) fn update_volumes(folder: &Path, order: &InstanceOrder, pod: &PodOrder) -> io::Result<()> {
    for (name, volume) in &pod.volumes {
        if let Volume::Files(files) = volume {
            write_files(&folder.join("volumes").join(name), files, &Users::of_volume(order, name))?;
        }
    }
    Ok(())
}

/// Gives every part of a folder that a former version made to whom it belongs to.
pub(super) fn settle(folder: &Path, order: &InstanceOrder) -> io::Result<()> {
    Layout { folder, order }.settle()
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

/// How a folder is laid out for those who run in it.
struct Layout<'a> {
    folder: &'a Path,
    order: &'a InstanceOrder,
}

impl Layout<'_> {
    fn build(&self, pod: &PodOrder, sealed: &[u8]) -> io::Result<()> {
        make_private(self.folder)?;
        order_file::write(self.folder, sealed)?;
        fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(self.folder.join(LOCK))?;
        for inner in ["logs", "containers", "volumes"] {
            make_private(&self.folder.join(inner))?;
        }
        for (name, volume) in &pod.volumes {
            let place = self.volume(name);
            match volume {
                Volume::Host { path } => symlink(path, place)?,
                Volume::Empty | Volume::Files(_) => make_private(&place)?,
            }
        }
        for (_, container) in self.order.containers() {
            make_private(&self.folder.join("logs").join(&container.name))?;
            make_private(&self.container(&container.name))?;
            make_private(&container_root(self.folder, &container.name))?;
            self.mounts(container)?;
        }
        self.settle()?;
        update_volumes(self.folder, self.order, pod)
    }

    /// Gives each part to whom it belongs to. All of it lies in folders that no workload can change.
    fn settle(&self) -> io::Result<()> {
        let all = Users::of_instance(self.order);
        for (name, volume) in &self.order.pod.volumes {
            let users = Users::of_volume(self.order, name);
            match volume {
                Volume::Host { .. } => {}
                Volume::Empty => users.folder().apply(&self.volume(name))?,
                Volume::Files(_) => users.passage(true).apply(&self.volume(name))?,
            }
        }
        for (_, container) in self.order.containers() {
            let users = Users::of_container(self.order, &container.name);
            users.folder_alone().apply(&container_root(self.folder, &container.name))?;
            users.passage(false).apply(&self.container(&container.name))?;
        }
        for passage in ["containers", "volumes", ""] {
            all.passage(false).apply(&self.folder.join(passage))?;
        }
        Ok(())
    }

    fn volume(&self, name: &str) -> PathBuf {
        self.folder.join("volumes").join(name)
    }

    fn container(&self, name: &str) -> PathBuf {
        self.folder.join("containers").join(name)
    }

    /// A link to each volume in the folder that a container begins in. The links are relative, so that who may not look
    /// into the state folder can follow them all the same.
    fn mounts(&self, container: &Container) -> io::Result<()> {
        let root = container_root(self.folder, &container.name);
        let access = Users::of_container(self.order, &container.name).folder_alone();
        for mount in container.volume_mounts.iter().flatten() {
            let Some(place) = mount_place(&mount.mount_path) else { continue };
            let (name, parents) = place.split_last().expect("a place has at least one name");
            make_all(&root, parents.iter().map(Path::new), access)?;
            let folder: PathBuf = parents.iter().fold(root.clone(), |folder, parent| folder.join(parent));
            let up: PathBuf = ["..", "..", ".."].iter().copied().chain(parents.iter().map(|_| "..")).collect();
            let mut target = up.join("volumes").join(&mount.name);
            if let Some(part) = mount.sub_path.as_ref().filter(|part| !part.is_empty()) {
                if let Some(Volume::Empty) = self.order.pod.volumes.get(&mount.name) {
                    let users = Users::of_volume(self.order, &mount.name);
                    make_all(&self.volume(&mount.name), Path::new(part).iter().map(Path::new), users.folder())?;
                }
                target.push(part);
            }
            symlink(target, folder.join(name))?;
        }
        if let Placement::Linked(place) = termination_log::placement(container) {
            make_all(&root, place.iter().rev().skip(1).rev().map(Path::new), access)?;
        }
        termination_log::link(&root, container)
    }
}

/// Folders one in another, of which some may be there. Nobody else is in them yet.
fn make_all<'a>(folder: &Path, names: impl Iterator<Item = &'a Path>, access: Access) -> io::Result<()> {
    let mut folder = folder.to_owned();
    for name in names {
        folder.push(name);
        if !folder.is_dir() {
            make_private(&folder)?;
            access.apply(&folder)?;
        }
    }
    Ok(())
}

/// A folder that nobody else can look into, whatever the umask.
fn make_private(folder: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(folder)?;
    fs::set_permissions(folder, Permissions::from_mode(0o700))
}

fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
