//! Where the control groups of this process are to be found as folders.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Our own folder in each tree of control groups.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Trees {
    pub(super) v2: Option<PathBuf>,
    /// By the controller's name.
    pub(super) v1: BTreeMap<String, PathBuf>,
}

impl Trees {
    pub(super) fn of_this_process() -> Trees {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        Trees::parse(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"))
    }

    fn parse(mounts: &str, memberships: &str) -> Trees {
        let mut trees = Trees::default();
        for line in memberships.lines() {
            let mut parts = line.splitn(3, ':');
            let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else { continue };
            if controllers.is_empty() {
                trees.v2 = mounts.lines().find_map(|mount| folder(mount, "cgroup2", None, path));
            }
            for controller in controllers.split(',').filter(|name| !name.is_empty() && !name.contains('=')) {
                let found = mounts.lines().find_map(|mount| folder(mount, "cgroup", Some(controller), path));
                trees.v1.extend(found.map(|folder| (controller.to_owned(), folder)));
            }
        }
        trees
    }
}

/// The folder of a control group, if this line of `mountinfo` is the mount of its tree:
/// `id parent device root mountpoint options … - type source options`.
fn folder(mount: &str, kind: &str, controller: Option<&str>, path: &str) -> Option<PathBuf> {
    let (place, tree) = mount.split_once(" - ")?;
    let mut tree = tree.split(' ');
    let is_kind = tree.next() == Some(kind);
    let options = tree.nth(1).unwrap_or_default();
    let has_controller = controller.is_none_or(|name| options.split(',').any(|option| option == name));
    if !is_kind || !has_controller {
        return None;
    }
    let mut place = place.split(' ').skip(3);
    let (root, point) = (place.next()?, place.next()?);
    let below = Path::new(path).strip_prefix(root).or_else(|_| Path::new(path).strip_prefix("/")).ok()?;
    Some(Path::new(point).join(below))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_folders_are_found() {
        let mounts = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
            32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:7 - cgroup cgroup rw,cpu,cpuacct\n\
            35 31 0:32 /docker/x /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
            41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let memberships = "9:name=systemd:/\n4:memory:/docker/x/y\n2:cpu,cpuacct:/a b\n0::/user.slice\nnonsense\n";
        let trees = Trees::parse(mounts, memberships);
        assert_eq!(trees.v2, Some(PathBuf::from("/sys/fs/cgroup/unified/user.slice")));
        let v1: Vec<(&str, &str)> =
            trees.v1.iter().map(|(name, folder)| (name.as_str(), folder.to_str().unwrap())).collect();
        let cpu = "/sys/fs/cgroup/cpu,cpuacct/a b";
        assert_eq!(v1, [("cpu", cpu), ("cpuacct", cpu), ("memory", "/sys/fs/cgroup/memory/y")]);
        assert_eq!(Trees::parse("", ""), Trees::default());
    }
}
