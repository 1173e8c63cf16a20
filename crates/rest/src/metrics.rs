//! Numbers for Prometheus: jobs by state, and per job its restarts, durations and progress.

use std::fmt::Write as _;

use crate::app::jobs;
use crate::context::Context;
use crate::model::JobState;
use crate::view::Job;
use crate::world::Key;

/// The metrics of now, in Prometheus' text form.
pub(crate) fn render(context: &Context) -> String {
    let mirrors = &context.world.mirrors;
    let mut text = String::new();
    let head = |name: &str, kind: &str, help: &str| {
        format!("# HELP {name} {help}\n# TYPE {name} {kind}\n")
    };
    let jobs = mirrors.train_jobs.all();
    let found = jobs
        .iter()
        .filter_map(|job| Job::find(mirrors, &Key::of(&**job)));
    let summaries: Vec<_> = found
        .map(|job| {
            let facts = context.ledger.note(&context.history, &job, context.now());
            (
                jobs::summary(context, &job),
                facts.timeline(&job, context.now()),
            )
        })
        .collect();
    text.push_str(&head("astrago_jobs", "gauge", "Jobs by state."));
    for state in JobState::ALL {
        let count = summaries
            .iter()
            .filter(|(job, _)| job.state == state)
            .count();
        let _ = writeln!(text, "astrago_jobs{{state=\"{}\"}} {count}", state.as_str());
    }
    text.push_str(&head(
        "astrago_job_restarts_total",
        "counter",
        "Restarts of a job and its containers.",
    ));
    for (job, _) in &summaries {
        let _ = writeln!(
            text,
            "astrago_job_restarts_total{} {}",
            labels(&job.namespace, &job.name),
            job.restarts
        );
    }
    text.push_str(&head(
        "astrago_job_seconds",
        "gauge",
        "Seconds that a job has spent in each phase.",
    ));
    for (job, timeline) in &summaries {
        let phases = [
            ("queued", timeline.queued_seconds),
            ("starting", timeline.starting_seconds),
            ("training", timeline.training_seconds),
            ("restarting", timeline.restarting_seconds),
            ("suspended", timeline.suspended_seconds),
        ];
        for (phase, seconds) in phases {
            let Some(seconds) = seconds else { continue };
            let (namespace, name) = (escape(&job.namespace), escape(&job.name));
            let _ = writeln!(
                text,
                "astrago_job_seconds{{namespace=\"{namespace}\",job=\"{name}\",phase=\"{phase}\"}} {seconds}"
            );
        }
    }
    text.push_str(&head(
        "astrago_job_progress_ratio",
        "gauge",
        "How much of a job is done, from 0 to 1.",
    ));
    for (job, _) in &summaries {
        if let Some(progress) = &job.progress {
            let done = progress.percent / 100.0;
            let _ = writeln!(
                text,
                "astrago_job_progress_ratio{} {done}",
                labels(&job.namespace, &job.name)
            );
        }
    }
    text
}

fn labels(namespace: &str, name: &str) -> String {
    format!(
        "{{namespace=\"{}\",job=\"{}\"}}",
        escape(namespace),
        escape(name)
    )
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
