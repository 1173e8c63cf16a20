//! Lists: jobs, machines, runtimes.

use std::fmt::Write as _;
use std::io::stdout;
use std::time::Duration;

use anyhow::Result;
use astrago_rest::model::{JobList, JobState, JobSummary, NodeInfo, Runtime, WhoAmI};
use owo_colors::OwoColorize;

use super::namespace;
use crate::args::{Connection, Format, Jobs};
use crate::client::Client;
use crate::output::{self, bytes, dash, duration, short};

/// `astrago jobs`.
pub(crate) async fn list(connection: &Connection, format: Format, arguments: &Jobs) -> Result<()> {
    let client = Client::connect(connection).await?;
    let mut query = vec![("limit", arguments.limit.to_string())];
    let named = client.named_namespace();
    let named = named.filter(|_| !arguments.all_namespaces);
    query.extend(named.map(|namespace| ("namespace", namespace.to_owned())));
    if let Some(state) = &arguments.state {
        query.push(("state", state.clone()));
    }
    if let Some(labels) = &arguments.selector {
        query.push(("labels", labels.clone()));
    }
    if arguments.deleted {
        query.push(("archived", "true".to_owned()));
    }
    let chosen = arguments.state.is_some() || arguments.selector.is_some();
    let mut shown = String::new();
    loop {
        let jobs: JobList = client.get("/api/trainjobs", &query).await?;
        if let Some(namespace) = named.filter(|_| jobs.items.is_empty()) {
            let me: WhoAmI = client.get("/api/whoami", &[]).await?;
            namespace::must_exist(&client, namespace, &me).await?;
        }
        if !arguments.watch {
            return output::print(format, &jobs, |wide| draw(&jobs, wide, chosen));
        }
        let text = output::render(format, &jobs, |wide| draw(&jobs, wide, chosen))?;
        if text != shown {
            if output::can_be_steered(&stdout()) {
                output::steer(stdout(), "\u{1b}[H\u{1b}[2J");
            }
            output::write(&text)?;
            shown = text;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// The list, or that there is nothing: of all jobs, or of those that were `chosen`.
pub(super) fn draw(jobs: &JobList, wide: bool, chosen: bool) -> String {
    if jobs.items.is_empty() && chosen {
        return "no jobs match\n".to_owned();
    }
    if jobs.items.is_empty() {
        return "no jobs; submit one with `astrago run train.py`\n".to_owned();
    }
    let mut headings = vec![
        "NAMESPACE",
        "NAME",
        "STATE",
        "NODES",
        "PROGRESS",
        "RESTARTS",
        "AGE",
    ];
    if wide {
        headings.extend([
            "KIND",
            "FRAMEWORK",
            "USER",
            "CPU",
            "MEMORY",
            "GPU",
            "MESSAGE",
        ]);
    }
    let rows: Vec<Vec<String>> = jobs.items.iter().map(|job| row(job, wide)).collect();
    let mut text = output::table(&headings, &rows);
    let more = jobs.total.saturating_sub(jobs.items.len());
    if more > 0 {
        let _ = writeln!(
            text,
            "… and {more} more; see them with --limit {}",
            jobs.total
        );
    }
    text
}

fn row(job: &JobSummary, wide: bool) -> Vec<String> {
    let progress = job
        .progress
        .as_ref()
        .map(|progress| format!("{}%", short(progress.percent)));
    let mut cells = vec![
        job.namespace.clone(),
        job.name.clone(),
        state(job),
        format!("{}/{}", job.nodes_running, job.num_nodes),
        dash(progress),
        job.restarts.to_string(),
        duration(jiff::Timestamp::now().as_second() - job.created_at.as_second()),
    ];
    if wide {
        cells.extend([
            job.kind.clone(),
            dash(job.framework.clone()),
            dash(job.user.clone()),
            dash(Some(job.per_node.cpu).filter(|it| *it > 0.0).map(short)),
            dash(Some(job.per_node.memory).filter(|it| *it > 0).map(bytes)),
            job.per_node.gpu.to_string(),
            job.message.clone(),
        ]);
    }
    cells
}

/// The state of a job, or the last one of a job that is gone.
pub(crate) fn state(job: &JobSummary) -> String {
    if job.archived {
        return format!("Deleted ({})", job.state.as_str())
            .dimmed()
            .to_string();
    }
    colour(job.state)
}

/// A state in its colour; the colour goes away where the output is no terminal.
pub(crate) fn colour(state: JobState) -> String {
    let text = state.as_str();
    match state {
        JobState::Running => text.blue().to_string(),
        JobState::Complete => text.green().to_string(),
        JobState::Failed => text.red().to_string(),
        JobState::Pending | JobState::Restarting => text.yellow().to_string(),
        JobState::Suspended => text.dimmed().to_string(),
    }
}

/// `astrago nodes`.
pub(crate) async fn nodes(connection: &Connection, format: Format) -> Result<()> {
    let client = Client::connect(connection).await?;
    let nodes: Vec<NodeInfo> = client.get("/api/nodes", &[]).await?;
    output::print(format, &nodes, |wide| draw_nodes(&nodes, wide))
}

pub(super) fn draw_nodes(nodes: &[NodeInfo], wide: bool) -> String {
    let mut headings = vec![
        "NAME",
        "READY",
        "INSTANCE-TYPE",
        "ARCH",
        "OS",
        "GPU",
        "CAPACITY-TYPE",
        "CPU",
        "MEMORY",
    ];
    if wide {
        headings.push("JOBS");
    }
    let rows: Vec<Vec<String>> = nodes.iter().map(|node| node_row(node, wide)).collect();
    output::table(&headings, &rows)
}

fn node_row(node: &NodeInfo, wide: bool) -> Vec<String> {
    let mut cells = vec![
        node.name.clone(),
        if node.ready {
            "yes".to_owned()
        } else {
            "no".red().to_string()
        },
        dash(node.instance_type.clone()),
        node.architecture.clone(),
        node.os.clone(),
        format!("{}/{}", node.used.gpu, node.capacity.gpu),
        dash(node.capacity_type.clone()),
        format!("{}/{}", short(node.used.cpu), short(node.capacity.cpu)),
        format!(
            "{}/{}",
            bytes(node.used.memory),
            bytes(node.capacity.memory)
        ),
    ];
    if wide {
        cells.push(if node.jobs.is_empty() {
            "-".to_owned()
        } else {
            node.jobs.join(" ")
        });
    }
    cells
}

/// `astrago runtimes`.
pub(crate) async fn runtimes(connection: &Connection, format: Format) -> Result<()> {
    let client = Client::connect(connection).await?;
    let runtimes: Vec<Runtime> = client.get("/api/runtimes", &[]).await?;
    output::print(format, &runtimes, |wide| draw_runtimes(&runtimes, wide))
}

pub(super) fn draw_runtimes(runtimes: &[Runtime], wide: bool) -> String {
    let mut headings = vec!["NAME", "FRAMEWORK", "NODES", "MAX-RESTARTS", "TTL"];
    if wide {
        headings.extend(["JOBS", "IMAGE"]);
    }
    let rows: Vec<Vec<String>> = runtimes
        .iter()
        .map(|runtime| runtime_row(runtime, wide))
        .collect();
    output::table(&headings, &rows)
}

fn runtime_row(runtime: &Runtime, wide: bool) -> Vec<String> {
    let mut cells = vec![
        runtime.name.clone(),
        dash(runtime.framework.clone()),
        runtime.num_nodes.to_string(),
        dash(runtime.max_restarts.map(|count| count.to_string())),
        dash(runtime.ttl_seconds.map(duration)),
    ];
    if wide {
        cells.extend([runtime.jobs.join(","), dash(runtime.image.clone())]);
    }
    cells
}
