//! Addresses and handlers: take the request apart, call one function of [`app`](crate::app),
//! send its answer.

mod connect;
mod jobs;
mod logs;
pub(crate) mod oidc;
mod people;
mod places;
pub(crate) mod reports;
mod snapshots;
mod streams;
mod tokens;
mod webhooks;

use std::sync::Arc;

use utoipa_axum::router::OpenApiRouter;

use crate::context::Context;

/// Every operation of the API, with its description.
pub(crate) fn all() -> OpenApiRouter<Arc<Context>> {
    OpenApiRouter::new()
        .merge(jobs::routes())
        .merge(connect::routes())
        .merge(logs::routes())
        .merge(places::routes())
        .merge(snapshots::routes())
        .merge(people::routes())
        .merge(tokens::routes())
        .merge(webhooks::routes())
        .merge(streams::routes())
}
