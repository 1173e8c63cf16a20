//! Progress reports: training code is told where to post them and with which token.
//!
//! Hugging Face's trainer callback and Kubeflow's SDK find the address in these variables and report
//! by themselves. Kubeflow has this behind a gate that is off by default; the embedded engine serves
//! the address, so it is on there.

use k8s_openapi::api::core::v1::{
    ConfigMap, ConfigMapProjection, KeyToPath, ProjectedVolumeSource,
    ServiceAccountTokenProjection, Volume, VolumeMount, VolumeProjection,
};
use kube::ResourceExt;

use super::{Context, inject};
use crate::draft::Draft;
use crate::provenance::Origin;
use crate::template::{self, env};
use crate::train_job::StatusServer;

const DIRECTORY: &str = "/var/run/secrets/kubeflow/trainer";
const VOLUME: &str = "kubeflow-trainer-token";

/// Injects address, certificate and token into every container of the training jobs.
pub(crate) fn apply(draft: &mut Draft, context: Context<'_>, server: &StatusServer) {
    let namespace = context.job.namespace().unwrap_or_else(|| "default".into());
    let name = context.job_name();
    let path =
        format!("trainer.kubeflow.org/v1alpha1/namespaces/{namespace}/trainjobs/{name}/status");
    let variables = [
        env(
            "KUBEFLOW_TRAINER_SERVER_URL",
            format!("{}/apis/{path}", server.url),
        ),
        env(
            "KUBEFLOW_TRAINER_SERVER_CA_CERT",
            format!("{DIRECTORY}/ca.crt"),
        ),
        env(
            "KUBEFLOW_TRAINER_SERVER_TOKEN",
            format!("{DIRECTORY}/token"),
        ),
    ];
    let volume = volume(name, path.clone());
    draft.stage(&Origin::policy("status"), |spec| {
        for position in template::trainer_positions(&spec.replicated_jobs) {
            let pod = template::pod_spec_mut(&mut spec.replicated_jobs[position]);
            template::set_volume(pod, volume.clone());
            for container in &mut pod.containers {
                inject(container, &variables);
                template::set_mount(
                    container,
                    VolumeMount {
                        name: VOLUME.into(),
                        mount_path: DIRECTORY.into(),
                        read_only: Some(true),
                        ..VolumeMount::default()
                    },
                );
            }
        }
    });
}

/// The ConfigMap with the certificate that containers trust.
pub(crate) fn certificate(context: Context<'_>, server: &StatusServer) -> ConfigMap {
    let name = format!("{}-tls-config", context.job_name());
    ConfigMap {
        metadata: super::mpi::metadata(context.job, name),
        data: Some([("ca.crt".to_owned(), server.ca.clone())].into()),
        ..ConfigMap::default()
    }
}

fn volume(job: &str, audience: String) -> Volume {
    let token = VolumeProjection {
        service_account_token: Some(ServiceAccountTokenProjection {
            audience: Some(audience),
            expiration_seconds: Some(3600),
            path: "token".into(),
            ..ServiceAccountTokenProjection::default()
        }),
        ..VolumeProjection::default()
    };
    let certificate = VolumeProjection {
        config_map: Some(ConfigMapProjection {
            name: format!("{job}-tls-config"),
            items: Some(vec![KeyToPath {
                key: "ca.crt".into(),
                path: "ca.crt".into(),
                ..KeyToPath::default()
            }]),
            optional: None,
        }),
        ..VolumeProjection::default()
    };
    Volume {
        name: VOLUME.into(),
        projected: Some(ProjectedVolumeSource {
            sources: Some(vec![token, certificate]),
            ..ProjectedVolumeSource::default()
        }),
        ..Volume::default()
    }
}
