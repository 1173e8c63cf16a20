//! One job: showing it and changing it.

use std::fmt::Write as _;

use anyhow::Result;
use astrago_rest::model::{
    Amounts, CreateResponse, JobDetail, JobEvent, JobStatus, Timeline, Usage,
};
use owo_colors::OwoColorize;
use serde_json::Value;

use super::jobs::state;
use crate::args::{Connection, Format};
use crate::client::{Client, escape};
use crate::output::{self, bytes, dash, duration, short};

/// `astrago job NAME`.
pub(crate) async fn show(connection: &Connection, format: Format, name: &str) -> Result<()> {
    let (client, query) = connect(connection).await?;
    let job: JobDetail = client.get(&path(name, ""), &query).await?;
    output::print(format, &job, |_| draw(&job))
}

/// `astrago events NAME`.
pub(crate) async fn events(connection: &Connection, format: Format, name: &str) -> Result<()> {
    let (client, query) = connect(connection).await?;
    let events: Vec<JobEvent> = client.get(&path(name, "/events"), &query).await?;
    output::print(format, &events, |_| draw_events(&events))
}

pub(super) fn draw_events(events: &[JobEvent]) -> String {
    if events.is_empty() {
        return "no events\n".to_owned();
    }
    let rows: Vec<Vec<String>> = events.iter().map(event_row).collect();
    output::table(&["AGE", "TYPE", "REASON", "OBJECT", "MESSAGE"], &rows)
}

fn event_row(event: &JobEvent) -> Vec<String> {
    let warning = event.kind == "Warning";
    let kind = if warning {
        event.kind.yellow().to_string()
    } else {
        event.kind.clone()
    };
    let age = duration(jiff::Timestamp::now().as_second() - event.time.as_second());
    vec![
        age,
        kind,
        event.reason.clone(),
        event.object.clone(),
        event.message.clone(),
    ]
}

/// `astrago suspend NAME`, `astrago resume NAME`.
pub(crate) async fn act(
    connection: &Connection,
    format: Format,
    name: &str,
    action: &str,
) -> Result<()> {
    let (client, query) = connect(connection).await?;
    let status: JobStatus = client
        .post(&path(name, &format!("/{action}")), &query, None::<&Value>)
        .await?;
    let namespace = &query[0].1;
    let done = match action {
        "suspend" => "suspended",
        _ => "resumed",
    };
    output::print(format, &status, |_| {
        format!(
            "{done} {} in namespace {namespace}: {}\n",
            status.trainjob_name, status.message
        )
    })
}

/// `astrago restart NAME`.
pub(crate) async fn restart(connection: &Connection, format: Format, name: &str) -> Result<()> {
    let (client, query) = connect(connection).await?;
    let started: CreateResponse = client
        .post(&path(name, "/restart"), &query, None::<&Value>)
        .await?;
    output::print(format, &started, |_| {
        format!(
            "started {name} again as {} in namespace {}\n",
            started.trainjob_name, started.namespace
        )
    })
}

pub(super) async fn connect(
    connection: &Connection,
) -> Result<(Client, Vec<(&'static str, String)>)> {
    let client = Client::connect(connection).await?;
    let namespace = client.namespace().await?;
    Ok((client, vec![("namespace", namespace)]))
}

/// The address of a job, or of something below it.
pub(crate) fn path(name: &str, rest: &str) -> String {
    format!("/api/trainjobs/{}{rest}", escape(name))
}

pub(super) fn draw(job: &JobDetail) -> String {
    let mut text = String::new();
    for (label, value) in facts(job) {
        let _ = writeln!(text, "{:<12}{value}", format!("{label}:"));
    }
    if !job.nodes.is_empty() {
        text.push('\n');
        text.push_str(&draw_nodes(job));
    }
    if let Some(failure) = &job.failure {
        let _ = writeln!(
            text,
            "\n{} {}",
            "Why it failed:".red().bold(),
            failure.summary
        );
        for evidence in &failure.evidence {
            let _ = writeln!(text, "  {}", evidence.dimmed());
        }
        if let Some(hint) = &failure.hint {
            let _ = writeln!(text, "{}: {hint}", "hint".cyan().bold());
        }
    }
    text
}

fn facts(job: &JobDetail) -> Vec<(String, String)> {
    let summary = &job.summary;
    let mut facts = Vec::new();
    let mut fact = |label: &str, value: String| facts.push((label.to_owned(), value));
    fact("Name", format!("{}/{}", summary.namespace, summary.name));
    fact("State", format!("{}  {}", state(summary), summary.message));
    if let Some(waiting) = &job.waiting {
        let place = waiting
            .position
            .map_or_else(String::new, |place| format!("place {place} in the queue: "));
        fact("Waits", format!("{place}{}", waiting.reason));
    }
    fact(
        "Runtime",
        format!("{} ({})", summary.runtime, dash(summary.framework.clone())),
    );
    if let Some(snapshot) = &job.snapshot {
        fact("Code", snapshot.clone());
    }
    if let Some(source) = &job.source {
        fact(
            "Commit",
            format!("{} of {}", source.commit, source.repository),
        );
    }
    fact(
        "Nodes",
        format!("{} of {} running", summary.nodes_running, summary.num_nodes),
    );
    // Before there are pods, only what the job itself asks for is known, and not what its runtime does.
    if let Some(sizes) = sizes(&summary.per_node, !job.nodes.is_empty()) {
        fact("Per node", sizes);
    }
    if let Some(progress) = &summary.progress {
        let left = progress.remaining_seconds;
        let left = left.map(|left| format!("{} left", duration(left)));
        let step = Some(progress.step.clone()).filter(|step| !step.is_empty());
        let more: Vec<String> = step.into_iter().chain(left).collect();
        let percent = format!("{}%", short(progress.percent));
        fact(
            "Progress",
            if more.is_empty() {
                percent
            } else {
                format!("{percent} ({})", more.join(", "))
            },
        );
    }
    if let Some(spent) = spent(&job.timeline) {
        fact("Time", spent);
    }
    fact("Restarts", summary.restarts.to_string());
    fact("Reserved", reserved(&job.usage));
    let last_time = job.previous_failure.as_ref();
    if let Some(failure) = last_time.filter(|_| !summary.state.is_finished()) {
        fact("Failed before", failure.summary.clone());
    }
    for metric in &job.metrics {
        fact(&metric.name, metric.value.to_string());
    }
    facts
}

/// Where the time went: what the job did, and how long that was in all.
fn spent(timeline: &Timeline) -> Option<String> {
    let phases = [
        ("queued", timeline.queued_seconds),
        ("starting", timeline.starting_seconds),
        ("training", timeline.training_seconds),
        ("restarting", timeline.restarting_seconds),
        ("suspended", timeline.suspended_seconds),
    ];
    let phases = phases.into_iter();
    let known: Vec<(&str, i64)> = phases
        .filter_map(|(phase, seconds)| Some((phase, seconds?)))
        .collect();
    let parts: Vec<String> = known
        .iter()
        .map(|(phase, seconds)| format!("{phase} {}", duration(*seconds)))
        .collect();
    let all: i64 = known.iter().map(|(_, seconds)| seconds).sum();
    (!known.is_empty()).then(|| format!("{} ({})", duration(all), parts.join(", ")))
}

/// What a node may use. Of what nobody set a size for it may use all that the machine has.
fn sizes(per_node: &Amounts, known: bool) -> Option<String> {
    let sizes = [
        (per_node.cpu > 0.0).then(|| format!("cpu {}", short(per_node.cpu))),
        (per_node.memory > 0).then(|| format!("memory {}", bytes(per_node.memory))),
        (per_node.gpu > 0).then(|| format!("gpu {}", per_node.gpu)),
    ];
    let sizes: Vec<String> = sizes.into_iter().flatten().collect();
    if !sizes.is_empty() {
        return Some(sizes.join(", "));
    }
    known.then(|| "no limit".to_owned())
}

/// What a job kept from others. Without --cpu, --memory and --gpus that is nothing, whatever it used.
fn reserved(usage: &Usage) -> String {
    let amounts = [
        (usage.cpu_core_hours, "core hours"),
        (usage.memory_gib_hours, "GiB hours"),
        (usage.gpu_hours, "GPU hours"),
    ];
    let amounts: Vec<String> = amounts
        .iter()
        .filter(|(amount, _)| *amount > 0.0)
        .map(|(amount, unit)| format!("{amount:.2} {unit}"))
        .collect();
    if amounts.is_empty() {
        return "nothing".to_owned();
    }
    amounts.join(", ")
}

fn draw_nodes(job: &JobDetail) -> String {
    let row = |node: &astrago_rest::model::JobNode| {
        vec![
            node.worker.to_string(),
            node.role.clone(),
            node.state.clone(),
            dash(node.exit_code.map(|code| code.to_string())),
            node.restarts.to_string(),
            dash(node.machine.clone()),
            node.pod.clone(),
        ]
    };
    let rows: Vec<Vec<String>> = job.nodes.iter().map(row).collect();
    output::table(
        &[
            "WORKER", "ROLE", "STATE", "EXIT", "RESTARTS", "MACHINE", "POD",
        ],
        &rows,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_sizes_there_is_no_limit() {
        let amounts = |cpu, memory, gpu| Amounts { cpu, memory, gpu };
        for (amounts, known, want) in [
            (amounts(0.5, 1 << 30, 0), false, Some("cpu 0.5, memory 1Gi")),
            (amounts(0.0, 0, 2), false, Some("gpu 2")),
            (amounts(0.0, 0, 0), true, Some("no limit")),
            (amounts(0.0, 0, 0), false, None),
        ] {
            assert_eq!(sizes(&amounts, known).as_deref(), want);
        }
    }

    #[test]
    fn the_time_of_a_job_is_told_without_a_gap() {
        let timeline = Timeline {
            queued_seconds: Some(2),
            training_seconds: Some(50),
            restarting_seconds: Some(5),
            suspended_seconds: Some(3),
            ..Timeline::default()
        };
        let want = "1m 0s (queued 2s, training 50s, restarting 5s, suspended 3s)";
        assert_eq!(spent(&timeline).as_deref(), Some(want));
        assert_eq!(spent(&Timeline::default()), None);
    }

    #[test]
    fn what_was_not_reserved_is_not_counted() {
        let mut usage = Usage {
            cpu_core_hours: 0.0,
            memory_gib_hours: 0.0,
            gpu_hours: 0.0,
        };
        assert_eq!(reserved(&usage), "nothing");
        usage.cpu_core_hours = 1.5;
        assert_eq!(reserved(&usage), "1.50 core hours");
    }
}
