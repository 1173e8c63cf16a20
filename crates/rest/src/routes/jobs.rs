//! Jobs.

use std::sync::Arc;

use axum::Json as Answer;
use axum::http::HeaderMap;
use jiff::Timestamp;
use serde_json::Value;
use strum::VariantArray as _;
use utoipa_axum::router::OpenApiRouter;

use super::count;
use crate::app::list::{Filter, Group, Sort, labels};
use crate::app::{self, Error};
use crate::context::Context;
use crate::error::Result;
use crate::extract::{Call, Json, OfJob, Parameters};
use crate::logbook::{POINTS, Range};
use crate::model::{
    CreateRequest, CreateResponse, Deleted, ErrorBody, Fit, JobDetail, JobEvent, JobList, JobState,
    JobStatus, Metric, Notes, Preview, UsageOverTime,
};

pub(super) fn routes() -> OpenApiRouter<Arc<Context>> {
    handlers!(create; status; delete; list; show; suspend; resume; restart; set_notes; events;
        metrics; usage; manifest; clone; preview; fit)
}

/// Create a training job, in either form.
#[utoipa::path(post, path = "/api/trainjob/create", tag = "jobs", request_body = CreateRequest,
    params(("Idempotency-Key" = Option<String>, Header, description = "Repeat a request safely")),
    responses((status = 200, body = CreateResponse), (status = "4XX", body = ErrorBody)))]
async fn create(
    Call(context, caller): Call,
    headers: HeaderMap,
    Json(body): Json<Value>,
) -> Result<Answer<CreateResponse>> {
    let key = headers
        .get("idempotency-key")
        .map(|value| value.to_str().unwrap_or_default());
    app::create::create(&context, &caller, &body, key)
        .await
        .map(Answer)
}

/// The state of a job.
#[utoipa::path(get, path = "/api/trainjob/{name}/status", tag = "jobs",
    params(("name" = String, Path), ("namespace" = Option<String>, Query)),
    responses((status = 200, body = JobStatus), (status = "4XX", body = ErrorBody)))]
async fn status(OfJob(context, caller, key): OfJob) -> Result<Answer<JobStatus>> {
    Ok(Answer(app::jobs::status(&context, &caller, &key).await?))
}

/// Delete a job, its pods and its code.
#[utoipa::path(delete, path = "/api/trainjob/{name}", tag = "jobs",
    params(("name" = String, Path), ("namespace" = Option<String>, Query)),
    responses((status = 200, body = Deleted), (status = "4XX", body = ErrorBody)))]
async fn delete(OfJob(context, caller, key): OfJob) -> Result<Answer<Deleted>> {
    Ok(Answer(app::jobs::delete(&context, &caller, &key).await?))
}

/// Hold a job: its pods go, the job stays.
#[utoipa::path(post, path = "/api/trainjobs/{name}/suspend", tag = "jobs",
    params(("name" = String, Path), ("namespace" = Option<String>, Query)),
    responses((status = 200, body = JobStatus), (status = "4XX", body = ErrorBody)))]
async fn suspend(OfJob(context, caller, key): OfJob) -> Result<Answer<JobStatus>> {
    app::jobs::suspend(&context, &caller, &key, true)
        .await
        .map(Answer)
}

/// Let a held job go on.
#[utoipa::path(post, path = "/api/trainjobs/{name}/resume", tag = "jobs",
    params(("name" = String, Path), ("namespace" = Option<String>, Query)),
    responses((status = 200, body = JobStatus), (status = "4XX", body = ErrorBody)))]
async fn resume(OfJob(context, caller, key): OfJob) -> Result<Answer<JobStatus>> {
    app::jobs::suspend(&context, &caller, &key, false)
        .await
        .map(Answer)
}

/// All jobs that the caller may see.
#[utoipa::path(get, path = "/api/trainjobs", tag = "jobs",
    params(
        ("namespace" = Option<String>, Query),
        ("state" = Option<JobState>, Query),
        ("framework" = Option<String>, Query),
        ("user" = Option<String>, Query),
        ("runtime" = Option<String>, Query),
        ("tag" = Option<String>, Query),
        ("machine" = Option<String>, Query, description = "Where one of its nodes runs or ran"),
        ("labels" = Option<String>, Query, description = "Labels of the job, such as name=value,other!=value"),
        ("q" = Option<String>, Query, description = "A part of the name, message, user, namespace or tags"),
        ("group" = Option<String>, Query, description = "user, state, framework or tags: what stands together, before it is sorted"),
        ("sort" = Option<String>, Query, description = "newest, oldest, name, state or duration"),
        ("page" = Option<i64>, Query, minimum = 0, description = "From 0"),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 1000, description = "Jobs per page, 50 by default"),
        ("archived" = Option<bool>, Query, description = "With jobs that are gone")),
    responses((status = 200, body = JobList), (status = "4XX", body = ErrorBody)))]
async fn list(Call(context, caller): Call, parameters: Parameters) -> Result<Answer<JobList>> {
    app::list::list(&context, &caller, &filter(&parameters)?)
        .await
        .map(Answer)
}

fn filter(parameters: &Parameters) -> Result<Filter> {
    let text = |name: &str| parameters.text(name).map(str::to_owned);
    let state = parameters.text("state").map(|text| {
        let known = JobState::VARIANTS
            .iter()
            .copied()
            .find(|state| state.as_str().eq_ignore_ascii_case(text));
        let all = JobState::VARIANTS.iter().map(|state| state.as_str());
        let all = all.collect::<Vec<_>>().join(", ");
        known.ok_or_else(|| Error::invalid("state", format!("must be one of {all}, not {text:?}")))
    });
    Ok(Filter {
        namespace: text("namespace"),
        state: state.transpose()?,
        framework: text("framework"),
        user: text("user"),
        runtime: text("runtime"),
        tag: text("tag"),
        machine: text("machine"),
        group: parameters.text("group").map(Group::parse).transpose()?,
        labels: parameters
            .text("labels")
            .map(labels)
            .transpose()?
            .unwrap_or_default(),
        text: text("q"),
        sort: parameters
            .text("sort")
            .map(Sort::parse)
            .transpose()?
            .unwrap_or_default(),
        page: count(parameters, "page", 0..=1_000_000_000, 0)?,
        limit: count(parameters, "limit", 1..=1000, 50)?,
        archived: parameters.flag("archived")?,
    })
}

/// One job in full.
#[utoipa::path(get, path = "/api/trainjobs/{name}", tag = "jobs",
    params(("name" = String, Path), ("namespace" = Option<String>, Query)),
    responses((status = 200, body = JobDetail), (status = "4XX", body = ErrorBody)))]
async fn show(OfJob(context, caller, key): OfJob) -> Result<Answer<JobDetail>> {
    Ok(Answer(app::jobs::show(&context, &caller, &key).await?))
}

/// Write to a job what people should know of it, and what they call it by.
#[utoipa::path(put, path = "/api/trainjobs/{name}/notes", tag = "jobs", request_body = Notes,
    params(("name" = String, Path), ("namespace" = Option<String>, Query)),
    responses((status = 200, body = Notes), (status = "4XX", body = ErrorBody)))]
async fn set_notes(
    OfJob(context, caller, key): OfJob,
    Json(body): Json<Notes>,
) -> Result<Answer<Notes>> {
    app::notes::set(&context, &caller, &key, &body)
        .await
        .map(Answer)
}

/// Start a job again, as a new job with the same code and settings.
#[utoipa::path(post, path = "/api/trainjobs/{name}/restart", tag = "jobs",
    params(("name" = String, Path), ("namespace" = Option<String>, Query)),
    responses((status = 200, body = CreateResponse), (status = "4XX", body = ErrorBody)))]
async fn restart(OfJob(context, caller, key): OfJob) -> Result<Answer<CreateResponse>> {
    Ok(Answer(app::clone::restart(&context, &caller, &key).await?))
}

/// What happened to a job and its pods.
#[utoipa::path(get, path = "/api/trainjobs/{name}/events", tag = "jobs",
    params(("name" = String, Path), ("namespace" = Option<String>, Query)),
    responses((status = 200, body = Vec<JobEvent>), (status = "4XX", body = ErrorBody)))]
async fn events(OfJob(context, caller, key): OfJob) -> Result<Answer<Vec<JobEvent>>> {
    Ok(Answer(app::jobs::events(&context, &caller, &key).await?))
}

/// The metrics of a job with their curves.
///
/// Of a long curve the least and the greatest value of each stretch are shown, so that nothing that was left
/// out lies outside of what is there. A part of it, by steps or by times, is shown as exactly as `points` allows.
#[utoipa::path(get, path = "/api/trainjobs/{name}/metrics", tag = "jobs",
    params(
        ("name" = String, Path), ("namespace" = Option<String>, Query),
        ("points" = Option<i64>, Query, description = "About how many points at most for each curve; 500 by default"),
        ("from_step" = Option<f64>, Query), ("to_step" = Option<f64>, Query),
        ("from_time" = Option<Timestamp>, Query), ("to_time" = Option<Timestamp>, Query),
    ),
    responses((status = 200, body = Vec<Metric>), (status = "4XX", body = ErrorBody)))]
async fn metrics(
    OfJob(context, caller, key): OfJob,
    parameters: Parameters,
) -> Result<Answer<Vec<Metric>>> {
    let points = count(&parameters, "points", 10..=5000, POINTS)?;
    let range = range(&parameters)?;
    let uid = app::logs::uid(&context, &caller, &key, None).await?;
    // Reading millions of points takes its time.
    let curves = tokio::task::spawn_blocking(move || match range {
        Some(range) => context.logbook.part(&uid, &range, points),
        None => context.logbook.metrics(&uid, points),
    });
    let curves = curves.await.map_err(Error::disk)?;
    Ok(Answer(curves.metrics))
}

/// The part of the curves that is asked for.
fn range(parameters: &Parameters) -> Result<Option<Range>> {
    let step = |name: &str| parameters.parsed::<f64>(name, "a number");
    let time =
        |name: &str| parameters.parsed::<Timestamp>(name, "a time such as 2026-01-31T12:00:00Z");
    let (first, last) = (step("from_step")?, step("to_step")?);
    if first.is_some() || last.is_some() {
        let (first, last) = (first.unwrap_or(f64::MIN), last.unwrap_or(f64::MAX));
        return Ok(Some(Range::Steps(first, last)));
    }
    let (first, last) = (time("from_time")?, time("to_time")?);
    if first.is_some() || last.is_some() {
        let (first, last) = (
            first.unwrap_or(Timestamp::MIN),
            last.unwrap_or(Timestamp::MAX),
        );
        return Ok(Some(Range::Times(first, last)));
    }
    Ok(None)
}

/// What the nodes of a job used over time: processors, memory, GPUs.
#[utoipa::path(get, path = "/api/trainjobs/{name}/usage", tag = "jobs",
    params(("name" = String, Path), ("namespace" = Option<String>, Query)),
    responses((status = 200, body = UsageOverTime), (status = "4XX", body = ErrorBody)))]
async fn usage(OfJob(context, caller, key): OfJob) -> Result<Answer<UsageOverTime>> {
    app::sampling::of_job(&context, &caller, &key)
        .await
        .map(Answer)
}

/// The TrainJob as YAML, ready for `kubectl apply`.
#[utoipa::path(get, path = "/api/trainjobs/{name}/manifest", tag = "jobs",
    params(("name" = String, Path), ("namespace" = Option<String>, Query)),
    responses((status = 200, body = Object, content_type = "application/yaml"), (status = "4XX", body = ErrorBody)))]
async fn manifest(
    OfJob(context, caller, key): OfJob,
) -> Result<([(&'static str, &'static str); 1], String)> {
    let yaml = app::jobs::manifest(&context, &caller, &key).await?;
    Ok(([("content-type", "application/yaml")], yaml))
}

/// The create request that would make this job again.
#[utoipa::path(get, path = "/api/trainjobs/{name}/clone", tag = "jobs",
    params(("name" = String, Path), ("namespace" = Option<String>, Query)),
    responses((status = 200, body = CreateRequest), (status = "4XX", body = ErrorBody)))]
async fn clone(OfJob(context, caller, key): OfJob) -> Result<Answer<CreateRequest>> {
    Ok(Answer(app::clone::form(&context, &caller, &key).await?))
}

/// What a create request would become, down to the pods, and where every field comes from.
#[utoipa::path(post, path = "/api/trainjob/preview", tag = "jobs", request_body = CreateRequest,
    responses((status = 200, body = Preview), (status = "4XX", body = ErrorBody)))]
async fn preview(Call(context, caller): Call, Json(body): Json<Value>) -> Result<Answer<Preview>> {
    Ok(Answer(app::preview::preview(&context, &caller, &body)?))
}

/// Whether a create request would find room: now, later, or never.
#[utoipa::path(post, path = "/api/fit", tag = "jobs", request_body = CreateRequest,
    responses((status = 200, body = Fit), (status = "4XX", body = ErrorBody)))]
async fn fit(Call(context, caller): Call, Json(body): Json<Value>) -> Result<Answer<Fit>> {
    Ok(Answer(app::fit::fit(&context, &caller, &body)?))
}
