//! Why a job failed, in plain words. Pure.
//!
//! Two kinds of evidence are put together: what the system saw (exit codes, signals, out of
//! memory, images) and what the code printed last. The node that failed first speaks: the others
//! mostly fail because it is gone.

mod launchers;
mod lines;

#[cfg(test)]
mod tests;

use jiff::Timestamp;

use self::launchers::Report;
pub(crate) use self::launchers::bare;
use crate::model::{Cause, Failure, FailureKind};

/// What is known about one node at its end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ending {
    pub(crate) worker: i64,
    pub(crate) exit_code: Option<i32>,
    pub(crate) signal: Option<i32>,
    /// The container's reason, such as `OOMKilled` or `ErrImagePull`.
    pub(crate) reason: Option<String>,
    pub(crate) message: Option<String>,
    pub(crate) finished_at: Option<Timestamp>,
    /// The init container that failed, if one did.
    pub(crate) init_container: Option<String>,
    pub(crate) tail: Vec<String>,
}

/// Finds the cause in the endings of a job of this many nodes, some of which may not have ended yet. `condition` is
/// the reason and message of the job's Failed condition.
pub(crate) fn explain(
    endings: &[Ending],
    nodes: i64,
    condition: Option<(&str, &str)>,
) -> Option<Failure> {
    if let Some(("DeadlineExceeded", _)) = condition {
        return Some(Failure {
            kind: FailureKind::Deadline,
            summary: "The job took longer than its deadline allows and was ended.".to_owned(),
            cause: Cause::new("deadline"),
            worker: None,
            exit_code: None,
            permanent: false,
            evidence: Vec::new(),
            hint: Some("raise deadline_seconds, or make the training shorter".to_owned()),
        });
    }
    let first = first_to_fail(endings);
    if let Some(ending) = first {
        return Some(explain_node(ending, nodes > 1));
    }
    let (_, message) = condition?;
    Some(Failure {
        kind: FailureKind::Configuration,
        summary: format!("The job could not be run: {message}"),
        cause: Cause::new("configuration").with("text", message),
        worker: None,
        exit_code: None,
        permanent: false,
        evidence: Vec::new(),
        hint: None,
    })
}

/// The node whose failure is the cause. Nodes that were only told to stop, or that lost their
/// peer, count after one that failed by itself.
fn first_to_fail(endings: &[Ending]) -> Option<&Ending> {
    let failed = |ending: &&Ending| {
        ending.exit_code.is_some_and(|code| code != 0)
            || ending.exit_code.is_none() && ending.reason.is_some()
    };
    let is_victim = |ending: &Ending| {
        let told_to_stop = ending.signal == Some(15) || ending.exit_code == Some(143);
        let lost_its_peer = match lines::find(&ending.tail) {
            Some(found) => found.is_consequence,
            None => lines::report(&ending.tail).is_some_and(|(said, _)| said.signal == Some(15)),
        };
        told_to_stop || lost_its_peer
    };
    endings
        .iter()
        .filter(failed)
        .min_by_key(|ending| (is_victim(ending), ending.finished_at, ending.worker))
}

fn explain_node(ending: &Ending, several: bool) -> Failure {
    let who = if several {
        format!("Worker {}", ending.worker)
    } else {
        "The training".to_owned()
    };
    let found = lines::find(&ending.tail);
    let said = lines::report(&ending.tail);
    let (kind, summary, hint, cause) = from_system(ending, &who)
        .or_else(|| found.as_ref().map(|found| from_lines(found, &who)))
        .unwrap_or_else(|| from_exit_code(ending, said.as_ref().map(|(said, _)| said), &who));
    let cause = if several {
        cause.with("worker", ending.worker)
    } else {
        cause
    };
    let is_permanent = match &found {
        Some(found) => found.is_permanent && cause.code == found.cause.code,
        None => PERMANENT.contains(&cause.code.as_str()),
    };
    let evidence = found
        .map(|found| found.evidence)
        .or_else(|| said.map(|(_, lines)| lines))
        .unwrap_or_else(|| last(&ending.tail, 5));
    Failure {
        kind,
        summary,
        cause,
        worker: Some(ending.worker),
        exit_code: ending.exit_code,
        permanent: is_permanent,
        evidence,
        hint,
    }
}

/// Causes without a line in the log that no further attempt takes away.
const PERMANENT: [&str; 2] = ["command_not_found", "command_not_executable"];

type Verdict = (FailureKind, String, Option<String>, Cause);

/// What the system itself knows for certain.
fn from_system(ending: &Ending, who: &str) -> Option<Verdict> {
    let reason = ending.reason.as_deref().unwrap_or_default();
    let message = ending.message.as_deref().unwrap_or_default();
    if reason == "OOMKilled" {
        let summary =
            format!("{who} needed more memory than its limit and was killed by the kernel.");
        let hint = "raise the memory limit, or use a smaller batch".to_owned();
        let cause = Cause::new("out_of_memory_limit");
        return Some((FailureKind::OutOfMemory, summary, Some(hint), cause));
    }
    if [
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
    ]
    .contains(&reason)
    {
        let summary =
            format!("{who} could not start, because its image could not be fetched: {message}");
        let hint = "check the image's name and tag, and whether it needs a pull secret".to_owned();
        let cause = Cause::new("image_pull").with("text", message);
        return Some((FailureKind::ImagePull, summary, Some(hint), cause));
    }
    if reason.starts_with("CreateContainer")
        || reason == "RunContainerError"
        || reason == "StartError"
    {
        return Some((
            FailureKind::Configuration,
            format!("{who} could not start: {message}"),
            None,
            Cause::new("cannot_start").with("text", message),
        ));
    }
    if let Some(init) = &ending.init_container
        && init.contains("git")
    {
        let summary =
            format!("{who} could not start, because the git repository could not be cloned.");
        let hint = "check the address and the branch, and whether it needs credentials".to_owned();
        let cause = Cause::new("git_clone");
        return Some((FailureKind::GitClone, summary, Some(hint), cause));
    }
    None
}

fn from_lines(found: &lines::Found, who: &str) -> Verdict {
    let (hint, cause) = (found.hint.clone(), found.cause.clone());
    (found.kind, found.summary(who), hint, cause)
}

/// By how the process ended: that of the user, where a launcher says it, and not the launcher itself.
fn from_exit_code(ending: &Ending, said: Option<&Report>, who: &str) -> Verdict {
    let code = said
        .and_then(|said| said.exit_code)
        .or(ending.exit_code)
        .unwrap_or(-1);
    let signal = said
        .map_or(ending.signal, |said| said.signal)
        .or_else(|| (code > 128 && code < 160).then_some(code - 128));
    let place = |cause: Cause| match said.and_then(|said| said.rank) {
        Some(rank) => cause.with("rank", rank),
        None => cause,
    };
    if let Some(signal) = signal {
        let (name, hint) = match signal {
            2 => ("SIGINT, as Ctrl-C sends it", None),
            6 => ("SIGABRT: a library gave up", None),
            7 => (
                "SIGBUS, often a full /dev/shm",
                Some("add a volume with memory at /dev/shm"),
            ),
            9 => (
                "SIGKILL",
                Some("if nobody killed it, it may have run out of memory"),
            ),
            11 => ("SIGSEGV: a crash in native code", None),
            15 => ("SIGTERM: it was told to stop", None),
            _ => ("a signal", None),
        };
        let summary = format!("{who} was ended by signal {signal} ({name}).");
        let cause = place(Cause::new("signal").with("signal", signal));
        return (FailureKind::Signal, summary, hint.map(str::to_owned), cause);
    }
    let (kind, text, cause) = match code {
        127 => (
            FailureKind::CommandNotFound,
            "its command was not found".to_owned(),
            Cause::new("command_not_found"),
        ),
        126 => (
            FailureKind::CommandNotFound,
            "its command may not be executed".to_owned(),
            Cause::new("command_not_executable"),
        ),
        code => (
            FailureKind::NonZeroExit,
            format!("it ended with exit code {code}"),
            place(Cause::new("exit_code").with("exit_code", code)),
        ),
    };
    (kind, format!("{who} failed: {text}."), None, cause)
}

fn last(lines: &[String], count: usize) -> Vec<String> {
    lines[lines.len().saturating_sub(count)..].to_vec()
}
