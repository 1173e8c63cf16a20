//! The kernel calls that no crate offers safely. The only place with `unsafe`.

#![expect(
    unsafe_code,
    reason = "kernel calls without a safe wrapper live here and nowhere else"
)]

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::errno::Errno;
use nix::libc;
use nix::sched::CloneFlags;
use nix::sys::signal::{SigHandler, SigSet, SigmaskHow, Signal, signal, sigprocmask};
use nix::unistd::Pid;

/// Attributes for [`mount_attributes`], as in `mount_setattr(2)`.
pub(crate) const READ_ONLY: u64 = 0x1;
pub(crate) const NO_SETUID: u64 = 0x2;
pub(crate) const NO_DEVICES: u64 = 0x4;
pub(crate) const NO_EXECUTE: u64 = 0x8;
const ID_MAPPED: u64 = 0x0010_0000;
const AT_RECURSIVE: libc::c_uint = 0x8000;

/// Copies this process as `fork` does, into new namespaces. `None` is returned in the copy.
///
/// The caller must be single-threaded, as supervisors and their children are: the copy then has
/// all that the original had, and may allocate and lock as it likes.
pub(crate) fn fork_into(flags: CloneFlags) -> io::Result<Option<Pid>> {
    let flags = libc::c_long::from(flags.bits()) | libc::c_long::from(libc::SIGCHLD);
    // SAFETY: without CLONE_VM and with a null stack, clone behaves like fork: the copy continues on
    // a copy of this stack. No thread exists besides the caller, so no lock is held in the copy.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
    match i32::try_from(Errno::result(pid)?) {
        Ok(0) => Ok(None),
        Ok(pid) => Ok(Some(Pid::from_raw(pid))),
        Err(_) => Err(io::Error::other("clone returned no process id")),
    }
}

/// Closes the descriptors from `first` to `last`, now or when this process executes a program. Whoever
/// closes them now must no longer use them, nor let anything that owns one be dropped.
pub(crate) fn close_range(first: u32, last: u32, on_exec: bool) -> io::Result<()> {
    let flags = if on_exec {
        libc::CLOSE_RANGE_CLOEXEC
    } else {
        0
    };
    // SAFETY: the call takes integers alone, and touches no memory.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) };
    Errno::result(result)?;
    Ok(())
}

/// The user namespace that owns another namespace.
pub(crate) fn owning_user_namespace(namespace: impl AsFd) -> io::Result<OwnedFd> {
    const NS_GET_USERNS: libc::c_ulong = 0xb701;
    // SAFETY: the request takes no argument and returns a new descriptor or an error.
    let fd = unsafe { libc::ioctl(namespace.as_fd().as_raw_fd(), NS_GET_USERNS) };
    let fd = Errno::result(fd)?;
    // SAFETY: the kernel has just opened this descriptor for us, so nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Makes a terminal the controlling one of this session.
pub(crate) fn control_terminal(terminal: impl AsFd) -> io::Result<()> {
    // SAFETY: TIOCSCTTY takes an integer by value.
    let result = unsafe { libc::ioctl(terminal.as_fd().as_raw_fd(), libc::TIOCSCTTY, 0) };
    Errno::result(result)?;
    Ok(())
}

#[repr(C)]
struct MountAttributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

/// Sets attributes on the mount at `path`, and on all below it when `recursive`.
pub(crate) fn mount_attributes(path: &Path, set: u64, recursive: bool) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let attributes = MountAttributes {
        set,
        clear: 0,
        propagation: 0,
        user_namespace: 0,
    };
    let flags = if recursive { AT_RECURSIVE } else { 0 };
    mount_setattr(libc::AT_FDCWD, &path, flags, &attributes)
}

/// Gives a detached mount the owners that `user_namespace` maps to.
pub(crate) fn map_owners(mount: impl AsFd, user_namespace: impl AsFd) -> io::Result<()> {
    let fd = user_namespace.as_fd().as_raw_fd();
    let attributes = MountAttributes {
        set: ID_MAPPED,
        clear: 0,
        propagation: 0,
        user_namespace: u64::try_from(fd).map_err(io::Error::other)?,
    };
    let flags = libc::AT_EMPTY_PATH.unsigned_abs() | AT_RECURSIVE;
    mount_setattr(mount.as_fd().as_raw_fd(), c"", flags, &attributes)
}

fn mount_setattr(
    fd: i32,
    path: &std::ffi::CStr,
    flags: libc::c_uint,
    attributes: &MountAttributes,
) -> io::Result<()> {
    // SAFETY: the path ends with NUL and the structure lives through the call, with its size given.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            fd,
            path.as_ptr(),
            flags,
            std::ptr::from_ref(attributes),
            size_of::<MountAttributes>(),
        )
    };
    Errno::result(result)?;
    Ok(())
}

/// Whether children that end go at once, or wait until this process has heard how.
pub(crate) fn leave_children(leave: bool) -> io::Result<()> {
    let handler = if leave {
        SigHandler::SigIgn
    } else {
        SigHandler::SigDfl
    };
    // SAFETY: neither disposition runs code of this program.
    unsafe { signal(Signal::SIGCHLD, handler) }?;
    Ok(())
}

/// Undoes what this process did to signals, so that a program starts with the usual dispositions.
pub(crate) fn reset_signals() -> io::Result<()> {
    for each in Signal::iterator() {
        if !matches!(each, Signal::SIGKILL | Signal::SIGSTOP) {
            // SAFETY: the default disposition runs no code of this program.
            unsafe { signal(each, SigHandler::SigDfl) }?;
        }
    }
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)?;
    Ok(())
}

/// Ends this process at once, without running anything that was inherited from its parent.
pub(crate) fn end(code: i32) -> ! {
    // SAFETY: _exit does not return and touches nothing of this process.
    unsafe { libc::_exit(code) }
}
