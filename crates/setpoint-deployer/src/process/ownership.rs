//! Whose the parts of an instance's folder are: what each user of its containers may reach, and nobody else.
//!
//! The folder and everything that leads to the files of a user stay the control plane's, so that no workload can replace
//! what the shim and the control plane read and write there. A workload passes through them by its group, without seeing
//! what is in them; what is its own belongs to its user. Where containers of one Pod run in different groups and name no
//! `fsGroup`, there is no group for what they share: then anybody passes who knows the folder's name, which nobody is told.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

use k8s_openapi::api::core::v1::Container;

use super::launch::Settings;
use super::order::InstanceOrder;

/// A user other than the control plane's, and the group that its processes have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Runner {
    user: u32,
    group: u32,
}

/// Those who use a part of a folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Users {
    /// Without the control plane's own user, sorted, each once.
    runners: Vec<Runner>,
    fs_group: Option<u32>,
}

/// An owner, where it is not the control plane, a group, where that matters, and a mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Access {
    pub(super) user: Option<u32>,
    pub(super) group: Option<u32>,
    pub(super) mode: u32,
}

impl Users {
    /// Those of all containers.
    pub(super) fn of_instance(order: &InstanceOrder) -> Users {
        Users::of(order, |_| true)
    }

    /// Those of one container.
    pub(super) fn of_container(order: &InstanceOrder, name: &str) -> Users {
        Users::of(order, |container| container.name == name)
    }

    /// Those of the containers that mount a volume.
    pub(super) fn of_volume(order: &InstanceOrder, volume: &str) -> Users {
        let mounts = |container: &Container| container.volume_mounts.iter().flatten().any(|mount| mount.name == volume);
        Users::of(order, mounts)
    }

    fn of(order: &InstanceOrder, is_meant: impl Fn(&Container) -> bool) -> Users {
        let containers = order.containers().map(|(_, container)| container).filter(|container| is_meant(container));
        let ourselves = rustix::process::geteuid();
        let mut runners: Vec<Runner> = containers
            // Only root can run others; who names one elsewhere is told so when the container starts.
            .filter(|_| ourselves.is_root())
            .filter_map(|container| {
                let Settings { user, group, .. } = Settings::of(order, Path::new(""), container);
                let user = user.filter(|user| *user != ourselves.as_raw())?;
                Some(Runner { user, group: group.unwrap_or(user) })
            })
            .collect();
        runners.sort();
        runners.dedup();
        let context = order.pod.spec.security_context.as_ref();
        let fs_group = context.and_then(|context| context.fs_group).and_then(|group| u32::try_from(group).ok());
        Users { runners, fs_group }
    }

    /// The group that all of them have.
    fn group(&self) -> Option<u32> {
        let first = self.runners.first()?.group;
        self.fs_group.or_else(|| self.runners.iter().all(|runner| runner.group == first).then_some(first))
    }

    /// A folder of the control plane's that they pass through; with `read`, they may also list it.
    pub(super) fn passage(&self, read: bool) -> Access {
        let (group_mode, all_mode) = if read { (0o750, 0o755) } else { (0o710, 0o711) };
        match (self.runners.is_empty(), self.group()) {
            (true, _) => Access { user: None, group: None, mode: 0o700 },
            (false, Some(group)) => Access { user: None, group: Some(group), mode: group_mode },
            (false, None) => Access { user: None, group: None, mode: all_mode },
        }
    }

    /// A folder that they write in.
    pub(super) fn folder(&self) -> Access {
        match (self.runners.as_slice(), self.fs_group, self.group()) {
            (runners, Some(group), _) => {
                let user = if let [runner] = runners { Some(runner.user) } else { None };
                Access { user, group: Some(group), mode: 0o2770 }
            }
            ([], None, _) => Access { user: None, group: None, mode: 0o700 },
            ([runner], None, _) => Access { user: Some(runner.user), group: Some(runner.group), mode: 0o700 },
            (_, None, Some(group)) => Access { user: None, group: Some(group), mode: 0o2770 },
            (_, None, None) => Access { user: None, group: None, mode: 0o777 },
        }
    }

    /// A folder of one container's own: nobody shares it, so it needs no group.
    pub(super) fn folder_alone(&self) -> Access {
        Users { fs_group: None, ..self.clone() }.folder()
    }

    /// A file that they read, and that says it wants this mode.
    pub(super) fn file(&self, mode: u32) -> Access {
        let mode = mode & 0o777;
        match (self.runners.as_slice(), self.fs_group, self.group()) {
            (runners, Some(group), _) => {
                let user = if let [runner] = runners { Some(runner.user) } else { None };
                Access { user, group: Some(group), mode: (mode & 0o770) | 0o440 }
            }
            ([], None, _) => Access { user: None, group: None, mode: mode & 0o700 },
            ([runner], None, _) => Access { user: Some(runner.user), group: Some(runner.group), mode: mode & 0o700 },
            (_, None, Some(group)) => Access { user: None, group: Some(group), mode: mode & 0o770 },
            (_, None, None) => Access { user: None, group: None, mode },
        }
    }
}

impl Access {
    /// Makes a folder so. Its parents are the control plane's alone, so it cannot be another by the time.
    pub(super) fn apply(self, path: &Path) -> io::Result<()> {
        if self.user.is_some() || self.group.is_some() {
            chown(path, self.user, self.group)?;
        }
        // Last, since a change of the owner takes bits of it away.
        fs::set_permissions(path, Permissions::from_mode(self.mode))
    }

    /// Whether a file is so.
    pub(super) fn is_of(self, path: &Path) -> bool {
        let Ok(found) = fs::metadata(path) else { return false };
        let is = |wanted: Option<u32>, found: u32| wanted.is_none_or(|wanted| wanted == found);
        found.mode() & 0o777 == self.mode & 0o777 && is(self.user, found.uid()) && is(self.group, found.gid())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(user: Option<u32>, group: Option<u32>, mode: u32) -> Access {
        Access { user, group, mode }
    }

    #[test]
    fn each_user_reaches_what_is_its_own() {
        let users = |runners: &[(u32, u32)], fs_group| Users {
            runners: runners.iter().map(|(user, group)| Runner { user: *user, group: *group }).collect(),
            fs_group,
        };
        let rows = [
            (
                "the control plane's own user",
                users(&[], None),
                access(None, None, 0o700),
                access(None, None, 0o700),
                access(None, None, 0o600),
            ),
            (
                "one other user",
                users(&[(1001, 1001)], None),
                access(None, Some(1001), 0o710),
                access(Some(1001), Some(1001), 0o700),
                access(Some(1001), Some(1001), 0o600),
            ),
            (
                "one other user with an fsGroup",
                users(&[(1001, 1001)], Some(2000)),
                access(None, Some(2000), 0o710),
                access(Some(1001), Some(2000), 0o2770),
                access(Some(1001), Some(2000), 0o640),
            ),
            (
                "two users in one group",
                users(&[(1001, 7), (1002, 7)], None),
                access(None, Some(7), 0o710),
                access(None, Some(7), 0o2770),
                access(None, Some(7), 0o640),
            ),
            (
                "two users with an fsGroup",
                users(&[(1001, 1001), (1002, 1002)], Some(2000)),
                access(None, Some(2000), 0o710),
                access(None, Some(2000), 0o2770),
                access(None, Some(2000), 0o640),
            ),
            (
                "two users who share nothing",
                users(&[(1001, 1001), (1002, 1002)], None),
                access(None, None, 0o711),
                access(None, None, 0o777),
                access(None, None, 0o644),
            ),
        ];
        for (row, users, passage, folder, file) in rows {
            assert_eq!((users.passage(false), users.folder(), users.file(0o644)), (passage, folder, file), "{row}");
        }
    }

    #[test]
    fn a_secret_that_only_its_owner_may_read_stays_so() {
        let one = Users { runners: vec![Runner { user: 1001, group: 7 }], fs_group: None };
        assert_eq!(one.file(0o400), access(Some(1001), Some(7), 0o400));
        let none = Users { runners: Vec::new(), fs_group: None };
        assert_eq!(none.file(0o755).mode, 0o700);
    }
}
