//! The pods of a v1 job.

use std::collections::BTreeMap;

use astrago_api::labels;
use astrago_api::legacy::RestartPolicy;
use k8s_openapi::api::core::v1::{Container, Pod, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::MASTER_ROLE;
use super::environment::{self, Scope};
use super::mpi;
use super::replica_job::{Replica, TrainingJob};
use crate::template;

/// The init container by which workers wait for their master.
const WAIT_CONTAINER: &str = "init-pytorch";

impl TrainingJob {
    /// The pod of one replica. Two calls give the same pod.
    pub fn pod(&self, replica: &Replica, index: i32) -> Pod {
        let from_template = replica.template.metadata.clone().unwrap_or_default();
        let mut pod_labels = from_template.labels.unwrap_or_default();
        pod_labels.extend(self.pod_labels(replica.kind, index));
        let mut annotations = from_template.annotations.unwrap_or_default();
        annotations.insert(labels::GANG_SIZE.to_owned(), self.gang_size().to_string());
        let metadata = ObjectMeta {
            name: Some(self.pod_name(replica.kind, index)),
            namespace: Some(self.namespace.clone()),
            labels: Some(pod_labels),
            annotations: Some(annotations),
            owner_references: self.owner.clone(),
            ..ObjectMeta::default()
        };
        let main = self.main_container(replica);
        let (main, image) =
            main.map_or((None, None), |main| (Some(&main.name), main.image.clone()));
        let mut spec = replica.template.spec.clone().unwrap_or_default();
        spec.restart_policy = Some(pod_restart_policy(replica.restart_policy).to_owned());
        if spec.priority_class_name.is_none() {
            let policy = self.run_policy.scheduling_policy.as_ref();
            spec.priority_class_name = policy.and_then(|policy| policy.priority_class.clone());
        }
        let (scope, variables) = environment::of(self, replica, index);
        for container in &mut spec.containers {
            if scope == Scope::EveryContainer || Some(&container.name) == main {
                for variable in &variables {
                    template::set_env(container, variable.clone());
                }
            }
        }
        if self.waits_for_master(replica.kind) {
            let master = self.pod_name("Master", 0);
            let wait = wait_for(&master, image);
            spec.init_containers.get_or_insert_default().push(wait);
        }
        let mut pod = Pod {
            metadata,
            spec: Some(spec),
            status: None,
        };
        mpi::equip(self, replica.kind, &mut pod);
        pod
    }

    /// The labels that the job puts on a pod.
    pub(super) fn pod_labels(&self, kind: &str, index: i32) -> BTreeMap<String, String> {
        let mut pod_labels = self.service_labels(kind, index);
        if self.leads(kind, index) {
            pod_labels.insert(labels::TRAINING_JOB_ROLE.to_owned(), MASTER_ROLE.to_owned());
        }
        pod_labels
    }

    fn waits_for_master(&self, kind: &str) -> bool {
        self.framework.kind == "PyTorchJob" && kind == "Worker" && self.has_leader()
    }
}

/// How the node treats containers that end. A replica whose exit code decides is judged by the controller.
fn pod_restart_policy(policy: RestartPolicy) -> &'static str {
    match policy {
        RestartPolicy::Always => "Always",
        RestartPolicy::OnFailure => "OnFailure",
        RestartPolicy::Never | RestartPolicy::ExitCode => "Never",
    }
}

/// Waits, for some minutes at most, until the name of the master is known. It runs in the image of the worker, which
/// is needed anyway; `nslookup` serves images that have no `getent`.
fn wait_for(master: &str, image: Option<String>) -> Container {
    let script = format!(
        "i=0; while [ $i -lt 600 ]; do \
         if getent hosts {master} >/dev/null 2>&1 || nslookup {master} >/dev/null 2>&1; then exit 0; fi; \
         [ $((i % 20)) -eq 0 ] && echo waiting for {master}; \
         i=$((i + 1)); sleep 0.3 2>/dev/null || sleep 1; done; \
         echo {master} cannot be found; exit 1"
    );
    let amounts = |cpu: &str, memory: &str| {
        Some(BTreeMap::from([
            ("cpu".to_owned(), Quantity(cpu.to_owned())),
            ("memory".to_owned(), Quantity(memory.to_owned())),
        ]))
    };
    Container {
        name: WAIT_CONTAINER.to_owned(),
        image,
        command: Some(vec!["sh".into(), "-c".into(), script]),
        resources: Some(ResourceRequirements {
            requests: amounts("50m", "10Mi"),
            limits: amounts("500m", "64Mi"),
            ..ResourceRequirements::default()
        }),
        ..Container::default()
    }
}
