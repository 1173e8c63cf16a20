//! Everything that is wrong with a v1 job, at once, each with its field.

use astrago_api::legacy::{ElasticPolicy, ReplicaSpec, RunPolicy};
use astrago_api::{MOST_PODS, names};

use super::Framework;
use super::kinds::{Details, LegacyKind};
use super::replica_job::main_container;
use crate::error::{FieldError, FieldErrors};

pub(super) fn validate<K: LegacyKind>(
    framework: &'static Framework,
    job: &K,
) -> Result<(), FieldErrors> {
    let mut errors = Vec::new();
    let details = job.details();
    let check = Check {
        framework,
        details: &details,
        errors: &mut errors,
    };
    check.run(job);
    FieldErrors::check(errors)
}

struct Check<'a> {
    framework: &'static Framework,
    details: &'a Details,
    errors: &'a mut Vec<FieldError>,
}

impl Check<'_> {
    fn run<K: LegacyKind>(mut self, job: &K) {
        let specs = job.replica_specs();
        self.types(specs.keys());
        for (name, spec) in specs {
            if let Some(kind) = self.framework.replica_type(name) {
                let path = format!("spec.{}.{name}", self.framework.spec_key);
                self.replica(&path, kind, spec);
                self.name(job.meta().name.as_deref().unwrap_or_default(), kind, spec);
            }
        }
        if !specs.is_empty()
            && specs
                .values()
                .map(ReplicaSpec::count)
                .all(|count| count <= 0)
        {
            self.invalid(
                format!("spec.{}", self.framework.spec_key),
                "must have at least one replica",
            );
        }
        let pods = specs.values().map(|spec| i64::from(spec.count().max(0)));
        if pods.sum::<i64>() > i64::from(MOST_PODS) {
            self.invalid(
                format!("spec.{}", self.framework.spec_key),
                format!("must have at most {MOST_PODS} replicas in all"),
            );
        }
        self.run_policy(job.run_policy());
        let has_worker = specs
            .keys()
            .any(|name| self.framework.replica_type(name) == Some("Worker"));
        self.details(has_worker);
    }

    fn invalid(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.errors.push(FieldError::invalid(field, message));
    }

    fn types<'n>(&mut self, given: impl Iterator<Item = &'n String>) {
        let path = format!("spec.{}", self.framework.spec_key);
        let mut seen: Vec<&str> = Vec::new();
        for name in given {
            match self.framework.replica_type(name) {
                None => self.invalid(
                    format!("{path}.{name}"),
                    format!(
                        "is not a replica type of a {}; must be one of {:?}",
                        self.framework.kind, self.framework.types
                    ),
                ),
                Some(kind) if seen.contains(&kind) => {
                    self.invalid(format!("{path}.{name}"), format!("{kind} is given twice"));
                }
                Some(kind) => seen.push(kind),
            }
        }
        if seen.is_empty() {
            self.invalid(path.clone(), "must be specified");
        }
        if let Some(required) = self.framework.required
            && !seen.contains(&required)
        {
            self.invalid(format!("{path}.{required}"), "must be specified");
        }
        if matches!(self.details, Details::TensorFlow { .. })
            && seen.contains(&"Chief")
            && seen.contains(&"Master")
        {
            self.invalid(path, "must not have more than 1 Chief or Master role");
        }
    }

    fn replica(&mut self, path: &str, kind: &'static str, spec: &ReplicaSpec) {
        let count = spec.count();
        let field = format!("{path}.replicas");
        if self.framework.is_single(kind) && count != 1 {
            self.invalid(field, "must be 1");
        } else if !(0..=MOST_PODS).contains(&count) {
            self.invalid(field, format!("must be from 0 to {MOST_PODS}"));
        }
        let path = format!("{path}.template.spec.containers");
        let containers = spec.template.spec.as_ref().map(|pod| &pod.containers);
        let Some(containers) = containers.filter(|containers| !containers.is_empty()) else {
            self.invalid(path, "must be specified");
            return;
        };
        for (index, container) in containers.iter().enumerate() {
            if container.image.as_deref().unwrap_or_default().is_empty() {
                self.invalid(format!("{path}[{index}].image"), "must be required");
            }
        }
        if main_container(self.framework, self.details, &spec.template).is_none() {
            let name = match self.details {
                Details::Mpi {
                    main_container: Some(name),
                    ..
                } => name,
                _ => self.framework.container,
            };
            self.invalid(
                path,
                format!("must have at least one container with name {name}"),
            );
        }
    }

    /// The name becomes part of the names of pods and Services.
    fn name(&mut self, name: &str, kind: &str, spec: &ReplicaSpec) {
        if !names::is_rfc1035_label(name) {
            let message = "must be a DNS label (RFC 1035): at most 63 lower case letters, digits or '-', starting with a letter";
            self.invalid("metadata.name", message);
            return;
        }
        let last = (spec.count().max(1) - 1).to_string();
        let longest = name.len() + kind.len() + last.len() + 2;
        if longest > names::MAX_LABEL {
            let limit = names::MAX_LABEL.saturating_sub(longest - name.len());
            self.invalid(
                "metadata.name",
                format!("must be at most {limit} characters, so that the names of its {kind} pods fit into 63"),
            );
        }
    }

    fn run_policy(&mut self, policy: &RunPolicy) {
        let numbers = [
            ("backoffLimit", policy.backoff_limit.map(i64::from)),
            (
                "ttlSecondsAfterFinished",
                policy.ttl_seconds_after_finished.map(i64::from),
            ),
            ("activeDeadlineSeconds", policy.active_deadline_seconds),
        ];
        for (field, value) in numbers {
            if value.is_some_and(|value| value < 0) {
                self.invalid(format!("spec.runPolicy.{field}"), "must not be negative");
            }
        }
    }

    fn details(&mut self, has_worker: bool) {
        match self.details {
            Details::PyTorch {
                nproc_per_node,
                elastic,
            } => {
                if let Some(value) = nproc_per_node
                    && !["auto", "cpu", "gpu"].contains(&value.as_str())
                    && !value.parse::<u16>().is_ok_and(|count| count > 0)
                {
                    self.invalid(
                        "spec.nprocPerNode",
                        "must be auto, cpu, gpu or a positive number",
                    );
                }
                if let Some(elastic) = elastic {
                    self.elastic(elastic, nproc_per_node.is_some(), has_worker);
                }
            }
            Details::TensorFlow { success_policy, .. } => {
                if !["", "AllWorkers"].contains(&success_policy.as_str()) {
                    self.invalid("spec.successPolicy", "must be empty or AllWorkers");
                }
            }
            Details::Mpi { slots, .. } => {
                if *slots < 1 {
                    self.invalid("spec.slotsPerWorker", "must be at least 1");
                }
            }
            Details::MxNet {
                job_mode: Some(mode),
            } if !["MXTrain", "MXTune"].contains(&mode.as_str()) => {
                self.invalid("spec.jobMode", "must be MXTrain or MXTune");
            }
            Details::MxNet { .. } | Details::None => {}
        }
    }

    fn elastic(&mut self, elastic: &ElasticPolicy, nproc_given: bool, has_worker: bool) {
        if !has_worker {
            self.invalid(
                "spec.pytorchReplicaSpecs.Worker",
                "must configure Worker when an elasticPolicy is used",
            );
        }
        if elastic.n_proc_per_node.is_some() && nproc_given {
            self.errors.push(FieldError::forbidden(
                "spec.elasticPolicy.nProcPerNode",
                "must not be used with spec.nprocPerNode",
            ));
        }
        let bounds = [
            ("minReplicas", elastic.min_replicas),
            ("maxReplicas", elastic.max_replicas),
        ];
        for (field, bound) in bounds {
            if bound.is_some_and(|bound| bound < 1) {
                self.invalid(format!("spec.elasticPolicy.{field}"), "must be at least 1");
            }
        }
        if let (Some(min), Some(max)) = (elastic.min_replicas, elastic.max_replicas)
            && min > max
        {
            self.invalid(
                "spec.elasticPolicy.minReplicas",
                "must not be greater than maxReplicas",
            );
        }
    }
}
