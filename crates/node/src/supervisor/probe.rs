//! Probes and hooks. Each check is a process: its exit code says how it went, its end is noticed like
//! any other, and a check that hangs is killed. So the supervisor needs no thread and never waits.

mod grpc;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use nix::sched::CloneFlags;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::spec::{ContainerSpec, Handler, Probe};
use crate::sys;

/// What a probe is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Purpose {
    Startup,
    Readiness,
    Liveness,
}

impl Purpose {
    /// How a failure of such a probe begins.
    pub(super) fn failure(self) -> &'static str {
        match self {
            Self::Startup => "Startup probe failed",
            Self::Readiness => "Readiness probe failed",
            Self::Liveness => "Liveness probe failed",
        }
    }
}

/// What a probe's result means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Not yet as often as it takes.
    Undecided,
    /// Failed, and not yet as often as it takes.
    Missed(Purpose),
    Good(Purpose),
    Bad(Purpose),
}

/// All probes of a running container.
pub(super) struct Probes {
    checks: BTreeMap<Purpose, Check>,
}

struct Check {
    probe: Probe,
    due: Instant,
    running: Option<(Pid, Instant)>,
    successes: u32,
    failures: u32,
}

impl Probes {
    pub(super) fn new(container: &ContainerSpec) -> Self {
        let now = Instant::now();
        let all = [
            (Purpose::Startup, &container.startup_probe),
            (Purpose::Readiness, &container.readiness_probe),
            (Purpose::Liveness, &container.liveness_probe),
        ];
        let checks = all.into_iter().filter_map(|(purpose, probe)| {
            let probe = probe.clone()?;
            let due = now + Duration::from_secs(probe.initial_delay_seconds);
            Some((
                purpose,
                Check {
                    probe,
                    due,
                    running: None,
                    successes: 0,
                    failures: 0,
                },
            ))
        });
        Self {
            checks: checks.collect(),
        }
    }

    /// One of the probes.
    pub(super) fn get(&self, purpose: Purpose) -> Option<&Probe> {
        self.checks.get(&purpose).map(|check| &check.probe)
    }

    /// When something is to be done.
    pub(super) fn wake(&self, started: bool) -> Option<Instant> {
        self.active(started)
            .map(|(_, check)| check.running.map_or(check.due, |(_, deadline)| deadline))
            .min()
    }

    /// Probes that should begin now. Until the startup probe is done, no other runs.
    pub(super) fn due(&self, started: bool, now: Instant) -> Vec<(Purpose, Handler, u64)> {
        self.active(started)
            .filter(|(_, check)| check.running.is_none() && check.due <= now)
            .map(|(purpose, check)| {
                (
                    *purpose,
                    check.probe.handler.clone(),
                    check.probe.timeout_seconds,
                )
            })
            .collect()
    }

    /// Writes down that a check runs, or that it could not.
    pub(super) fn begun(&mut self, purpose: Purpose, pid: Option<Pid>, now: Instant) -> Verdict {
        let Some(check) = self.checks.get_mut(&purpose) else {
            return Verdict::Undecided;
        };
        check.due = now + Duration::from_secs(check.probe.period_seconds.max(1));
        if let Some(pid) = pid {
            check.running = Some((
                pid,
                now + Duration::from_secs(check.probe.timeout_seconds.max(1)),
            ));
            return Verdict::Undecided;
        }
        check.count(purpose, false)
    }

    /// Takes the end of a check, if the process was one.
    pub(super) fn ended(&mut self, pid: Pid, good: bool) -> Option<Verdict> {
        let (purpose, check) = self
            .checks
            .iter_mut()
            .find(|(_, check)| check.running.is_some_and(|(running, _)| running == pid))?;
        check.running = None;
        Some(check.count(*purpose, good))
    }

    /// Kills checks that take too long; their end is a failure like any other.
    pub(super) fn kill_late(&mut self, now: Instant) {
        for check in self.checks.values_mut() {
            if let Some((pid, deadline)) = &mut check.running
                && *deadline <= now
            {
                let _ = kill(*pid, Signal::SIGKILL);
                *deadline = now + Duration::from_secs(1);
            }
        }
    }

    fn active(&self, started: bool) -> impl Iterator<Item = (&Purpose, &Check)> {
        self.checks
            .iter()
            .filter(move |(purpose, _)| (**purpose == Purpose::Startup) != started)
    }
}

impl Check {
    fn count(&mut self, purpose: Purpose, good: bool) -> Verdict {
        if good {
            self.successes += 1;
            self.failures = 0;
            if self.successes >= self.probe.success_threshold.max(1) {
                return Verdict::Good(purpose);
            }
        } else {
            self.failures += 1;
            self.successes = 0;
            if self.failures >= self.probe.failure_threshold.max(1) {
                return Verdict::Bad(purpose);
            }
            return Verdict::Missed(purpose);
        }
        Verdict::Undecided
    }
}

/// What a probe does, in short.
pub(super) fn described(handler: &Handler) -> String {
    const LONGEST: usize = 200;
    let text = match handler {
        Handler::Exec { argv } => argv.join(" "),
        Handler::Tcp { host, port } => format!("connection to {host}:{port}"),
        Handler::Http {
            host, port, path, ..
        } => format!("GET http://{host}:{port}{path}"),
        Handler::Grpc { host, port, .. } => format!("health of {host}:{port} by gRPC"),
        Handler::Sleep { seconds } => format!("sleep {seconds}"),
    };
    text.chars().take(LONGEST).collect()
}

/// Starts a check that needs nothing of the container but its network, in which the supervisor is too.
#[expect(
    clippy::disallowed_methods,
    reason = "a hook that is to wait does nothing else"
)]
pub(super) fn spawn(handler: &Handler, timeout: Duration) -> std::io::Result<Pid> {
    if let Some(pid) = sys::fork_into(CloneFlags::empty())? {
        return Ok(pid);
    }
    let good = match handler {
        Handler::Tcp { host, port } => connect(host, *port, timeout).is_ok(),
        Handler::Http {
            host,
            port,
            path,
            headers,
        } => get(host, *port, path, headers, timeout)
            .is_ok_and(|status| (200..400).contains(&status)),
        Handler::Grpc {
            host,
            port,
            service,
        } => connect(host, *port, timeout)
            .and_then(|mut stream| grpc::serves(&mut stream, host, service))
            .unwrap_or(false),
        Handler::Sleep { seconds } => {
            std::thread::sleep(Duration::from_secs(*seconds));
            true
        }
        Handler::Exec { .. } => false,
    };
    sys::end(i32::from(!good));
}

fn connect(host: &str, port: u16, timeout: Duration) -> std::io::Result<TcpStream> {
    let address = (host, port)
        .to_socket_addrs()?
        .next()
        .ok_or(std::io::ErrorKind::NotFound)?;
    let stream = TcpStream::connect_timeout(&address, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    Ok(stream)
}

fn get(
    host: &str,
    port: u16,
    path: &str,
    headers: &[(String, String)],
    timeout: Duration,
) -> std::io::Result<u16> {
    let mut stream = connect(host, port, timeout)?;
    let mut request =
        format!("GET {path} HTTP/1.1\r\nConnection: close\r\nUser-Agent: kube-probe/astrago\r\n");
    if !headers
        .iter()
        .any(|(name, _)| name.eq_ignore_ascii_case("host"))
    {
        let _ = write!(request, "Host: {host}:{port}\r\n");
    }
    for (name, value) in headers {
        let _ = write!(request, "{name}: {value}\r\n");
    }
    request += "\r\n";
    stream.write_all(request.as_bytes())?;
    let mut line = Vec::new();
    let mut byte = [0];
    while line.len() < 256 && stream.read(&mut byte)? == 1 && byte[0] != b'\n' {
        line.push(byte[0]);
    }
    let line = String::from_utf8_lossy(&line).into_owned();
    let status = line
        .split(' ')
        .nth(1)
        .and_then(|word| word.trim().parse().ok());
    status.ok_or_else(|| std::io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn probe(successes: u32, failures: u32) -> Probe {
        Probe {
            handler: Handler::Tcp {
                host: "10.0.0.1".to_owned(),
                port: 0,
            },
            initial_delay_seconds: 0,
            period_seconds: 1,
            timeout_seconds: 1,
            success_threshold: successes,
            failure_threshold: failures,
            grace_seconds: None,
        }
    }

    /// `+` is a success, `-` a failure; of the verdicts the same, `?` if there is none yet, `!` for a failure that does
    /// not count yet.
    #[rstest]
    #[case::at_once(1, 1, "+-+", "+-+")]
    #[case::patient(1, 3, "---+--", "!!-+!!")]
    #[case::demanding(2, 1, "++-+", "?+-?")]
    fn a_probe_counts_what_comes_in_a_row(
        #[case] successes: u32,
        #[case] failures: u32,
        #[case] results: &str,
        #[case] want: &str,
    ) {
        let mut check = Check {
            probe: probe(successes, failures),
            due: Instant::now(),
            running: None,
            successes: 0,
            failures: 0,
        };
        let verdicts =
            results.chars().map(
                |result| match check.count(Purpose::Readiness, result == '+') {
                    Verdict::Undecided => '?',
                    Verdict::Missed(_) => '!',
                    Verdict::Good(_) => '+',
                    Verdict::Bad(_) => '-',
                },
            );
        assert_eq!(verdicts.collect::<String>(), want);
    }
}
