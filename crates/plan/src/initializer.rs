//! `spec.initializer`: what the jobs that fetch the data set and the model are told.
//!
//! A runtime's initializers run whether the TrainJob mentions them or not, with the addresses that
//! the runtime has for them.

use astrago_api::{TrainJob, labels::ancestor};
use k8s_openapi::api::core::v1::{EnvFromSource, EnvVar, LocalObjectReference, SecretEnvSource};

use crate::draft::Draft;
use crate::provenance::Origin;
use crate::template;

/// Writes the initializer's fields on the jobs that fetch.
pub(crate) fn apply(draft: &mut Draft, job: &TrainJob) {
    let Some(initializer) = &job.spec.initializer else {
        return;
    };
    if let Some(dataset) = &initializer.dataset {
        let fetch = Fetch {
            field: "spec.initializer.dataset",
            role: ancestor::DATASET_INITIALIZER,
            storage_uri: dataset.storage_uri.as_deref(),
            env: &dataset.env,
            secret: dataset.secret_ref.as_ref(),
        };
        fetch.apply(draft);
    }
    if let Some(model) = &initializer.model {
        let fetch = Fetch {
            field: "spec.initializer.model",
            role: ancestor::MODEL_INITIALIZER,
            storage_uri: model.storage_uri.as_deref(),
            env: &model.env,
            secret: model.secret_ref.as_ref(),
        };
        fetch.apply(draft);
    }
}

/// What one of the two initializers is told.
struct Fetch<'a> {
    field: &'static str,
    /// Its role, which is also the name of its container.
    role: &'static str,
    storage_uri: Option<&'a str>,
    env: &'a [EnvVar],
    secret: Option<&'a LocalObjectReference>,
}

impl Fetch<'_> {
    fn apply(&self, draft: &mut Draft) {
        draft.stage(&Origin::train_job(self.field), |spec| {
            let jobs = spec.replicated_jobs.iter_mut();
            for job in jobs.filter(|job| job.ancestor() == Some(self.role)) {
                job.replicas = Some(1);
                let Some(container) = template::container_mut(job, self.role) else {
                    continue;
                };
                if let Some(uri) = self.storage_uri {
                    template::set_env(container, template::env("STORAGE_URI", uri));
                }
                for variable in self.env {
                    template::set_env(container, variable.clone());
                }
                if let Some(secret) = self.secret {
                    container
                        .env_from
                        .get_or_insert_default()
                        .push(EnvFromSource {
                            secret_ref: Some(SecretEnvSource {
                                name: secret.name.clone(),
                                optional: None,
                            }),
                            ..EnvFromSource::default()
                        });
                }
            }
        });
    }
}
