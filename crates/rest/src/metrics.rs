//! Numbers for Prometheus: jobs by state, and per job its restarts, durations and progress.

use astrago_net::Exposition;
use strum::VariantArray as _;

use crate::app::jobs;
use crate::context::Context;
use crate::model::JobState;
use crate::view::Job;
use crate::world::Key;

/// The metrics of now, in Prometheus' text form.
pub(crate) fn render(context: &Context) -> String {
    let mirrors = &context.world.mirrors;
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
    let mut out = Exposition::default();
    out.metric("astrago_jobs", "gauge", "Jobs by state.");
    for &state in JobState::VARIANTS {
        let jobs = summaries.iter().filter(|(job, _)| job.state == state);
        out.value(&[("state", state.as_str())], jobs.count());
    }
    let help = "Restarts of a job and its containers.";
    out.metric("astrago_job_restarts_total", "counter", help);
    for (job, _) in &summaries {
        let labels = [("namespace", &*job.namespace), ("job", &*job.name)];
        out.value(&labels, job.restarts);
    }
    let help = "Seconds that a job has spent in each phase.";
    out.metric("astrago_job_seconds", "gauge", help);
    for (job, timeline) in &summaries {
        let phases = [
            ("queued", timeline.queued_seconds),
            ("starting", timeline.starting_seconds),
            ("training", timeline.training_seconds),
            ("restarting", timeline.restarting_seconds),
            ("suspended", timeline.suspended_seconds),
        ];
        for (phase, seconds) in phases {
            let labels = [
                ("namespace", &*job.namespace),
                ("job", &*job.name),
                ("phase", phase),
            ];
            if let Some(seconds) = seconds {
                out.value(&labels, seconds);
            }
        }
    }
    let help = "How much of a job is done, from 0 to 1.";
    out.metric("astrago_job_progress_ratio", "gauge", help);
    for (job, _) in &summaries {
        let labels = [("namespace", &*job.namespace), ("job", &*job.name)];
        if let Some(progress) = &job.progress {
            out.value(&labels, progress.percent / 100.0);
        }
    }
    out.into_text()
}
