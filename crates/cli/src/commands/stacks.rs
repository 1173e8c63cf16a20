//! `astrago stacks`: what the processes of a job are doing.

use std::fmt::Write as _;

use anyhow::Result;
use astrago_rest::model::{JobStacks, ProcessStacks, StacksProblem, ThreadStack, WorkerStacks};
use owo_colors::OwoColorize;

use super::job::{connect, path};
use crate::args::{Connection, Format, Stacks};
use crate::output;

pub(crate) async fn stacks(connection: &Connection, format: Format, wanted: &Stacks) -> Result<()> {
    let (client, mut query) = connect(connection).await?;
    query.extend(wanted.worker.map(|worker| ("worker", worker.to_string())));
    let stacks: JobStacks = client.get(&path(&wanted.name, "/stacks"), &query).await?;
    output::print(format, &stacks, |wide| draw(&stacks, wide))
}

/// Processes that train, and with `-o wide` all others.
pub(super) fn draw(stacks: &JobStacks, wide: bool) -> String {
    let mut text = String::new();
    for worker in &stacks.workers {
        if let Some(problem) = worker.problem {
            let _ = writeln!(text, "worker {}: {}\n", worker.worker, words(problem));
        }
        let shown = worker.processes.iter();
        let shown = shown.filter(|process| wide || process.rank.is_some());
        let count = shown.clone().count();
        for process in shown {
            text.push_str(&draw_process(worker, process));
        }
        let hidden = worker.processes.len() - count;
        if hidden > 0 {
            let noun = if hidden == 1 { "process" } else { "processes" };
            let _ = writeln!(text, "{hidden} other {noun}; -o wide shows them\n");
        }
        if worker.truncated {
            text.push_str("there are more processes than this; the list is cut off\n\n");
        }
    }
    text
}

fn words(problem: StacksProblem) -> &'static str {
    match problem {
        StacksProblem::NotRunning => "it is not running",
        StacksProblem::Unsupported => "its machine is not run by Astrago, so it cannot be asked",
        StacksProblem::Unavailable => "its machine did not answer",
    }
}

fn draw_process(worker: &WorkerStacks, process: &ProcessStacks) -> String {
    let mut text = String::new();
    let who = match process.rank {
        Some(rank) => format!("rank {rank}"),
        None => "process".to_owned(),
    };
    let call = process
        .system_call
        .as_ref()
        .or(process.wait_channel.as_ref());
    let call = call.map(|call| format!(" in {call}")).unwrap_or_default();
    let python = process.python.as_ref();
    let python = python.map(|version| format!(", Python {version}"));
    #[expect(clippy::cast_precision_loss, reason = "one decimal is shown")]
    let seconds = process.cpu_milliseconds as f64 / 1000.0;
    let _ = writeln!(
        text,
        "{} on worker {}, pid {}: {}{call}, {} s of CPU{}",
        who.bold(),
        worker.worker,
        process.pid,
        state(&process.state),
        output::short(seconds),
        python.unwrap_or_default(),
    );
    let _ = writeln!(text, "  {}", process.command.dimmed());
    for thread in &process.threads {
        text.push_str(&draw_thread(thread));
    }
    text.push('\n');
    text
}

fn draw_thread(thread: &ThreadStack) -> String {
    let mut text = "  thread".to_owned();
    if let Some(id) = thread.id {
        let _ = write!(text, " {id}");
    }
    if let Some(name) = &thread.name {
        let _ = write!(text, " {name}");
    }
    text.push('\n');
    for frame in &thread.frames {
        let line = frame.line.map(|line| format!(":{line}"));
        let place = format!("{}{}", frame.file, line.unwrap_or_default());
        let _ = writeln!(text, "    {} ({place})", frame.function);
    }
    if thread.truncated {
        text.push_str("    …\n");
    }
    text
}

/// A state in words; the letters are those of `ps`.
pub(crate) fn state(letter: &str) -> &str {
    match letter {
        "R" => "running",
        "S" => "sleeping",
        "D" => "waiting for a device",
        "T" | "t" => "stopped",
        "Z" | "X" => "ended",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use astrago_rest::model::StackFrame;

    use super::*;

    #[test]
    fn a_rank_is_shown_with_its_stack_and_others_are_counted() {
        let rank = ProcessStacks {
            pid: 7,
            command: "python train.py".to_owned(),
            state: "S".to_owned(),
            cpu_milliseconds: 1500,
            rank: Some(0),
            system_call: Some("futex".to_owned()),
            python: Some("3.12.1".to_owned()),
            threads: vec![ThreadStack {
                id: Some(7),
                frames: vec![StackFrame {
                    file: "train.py".to_owned(),
                    line: Some(3),
                    function: "main".to_owned(),
                }],
                ..ThreadStack::default()
            }],
            ..ProcessStacks::default()
        };
        let worker = WorkerStacks {
            processes: vec![rank, ProcessStacks::default()],
            ..WorkerStacks::default()
        };
        let stacks = JobStacks {
            workers: vec![worker],
        };
        let text = anstream::adapter::strip_str(&draw(&stacks, false)).to_string();
        assert_eq!(
            text,
            "rank 0 on worker 0, pid 7: sleeping in futex, 1.5 s of CPU, Python 3.12.1\n  \
             python train.py\n  thread 7\n    main (train.py:3)\n\n1 other process; -o wide shows them\n\n"
        );
    }
}
