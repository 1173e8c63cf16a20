//! What launchers print around the output of the processes that they start: `torchrun`, `mpirun`, `deepspeed`,
//! `accelerate`, `horovodrun`. It says how a process ended, and never why.

use std::sync::LazyLock;

use regex::Regex;

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern is a constant and is covered by tests")
}

/// What a launcher may put before a line of its processes, and PyTorch once more before a traceback.
static PREFIX: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^(?:\[[A-Za-z][\w.-]*\d\]: ?|\[[\d,]+\]<std(?:out|err)>: ?)+"));

/// Lines of a launcher's own.
static CHATTER: LazyLock<Regex> = LazyLock::new(|| {
    regex(concat!(
        r"^[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ \d+ torch/distributed/(?:run|launcher|elastic)",
        r"|^\[[^\]]*\] \[[A-Z]+\] \[(?:launch|runner)\.py:",
        r"|^(?:mpirun|Primary job|a non-zero exit code\. Per user)",
    ))
});

/// The exceptions with which a launcher says that one of its processes failed.
const WRAPPERS: [&str; 3] = [
    "ChildFailedError",
    "subprocess.CalledProcessError",
    "Horovod detected that one or more processes exited",
];

static TORCH_CODE: LazyLock<Regex> = LazyLock::new(|| regex(r"^\s+exitcode\s*: (-?\d+) \(pid"));
static TORCH_RANK: LazyLock<Regex> = LazyLock::new(|| regex(r"^\s+rank\s*: (\d+) "));
static SIGNAL: LazyLock<Regex> = LazyLock::new(|| {
    regex(r"process rank (\d+) .*exited on signal (\d+)|died with <Signals\.\w+: (\d+)>")
});
static CODE: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"^\s+Exit code: +(\d+)$|exits with return code = (-?\d+)|returned non-zero exit status (\d+)",
    )
});

/// A line without what a launcher puts before it.
pub(crate) fn bare(line: &str) -> &str {
    &line[PREFIX.find(line).map_or(0, |found| found.end())..]
}

pub(super) fn is_chatter(line: &str) -> bool {
    CHATTER.is_match(line)
}

pub(super) fn is_wrapper(exception: &str) -> bool {
    WRAPPERS.iter().any(|wrapper| exception.contains(wrapper))
}

/// How a launcher says that its first process ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Report {
    /// The line that says it.
    pub(super) at: usize,
    pub(super) rank: Option<i64>,
    pub(super) exit_code: Option<i32>,
    pub(super) signal: Option<i32>,
}

/// Finds the report. The first failure is the one that counts: later ones are processes that were ended because of it.
pub(super) fn report(lines: &[&str]) -> Option<Report> {
    let number = |text: &str| text.parse::<i32>().ok();
    let root = lines
        .iter()
        .rposition(|line| line.starts_with("Root Cause (first observed failure)"));
    if let Some(root) = root {
        let rest = &lines[root..];
        let (offset, code) = rest
            .iter()
            .enumerate()
            .find_map(|(at, line)| Some((at, number(&TORCH_CODE.captures(line)?[1])?)))?;
        let rank = rest
            .iter()
            .find_map(|line| TORCH_RANK.captures(line)?[1].parse().ok());
        return Some(Report {
            rank,
            ..ended(root + offset, code)
        });
    }
    lines.iter().enumerate().find_map(|(at, line)| {
        if let Some(found) = SIGNAL.captures(line) {
            let signal = found.get(2).or_else(|| found.get(3))?;
            return Some(Report {
                rank: found.get(1).and_then(|rank| rank.as_str().parse().ok()),
                ..ended(at, -number(signal.as_str())?)
            });
        }
        let found = CODE.captures(line)?;
        let code = (1..=3).find_map(|group| found.get(group))?;
        Some(ended(at, number(code.as_str())?))
    })
}

/// Python's way to say it: a negative code is a signal.
fn ended(at: usize, code: i32) -> Report {
    Report {
        at,
        rank: None,
        exit_code: (code > 0).then_some(code),
        signal: (code < 0).then_some(-code),
    }
}
