//! Labels, annotations and fixed names that only the product's own API writes.

/// Marks what was made by us, as Kubernetes recommends.
pub(crate) const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
pub(crate) const ASTRAGO: &str = "astrago";

/// Label: the user that a job, a ConfigMap or a namespace belongs to.
pub(crate) const USER: &str = "astrago.io/user";
/// Label on a user's Secret: the namespace that they were given.
pub(crate) const USER_NAMESPACE: &str = "astrago.io/user-namespace";
/// Label on a namespace: it is the one that its user was given, and not another that they made.
pub(crate) const HOME: &str = "astrago.io/home";
/// Annotation on a namespace: the full name of the user that it was made for.
pub(crate) const SUBJECT: &str = "astrago.io/subject";
/// Annotation by which Kubernetes knows roles whose rules are not brought up to date.
pub(crate) const AUTOUPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";
/// Annotation on a token: what its user calls it.
pub(crate) const TOKEN_NAME: &str = "astrago.io/token-name";
/// Label: the framework that the form named.
pub(crate) const FRAMEWORK: &str = "astrago.io/framework";
/// Label on a job's ConfigMap: the job.
pub(crate) const JOB: &str = "astrago.io/trainjob";
pub(crate) use astrago_api::labels::{
    LAUNCHER_CPU, LAUNCHER_MEMORY, MAX_PRIORITY, MAX_RESTARTS, PRIORITY, RETRY,
    TTL_SECONDS_AFTER_FINISHED,
};
/// Annotation: the create request without its code, so that a job can be cloned as it was asked for.
pub(crate) const REQUEST: &str = "astrago.io/request";
/// Label: a digest of the caller and the `Idempotency-Key`.
pub(crate) const IDEMPOTENCY: &str = "astrago.io/idempotency";
/// Annotation: a digest of the request body that came with the key.
pub(crate) const REQUEST_DIGEST: &str = "astrago.io/request-digest";
/// Annotation on a job: the digest of the folder that it runs. On a snapshot's ConfigMap also a label,
/// shortened.
pub(crate) const SNAPSHOT: &str = "astrago.io/snapshot";
/// Annotations on a job: the repository and the commit that its folder was taken from.
pub(crate) const SOURCE_REPOSITORY: &str = "astrago.io/source-repository";
pub(crate) const SOURCE_COMMIT: &str = "astrago.io/source-commit";
/// Annotation on a job: the one that it repeats, as `namespace/name`.
pub(crate) const ORIGIN: &str = "astrago.io/origin";
/// Annotations on a job: what its people write to it, and what they call it by, with commas between.
pub(crate) const NOTE: &str = "astrago.io/note";
pub(crate) const TAGS: &str = "astrago.io/tags";
/// Annotation on a job: what becomes of it when it runs and makes no progress: `report`, which is the default, or `ignore`.
pub(crate) const ON_STALL: &str = "astrago.io/on-stall";
/// Annotation on a job: how long it may say nothing before it is looked at, such as `90s` or `10m`. It cannot be less than a
/// job's own rhythm asks for.
pub(crate) const STALL_AFTER: &str = "astrago.io/stall-after";
/// How many tags a job can have.
pub(crate) const MOST_TAGS: usize = 20;
/// Annotation on a runtime, as Kubernetes has it for any object; in another language under our own name with that
/// language's code.
pub(crate) const DESCRIPTION: &str = "kubernetes.io/description";
pub(crate) const DESCRIPTION_IN: &str = "astrago.io/description-";
/// The `manager` of our entry in `runtimePatches`.
pub(crate) const PATCH_MANAGER: &str = "astrago.io/rest";
