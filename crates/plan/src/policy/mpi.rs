//! MPI (OpenMPI): a `launcher` starts `mpirun`, which reaches the `node`s over ssh.
//!
//! The launcher gets a host file and both get a key pair. Making keys is not pure, so the plan only
//! says that it wants them ([`SshAuth`]); who applies the plan makes them once and stores them with
//! [`ssh_auth_secret`].

use std::collections::BTreeMap;
use std::fmt::Write;

use astrago_api::{JobSetSpec, MpiPolicy, TrainJob, names};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{
    ConfigMap, ConfigMapVolumeSource, KeyToPath, Secret, SecretVolumeSource, Volume,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;

use super::{Context, inject};
use crate::TRAINER_CONTAINER;
use crate::draft::Draft;
use crate::nodes::LAUNCHER;
use crate::owner::owned_by;
use crate::provenance::Origin;
use crate::resources;
use crate::template::{self, env, mount};

/// Names that the trainer may not set.
pub(crate) const RESERVED: [&str; 4] = [
    "OMPI_MCA_orte_default_hostfile",
    "OMPI_MCA_plm_rsh_args",
    "OMPI_MCA_orte_keep_fqdn_hostnames",
    "OMPI_MCA_orte_set_default_slots",
];

const HOSTFILE_DIRECTORY: &str = "/etc/mpi";
const HOSTFILE: &str = "hostfile";
const PRIVATE_KEY: &str = "ssh-privatekey";
const PUBLIC_KEY: &str = "ssh-publickey";

/// A key pair that has to exist before the pods start: a Secret of this name, made once.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SshAuth {
    pub secret_name: String,
}

impl SshAuth {
    pub(crate) fn of(job: &TrainJob) -> Self {
        Self {
            secret_name: format!("{}-mpi-ssh-auth", job.name_any()),
        }
    }
}

/// The Secret with a job's key pair: a private key in PEM and a public key as `authorized_keys` has it.
pub fn ssh_auth_secret(job: &TrainJob, private_key: &str, public_key: &str) -> Secret {
    let data = [(PRIVATE_KEY, private_key), (PUBLIC_KEY, public_key)];
    Secret {
        metadata: metadata(job, SshAuth::of(job).secret_name),
        type_: Some("kubernetes.io/ssh-auth".into()),
        immutable: Some(true),
        data: Some(
            data.map(|(key, value)| (key.into(), ByteString(value.as_bytes().to_vec())))
                .into(),
        ),
        string_data: None,
    }
}

/// Injects volumes, mounts and variables into the launcher and the nodes.
pub(crate) fn apply(draft: &mut Draft, context: Context<'_>, policy: &MpiPolicy) {
    let slots = slots(draft.spec(), context, policy).to_string();
    let variables = [
        env(
            "OMPI_MCA_orte_default_hostfile",
            format!("{HOSTFILE_DIRECTORY}/{HOSTFILE}"),
        ),
        env("OMPI_MCA_orte_keep_fqdn_hostnames", "true"),
        env("OMPI_MCA_orte_set_default_slots", slots),
        env("OMPI_MCA_plm_rsh_args", "-o ConnectionAttempts=10"),
    ];
    draft.stage(&Origin::policy("mpi"), |spec| {
        for job in &mut spec.replicated_jobs {
            let launches = job.name == LAUNCHER;
            if !launches && job.name != TRAINER_CONTAINER {
                continue;
            }
            let pod = template::pod_spec_mut(job);
            template::set_volume(pod, ssh_volume(context.job));
            if launches {
                template::set_volume(pod, hostfile_volume(context.job));
            }
            let Some(container) = template::container_mut(job, TRAINER_CONTAINER) else {
                continue;
            };
            template::set_mount(
                container,
                mount("mpi-ssh-auth", policy.ssh_auth_mount_path()),
            );
            if launches {
                template::set_mount(container, mount("mpi-hostfile", HOSTFILE_DIRECTORY));
                inject(container, &variables);
            }
        }
    });
}

/// The ConfigMap with the host file: a line for every node, in the order of the template.
pub(crate) fn hostfile(spec: &JobSetSpec, context: Context<'_>, policy: &MpiPolicy) -> ConfigMap {
    let slots = slots(spec, context, policy);
    let mut lines = String::new();
    for job in &spec.replicated_jobs {
        let trains = job.name == TRAINER_CONTAINER
            || (job.name == LAUNCHER && policy.runs_launcher_as_node());
        if !trains {
            continue;
        }
        for replica in 0..job.replicas() {
            let name = names::job(context.job_name(), &job.name, replica);
            for index in 0..job.parallelism() {
                let address = names::pod_address(&name, index, context.subdomain(spec));
                // A String takes any text, so writing to it cannot fail.
                let _ = writeln!(lines, "{address} slots={slots}");
            }
        }
    }
    ConfigMap {
        metadata: metadata(context.job, format!("{}-mpi-hostfile", context.job_name())),
        data: Some(BTreeMap::from([(HOSTFILE.to_owned(), lines)])),
        ..ConfigMap::default()
    }
}

/// How many processes a node takes: what the job says, else what the runtime says, where one means a
/// process per GPU on nodes that have several.
fn slots(spec: &JobSetSpec, context: Context<'_>, policy: &MpiPolicy) -> i64 {
    let asked = context.job.spec.trainer.as_ref();
    let asked = asked.and_then(|trainer| trainer.num_proc_per_node.as_ref());
    let asked = asked.and_then(|asked| match asked {
        IntOrString::Int(number) => Some(i64::from(*number)),
        IntOrString::String(text) => text.parse().ok(),
    });
    let from_runtime = i64::from(policy.num_proc_per_node.unwrap_or(1));
    asked.unwrap_or_else(|| {
        let worker = spec
            .replicated_jobs
            .iter()
            .find(|job| job.name == TRAINER_CONTAINER);
        let container = worker.and_then(|job| template::container(job, TRAINER_CONTAINER));
        let gpus = resources::gpus(container.and_then(|container| container.resources.as_ref()));
        if from_runtime == 1 && gpus > 1 {
            gpus
        } else {
            from_runtime
        }
    })
}

fn ssh_volume(job: &TrainJob) -> Volume {
    let item = |key: &str, path: &str, mode: i32| KeyToPath {
        key: key.into(),
        path: path.into(),
        mode: Some(mode),
        ..KeyToPath::default()
    };
    Volume {
        name: "mpi-ssh-auth".into(),
        secret: Some(SecretVolumeSource {
            secret_name: Some(SshAuth::of(job).secret_name),
            default_mode: Some(0o400),
            items: Some(vec![
                item(PRIVATE_KEY, "id_rsa", 0o640),
                item(PUBLIC_KEY, "id_rsa.pub", 0o644),
                item(PUBLIC_KEY, "authorized_keys", 0o644),
            ]),
            ..SecretVolumeSource::default()
        }),
        ..Volume::default()
    }
}

fn hostfile_volume(job: &TrainJob) -> Volume {
    Volume {
        name: "mpi-hostfile".into(),
        config_map: Some(ConfigMapVolumeSource {
            name: format!("{}-mpi-hostfile", job.name_any()),
            items: Some(vec![KeyToPath {
                key: HOSTFILE.into(),
                path: HOSTFILE.into(),
                mode: Some(0o444),
                ..KeyToPath::default()
            }]),
            ..ConfigMapVolumeSource::default()
        }),
        ..Volume::default()
    }
}

pub(super) fn metadata(job: &TrainJob, name: String) -> ObjectMeta {
    ObjectMeta {
        name: Some(name),
        namespace: job.namespace(),
        owner_references: owned_by(job),
        ..ObjectMeta::default()
    }
}
