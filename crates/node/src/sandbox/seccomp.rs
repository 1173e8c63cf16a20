//! Which system calls a container may make.
//!
//! Three filters. The first is a list of what programs need; whatever is not on it does not exist
//! (`ENOSYS`), also calls that kernels will get in years to come. The second refuses, with `EPERM` as
//! programs expect it, what exists and must not be used: mounts, modules, keys, other namespaces … The
//! third knows only the kinds of sockets that programs need. Others belong to no network namespace, as
//! those that reach the host of a virtual machine, or load parts of the kernel that few people use.

mod allowed;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use allowed::ALLOWED;
use nix::libc;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

/// Installs the filters for this process and all it becomes.
pub(crate) fn apply() -> Result<()> {
    for program in programs()? {
        seccompiler::apply_filter(program).map_err(Error::Apply)?;
    }
    Ok(())
}

/// Compiles the filters once; a supervisor does it before its first container.
pub(crate) fn programs() -> Result<&'static [BpfProgram; 3]> {
    static PROGRAMS: OnceLock<[BpfProgram; 3]> = OnceLock::new();
    if let Some(programs) = PROGRAMS.get() {
        return Ok(programs);
    }
    let compiled = [known()?, refused()?, sockets()?];
    Ok(PROGRAMS.get_or_init(|| compiled))
}

fn known() -> Result<BpfProgram> {
    let rules = ALLOWED
        .iter()
        .chain(REFUSED)
        .map(|&call| (call, Vec::new()))
        .collect();
    let missing = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
    compile(rules, missing, SeccompAction::Allow)
}

fn refused() -> Result<BpfProgram> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        REFUSED.iter().map(|&call| (call, Vec::new())).collect();
    // New namespaces, in each of which a process would have rights that it does not have here.
    let spaces = [
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWNS,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWCGROUP,
        0x80,
    ];
    let with_flag = |argument: u8, flag: i32| {
        let flag = u64::from(flag.unsigned_abs());
        SeccompCondition::new(
            argument,
            SeccompCmpArgLen::Qword,
            SeccompCmpOp::MaskedEq(flag),
            flag,
        )
        .and_then(|condition| SeccompRule::new(vec![condition]))
        .map_err(Error::Build)
    };
    let flags = spaces
        .iter()
        .map(|&flag| with_flag(0, flag))
        .collect::<Result<Vec<_>>>()?;
    rules.insert(libc::SYS_clone, flags.clone());
    rules.insert(libc::SYS_unshare, flags);
    // Typing into somebody's terminal.
    let inject = SeccompCondition::new(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, libc::TIOCSTI)
        .and_then(|condition| SeccompRule::new(vec![condition]))
        .map_err(Error::Build)?;
    rules.insert(libc::SYS_ioctl, vec![inject]);
    compile(
        rules,
        SeccompAction::Allow,
        SeccompAction::Errno(libc::EPERM.unsigned_abs()),
    )
}

fn sockets() -> Result<BpfProgram> {
    let others = FAMILIES
        .iter()
        .map(|family| {
            let family = u64::from(family.unsigned_abs());
            SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, family)
        })
        .collect::<std::result::Result<Vec<_>, _>>()
        .and_then(SeccompRule::new)
        .map_err(Error::Build)?;
    let rules = [libc::SYS_socket, libc::SYS_socketpair]
        .map(|call| (call, vec![others.clone()]))
        .into();
    let unknown = SeccompAction::Errno(libc::EAFNOSUPPORT.unsigned_abs());
    compile(rules, SeccompAction::Allow, unknown)
}

/// The kinds of sockets that there are in a container.
const FAMILIES: [i32; 4] = [
    libc::AF_UNIX,
    libc::AF_INET,
    libc::AF_INET6,
    libc::AF_NETLINK,
];

fn compile(
    rules: BTreeMap<i64, Vec<SeccompRule>>,
    otherwise: SeccompAction,
    listed: SeccompAction,
) -> Result<BpfProgram> {
    let machine = TargetArch::try_from(std::env::consts::ARCH).map_err(Error::Build)?;
    let filter = SeccompFilter::new(rules, otherwise, listed, machine).map_err(Error::Build)?;
    filter.try_into().map_err(Error::Build)
}

/// What exists and is refused. `clone3` is on neither list, because its flags cannot be looked at: it
/// does not exist, and programs fall back to `clone`.
const REFUSED: &[i64] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_adjtimex,
    libc::SYS_bpf,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_fanotify_init,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_lookup_dcookie,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_nfsservctl,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pivot_root,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_userfaultfd,
    libc::SYS_vhangup,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
];

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Error {
    #[error("failed to build the filter")]
    Build(#[source] seccompiler::BackendError),
    #[error("failed to apply the filter")]
    Apply(#[source] seccompiler::Error),
}

type Result<T, E = Error> = std::result::Result<T, E>;
