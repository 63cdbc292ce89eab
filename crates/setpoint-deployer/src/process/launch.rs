//! The launcher: what is run instead of a container's command, to become it.
//!
//! Between fork and exec only little may be done, and nothing of it safely. So this binary is run first: a process of its
//! own, with one thread, that puts itself into the state that the command is to start in and then becomes the command. Its
//! number stays the same.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use k8s_openapi::api::core::v1::{Container, PodSecurityContext, SecurityContext};
use rustix::fs::{FileType, Mode};
use rustix::process::{Pid, Resource, Rlimit, Signal, Uid};
use rustix::thread::{CapabilitySet, set_no_new_privs, set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use serde::{Deserialize, Serialize};

use super::order::{InstanceOrder, container_root};
use super::privileges::Restrictions;
use super::{beneath, capabilities, descriptors, read_only, system_calls, termination_log};

/// The hidden subcommand that [`run`] stands behind.
pub const SUBCOMMAND: &str = "shim-exec";

/// The variable that tells the launcher its settings: unlike its arguments, no other user can read them. The command does
/// not get it.
const SETTINGS: &str = "SETPOINT_LAUNCH";

/// What a command makes for itself can be read by others, unless it says otherwise: as in containers elsewhere.
const UMASK: Mode = Mode::from_raw_mode(0o022);

/// What the launcher has to do before it becomes the command.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Settings {
    /// A FIFO that whoever starts it reads: it closes when the command runs; why it does not is written into it.
    pub report: Option<PathBuf>,
    /// The process to die with.
    pub parent: Option<u32>,
    /// The files to join control groups with.
    pub cgroups: Vec<PathBuf>,
    /// Whether its standard input is the terminal that it is to control.
    pub has_terminal: bool,
    /// The most memory that it may address, where a control group does not limit what it uses.
    pub max_address_bytes: Option<u64>,
    pub user: Option<u32>,
    /// If none is named for another user, it is the one of the user's own number: never ours.
    pub group: Option<u32>,
    pub groups: Option<Vec<u32>>,
    pub restrictions: Restrictions,
    /// The container's own folder.
    pub root: PathBuf,
    /// Where to work, as seen from there.
    pub directory: PathBuf,
}

impl Settings {
    /// What the order says of how a container's processes run. The rest is for whoever starts one.
    pub fn of(order: &InstanceOrder, folder: &Path, container: &Container) -> Settings {
        let own = container.security_context.clone().unwrap_or_default();
        let pod = order.pod.spec.security_context.clone().unwrap_or_default();
        let is_read_only = own.read_only_root_filesystem == Some(true);
        let restrictions = Restrictions {
            writable: is_read_only.then(|| read_only::writable(order, folder, container)),
            ..Restrictions::of(&pod, &own)
        };
        let SecurityContext { run_as_user, run_as_group, .. } = own;
        let PodSecurityContext { run_as_user: user, run_as_group: group, supplemental_groups, fs_group, .. } = pod;
        let id = |id: i64| u32::try_from(id).ok();
        let groups: Vec<u32> = supplemental_groups.into_iter().flatten().chain(fs_group).filter_map(id).collect();
        let user = run_as_user.or(user).and_then(id);
        Settings {
            user,
            group: run_as_group.or(group).and_then(id).or(user.filter(|user| !is_own(*user))),
            // Who becomes somebody else must not keep our groups.
            groups: (user.is_some() || !groups.is_empty()).then_some(groups),
            restrictions,
            root: container_root(folder, &container.name),
            directory: container.working_dir.clone().unwrap_or_default().into(),
            ..Settings::default()
        }
    }

    /// The command that starts the launcher with these settings. Besides these variables, what is set in it is what the
    /// command gets.
    pub fn command(
        &self,
        executable: &Path,
        arguments: &[String],
        variables: &BTreeMap<String, String>,
    ) -> io::Result<Command> {
        let mut command = Command::new(executable);
        command.env_clear().arg(SUBCOMMAND).args(arguments);
        // The settings last: no container says who it runs as.
        command.envs(variables).env(SETTINGS, serde_json::to_string(self)?);
        Ok(command)
    }
}

/// All variables of a container's processes.
pub fn variables(order: &InstanceOrder, folder: &Path, container: &str) -> BTreeMap<String, String> {
    let mut variables = order.variables(container, folder);
    let root = container_root(folder, container);
    variables.entry("HOME".to_owned()).or_insert_with(|| root.to_string_lossy().into_owned());
    let last_words = termination_log::file(folder, container).to_string_lossy().into_owned();
    variables.insert("SETPOINT_TERMINATION_LOG".to_owned(), last_words);
    variables
}

/// Becomes the command: `COMMAND [ARGUMENT…]`, by the settings in its environment. Returns only if that fails.
#[expect(clippy::print_stderr, reason = "whoever runs a command by hand is told why it did not start")]
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut arguments = arguments.into_iter();
    let settings = std::env::var_os(SETTINGS);
    let settings = settings.and_then(|text| serde_json::from_slice::<Settings>(text.as_bytes()).ok());
    let (Some(settings), Some(program)) = (settings, arguments.next()) else {
        eprintln!("usage: {SETTINGS}=SETTINGS {SUBCOMMAND} COMMAND [ARGUMENT...]");
        return ExitCode::from(2);
    };
    // Opened so that it closes by itself when the command begins.
    let report = settings.report.as_ref().and_then(|path| open_report(path).ok());
    let error = match prepare(&settings) {
        Ok(()) => {
            descriptors::close_on_exec();
            let error = Command::new(&program).args(arguments).env_remove(SETTINGS).exec();
            Failure { what: format!("cannot run {program:?}"), error }
        }
        Err(failure) => failure,
    };
    let code = if error.error.kind() == io::ErrorKind::NotFound { 127 } else { 126 };
    let message = format!("{}: {}", error.what, error.error);
    match report {
        Some(report) => tell(report, &message),
        None => eprintln!("{message}"),
    }
    ExitCode::from(code)
}

/// What could not be done, and why.
struct Failure {
    what: String,
    error: io::Error,
}

fn prepare(settings: &Settings) -> Result<(), Failure> {
    let failed = |what: &str| {
        let what = what.to_owned();
        move |error: rustix::io::Errno| Failure { what, error: error.into() }
    };
    for file in &settings.cgroups {
        let what = || format!("cannot join the control group {}", file.display());
        fs::write(file, "0").map_err(|error| Failure { what: what(), error })?;
    }
    rustix::process::setsid().map_err(failed("cannot begin a session"))?;
    if settings.has_terminal {
        rustix::process::ioctl_tiocsctty(rustix::stdio::stdin()).map_err(failed("cannot take the terminal"))?;
    }
    if let Some(bytes) = settings.max_address_bytes {
        let limit = Rlimit { current: Some(bytes), maximum: Some(bytes) };
        rustix::process::setrlimit(Resource::As, limit).map_err(failed("cannot limit the memory"))?;
    }
    rustix::process::umask(UMASK);
    // While we still are who made the folder. What the container names beyond it is for its user to reach.
    work_in(&settings.root)?;
    let Restrictions { has_no_new_privileges, kept_capabilities, has_filtered_system_calls, writable } =
        &settings.restrictions;
    if let Some(writable) = writable {
        let what = "cannot make the file system read-only (readOnlyRootFilesystem)".to_owned();
        read_only::restrict(writable).map_err(|error| Failure { what, error: io::Error::other(error) })?;
    }
    let kept = kept_capabilities.map(CapabilitySet::from_bits_retain);
    if let Some(kept) = kept {
        capabilities::bound(kept).map_err(failed("cannot drop capabilities"))?;
    }
    become_user(settings).map_err(failed("cannot become the user"))?;
    check_passage(settings)?;
    if let Some(kept) = kept {
        capabilities::give_up(kept).map_err(failed("cannot drop capabilities"))?;
    }
    if *has_no_new_privileges {
        set_no_new_privs(true).map_err(failed("cannot give up new privileges"))?;
    }
    // After the user was changed, since that makes the kernel forget it.
    if let Some(parent) = settings.parent {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
            .map_err(failed("cannot follow its shim"))?;
        let is_there = Pid::as_raw(rustix::process::getppid()) == i32::try_from(parent).unwrap_or(-1);
        if !is_there {
            return Err(Failure { what: "cannot follow its shim".to_owned(), error: io::Error::other("it has ended") });
        }
    }
    if !settings.directory.as_os_str().is_empty() {
        work_in(&settings.directory)?;
    }
    if *has_filtered_system_calls {
        let what = "cannot filter system calls (seccompProfile)".to_owned();
        system_calls::restrict().map_err(|error| Failure { what, error })?;
    }
    Ok(())
}

/// Opened as the FIFO that it is, and as nothing that a Pod may have put in its place.
fn open_report(path: &Path) -> io::Result<File> {
    let fifo = beneath::handle(path, 3, FileType::Fifo)?;
    OpenOptions::new().write(true).open(format!("/proc/self/fd/{}", fifo.as_raw_fd()))
}

fn work_in(directory: &Path) -> Result<(), Failure> {
    let what = || format!("cannot work in {}", directory.display());
    std::env::set_current_dir(directory).map_err(|error| Failure { what: what(), error })
}

/// Another user has to find the way to what the container's variables and links name. Up to the state folder the folder's
/// layout sees to that; what lies above is not ours to open.
fn check_passage(settings: &Settings) -> Result<(), Failure> {
    let Some(user) = settings.user else { return Ok(()) };
    let folders: Vec<&Path> = settings.root.ancestors().collect();
    for folder in folders.into_iter().rev() {
        if let Err(error) = fs::metadata(folder.join(".")) {
            let folder = folder.display();
            let what = format!(
                "user {user} cannot pass through {folder}: allow it with `chmod o+x {folder}`, or keep the data elsewhere"
            );
            return Err(Failure { what, error });
        }
    }
    Ok(())
}

fn become_user(settings: &Settings) -> Result<(), rustix::io::Errno> {
    if let Some(groups) = &settings.groups {
        let groups: Vec<rustix::process::Gid> = groups.iter().copied().map(rustix::process::Gid::from_raw).collect();
        match set_thread_groups(&groups) {
            // Who is nobody special has no groups to give up either.
            Err(rustix::io::Errno::PERM) if settings.user.is_none_or(is_own) => {}
            other => other?,
        }
    }
    if let Some(group) = settings.group.map(rustix::process::Gid::from_raw) {
        set_thread_res_gid(group, group, group)?;
    }
    if let Some(user) = settings.user.map(Uid::from_raw) {
        set_thread_res_uid(user, user, user)?;
    }
    Ok(())
}

fn is_own(user: u32) -> bool {
    rustix::process::getuid().as_raw() == user
}

fn tell(mut report: File, message: &str) {
    // Nobody is left to be told if this fails.
    let _ = report.write_all(message.as_bytes());
}
