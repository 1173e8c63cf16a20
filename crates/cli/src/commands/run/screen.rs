//! What `astrago run` says beside the job's own output: a line that stays up to date on a terminal,
//! and a line per change elsewhere.

use std::cell::RefCell;
use std::io::stderr;

use anyhow::Result;
use astrago_rest::model::{JobDetail, JobState, LogLine};
use owo_colors::OwoColorize;
use tokio::sync::Notify;

use crate::commands::jobs::colour;
use crate::commands::logs;
use crate::output::{self, duration, short};

pub(super) struct Screen {
    live: bool,
    /// Whether the job's own output is printed.
    prints: bool,
    /// Whether lines carry their worker.
    prefix: bool,
    status: RefCell<String>,
    before: RefCell<Option<Seen>>,
    outdated: Notify,
}

impl Screen {
    pub(super) fn new(prints: bool, prefix: bool) -> Self {
        Self {
            live: output::can_be_steered(&stderr()),
            prints,
            prefix,
            status: RefCell::default(),
            before: RefCell::default(),
            outdated: Notify::new(),
        }
    }

    /// Until there is a sign that what is shown of the job is no longer true.
    pub(super) async fn outdated(&self) {
        self.outdated.notified().await;
    }

    /// Prints the job's own lines above the status.
    pub(super) fn lines(&self, lines: &[LogLine]) -> Result<()> {
        if lines.is_empty() || !self.prints {
            return Ok(());
        }
        // What does not run prints nothing.
        let runs = |seen: &Seen| seen.state == JobState::Running;
        if !self.before.borrow().as_ref().is_some_and(runs) {
            self.outdated.notify_one();
        }
        self.clear();
        let printed = logs::print_lines(lines, self.prefix);
        self.draw();
        printed
    }

    /// Shows how the job stands.
    pub(super) fn job(&self, job: &JobDetail) {
        let seen = Seen::of(job);
        let news = seen.news(self.before.borrow().as_ref(), job, self.live);
        self.before.replace(Some(seen));
        self.clear();
        for line in news {
            note(&line);
        }
        self.status.replace(stands(job));
        self.draw();
    }

    /// Takes the status away, for whatever comes next.
    pub(super) fn clear(&self) {
        if self.live && !self.status.borrow().is_empty() {
            output::steer(stderr(), "\r\u{1b}[K");
        }
    }

    fn draw(&self) {
        let status = self.status.borrow();
        if self.live && !status.is_empty() {
            // Without wrapping, so that a narrow terminal cuts it instead of scrolling.
            output::steer(stderr(), "\u{1b}[?7l");
            output::say(&format!("{} {status}", "astrago:".dimmed()));
            output::steer(stderr(), "\u{1b}[?7h");
        }
    }
}

/// A remark beside the job's own output.
pub(in crate::commands) fn note(text: &str) {
    output::say(&format!("{} {text}\n", "astrago:".dimmed()));
}

/// What a change is noticed by.
struct Seen {
    restarts: i64,
    state: JobState,
    reason: String,
    tenth: i64,
}

impl Seen {
    fn of(job: &JobDetail) -> Self {
        let summary = &job.summary;
        #[expect(clippy::cast_possible_truncation, reason = "tenths of a percentage")]
        let tenth = |percent: f64| (percent / 10.0) as i64;
        Self {
            restarts: summary.restarts,
            state: summary.state,
            reason: reason(job).unwrap_or_default(),
            tenth: summary.progress.as_ref().map_or(0, |it| tenth(it.percent)),
        }
    }

    /// What is worth a line of its own. A restart always is; what the status line shows is not.
    fn news(&self, before: Option<&Self>, job: &JobDetail, live: bool) -> Vec<String> {
        let mut news = Vec::new();
        if self.restarts > before.map_or(0, |before| before.restarts) {
            news.push(restart(job));
        }
        if live || self.state.is_finished() {
            return news;
        }
        let changed = before
            .is_none_or(|before| (before.state, &before.reason) != (self.state, &self.reason));
        let further = before.is_some_and(|before| before.tenth < self.tenth);
        if changed && self.state != JobState::Restarting || further {
            news.push(stands(job));
        }
        news
    }
}

/// How a job stands, in one line.
pub(in crate::commands) fn stands(job: &JobDetail) -> String {
    let summary = &job.summary;
    let mut parts = vec![colour(summary.state)];
    if summary.state == JobState::Running {
        parts.push(format!(
            "{}/{} nodes",
            summary.nodes_running, summary.num_nodes
        ));
    }
    parts.extend(reason(job));
    if let Some(progress) = &summary.progress {
        if !progress.step.is_empty() {
            parts.push(progress.step.clone());
        }
        parts.push(format!("{}%", short(progress.percent)));
    }
    let loss = job.metrics.iter().find(|it| it.name.contains("loss"));
    parts.extend(loss.map(|loss| format!("{} {:.4}", loss.name, loss.value)));
    let left = summary
        .progress
        .as_ref()
        .and_then(|it| it.remaining_seconds);
    parts.extend(left.map(|left| format!("{} left", duration(left))));
    if summary.restarts > 0 && summary.state == JobState::Running {
        parts.push(match summary.restarts {
            1 => "restarted once".to_owned(),
            restarts => format!("restarted {restarts} times"),
        });
    }
    parts.join(" · ")
}

/// Why a job does not run, or makes no progress.
fn reason(job: &JobDetail) -> Option<String> {
    if let Some(waiting) = &job.waiting {
        let place = waiting.position.filter(|place| *place > 1);
        let place = place.map_or_else(String::new, |place| {
            format!(" (place {place} in the queue)")
        });
        return Some(format!("{}{place}", waiting.reason));
    }
    let waits = job.summary.stalled.is_some()
        || matches!(
            job.summary.state,
            JobState::Suspended | JobState::Restarting
        );
    waits.then(|| job.summary.message.clone())
}

fn restart(job: &JobDetail) -> String {
    let of = job.max_restarts.map(|most| format!(" of {most}"));
    let cause = job.previous_failure.as_ref();
    let cause = cause.map_or_else(String::new, |failure| format!(": {}", failure.summary));
    format!(
        "restart {}{}{cause}",
        job.summary.restarts,
        of.unwrap_or_default()
    )
    .yellow()
    .to_string()
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use serde_json::{Value, json};

    use super::*;

    fn job(changes: &Value) -> JobDetail {
        let mut job = json!({
            "name": "j", "namespace": "n", "uid": "u", "kind": "TrainJob", "user": null, "framework": null,
            "runtime": "r", "state": "Pending", "message": "m", "cause": { "code": "c", "parameters": {} },
            "num_nodes": 2, "nodes_running": 0, "per_node": { "cpu": 1.0, "memory": 1, "gpu": 0 },
            "created_at": "2025-11-05T13:00:00Z", "started_at": null, "completed_at": null,
            "duration_seconds": 1, "restarts": 0, "progress": null, "archived": false,
            "image": null, "command": [], "max_restarts": 6, "nodes": [], "timeline": {}, "waiting": null,
            "failure": null, "usage": { "cpu_core_hours": 0.0, "memory_gib_hours": 0.0, "gpu_hours": 0.0 },
            "metrics": [],
        });
        for (name, value) in changes.as_object().unwrap() {
            job[name] = value.clone();
        }
        serde_json::from_value(job).unwrap()
    }

    fn plain(lines: &[String]) -> Vec<String> {
        let strip = |line: &String| anstream::adapter::strip_str(line).to_string();
        lines.iter().map(strip).collect()
    }

    #[tokio::test]
    async fn a_line_of_a_job_that_seems_to_wait_is_a_reason_to_look_again() {
        let line = json!({ "time": null, "worker": 0, "text": "" });
        let lines: [LogLine; 1] = [serde_json::from_value(line).unwrap()];
        let screen = Screen::new(true, false);
        let is_outdated = || screen.outdated().now_or_never().is_some();
        screen.job(&job(&json!({})));
        assert!(!is_outdated());
        screen.lines(&lines).unwrap();
        assert!(is_outdated());
        screen.job(&job(&json!({ "state": "Running" })));
        screen.lines(&lines).unwrap();
        assert!(!is_outdated());
    }

    #[test]
    fn waiting_restarts_and_progress_are_said_once() {
        let waits = job(&json!({ "waiting": { "position": 1, "reason": "can never fit" } }));
        let runs = json!({
            "state": "Running", "nodes_running": 2, "restarts": 2,
            "progress": { "percent": 25.0, "remaining_seconds": 90, "step": "epoch 1, step 10/40" },
            "metrics": [{ "name": "loss", "value": 0.5, "points": [] }],
            "previous_failure": { "kind": "missing_module", "summary": "No module named foo",
                "cause": { "code": "c", "parameters": {} }, "worker": 0, "exit_code": null, "evidence": [], "hint": null },
        });
        let runs = job(&runs);
        let first = Seen::of(&waits);
        assert_eq!(
            plain(&first.news(None, &waits, false)),
            ["Pending · can never fit"]
        );
        assert!(first.news(Some(&first), &waits, false).is_empty());
        assert!(first.news(None, &waits, true).is_empty());
        let second = Seen::of(&runs);
        let running = "Running · 2/2 nodes · epoch 1, step 10/40 · 25% · loss 0.5000 · 1m 30s left · restarted 2 times";
        let restart = "restart 2 of 6: No module named foo";
        assert_eq!(
            plain(&second.news(Some(&first), &runs, false)),
            [restart, running]
        );
        assert_eq!(plain(&second.news(Some(&first), &runs, true)), [restart]);
    }
}
