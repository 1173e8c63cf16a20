//! Volumes, and the files that they are made of.

use std::collections::HashSet;

use serde_json::Value;

use super::super::one_of;
use super::{environment, list, problem, text};
use crate::kinds::builtin::{names, quantity};
use crate::kinds::schema::FieldError;

/// What a file may show of its pod.
const FIELDS: [&str; 5] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
];

const HOST_TYPES: [&str; 8] = [
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
];

pub(super) fn all(spec: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let mut named = HashSet::new();
    for (index, volume) in list(spec, "volumes").iter().enumerate() {
        let at = format!("{at}[{index}]");
        self::volume(volume, &at, errors);
        let name = text(volume, "name");
        if !name.is_empty() && !named.insert(name) {
            errors.push(FieldError::duplicate(format!("{at}.name"), &volume["name"]));
        }
    }
}

fn volume(volume: &Value, at: &str, errors: &mut Vec<FieldError>) {
    name(&volume["name"], &format!("{at}.name"), errors);
    let sources = volume.as_object().into_iter().flatten();
    let mut sources = sources.filter(|(key, _)| *key != "name");
    if let Some((kind, source)) = sources.next() {
        self::source(kind, source, &format!("{at}.{kind}"), errors);
    }
    for (kind, _) in sources {
        let detail = "may not specify more than 1 volume type";
        errors.push(FieldError::forbidden(format!("{at}.{kind}"), detail));
    }
}

fn source(kind: &str, source: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let mut required = |field: &str| {
        if text(source, field).is_empty() {
            errors.push(FieldError::required(format!("{at}.{field}"), ""));
        }
    };
    match kind {
        "secret" => required("secretName"),
        "configMap" => required("name"),
        "persistentVolumeClaim" => required("claimName"),
        "csi" => required("driver"),
        "nfs" => ["server", "path"].into_iter().for_each(required),
        _ => {}
    }
    match kind {
        "secret" | "configMap" => {
            mode(source, "defaultMode", at, errors);
            keys(source, at, errors);
        }
        "downwardAPI" => {
            mode(source, "defaultMode", at, errors);
            fields(source, at, errors);
        }
        "projected" => {
            mode(source, "defaultMode", at, errors);
            projected(source, at, errors);
        }
        "emptyDir" => {
            let limit = source["sizeLimit"].as_str().and_then(quantity::nanos);
            if limit.is_some_and(|limit| limit < 0) {
                let detail = "SizeLimit field must be a valid resource quantity";
                errors.push(FieldError::forbidden(format!("{at}.sizeLimit"), detail));
            }
        }
        "hostPath" => host(source, at, errors),
        "ephemeral" if !source["volumeClaimTemplate"].is_object() => {
            errors.push(FieldError::required(
                format!("{at}.volumeClaimTemplate"),
                "",
            ));
        }
        _ => {}
    }
}

fn host(source: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let (path, at_path) = (text(source, "path"), format!("{at}.path"));
    if path.is_empty() {
        errors.push(FieldError::required(at_path, ""));
    } else if path.split('/').any(|step| step == "..") {
        errors.push(FieldError::invalid(
            at_path,
            &source["path"],
            "must not contain '..'",
        ));
    }
    let kind = &source["type"];
    if !kind.is_null() && kind != "" {
        one_of(kind, &format!("{at}.type"), &HOST_TYPES, errors);
    }
}

fn projected(source: &Value, at: &str, errors: &mut Vec<FieldError>) {
    const KINDS: [&str; 5] = [
        "clusterTrustBundle",
        "configMap",
        "downwardAPI",
        "secret",
        "serviceAccountToken",
    ];
    let mut taken = HashSet::new();
    for (index, source) in list(source, "sources").iter().enumerate() {
        let at = format!("{at}.sources[{index}]");
        let mut given = KINDS.into_iter().filter(|kind| source[*kind].is_object());
        let Some(kind) = given.next() else {
            continue;
        };
        if given.next().is_some() {
            let detail = "may not specify more than 1 volume type per source";
            errors.push(FieldError::forbidden(&*at, detail));
        }
        let (source, at) = (&source[kind], format!("{at}.{kind}"));
        match kind {
            "configMap" | "secret" => {
                if text(source, "name").is_empty() {
                    errors.push(FieldError::required(format!("{at}.name"), ""));
                }
                keys(source, &at, errors);
            }
            "downwardAPI" => fields(source, &at, errors),
            "serviceAccountToken" => token(source, &at, errors),
            _ => {}
        }
        let items = list(source, "items").iter();
        for file in items.chain((kind == "serviceAccountToken").then_some(source)) {
            if !text(file, "path").is_empty() && !taken.insert(text(file, "path")) {
                let detail = "conflicting duplicate paths";
                errors.push(FieldError::invalid(&*at, &file["path"], detail));
            }
        }
    }
}

fn token(source: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let seconds = &source["expirationSeconds"];
    let detail = match seconds.as_i64() {
        Some(..600) => "may not specify a duration less than 10 minutes",
        Some(seconds) if seconds > 1 << 32 => "may not specify a duration larger than 2^32 seconds",
        _ => "",
    };
    if !detail.is_empty() {
        let at = format!("{at}.expirationSeconds");
        errors.push(FieldError::invalid(at, seconds, detail));
    }
    path(source, at, errors);
}

/// The files that single keys become.
fn keys(source: &Value, at: &str, errors: &mut Vec<FieldError>) {
    for (index, item) in list(source, "items").iter().enumerate() {
        let at = format!("{at}.items[{index}]");
        if text(item, "key").is_empty() {
            errors.push(FieldError::required(format!("{at}.key"), ""));
        }
        path(item, &at, errors);
        mode(item, "mode", &at, errors);
    }
}

/// The files that fields of the pod become.
fn fields(source: &Value, at: &str, errors: &mut Vec<FieldError>) {
    for (index, item) in list(source, "items").iter().enumerate() {
        let at = format!("{at}.items[{index}]");
        path(item, &at, errors);
        mode(item, "mode", &at, errors);
        let (field, resource) = (&item["fieldRef"], &item["resourceFieldRef"]);
        match (field.is_object(), resource.is_object()) {
            (true, false) => {
                environment::field(field, &FIELDS, &format!("{at}.fieldRef"), errors);
            }
            (false, true) => {
                environment::resource(resource, true, &format!("{at}.resourceFieldRef"), errors);
            }
            (true, true) => {
                let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
                errors.push(FieldError::invalid(at, &"resource".into(), detail));
            }
            (false, false) => {
                let detail = "one of fieldRef and resourceFieldRef is required";
                errors.push(FieldError::required(at, detail));
            }
        }
    }
}

/// The path of a file in a volume. What begins with two dots is the node's own.
fn path(item: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let (path, at) = (text(item, "path"), format!("{at}.path"));
    if path.is_empty() {
        errors.push(FieldError::required(at, ""));
        return;
    }
    let reserved = path.starts_with("..").then_some("must not start with '..'");
    problem(path_problem(path).or(reserved), &item["path"], &at, errors);
}

/// What is wrong with a path that leads downwards from where it begins.
pub(super) fn path_problem(path: &str) -> Option<&'static str> {
    if path.starts_with('/') {
        return Some("must be a relative path");
    }
    let climbs = path.split('/').any(|step| step == "..");
    climbs.then_some("must not contain '..'")
}

fn mode(of: &Value, field: &str, at: &str, errors: &mut Vec<FieldError>) {
    let mode = &of[field];
    if mode
        .as_i64()
        .is_some_and(|mode| !(0..=0o777).contains(&mode))
    {
        let detail = "must be a number between 0 and 0777 (octal), both inclusive";
        errors.push(FieldError::invalid(format!("{at}.{field}"), mode, detail));
    }
}

/// The name of a container or a volume.
pub(super) fn name(value: &Value, at: &str, errors: &mut Vec<FieldError>) {
    match value.as_str().unwrap_or_default() {
        "" => errors.push(FieldError::required(at, "")),
        text => problem(names::label_problem(text), value, at, errors),
    }
}
