//! A v1 job of any kind, checked and with its defaults filled in: what the controller works with.

use std::collections::BTreeMap;

use astrago_api::labels;
use astrago_api::legacy::{CleanPodPolicy, RestartPolicy, RunPolicy};
use k8s_openapi::api::core::v1::{Container, ContainerPort, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::Framework;
use super::kinds::{Details, LegacyKind};
use super::validate;
use crate::error::FieldErrors;
use crate::owner::owned_by;

/// A v1 job of any kind that makes sense, with its defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainingJob {
    /// Its row of the table.
    pub framework: &'static Framework,
    pub name: String,
    pub namespace: String,
    /// The reference by which its pods and Services belong to it.
    pub owner: Option<Vec<OwnerReference>>,
    /// Its replicas, in the order of the table.
    pub replicas: Vec<Replica>,
    /// How it is run and cleaned up.
    pub run_policy: RunPolicy,
    /// What its kind has beyond the others.
    pub details: Details,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Replica {
    /// The type, spelled as in the table.
    pub kind: &'static str,
    pub count: i32,
    /// What happens when one ends.
    pub restart_policy: RestartPolicy,
    /// What each runs. The port where the replicas meet is there.
    pub template: PodTemplateSpec,
}

impl TrainingJob {
    /// The job that `object` describes.
    ///
    /// # Errors
    /// Everything that is wrong with it, each with its field.
    pub fn of<K: LegacyKind>(object: &K) -> Result<Self, FieldErrors> {
        let framework = K::framework();
        let meta = object.meta();
        validate::validate(framework, object)?;
        let details = object.details();
        let given = object.replica_specs();
        let replicas = framework.types.iter().filter_map(|&kind| {
            let (_, spec) = given
                .iter()
                .find(|(name, _)| framework.replica_type(name) == Some(kind))?;
            let mut template = spec.template.clone();
            let main =
                main_container(framework, &details, &template).map(|found| found.name.clone());
            let containers = template.spec.iter_mut().flat_map(|pod| &mut pod.containers);
            for container in containers.filter(|container| Some(&container.name) == main.as_ref()) {
                default_port(framework, container);
            }
            Some(Replica {
                kind,
                count: spec.replicas.unwrap_or(1),
                restart_policy: spec.restart_policy.unwrap_or(framework.restart_policy),
                template,
            })
        });
        Ok(Self {
            framework,
            name: meta.name.clone().unwrap_or_default(),
            namespace: meta.namespace.clone().unwrap_or_default(),
            owner: owned_by(object),
            replicas: replicas.collect(),
            run_policy: run_policy(object.run_policy(), &details),
            details,
        })
    }

    /// The replicas of a type, if the job has that type.
    pub fn replica(&self, kind: &str) -> Option<&Replica> {
        self.replicas.iter().find(|replica| replica.kind == kind)
    }

    pub fn total(&self) -> i32 {
        self.replicas.iter().map(|replica| replica.count).sum()
    }

    /// The type that leads, and whose first pod decides on the job; the workers where none of the leading types is there.
    pub fn leader(&self) -> &'static str {
        let mut leaders = self.framework.leaders.iter();
        let leader =
            leaders.find(|&&kind| self.replica(kind).is_some_and(|replica| replica.count > 0));
        leader.copied().unwrap_or("Worker")
    }

    /// Whether a type that leads is there.
    pub fn has_leader(&self) -> bool {
        self.framework.leaders.contains(&self.leader())
    }

    /// Whether the pod leads.
    pub(super) fn leads(&self, kind: &str, index: i32) -> bool {
        index == 0 && kind == self.leader()
    }

    /// The name of a pod and of its Service.
    pub fn pod_name(&self, kind: &str, index: i32) -> String {
        let lower = kind.to_lowercase();
        if kind == "Launcher" {
            return format!("{}-{lower}", self.name);
        }
        format!("{}-{lower}-{index}", self.name)
    }

    /// The labels by which the pods of the job are found, and with a type those of that type.
    pub fn selector(&self, kind: Option<&str>) -> BTreeMap<String, String> {
        let mut selector = BTreeMap::from([
            (labels::TRAINING_JOB_NAME.to_owned(), self.name.clone()),
            (
                labels::TRAINING_OPERATOR_NAME.to_owned(),
                self.framework.operator.to_owned(),
            ),
        ]);
        if let Some(kind) = kind {
            selector.insert(
                labels::TRAINING_REPLICA_TYPE.to_owned(),
                kind.to_lowercase(),
            );
        }
        selector
    }

    /// How many pods have to start together.
    pub fn gang_size(&self) -> i32 {
        let policy = self.run_policy.scheduling_policy.as_ref();
        let asked = policy.and_then(|policy| policy.min_available);
        asked
            .filter(|&size| size > 0)
            .unwrap_or(i32::MAX)
            .min(self.total())
    }

    /// Which pods go when the job has ended.
    pub fn clean_pod_policy(&self) -> CleanPodPolicy {
        self.run_policy.clean_pod_policy.unwrap_or_default()
    }

    /// The port where the pods of a type meet the others.
    pub(super) fn port(&self, kind: &str) -> i32 {
        let main = self
            .replica(kind)
            .and_then(|replica| self.main_container(replica));
        let ports = main
            .into_iter()
            .flat_map(|main| main.ports.iter().flatten());
        let mut named = ports.filter(|port| port.name.as_deref() == Some(self.framework.port_name));
        named
            .next()
            .map_or(self.framework.port, |port| port.container_port)
    }

    pub fn main_container<'a>(&self, replica: &'a Replica) -> Option<&'a Container> {
        main_container(self.framework, &self.details, &replica.template)
    }
}

/// The container of a template that trains: the one with the framework's name; for MPI the one that the job names,
/// else the first.
pub(super) fn main_container<'a>(
    framework: &Framework,
    details: &Details,
    template: &'a PodTemplateSpec,
) -> Option<&'a Container> {
    let containers = &template.spec.as_ref()?.containers;
    let called = |name: &str| containers.iter().find(|container| container.name == name);
    match details {
        Details::Mpi {
            main_container: Some(name),
            ..
        } => called(name),
        Details::Mpi { .. } => called(framework.container).or_else(|| containers.first()),
        _ => called(framework.container),
    }
}

fn default_port(framework: &Framework, container: &mut Container) {
    let ports = container.ports.get_or_insert_default();
    if !ports
        .iter()
        .any(|port| port.name.as_deref() == Some(framework.port_name))
    {
        ports.push(ContainerPort {
            name: Some(framework.port_name.to_owned()),
            container_port: framework.port,
            ..ContainerPort::default()
        });
    }
}

fn run_policy(given: &RunPolicy, details: &Details) -> RunPolicy {
    let mut policy = given.clone();
    if let Details::Mpi {
        clean_pod_policy, ..
    } = details
    {
        // Its workers only serve the launcher and never end by themselves.
        let clean = policy.clean_pod_policy.or(*clean_pod_policy);
        policy.clean_pod_policy = clean.or(Some(CleanPodPolicy::Running));
    }
    policy
}
