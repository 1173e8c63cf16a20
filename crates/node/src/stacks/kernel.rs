//! What `/proc` tells of a container's processes.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use nix::libc;
use nix::unistd::Pid;

use super::{Process as Told, shown};
use crate::supervisor::processes;

/// How much is read of one file.
const FILE: u64 = 4 << 20;
const COMMAND: usize = 256;
const TASKS: usize = 512;
const MODULES: usize = 8;

const MILLISECONDS_PER_TICK: u64 = 10;

/// What starts processes tells them their rank by these: PyTorch's launcher, Open MPI, and those that speak PMI
/// or PMIx. A pod may have `RANK` for its launcher, which then is none of them; so it counts beside `LOCAL_RANK` only.
const RANKS: [(&str, &str); 4] = [
    ("RANK", "LOCAL_RANK"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_RANK"),
    ("PMI_RANK", "PMI_RANK"),
    ("PMIX_RANK", "PMIX_RANK"),
];

pub(super) struct Process {
    pub(super) folder: PathBuf,
    /// Its id there, and in the container.
    outside: u32,
    pid: u32,
}

/// The processes in the namespace of `first`, the oldest first, without its process 1, which is ours; and whether
/// there were more.
pub(super) fn processes(first: Pid, most: usize) -> (Vec<Process>, bool) {
    let mut all: Vec<Process> = processes::of(first)
        .into_iter()
        .filter_map(Process::at)
        .filter(|process| process.pid != 1)
        .collect();
    all.sort_unstable_by_key(|process| process.pid);
    let more = all.len() > most;
    all.truncate(most);
    (all, more)
}

impl Process {
    pub(super) fn at(folder: PathBuf) -> Option<Self> {
        let outside = folder.file_name()?.to_str()?.parse().ok()?;
        let pid = Status::read(&folder.join("status"))?.id?;
        Some(Self {
            folder,
            outside,
            pid,
        })
    }

    /// `None` when it is gone.
    pub(super) fn look(&self) -> Option<Told> {
        let stat = text(&self.folder.join("stat"))?;
        // The name in parentheses may contain anything; the rest begins after the last one.
        let (head, rest) = stat.rsplit_once(')')?;
        let words: Vec<&str> = rest.split_whitespace().take(13).collect();
        let number = |index: usize| words.get(index)?.parse::<u64>().ok();
        let parent = u32::try_from(number(1)?).ok()?;
        let line = bytes(&self.folder.join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        let name = head.split_once('(').map_or("", |(_, name)| name);
        let command = match line.trim_end() {
            "" => format!("[{name}]"),
            line => line.to_owned(),
        };
        let channel = text(&self.folder.join("wchan"));
        Some(Told {
            pid: self.pid,
            parent: self.inside(parent),
            command: shown(&command, COMMAND),
            state: letter(words.first()?),
            cpu_milliseconds: (number(11)?.saturating_add(number(12)?))
                .saturating_mul(MILLISECONDS_PER_TICK),
            rank: self.rank(),
            system_call: text(&self.folder.join("syscall")).and_then(|line| system_call(&line)),
            wait_channel: channel.filter(|name| !name.is_empty() && name != "0"),
            ..Told::default()
        })
    }

    /// The id in the container of another one of it; 0 for one outside.
    fn inside(&self, outside: u32) -> u32 {
        if outside == self.outside {
            return self.pid;
        }
        let path = self.folder.with_file_name(outside.to_string());
        let space = |folder: &Path| fs::read_link(folder.join("ns/pid")).ok();
        let same = space(&path).is_some_and(|other| Some(other) == space(&self.folder));
        let status = same.then(|| Status::read(&path.join("status"))).flatten();
        status.and_then(|status| status.id).unwrap_or_default()
    }

    fn rank(&self) -> Option<u32> {
        let environment = bytes(&self.folder.join("environ"))?;
        let entries = environment.split(|byte| *byte == 0);
        let entries = entries.filter_map(|entry| std::str::from_utf8(entry).ok()?.split_once('='));
        let known: HashMap<&str, &str> = entries.collect();
        RANKS
            .iter()
            .filter(|(_, beside)| known.contains_key(beside))
            .find_map(|(name, _)| known.get(name)?.parse().ok())
    }

    /// Where the program and libraries that may be a Python's are loaded to.
    pub(super) fn modules(&self) -> Vec<u64> {
        let maps = text(&self.folder.join("maps")).unwrap_or_default();
        modules(&maps)
    }

    /// Names and states of its threads, by their ids in the container.
    pub(super) fn threads(&self) -> HashMap<u32, (String, String)> {
        let entries = fs::read_dir(self.folder.join("task"));
        let entries = entries.into_iter().flatten().flatten().take(TASKS);
        let threads = entries.filter_map(|entry| {
            let status = Status::read(&entry.path().join("status"))?;
            Some((status.id?, (status.name, status.state)))
        });
        threads.collect()
    }
}

/// What stands in `/proc/<pid>/status`.
struct Status {
    name: String,
    state: String,
    /// The id in the innermost namespace.
    id: Option<u32>,
}

impl Status {
    fn read(path: &Path) -> Option<Self> {
        let text = text(path)?;
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            Some(line.trim())
        };
        Some(Self {
            name: shown(value("Name:")?, 64),
            state: letter(value("State:")?),
            id: value("NSpid:").and_then(|ids| ids.split_whitespace().last()?.parse().ok()),
        })
    }
}

/// The beginnings of files in `/proc/<pid>/maps`: the program's, and of those that are called after Python. Extension modules are not.
fn modules(maps: &str) -> Vec<u64> {
    let mut seen = Vec::new();
    let mut bases = Vec::new();
    for line in maps.lines() {
        let mut words = line.split_ascii_whitespace();
        let (Some(range), Some(offset), Some(path)) = (words.next(), words.nth(1), words.nth(2))
        else {
            continue;
        };
        let name = path.rsplit('/').next().unwrap_or_default();
        let wanted = seen.is_empty()
            || ["python", "libpython"]
                .iter()
                .any(|it| name.starts_with(it));
        if !wanted || offset != "00000000" || !path.starts_with('/') || seen.contains(&path) {
            continue;
        }
        seen.push(path);
        let base = range.split_once('-').map(|(from, _)| from);
        bases.extend(base.and_then(|base| u64::from_str_radix(base, 16).ok()));
        if bases.len() == MODULES {
            break;
        }
    }
    bases
}

/// The name of the call that `/proc/<pid>/syscall` tells; `None` for a thread that is in none.
fn system_call(line: &str) -> Option<String> {
    const NAMES: [(libc::c_long, &str); 16] = [
        (libc::SYS_futex, "futex"),
        (libc::SYS_ppoll, "ppoll"),
        (libc::SYS_pselect6, "pselect6"),
        (libc::SYS_epoll_pwait, "epoll_pwait"),
        (libc::SYS_read, "read"),
        (libc::SYS_write, "write"),
        (libc::SYS_recvfrom, "recvfrom"),
        (libc::SYS_recvmsg, "recvmsg"),
        (libc::SYS_sendto, "sendto"),
        (libc::SYS_connect, "connect"),
        (libc::SYS_accept4, "accept4"),
        (libc::SYS_nanosleep, "nanosleep"),
        (libc::SYS_clock_nanosleep, "clock_nanosleep"),
        (libc::SYS_wait4, "wait4"),
        (libc::SYS_fsync, "fsync"),
        (libc::SYS_flock, "flock"),
    ];
    #[cfg(target_arch = "x86_64")]
    const OLD: [(libc::c_long, &str); 4] = [
        (libc::SYS_poll, "poll"),
        (libc::SYS_select, "select"),
        (libc::SYS_epoll_wait, "epoll_wait"),
        (libc::SYS_accept, "accept"),
    ];
    #[cfg(not(target_arch = "x86_64"))]
    const OLD: [(libc::c_long, &str); 0] = [];
    let number = line.split_whitespace().next()?;
    let number: libc::c_long = number.parse().ok().filter(|number| *number >= 0)?;
    let known = NAMES.iter().chain(&OLD).find(|(known, _)| *known == number);
    Some(known.map_or_else(|| number.to_string(), |(_, name)| (*name).to_owned()))
}

/// The state of a process or thread, which words follow in some files.
fn letter(state: &str) -> String {
    state.chars().take(1).collect()
}

fn bytes(path: &Path) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    File::open(path)
        .ok()?
        .take(FILE)
        .read_to_end(&mut content)
        .ok()?;
    Some(content)
}

fn text(path: &Path) -> Option<String> {
    bytes(path).map(|content| String::from_utf8_lossy(&content).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_and_pythons_libraries_are_candidates() {
        let maps = "\
5500-5600 r--p 00000000 08:01 1 /opt/app
5600-5700 r-xp 00001000 08:01 1 /opt/app
7f00-7f10 r--p 00000000 08:01 2 /usr/lib/libc.so.6
7f20-7f30 r--p 00000000 08:01 3 /usr/lib/libpython3.11.so.1.0
7f30-7f40 r--p 00000000 08:01 3 /usr/lib/libpython3.11.so.1.0
7f40-7f50 r--p 00000000 08:01 4 /usr/lib/python3.11/lib-dynload/math.cpython-311-x86_64-linux-gnu.so
7f50-7f60 rw-p 00000000 00:00 0
7fff-8000 r-xp 00000000 00:00 0 [python]
";
        assert_eq!(modules(maps), [0x5500, 0x7f20]);
        assert_eq!(modules("nonsense\n\n- - - - - /python"), [0; 0]);
    }

    #[test]
    fn calls_have_names_where_they_are_known() {
        let line = |number: libc::c_long| format!("{number} 0x7f 0x0 0x7f 0x7f");
        assert_eq!(system_call(&line(libc::SYS_futex)).unwrap(), "futex");
        assert_eq!(system_call(&line(4000)).unwrap(), "4000");
        assert_eq!(system_call("running"), None);
        assert_eq!(system_call("-1 0x7f"), None);
    }
}
