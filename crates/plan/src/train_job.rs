//! From a TrainJob and its runtime to a JobSet and what it needs besides.

use astrago_api::{JobSet, JobSetSpec, TrainJob};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

use crate::draft::Draft;
use crate::error::{FieldError, FieldErrors};
use crate::owner::owned_by;
use crate::policy::{self, mpi::SshAuth};
use crate::provenance::{Origin, Origins};
use crate::runtime::Runtime;
use crate::{
    initializer, job_set, launcher, lifetime, merge, nodes, resources, template, trainer, validate,
};

/// What a plan depends on besides the objects.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Where training code may report its progress; it is not told without it.
    pub status_server: Option<StatusServer>,
}

/// Where training code may report its progress.
#[derive(Clone, Debug)]
pub struct StatusServer {
    /// The start of the address, such as `https://astrago.local:10443`.
    pub url: String,
    /// The certificate of the authority that its own is signed by, in PEM.
    pub ca: String,
}

/// The objects that a TrainJob becomes. All belong to it, so that they go with it.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub job_set: JobSet,
    /// The host file, if the runtime uses MPI, and the certificate of the server for reports.
    pub config_maps: Vec<ConfigMap>,
    /// The key pair that has to be there, if the runtime uses MPI.
    pub ssh_auth: Option<SshAuth>,
    /// What the user should know but what does not stop the job.
    pub warnings: Vec<String>,
}

/// Validates a TrainJob against its runtime and plans it.
pub fn plan_train_job(
    job: &TrainJob,
    runtime: Runtime<'_>,
    options: &Options,
) -> Result<Plan, FieldErrors> {
    build(job, runtime, options, Draft::new(false)).map(|(plan, _)| plan)
}

/// Plans a TrainJob and says where every field of the JobSet's specification came from.
pub fn explain_train_job(
    job: &TrainJob,
    runtime: Runtime<'_>,
    options: &Options,
) -> Result<(Plan, Origins), FieldErrors> {
    build(job, runtime, options, Draft::new(true))
}

/// The stages, in order; a later one has the last word.
fn build(
    job: &TrainJob,
    runtime: Runtime<'_>,
    options: &Options,
    mut draft: Draft,
) -> Result<(Plan, Origins), FieldErrors> {
    validate::validate_train_job(job, runtime)?;
    start(&mut draft, runtime);
    merge::apply(&mut draft, job)?;
    let (count, origin) = nodes::num_nodes(job, runtime);
    nodes::apply(&mut draft, count, &origin, runtime);
    initializer::apply(&mut draft, job);
    trainer::apply(&mut draft, job, runtime);
    launcher::apply(&mut draft, job);
    let context = policy::Context {
        job,
        runtime,
        nodes: count,
    };
    policy::apply(&mut draft, context);
    if let Some(server) = &options.status_server {
        policy::status::apply(&mut draft, context, server);
    }
    lifetime::apply(&mut draft, job);
    draft.stage(&Origin::Default, |spec| {
        job_set::default_spec(spec);
        template::for_each_step(spec, |container| {
            container.resources.as_mut().map(resources::name_a_device);
        });
    });
    // Before anything is made per pod.
    if let Some(error) = validate::too_many_pods(draft.spec()) {
        return Err(of_runtime(&error).into());
    }

    let mpi = runtime.policy().and_then(|policy| policy.mpi.as_ref());
    let hostfile = mpi.map(|mpi| policy::mpi::hostfile(draft.spec(), context, mpi));
    let certificate = options
        .status_server
        .as_ref()
        .map(|server| policy::status::certificate(context, server));
    let (labels, annotations) = (draft.labels.clone(), draft.annotations.clone());
    let (spec, origins) = draft.finish();
    let plan = Plan {
        config_maps: hostfile.into_iter().chain(certificate).collect(),
        ssh_auth: mpi.map(|_| SshAuth::of(job)),
        warnings: warnings(job, runtime, &spec),
        job_set: JobSet {
            metadata: ObjectMeta {
                name: job.metadata.name.clone(),
                namespace: job.namespace(),
                labels: (!labels.is_empty()).then_some(labels),
                annotations: (!annotations.is_empty()).then_some(annotations),
                owner_references: owned_by(job),
                ..ObjectMeta::default()
            },
            spec,
            status: None,
        },
    };
    if let Err(errors) = validate::validate_job_set(&plan.job_set) {
        FieldErrors::check(errors.iter().map(of_runtime).collect())?;
    }
    Ok((plan, origins))
}

/// What is wrong with the JobSet comes from its runtime.
fn of_runtime(error: &FieldError) -> FieldError {
    let message = format!("the JobSet that the runtime makes is not valid: {error}");
    FieldError::invalid("spec.runtimeRef", message)
}

fn start(draft: &mut Draft, runtime: Runtime<'_>) {
    let template = &runtime.spec.template;
    if let Some(metadata) = &template.metadata {
        draft.labels.clone_from(&metadata.labels);
        draft.annotations.clone_from(&metadata.annotations);
    }
    let origin = Origin::Runtime {
        kind: runtime.kind.into(),
        name: runtime.name.into(),
    };
    draft.stage(&origin, |spec| *spec = template.spec.clone());
}

fn warnings(job: &TrainJob, runtime: Runtime<'_>, spec: &JobSetSpec) -> Vec<String> {
    let mut warnings = Vec::new();
    if runtime.is_deprecated() {
        warnings.push(format!(
            "Referenced {} {:?} is deprecated and will be removed in a future release",
            runtime.kind, runtime.name
        ));
    }
    let trainer = job.spec.trainer.as_ref();
    let container = policy::torch::trainer_container(spec);
    if trainer.is_some_and(|trainer| !trainer.command.is_empty() && trainer.args.is_empty())
        && let Some(args) = container.and_then(|container| container.args.as_ref())
        && !args.is_empty()
    {
        warnings.push(format!(
            "spec.trainer.command replaces the runtime's command but not its arguments {args:?}; \
             set spec.trainer.args to replace those too"
        ));
    }
    warnings
}
