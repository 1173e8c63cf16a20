//! From a v1 job to the TrainJob that does the same, with a runtime of its own that holds the pod's template.
//!
//! A TrainJob has one kind of node, so master and workers become nodes of one kind (the first is the master). What
//! cannot be said in a TrainJob is left out, and named in [`Migration::notes`]: a user must not find out by a job
//! that behaves in another way.

use astrago_api::labels;
use astrago_api::legacy::{CleanPodPolicy, RestartPolicy};
use k8s_openapi::api::core::v1::{Container, PodTemplateSpec};
use serde_json::{Map, Value, json};

use super::kinds::Details;
use super::replica_job::{Replica, TrainingJob};
use crate::TRAINER_CONTAINER;
use crate::template::{env, env_from_completion_index, set_env};

#[derive(Clone, Debug, PartialEq)]
pub struct Migration {
    /// The objects to apply, in order: a TrainingRuntime where one is needed, and the TrainJob.
    pub objects: Vec<Value>,
    /// What could not be carried over, or behaves in another way; a sentence each.
    pub notes: Vec<String>,
}

/// There is no TrainJob that does the same.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {name} cannot become a TrainJob: {reason}")]
pub struct NoCounterpart {
    kind: &'static str,
    name: String,
    reason: &'static str,
}

impl TrainingJob {
    /// The TrainJob that does the same as this job.
    ///
    /// # Errors
    /// Where there is none: its framework has no runtime, or its replicas play parts that nodes cannot.
    pub fn migrate(&self) -> Result<Migration, NoCounterpart> {
        let refuse = |reason| NoCounterpart {
            kind: self.framework.kind,
            name: self.name.clone(),
            reason,
        };
        let policy = match &self.details {
            Details::PyTorch { nproc_per_node, .. } => {
                let processes = nproc_per_node.as_deref().unwrap_or("auto");
                let number = processes.parse::<i32>().map(Value::from);
                (
                    "torch",
                    json!({ "numProcPerNode": number.unwrap_or_else(|_| processes.into()) }),
                )
            }
            Details::TensorFlow { .. }
                if self.replica("PS").is_some() || self.replica("Evaluator").is_some() =>
            {
                return Err(refuse(
                    "a TrainJob has neither parameter servers nor evaluators",
                ));
            }
            Details::TensorFlow { .. } => ("tensorflow", json!({})),
            Details::Mpi { .. } => return Ok(self.migrate_mpi()),
            Details::MxNet { .. } => return Err(refuse("there is no runtime for MXNet")),
            Details::None => match self.framework.kind {
                "XGBoostJob" => ("xgboost", json!({})),
                "JAXJob" => ("jax", json!({})),
                _ => return Err(refuse("there is no runtime for PaddlePaddle")),
            },
        };
        Ok(self.migrate_nodes(policy.0, &policy.1))
    }

    fn migrate_nodes(&self, framework: &str, policy: &Value) -> Migration {
        let mut notes = Vec::new();
        // The pods that are the most are the rule; the one that leads, the exception.
        let model = self.replica("Worker").filter(|workers| workers.count > 0);
        let Some(model) = model.or_else(|| self.replicas.first()) else {
            return Migration {
                objects: Vec::new(),
                notes,
            };
        };
        self.compare(model, &mut notes);
        let mut template = model.template.clone();
        self.rename_container(&mut template);
        if framework == "torch" {
            self.keep_v1_variables(&mut template);
            notes.push(
                "RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are set in the runtime for code that does not use torchrun"
                    .into(),
            );
        }
        let in_place = matches!(
            model.restart_policy,
            RestartPolicy::Always | RestartPolicy::OnFailure
        );
        if let Some(pod) = &mut template.spec {
            pod.restart_policy = Some(if in_place { "OnFailure" } else { "Never" }.into());
        }
        self.note_run_policy(model, &mut notes);
        let limit = self.run_policy.backoff_limit;
        let mut job = json!({ "template": template });
        if model.restart_policy == RestartPolicy::ExitCode {
            let permanent: Vec<i32> = (1..128).collect();
            job["podFailurePolicy"] = json!({ "rules": [{ "action": "FailJob", "onExitCodes": {
                "containerName": TRAINER_CONTAINER, "operator": "In", "values": permanent } }] });
        }
        let restarts = match model.restart_policy {
            RestartPolicy::Never => 0,
            _ => limit.unwrap_or(6),
        };
        job["backoffLimit"] = json!(restarts);
        let runtime = format!("{}-runtime", self.name);
        let mut ml_policy = Map::from_iter([("numNodes".to_owned(), json!(self.total()))]);
        ml_policy.insert(framework.to_owned(), policy.clone());
        let replicated = json!({ "name": "node", "template": {
            "metadata": { "labels": { labels::TRAIN_JOB_ANCESTOR_STEP: "trainer" } }, "spec": job } });
        let runtime_object = json!({
            "apiVersion": "trainer.kubeflow.org/v1alpha1",
            "kind": "TrainingRuntime",
            "metadata": self.metadata(&runtime, Some(framework)),
            "spec": {
                "mlPolicy": ml_policy,
                "template": { "spec": {
                    "failurePolicy": { "maxRestarts": 0 },
                    "replicatedJobs": [replicated] } },
            },
        });
        let mut spec = json!({ "runtimeRef": { "kind": "TrainingRuntime", "name": runtime },
            "trainer": { "numNodes": self.total() } });
        self.carry_lifetime(&mut spec);
        Migration {
            objects: vec![runtime_object, self.train_job(&spec)],
            notes,
        }
    }

    /// An MPIJob needs no runtime of its own: the built-in one starts mpirun over sshd as the job does.
    fn migrate_mpi(&self) -> Migration {
        let slots = match self.details {
            Details::Mpi { slots, .. } => slots,
            _ => 1,
        };
        let mut notes = vec!["the runtime is horovod-distributed; its image is used for the workers unless the runtime is changed".to_owned()];
        let workers = self.replica("Worker");
        let launcher = self
            .replica("Launcher")
            .and_then(|launcher| self.main_container(launcher));
        let mut trainer = json!({ "numNodes": workers.map_or(1, |workers| workers.count.max(1)), "numProcPerNode": slots });
        if let Some(launcher) = launcher {
            trainer["image"] = json!(launcher.image);
            trainer["command"] = json!(launcher.command.clone().unwrap_or_default());
            trainer["args"] = json!(launcher.args.clone().unwrap_or_default());
            trainer["env"] = json!(launcher.env.clone().unwrap_or_default());
        }
        if let Some(resources) = workers
            .and_then(|workers| self.main_container(workers))
            .and_then(|main| main.resources.clone())
        {
            trainer["resourcesPerNode"] = json!(resources);
        }
        for replica in &self.replicas {
            let pod = replica.template.spec.as_ref();
            let more = pod.is_some_and(|pod| {
                pod.volumes.is_some()
                    || pod.node_selector.is_some()
                    || pod.tolerations.is_some()
                    || pod.containers.len() > 1
            });
            if more {
                notes.push(format!(
                    "volumes, placement and further containers of {} are not carried over; add them as runtimePatches",
                    replica.kind
                ));
            }
            self.note_run_policy(replica, &mut notes);
        }
        notes.dedup();
        let mut spec =
            json!({ "runtimeRef": { "name": "horovod-distributed" }, "trainer": trainer });
        self.carry_lifetime(&mut spec);
        Migration {
            objects: vec![self.train_job(&spec)],
            notes,
        }
    }

    fn carry_lifetime(&self, spec: &mut Value) {
        let policy = &self.run_policy;
        let fields = [
            (
                "suspend",
                policy.suspend.filter(|held| *held).map(Value::from),
            ),
            (
                "activeDeadlineSeconds",
                policy.active_deadline_seconds.map(Value::from),
            ),
            (
                "ttlSecondsAfterFinished",
                policy.ttl_seconds_after_finished.map(Value::from),
            ),
        ];
        for (field, value) in fields {
            if let Some(value) = value {
                spec[field] = value;
            }
        }
    }

    fn note_run_policy(&self, replica: &Replica, notes: &mut Vec<String>) {
        if self.framework.kind != "MPIJob" && self.clean_pod_policy() != CleanPodPolicy::Running {
            notes.push(format!(
                "cleanPodPolicy {:?}: a TrainJob that ended keeps its ended pods and removes those that run",
                self.clean_pod_policy()
            ));
        }
        if self.run_policy.scheduling_policy.is_some() {
            notes.push(
                "schedulingPolicy is not carried over; the pods start together as a gang anyway"
                    .into(),
            );
        }
        if replica.restart_policy == RestartPolicy::Always {
            notes.push(
                "restartPolicy Always becomes OnFailure: a node that ends well is done".into(),
            );
        }
        if let Details::PyTorch {
            elastic: Some(_), ..
        } = self.details
        {
            notes.push("elasticPolicy is not carried over: the number of nodes is fixed".into());
        }
        if let Details::TensorFlow {
            dynamic_worker: true,
            ..
        } = self.details
        {
            notes.push(
                "enableDynamicWorker is not carried over: every worker knows all others".into(),
            );
        }
        if self.has_leader() && self.framework.kind != "MPIJob" {
            notes.push(format!(
                "the job succeeds when all nodes do, not when the {} does",
                self.leader()
            ));
        }
    }

    /// Names what differs between the replicas, which a TrainJob cannot.
    fn compare(&self, model: &Replica, notes: &mut Vec<String>) {
        for replica in self
            .replicas
            .iter()
            .filter(|replica| replica.kind != model.kind)
        {
            if replica.template != model.template {
                notes.push(format!(
                    "the template of {} differs from that of {} and is not carried over: all nodes have that of {}",
                    replica.kind, model.kind, model.kind
                ));
            }
            if replica.restart_policy != model.restart_policy {
                notes.push(format!(
                    "restartPolicy of {} differs from that of {} and is not carried over",
                    replica.kind, model.kind
                ));
            }
        }
    }

    fn rename_container(&self, template: &mut PodTemplateSpec) {
        if let Some(main) = self.training_container(template) {
            TRAINER_CONTAINER.clone_into(&mut main.name);
        }
    }

    fn training_container<'t>(
        &self,
        template: &'t mut PodTemplateSpec,
    ) -> Option<&'t mut Container> {
        let containers = &mut template.spec.as_mut()?.containers;
        let mut named = containers.iter_mut().filter(|container| {
            [self.framework.container, TRAINER_CONTAINER].contains(&container.name.as_str())
        });
        named.next()
    }

    fn keep_v1_variables(&self, template: &mut PodTemplateSpec) {
        let first = format!("{0}-node-0-0.{0}", self.name);
        let variables = [
            env("MASTER_ADDR", first),
            env("MASTER_PORT", crate::RENDEZVOUS_PORT.to_string()),
            env("WORLD_SIZE", self.total().to_string()),
            env_from_completion_index("RANK"),
        ];
        if let Some(main) = self.training_container(template) {
            for variable in variables {
                set_env(main, variable);
            }
        }
    }

    fn train_job(&self, spec: &Value) -> Value {
        json!({
            "apiVersion": "trainer.kubeflow.org/v1alpha1",
            "kind": "TrainJob",
            "metadata": self.metadata(&self.name, None),
            "spec": spec,
        })
    }

    fn metadata(&self, name: &str, framework: Option<&str>) -> Value {
        let mut metadata = json!({ "name": name });
        if !self.namespace.is_empty() {
            metadata["namespace"] = json!(self.namespace);
        }
        if let Some(framework) = framework {
            metadata["labels"] = json!({ labels::FRAMEWORK: framework });
        }
        metadata
    }
}
