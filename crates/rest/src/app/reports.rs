//! Reports of progress that training code posts itself, by Kubeflow's own protocol.
//!
//! A pod proves who it is with a token of its service account that was made for this one TrainJob: the
//! address of the job's status is the token's audience. The API server checks it; where it also tells
//! which pod the token is bound to, that pod must be one of the job's.

use astrago_api::labels;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::context::Context;
use crate::identity::Caller;
use crate::world::Key;

/// Who writes the reports, to server-side apply; each report replaces the one before.
const MANAGER: &str = "trainer-status";

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("the report needs a token that was made for this TrainJob")]
    Unauthenticated,
    #[error("this token may not report for TrainJob {0:?}")]
    Forbidden(String),
    #[error("{0}")]
    NotFound(&'static str),
    #[error("the report is larger than {0} bytes")]
    TooLarge(usize),
    #[error("the report is not what is expected: {0}")]
    Malformed(String),
    #[error("too many reports; come back in {0} s")]
    TooMany(u64),
    #[error("the API server refused the report")]
    Cluster(#[from] kube::Error),
}

/// Takes a report for a job and returns it as it was taken.
pub(crate) async fn take(
    context: &Context,
    key: &Key,
    token: Option<&str>,
    body: &[u8],
) -> Result<Value, Error> {
    let token = token.ok_or(Error::Unauthenticated)?;
    let user = review(context, key, token).await?;
    check(context, key, &user)?;
    let reporter = Caller {
        user: format!("trainjob:{}/{}", key.namespace, key.name),
        groups: Vec::new(),
        token: None,
        expires_at: None,
        admin: false,
        credential: None,
    };
    context
        .limiter
        .count(&reporter, true, context.now())
        .map_err(Error::TooMany)?;
    let report: Value =
        serde_json::from_slice(body).map_err(|error| Error::Malformed(error.to_string()))?;
    let Some(object) = report.as_object() else {
        return Err(Error::Malformed("it must be an object".to_owned()));
    };
    if let Some(unknown) = object.keys().find(|key| *key != "trainerStatus") {
        return Err(Error::Malformed(format!("unknown field {unknown:?}")));
    }
    let status = json!({
        "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
        "metadata": { "name": key.name, "namespace": key.namespace },
        "status": report,
    });
    let jobs: Api<astrago_api::TrainJob> = Api::namespaced(context.client.clone(), &key.namespace);
    // Applying would make a job that is not there.
    jobs.get(&key.name).await?;
    jobs.patch_status(
        &key.name,
        &PatchParams::apply(MANAGER).force(),
        &Patch::Apply(&status),
    )
    .await?;
    Ok(report)
}

/// Whom the API server knows the token to belong to.
async fn review(context: &Context, key: &Key, token: &str) -> Result<UserInfo, Error> {
    let audience = audience(key);
    let review = TokenReview {
        spec: TokenReviewSpec {
            token: token.to_owned(),
            audiences: Some(vec![audience.clone()]),
        },
        ..TokenReview::default()
    };
    let reviews: Api<TokenReview> = Api::all(context.client.clone());
    let status = reviews
        .create(&PostParams::default(), &review)
        .await?
        .status;
    // A server that does not know audiences would say yes to any token.
    let meant =
        |audiences: &Option<Vec<String>>| audiences.iter().flatten().any(|one| *one == audience);
    status
        .filter(|status| status.authenticated == Some(true) && meant(&status.audiences))
        .and_then(|status| status.user)
        .ok_or(Error::Unauthenticated)
}

/// Whether the account is of the job's namespace, and the pod one of the job's.
fn check(context: &Context, key: &Key, user: &UserInfo) -> Result<(), Error> {
    let forbidden = || Error::Forbidden(key.name.clone());
    let prefix = format!("system:serviceaccount:{}:", key.namespace);
    if !user
        .username
        .as_ref()
        .is_some_and(|name| name.starts_with(&prefix))
    {
        return Err(forbidden());
    }
    let pod = user
        .extra
        .as_ref()
        .and_then(|extra| extra.get("authentication.kubernetes.io/pod-name")?.first());
    let Some(pod) = pod else {
        return Ok(());
    };
    let mirrors = &context.world.mirrors;
    let pod = mirrors.pods.get(&Key::new(&key.namespace, pod));
    // A pod that is not known here yet was known to the API server a moment ago.
    let foreign = pod.is_some_and(|pod| pod.labels().get(labels::JOBSET_NAME) != Some(&key.name));
    if foreign { Err(forbidden()) } else { Ok(()) }
}

/// What a token must have been made for.
fn audience(key: &Key) -> String {
    format!(
        "trainer.kubeflow.org/v1alpha1/namespaces/{}/trainjobs/{}/status",
        key.namespace, key.name
    )
}
