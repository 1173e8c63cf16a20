//! What an MPIJob needs besides its pods: a host file, a key pair, and two scripts.
//!
//! The Training Operator's launcher starts its ranks by `kubectl exec`, for which it needs kubectl in the image and
//! credentials of the API server in the pod. Here it uses ssh, as everywhere else where MPI runs: the workers' default
//! command is `sshd.sh`, the launcher's remote shell is `kubexec.sh` (the name that scripts know). Both work with
//! whatever user, home folder and key permissions an image or a sandbox has: they make their own files from the mounted
//! key in a private folder, and read nothing of the system's ssh configuration. A rank gets the environment of its
//! container, as it would by `kubectl exec`.

use std::collections::BTreeMap;
use std::fmt::Write;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{
    ConfigMap, ConfigMapVolumeSource, Container, EnvVar, Pod, Probe, Secret, SecretVolumeSource,
    TCPSocketAction, Volume,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::kinds::Details;
use super::replica_job::{Replica, TrainingJob};
use crate::resources;
use crate::template::{self, env, mount};

const CONFIG_DIRECTORY: &str = "/etc/mpi";
const KEY_DIRECTORY: &str = "/etc/mpi-ssh";
const PORT: i32 = 2222;

/// The remote shell of the launcher: ssh with the job's key, after the worker's name is known.
const REMOTE_SHELL: &str = include_str!("mpi/kubexec.sh");
/// The default command of the workers.
const SERVER: &str = include_str!("mpi/sshd.sh");

impl TrainingJob {
    /// The ConfigMap `<job>-config` of an MPIJob.
    pub fn mpi_config(&self) -> Option<ConfigMap> {
        let Details::Mpi { slots, .. } = self.details else {
            return None;
        };
        let mut hosts = Vec::new();
        let launcher = self.replica("Launcher");
        let launcher = launcher.and_then(|launcher| self.main_container(launcher));
        if resources::gpus(launcher.and_then(|main| main.resources.as_ref())) > 0 {
            hosts.push(self.pod_name("Launcher", 0));
        }
        let workers = self.replica("Worker").map_or(0, |workers| workers.count);
        hosts.extend((0..workers).map(|index| self.pod_name("Worker", index)));
        let mut hostfile = String::new();
        let mut discover = String::from("#!/bin/sh\n");
        for host in &hosts {
            // A String takes any text, so writing to it cannot fail.
            let _ = writeln!(hostfile, "{host} slots={slots}");
            let _ = writeln!(discover, "echo {host}:{slots}");
        }
        let data = BTreeMap::from([
            ("hostfile".to_owned(), hostfile),
            ("discover_hosts.sh".to_owned(), discover),
            ("kubexec.sh".to_owned(), REMOTE_SHELL.to_owned()),
            ("sshd.sh".to_owned(), SERVER.to_owned()),
        ]);
        Some(ConfigMap {
            metadata: self.mpi_metadata("config"),
            data: Some(data),
            ..ConfigMap::default()
        })
    }

    /// The name of the Secret with the key pair of an MPIJob.
    pub fn mpi_secret_name(&self) -> Option<String> {
        let is_mpi = matches!(self.details, Details::Mpi { .. });
        is_mpi.then(|| format!("{}-ssh-auth", self.name))
    }

    /// That Secret: a private key in PEM and a public key as `authorized_keys` has it.
    pub fn mpi_secret(&self, private_key: &str, public_key: &str) -> Secret {
        let data = [
            ("ssh-privatekey", private_key),
            ("ssh-publickey", public_key),
        ];
        Secret {
            metadata: self.mpi_metadata("ssh-auth"),
            type_: Some("kubernetes.io/ssh-auth".into()),
            immutable: Some(true),
            data: Some(
                data.map(|(key, value)| (key.into(), ByteString(value.as_bytes().to_vec())))
                    .into(),
            ),
            string_data: None,
        }
    }

    fn mpi_metadata(&self, what: &str) -> ObjectMeta {
        ObjectMeta {
            name: Some(format!("{}-{what}", self.name)),
            namespace: Some(self.namespace.clone()),
            labels: Some(self.selector(None)),
            owner_references: self.owner.clone(),
            ..ObjectMeta::default()
        }
    }
}

/// What the launcher is told. Open MPI, Intel MPI and MPICH each have their own words for it.
pub(super) fn variables(job: &TrainingJob, replica: &Replica) -> Vec<EnvVar> {
    if replica.kind != "Launcher" {
        return Vec::new();
    }
    let shell = format!("{CONFIG_DIRECTORY}/kubexec.sh");
    let hostfile = format!("{CONFIG_DIRECTORY}/hostfile");
    let mut variables = vec![
        env("OMPI_MCA_plm_rsh_agent", shell.clone()),
        env("OMPI_MCA_orte_default_hostfile", hostfile.clone()),
        env("OMPI_MCA_orte_keep_fqdn_hostnames", "true"),
        env("PRTE_MCA_plm_ssh_agent", shell.clone()),
        env("PRTE_MCA_prte_default_hostfile", hostfile.clone()),
        env("I_MPI_HYDRA_BOOTSTRAP", "rsh"),
        env("I_MPI_HYDRA_BOOTSTRAP_EXEC", shell.clone()),
        env("I_MPI_HYDRA_HOST_FILE", hostfile.clone()),
        env("HYDRA_LAUNCHER", "rsh"),
        env("HYDRA_LAUNCHER_EXEC", shell),
        env("HYDRA_HOST_FILE", hostfile),
    ];
    let main = job.main_container(replica);
    if resources::gpus(main.and_then(|main| main.resources.as_ref())) == 0 {
        variables.push(env("NVIDIA_VISIBLE_DEVICES", ""));
        variables.push(env("NVIDIA_DRIVER_CAPABILITIES", ""));
    }
    variables
}

/// Mounts the scripts and the key, and gives workers without a command one.
pub(super) fn equip(job: &TrainingJob, kind: &str, pod: &mut Pod) {
    let Some(secret) = job.mpi_secret_name() else {
        return;
    };
    let main = job
        .replica(kind)
        .and_then(|replica| job.main_container(replica))
        .map(|main| main.name.clone());
    let Some(spec) = &mut pod.spec else { return };
    template::set_volume(
        spec,
        Volume {
            name: "mpi-job-config".into(),
            config_map: Some(ConfigMapVolumeSource {
                name: format!("{}-config", job.name),
                default_mode: Some(0o555),
                ..ConfigMapVolumeSource::default()
            }),
            ..Volume::default()
        },
    );
    template::set_volume(
        spec,
        Volume {
            name: "mpi-ssh-auth".into(),
            secret: Some(SecretVolumeSource {
                secret_name: Some(secret),
                // Readable for whatever user the image has; the pod is of this job alone.
                default_mode: Some(0o444),
                ..SecretVolumeSource::default()
            }),
            ..Volume::default()
        },
    );
    let mut containers = spec.containers.iter_mut();
    let Some(container) = containers.find(|container| Some(&container.name) == main.as_ref())
    else {
        return;
    };
    template::set_mount(container, mount("mpi-job-config", CONFIG_DIRECTORY));
    template::set_mount(container, mount("mpi-ssh-auth", KEY_DIRECTORY));
    if kind == "Launcher" {
        // In a sandbox or a container, root is nobody else's.
        for variable in ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] {
            if !template::has_env(container, variable) {
                template::set_env(container, env(variable, "1"));
            }
        }
        return;
    }
    let is_empty = |list: &Option<Vec<String>>| list.as_ref().is_none_or(Vec::is_empty);
    if is_empty(&container.command) && is_empty(&container.args) {
        serve(container);
    }
}

fn serve(container: &mut Container) {
    container.command = Some(vec![
        "/bin/sh".into(),
        format!("{CONFIG_DIRECTORY}/sshd.sh"),
    ]);
    if container.readiness_probe.is_none() {
        container.readiness_probe = Some(Probe {
            tcp_socket: Some(TCPSocketAction {
                port: IntOrString::Int(PORT),
                host: None,
            }),
            period_seconds: Some(2),
            ..Probe::default()
        });
    }
}
