//! What a container uses, counted process by process; for machines where it has no cgroup.
//!
//! The supervisor's `/proc` shows the pod's processes and no others. Those of one container are in the
//! same PID namespace as its first process.

use std::fs;
use std::path::{Path, PathBuf};

use nix::unistd::Pid;

use crate::control::Usage;

/// Bytes in a page, and clock ticks in a second, as Linux tells them to programs.
const PAGE: u64 = 4096;
const NANOSECONDS_PER_TICK: u64 = 10_000_000;

/// What the processes of a container use. CPU time of those that ended counts once their parent has
/// noticed.
pub(super) fn usage(first: Pid) -> Usage {
    let mut usage = Usage {
        cpu_nanoseconds: Some(0),
        working_set_bytes: Some(0),
        processes: Some(0),
        ..Usage::default()
    };
    for process in of(first) {
        let Some(ticks) = ticks(&process) else {
            continue;
        };
        usage.cpu_nanoseconds = usage
            .cpu_nanoseconds
            .map(|sum| sum + ticks * NANOSECONDS_PER_TICK);
        usage.working_set_bytes = usage.working_set_bytes.map(|sum| sum + resident(&process));
        usage.processes = usage.processes.map(|sum| sum + 1);
    }
    usage
}

/// Whether a container has more memory than `limit`. Pages that processes share count once, which
/// takes time to find out; so that is done only when the simple sum is too large.
pub(super) fn exceeds(first: Pid, limit: u64) -> bool {
    let simple: u64 = of(first).iter().map(|process| resident(process)).sum();
    simple > limit
        && of(first)
            .iter()
            .map(|process| proportional(process))
            .sum::<u64>()
            > limit
}

/// The processes of a container, as this process's `/proc` has them.
pub(crate) fn of(first: Pid) -> Vec<PathBuf> {
    let Ok(space) = fs::read_link(format!("/proc/{first}/ns/pid")) else {
        return Vec::new();
    };
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = all.filter(|entry| {
        entry
            .file_name()
            .as_encoded_bytes()
            .iter()
            .all(u8::is_ascii_digit)
    });
    let paths = processes.map(|entry| entry.path());
    paths
        .filter(|path| fs::read_link(path.join("ns/pid")).is_ok_and(|own| own == space))
        .collect()
}

/// User and system time of a process and of its children that ended.
fn ticks(process: &Path) -> Option<u64> {
    let text = fs::read_to_string(process.join("stat")).ok()?;
    // The name in parentheses may contain anything; the numbers begin after the last one.
    let (_, numbers) = text.rsplit_once(')')?;
    let numbers: Vec<u64> = numbers
        .split_whitespace()
        .skip(11)
        .take(4)
        .filter_map(|word| word.parse().ok())
        .collect();
    Some(numbers.iter().sum())
}

fn resident(process: &Path) -> u64 {
    let text = fs::read_to_string(process.join("statm")).unwrap_or_default();
    text.split_whitespace()
        .nth(1)
        .and_then(|word| word.parse::<u64>().ok())
        .unwrap_or(0)
        * PAGE
}

fn proportional(process: &Path) -> u64 {
    let text = fs::read_to_string(process.join("smaps_rollup")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok())
        .unwrap_or(0)
        * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_something() {
        let own = usage(Pid::this());
        assert!(own.working_set_bytes.unwrap() > 1 << 20);
        assert!(own.processes.unwrap() >= 1);
        assert!(exceeds(Pid::this(), 1 << 10));
        assert!(!exceeds(Pid::this(), 1 << 50));
    }
}
