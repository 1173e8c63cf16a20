//! Condition types, reasons and messages of the objects that controllers write and others read.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// The condition of this type.
pub fn find<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == kind)
}

/// Whether the condition of this type is there and true.
pub fn is_true(conditions: &[Condition], kind: &str) -> bool {
    find(conditions, kind).is_some_and(|condition| condition.status == "True")
}

/// Conditions of a TrainJob.
pub mod train_job {
    /// The user holds the job, or (False) held it before.
    pub const SUSPENDED: &str = "Suspended";
    /// The job ended well.
    pub const COMPLETE: &str = "Complete";
    /// The job ended badly.
    pub const FAILED: &str = "Failed";

    /// Reason of Suspended=True.
    pub const REASON_SUSPENDED: &str = "Suspended";
    /// Reason of Suspended=False.
    pub const REASON_RESUMED: &str = "Resumed";
    /// Reason of Failed: the kind of the runtime is unknown.
    pub const REASON_RUNTIME_NOT_SUPPORTED: &str = "TrainingRuntimeNotSupported";
    /// Reason of Failed: `activeDeadlineSeconds` are over.
    pub const REASON_DEADLINE_EXCEEDED: &str = "DeadlineExceeded";
    /// Reason of the warning event when the job's objects cannot be made.
    pub const REASON_RESOURCES_CREATION_FAILED: &str = "TrainJobResourcesCreationFailed";

    /// Message of Suspended=True.
    pub const MESSAGE_SUSPENDED: &str = "TrainJob is suspended";
    /// Message of Suspended=False.
    pub const MESSAGE_RESUMED: &str = "TrainJob is resumed";
    /// Message of Failed with the reason DeadlineExceeded.
    pub const MESSAGE_DEADLINE_EXCEEDED: &str = "TrainJob exceeded its active deadline";
}

/// Conditions of a JobSet.
pub mod job_set {
    /// The set ended well.
    pub const COMPLETED: &str = "Completed";
    /// The set ended badly.
    pub const FAILED: &str = "Failed";
    /// The set is held, or (False) was held before.
    pub const SUSPENDED: &str = "Suspended";
    /// The templates are being started in order.
    pub const STARTUP_POLICY_IN_PROGRESS: &str = "StartupPolicyInProgress";
    /// All templates were started in order.
    pub const STARTUP_POLICY_COMPLETED: &str = "StartupPolicyCompleted";
    /// The set is being started again, or (False) was.
    pub const RESTARTING: &str = "RestartingJobSet";

    /// Reason of Completed.
    pub const REASON_ALL_JOBS_COMPLETED: &str = "AllJobsCompleted";
    /// Reason of Failed: a Job failed and there is no failure policy.
    pub const REASON_FAILED_JOBS: &str = "FailedJobs";
    /// Reason of Failed: no restarts are left.
    pub const REASON_REACHED_MAX_RESTARTS: &str = "ReachedMaxRestarts";
    /// Reason of Failed: no further attempt could have ended better.
    pub const REASON_PERMANENT_FAILURE: &str = "PermanentFailure";
    /// Reason of Failed: a rule of the failure policy says so.
    pub const REASON_FAIL_JOB_SET_ACTION: &str = "FailJobSetFailurePolicyAction";
    /// Reason of the event when the set is started again.
    pub const REASON_RESTART_JOB_SET_ACTION: &str = "RestartJobSetFailurePolicyAction";
    /// Reason of the event when the set is started again without counting it.
    pub const REASON_RESTART_AND_IGNORE_MAX_RESTARTS_ACTION: &str =
        "RestartJobSetAndIgnoreMaxRestartsFailurePolicyAction";
    /// Reason of Failed: the set makes no sense, as its message says.
    pub const REASON_INVALID: &str = "InvalidJobSet";
    /// Reason of the event when the set is started again because its pods were ended on purpose.
    pub const REASON_RESTART_AFTER_DISRUPTION: &str = "RestartAfterDisruption";
    /// Reason of RestartingJobSet=True: no rule of the failure policy was for the failure.
    pub const REASON_DEFAULT_FAILURE_POLICY: &str = "DefaultFailurePolicy";
    /// What the reason of RestartingJobSet=True begins with if a rule was; the name of the rule follows.
    pub const REASON_FAILURE_POLICY_RULE: &str = "FailurePolicy_";
    /// Reason of RestartingJobSet=False: all Jobs are ready again, or over.
    pub const REASON_JOBS_READY: &str = "JobsReady";
    /// Reason of RestartingJobSet=False: the set ended badly.
    pub const REASON_JOB_SET_FAILED: &str = "JobSetFailed";
    /// Reason of RestartingJobSet=False: the set ended well.
    pub const REASON_JOB_SET_COMPLETED: &str = "JobSetCompleted";
    /// Reason of RestartingJobSet=False: the set is held.
    pub const REASON_JOB_SET_SUSPENDED: &str = "JobSetSuspended";
    /// Reason of Suspended=True.
    pub const REASON_SUSPENDED: &str = "SuspendedJobs";
    /// Reason of Suspended=False.
    pub const REASON_RESUMED: &str = "ResumeJobs";
    /// Reason of StartupPolicyInProgress.
    pub const REASON_IN_ORDER_IN_PROGRESS: &str = "InOrderStartupPolicyInProgress";
    /// Reason of StartupPolicyCompleted.
    pub const REASON_IN_ORDER_COMPLETED: &str = "InOrderStartupPolicyCompleted";

    /// Message of Completed.
    pub const MESSAGE_ALL_JOBS_COMPLETED: &str = "jobset completed successfully";
    /// Message of Failed with the reason FailedJobs, before the name of the first failed Job.
    pub const MESSAGE_FAILED_JOBS: &str = "jobset failed due to one or more job failures";
    /// Message of Failed with the reason ReachedMaxRestarts, before the name of the Job.
    pub const MESSAGE_REACHED_MAX_RESTARTS: &str =
        "jobset failed due to reaching max number of restarts";
    /// Message of Failed with the reason FailJobSetFailurePolicyAction, before the name of the Job.
    pub const MESSAGE_FAIL_JOB_SET_ACTION: &str = "applying FailJobSet failure policy action";
    /// Message of RestartingJobSet=False with the reason JobsReady.
    pub const MESSAGE_JOBS_READY: &str = "all jobs are ready";
    /// Message of RestartingJobSet=False with the reason JobSetFailed.
    pub const MESSAGE_JOB_SET_FAILED: &str = "jobset failed";
    /// Message of StartupPolicyInProgress.
    pub const MESSAGE_IN_ORDER_IN_PROGRESS: &str = "in order startup policy is in progress";
    /// Message of StartupPolicyCompleted.
    pub const MESSAGE_IN_ORDER_COMPLETED: &str = "in order startup policy has completed";
    /// Message of Suspended=True.
    pub const MESSAGE_SUSPENDED: &str = "jobset is suspended";
    /// Message of Suspended=False.
    pub const MESSAGE_RESUMED: &str = "jobset is resumed";
}

/// Conditions of a Kubernetes Job.
pub mod job {
    /// The Job ended well.
    pub const COMPLETE: &str = "Complete";
    /// The Job ended badly.
    pub const FAILED: &str = "Failed";
    /// The Job is held.
    pub const SUSPENDED: &str = "Suspended";
    /// The Job will fail once its pods are gone.
    pub const FAILURE_TARGET: &str = "FailureTarget";
    /// The Job will be complete once its pods are gone.
    pub const SUCCESS_CRITERIA_MET: &str = "SuccessCriteriaMet";

    /// Reason of Failed: too many pods or containers failed.
    pub const REASON_BACKOFF_LIMIT_EXCEEDED: &str = "BackoffLimitExceeded";
    /// Reason of Failed: the Job's `activeDeadlineSeconds` are over.
    pub const REASON_DEADLINE_EXCEEDED: &str = "DeadlineExceeded";
    /// Reason of Failed: indexes failed for good.
    pub const REASON_FAILED_INDEXES: &str = "FailedIndexes";
    /// Reason of Failed: too many indexes failed for good.
    pub const REASON_MAX_FAILED_INDEXES_EXCEEDED: &str = "MaxFailedIndexesExceeded";
    /// Reason of Failed: a rule of the pod failure policy says so.
    pub const REASON_POD_FAILURE_POLICY: &str = "PodFailurePolicy";
    /// Reason of Failed: the Job makes no sense, as its message says.
    pub const REASON_INVALID: &str = "InvalidJob";
    /// Reason of Failed, for a Job of a JobSet only: pods that it does not replace were ended on purpose. The set
    /// starts again and does not count that.
    pub const REASON_PODS_DISRUPTED: &str = "PodsDisrupted";
    /// Reason of Complete and SuccessCriteriaMet.
    pub const REASON_COMPLETIONS_REACHED: &str = "CompletionsReached";
    /// Reason of Complete and SuccessCriteriaMet by the Job's own success policy.
    pub const REASON_SUCCESS_POLICY: &str = "SuccessPolicy";
}
