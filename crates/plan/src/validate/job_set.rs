//! JobSets: what JobSet's own webhook refuses, and what is not there.
//!
//! Most of it stands in the definition too, where `kubectl apply` hears of it. It is asked again for sets that were
//! stored before, for those that TrainJobs become, and for API servers with another definition.

use std::collections::HashSet;

use astrago_api::{
    FailurePolicyAction, JobSet, JobSetSpec, MOST_PODS, ReplicatedJob, RestartStrategy,
    StartupPolicyOrder, names,
};
use k8s_openapi::api::core::v1::PodSpec;
use kube::ResourceExt;
use regex::Regex;

use crate::error::{FieldError, FieldErrors};
use crate::template;

/// The reasons of a Job's failure that a rule can be for.
const REASONS: [&str; 5] = [
    "BackoffLimitExceeded",
    "DeadlineExceeded",
    "FailedIndexes",
    "MaxFailedIndexesExceeded",
    "PodFailurePolicy",
];

/// Annotations that ask for a placement which our scheduler does not know.
const PLACEMENT: [&str; 2] = [
    "alpha.jobset.sigs.k8s.io/exclusive-topology",
    "alpha.jobset.sigs.k8s.io/node-selector",
];

/// The most characters of a label's value, and of a manager's name.
const LONGEST: usize = 63;

pub fn validate_job_set(set: &JobSet) -> Result<(), FieldErrors> {
    let mut check = Check {
        set,
        errors: Vec::new(),
    };
    check.templates();
    check.placement();
    check.network();
    check.success_policy();
    check.failure_policy();
    check.coordinator();
    check.claims();
    FieldErrors::check(check.errors)
}

/// The field whose product with the others makes more pods than a job may have, if there is one.
pub fn too_many_pods(spec: &JobSetSpec) -> Option<FieldError> {
    let mut total = 0_i64;
    for (index, template) in spec.replicated_jobs.iter().enumerate() {
        let field = format!("spec.replicatedJobs[{index}]");
        let spec = template.job_spec();
        let counts = [
            ("replicas", template.replicas),
            (
                "template.spec.parallelism",
                spec.and_then(|spec| spec.parallelism),
            ),
            (
                "template.spec.completions",
                spec.and_then(|spec| spec.completions),
            ),
        ];
        for (name, count) in counts {
            if count.is_some_and(|count| !(0..=MOST_PODS).contains(&count)) {
                let message = format!("must be from 0 to {MOST_PODS}");
                return Some(FieldError::invalid(format!("{field}.{name}"), message));
            }
        }
        total = total.saturating_add(template.pods());
        if total > i64::from(MOST_PODS) {
            let message =
                format!("a job has at most {MOST_PODS} pods at a time; up to here it has {total}");
            return Some(FieldError::invalid(format!("{field}.replicas"), message));
        }
    }
    None
}

struct Check<'a> {
    set: &'a JobSet,
    errors: Vec<FieldError>,
}

impl Check<'_> {
    fn invalid(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.errors.push(FieldError::invalid(field, message));
    }

    fn templates(&mut self) {
        let set = self.set;
        self.errors.extend(too_many_pods(&set.spec));
        let in_order = set
            .spec
            .startup_policy
            .as_ref()
            .is_some_and(|policy| policy.startup_policy_order == StartupPolicyOrder::InOrder);
        let mut before = HashSet::new();
        for (index, template) in set.spec.replicated_jobs.iter().enumerate() {
            let field = format!("spec.replicatedJobs[{index}]");
            // What a template depends on stands before it; so there are no circles.
            for (number, dependency) in template.depends_on.iter().enumerate() {
                if !before.contains(dependency.name.as_str()) {
                    self.invalid(
                        format!("{field}.dependsOn[{number}].name"),
                        format!(
                            "replicatedJob: {} cannot depend on replicatedJob: {}, which does not stand before it",
                            template.name, dependency.name
                        ),
                    );
                }
            }
            if in_order && !template.depends_on.is_empty() {
                self.invalid(
                    format!("{field}.dependsOn"),
                    "StartupPolicy and DependsOn APIs are mutually exclusive",
                );
            }
            if !before.insert(template.name.as_str()) {
                self.invalid(
                    format!("{field}.name"),
                    format!("{} is there twice", template.name),
                );
            }
            self.names(&field, template);
            self.pods(&field, template);
        }
    }

    fn names(&mut self, field: &str, template: &ReplicatedJob) {
        if !names::is_rfc1035_label(template.group_name()) {
            self.invalid(
                format!("{field}.groupName"),
                "must be a DNS label (RFC 1035) of at most 63 characters",
            );
        }
        // A preview may have no name yet.
        let Some(set) = self.set.metadata.name.as_deref() else {
            return;
        };
        let last = |count: i32| count.max(1) - 1;
        let job = names::job(set, &template.name, last(template.replicas()));
        if !names::is_rfc1035_label(&job) {
            let message = format!(
                "job names generated for this JobSet must be DNS labels of at most 63 characters, unlike {job:?}"
            );
            self.invalid(format!("{field}.name"), message);
            return;
        }
        let spec = template.job_spec();
        let mode = spec.and_then(|spec| spec.completion_mode.as_deref());
        if mode.is_some_and(|mode| mode != "Indexed") {
            return;
        }
        let completions = spec.and_then(|spec| spec.completions);
        let pod = names::pod(&job, last(completions.unwrap_or(1)), "abcde");
        if pod.len() > names::MAX_LABEL {
            self.invalid(
                format!("{field}.name"),
                format!(
                    "pod names generated for this JobSet will exceed 63 characters, such as {pod:?}"
                ),
            );
        }
    }

    fn pods(&mut self, field: &str, template: &ReplicatedJob) {
        let pod = template
            .pod_template()
            .and_then(|template| template.spec.as_ref());
        let policy = pod.and_then(|pod| pod.restart_policy.as_deref());
        if policy.is_some_and(|policy| !["OnFailure", "Never"].contains(&policy)) {
            self.invalid(
                format!("{field}.template.spec.template.spec.restartPolicy"),
                "must be OnFailure or Never",
            );
        }
    }

    fn placement(&mut self) {
        let own = self.set.metadata.annotations.as_ref();
        let own = own.map(|own| ("metadata.annotations".to_owned(), own));
        let templates = self.set.spec.replicated_jobs.iter().enumerate();
        let theirs = templates.filter_map(|(index, template)| {
            let metadata = template.template.metadata.as_ref()?;
            let field = format!("spec.replicatedJobs[{index}].template.metadata.annotations");
            Some((field, metadata.annotations.as_ref()?))
        });
        let asked: Vec<String> = own
            .into_iter()
            .chain(theirs)
            .flat_map(|(field, annotations)| {
                let found = PLACEMENT
                    .iter()
                    .filter(|key| annotations.contains_key(**key));
                found
                    .map(|key| format!("{field}[{key}]"))
                    .collect::<Vec<_>>()
            })
            .collect();
        for field in asked {
            let message = "exclusive placement is not supported: remove the annotation";
            self.errors.push(FieldError::forbidden(field, message));
        }
    }

    fn network(&mut self) {
        let network = self.set.spec.network.as_ref();
        let subdomain = network.and_then(|network| network.subdomain.as_deref());
        if subdomain.is_some_and(|name| !name.is_empty() && !names::is_rfc1035_label(name)) {
            self.invalid(
                "spec.network.subdomain",
                "must be a DNS label (RFC 1035) of at most 63 characters",
            );
        }
        if let Some(manager) = &self.set.spec.managed_by {
            let path = manager.split_once('/');
            let valid = path.is_some_and(|(domain, name)| {
                domain.split('.').all(names::is_rfc1123_label) && !name.is_empty()
            });
            if !valid || manager.len() > LONGEST {
                self.invalid(
                    "spec.managedBy",
                    "must be a domain-prefixed path (such as \"acme.io/foo\") of at most 63 characters",
                );
            }
        }
    }

    fn targets(&mut self, field: &str, targets: &[String]) {
        for (index, target) in targets.iter().enumerate() {
            if self.set.replicated_job(target).is_none() {
                self.invalid(
                    format!("{field}.targetReplicatedJobs[{index}]"),
                    format!("invalid replicatedJob name '{target}' does not appear in .spec.ReplicatedJobs"),
                );
            }
        }
    }

    fn success_policy(&mut self) {
        if let Some(policy) = &self.set.spec.success_policy {
            self.targets("spec.successPolicy", &policy.target_replicated_jobs);
        }
    }

    fn failure_policy(&mut self) {
        let Some(policy) = &self.set.spec.failure_policy else {
            return;
        };
        if policy.restart_strategy == Some(RestartStrategy::InPlaceRestart) {
            self.errors.push(FieldError::forbidden(
                "spec.failurePolicy.restartStrategy",
                "InPlaceRestart is an alpha feature that is not there: use Recreate or BlockingRecreate",
            ));
        }
        let mut seen = HashSet::new();
        for (index, rule) in policy.rules.iter().enumerate() {
            let field = format!("spec.failurePolicy.rules[{index}]");
            let single = [
                FailurePolicyAction::RestartJob,
                FailurePolicyAction::RestartJobAndIgnoreMaxRestarts,
            ];
            if single.contains(&rule.action) {
                self.errors.push(FieldError::forbidden(
                    format!("{field}.action"),
                    "RestartJob is an alpha feature that is not there: use RestartJobSet",
                ));
            }
            if !is_rule_name(&rule.name) {
                self.invalid(
                    format!("{field}.name"),
                    "must be at most 128 letters, digits or '_,:', start with a letter and end with a letter, \
                     a digit or '_'",
                );
            }
            if !rule.name.is_empty() && !seen.insert(rule.name.as_str()) {
                self.invalid(
                    format!("{field}.name"),
                    format!("rule names are not unique: {}", rule.name),
                );
            }
            self.targets(&field, &rule.target_replicated_jobs);
            for reason in &rule.on_job_failure_reasons {
                if !REASONS.contains(&reason.as_str()) {
                    self.invalid(
                        format!("{field}.onJobFailureReasons"),
                        format!("'{reason}' is not a recognized job failure reason; must be one of {REASONS:?}"),
                    );
                }
            }
            for pattern in &rule.on_job_failure_message_patterns {
                if let Err(error) = Regex::new(pattern) {
                    self.invalid(
                        format!("{field}.onJobFailureMessagePatterns"),
                        format!("{pattern:?} is no regular expression: {error}"),
                    );
                }
            }
        }
    }

    fn coordinator(&mut self) {
        let Some(coordinator) = &self.set.spec.coordinator else {
            return;
        };
        let field = "spec.coordinator";
        let Some(template) = self.set.replicated_job(&coordinator.replicated_job) else {
            let message = format!(
                "coordinator replicatedJob {} does not exist",
                coordinator.replicated_job
            );
            self.invalid(format!("{field}.replicatedJob"), message);
            return;
        };
        let (job, pod) = (
            coordinator.job_index.unwrap_or(0),
            coordinator.pod_index.unwrap_or(0),
        );
        if !(0..template.replicas()).contains(&job) {
            self.invalid(
                format!("{field}.jobIndex"),
                format!(
                    "coordinator job index {job} is invalid for replicatedJob {}",
                    template.name
                ),
            );
        }
        let spec = template.job_spec();
        let mode = spec.and_then(|spec| spec.completion_mode.as_deref());
        let completions = spec.and_then(|spec| spec.completions);
        match completions.filter(|_| mode.is_none_or(|mode| mode == "Indexed")) {
            None => self.invalid(
                format!("{field}.replicatedJob"),
                "job for coordinator pod must be indexed completion mode, and completions number must be set",
            ),
            Some(completions) if !(0..completions).contains(&pod) => self.invalid(
                format!("{field}.podIndex"),
                format!(
                    "coordinator pod index {pod} is invalid for replicatedJob {}",
                    template.name
                ),
            ),
            Some(_) => {}
        }
        let name = names::job(&self.set.name_any(), &template.name, job);
        let address = names::pod_address(&name, pod, self.set.subdomain());
        if address.len() > LONGEST {
            self.invalid(
                field,
                format!("its address {address} must have at most 63 characters, since it becomes a label"),
            );
        }
    }

    fn claims(&mut self) {
        let mut seen = HashSet::new();
        let policies = self.set.spec.volume_claim_policies.iter().enumerate();
        for (policy, claims) in policies {
            for (index, claim) in claims.templates.iter().enumerate() {
                let name = claim.name_any();
                let field =
                    format!("spec.volumeClaimPolicies[{policy}].templates[{index}].metadata.name");
                if !name.split('.').all(names::is_rfc1123_label) {
                    self.invalid(&field, "must be a DNS subdomain (RFC 1123)");
                }
                if !seen.insert(name.clone()) {
                    self.invalid(
                        &field,
                        "names must be unique for VolumeClaimPolicies template",
                    );
                }
                if names::volume_claim(&name, &self.set.name_any()).len() > names::MAX_LABEL {
                    self.invalid(&field, "VolumeClaimPolicies template name is too long");
                }
                let jobs = self.set.spec.replicated_jobs.iter();
                if !jobs
                    .filter_map(template::pod_spec)
                    .any(|pod| mounts(pod, &name))
                {
                    self.invalid(
                        &field,
                        format!("no container has a volumeMount called {name}"),
                    );
                }
                self.volumes(&name);
            }
        }
    }

    /// A claim's volume must not take the place of another.
    fn volumes(&mut self, claim: &str) {
        for (index, job) in self.set.spec.replicated_jobs.iter().enumerate() {
            let volumes = template::pod_spec(job).and_then(|pod| pod.volumes.as_ref());
            for (number, volume) in volumes.into_iter().flatten().enumerate() {
                if volume.name == claim {
                    self.invalid(
                        format!("spec.replicatedJobs[{index}].template.spec.template.spec.volumes[{number}].name"),
                        format!("volume name conflicts with VolumeClaimPolicy template name: {claim}"),
                    );
                }
            }
        }
    }
}

/// Whether a container mounts the volume of this name.
fn mounts(pod: &PodSpec, name: &str) -> bool {
    let first = pod.init_containers.iter().flatten();
    first
        .chain(&pod.containers)
        .flat_map(|container| container.volume_mounts.iter().flatten())
        .any(|mount| mount.name == name)
}

/// A rule without a name gets one.
fn is_rule_name(name: &str) -> bool {
    let inner = |letter: char| letter.is_ascii_alphanumeric() || "_,:".contains(letter);
    name.is_empty()
        || (name.len() <= 128
            && name.starts_with(|first: char| first.is_ascii_alphabetic())
            && name.ends_with(|last: char| last.is_ascii_alphanumeric() || last == '_')
            && name.chars().all(inner))
}

#[cfg(test)]
mod tests;
