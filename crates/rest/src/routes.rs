//! Addresses and handlers: take the request apart, call one function of [`app`](crate::app),
//! send its answer.

/// A router of handlers; those of one address stand together.
macro_rules! handlers {
    ($($($handler:ident),+);+) => {
        OpenApiRouter::new()$(.routes(utoipa_axum::routes!($($handler),+)))+
    };
}

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

use std::ops::RangeInclusive;
use std::sync::Arc;

use utoipa_axum::router::OpenApiRouter;

use crate::context::Context;
use crate::error::Result;
use crate::extract::Parameters;

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

/// A whole number that counts something, or what it is by default.
fn count(
    parameters: &Parameters,
    name: &str,
    range: RangeInclusive<i64>,
    default: usize,
) -> Result<usize> {
    let value = parameters.integer(name, range)?;
    Ok(value
        .and_then(|value| usize::try_from(value).ok())
        .unwrap_or(default))
}
