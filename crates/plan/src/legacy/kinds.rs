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

impl LegacyKind for PyTorchJob {
    fn framework() -> &'static Framework {
        &framework::PYTORCH
    }

    fn details(&self) -> Details {
        Details::PyTorch {
            nproc_per_node: self.spec.nproc_per_node.clone(),
            elastic: self.spec.elastic_policy.clone().map(Box::new),
        }
    }
}

impl LegacyKind for TFJob {
    fn framework() -> &'static Framework {
        &framework::TENSORFLOW
    }

    fn details(&self) -> Details {
        Details::TensorFlow {
            success_policy: self.spec.success_policy.clone().unwrap_or_default(),
            dynamic_worker: self.spec.enable_dynamic_worker.unwrap_or(false),
        }
    }
}

impl LegacyKind for MPIJob {
    fn framework() -> &'static Framework {
        &framework::MPI
    }

    fn details(&self) -> Details {
        Details::Mpi {
            slots: self.spec.slots_per_worker.unwrap_or(1),
            main_container: self.spec.main_container.clone(),
            clean_pod_policy: self.spec.clean_pod_policy,
        }
    }
}

impl LegacyKind for XGBoostJob {
    fn framework() -> &'static Framework {
        &framework::XGBOOST
    }

    fn details(&self) -> Details {
        Details::None
    }
}

impl LegacyKind for PaddleJob {
    fn framework() -> &'static Framework {
        &framework::PADDLE
    }

    fn details(&self) -> Details {
        Details::None
    }
}

impl LegacyKind for MXJob {
    fn framework() -> &'static Framework {
        &framework::MXNET
    }

    fn details(&self) -> Details {
        Details::MxNet {
            job_mode: self.spec.job_mode.clone(),
        }
    }
}

impl LegacyKind for JAXJob {
    fn framework() -> &'static Framework {
        &framework::JAX
    }

    fn details(&self) -> Details {
        Details::None
    }
}
