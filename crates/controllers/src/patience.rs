//! How the controllers meet an API server that is busy or away.

use std::time::Duration;

use kube::Client;
use kube::client::Body;
use kube::client::retry::RetryPolicy;
use tower::retry::RetryLayer;
use tower::{BoxError, ServiceBuilder, ServiceExt};

const FIRST_DELAY: Duration = Duration::from_millis(50);
const LONGEST_DELAY: Duration = Duration::from_secs(5);
const TRIES: u32 = 10;

/// A client that sends again what the server refused because it is busy (429, 503, 504), when the server asks for it.
///
/// A reconcile makes several requests. If each refusal failed the whole of it, a server that refuses a quarter of them
/// would keep a job waiting for as long as back-off can grow.
pub(crate) fn patient(inner: &Client) -> Client {
    let policy = RetryPolicy::new(FIRST_DELAY, LONGEST_DELAY, TRIES, true)
        .expect("the first delay is shorter than the longest");
    let namespace = inner.default_namespace().to_owned();
    let inner = inner.clone();
    let send = tower::service_fn(move |request: http::Request<Body>| {
        let inner = inner.clone();
        async move { inner.send(request).await.map_err(BoxError::from) }
    });
    let service = ServiceBuilder::new()
        .layer(RetryLayer::new(policy))
        .service(send);
    Client::new(service.map_err(BoxError::from), namespace)
}
