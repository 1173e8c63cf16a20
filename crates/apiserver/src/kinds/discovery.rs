//! Discovery: which groups, versions and resources there are, in the three forms that clients ask for.
//!
//! kubectl from 1.30 on asks for the aggregated form `v2`, older ones for `v2beta1`, everything else
//! reads the plain lists. An answer in a form that was not asked for is not understood, so the `v=` of
//! the `Accept` header is honoured exactly.

use std::collections::BTreeMap;

use axum::response::Response;
use http::{HeaderMap, HeaderValue, header};
use serde_json::{Value, json};

use crate::http::respond;
use crate::kinds::registry::Kind;
use crate::options::ExtraGroup;
use crate::server::Core;
use crate::status::{ApiError, Result};

/// Answers `/api`, `/apis` and what lies below down to the group versions.
pub(crate) fn answer(core: &Core, path: &str, headers: &HeaderMap) -> Result<Response> {
    let segments: Vec<&str> = path
        .split('/')
        .filter(|segment| !segment.is_empty())
        .collect();
    let catalogue = Catalogue::of(core);
    let plain = match segments.as_slice() {
        ["api" | "apis"] => {
            let core_group = segments == ["api"];
            if let Some(version) = aggregated(headers) {
                return Ok(aggregated_response(
                    &catalogue.aggregated(core_group, version),
                    version,
                ));
            }
            if core_group {
                core_versions()
            } else {
                catalogue.group_list()
            }
        }
        ["api", "v1"] => catalogue.resources("", "v1").ok_or(ApiError::NoSuchPath)?,
        ["apis", group] => catalogue.group(group).ok_or(ApiError::NoSuchPath)?,
        ["apis", group, version] => catalogue
            .resources(group, version)
            .ok_or(ApiError::NoSuchPath)?,
        _ => return Err(ApiError::NoSuchPath),
    };
    Ok(respond::json_value(&plain))
}

/// The aggregated version that the client understands and prefers.
fn aggregated(headers: &HeaderMap) -> Option<&'static str> {
    let accept = headers.get(header::ACCEPT)?.to_str().ok()?;
    for clause in accept.split(',') {
        let parts: Vec<_> = clause.split(';').map(str::trim).collect();
        if parts.first() != Some(&"application/json") {
            continue;
        }
        if parts.len() == 1 {
            return None;
        }
        if !parts.contains(&"as=APIGroupDiscoveryList") || !parts.contains(&"g=apidiscovery.k8s.io")
        {
            continue;
        }
        if parts.contains(&"v=v2") {
            return Some("v2");
        }
        if parts.contains(&"v=v2beta1") {
            return Some("v2beta1");
        }
    }
    None
}

fn aggregated_response(list: &Value, version: &str) -> Response {
    let mut response = respond::json_value(list);
    let media =
        format!("application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList");
    if let Ok(value) = HeaderValue::from_str(&media) {
        response.headers_mut().insert(header::CONTENT_TYPE, value);
    }
    response
        .headers_mut()
        .insert(header::VARY, HeaderValue::from_static("Accept"));
    response
}

fn core_versions() -> Value {
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [],
    })
}

/// Resources by group, then by version, preferred version first.
struct Catalogue {
    groups: BTreeMap<String, Vec<(String, Vec<Resource>)>>,
}

/// One resource with its subresources, in the terms of both forms of discovery.
struct Resource {
    name: String,
    singular: String,
    namespaced: bool,
    kind: (String, String, String),
    verbs: Vec<String>,
    short_names: Vec<String>,
    categories: Vec<String>,
    subresources: Vec<crate::kinds::registry::Subresource>,
}

impl Catalogue {
    fn of(core: &Core) -> Self {
        let mut groups: BTreeMap<String, Vec<(String, Vec<Resource>)>> = BTreeMap::new();
        let mut add = |group: &str, version: &str, resource: Resource| {
            let versions = groups.entry(group.to_owned()).or_default();
            match versions.iter_mut().find(|(name, _)| name == version) {
                Some((_, resources)) => resources.push(resource),
                None => versions.push((version.to_owned(), vec![resource])),
            }
        };
        for kind in core.registry.table().kinds() {
            add(&kind.group, &kind.version, Resource::of(kind));
        }
        for extra in &core.options.extra_groups {
            for resource in &extra.resources {
                add(
                    &extra.group,
                    &extra.version,
                    Resource::of_extra(extra, resource),
                );
            }
        }
        for versions in groups.values_mut() {
            versions.sort_by_key(|(version, _)| std::cmp::Reverse(priority(version)));
        }
        Self { groups }
    }

    fn group_list(&self) -> Value {
        let names = self.groups.keys().filter(|name| !name.is_empty());
        let groups: Vec<_> = names.filter_map(|name| self.group(name)).collect();
        json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups })
    }

    fn group(&self, name: &str) -> Option<Value> {
        let versions: Vec<_> = self
            .groups
            .get(name)
            .filter(|_| !name.is_empty())?
            .iter()
            .map(|(version, _)| json!({ "groupVersion": format!("{name}/{version}"), "version": version }))
            .collect();
        Some(json!({
            "kind": "APIGroup",
            "apiVersion": "v1",
            "name": name,
            "preferredVersion": versions.first(),
            "versions": versions,
        }))
    }

    fn resources(&self, group: &str, version: &str) -> Option<Value> {
        let (_, resources) = self
            .groups
            .get(group)?
            .iter()
            .find(|(name, _)| name == version)?;
        let entries: Vec<Value> = resources.iter().flat_map(Resource::entries).collect();
        let group_version = if group.is_empty() {
            version.to_owned()
        } else {
            format!("{group}/{version}")
        };
        Some(json!({
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": group_version,
            "resources": entries,
        }))
    }

    fn aggregated(&self, core_group: bool, version: &str) -> Value {
        let chosen = self
            .groups
            .iter()
            .filter(|(name, _)| name.is_empty() == core_group);
        let items: Vec<Value> = chosen
            .map(|(name, versions)| {
                let versions: Vec<_> = versions
                    .iter()
                    .map(|(version, resources)| {
                        json!({
                            "version": version,
                            "freshness": "Current",
                            "resources": resources.iter().map(Resource::aggregated).collect::<Value>(),
                        })
                    })
                    .collect();
                let metadata = if name.is_empty() { json!({}) } else { json!({ "name": name }) };
                json!({ "metadata": metadata, "versions": versions })
            })
            .collect();
        json!({
            "kind": "APIGroupDiscoveryList",
            "apiVersion": format!("apidiscovery.k8s.io/{version}"),
            "metadata": {},
            "items": items,
        })
    }
}

impl Resource {
    fn of(kind: &Kind) -> Self {
        Self {
            name: kind.plural.to_string(),
            singular: kind.singular.clone(),
            namespaced: kind.namespaced,
            kind: (
                kind.group.to_string(),
                kind.version.to_string(),
                kind.kind.to_string(),
            ),
            verbs: kind.verbs.clone(),
            short_names: kind.short_names.clone(),
            categories: kind.categories.clone(),
            subresources: kind.subresources.clone(),
        }
    }

    fn of_extra(extra: &ExtraGroup, resource: &Value) -> Self {
        let text = |field: &str| resource[field].as_str().unwrap_or_default().to_owned();
        let texts = |field: &str| -> Vec<String> {
            let list = resource[field].as_array().into_iter().flatten();
            list.filter_map(|one| Some(one.as_str()?.to_owned()))
                .collect()
        };
        Self {
            name: text("name"),
            singular: text("singularName"),
            namespaced: resource["namespaced"] == true,
            kind: (extra.group.clone(), extra.version.clone(), text("kind")),
            verbs: texts("verbs"),
            short_names: texts("shortNames"),
            categories: texts("categories"),
            subresources: Vec::new(),
        }
    }

    /// `APIResource` entries: the resource and its subresources.
    fn entries(&self) -> Vec<Value> {
        let mut own = json!({
            "name": self.name,
            "singularName": self.singular,
            "namespaced": self.namespaced,
            "kind": self.kind.2,
            "verbs": self.verbs,
        });
        if !self.short_names.is_empty() {
            own["shortNames"] = json!(self.short_names);
        }
        if !self.categories.is_empty() {
            own["categories"] = json!(self.categories);
        }
        let below = self.subresources.iter().map(|sub| {
            let mut entry = json!({
                "name": format!("{}/{}", self.name, sub.name),
                "singularName": "",
                "namespaced": self.namespaced,
                "kind": sub.kind,
                "verbs": sub.verbs,
            });
            if (&sub.group, &sub.version) != (&self.kind.0, &self.kind.1) {
                entry["group"] = sub.group.as_str().into();
                entry["version"] = sub.version.as_str().into();
            }
            entry
        });
        std::iter::once(own).chain(below).collect()
    }

    fn aggregated(&self) -> Value {
        let kind = |group: &str, version: &str, kind: &str| json!({ "group": group, "version": version, "kind": kind });
        let mut value = json!({
            "resource": self.name,
            "responseKind": kind(&self.kind.0, &self.kind.1, &self.kind.2),
            "scope": if self.namespaced { "Namespaced" } else { "Cluster" },
            "singularResource": self.singular,
            "verbs": self.verbs,
        });
        if !self.short_names.is_empty() {
            value["shortNames"] = json!(self.short_names);
        }
        if !self.categories.is_empty() {
            value["categories"] = json!(self.categories);
        }
        if !self.subresources.is_empty() {
            let below = self.subresources.iter().map(|sub| {
                json!({
                    "subresource": sub.name,
                    "responseKind": kind(&sub.group, &sub.version, &sub.kind),
                    "verbs": sub.verbs,
                })
            });
            value["subresources"] = below.collect();
        }
        value
    }
}

/// Kubernetes' order of versions: stable before beta before alpha, higher numbers first.
fn priority(version: &str) -> (u8, u32, u32) {
    let parse = || {
        let rest = version.strip_prefix('v')?;
        let end = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        let major = rest[..end].parse().ok()?;
        let (stage, minor) = match &rest[end..] {
            "" => (3, ""),
            suffix => match (suffix.strip_prefix("beta"), suffix.strip_prefix("alpha")) {
                (Some(minor), _) => (2, minor),
                (None, Some(minor)) => (1, minor),
                (None, None) => return None,
            },
        };
        Some((
            stage,
            major,
            if minor.is_empty() {
                0
            } else {
                minor.parse().ok()?
            },
        ))
    };
    parse().unwrap_or((0, 0, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_as_in_kubernetes() {
        let mut versions = ["v1alpha1", "v10", "v1", "foo", "v2beta1", "v1beta2", "v2"];
        versions.sort_by_key(|version| std::cmp::Reverse(priority(version)));
        assert_eq!(
            versions,
            ["v10", "v2", "v1", "v2beta1", "v1beta2", "v1alpha1", "foo"]
        );
    }

    #[test]
    fn only_the_version_that_was_asked_for_is_given() {
        let asks = |accept: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
            aggregated(&headers)
        };
        let beta = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
        assert_eq!(asks(beta), Some("v2beta1"));
        assert_eq!(asks("application/json"), None);
        assert_eq!(asks("*/*"), None);
    }
}
