//! What handlers take out of a request. Every refusal is one of [`app::Error`](crate::app::Error).

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE};
use axum::http::{HeaderMap, request::Parts};
use bytes::BytesMut;
use futures::StreamExt as _;
use serde::de::DeserializeOwned;

use crate::app::{Error, namespaces};
use crate::context::{Authentication, Context};
use crate::guard;
use crate::identity::Caller;
use crate::limits::{Kept, Share};
use crate::world::Key;

/// The largest body that is read. Training code has its own, smaller limit, so that a file that
/// is a little too large is answered with the name of its field.
pub(crate) const BODY_LIMIT: usize = 16 * 1024 * 1024;

/// The largest body of somebody who is not known yet.
const SIGN_IN_LIMIT: usize = 64 * 1024;

/// The cookie in which the page keeps its token.
pub(crate) const COOKIE_NAME: &str = "astrago_token";

impl FromRequestParts<Arc<Context>> for Caller {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, context: &Arc<Context>) -> Result<Self, Error> {
        if context.authentication == Authentication::Off {
            return Ok(Self::admin());
        }
        let caller = if let Some(known) = parts.extensions.get::<Self>() {
            known.clone()
        } else {
            let token = token(&parts.headers).ok_or(Error::Unauthenticated)?;
            context.caller(&token).await?
        };
        let changes = !guard::is_safe(&parts.method);
        context
            .limiter
            .count(&caller, changes, context.now())
            .map_err(Error::TooManyRequests)?;
        if let Some(place) = parts.extensions.get::<Place>() {
            place.take(context, &caller)?;
        }
        Ok(caller)
    }
}

/// The place of a request's answer among those of its caller, once it is known who that is. Whoever asks and does not read
/// has only so many.
#[derive(Clone, Default)]
pub(crate) struct Place(Arc<Mutex<Option<Share>>>);

impl Place {
    fn take(&self, context: &Context, caller: &Caller) -> Result<(), Error> {
        let mut place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if place.is_none() {
            let mut share = context.limiter.share(caller, Kept::Answer);
            share.grow(1).map_err(Error::TooManyRequests)?;
            *place = Some(share);
        }
        Ok(())
    }
}

/// The token of a request: from the header, or from the page's cookie.
pub(crate) fn token(headers: &HeaderMap) -> Option<String> {
    let header = headers
        .get(AUTHORIZATION)
        .and_then(|value| value.to_str().ok());
    if let Some((scheme, token)) = header.and_then(|header| header.split_once(' '))
        && scheme.eq_ignore_ascii_case("bearer")
    {
        return Some(token.trim().to_owned());
    }
    cookie(headers, COOKIE_NAME)
}

pub(crate) fn cookie(headers: &HeaderMap, wanted: &str) -> Option<String> {
    let cookies = headers
        .get_all(COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok());
    cookies
        .flat_map(|line| line.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find(|(name, _)| *name == wanted)
        .map(|(_, value)| value.to_owned())
}

pub(crate) struct Json<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<Arc<Context>> for Json<T> {
    type Rejection = Error;

    async fn from_request(request: Request, context: &Arc<Context>) -> Result<Self, Error> {
        let kind = request
            .headers()
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok());
        if kind.is_some_and(|kind| {
            !kind
                .trim_start()
                .to_ascii_lowercase()
                .starts_with("application/json")
        }) {
            return Err(Error::UnsupportedMediaType);
        }
        let (body, _share) = whole(request, context).await?;
        if body.is_empty() {
            return Err(Error::Malformed(
                "the body is empty and must be a JSON object".to_owned(),
            ));
        }
        let value = serde_json::from_slice(&body).map_err(|error| {
            Error::Malformed(format!("the body is not what is expected: {error}"))
        })?;
        Ok(Self(value))
    }
}

/// A whole body, and what it takes of what its sender may have under way. Who has not said who they are is here to sign in.
async fn whole(request: Request, context: &Context) -> Result<(BytesMut, Option<Share>), Error> {
    let caller = request.extensions().get::<Caller>();
    let mut share = caller.map(|caller| context.limiter.share(caller, Kept::InMemory));
    let limit = caller.map_or(SIGN_IN_LIMIT, |_| BODY_LIMIT);
    let mut parts = request.into_body().into_data_stream();
    let mut body = BytesMut::new();
    while let Some(part) = parts.next().await {
        let part = part.map_err(|_| Error::Malformed("the body ended too early".to_owned()))?;
        if body.len() + part.len() > limit {
            return Err(Error::TooLarge(limit));
        }
        if let Some(share) = &mut share {
            share.grow(part.len()).map_err(Error::TooManyRequests)?;
        }
        body.extend_from_slice(&part);
    }
    Ok((body, share))
}

/// The `{name}` of a path. It becomes a part of an address of the API server, so nothing but a name
/// may pass.
pub(crate) struct Name(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for Name {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Error> {
        let path = axum::extract::Path::<String>::from_request_parts(parts, state).await;
        let name = path.map_err(|error| Error::Malformed(error.body_text()))?.0;
        crate::form::name::check_subdomain(&name)
            .map_err(|message| Error::invalid("name", message))?;
        Ok(Self(name))
    }
}

/// Who asks, and what the answer is made from.
pub(crate) struct Call(pub(crate) Arc<Context>, pub(crate) Caller);

impl FromRequestParts<Arc<Context>> for Call {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, context: &Arc<Context>) -> Result<Self, Error> {
        let caller = Caller::from_request_parts(parts, context).await?;
        Ok(Self(Arc::clone(context), caller))
    }
}

/// Who asks, and for which job: the `{name}` of the path in the `namespace` of the query, or in the caller's own.
pub(crate) struct OfJob(pub(crate) Arc<Context>, pub(crate) Caller, pub(crate) Key);

impl FromRequestParts<Arc<Context>> for OfJob {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, context: &Arc<Context>) -> Result<Self, Error> {
        let Call(context, caller) = Call::from_request_parts(parts, context).await?;
        let Name(name) = Name::from_request_parts(parts, &context).await?;
        let parameters = Parameters::from_request_parts(parts, &context).await?;
        let namespace = parameters.namespace(&caller)?;
        Ok(Self(context, caller, Key { namespace, name }))
    }
}

/// The query of a request, read parameter by parameter.
pub(crate) struct Parameters(BTreeMap<String, String>);

impl<S: Send + Sync> FromRequestParts<S> for Parameters {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Error> {
        let query =
            axum::extract::Query::<Vec<(String, String)>>::from_request_parts(parts, state).await;
        let pairs = query
            .map_err(|error| Error::Malformed(error.body_text()))?
            .0;
        Ok(Self(pairs.into_iter().collect()))
    }
}

impl Parameters {
    /// A parameter that is there and not empty.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0
            .get(name)
            .map(String::as_str)
            .filter(|text| !text.is_empty())
    }

    pub(crate) fn integer(
        &self,
        name: &str,
        range: RangeInclusive<i64>,
    ) -> Result<Option<i64>, Error> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        let number: Option<i64> = text.parse().ok().filter(|number| range.contains(number));
        number.map(Some).ok_or_else(|| {
            let (low, high) = (range.start(), range.end());
            let message = if *high == i64::MAX {
                format!("must be a whole number from {low}, not {text:?}")
            } else {
                format!("must be a whole number from {low} to {high}, not {text:?}")
            };
            Error::invalid(name, message)
        })
    }

    /// A parameter in a form of its own, which `what` names.
    pub(crate) fn parsed<T: FromStr>(&self, name: &str, what: &str) -> Result<Option<T>, Error> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        let refused = |_| Error::invalid(name, format!("must be {what}, not {text:?}"));
        text.parse().map(Some).map_err(refused)
    }

    pub(crate) fn flag(&self, name: &str) -> Result<bool, Error> {
        match self.0.get(name).map(String::as_str) {
            None | Some("false" | "0") => Ok(false),
            Some("true" | "1" | "") => Ok(true),
            Some(other) => Err(Error::invalid(
                name,
                format!("must be true or false, not {other:?}"),
            )),
        }
    }

    /// The namespace: as given, or the caller's own.
    pub(crate) fn namespace(&self, caller: &Caller) -> Result<String, Error> {
        if let Some(namespace) = self.text("namespace") {
            crate::form::name::check_label(namespace)
                .map_err(|message| Error::invalid("namespace", message))?;
            return Ok(namespace.to_owned());
        }
        if caller.is_admin() {
            return Err(Error::invalid("namespace", "is required"));
        }
        caller
            .label()
            .and_then(|user| namespaces::natural(&user))
            .map_err(|message| Error::invalid("namespace", message))
    }
}
