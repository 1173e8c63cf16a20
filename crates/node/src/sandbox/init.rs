//! Process 1 of a container.
//!
//! The kernel keeps signals from process 1 that it has not asked for, so a program in that place would
//! not be ended by SIGTERM; and orphans become children of process 1, which few programs wait for. So
//! the place is taken by a copy of the supervisor that has given up everything. It waits for orphans,
//! and passes signals on to the program, which the supervisor signals directly.
//!
//! Once the program is gone, a signal is for those that it left behind, and the container ends with the
//! last of them: a shell that dies of SIGTERM at once leaves the training below it the time to save.

use std::ffi::CStr;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::sys;

/// The second process of a PID namespace.
const PROGRAM: Pid = Pid::from_raw(2);
const ALL: Pid = Pid::from_raw(-1);

/// Has this process listed by these words and not by the arguments that it was started with, as far as
/// there is room for them.
pub(crate) fn rename(name: &CStr, words: &[&[u8]]) {
    // It is a comfort; nothing depends on it.
    let _ = nix::sys::prctl::set_name(name);
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name in parentheses may contain anything; the numbers begin after the last one.
    let numbers = text.rsplit_once(") ").map_or("", |(_, numbers)| numbers);
    let mut ends = numbers
        .split(' ')
        .skip(45)
        .map_while(|word| word.parse::<u64>().ok());
    let (Some(start), Some(end)) = (ends.next(), ends.next()) else {
        return;
    };
    let mut line = words.join(&0);
    line.resize(usize::try_from(end.saturating_sub(start)).unwrap_or(0), 0);
    if let Ok(memory) = File::options().write(true).open("/proc/self/mem") {
        let _ = memory.write_all_at(&line, start);
    }
}

/// Lets `/proc/1/fd/1`, where hooks write what is to stand in the container's log, lead to the program's
/// streams: those of process 1 itself are closed, and hidden. In the container's root, before it is entered.
pub(super) fn lend_streams() {
    let folder = Path::new("proc/1/fd");
    let quiet = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    let data = Some("mode=755,size=4k,nr_inodes=8");
    // A kernel that does not allow it takes a comfort away.
    if mount(Some("tmpfs"), folder, Some("tmpfs"), quiet, data).is_ok() {
        for stream in 0..3 {
            let target = format!("/proc/{PROGRAM}/fd/{stream}");
            let _ = std::os::unix::fs::symlink(target, folder.join(stream.to_string()));
        }
        let _ = sys::mount_attributes(folder, sys::READ_ONLY, false);
    }
}

/// Says that the container can be entered, and is its process 1 from then on.
pub(super) fn run(say: OwnedFd) -> ! {
    let signals = SigSet::all();
    let own = say.as_raw_fd().unsigned_abs();
    let prepared = signals
        .thread_block()
        .map_err(std::io::Error::from)
        .and_then(|()| match own.checked_sub(1) {
            Some(last) => sys::close_range(0, last, false),
            None => Ok(()),
        })
        .and_then(|()| sys::close_range(own + 1, u32::MAX, false))
        .and_then(|()| File::from(say).write_all(b"!"));
    if prepared.is_err() {
        sys::end(127);
    }
    let mut last_one_out = false;
    loop {
        match signals.wait() {
            Ok(Signal::SIGCHLD) | Err(_) => {}
            Ok(signal) => {
                if kill(PROGRAM, signal) == Err(Errno::ESRCH) {
                    last_one_out = true;
                    let _ = kill(ALL, signal);
                }
            }
        }
        if !reap() && last_one_out {
            sys::end(0);
        }
    }
}

/// Waits for those that have ended; whether others are left.
fn reap() -> bool {
    loop {
        match waitpid(None::<Pid>, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) => return true,
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return false,
        }
    }
}
