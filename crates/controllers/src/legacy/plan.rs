//! From what is observed of a v1 job to what is done about it. Pure.

use std::collections::HashSet;
use std::sync::Arc;

use astrago_api::legacy::{CleanPodPolicy, LegacyCondition, LegacyJobStatus};
use astrago_plan::legacy::{Details, TrainingJob};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ObjectReference, Pod, Service};
use kube::ResourceExt;

use super::conditions::{
    self, CREATED, FAILED, RESTARTING, RUNNING, SUCCEEDED, SUSPENDED, holds, set,
};
use super::fetch::Observed;
use super::limit_policy::{self, Restarts};
use super::restart_policy::Verdict;
use super::success_policy;
use super::tally::{Place, Tally};
use crate::clock::{after, stamp};
use crate::events::Notice;
use crate::pod;
use crate::ttl_policy::{Ttl, ttl};

/// End of the message of a job that was restarted too often.
const BACKOFF_LIMIT: &str = "has failed because it has reached the specified backoff limit";
/// End of the message of a job that ran for too long.
const DEADLINE: &str = "has failed because it was active longer than specified deadline";

/// How many seconds pods have to end by themselves after the job has succeeded.
const PATIENCE: i64 = 10;

/// The most pods that are made in one go; each of them brings the job back here.
const MOST_AT_ONCE: usize = 500;

/// What is to be done about a job.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// The status, to be written before all else.
    pub(crate) status: Option<LegacyJobStatus>,
    pub(crate) delete_pods: Vec<Arc<Pod>>,
    pub(crate) delete_services: Vec<Arc<Service>>,
    pub(crate) create_services: Vec<Service>,
    pub(crate) create_pods: Vec<Pod>,
    /// Whether the job itself is to be deleted.
    pub(crate) expired: bool,
    /// What to tell when all that is done.
    pub(crate) notices: Vec<Notice>,
    /// When something falls due.
    pub(crate) next: Option<Timestamp>,
}

/// What is to be done about `job` at `now`, whose status on record is `known`.
pub(crate) fn plan(
    job: &TrainingJob,
    subject: &ObjectReference,
    known: &LegacyJobStatus,
    observed: &Observed,
    now: Timestamp,
) -> Plan {
    let mut work = Work {
        job,
        subject,
        observed,
        now,
        status: known.clone(),
        plan: Plan::default(),
    };
    if let Some(end) = conditions::end(known) {
        let end = end.clone();
        work.clean_up(&end, true);
        return work.plan;
    }
    work.greet();
    let was_held = holds(known, SUSPENDED).is_some();
    // What is left of a job that was held has to go before it runs again.
    let leaving = was_held && !observed.pods.is_empty();
    if job.run_policy.suspend == Some(true) || leaving {
        let ended = !was_held && work.conclude_if_over();
        if !ended {
            work.hold();
        }
    } else {
        work.resume();
        work.advance();
    }
    if work.status != *known {
        work.status.last_reconcile_time = Some(stamp(now));
        work.plan.status = Some(work.status);
    }
    work.plan
}

struct Work<'a> {
    job: &'a TrainingJob,
    subject: &'a ObjectReference,
    observed: &'a Observed,
    now: Timestamp,
    status: LegacyJobStatus,
    plan: Plan,
}

impl Work<'_> {
    fn greet(&mut self) {
        if holds(&self.status, CREATED).is_none() {
            self.state(CREATED, true, "Created", "is created.");
        }
    }

    /// Nothing of a job that is held is there.
    fn hold(&mut self) {
        self.status.start_time = None;
        for replica in self.status.replica_statuses.values_mut() {
            replica.active = 0;
        }
        self.delete_pods(|_| true);
        self.delete_all_services();
        self.forget_replaced();
        if holds(&self.status, RUNNING)
            .or_else(|| holds(&self.status, RESTARTING))
            .is_some()
        {
            let message = self.message("is suspended.");
            let reason = self.job.framework.reason("Suspended");
            set(
                &mut self.status,
                RUNNING,
                false,
                &reason,
                &message,
                self.now,
            );
        }
        self.state(SUSPENDED, true, "Suspended", "is suspended.");
    }

    fn resume(&mut self) {
        if holds(&self.status, SUSPENDED).is_some() {
            self.status.start_time = None;
            self.state(SUSPENDED, false, "Resumed", "is resumed.");
            // Clients show the last condition, whether it holds or not; until it runs, the job is only there.
            let conditions = &mut self.status.conditions;
            conditions.sort_by_key(|condition| condition.status == "True");
        }
        self.status
            .start_time
            .get_or_insert_with(|| stamp(self.now));
    }

    fn advance(&mut self) {
        if self.conclude_if_over() {
            return;
        }
        let tally = Tally::of(self.job, &self.observed.pods);
        self.replace(&tally);
        self.note_running(&tally);
        self.fill(&tally);
        self.plan.next = self.deadline();
    }

    fn deadline(&self) -> Option<Timestamp> {
        let start = self.status.start_time.as_ref().map(|time| time.0);
        limit_policy::deadline(&self.job.run_policy, start)
    }

    /// Ends the job if its pods or its limits say so.
    fn conclude_if_over(&mut self) -> bool {
        let tally = Tally::of(self.job, &self.observed.pods);
        self.count(&tally);
        if success_policy::succeeded(self.job, &tally) {
            self.conclude(SUCCEEDED, self.message("is successfully completed."));
        } else if let Some(place) = tally.failed(Verdict::Fail).next() {
            self.tell_exits(&tally, &self.status.replaced_pods.clone());
            let same = tally
                .failed(Verdict::Fail)
                .filter(|other| other.kind == place.kind);
            let what = format!(
                "is failed because {} {} replica(s) failed.",
                same.count(),
                place.kind
            );
            self.conclude(FAILED, self.message(&what));
        } else if limit_policy::too_many(self.job.run_policy.backoff_limit, self.restarts(&tally)) {
            self.conclude(FAILED, format!("Job {} {BACKOFF_LIMIT}", self.job.name));
        } else if self.deadline().is_some_and(|deadline| deadline <= self.now) {
            self.conclude(FAILED, format!("Job {} {DEADLINE}", self.job.name));
        } else {
            return false;
        }
        true
    }

    fn count(&mut self, tally: &Tally) {
        let statuses = &mut self.status.replica_statuses;
        for replica in &self.job.replicas {
            let selector = self.job.selector(Some(replica.kind));
            let selector: Vec<String> = selector
                .iter()
                .map(|(key, value)| format!("{key}={value}"))
                .collect();
            let known = statuses.entry(replica.kind.to_owned()).or_default();
            let mut counts = tally.count(replica.kind);
            counts.restarts = known.restarts;
            counts.selector = Some(selector.join(","));
            *known = counts;
        }
        let job = self.job;
        statuses.retain(|kind, _| job.replica(kind).is_some());
    }

    fn restarts(&self, tally: &Tally) -> Restarts {
        let new = self.newly_failed(tally).len();
        let statuses = self.status.replica_statuses.values();
        Restarts {
            in_place: tally.restarts_in_place(),
            replaced: statuses
                .map(|status| status.restarts)
                .fold(0, i32::saturating_add),
            due: i32::try_from(new).unwrap_or(i32::MAX),
        }
    }

    /// The places whose failed pod is to be replaced and is not counted yet.
    fn newly_failed<'t>(&self, tally: &'t Tally) -> Vec<&'t Place> {
        let counted = |place: &Place| {
            let uid = place.pod.as_deref().and_then(ResourceExt::uid);
            uid.is_some_and(|uid| self.status.replaced_pods.contains(&uid))
        };
        let counts = |place: &&Place| place.failure.is_some_and(|failure| failure.counts);
        tally
            .failed(Verdict::Replace)
            .filter(|place| counts(place) && !counted(place))
            .collect()
    }

    /// Counts the failed pods that are to be replaced, and deletes them. The empty place is filled when they are gone.
    fn replace(&mut self, tally: &Tally) {
        self.tell_exits(tally, &self.status.replaced_pods.clone());
        let new = self.newly_failed(tally);
        for place in &new {
            let Some(pod) = place.pod.as_deref() else {
                continue;
            };
            let replica = self.status.replica_statuses.entry(place.kind.to_owned());
            let restarts = &mut replica.or_default().restarts;
            *restarts = restarts
                .saturating_add(pod::restarts(pod))
                .saturating_add(1);
            self.status.replaced_pods.extend(pod.uid());
        }
        if let Some(first) = new.first() {
            let same = new.iter().filter(|place| place.kind == first.kind).count();
            let what = format!(
                "is restarting because {same} {} replica(s) failed.",
                first.kind
            );
            self.state(RESTARTING, true, "Restarting", &what);
        }
        self.forget_replaced();
        let pods = tally
            .failed(Verdict::Replace)
            .filter_map(|place| place.pod.clone());
        self.plan.delete_pods.extend(pods);
    }

    fn forget_replaced(&mut self) {
        let pods = &self.observed.pods;
        self.status.replaced_pods.retain(|uid| {
            pods.iter()
                .any(|pod| pod.metadata.uid.as_ref() == Some(uid))
        });
    }

    /// A job runs when those that count do; one that restarts, only when everybody is back.
    fn note_running(&mut self, tally: &Tally) {
        let restarting = holds(&self.status, RESTARTING).is_some();
        let back = || {
            tally
                .places
                .iter()
                .all(|place| place.runs() || place.succeeded())
        };
        if success_policy::runs(self.job, tally) && (!restarting || back()) {
            self.state(RUNNING, true, "Running", "is running.");
        }
    }

    /// Makes the pods and Services that are missing, and removes those beyond the number of replicas.
    fn fill(&mut self, tally: &Tally) {
        self.plan.delete_pods.extend(
            tally
                .superfluous
                .iter()
                .filter(|pod| pod.metadata.deletion_timestamp.is_none())
                .cloned(),
        );
        let names: HashSet<_> = tally
            .places
            .iter()
            .map(|place| self.job.pod_name(place.kind, place.index))
            .collect();
        let there: HashSet<_> = self
            .observed
            .services
            .iter()
            .map(|service| service.name_any())
            .collect();
        let wanted = |service: &Arc<Service>| names.contains(&service.name_any());
        let surplus = self.observed.services.iter();
        let surplus = surplus.filter(|service| service.metadata.deletion_timestamp.is_none());
        self.plan
            .delete_services
            .extend(surplus.filter(|service| !wanted(service)).cloned());
        for place in &tally.places {
            let Some(replica) = self.job.replica(place.kind) else {
                continue;
            };
            let name = self.job.pod_name(place.kind, place.index);
            let leaving = self.observed.leaving_services.contains(&name);
            if !leaving && !there.contains(&name) {
                let service = self.job.service(replica, place.index);
                self.plan.create_services.extend(service);
            }
            let room = self.plan.create_pods.len() < MOST_AT_ONCE;
            if room && place.pod.is_none() && !self.observed.leaving_pods.contains(&name) {
                self.plan
                    .create_pods
                    .push(self.job.pod(replica, place.index));
            }
        }
        self.note_overridden_restart_policy();
    }

    fn note_overridden_restart_policy(&mut self) {
        if self.plan.create_pods.is_empty() {
            return;
        }
        let overridden = self.job.replicas.iter().any(|replica| {
            let given = replica.template.spec.as_ref();
            given.is_some_and(|given| given.restart_policy.is_some())
        });
        if overridden {
            let message =
                "Restart policy in pod template overridden by restart policy in replica spec";
            self.plan.notices.push(Notice::warning(
                self.subject.clone(),
                "SetPodTemplateRestartPolicy",
                message,
            ));
        }
    }

    fn conclude(&mut self, kind: &str, message: String) {
        self.status.completion_time = Some(stamp(self.now));
        if kind == SUCCEEDED {
            // Who still runs has done its part; so the Training Operator counts.
            for replica in self.status.replica_statuses.values_mut() {
                replica.succeeded += std::mem::take(&mut replica.active);
            }
        }
        let reason = self.job.framework.reason(kind);
        set(&mut self.status, kind, true, &reason, &message, self.now);
        let notice = if kind == SUCCEEDED {
            Notice::normal
        } else {
            Notice::warning
        };
        self.plan
            .notices
            .push(notice(self.subject.clone(), reason, message));
        if let Some(end) = conditions::end(&self.status).cloned() {
            self.clean_up(&end, false);
        }
    }

    /// What goes after the end of the job, and when the job itself goes. Derived from the record alone, so that it
    /// is done even if we crash right after the end.
    fn clean_up(&mut self, end: &LegacyCondition, on_record: bool) {
        let finished = self.status.completion_time.as_ref().map(|time| time.0);
        match ttl(
            self.job.run_policy.ttl_seconds_after_finished,
            finished,
            self.now,
        ) {
            Ttl::Keep => {}
            Ttl::Until(due) => self.plan.next = Some(due),
            Ttl::Expired if on_record => {
                self.plan.expired = true;
                return;
            }
            // A job that ends just now is deleted after its end is on record.
            Ttl::Expired => self.plan.next = Some(self.now),
        }
        let message = end.message.as_deref().unwrap_or_default();
        let over_limit = message.ends_with(BACKOFF_LIMIT) || message.ends_with(DEADLINE);
        if let Some(due) = self.patience(end, finished) {
            self.plan.next = self.plan.next.into_iter().chain([due]).min();
            return;
        }
        match self.job.clean_pod_policy() {
            CleanPodPolicy::All => self.delete_pods(|_| true),
            CleanPodPolicy::Running => self.delete_pods(|pod| !pod::is_terminal(pod)),
            // A limit that lets the pods go on would limit nothing.
            CleanPodPolicy::None if over_limit => self.delete_pods(|pod| !pod::is_terminal(pod)),
            CleanPodPolicy::None => {}
        }
        if self.job.clean_pod_policy() != CleanPodPolicy::None {
            self.delete_all_services();
        }
    }

    /// Until when pods that still run are left alone, after the one that leads succeeded: the others mostly end a moment
    /// later, and then they and their logs can stay. Those of MPI never do.
    fn patience(&self, end: &LegacyCondition, finished: Option<Timestamp>) -> Option<Timestamp> {
        let waits = end.type_ == SUCCEEDED
            && self.job.clean_pod_policy() == CleanPodPolicy::Running
            && !matches!(self.job.details, Details::Mpi { .. });
        let due = after(finished.filter(|_| waits)?, PATIENCE);
        let mut pods = self.observed.pods.iter();
        (due > self.now && pods.any(|pod| pod::is_active(pod))).then_some(due)
    }

    fn delete_pods(&mut self, which: impl Fn(&Pod) -> bool) {
        let pods = self.observed.pods.iter();
        let pods = pods.filter(|pod| pod.metadata.deletion_timestamp.is_none() && which(pod));
        self.plan.delete_pods = pods.cloned().collect();
    }

    fn delete_all_services(&mut self) {
        let services = self.observed.services.iter();
        let services = services.filter(|service| service.metadata.deletion_timestamp.is_none());
        self.plan.delete_services = services.cloned().collect();
    }

    /// Sets a condition, and tells so if it is news.
    fn state(&mut self, kind: &str, value: bool, reason: &str, what: &str) {
        let (reason, message) = (self.job.framework.reason(reason), self.message(what));
        if set(&mut self.status, kind, value, &reason, &message, self.now) {
            let notice = if kind == RESTARTING {
                Notice::warning
            } else {
                Notice::normal
            };
            self.plan
                .notices
                .push(notice(self.subject.clone(), reason, message));
        }
    }

    fn tell_exits(&mut self, tally: &Tally, counted: &[String]) {
        for place in &tally.places {
            let (Some(pod), Some(failure)) = (place.pod.as_deref(), place.failure) else {
                continue;
            };
            let Some(code) = failure.exit_code else {
                continue;
            };
            if pod.uid().is_some_and(|uid| counted.contains(&uid)) {
                continue;
            }
            let name = format!("{}.{}", self.job.namespace, pod.name_any());
            let message = format!("Pod: {name} exited with code {code}");
            self.plan.notices.push(Notice::normal(
                self.subject.clone(),
                "ExitedWithCode",
                message,
            ));
        }
    }

    fn message(&self, what: &str) -> String {
        format!("{} {} {what}", self.job.framework.kind, self.job.name)
    }
}

#[cfg(test)]
mod tests;
