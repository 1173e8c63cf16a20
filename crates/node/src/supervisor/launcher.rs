//! The process that supervisors are copies of.
//!
//! The agent starts it once, with a socket as its standard input, and sends it the folders of pods.
//! So the program is loaded, its addresses are relocated and the filters are compiled once and not for
//! every pod, and the pages that hold all of that are shared by all supervisors.
//!
//! It ends with the agent, that is with the last of what can be read from the socket.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::sched::CloneFlags;
use nix::unistd::{dup2_stderr, setsid};

use super::{Error, Result, end, launch, take_input};
use crate::launch::orders::{self, Order};
use crate::layout::PodDir;
use crate::sandbox::identity::Identity;
use crate::sandbox::init::rename;
use crate::sandbox::process::containers_namespace;
use crate::sandbox::seccomp;
use crate::sys;

/// Starts supervisors until the agent is gone.
pub(super) fn serve() -> Result<()> {
    let program = std::env::args_os().next().unwrap_or_default();
    let program = program.as_os_str();
    let socket = take_input()?;
    // Signals from the agent's terminal are for the agent.
    let _ = setsid();
    std::env::set_current_dir("/").map_err(Error::system("leave the working directory"))?;
    rename(
        c"launcher",
        &[program.as_bytes(), b"supervise", b"--launcher"],
    );
    seccomp::programs()?;
    if Identity::has_range() {
        // Where it cannot be had, each copy says so of itself.
        let _ = containers_namespace();
    }
    sys::leave_children(true).map_err(Error::system("leave its children alone"))?;
    while let Some((path, order)) =
        orders::receive(&socket).map_err(Error::system("hear from the agent"))?
    {
        match sys::fork_into(CloneFlags::empty()) {
            Ok(None) => {
                drop(socket);
                let result = begin(program, &path, order);
                end(&result);
            }
            Ok(Some(_)) => {}
            Err(error) => {
                let error = Error::system("create the launcher of a pod")(error);
                let _ = writeln!(
                    File::from(order.say),
                    "error: {}",
                    astrago_net::chain(&error)
                );
            }
        }
    }
    Ok(())
}

/// The copy's part: what a program of its own would find when it starts.
fn begin(program: &OsStr, path: &Path, order: Order) -> Result<()> {
    let mut say = Some(File::from(order.say));
    let prepared = sys::leave_children(false)
        .and_then(|()| Ok(dup2_stderr(&order.log)?))
        .map_err(Error::system("detach from the agent"));
    drop(order.log);
    rename(
        c"supervise",
        &[
            program.as_bytes(),
            b"supervise",
            path.as_os_str().as_bytes(),
        ],
    );
    let result = prepared.and_then(|()| launch(&PodDir::at(path), &order.bridges, &mut say));
    if let Some(say) = &mut say {
        let _ = match &result {
            Err(Error::AlreadyRunning) => say.write_all(b"ready\n"),
            Err(error) => writeln!(say, "error: {}", astrago_net::chain(error)),
            Ok(()) => Ok(()),
        };
    }
    result
}
