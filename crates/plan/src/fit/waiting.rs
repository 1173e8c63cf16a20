//! Why a pod waits.
//!
//! The scheduler writes it to the pod twice: as the annotation [`labels::WAITING`] for programs, and as
//! the message of the condition `PodScheduled=False` for people. Queue positions from ten on are rounded
//! down ("20+ jobs ahead"), so that a long queue is not rewritten whenever one job leaves it.

use std::fmt;

use astrago_api::labels;
use astrago_api::quantity::{Amount, Form};
use k8s_openapi::api::core::v1::{Pod, PodCondition};
use serde::{Deserialize, Serialize};

use super::resources::{CPU, GPU, MEMORY, PODS};

/// The longest annotation that is read: a pod's owner can write anything there.
const LONGEST: usize = 4096;

/// Why a pod waits and how many jobs are before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    #[serde(flatten)]
    pub cause: Cause,
    #[serde(default, skip_serializing_if = "Ahead::is_none")]
    pub ahead: Ahead,
}

/// A number of jobs, exact below ten and rounded down to its leading digit from there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Ahead(u64);

/// Serialized as `{"code": "shortage", "parameters": {…}}`. Pages translate by the code, so codes are stable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "code", content = "parameters", rename_all = "snake_case")]
pub enum Cause {
    /// All nodes together have too little free.
    #[error("needs {}, {} free", phrase(.resource, *.needed), number(.resource, *.free))]
    Shortage {
        resource: String,
        needed: Amount,
        free: Amount,
    },
    /// There is enough, but not on one node.
    #[error("needs {} on one node, at most {} free", phrase(.resource, *.needed), number(.resource, *.free))]
    Scattered {
        resource: String,
        needed: Amount,
        free: Amount,
    },
    /// There is enough of everything, but not where it is needed together.
    #[error("needs room for {}, {fits} would fit", counted(*.pods, "pod"))]
    Room { pods: u64, fits: u64 },
    /// One pod is bigger than any node.
    #[error(
        "needs {}, but the largest node has {}: can never fit",
        phrase(.resource, *.needed), number(.resource, *.largest)
    )]
    TooBig {
        resource: String,
        needed: Amount,
        largest: Amount,
    },
    /// All pods are bigger than all nodes.
    #[error(
        "needs {}, but all nodes together have {}: can never fit",
        phrase(.resource, *.needed), number(.resource, *.all)
    )]
    TooMuch {
        resource: String,
        needed: Amount,
        all: Amount,
    },
    #[error("needs room for {}, more than empty nodes have: can never fit", counted(*.pods, "pod"))]
    NotTogether { pods: u64 },
    #[error("no node matches its nodeSelector: can never fit")]
    NoNodeSelected,
    #[error("no node matches its required node affinity: can never fit")]
    NoNodeAffine,
    #[error("every node has a taint that it does not tolerate: can never fit")]
    Tainted,
    #[error("every suitable node is marked unschedulable")]
    Cordoned,
    #[error("no suitable node is ready")]
    NotReady,
    /// The namespace has used up a quota.
    #[error("needs {}, {} left in quota {quota}", phrase(.resource, *.needed), number(.resource, *.free))]
    Quota {
        quota: String,
        resource: String,
        needed: Amount,
        free: Amount,
    },
    /// The job is bigger than the whole quota.
    #[error(
        "needs {}, but quota {quota} allows {}: can never run",
        phrase(.resource, *.needed), number(.resource, *.hard)
    )]
    OverQuota {
        quota: String,
        resource: String,
        needed: Amount,
        hard: Amount,
    },
    /// It would fit, but could delay a job that is before it.
    #[error("fits, but could delay a job ahead")]
    Kept,
    /// Not all pods of the gang exist yet.
    #[error("waits for {} of its job", counted(*.missing, "more pod"))]
    Pods { missing: u64 },
    #[error("is held back by scheduling gate {gate}")]
    Gated { gate: String },
    #[error("waits for volume claim {claim}, which does not exist")]
    NoClaim { claim: String },
    /// The pod cannot be read, or another scheduler speaks: nothing is known but the words.
    #[error("{reason}")]
    #[serde(rename = "other")]
    Invalid {
        #[serde(rename = "text")]
        reason: String,
    },
}

impl Waiting {
    /// Why a pod has no machine yet; nothing where nobody has said so.
    pub fn of(pod: &Pod) -> Option<Self> {
        let message = unscheduled(pod)?.message.as_deref()?;
        let foreign = || Self {
            cause: Cause::Invalid {
                reason: message.to_owned(),
            },
            ahead: Ahead::default(),
        };
        (!message.is_empty()).then(|| Self::written_on(pod).unwrap_or_else(foreign))
    }

    /// What our scheduler wrote on a pod. The annotation counts only together with its sentence: another
    /// scheduler, or an older one of ours, may have written the condition since.
    pub fn written_on(pod: &Pod) -> Option<Self> {
        let message = unscheduled(pod)?.message.as_deref()?;
        let annotations = pod.metadata.annotations.as_ref()?;
        let text = annotations
            .get(labels::WAITING)
            .filter(|text| text.len() <= LONGEST)?;
        let waiting: Self = serde_json::from_str(text).ok()?;
        (waiting.to_string() == message).then_some(waiting)
    }
}

fn unscheduled(pod: &Pod) -> Option<&PodCondition> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions
        .iter()
        .find(|condition| condition.type_ == "PodScheduled" && condition.status == "False")
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

    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde passes a reference"
    )]
    fn is_none(&self) -> bool {
        self.0 == 0
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
