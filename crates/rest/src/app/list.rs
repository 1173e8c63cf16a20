//! Lists of jobs: filtered, sorted, in pages.

mod group;

use std::cmp::Ordering;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use astrago_api::TrainJob;
use astrago_mirror::Mirrors;
use jiff::Timestamp;
use kube::ResourceExt;
use kube::core::{Expression, Selector, SelectorExt};

pub(crate) use self::group::Group;
use super::{Error, Result, glance, jobs};
use crate::context::Context;
use crate::history::Record;
use crate::identity::{Access, Caller};
use crate::legacy;
use crate::model::{FailedBy, JobList, JobState, JobSummary};
use crate::view::Job;
use crate::world::Key;

/// What is wanted of all jobs.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    pub(crate) namespace: Option<String>,
    pub(crate) state: Option<JobState>,
    pub(crate) framework: Option<String>,
    pub(crate) user: Option<String>,
    pub(crate) runtime: Option<String>,
    pub(crate) tag: Option<String>,
    /// A machine that one of its nodes runs or ran on.
    pub(crate) machine: Option<String>,
    pub(crate) labels: Selector,
    /// A part of the name, the message or the user.
    pub(crate) text: Option<String>,
    pub(crate) group: Option<Group>,
    pub(crate) sort: Sort,
    pub(crate) page: usize,
    pub(crate) limit: usize,
    /// Jobs of the history that are gone, too.
    pub(crate) archived: bool,
}

impl Filter {
    /// Whether names and ages are enough to find the jobs of a page.
    fn is_plain(&self) -> bool {
        let all = self.state.is_none()
            && self.framework.is_none()
            && self.user.is_none()
            && self.runtime.is_none()
            && self.tag.is_none()
            && self.machine.is_none()
            && self.group.is_none()
            && self.labels.selects_all()
            && self.text.is_none()
            && !self.archived;
        all && matches!(self.sort, Sort::Newest | Sort::Oldest | Sort::Name)
    }
}

/// What a list is sorted by; descending where that shows the most interesting first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Sort {
    #[default]
    Newest,
    Oldest,
    Name,
    State,
    Duration,
}

impl Sort {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        match text {
            "created" | "-created" | "newest" => Ok(Self::Newest),
            "oldest" => Ok(Self::Oldest),
            "name" => Ok(Self::Name),
            "state" => Ok(Self::State),
            "duration" => Ok(Self::Duration),
            other => Err(Error::invalid(
                "sort",
                format!("must be newest, oldest, name, state or duration, not {other:?}"),
            )),
        }
    }
}

/// Every job that is looked at is asked all of a selector.
const MOST_LABELS: usize = 100;

/// Reads a label selector of equalities: `name=value`, `name!=value`, `name` and `!name`, with commas between.
pub(crate) fn labels(text: &str) -> Result<Selector> {
    if text.split(',').count() > MOST_LABELS {
        let message = format!("must be at most {MOST_LABELS} labels");
        return Err(Error::invalid("labels", message));
    }
    let read = |part: &str| {
        let part = part.trim();
        let (expression, name) = if let Some((name, value)) = part.split_once("!=") {
            let (name, value) = (name.trim(), value.trim().to_owned());
            (Expression::NotEqual(name.to_owned(), value), name)
        } else if let Some((name, value)) = part.split_once('=') {
            let (name, value) = (name.trim(), value.trim_start_matches('=').trim().to_owned());
            (Expression::Equal(name.to_owned(), value), name)
        } else if let Some(name) = part.strip_prefix('!') {
            (
                Expression::DoesNotExist(name.trim().to_owned()),
                name.trim(),
            )
        } else {
            (Expression::Exists(part.to_owned()), part)
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
        if name.is_empty() || !name.chars().all(plain) {
            let message = format!("must be such as name=value,other!=value, not {text:?}");
            return Err(Error::invalid("labels", message));
        }
        Ok(expression)
    };
    text.split(',').map(read).collect()
}

/// At most this many records of the history are looked at for one list.
const ARCHIVED: usize = 5000;

pub(crate) async fn list(context: &Context, caller: &Caller, filter: &Filter) -> Result<JobList> {
    let namespaces = readable(context, caller, filter.namespace.as_deref()).await?;
    let legacy = legacy(context, caller, filter).await?;
    if filter.is_plain() && legacy.is_empty() {
        return Ok(plain(context, filter, &namespaces));
    }
    let mut items: Vec<JobSummary> = {
        let mirrors = &context.world.mirrors;
        let jobs = train_jobs(mirrors, filter.namespace.as_deref());
        let keys = jobs.iter().map(|job| Key::of(&**job));
        keys.filter(|key| namespaces.may(&key.namespace))
            .filter_map(|key| Job::find(mirrors, &key))
            .filter(|job| filter.labels.matches(job.job.labels()))
            .filter(|job| ran_on(context, job, filter.machine.as_deref()))
            .map(|job| jobs::summary(context, &job))
            .collect()
    };
    // Neither a record nor what stands in for a v1 job has labels.
    let unlabelled = filter.labels.selects_all();
    items.extend(legacy.into_iter().filter(|_| unlabelled));
    if filter.archived && unlabelled {
        items.extend(archived(context, caller, filter, &namespaces)?);
    }
    items.retain(|job| matches(job, filter));
    items.sort_by(|left, right| compare(left, right, filter.sort));
    let groups = filter.group.map(|group| group.gather(&mut items));
    let total = items.len();
    let (range, next_page) = page(filter, total);
    let mut items: Vec<JobSummary> = items.drain(range).collect();
    for item in items.iter_mut().filter(|item| !item.archived) {
        let key = Key::new(&item.namespace, &item.name);
        if let Some(job) = Job::find(&context.world.mirrors, &key) {
            glance::add(context, &job, item);
        }
    }
    Ok(JobList {
        items,
        total,
        next_page,
        groups: groups.unwrap_or_default(),
    })
}

fn archived(
    context: &Context,
    caller: &Caller,
    filter: &Filter,
    namespaces: &Readable,
) -> Result<Vec<JobSummary>> {
    let records = context
        .history
        .archived(filter.namespace.as_deref(), ARCHIVED)
        .map_err(Error::disk)?;
    let wanted = |record: &Record| {
        let machine = filter.machine.as_ref();
        let nodes = &record.detail.nodes;
        machine.is_none_or(|wanted| {
            nodes
                .iter()
                .any(|node| node.machine.as_ref() == Some(wanted))
        })
    };
    let gone = records.into_iter().filter(wanted).map(|record| {
        let detail = record.detail;
        JobSummary {
            archived: true,
            // Records of earlier versions have it in full only.
            failed_by: detail.failure.as_ref().map(FailedBy::from),
            ..detail.summary
        }
    });
    let seen =
        gone.filter(|summary| namespaces.may(&summary.namespace) && jobs::may_see(caller, summary));
    Ok(seen.collect())
}

/// Whether a node of the job runs on the machine, or did.
fn ran_on(context: &Context, job: &Job, machine: Option<&str>) -> bool {
    let Some(machine) = machine else {
        return true;
    };
    let facts = context.ledger.note(&context.history, job, context.now());
    facts.machines().any(|one| one == machine)
}

/// A page of a list that its jobs' names and ages decide: only the jobs on the page are looked at.
fn plain(context: &Context, filter: &Filter, namespaces: &Readable) -> JobList {
    let mirrors = &context.world.mirrors;
    let jobs = train_jobs(mirrors, filter.namespace.as_deref());
    let mut keys: Vec<(Timestamp, Key)> = jobs.iter().map(|job| dated(job)).collect();
    keys.retain(|(_, key)| namespaces.may(&key.namespace));
    match filter.sort {
        Sort::Oldest => keys.sort_unstable(),
        Sort::Name => keys.sort_unstable_by(|(_, one), (_, other)| {
            (&one.name, &one.namespace).cmp(&(&other.name, &other.namespace))
        }),
        Sort::Newest | Sort::State | Sort::Duration => {
            keys.sort_unstable_by(|(one, its), (other, theirs)| (other, its).cmp(&(one, theirs)));
        }
    }
    let (range, next_page) = page(filter, keys.len());
    let items = keys[range]
        .iter()
        .filter_map(|(_, key)| Job::find(mirrors, key))
        .map(|job| glance::summary(context, &job));
    JobList {
        items: items.collect(),
        total: keys.len(),
        next_page,
        groups: Vec::new(),
    }
}

fn dated(job: &TrainJob) -> (Timestamp, Key) {
    let created = job.creation_timestamp();
    (
        created.map_or(Timestamp::UNIX_EPOCH, |time| time.0),
        Key::of(job),
    )
}

fn train_jobs(mirrors: &Mirrors, namespace: Option<&str>) -> Vec<Arc<TrainJob>> {
    match namespace {
        Some(namespace) => mirrors.train_jobs.in_namespace(namespace),
        None => mirrors.train_jobs.all(),
    }
}

/// The part of a list that is on the wanted page, and the page after it.
fn page(filter: &Filter, total: usize) -> (Range<usize>, Option<usize>) {
    let start = filter.page.saturating_mul(filter.limit).min(total);
    let end = start.saturating_add(filter.limit).min(total);
    (start..end, (end < total).then_some(filter.page + 1))
}

/// The jobs of the Training Operator v1 that the caller may see: each kind has rights of its own.
async fn legacy(context: &Context, caller: &Caller, filter: &Filter) -> Result<Vec<JobSummary>> {
    let jobs = legacy::list(&context.world.mirrors, filter.namespace.as_deref());
    let mut rights: HashMap<(String, &str), bool> = HashMap::new();
    let mut seen = Vec::new();
    for (key, shown) in jobs {
        let kind = shown.kind;
        let right = (key.namespace.clone(), kind.plural);
        let may = if let Some(may) = rights.get(&right) {
            *may
        } else {
            let access = kind.access("list", &key.namespace);
            let may = caller.is_admin() || context.gate.may(caller, &access).await?;
            rights.insert(right, may);
            may
        };
        if may {
            let job = Job::legacy(&context.world.mirrors, &key, shown);
            if ran_on(context, &job, filter.machine.as_deref()) {
                seen.push(jobs::summary(context, &job));
            }
        }
    }
    Ok(seen)
}

/// Which namespaces a caller may read jobs in.
pub(crate) struct Readable {
    all: bool,
    known: HashMap<String, bool>,
}

impl Readable {
    pub(crate) fn may(&self, namespace: &str) -> bool {
        self.all || self.known.get(namespace).copied().unwrap_or(false)
    }
}

/// Asks for each namespace that has jobs, or refuses at once when one was named.
pub(crate) async fn readable(
    context: &Context,
    caller: &Caller,
    namespace: Option<&str>,
) -> Result<Readable> {
    if caller.is_admin() || context.gate.may(caller, &Access::jobs("list", "")).await? {
        return Ok(Readable {
            all: true,
            known: HashMap::new(),
        });
    }
    if let Some(namespace) = namespace {
        let access = Access::jobs("list", namespace);
        context.gate.demand(caller, &access).await?;
        return Ok(Readable {
            all: false,
            known: [(namespace.to_owned(), true)].into(),
        });
    }
    let mut known = HashMap::new();
    for namespace in context.world.mirrors.namespaces.all() {
        let namespace = namespace.name_any();
        let access = Access::jobs("list", &namespace);
        known.insert(namespace, context.gate.may(caller, &access).await?);
    }
    Ok(Readable { all: false, known })
}

fn matches(job: &JobSummary, filter: &Filter) -> bool {
    let same = |want: &Option<String>, have: &Option<String>| want.is_none() || want == have;
    let text = filter.text.as_ref().is_none_or(|text| {
        let text = text.to_lowercase();
        let fields = [
            Some(&job.name),
            Some(&job.message),
            job.user.as_ref(),
            Some(&job.namespace),
        ];
        let mut fields = fields.into_iter().flatten().chain(&job.tags);
        fields.any(|field| field.to_lowercase().contains(&text))
    });
    filter.state.is_none_or(|state| state == job.state)
        && same(&filter.framework, &job.framework)
        && same(&filter.user, &job.user)
        && filter
            .runtime
            .as_ref()
            .is_none_or(|runtime| *runtime == job.runtime)
        && filter.tag.as_ref().is_none_or(|tag| job.tags.contains(tag))
        && text
}

fn compare(left: &JobSummary, right: &JobSummary, sort: Sort) -> Ordering {
    let by_name = || (&left.namespace, &left.name).cmp(&(&right.namespace, &right.name));
    let newest = || right.created_at.cmp(&left.created_at).then_with(by_name);
    match sort {
        Sort::Newest => newest(),
        Sort::Oldest => left.created_at.cmp(&right.created_at).then_with(by_name),
        Sort::Name => left.name.cmp(&right.name).then_with(by_name),
        Sort::State => left.state.cmp(&right.state).then_with(newest),
        Sort::Duration => right
            .duration_seconds
            .cmp(&left.duration_seconds)
            .then_with(by_name),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::app::list::group::tests::job;

    #[rstest]
    #[case::tag("tag", true)]
    #[case::another_tag("other", false)]
    fn jobs_are_found_by_their_tags(#[case] tag: &str, #[case] want: bool) {
        let job = job("a", None, "Running", &["tag"]);
        let filter = |filter: Filter| matches(&job, &filter);
        let tag = Some(tag.to_owned());
        assert_eq!(
            filter(Filter {
                tag: tag.clone(),
                ..Filter::default()
            }),
            want
        );
        assert_eq!(
            filter(Filter {
                text: tag,
                ..Filter::default()
            }),
            want
        );
    }
}
