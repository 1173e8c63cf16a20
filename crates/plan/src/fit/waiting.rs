//! The reason for waiting, as a sentence for people that programs can read back.
//!
//! The scheduler writes it as the message of the pod condition `PodScheduled=False`; the REST API
//! and the page parse it. Queue positions from ten on are rounded down ("20+ jobs ahead"), so that
//! a long queue is not rewritten whenever one job leaves it.

use std::fmt;
use std::str::FromStr;

use astrago_api::quantity::{Amount, Form};

use super::resources::{CPU, GPU, MEMORY, PODS};

/// Why a pod waits and how many jobs are before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    pub cause: Cause,
    pub ahead: Ahead,
}

/// A number of jobs, exact below ten and rounded down to its leading digit from there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ahead(u64);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// All nodes together have too little free.
    Shortage {
        resource: String,
        needed: Amount,
        free: Amount,
    },
    /// There is enough, but not on one node.
    Scattered {
        resource: String,
        needed: Amount,
        free: Amount,
    },
    /// There is enough of everything, but not where it is needed together.
    Room {
        pods: u64,
        fits: u64,
    },
    /// One pod is bigger than any node.
    TooBig {
        resource: String,
        needed: Amount,
        largest: Amount,
    },
    /// All pods are bigger than all nodes.
    TooMuch {
        resource: String,
        needed: Amount,
        all: Amount,
    },
    NotTogether {
        pods: u64,
    },
    NoNodeSelected,
    NoNodeAffine,
    Tainted,
    Cordoned,
    NotReady,
    /// The namespace has used up a quota.
    Quota {
        quota: String,
        resource: String,
        needed: Amount,
        free: Amount,
    },
    /// The job is bigger than the whole quota.
    OverQuota {
        quota: String,
        resource: String,
        needed: Amount,
        hard: Amount,
    },
    /// It would fit, but could delay a job that is before it.
    Kept,
    /// Not all pods of the gang exist yet.
    Pods {
        missing: u64,
    },
    Gated {
        gate: String,
    },
    NoClaim {
        claim: String,
    },
    /// The pod cannot be read; the text says why.
    Invalid {
        reason: String,
    },
}

impl Cause {
    /// Whether waiting is in vain as long as nodes and quotas stay as they are.
    pub fn is_final(&self) -> bool {
        matches!(
            self,
            Self::TooBig { .. }
                | Self::TooMuch { .. }
                | Self::NotTogether { .. }
                | Self::NoNodeSelected
                | Self::NoNodeAffine
                | Self::Tainted
                | Self::OverQuota { .. }
                | Self::Invalid { .. }
        )
    }
}

impl Ahead {
    pub fn new(jobs: usize) -> Self {
        let jobs = jobs as u64;
        let digits = jobs.checked_ilog10().unwrap_or(0);
        let step = 10_u64.pow(digits);
        Self(jobs / step * step)
    }

    pub fn at_least(self) -> u64 {
        self.0
    }

    pub fn is_exact(self) -> bool {
        self.0 < 10
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.cause)?;
        match self.ahead.0 {
            0 => Ok(()),
            1 => f.write_str("; 1 job ahead"),
            jobs if self.ahead.is_exact() => write!(f, "; {jobs} jobs ahead"),
            jobs => write!(f, "; {jobs}+ jobs ahead"),
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shortage {
                resource,
                needed,
                free,
            } => {
                let (needed, free) = (phrase(resource, *needed), number(resource, *free));
                write!(f, "needs {needed}, {free} free")
            }
            Self::Scattered {
                resource,
                needed,
                free,
            } => {
                let (needed, free) = (phrase(resource, *needed), number(resource, *free));
                write!(f, "needs {needed} on one node, at most {free} free")
            }
            Self::Room { pods, fits } => {
                write!(
                    f,
                    "needs room for {}, {fits} would fit",
                    counted(*pods, "pod")
                )
            }
            Self::TooBig {
                resource,
                needed,
                largest,
            } => {
                let (needed, largest) = (phrase(resource, *needed), number(resource, *largest));
                write!(
                    f,
                    "needs {needed}, but the largest node has {largest}: can never fit"
                )
            }
            Self::TooMuch {
                resource,
                needed,
                all,
            } => {
                let (needed, all) = (phrase(resource, *needed), number(resource, *all));
                write!(
                    f,
                    "needs {needed}, but all nodes together have {all}: can never fit"
                )
            }
            Self::NotTogether { pods } => {
                let pods = counted(*pods, "pod");
                write!(
                    f,
                    "needs room for {pods}, more than empty nodes have: can never fit"
                )
            }
            Self::NoNodeSelected => f.write_str("no node matches its nodeSelector: can never fit"),
            Self::NoNodeAffine => {
                f.write_str("no node matches its required node affinity: can never fit")
            }
            Self::Tainted => {
                f.write_str("every node has a taint that it does not tolerate: can never fit")
            }
            Self::Cordoned => f.write_str("every suitable node is marked unschedulable"),
            Self::NotReady => f.write_str("no suitable node is ready"),
            Self::Quota {
                quota,
                resource,
                needed,
                free,
            } => {
                let (needed, free) = (phrase(resource, *needed), number(resource, *free));
                write!(f, "needs {needed}, {free} left in quota {quota}")
            }
            Self::OverQuota {
                quota,
                resource,
                needed,
                hard,
            } => {
                let (needed, hard) = (phrase(resource, *needed), number(resource, *hard));
                write!(
                    f,
                    "needs {needed}, but quota {quota} allows {hard}: can never run"
                )
            }
            Self::Kept => f.write_str("fits, but could delay a job ahead"),
            Self::Pods { missing } => {
                write!(f, "waits for {} of its job", counted(*missing, "more pod"))
            }
            Self::Gated { gate } => write!(f, "is held back by scheduling gate {gate}"),
            Self::NoClaim { claim } => {
                write!(f, "waits for volume claim {claim}, which does not exist")
            }
            Self::Invalid { reason } => f.write_str(reason),
        }
    }
}

/// Reads back what [`Display`](fmt::Display) wrote. A sentence of another scheduler is kept as
/// [`Cause::Invalid`] is: as text, with nothing known of it.
impl FromStr for Waiting {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (cause, ahead) = match text.rsplit_once("; ") {
            Some((cause, rest)) => match read_ahead(rest) {
                Some(ahead) => (cause, ahead),
                None => (text, Ahead::default()),
            },
            None => (text, Ahead::default()),
        };
        let cause = read_cause(cause).unwrap_or_else(|| Cause::Invalid {
            reason: cause.to_owned(),
        });
        Ok(Self { cause, ahead })
    }
}

fn read_ahead(text: &str) -> Option<Ahead> {
    let number = text
        .strip_suffix(" jobs ahead")
        .or_else(|| text.strip_suffix(" job ahead"))?;
    number.trim_end_matches('+').parse().ok().map(Ahead)
}

fn read_cause(text: &str) -> Option<Cause> {
    let fixed = [
        Cause::NoNodeSelected,
        Cause::NoNodeAffine,
        Cause::Tainted,
        Cause::Cordoned,
        Cause::NotReady,
        Cause::Kept,
    ];
    if let Some(cause) = fixed.into_iter().find(|cause| cause.to_string() == text) {
        return Some(cause);
    }
    if let Some(rest) = text.strip_prefix("waits for volume claim ") {
        let claim = rest.strip_suffix(", which does not exist")?.to_owned();
        return Some(Cause::NoClaim { claim });
    }
    if let Some(rest) = text.strip_prefix("waits for ") {
        let missing = first_number(rest.strip_suffix(" of its job")?)?;
        return Some(Cause::Pods { missing });
    }
    if let Some(gate) = text.strip_prefix("is held back by scheduling gate ") {
        return Some(Cause::Gated {
            gate: gate.to_owned(),
        });
    }
    if let Some(rest) = text.strip_prefix("needs room for ") {
        let (pods, rest) = rest.split_once(", ")?;
        let pods = first_number(pods)?;
        return match rest.strip_suffix(" would fit") {
            Some(fits) => Some(Cause::Room {
                pods,
                fits: fits.parse().ok()?,
            }),
            None => Some(Cause::NotTogether { pods }),
        };
    }
    let (needed, rest) = text.strip_prefix("needs ")?.split_once(", ")?;
    if let Some(free) = rest.strip_prefix("at most ") {
        let (resource, needed) = read_phrase(needed.strip_suffix(" on one node")?)?;
        let free = free.strip_suffix(" free")?.parse().ok()?;
        return Some(Cause::Scattered {
            resource,
            needed,
            free,
        });
    }
    let (resource, needed) = read_phrase(needed)?;
    if let Some(largest) = rest.strip_prefix("but the largest node has ") {
        let largest = largest.strip_suffix(": can never fit")?.parse().ok()?;
        return Some(Cause::TooBig {
            resource,
            needed,
            largest,
        });
    }
    if let Some(all) = rest.strip_prefix("but all nodes together have ") {
        let all = all.strip_suffix(": can never fit")?.parse().ok()?;
        return Some(Cause::TooMuch {
            resource,
            needed,
            all,
        });
    }
    if let Some(rest) = rest.strip_prefix("but quota ") {
        let (quota, hard) = rest
            .strip_suffix(": can never run")?
            .split_once(" allows ")?;
        let (quota, hard) = (quota.to_owned(), hard.parse().ok()?);
        return Some(Cause::OverQuota {
            quota,
            resource,
            needed,
            hard,
        });
    }
    if let Some((free, quota)) = rest.split_once(" left in quota ") {
        let (free, quota) = (free.parse().ok()?, quota.to_owned());
        return Some(Cause::Quota {
            quota,
            resource,
            needed,
            free,
        });
    }
    let free = rest.strip_suffix(" free")?.parse().ok()?;
    Some(Cause::Shortage {
        resource,
        needed,
        free,
    })
}

fn first_number(text: &str) -> Option<u64> {
    text.split(' ').next()?.parse().ok()
}

fn counted(count: u64, noun: &str) -> String {
    if count == 1 {
        format!("1 {noun}")
    } else {
        format!("{count} {noun}s")
    }
}

/// `4 GPUs`, `1 CPU`, `16Gi memory`, `2 example.com/fpga`.
fn phrase(resource: &str, amount: Amount) -> String {
    let plural = if amount == Amount::whole(1) { "" } else { "s" };
    let number = number(resource, amount);
    match resource {
        GPU => format!("{number} GPU{plural}"),
        CPU => format!("{number} CPU{plural}"),
        PODS => format!("{number} pod{plural}"),
        other => format!("{number} {other}"),
    }
}

fn read_phrase(text: &str) -> Option<(String, Amount)> {
    let (number, noun) = text.split_once(' ')?;
    let resource = match noun {
        "GPU" | "GPUs" => GPU,
        "CPU" | "CPUs" => CPU,
        "pod" | "pods" => PODS,
        other => other,
    };
    Some((resource.to_owned(), number.parse().ok()?))
}

/// Numbers as people write them: `2.5` rather than `2500m`, and bytes with one decimal of the
/// largest suffix that leaves at least one.
fn number(resource: &str, amount: Amount) -> String {
    let units = amount.units_up();
    let in_bytes =
        resource == MEMORY || resource.contains("storage") || amount.form() == Form::Binary;
    if !in_bytes || units < 1024 {
        let text = format!(
            "{}.{:03}",
            amount.millis_up() / 1000,
            amount.millis_up() % 1000
        );
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    let power = units.ilog2() / 10;
    let tenths = i128::from(units) * 10 / (1_i128 << (power * 10));
    let suffix = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][power as usize];
    match tenths % 10 {
        0 => format!("{}{suffix}", tenths / 10),
        tenth => format!("{}.{tenth}{suffix}", tenths / 10),
    }
}
