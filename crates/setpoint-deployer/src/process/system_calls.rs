//! The filter of system calls for `seccompProfile: {type: RuntimeDefault}`.
//!
//! It refuses what the default profile of container runtimes refuses to a container without further capabilities: to
//! change mounts, namespaces, modules, clocks, keys and the machine itself, and to look into the kernel. Where that profile
//! lists what is allowed, this one lists what is not, so a system call that a later kernel brings is allowed until it is
//! added here. Programs for another instruction set (32 bits on a machine of 64) are ended.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Length, SeccompCmpOp as Compare, SeccompCondition as Condition,
    SeccompFilter, SeccompRule, TargetArch, apply_filter, sock_filter,
};

/// What is refused whatever its arguments.
const REFUSED: &[i64] = &[
    // Mounts and file systems.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_nfsservctl,
    // Namespaces.
    libc::SYS_unshare,
    libc::SYS_setns,
    // The kernel: its modules, its programs, its keys.
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_lookup_dcookie,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_syslog,
    // The machine.
    libc::SYS_reboot,
    libc::SYS_acct,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
    // Other processes and the memory of the machine.
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    libc::SYS_process_madvise,
    libc::SYS_move_pages,
    libc::SYS_migrate_pages,
    libc::SYS_mbind,
    libc::SYS_get_mempolicy,
    libc::SYS_set_mempolicy,
    libc::SYS_set_mempolicy_home_node,
];

/// What only this instruction set has.
#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[i64] =
    &[libc::SYS_ioperm, libc::SYS_iopl, libc::SYS_uselib, libc::SYS_ustat, libc::SYS_sysfs, libc::SYS__sysctl];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[i64] = &[];

/// The flags with which `clone` makes new namespaces.
const NEW_NAMESPACES: [i32; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];

/// The ways to behave that `personality` may set or ask for.
const PERSONALITIES: [u64; 5] = [0x0, 0x8, 0x2_0000, 0x2_0008, 0xffff_ffff];

/// From this number on, calls are those of another convention (x32), with numbers that the filter does not know.
const OTHER_CONVENTION: u32 = 0x4000_0000;

/// Has the kernel refuse those system calls to this process and to all that come of it, for good. It gains no new
/// privileges from then on.
pub(super) fn restrict() -> io::Result<()> {
    let [unknown, refused] = programs()?;
    for program in [unknown, refused] {
        apply_filter(&program).map_err(io::Error::other)?;
    }
    Ok(())
}

fn programs() -> io::Result<[BpfProgram; 2]> {
    let refused = refused().map_err(io::Error::other)?;
    Ok([not_there(), refused])
}

fn refused() -> Result<BpfProgram, seccompiler::BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    // No rule for a call means: whatever its arguments.
    rules.extend(REFUSED.iter().chain(REFUSED_HERE).map(|call| (*call, Vec::new())));
    let flag = |flag: i32| {
        let flag = u64::from(flag.unsigned_abs());
        SeccompRule::new(vec![Condition::new(0, Length::Qword, Compare::MaskedEq(flag), flag)?])
    };
    rules.insert(libc::SYS_clone, NEW_NAMESPACES.into_iter().map(flag).collect::<Result<_, _>>()?);
    let none_of_these = PERSONALITIES.into_iter().map(|one| Condition::new(0, Length::Dword, Compare::Ne, one));
    rules.insert(libc::SYS_personality, vec![SeccompRule::new(none_of_these.collect::<Result<_, _>>()?)?]);
    let to_hypervisors = Condition::new(0, Length::Dword, Compare::Eq, u64::from(libc::AF_VSOCK.unsigned_abs()))?;
    rules.insert(libc::SYS_socket, vec![SeccompRule::new(vec![to_hypervisors])?]);
    let architecture = TargetArch::try_from(std::env::consts::ARCH)?;
    let refuse = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    SeccompFilter::new(rules, SeccompAction::Allow, refuse, architecture)?.try_into()
}

/// Says that calls are not there whose arguments a filter cannot see: `clone3` has its flags in memory, and programs
/// use `clone` instead. Calls of another convention are not there either.
fn not_there() -> BpfProgram {
    const LOAD_NUMBER: u16 = 0x20;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const JUMP_IF_AT_LEAST: u16 = 0x35;
    const RETURN: u16 = 0x06;
    const ALLOW: u32 = 0x7fff_0000;
    const ERROR: u32 = 0x0005_0000;
    let clone3 = u32::try_from(libc::SYS_clone3).unwrap_or(u32::MAX);
    vec![
        sock_filter { code: LOAD_NUMBER, jt: 0, jf: 0, k: 0 },
        sock_filter { code: JUMP_IF_EQUAL, jt: 2, jf: 0, k: clone3 },
        sock_filter { code: JUMP_IF_AT_LEAST, jt: 1, jf: 0, k: OTHER_CONVENTION },
        sock_filter { code: RETURN, jt: 0, jf: 0, k: ALLOW },
        sock_filter { code: RETURN, jt: 0, jf: 0, k: ERROR | libc::ENOSYS.unsigned_abs() },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_is_sound_and_fits_into_the_kernel() {
        let programs = programs().unwrap();
        assert!(programs.iter().all(|program| (5..4096).contains(&program.len())));
    }
}
