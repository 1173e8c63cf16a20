//! The OpenAPI documents, version 2 and 3, as clients ask for them.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use axum::response::Response;
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, header};
use serde_json::Value;
use sha2::Digest as _;

use super::respond;
use crate::kinds::openapi::{self, CustomKind};
use crate::kinds::registry::{Kind, Table};
use crate::server::Core;
use crate::status::{ApiError, Result, not_modified};

/// The index, or the document of one group and version.
pub(super) fn v3(core: &Core, path: &str, parts: &Parts) -> Result<Response> {
    let table = core.registry.table();
    let segments: Vec<&str> = path
        .split('/')
        .filter(|segment| !segment.is_empty())
        .collect();
    let (group, version) = match segments.as_slice() {
        [] => return Ok(respond::json_value(&index(&table))),
        ["api", version] => ("", *version),
        ["apis", group, version] => (*group, *version),
        _ => return Err(ApiError::NoSuchPath),
    };
    let hash = document_hash(&table, group, version).ok_or(ApiError::NoSuchPath)?;
    tagged(parts, &hash, || {
        respond::json_bytes(document(&table, group, version))
    })
}

/// A document, unless the client has it: its tag is a text that changes when it does.
fn tagged(parts: &Parts, tag: &str, document: impl FnOnce() -> Response) -> Result<Response> {
    let tag = HeaderValue::from_str(&format!("\"{tag}\""))
        .map_err(|error| ApiError::Internal(error.to_string()))?;
    let mut response = if parts.headers.get(header::IF_NONE_MATCH) == Some(&tag) {
        not_modified()
    } else {
        document()
    };
    let headers = response.headers_mut();
    headers.insert(header::ETAG, tag);
    let caching = HeaderValue::from_static("public, no-cache");
    headers.insert(header::CACHE_CONTROL, caching);
    Ok(response)
}

fn index(table: &Table) -> Value {
    let versions: BTreeSet<(&str, &str)> = table
        .kinds()
        .iter()
        .map(|kind| (&*kind.group, &*kind.version))
        .collect();
    openapi::index(versions.into_iter().filter_map(|(group, version)| {
        Some((group, version, document_hash(table, group, version)?))
    }))
}

/// A text that changes when the document does; `None` when there is no such document.
fn document_hash(table: &Table, group: &str, version: &str) -> Option<String> {
    let mut kinds = table.of(group, version).peekable();
    let first = kinds.peek()?;
    if first.custom.is_none() {
        return Some(openapi::builtin_hash());
    }
    let revisions = kinds.filter_map(|kind| Some(kind.custom.as_ref()?.revision()));
    Some(
        revisions
            .map(|revision| format!("{revision:X}"))
            .collect::<Vec<_>>()
            .join("-"),
    )
}

/// The one document of all kinds that OpenAPI v2 knows. It is kept until a definition changes, in protobuf:
/// nobody but curious people asks for JSON.
pub(super) fn v2(core: &Core, parts: &Parts) -> Result<Response> {
    let table = core.registry.table();
    let accept = parts.headers.get(header::ACCEPT);
    let accept = accept.and_then(|value| value.to_str().ok());
    let as_protobuf = accept.is_some_and(|accept| {
        let mut forms = openapi::v2::ACCEPTED.iter();
        forms.any(|form| accept.contains(form))
    });
    let index = index(&table).to_string();
    let hash = hex::encode(&sha2::Sha256::digest(index.as_bytes())[..12]);
    let form = if as_protobuf { "p" } else { "j" };
    let mut response = tagged(parts, &format!("{form}{hash}"), || {
        if !as_protobuf {
            return respond::json_bytes(openapi::v2::json(custom_parts(&table)));
        }
        let document = core.documents.get(table.generation, || {
            openapi::v2::protobuf(custom_parts(&table))
        });
        respond::typed(document, openapi::v2::PROTOBUF)
    })?;
    let vary = HeaderValue::from_static("Accept");
    response.headers_mut().insert(header::VARY, vary);
    Ok(response)
}

/// The custom kinds' parts, one at a time: with their schemas they are large.
fn custom_parts(table: &Table) -> impl Iterator<Item = openapi::v2::Part> {
    let kinds = table.kinds().iter().filter(|kind| kind.custom.is_some());
    kinds.map(|kind| openapi::v2::Part::custom(&kind.group, &kind.version, custom_kind(kind)))
}

/// A document that is kept as long as the kinds stay the same.
#[derive(Default)]
pub(crate) struct Documents(Mutex<Option<(u64, Bytes)>>);

impl Documents {
    fn get(&self, generation: u64, make: impl FnOnce() -> Bytes) -> Bytes {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*kept {
            Some((of, document)) if *of == generation => document.clone(),
            _ => {
                let document = make();
                *kept = Some((generation, document.clone()));
                document
            }
        }
    }
}

fn document(table: &Table, group: &str, version: &str) -> Bytes {
    if let Some(document) = openapi::builtin(group, version) {
        return document;
    }
    let kinds = table.of(group, version).map(|kind| custom_kind(kind));
    openapi::custom(group, version, kinds)
}

fn custom_kind(kind: &Kind) -> CustomKind<'_> {
    CustomKind {
        kind: &kind.kind,
        plural: &kind.plural,
        namespaced: kind.namespaced,
        schema: kind
            .custom
            .as_ref()
            .map(|custom| custom.schema())
            .unwrap_or_default(),
        subresources: kind
            .subresources
            .iter()
            .map(|one| one.name.as_str())
            .collect(),
    }
}
