//! The kinds of objects, and what each has beyond the others.

use astrago_api::legacy::{
    CleanPodPolicy, ElasticPolicy, Framework, JAXJob, LegacyJob, MPIJob, MXJob, PaddleJob,
    PyTorchJob, TFJob, XGBoostJob, framework,
};
use kube::Resource;

pub trait LegacyKind: LegacyJob + Resource<DynamicType = ()> {
    /// Its row of the table.
    fn framework() -> &'static Framework;
    /// What it has beyond the others.
    fn details(&self) -> Details;
}

/// What a kind has beyond the others.
#[derive(Clone, Debug, PartialEq)]
pub enum Details {
    /// A PyTorchJob's.
    PyTorch {
        /// `auto`, `cpu`, `gpu` or a number.
        nproc_per_node: Option<String>,
        /// How many workers there may be, and where they meet.
        elastic: Option<Box<ElasticPolicy>>,
    },
    /// A TFJob's.
    TensorFlow {
        /// When it has succeeded: empty or `AllWorkers`.
        success_policy: String,
        /// Whether workers may come and go.
        dynamic_worker: bool,
    },
    /// An MPIJob's.
    Mpi {
        /// Processes per worker.
        slots: i32,
        /// The container that runs MPI; by default the one called `mpi`, else the first.
        main_container: Option<String>,
        /// The older place of `runPolicy.cleanPodPolicy`.
        clean_pod_policy: Option<CleanPodPolicy>,
    },
    /// An MXJob's.
    MxNet {
        /// `MXTrain` or `MXTune`.
        job_mode: Option<String>,
    },
    None,
}

macro_rules! legacy_kinds {
    ($($kind:ident $framework:ident |$job:ident| $details:expr;)*) => {$(
        impl LegacyKind for $kind {
            fn framework() -> &'static Framework {
                &framework::$framework
            }

            fn details(&self) -> Details {
                let $job = &self.spec;
                $details
            }
        }
    )*};
}

legacy_kinds! {
    PyTorchJob PYTORCH |job| Details::PyTorch {
        nproc_per_node: job.nproc_per_node.clone(),
        elastic: job.elastic_policy.clone().map(Box::new),
    };
    TFJob TENSORFLOW |job| Details::TensorFlow {
        success_policy: job.success_policy.clone().unwrap_or_default(),
        dynamic_worker: job.enable_dynamic_worker.unwrap_or(false),
    };
    MPIJob MPI |job| Details::Mpi {
        slots: job.slots_per_worker.unwrap_or(1),
        main_container: job.main_container.clone(),
        clean_pod_policy: job.clean_pod_policy,
    };
    MXJob MXNET |job| Details::MxNet { job_mode: job.job_mode.clone() };
    XGBoostJob XGBOOST |_job| Details::None;
    PaddleJob PADDLE |_job| Details::None;
    JAXJob JAX |_job| Details::None;
}
