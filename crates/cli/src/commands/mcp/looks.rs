//! Tools that only look.

use std::fmt::Write as _;

use anyhow::Result;
use astrago_rest::model::{
    JobDetail, JobEvent, JobList, JobStacks, LogLine, LogPage, Metric, MetricValue, NodeInfo,
    Runtime, SearchResult,
};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Agent, Named};
use crate::commands::job::path;
use crate::commands::run::stands;
use crate::commands::{job, jobs, metrics, stacks};
use crate::exit::Failure;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct List {
    /// Only jobs in this namespace; otherwise all that the user may see
    namespace: Option<String>,
    /// Only jobs in this state: Pending, Running, Restarting, Suspended, Complete or Failed
    state: Option<String>,
    /// Only jobs whose name, user or tags contain this
    text: Option<String>,
    /// How many; 20 by default, 100 at most
    limit: Option<u32>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Logs {
    /// The job's name
    name: String,
    /// The job's namespace; by default the user's own
    namespace: Option<String>,
    /// Only this worker
    worker: Option<u32>,
    /// Only what comes before this place, which an earlier answer named
    before: Option<String>,
    /// How many lines; 50 by default, 200 at most
    lines: Option<u32>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Search {
    /// The job's name
    name: String,
    /// The job's namespace; by default the user's own
    namespace: Option<String>,
    /// What to look for
    text: String,
    /// Whether `text` is a regular expression
    #[serde(default)]
    regex: bool,
    /// How many hits; 10 by default, 50 at most
    limit: Option<u32>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Metrics {
    /// The job's name
    name: String,
    /// The job's namespace; by default the user's own
    namespace: Option<String>,
    /// A metric whose points to show
    metric: Option<String>,
    /// How many points; 30 by default, 200 at most
    points: Option<u32>,
}

impl Agent {
    pub(super) async fn list(&self, wanted: List) -> Result<String> {
        let limit = wanted.limit.unwrap_or(20).clamp(1, 100);
        let mut query = vec![("limit", limit.to_string())];
        query.extend(wanted.namespace.map(|it| ("namespace", it)));
        query.extend(wanted.state.map(|it| ("state", it)));
        query.extend(wanted.text.map(|it| ("q", it)));
        let jobs: JobList = self.client.get("/api/trainjobs", &query).await?;
        Ok(jobs::draw(&jobs, false, true))
    }

    pub(super) async fn detail(&self, wanted: &Named) -> Result<JobDetail> {
        let query = self.namespace(wanted.namespace.as_deref());
        self.client.get(&path(&wanted.name, ""), &query).await
    }

    pub(super) async fn describe(&self, wanted: &Named) -> Result<String> {
        Ok(job::draw(&self.detail(wanted).await?))
    }

    pub(super) async fn why_waiting(&self, wanted: &Named) -> Result<String> {
        let job = self.detail(wanted).await?;
        let mut text = format!("{}\n", stands(&job));
        if let Some(waiting) = &job.waiting {
            let place = waiting.position;
            let place = place.map(|place| format!("It has place {place} in the queue. "));
            let _ = writeln!(text, "{}{}", place.unwrap_or_default(), waiting.reason);
        }
        Ok(text)
    }

    pub(super) async fn why_failed(&self, wanted: &Named) -> Result<String> {
        let job = self.detail(wanted).await?;
        let failure = job.failure.as_ref().or(job.previous_failure.as_ref());
        let Some(failure) = failure else {
            return Ok(format!("It has not failed: {}\n", stands(&job)));
        };
        let mut text = format!("{}\n{}\n", stands(&job), failure.summary);
        if let Some(worker) = failure.worker {
            let code = failure.exit_code;
            let code = code.map(|code| format!(" with exit code {code}"));
            let _ = writeln!(
                text,
                "Worker {worker} failed first{}.",
                code.unwrap_or_default()
            );
        }
        if failure.permanent {
            text.push_str("The same code would fail in the same way again.\n");
        }
        if let Some(hint) = &failure.hint {
            let _ = writeln!(text, "{hint}");
        }
        if !failure.evidence.is_empty() {
            let _ = write!(text, "\n{}\n", failure.evidence.join("\n"));
        }
        Ok(text)
    }

    pub(super) async fn logs(&self, wanted: Logs) -> Result<String> {
        let mut query = self.namespace(wanted.namespace.as_deref());
        query.push((
            "limit",
            wanted.lines.unwrap_or(50).clamp(1, 200).to_string(),
        ));
        query.extend(wanted.worker.map(|it| ("worker", it.to_string())));
        query.extend(wanted.before.map(|it| ("before", it)));
        let page: LogPage = self
            .client
            .get(&path(&wanted.name, "/logs/page"), &query)
            .await?;
        if page.lines.is_empty() {
            return Ok("There is nothing.\n".to_owned());
        }
        let earlier = if page.first {
            "This is the beginning of the log.\n".to_owned()
        } else {
            format!("There are earlier lines: before={:?}\n", page.start)
        };
        // At the front, so that it is there even where the end is cut off.
        Ok(format!("{earlier}{}", printed(&page.lines)))
    }

    pub(super) async fn search(&self, wanted: Search) -> Result<String> {
        let mut query = self.namespace(wanted.namespace.as_deref());
        query.push(("q", wanted.text));
        query.push(("regex", wanted.regex.to_string()));
        query.push(("context", "2".to_owned()));
        query.push(("limit", wanted.limit.unwrap_or(10).clamp(1, 50).to_string()));
        let found: SearchResult = self
            .client
            .get(&path(&wanted.name, "/logs/search"), &query)
            .await?;
        if found.hits.is_empty() {
            return Ok(format!("No hit in {} lines.\n", found.searched));
        }
        let more = if found.truncated {
            ", and there are more"
        } else {
            ""
        };
        let mut text = format!("{} hits{more}.\n", found.hits.len());
        for hit in &found.hits {
            let _ = writeln!(text, "[{}] line {}:", hit.worker, hit.line);
            for line in hit.before.iter().chain([&hit.text]).chain(&hit.after) {
                let _ = writeln!(text, "    {line}");
            }
        }
        Ok(text)
    }

    pub(super) async fn metrics(&self, wanted: Metrics) -> Result<String> {
        let mut query = self.namespace(wanted.namespace.as_deref());
        query.push((
            "points",
            wanted.points.unwrap_or(30).clamp(2, 200).to_string(),
        ));
        let found: Vec<Metric> = self
            .client
            .get(&path(&wanted.name, "/metrics"), &query)
            .await?;
        let mut text = metrics::draw(&found, false);
        let Some(name) = wanted.metric else {
            return Ok(text);
        };
        let Some(metric) = found.iter().find(|it| it.name == name) else {
            return Err(Failure::theirs(format!("{} has no metric {name:?}", wanted.name)).into());
        };
        let _ = writeln!(text, "\nSTEP  {name}");
        for point in &metric.points {
            let step = point
                .step
                .map_or_else(|| "-".to_owned(), |step| step.to_string());
            let value = match &point.value {
                MetricValue::Finite(value) => value.to_string(),
                other @ MetricValue::NotFinite(_) => other.to_string(),
            };
            let _ = writeln!(text, "{step}  {value}");
        }
        Ok(text)
    }

    pub(super) async fn events(&self, wanted: &Named) -> Result<String> {
        let query = self.namespace(wanted.namespace.as_deref());
        let events: Vec<JobEvent> = self
            .client
            .get(&path(&wanted.name, "/events"), &query)
            .await?;
        Ok(job::draw_events(&events))
    }

    pub(super) async fn stacks(&self, wanted: &Named) -> Result<String> {
        let query = self.namespace(wanted.namespace.as_deref());
        let stacks: JobStacks = self
            .client
            .get(&path(&wanted.name, "/stacks"), &query)
            .await?;
        Ok(stacks::draw(&stacks, false))
    }

    pub(super) async fn nodes(&self) -> Result<String> {
        let nodes: Vec<NodeInfo> = self.client.get("/api/nodes", &[]).await?;
        Ok(jobs::draw_nodes(&nodes, true))
    }

    pub(super) async fn runtimes(&self) -> Result<String> {
        let runtimes: Vec<Runtime> = self.client.get("/api/runtimes", &[]).await?;
        Ok(jobs::draw_runtimes(&runtimes, true))
    }
}

fn printed(lines: &[LogLine]) -> String {
    let mut text = String::new();
    for line in lines {
        let _ = writeln!(text, "[{}] {}", line.worker, line.text);
    }
    text
}
