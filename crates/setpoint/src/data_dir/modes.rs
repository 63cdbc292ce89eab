//! What others than its owner may do with a data directory: nothing, but for users of Pods, who pass through it to theirs.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::identity;

/// What lies in the folder and is for its owner alone. Files whose owner is told if others can read them are not among
/// them, nor is what users of Pods pass through.
const PRIVATE: [&str; 6] = [identity::FILE, "audit", "ca.crt", "kubeconfig", "lock", "users.lock"];

/// Folders that users of Pods may have to pass through, though not to list.
const PASSAGES: [&str; 2] = [ENVIRONMENTS, "pods"];
const ENVIRONMENTS: &str = "environments";

/// What is left of the mode of a folder that may be passed through.
const PASSAGE: u32 = 0o711;

/// Lets users of Pods pass through, though not list.
pub(super) fn open_passage(folder: &Path) -> std::io::Result<()> {
    fs::set_permissions(folder, fs::Permissions::from_mode(PASSAGE))
}

/// Takes everything from others that is not for them, whoever left it to them.
pub(super) fn close_to_others(data: &Path) -> std::io::Result<()> {
    keep_passage(data)?;
    for name in PRIVATE {
        let path = data.join(name);
        match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_dir() => setpoint_store::make_private(&path)?,
            Ok(metadata) if metadata.is_file() => setpoint_store::close_to_others(&path)?,
            _ => {}
        }
    }
    for name in PASSAGES {
        close_passage(&data.join(name))?;
    }
    Ok(())
}

/// Closes a folder that users of Pods may pass through, and all in it but Pods: those are their deployer's to close.
fn close_passage(folder: &Path) -> std::io::Result<()> {
    if !folder.is_dir() {
        return Ok(());
    }
    keep_passage(folder)?;
    for entry in fs::read_dir(folder)? {
        let (path, kind) = entry.and_then(|entry| Ok((entry.path(), entry.file_type()?)))?;
        let has_pods = || Ok::<_, std::io::Error>(fs::read_dir(&path)?.flatten().any(|entry| is_pod(&entry.path())));
        match () {
            () if kind.is_file() => setpoint_store::close_to_others(&path)?,
            // What is half made or half removed was a Pod's.
            () if !kind.is_dir() || is_pod(&path) || is_hidden(&path) => {}
            () if folder.ends_with(ENVIRONMENTS) || has_pods()? => close_passage(&path)?,
            () => setpoint_store::make_private(&path)?,
        }
    }
    Ok(())
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'))
}

fn is_pod(folder: &Path) -> bool {
    folder.join("order.json").exists()
}

/// Takes a folder from others but for passing through, where they could.
fn keep_passage(folder: &Path) -> std::io::Result<()> {
    let mode = fs::metadata(folder)?.permissions().mode() & 0o7777;
    match mode & !PASSAGE {
        0 => Ok(()),
        _ => fs::set_permissions(folder, fs::Permissions::from_mode(mode & PASSAGE)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_could_read_is_closed_to_them() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("data");
        fs::create_dir(&path).expect("the folder is writable");
        let inner = path.join("audit");
        fs::create_dir(&inner).expect("the folder is writable");
        fs::write(inner.join("audit.log"), "").expect("the folder is writable");
        let mode = |path: &Path| fs::metadata(path).expect("it exists").permissions().mode() & 0o777;
        let open = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
        for (path, mode) in [(inner.join("audit.log"), 0o644), (inner.clone(), 0o755), (path.clone(), 0o755)] {
            open(&path, mode);
        }
        close_to_others(&path).expect("it is ours");
        assert_eq!((mode(&path), mode(&inner), mode(&inner.join("audit.log"))), (0o711, 0o700, 0o600));
    }
}
