//! What the last lines of a log say about a failure.

use super::launchers::{self, Report};
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
    /// Whether the same code fails in the same way however often it is tried.
    pub(super) is_permanent: bool,
}

impl Found {
    pub(super) fn summary(&self, who: &str) -> String {
        format!("{who} {}.", self.what.trim_end_matches('.'))
    }
}

/// How many lines of a stack are shown.
const FRAMES: usize = 8;

/// How far behind an exception its message may go on.
const MESSAGE: usize = 30;

/// The same where the other processes' lines must not be taken for it.
const SHORT_MESSAGE: usize = 3;

/// Finds the most telling lines, or nothing.
pub(super) fn find(tail: &[String]) -> Option<Found> {
    let lines: Vec<&str> = tail.iter().map(|line| launchers::bare(line)).collect();
    let exceptions = exceptions(&lines);
    let own = exceptions
        .iter()
        .filter(|at| !launchers::is_wrapper(lines[**at]));
    // Processes that lost a peer fail after the one that left it; of several failures in one process the last ended it.
    let best = own.max_by_key(|at| {
        let consequence = rule_of(&lines, **at).is_some_and(|(rule, _)| rule.is_consequence);
        (!consequence, **at)
    });
    if let Some(at) = best {
        let evidence = stack(tail, *at);
        return Some(match rule_of(&lines, *at) {
            Some((rule, line)) => rule.found(line, evidence),
            None => exception(lines[*at].trim(), evidence),
        });
    }
    // Without an exception, a message that names the cause counts wherever it stands.
    let said = lines.iter().enumerate().rev();
    let said = said.filter(|(_, line)| !launchers::is_chatter(line));
    let said: Vec<(usize, &str)> = said.map(|(at, line)| (at, *line)).collect();
    let by_message = RULES.iter().find_map(|rule| {
        let (at, line) = said.iter().find(|(_, line)| rule.is_about(line))?;
        Some(rule.found(line, around(tail, *at)))
    });
    // A script that starts others, and says no more than that they failed.
    by_message.or_else(|| {
        let at = *exceptions.last()?;
        let says_how = launchers::report(&lines).is_some();
        (!says_how).then(|| exception(lines[at].trim(), stack(tail, at)))
    })
}

/// How a launcher says that its process ended, with the lines that say so.
pub(super) fn report(tail: &[String]) -> Option<(Report, Vec<String>)> {
    let lines: Vec<&str> = tail.iter().map(|line| launchers::bare(line)).collect();
    let report = launchers::report(&lines)?;
    Some((report, around(tail, report.at)))
}

/// The first rule that an exception's message fits, with the line that fits it.
fn rule_of<'line>(lines: &[&'line str], at: usize) -> Option<(&'static Rule, &'line str)> {
    RULES.iter().find_map(|rule| {
        let length = if rule.is_consequence {
            SHORT_MESSAGE
        } else {
            MESSAGE
        };
        let message = lines[at..].iter().take(length).enumerate();
        let mut message = message
            .take_while(|(offset, line)| *offset == 0 || !is_traceback(line))
            .filter(|(_, line)| !launchers::is_chatter(line));
        let (_, line) = message.find(|(_, line)| rule.is_about(line))?;
        Some((rule, line.trim()))
    })
}

fn exception(line: &str, evidence: Vec<String>) -> Found {
    Found {
        kind: FailureKind::PythonException,
        what: format!("raised an exception: {line}"),
        cause: Cause::new("python_exception").with("text", line),
        hint: None,
        evidence,
        is_consequence: false,
        is_permanent: PERMANENT_EXCEPTIONS
            .iter()
            .any(|name| line.starts_with(name)),
    }
}

/// Exceptions that the same code raises again, whatever happens around it.
const PERMANENT_EXCEPTIONS: [&str; 3] = [
    "NameError:",
    "UnboundLocalError:",
    "ImportError: cannot import name",
];

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
    is_permanent: bool,
}

impl Rule {
    fn is_about(&self, line: &str) -> bool {
        self.words.iter().any(|word| line.contains(word))
    }

    fn found(&self, line: &str, evidence: Vec<String>) -> Found {
        Found {
            kind: self.kind,
            what: (self.what)(line),
            hint: self.hint.map(str::to_owned),
            cause: match self.text {
                Some(words) => Cause::new(self.code).with("text", after(line, words)),
                None => Cause::new(self.code),
            },
            evidence,
            is_consequence: self.is_consequence,
            is_permanent: self.is_permanent,
        }
    }
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
        is_permanent: false,
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
        is_permanent: true,
    },
    Rule {
        words: &["SyntaxError:", "IndentationError:", "TabError:"],
        kind: FailureKind::SyntaxError,
        what: |line| format!("is not valid Python: {line}"),
        hint: None,
        code: "syntax_error",
        text: Some(""),
        is_consequence: false,
        is_permanent: true,
    },
    Rule {
        words: &["MemoryError", "Cannot allocate memory"],
        kind: FailureKind::OutOfMemory,
        what: |_| "ran out of memory".to_owned(),
        hint: Some("raise the memory limit, or use a smaller batch"),
        code: "out_of_memory",
        text: None,
        is_consequence: false,
        is_permanent: false,
    },
    Rule {
        words: &[
            "loss is nan",
            "Loss is nan",
            "loss is NaN",
            "Loss is NaN",
            "is NaN",
            "NaN or Inf",
            "contains NaN",
            "FloatingPointError",
            "non-finite",
        ],
        kind: FailureKind::PythonException,
        what: |line| format!("computed values that are NaN or infinite: {line}"),
        hint: Some("lower the learning rate, clip gradients, and look for bad values in the data"),
        code: "not_finite",
        text: Some(""),
        is_consequence: false,
        is_permanent: false,
    },
    Rule {
        words: &["No space left on device"],
        kind: FailureKind::DiskFull,
        what: |_| "ran out of disk space".to_owned(),
        hint: Some("write to a volume with more room; for /dev/shm add a volume with memory"),
        code: "disk_full",
        text: None,
        is_consequence: false,
        is_permanent: false,
    },
    Rule {
        words: &[
            "Connection closed by peer",
            "Connection reset by peer",
            "Broken pipe",
            "peer closed",
            "got signal: 15",
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
        is_permanent: false,
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
        is_permanent: false,
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
        what: |_| "could not connect to the other workers at the start".to_owned(),
        hint: Some(
            "all workers must start and use the same MASTER_ADDR, MASTER_PORT and WORLD_SIZE",
        ),
        code: "rendezvous_failed",
        text: None,
        is_consequence: true,
        is_permanent: false,
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
        is_permanent: false,
    },
    Rule {
        words: &["command not found", "No such file or directory: 'python"],
        kind: FailureKind::CommandNotFound,
        what: |line| format!("could not find its command: {line}"),
        hint: Some("check the command, and whether the image has the program"),
        code: "command_not_found",
        text: Some(""),
        is_consequence: false,
        is_permanent: true,
    },
    Rule {
        words: &["can't open file"],
        kind: FailureKind::FileNotFound,
        what: |line| format!("did not find its script: {line}"),
        hint: Some("training code appears at /workspace/scripts"),
        code: "script_not_found",
        text: Some(""),
        is_consequence: false,
        is_permanent: true,
    },
    Rule {
        words: &[
            "error: the following arguments are required",
            "error: unrecognized arguments",
            "error: argument ",
        ],
        kind: FailureKind::Configuration,
        what: |line| format!("was given wrong arguments: {}", after(line, "error:")),
        hint: Some("check the arguments of the command"),
        code: "arguments",
        text: Some("error:"),
        is_consequence: false,
        is_permanent: true,
    },
    Rule {
        words: &["FileNotFoundError"],
        kind: FailureKind::FileNotFound,
        what: |line| format!("did not find a file: {line}"),
        hint: Some("training code appears at /workspace/scripts; data must be mounted as a volume"),
        code: "file_not_found",
        text: Some(""),
        is_consequence: false,
        is_permanent: false,
    },
];

fn is_traceback(line: &str) -> bool {
    line.contains("Traceback (most recent call last)")
}

/// Where Python's exceptions stand: the lines that follow their tracebacks. Those of several processes may be mixed.
fn exceptions(lines: &[&str]) -> Vec<usize> {
    let starts = (0..lines.len()).filter(|at| is_traceback(lines[*at]));
    let mut found: Vec<usize> = starts
        .filter_map(|start| {
            let rest = &lines[start + 1..];
            let offset = rest.iter().position(|line| is_exception(line))?;
            Some(start + 1 + offset)
        })
        .collect();
    found.dedup();
    found
}

/// `ValueError: bad shape` or `my.package.Problem`, at the start of its line.
fn is_exception(line: &str) -> bool {
    let name = line.split([':', ' ']).next().unwrap_or_default();
    let rest = &line[name.len()..];
    let dotted = name.split('.').all(|part| {
        part.starts_with(|c: char| c.is_alphabetic() || c == '_')
            && part.chars().all(|c| c.is_alphanumeric() || c == '_')
    });
    let class = name.rsplit('.').next().unwrap_or_default();
    dotted
        && class.starts_with(char::is_uppercase)
        && (rest.trim().is_empty() || rest.starts_with(':'))
}

/// The last frames of the stack and the exception itself.
fn stack(tail: &[String], at: usize) -> Vec<String> {
    let first = at.saturating_sub(FRAMES);
    let start = tail[first..at].iter().rposition(|line| is_traceback(line));
    tail[first + start.unwrap_or(0)..=at].to_vec()
}

fn around(tail: &[String], at: usize) -> Vec<String> {
    tail[at.saturating_sub(2)..tail.len().min(at + 3)].to_vec()
}

fn after<'line>(line: &'line str, words: &str) -> &'line str {
    line.split_once(words).map_or(line, |(_, rest)| rest.trim())
}
