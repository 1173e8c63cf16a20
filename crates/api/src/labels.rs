//! Keys of labels and annotations. Both JobSet and Trainer put most of theirs on objects as labels
//! *and* as annotations, so one constant serves for both.

// Ours.

/// Annotation on a TrainJob: seconds after its end until it is deleted; stands in for
/// `spec.ttlSecondsAfterFinished` on clusters that do not know the field.
pub const TTL_SECONDS_AFTER_FINISHED: &str = "astrago.io/ttl-seconds-after-finished";
/// Annotation on a TrainJob: how often it is started again; stands in for `spec.maxRestarts` on
/// clusters that do not know the field.
pub const MAX_RESTARTS: &str = "astrago.io/max-restarts";
/// Annotation on a TrainJob and its JobSet: which failures it is started again after, one of [`retry`].
pub const RETRY: &str = "astrago.io/retry";
/// Annotation on a JobSet that says [`retry::TRANSIENT`]: the last attempt whose failure was looked at.
pub const JUDGED_ATTEMPT: &str = "astrago.io/judged-attempt";
/// Annotation on a JobSet: the failure that no further attempt can heal. It ends the set.
pub const PERMANENT_FAILURE: &str = "astrago.io/permanent-failure";
/// Annotation on a TrainJob whose launcher does not train: the launcher's CPUs. `spec.trainer.resourcesPerNode` is for the
/// nodes that train, and upstream has no field for the launcher.
pub const LAUNCHER_CPU: &str = "astrago.io/launcher-cpu";
/// Annotation on a TrainJob whose launcher does not train: the launcher's memory.
pub const LAUNCHER_MEMORY: &str = "astrago.io/launcher-memory";
/// Annotation on a TrainJob: its place in the queue of the embedded scheduler, a whole number; higher goes first. It counts
/// before the priority of its pods.
pub const PRIORITY: &str = "astrago.io/priority";
/// Annotation on a Namespace: the highest priority that counts for its jobs in the queue of the embedded scheduler; see
/// [`crate::highest_priority`].
pub const MAX_PRIORITY: &str = "astrago.io/max-priority";
/// Annotation on a TrainJob: what keeps its objects from being made at the moment. It goes when they
/// are made; an error that stays is the condition Failed instead.
pub const CREATION_ERROR: &str = "astrago.io/creation-error";
/// Annotation on a pod: how many pods of its rank ended before it.
pub const ATTEMPT: &str = "astrago.io/attempt";
/// Annotation on a pod without a node: why it waits, as JSON. Our scheduler writes it beside the sentence
/// in the condition `PodScheduled`.
pub const WAITING: &str = "astrago.io/waiting";
/// Annotation on a Job of a JobSet: what its pods were made of, in short.
pub const POD_TEMPLATE: &str = "astrago.io/pod-template";

/// Annotation on a runtime: what requests may call its framework, separated by commas; the first is its name.
pub const FRAMEWORK_NAMES: &str = "astrago.io/framework-names";
/// Annotation on a runtime: its framework's name as its makers write it.
pub const FRAMEWORK_TITLE: &str = "astrago.io/framework-title";
/// Annotation on a runtime: the Python modules by which scripts for it are known, separated by commas.
pub const FRAMEWORK_IMPORTS: &str = "astrago.io/framework-imports";
/// Annotation on a runtime: `true` where requests that name only its framework get it.
pub const FRAMEWORK_DEFAULT: &str = "astrago.io/framework-default";

/// Values of [`RETRY`].
pub mod retry {
    /// Not after one that cannot heal, such as a module that is missing.
    pub const TRANSIENT: &str = "transient";
    /// After all, as where nothing is said.
    pub const ALL: &str = "all";
}

// Kubeflow Trainer.

/// Label on a runtime: its framework, such as torch, mpi or tensorflow.
pub const FRAMEWORK: &str = "trainer.kubeflow.org/framework";
/// Label on a runtime: `deprecated` when it will go away.
pub const SUPPORT: &str = "trainer.kubeflow.org/support";
/// Label on a job of a runtime: its role, one of [`ancestor`].
pub const TRAIN_JOB_ANCESTOR_STEP: &str = "trainer.kubeflow.org/trainjob-ancestor-step";

/// Values of [`TRAIN_JOB_ANCESTOR_STEP`].
pub mod ancestor {
    /// The job that trains.
    pub const TRAINER: &str = "trainer";
    /// The job that fetches the data set.
    pub const DATASET_INITIALIZER: &str = "dataset-initializer";
    /// The job that fetches the model.
    pub const MODEL_INITIALIZER: &str = "model-initializer";
}

// JobSet.

/// Name of the JobSet.
pub const JOBSET_NAME: &str = "jobset.sigs.k8s.io/jobset-name";
/// UID of the JobSet.
pub const JOBSET_UID: &str = "jobset.sigs.k8s.io/jobset-uid";
/// Name of the template that a Job was made of.
pub const REPLICATED_JOB_NAME: &str = "jobset.sigs.k8s.io/replicatedjob-name";
/// How many Jobs are made of that template.
pub const REPLICATED_JOB_REPLICAS: &str = "jobset.sigs.k8s.io/replicatedjob-replicas";
/// How many Jobs the JobSet has in all.
pub const GLOBAL_REPLICAS: &str = "jobset.sigs.k8s.io/global-replicas";
/// Index of the Job among those of its template.
pub const JOB_INDEX: &str = "jobset.sigs.k8s.io/job-index";
/// Index of the Job among all of the JobSet.
pub const JOB_GLOBAL_INDEX: &str = "jobset.sigs.k8s.io/job-global-index";
/// SHA-1 of the Job's namespace and name.
pub const JOB_KEY: &str = "jobset.sigs.k8s.io/job-key";
/// Name of the Job's group.
pub const GROUP_NAME: &str = "jobset.sigs.k8s.io/group-name";
/// How many Jobs the group has.
pub const GROUP_REPLICAS: &str = "jobset.sigs.k8s.io/group-replicas";
/// Index of the Job in its group.
pub const JOB_GROUP_INDEX: &str = "jobset.sigs.k8s.io/job-group-index";
/// How often the JobSet had been started again when the Job was made.
pub const RESTART_ATTEMPT: &str = "jobset.sigs.k8s.io/restart-attempt";
/// Address of the pod that coordinates the others.
pub const COORDINATOR: &str = "jobset.sigs.k8s.io/coordinator";

// Kubernetes Job.

/// Name of the Job that a pod belongs to.
pub const JOB_NAME: &str = "batch.kubernetes.io/job-name";
/// The same, as it was spelled before Kubernetes 1.27; still set and still used in scripts.
pub const LEGACY_JOB_NAME: &str = "job-name";
/// UID of the Job that a pod belongs to.
pub const CONTROLLER_UID: &str = "batch.kubernetes.io/controller-uid";
/// The same, as it was spelled before Kubernetes 1.27.
pub const LEGACY_CONTROLLER_UID: &str = "controller-uid";
/// Index of a pod in its Job; with an Indexed Job, the rank of the node.
pub const COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";

// Gangs.

/// Label or annotation on pods: the name of their gang in the namespace. Pods of one gang are
/// started together or not at all. It overrides what the scheduler would derive from JobSets.
pub const GANG: &str = "astrago.io/gang";
/// Label or annotation on pods: how many pods their gang has. Without it, the parallelism of
/// the Job that owns the pod.
pub const GANG_SIZE: &str = "astrago.io/gang-size";
/// Label on pods of the Training Operator v1: the name of their job.
pub const TRAINING_JOB_NAME: &str = "training.kubeflow.org/job-name";
/// Label on pods and Services of the Training Operator v1: the controller of their kind.
pub const TRAINING_OPERATOR_NAME: &str = "training.kubeflow.org/operator-name";
/// Label on pods and Services of the Training Operator v1: their replica type, in lower case.
pub const TRAINING_REPLICA_TYPE: &str = "training.kubeflow.org/replica-type";
/// Label on pods and Services of the Training Operator v1: their index among those of their type.
pub const TRAINING_REPLICA_INDEX: &str = "training.kubeflow.org/replica-index";
/// Label on the pod of a v1 job that leads: `master`.
pub const TRAINING_JOB_ROLE: &str = "training.kubeflow.org/job-role";
