//! The table of kinds: what differs between them and can be written down in a row.

use super::RestartPolicy;

/// Value of the label `training.kubeflow.org/job-role` on the pod that leads.
pub const MASTER_ROLE: &str = "master";

/// One kind of v1 job.
#[derive(Debug, PartialEq, Eq)]
pub struct Framework {
    /// The kind of the object.
    pub kind: &'static str,
    /// The field that has the replicas.
    pub spec_key: &'static str,
    /// The types of replicas, in the order in which their pods are made.
    pub types: &'static [&'static str],
    /// Types that lead, the preferred first. Each has one pod. Where a job has none of them, its first worker leads.
    pub leaders: &'static [&'static str],
    /// A type without which there is no job.
    pub required: Option<&'static str>,
    /// The container that trains.
    pub container: &'static str,
    /// The name of the port where the replicas meet.
    pub port_name: &'static str,
    /// Its number where the job does not say.
    pub port: i32,
    /// What happens to a replica that ends, where the job does not say.
    pub restart_policy: RestartPolicy,
    /// Value of the label `training.kubeflow.org/operator-name`.
    pub operator: &'static str,
}

/// PyTorch.
pub static PYTORCH: Framework = Framework {
    kind: "PyTorchJob",
    spec_key: "pytorchReplicaSpecs",
    types: &["Master", "Worker"],
    leaders: &["Master"],
    required: None,
    container: "pytorch",
    port_name: "pytorchjob-port",
    port: 23456,
    restart_policy: RestartPolicy::OnFailure,
    operator: "pytorchjob-controller",
};

/// TensorFlow.
pub static TENSORFLOW: Framework = Framework {
    kind: "TFJob",
    spec_key: "tfReplicaSpecs",
    types: &["Chief", "Master", "PS", "Worker", "Evaluator"],
    leaders: &["Chief", "Master"],
    required: None,
    container: "tensorflow",
    port_name: "tfjob-port",
    port: 2222,
    restart_policy: RestartPolicy::Never,
    operator: "tfjob-controller",
};

/// MPI. Workers come first, so that the launcher finds them.
pub static MPI: Framework = Framework {
    kind: "MPIJob",
    spec_key: "mpiReplicaSpecs",
    types: &["Worker", "Launcher"],
    leaders: &["Launcher"],
    required: Some("Launcher"),
    container: "mpi",
    port_name: "mpi-port",
    port: 9999,
    restart_policy: RestartPolicy::Never,
    operator: "mpijob-controller",
};

/// XGBoost and LightGBM.
pub static XGBOOST: Framework = Framework {
    kind: "XGBoostJob",
    spec_key: "xgbReplicaSpecs",
    types: &["Master", "Worker"],
    leaders: &["Master"],
    required: Some("Master"),
    container: "xgboost",
    port_name: "xgboostjob-port",
    port: 9999,
    restart_policy: RestartPolicy::Never,
    operator: "xgboostjob-controller",
};

/// PaddlePaddle. Its masters are parameter servers, of which there may be several.
pub static PADDLE: Framework = Framework {
    kind: "PaddleJob",
    spec_key: "paddleReplicaSpecs",
    types: &["Master", "Worker"],
    leaders: &["Master"],
    required: None,
    container: "paddle",
    port_name: "master",
    port: 36543,
    restart_policy: RestartPolicy::OnFailure,
    operator: "paddlejob-controller",
};

/// MXNet, which trains with a scheduler or tunes with a tuner.
pub static MXNET: Framework = Framework {
    kind: "MXJob",
    spec_key: "mxReplicaSpecs",
    types: &[
        "Scheduler",
        "Server",
        "Worker",
        "TunerTracker",
        "TunerServer",
        "Tuner",
    ],
    leaders: &["Scheduler", "Tuner"],
    required: None,
    container: "mxnet",
    port_name: "mxjob-port",
    port: 9091,
    restart_policy: RestartPolicy::Never,
    operator: "mxjob-controller",
};

/// JAX. Process 0 coordinates the others.
pub static JAX: Framework = Framework {
    kind: "JAXJob",
    spec_key: "jaxReplicaSpecs",
    types: &["Worker"],
    leaders: &[],
    required: Some("Worker"),
    container: "jax",
    port_name: "jaxjob-port",
    port: 6666,
    restart_policy: RestartPolicy::Never,
    operator: "jaxjob-controller",
};

impl Framework {
    /// The type that `name` means, whatever its case.
    pub fn replica_type(&self, name: &str) -> Option<&'static str> {
        let mut types = self.types.iter();
        types
            .find(|known| known.eq_ignore_ascii_case(name))
            .copied()
    }

    /// Whether there is exactly one pod of this type.
    pub fn is_single(&self, replica_type: &str) -> bool {
        self.leaders.contains(&replica_type) && self.kind != "PaddleJob"
    }

    /// A reason or message starts with it: `PyTorchJobRunning`.
    pub fn reason(&self, state: &str) -> String {
        format!("{}{state}", self.kind)
    }
}
