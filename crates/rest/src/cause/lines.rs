//! What the last lines of a log say about a failure.

use crate::model::{Cause, FailureKind};

/// A cause that was found in a log.
pub(super) struct Found {
    pub(super) kind: FailureKind,
    /// What happened, to stand after "Worker 1".
    what: String,
    pub(super) hint: Option<String>,
    /// The same for programs.
    pub(super) cause: Cause,
    pub(super) evidence: Vec<String>,
    /// Whether it is what happens to a node whose peer has gone.
    pub(super) is_consequence: bool,
}

impl Found {
    pub(super) fn summary(&self, who: &str) -> String {
        format!("{who} {}.", self.what.trim_end_matches('.'))
    }
}

/// How many lines of a stack are shown.
const FRAMES: usize = 8;

/// Finds the most telling lines, or nothing.
pub(super) fn find(tail: &[String]) -> Option<Found> {
    let exception = exception(tail);
    let text = exception.as_ref().map_or("", |(_, line)| line.as_str());
    // A message that names the cause counts wherever it stands; the exception is more exact.
    let everywhere = || std::iter::once(text).chain(tail.iter().rev().map(String::as_str));
    for rule in RULES {
        if let Some(line) =
            everywhere().find(|line| rule.words.iter().any(|word| line.contains(word)))
        {
            let evidence = match &exception {
                Some((at, _)) => stack(tail, *at),
                None => around(tail, line),
            };
            return Some(Found {
                kind: rule.kind,
                what: (rule.what)(line),
                hint: rule.hint.map(str::to_owned),
                cause: match rule.text {
                    Some(words) => Cause::new(rule.code).with("text", after(line, words)),
                    None => Cause::new(rule.code),
                },
                evidence,
                is_consequence: rule.is_consequence,
            });
        }
    }
    let (at, line) = exception?;
    Some(Found {
        kind: FailureKind::PythonException,
        what: format!("raised an exception: {line}"),
        cause: Cause::new("python_exception").with("text", line.as_str()),
        hint: None,
        evidence: stack(tail, at),
        is_consequence: false,
    })
}

struct Rule {
    words: &'static [&'static str],
    kind: FailureKind,
    what: fn(&str) -> String,
    hint: Option<&'static str>,
    /// The name of this cause for programs.
    code: &'static str,
    /// With what comes after these words in the line as its `text`; the whole line without them.
    text: Option<&'static str>,
    is_consequence: bool,
}

const RULES: &[Rule] = &[
    Rule {
        words: &[
            "CUDA out of memory",
            "OutOfMemoryError: CUDA",
            "OOM when allocating tensor",
            "CUBLAS_STATUS_ALLOC_FAILED",
        ],
        kind: FailureKind::GpuOutOfMemory,
        what: |_| "ran out of GPU memory".to_owned(),
        hint: Some("use a smaller batch, or more or larger GPUs"),
        code: "gpu_out_of_memory",
        text: None,
        is_consequence: false,
    },
    Rule {
        words: &["ModuleNotFoundError", "ImportError: No module named"],
        kind: FailureKind::MissingModule,
        what: |line| {
            format!(
                "needs a Python module that its environment does not have: {}",
                after(line, "No module named")
            )
        },
        hint: Some("use an image, or with --images host a --python environment, that has it"),
        code: "missing_module",
        text: Some("No module named"),
        is_consequence: false,
    },
    Rule {
        words: &["SyntaxError:", "IndentationError:", "TabError:"],
        kind: FailureKind::SyntaxError,
        what: |line| format!("could not be read by Python: {line}"),
        hint: None,
        code: "syntax_error",
        text: Some(""),
        is_consequence: false,
    },
    Rule {
        words: &["MemoryError", "Cannot allocate memory"],
        kind: FailureKind::OutOfMemory,
        what: |_| "ran out of memory".to_owned(),
        hint: Some("raise the memory limit, or use a smaller batch"),
        code: "out_of_memory",
        text: None,
        is_consequence: false,
    },
    Rule {
        words: &["No space left on device"],
        kind: FailureKind::DiskFull,
        what: |_| "found no space left to write to".to_owned(),
        hint: Some("write to a volume with more room; for /dev/shm add a volume with memory"),
        code: "disk_full",
        text: None,
        is_consequence: false,
    },
    Rule {
        words: &[
            "Connection closed by peer",
            "Connection reset by peer",
            "Broken pipe",
            "peer closed",
            "SIGTERM",
            "ncclRemoteError",
            "failed to be reached by",
            "UnavailableError",
        ],
        kind: FailureKind::CollectiveTimeout,
        what: |_| "lost the connection to another worker".to_owned(),
        hint: Some("look at the log of the worker that ended first"),
        code: "peer_lost",
        text: None,
        is_consequence: true,
    },
    Rule {
        words: &[
            "Watchdog caught collective operation timeout",
            "Timed out waiting",
            "collective operation timeout",
            "gloo timeout",
        ],
        kind: FailureKind::CollectiveTimeout,
        what: |_| "waited too long for the other workers in a collective operation".to_owned(),
        hint: Some("one worker may hang or be much slower; compare their logs"),
        code: "collective_timeout",
        text: None,
        is_consequence: true,
    },
    Rule {
        words: &[
            "RendezvousConnectionError",
            "RendezvousTimeoutError",
            "DistStoreError",
            "client socket has timed out",
            "DistNetworkError",
            "The client socket has failed to connect",
        ],
        kind: FailureKind::RendezvousFailed,
        what: |_| "could not meet the other workers at the start".to_owned(),
        hint: Some(
            "all workers must start and use the same MASTER_ADDR, MASTER_PORT and WORLD_SIZE",
        ),
        code: "rendezvous_failed",
        text: None,
        is_consequence: true,
    },
    Rule {
        words: &[
            "fatal: Remote branch",
            "fatal: repository",
            "fatal: could not read from remote",
            "fatal: unable to access",
            "Could not resolve host",
        ],
        kind: FailureKind::GitClone,
        what: |line| format!("could not fetch its code or data: {line}"),
        hint: Some("check the address and the branch, and whether this machine may reach it"),
        code: "fetch_failed",
        text: Some(""),
        is_consequence: false,
    },
    Rule {
        words: &["command not found", "No such file or directory: 'python"],
        kind: FailureKind::CommandNotFound,
        what: |line| format!("could not find its command: {line}"),
        hint: Some("check the command, and whether the image has the program"),
        code: "command_not_found",
        text: Some(""),
        is_consequence: false,
    },
    Rule {
        words: &["FileNotFoundError", "can't open file"],
        kind: FailureKind::FileNotFound,
        what: |line| format!("did not find a file: {line}"),
        hint: Some("training code appears at /workspace/scripts; data must be mounted as a volume"),
        code: "file_not_found",
        text: Some(""),
        is_consequence: false,
    },
];

/// The last Python exception: the line that follows its traceback.
fn exception(tail: &[String]) -> Option<(usize, String)> {
    let start = tail
        .iter()
        .rposition(|line| line.contains("Traceback (most recent call last)"))?;
    let offset = tail[start + 1..].iter().position(|line| {
        let line = strip_rank(line);
        !line.is_empty()
            && !line.starts_with([' ', '\t'])
            && line.contains(|c: char| c.is_ascii_uppercase())
    })?;
    let at = start + 1 + offset;
    Some((at, strip_rank(&tail[at]).trim().to_owned()))
}

/// A line without the `[rank1]: ` that newer PyTorch puts before each line of a traceback.
fn strip_rank(line: &str) -> &str {
    let Some(rest) = line.strip_prefix("[rank") else {
        return line;
    };
    rest.split_once("]: ").map_or(line, |(_, text)| text)
}

/// The last frames of the stack and the exception itself.
fn stack(tail: &[String], at: usize) -> Vec<String> {
    tail[at.saturating_sub(FRAMES)..=at].to_vec()
}

fn around(tail: &[String], line: &str) -> Vec<String> {
    let at = tail.iter().rposition(|one| one == line).unwrap_or(0);
    tail[at.saturating_sub(2)..tail.len().min(at + 3)].to_vec()
}

fn after<'line>(line: &'line str, words: &str) -> &'line str {
    line.split_once(words).map_or(line, |(_, rest)| rest.trim())
}
