//! What happens to the server and its pods.

use std::time::Instant;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rustix::process::Signal;

use crate::disk::Disk;
use crate::jobs::Job;
use crate::processes;
use crate::server::{Rest, Server, pause, send};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    KillServer,
    /// Killed, and killed again while it starts.
    KillStart,
    StopServer,
    TerminateServer,
    KillRank,
    KillSupervisor,
    StopSupervisor,
    Suspend,
    FillDisk,
    /// Killed while the disk is full.
    KillOnFullDisk,
    /// Writes wait for a while.
    FreezeDisk,
    /// The disk takes no writes any more, until server and disk are restarted.
    FailDisk,
    /// What was not synced is gone.
    CutPower,
}

/// Those of rounds with jobs; a kill of the server alone is the most frequent.
const WITH_JOBS: [Fault; 11] = [
    Fault::KillServer,
    Fault::KillServer,
    Fault::KillServer,
    Fault::KillStart,
    Fault::StopServer,
    Fault::TerminateServer,
    Fault::KillRank,
    Fault::KillSupervisor,
    Fault::StopSupervisor,
    Fault::Suspend,
    Fault::FreezeDisk,
];

/// Those of rounds without: a job that cannot write has a reason to fail.
const WITHOUT_JOBS: [Fault; 9] = [
    Fault::FillDisk,
    Fault::KillOnFullDisk,
    Fault::FreezeDisk,
    Fault::FailDisk,
    Fault::CutPower,
    Fault::CutPower,
    Fault::KillServer,
    Fault::StopServer,
    Fault::TerminateServer,
];

impl Fault {
    pub(crate) fn choose(random: &mut StdRng, jobs: bool, disk: bool) -> Self {
        let mut all = if jobs {
            WITH_JOBS.to_vec()
        } else {
            WITHOUT_JOBS.to_vec()
        };
        if !disk {
            all.retain(|fault| !fault.needs_disk());
        }
        *all.choose(random).unwrap()
    }

    pub(crate) fn kills(self) -> bool {
        !matches!(
            self,
            Self::StopServer
                | Self::StopSupervisor
                | Self::Suspend
                | Self::FillDisk
                | Self::FreezeDisk
        )
    }

    fn needs_disk(self) -> bool {
        matches!(
            self,
            Self::FillDisk
                | Self::KillOnFullDisk
                | Self::FreezeDisk
                | Self::FailDisk
                | Self::CutPower
        )
    }
}

/// Where the faults happen.
pub(crate) struct Place<'a> {
    pub(crate) server: &'a mut Server,
    pub(crate) rest: &'a Rest,
    pub(crate) jobs: &'a [Job],
    pub(crate) disk: Option<&'a Disk>,
    /// When what was done, for whoever reads a finding.
    pub(crate) timeline: &'a mut Vec<String>,
    pub(crate) began: Instant,
}

impl Place<'_> {
    fn note(&mut self, what: &str) {
        let line = format!("{:8.3}s {what}", self.began.elapsed().as_secs_f64());
        self.timeline.push(line);
    }

    pub(crate) async fn apply(&mut self, fault: Fault, seed: u64) -> Result<(), String> {
        let mut random = StdRng::seed_from_u64(seed);
        let short = random.random_range(0..400);
        self.note(&format!("{fault:?}"));
        match fault {
            Fault::KillServer => self.restart(Signal::KILL, short).await?,
            Fault::TerminateServer => self.restart(Signal::TERM, short).await?,
            Fault::KillStart => {
                self.server.end(Signal::KILL)?;
                self.server.spawn();
                pause(short).await;
                self.restart(Signal::KILL, 0).await?;
            }
            Fault::StopServer => {
                self.server.signal(Signal::STOP);
                pause(4 * short).await;
                self.server.signal(Signal::CONT);
            }
            Fault::KillRank | Fault::KillSupervisor | Fault::StopSupervisor => {
                self.on_a_pod(fault, &mut random).await;
            }
            Fault::Suspend => {
                if let Some(job) = self.jobs.choose(&mut random).cloned() {
                    job.disturb();
                    job.suspend(self.rest, true).await?;
                    self.note(&format!("suspended {}", job.name));
                    pause(3 * short).await;
                    job.suspend(self.rest, false).await?;
                    self.note(&format!("resumed {}", job.name));
                }
            }
            _ => {
                if let Some(disk) = self.disk {
                    self.on_the_disk(fault, disk, short).await?;
                }
            }
        }
        Ok(())
    }

    async fn on_the_disk(&mut self, fault: Fault, disk: &Disk, short: u64) -> Result<(), String> {
        match fault {
            Fault::FillDisk => {
                disk.fill();
                pause(3 * short).await;
                disk.free();
            }
            Fault::KillOnFullDisk => {
                disk.fill();
                pause(short).await;
                self.server.end(Signal::KILL)?;
                disk.free();
                self.server.start()?;
            }
            Fault::FreezeDisk => {
                disk.freeze()?;
                pause(4 * short).await;
                disk.thaw()?;
            }
            Fault::FailDisk => {
                disk.fail()?;
                pause(3 * short).await;
                self.server.end(Signal::TERM)?;
                disk.mount_again().await?;
                self.server.start()?;
            }
            _ => {
                // Nobody hears anything after a power cut, whatever a sync that was under way then says.
                self.server.signal(Signal::STOP);
                disk.cut()?;
                self.server.end(Signal::KILL)?;
                disk.mount_again().await?;
                self.server.start()?;
            }
        }
        self.note("ready");
        Ok(())
    }

    async fn restart(&mut self, signal: Signal, milliseconds: u64) -> Result<(), String> {
        self.server.end(signal)?;
        pause(milliseconds).await;
        self.server.start()?;
        self.note("ready");
        Ok(())
    }

    /// Strikes one pod of one of the jobs, as soon as one runs; not at all when none does for a while.
    async fn on_a_pod(&mut self, fault: Fault, random: &mut StdRng) {
        let mut found = Vec::new();
        for _ in 0..30 {
            // One that is being made has no name yet by which to find its job.
            let pods = processes::pods(&self.server.data).into_iter();
            for (pod, name) in pods.filter(|(_, name)| !name.is_empty()) {
                let processes = match fault {
                    Fault::KillRank => processes::ranks(&pod),
                    _ => processes::supervisors(&pod),
                };
                found.extend(processes.into_iter().map(|id| (id, name.clone())));
            }
            if !found.is_empty() {
                break;
            }
            pause(100).await;
        }
        let Some((id, name)) = found.choose(random) else {
            return;
        };
        self.note(&format!("  process {id} of {name}"));
        if fault == Fault::StopSupervisor {
            send(*id, Signal::STOP);
            pause(random.random_range(0..2000)).await;
            send(*id, Signal::CONT);
            return;
        }
        let rest = |job: &Job| name.strip_prefix(&job.name).map(str::to_owned);
        let is_of = |job: &&Job| rest(job).is_some_and(|rest| rest.starts_with('-'));
        if let Some(job) = self.jobs.iter().find(is_of) {
            job.disturb();
        }
        send(*id, Signal::KILL);
    }
}
