//! What the machine as a whole uses, from `/proc`.

use std::fs;
use std::time::Duration;

use jiff::Timestamp;

/// The machine's counters at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeCounters {
    /// CPU time that was not idle, of all CPUs.
    pub busy_nanoseconds: u64,
    /// Memory that is neither free nor to be freed at once.
    pub memory_bytes: u64,
    pub memory_total_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NodeSample {
    pub at: Timestamp,
    pub window: Duration,
    pub cpu_nanocores: u64,
    pub cpu_nanoseconds: u64,
    pub memory_bytes: u64,
    pub memory_total_bytes: u64,
}

impl NodeCounters {
    pub(super) fn read() -> Option<Self> {
        let stat = fs::read_to_string("/proc/stat").ok()?;
        let memory = fs::read_to_string("/proc/meminfo").ok()?;
        Self::parse(&stat, &memory, rustix::param::clock_ticks_per_second())
    }

    fn parse(stat: &str, memory: &str, ticks_per_second: u64) -> Option<Self> {
        let total = stat.lines().find(|line| line.starts_with("cpu "))?;
        let ticks: Vec<u64> = total
            .split_whitespace()
            .skip(1)
            .filter_map(|field| field.parse().ok())
            .collect();
        // user, nice, system, idle, iowait, irq, softirq, steal; guest time is part of user time.
        let busy: u64 = ticks
            .iter()
            .take(8)
            .enumerate()
            .filter(|(at, _)| !matches!(at, 3 | 4))
            .map(|(_, ticks)| ticks)
            .sum();
        let field = |name: &str| {
            let line = memory.lines().find(|line| line.starts_with(name))?;
            line.split_whitespace()
                .nth(1)?
                .parse::<u64>()
                .ok()
                .map(|kib| kib * 1024)
        };
        let memory_total_bytes = field("MemTotal:")?;
        Some(Self {
            busy_nanoseconds: busy * (1_000_000_000 / ticks_per_second.max(1)),
            memory_bytes: memory_total_bytes.saturating_sub(field("MemAvailable:")?),
            memory_total_bytes,
        })
    }

    pub(super) fn since(&self, before: &Self, window: Duration, at: Timestamp) -> NodeSample {
        let used = self
            .busy_nanoseconds
            .saturating_sub(before.busy_nanoseconds);
        let cpu = u128::from(used) * 1_000_000_000 / window.as_nanos().max(1);
        NodeSample {
            at,
            window,
            cpu_nanocores: u64::try_from(cpu).unwrap_or(u64::MAX),
            cpu_nanoseconds: self.busy_nanoseconds,
            memory_bytes: self.memory_bytes,
            memory_total_bytes: self.memory_total_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_and_free_memory_are_not_use() {
        let stat = "cpu  100 10 50 1000 40 5 5 30 7 0\ncpu0 1 1 1 1\n";
        let memory = "MemTotal: 1000 kB\nMemFree: 100 kB\nMemAvailable: 600 kB\n";
        let before = NodeCounters::parse(stat, memory, 100).unwrap();
        assert_eq!(before.busy_nanoseconds, 2_000_000_000);
        assert_eq!(before.memory_bytes, 400 * 1024);
        let after = NodeCounters {
            busy_nanoseconds: 5_000_000_000,
            ..before
        };
        let sample = after.since(&before, Duration::from_secs(2), Timestamp::UNIX_EPOCH);
        assert_eq!(sample.cpu_nanocores, 1_500_000_000);
    }
}
