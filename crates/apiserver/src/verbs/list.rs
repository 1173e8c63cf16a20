//! `list`: selectors, pages, and the meaning of `resourceVersion`.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::http::parameters::VersionMatch;
use crate::http::respond;
use crate::kinds::conversion::stored_path;
use crate::kinds::selector::{Fields, Labels};
use crate::status::{ApiError, Result};
use crate::store::{Name, Object, Page, Query, fields};
use crate::verbs::call::Call;

/// How long a read waits for a revision that is still to come.
const PATIENCE: Duration = Duration::from_secs(3);

pub(crate) async fn list(call: Call) -> Result<Response> {
    let parameters = &call.parameters;
    if parameters.send_initial_events.is_some() {
        return Err(ApiError::bad_request(
            "sendInitialEvents is forbidden for list",
        ));
    }
    let selection = Selection::parse(&call)?;
    let start = start(&call)?;
    if start.at.is_none() {
        wait_for_revision(&call).await?;
    }
    let (at, after) = (start.at, start.after);
    let page = selection.list(&call, at, after, parameters.limit)?;
    let token = match (page.more, page.objects.last()) {
        (true, Some(last)) => Some(token(page.revision, &last.name)),
        _ => None,
    };
    let more = token.map(|token| (token, page.remaining));
    let kind = Arc::clone(&call.kind);
    let mut response = respond::list(call, page.objects, page.revision, more);
    respond::add_warnings(&kind, &mut response, &[]);
    Ok(response)
}

pub(crate) struct Selection {
    labels: Labels,
    fields: Fields,
    /// The fields that the objects are indexed by.
    indexed: &'static [&'static str],
    label_terms: Vec<(String, String)>,
    field_terms: Vec<(String, String)>,
}

impl Selection {
    pub(crate) fn parse(call: &Call) -> Result<Self> {
        let labels = Labels::parse(&call.parameters.label_selector)?;
        let selectable = |path: &str| call.kind.selectable(path);
        let mut fields = Fields::parse(&call.parameters.field_selector, selectable)?;
        if !call.path.name.is_empty() {
            fields
                .equal
                .push(("metadata.name".to_owned(), call.path.name.clone()));
        }
        for (path, _) in fields.equal.iter_mut().chain(&mut fields.unequal) {
            if let Some(Cow::Owned(stored)) = stored_path(&call.kind, path) {
                *path = stored;
            }
        }
        let indexed = fields::paths(&call.kind.resource);
        let field_terms = fields
            .equal
            .iter()
            .filter(|(path, value)| {
                indexed.contains(&path.as_str()) && value != fields::absent(path)
            })
            .cloned()
            .collect();
        Ok(Self {
            label_terms: labels.equalities(),
            labels,
            fields,
            indexed,
            field_terms,
        })
    }

    fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub(crate) fn matches(&self, object: &Object) -> bool {
        self.labels.matches(object) && self.fields_match(object)
    }

    fn fields_match(&self, object: &Object) -> bool {
        if self.fields.is_empty() {
            return true;
        }
        // Fields of custom resources are not indexed; only then is the JSON parsed.
        let known = |path: &str| path.starts_with("metadata.") || self.indexed.contains(&path);
        let mut paths = self.fields.equal.iter().chain(&self.fields.unequal);
        let tree = paths.any(|(path, _)| !known(path)).then(|| object.value());
        self.fields.matches(|path| match &tree {
            Some(tree) if !known(path) => fields::at(tree, path),
            _ => Some(
                object
                    .field(path)
                    .unwrap_or_else(|| fields::absent(path))
                    .into(),
            ),
        })
    }

    /// Lists what is selected: a look-up by name, by index, or a walk over the namespace.
    pub(crate) fn list(
        &self,
        call: &Call,
        at: Option<u64>,
        after: Option<Name>,
        limit: usize,
    ) -> Result<Page> {
        let store = &call.core.store;
        let namespace = self.namespace(call);
        if let (Some(name), None, false) = (
            self.fields.name(),
            at,
            namespace.is_empty() && call.kind.namespaced,
        ) {
            let revision = store.revision();
            let object = store.get(&call.kind.resource, &Name::new(&namespace, name));
            let objects = object
                .into_iter()
                .filter(|object| self.matches(object))
                .collect();
            return Ok(Page {
                objects,
                revision,
                more: false,
                remaining: None,
            });
        }
        let filter = |object: &Object| self.matches(object);
        let query = Query {
            namespace: &namespace,
            labels: &self.label_terms,
            fields: &self.field_terms,
            // Without one the store knows how many there are.
            filter: (!self.is_empty()).then_some(&filter),
            after,
            limit,
            at,
        };
        Ok(store.list(&call.kind.resource, &query)?)
    }

    /// The namespace of the path, or the one that the field selector names.
    fn namespace(&self, call: &Call) -> String {
        let selected = self
            .fields
            .equal
            .iter()
            .find(|(path, _)| path == "metadata.namespace");
        match (call.namespace(), selected) {
            ("", Some((_, namespace))) => namespace.clone(),
            (namespace, _) => namespace.to_owned(),
        }
    }
}

/// Where a list begins.
struct Start {
    at: Option<u64>,
    after: Option<Name>,
}

fn start(call: &Call) -> Result<Start> {
    let parameters = &call.parameters;
    let version = &parameters.resource_version;
    if !parameters.continue_token.is_empty() {
        if !matches!(version.as_str(), "" | "0") {
            return Err(ApiError::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        let (revision, name) = parse_token(&parameters.continue_token)?;
        let outside = call.kind.namespaced
            && !call.namespace().is_empty()
            && *name.namespace != *call.namespace();
        if outside {
            return Err(ApiError::bad_request(
                "continue key is not valid: it is of another namespace",
            ));
        }
        return Ok(Start {
            at: Some(revision),
            after: Some(name),
        });
    }
    match parameters.resource_version_match {
        Some(_) if version.is_empty() => Err(ApiError::bad_request(
            "resourceVersionMatch is forbidden unless resourceVersion is provided",
        )),
        Some(VersionMatch::Exact) => {
            let revision = parse_revision(version)?;
            if revision == 0 {
                return Err(ApiError::bad_request(
                    "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
                ));
            }
            let current = call.core.store.revision();
            if revision > current {
                return Err(ApiError::FutureRevision {
                    requested: revision,
                    current,
                });
            }
            Ok(Start {
                at: Some(revision),
                after: None,
            })
        }
        Some(VersionMatch::NotOlderThan) | None => Ok(Start {
            at: None,
            after: None,
        }),
    }
}

/// Waits until the store has the revision that the request must not be older than.
pub(crate) async fn wait_for_revision(call: &Call) -> Result<()> {
    let requested = match call.parameters.resource_version.as_str() {
        "" | "0" => return Ok(()),
        version => parse_revision(version)?,
    };
    let store = &call.core.store;
    if store.revision() >= requested {
        return Ok(());
    }
    let reached = tokio::time::timeout(PATIENCE, store.reaches(requested)).await;
    reached.map_err(|_| ApiError::FutureRevision {
        requested,
        current: store.revision(),
    })
}

pub(crate) fn parse_revision(text: &str) -> Result<u64> {
    text.parse().map_err(|_| {
        ApiError::bad_request(format!(
            "resourceVersion: Invalid value: {text:?}: must be a number"
        ))
    })
}

/// A continue token: the snapshot and the last name of the page. Opaque to clients.
fn token(revision: u64, name: &Name) -> String {
    URL_SAFE_NO_PAD.encode(format!("1\0{revision}\0{}\0{}", name.namespace, name.name))
}

fn parse_token(token: &str) -> Result<(u64, Name)> {
    let wrong = || ApiError::bad_request("continue key is not valid");
    let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| wrong())?;
    let text = String::from_utf8(bytes).map_err(|_| wrong())?;
    let parts: Vec<_> = text.split('\0').collect();
    let ["1", revision, namespace, name] = parts.as_slice() else {
        return Err(wrong());
    };
    Ok((
        revision.parse().map_err(|_| wrong())?,
        Name::new(namespace, name),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_go_round_and_garbage_is_refused() {
        let name = Name::new("default", "job-1");
        assert_eq!(parse_token(&token(42, &name)).unwrap(), (42, name));
        for garbage in ["", "x", "AAAA", "MQ"] {
            assert!(parse_token(garbage).is_err(), "{garbage}");
        }
    }
}
