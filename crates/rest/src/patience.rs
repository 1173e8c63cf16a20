//! A client that does not wait for ever for an API server that has fallen silent.
//!
//! Where packets go nowhere no connection breaks, and kube's own limit is meant for watches: minutes. Whoever waits for
//! an answer of ours should hear within seconds that the cluster does not answer.

use std::time::Duration;

use kube::Client;
use tower::ServiceExt;

/// How long the beginning of an answer may take. Kubernetes itself gives up after a minute, but nothing that is asked
/// from here takes it more than a moment.
const PATIENCE: Duration = Duration::from_secs(15);

/// A client that sends `inner`'s requests and gives up when no answer begins.
pub(crate) fn impatient(inner: &Client) -> Client {
    waiting_for(inner, PATIENCE)
}

fn waiting_for(inner: &Client, patience: Duration) -> Client {
    let inner = inner.clone();
    let namespace = inner.default_namespace().to_owned();
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let inner = inner.clone();
        async move {
            if is_open_ended(&request) {
                return inner.send(request).await.map_err(tower::BoxError::from);
            }
            match tokio::time::timeout(patience, inner.send(request)).await {
                Ok(answer) => answer.map_err(tower::BoxError::from),
                Err(_) => Err(tower::BoxError::from(Silent(patience))),
            }
        }
    });
    Client::new(service.map_err(tower::BoxError::from), namespace)
}

/// Whether the answer begins when something happens, and not before.
fn is_open_ended(request: &http::Request<kube::client::Body>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    query
        .split('&')
        .any(|pair| matches!(pair, "watch=true" | "watch=1" | "follow=true" | "follow=1"))
}

#[derive(Debug, thiserror::Error)]
#[error("the API server did not answer within {} seconds", .0.as_secs())]
struct Silent(Duration);

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use k8s_openapi::api::core::v1::Pod;
    use kube::Api;
    use kube::api::{ListParams, LogParams};

    use super::*;

    /// An API server that takes requests and says nothing.
    fn silent() -> Client {
        let service = tower::service_fn(|_: http::Request<kube::client::Body>| {
            std::future::pending::<Result<http::Response<kube::client::Body>, Infallible>>()
        });
        Client::new(service, "default")
    }

    #[tokio::test]
    async fn a_silent_server_is_given_up_and_a_quiet_log_is_not() {
        let patience = Duration::from_millis(50);
        let pods: Api<Pod> = Api::namespaced(waiting_for(&silent(), patience), "default");
        let error = pods.list(&ListParams::default()).await.unwrap_err();
        assert!(matches!(error, kube::Error::Service(_)), "{error:?}");

        let follow = LogParams {
            follow: true,
            ..LogParams::default()
        };
        let quiet = tokio::time::timeout(patience * 4, pods.log_stream("pod", &follow)).await;
        assert!(quiet.is_err(), "it was given up");
    }
}
