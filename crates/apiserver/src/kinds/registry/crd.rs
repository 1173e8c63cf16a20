//! CustomResourceDefinitions: what is wrong with one, when it is established, and the kinds it makes.

use std::sync::{Arc, OnceLock};

use serde::Deserialize;
use serde_json::{Value, json};

use super::definitions;
use super::kind::{Custom, Kind, Scale, Subresource, resource};
use crate::kinds::schema::{FieldError, Reason, Structural};
use crate::kinds::table::{self, Columns};
use crate::kinds::{metadata, strategy};
use crate::store::{Object, Store};
use crate::tasks::gc;
use crate::verbs::call::Call;

const VERBS: [&str; 8] = [
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "create",
    "update",
    "watch",
];

/// The kinds of all served versions of an established definition.
pub(super) fn kinds(object: &Arc<Object>) -> Vec<Kind> {
    let definition = &object.value();
    let established =
        condition(definition, "Established").is_some_and(|one| one["status"] == "True");
    if !established {
        return Vec::new();
    }
    let spec = &definition["spec"];
    let mut versions = spec["versions"].as_array().into_iter().flatten();
    let storage = versions.clone().find(|version| version["storage"] == true);
    let storage = storage
        .and_then(|version| version["name"].as_str())
        .unwrap_or_default();
    let served = versions
        .by_ref()
        .filter(|version| version["served"] == true);
    let terminating = metadata::is_terminating(definition);
    served
        .map(|version| kind(object, spec, version, storage))
        .map(|kind| Kind {
            terminating,
            ..kind
        })
        .collect()
}

fn kind(object: &Arc<Object>, spec: &Value, version: &Value, storage: &str) -> Kind {
    let names = &spec["names"];
    let (group, plural, name) = (
        text(&spec["group"]),
        text(&names["plural"]),
        text(&version["name"]),
    );
    let kind_name = text(&names["kind"]);
    let api_version = format!("{group}/{name}");
    let declared = &version["subresources"];
    let mut subresources = Vec::new();
    let mut subresource = |sub: &str, group: &str, version: &str, kind: &str| {
        subresources.push(Subresource {
            name: sub.to_owned(),
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            verbs: ["get", "patch", "update"].map(str::to_owned).to_vec(),
        });
    };
    if declared["status"].is_object() {
        subresource("status", &group, &name, &kind_name);
    }
    if declared["scale"].is_object() {
        subresource("scale", "autoscaling", "v1", "Scale");
    }
    let list_kind = names["listKind"]
        .as_str()
        .map_or(format!("{kind_name}List"), str::to_owned);
    let singular = names["singular"].as_str().filter(|one| !one.is_empty());
    // A column that cannot be read is refused with the definition.
    let columns = Columns::custom(&version["additionalPrinterColumns"])
        .unwrap_or_else(|_| Columns::builtin(&table::PLAIN));
    Kind {
        resource: resource(&group, &plural),
        storage_api_version: format!("{group}/{storage}"),
        group: group.into(),
        list_kind,
        singular: singular.map_or(kind_name.to_lowercase(), str::to_owned),
        columns,
        custom: Some(Box::new(Custom {
            is_alone: spec["versions"]
                .as_array()
                .is_some_and(|all| all.len() == 1),
            ..custom(object, version, &api_version, &kind_name)
        })),
        version: name.into(),
        kind: kind_name.into(),
        plural: plural.into(),
        short_names: texts(&names["shortNames"]),
        categories: texts(&names["categories"]),
        namespaced: spec["scope"] == "Namespaced",
        verbs: VERBS.map(str::to_owned).to_vec(),
        subresources,
        api_version,
        builtin: None,
        strategy: &strategy::CUSTOM,
        terminating: false,
    }
}

fn custom(object: &Arc<Object>, version: &Value, api_version: &str, kind: &str) -> Custom {
    let scale = &version["subresources"]["scale"];
    let selectable = version["selectableFields"].as_array().into_iter().flatten();
    Custom {
        definition: Arc::clone(object),
        version: text(&version["name"]),
        is_alone: false,
        structural: OnceLock::new(),
        keys: OnceLock::new(),
        scale: scale.is_object().then(|| Scale {
            spec_replicas: text(&scale["specReplicasPath"]),
            status_replicas: text(&scale["statusReplicasPath"]),
            label_selector: scale["labelSelectorPath"].as_str().map(str::to_owned),
        }),
        selectable_fields: selectable
            .filter_map(|one| Some(one["jsonPath"].as_str()?.trim_start_matches('.').to_owned()))
            .collect(),
        deprecation: (version["deprecated"] == true).then(|| {
            let warning = version["deprecationWarning"].as_str();
            warning.map_or_else(
                || format!("{api_version} {kind} is deprecated"),
                str::to_owned,
            )
        }),
    }
}

/// Fills the parts of a definition that Kubernetes defaults.
pub(crate) fn default(definition: &mut Value) {
    let spec = &mut definition["spec"];
    let kind = text(&spec["names"]["kind"]);
    if let Some(names) = spec["names"].as_object_mut() {
        for (field, value) in [
            ("listKind", format!("{kind}List")),
            ("singular", kind.to_lowercase()),
        ] {
            if names
                .get(field)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .is_empty()
            {
                names.insert(field.to_owned(), value.into());
            }
        }
    }
    if let Some(spec) = spec.as_object_mut() {
        spec.entry("conversion")
            .or_insert_with(|| json!({ "strategy": "None" }));
    }
}

/// Everything that is wrong with a definition.
pub(crate) fn validate(definition: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let spec = &definition["spec"];
    for path in ["/group", "/scope", "/names/plural", "/names/kind"] {
        let value = spec.pointer(path).and_then(Value::as_str);
        if value.unwrap_or_default().is_empty() {
            errors.push(FieldError::required(
                format!("spec{}", path.replace('/', ".")),
                "",
            ));
        }
    }
    if !matches!(
        spec["scope"].as_str(),
        None | Some("" | "Namespaced" | "Cluster")
    ) {
        let scope = &spec["scope"];
        errors.push(FieldError::not_supported(
            "spec.scope",
            scope,
            ["Cluster", "Namespaced"],
        ));
    }
    let want = format!(
        "{}.{}",
        text(&spec["names"]["plural"]),
        text(&spec["group"])
    );
    let name = &definition["metadata"]["name"];
    if name.as_str() != Some(&want) {
        let detail = "must be spec.names.plural+\".\"+spec.group";
        errors.push(FieldError::invalid("metadata.name", name, detail));
    }
    if !matches!(spec["conversion"]["strategy"].as_str(), None | Some("None")) {
        let strategy = &spec["conversion"]["strategy"];
        errors.push(FieldError::not_supported(
            "spec.conversion.strategy",
            strategy,
            ["None"],
        ));
    }
    validate_versions(&spec["versions"], errors);
    for path in ["/group", "/scope", "/names/kind", "/names/plural"] {
        let (new, old) = (
            spec.pointer(path),
            old.and_then(|old| old["spec"].pointer(path)),
        );
        if let (Some(new), Some(old)) = (new, old)
            && new != old
        {
            let field = format!("spec{}", path.replace('/', "."));
            errors.push(FieldError::invalid(field, new, "field is immutable"));
        }
    }
}

fn validate_versions(versions: &Value, errors: &mut Vec<FieldError>) {
    let list = versions.as_array().map(Vec::as_slice).unwrap_or_default();
    if list
        .iter()
        .filter(|version| version["storage"] == true)
        .count()
        != 1
    {
        let detail = "must have exactly one version marked as storage version";
        let names = list.iter().map(|version| version["name"].clone()).collect();
        errors.push(FieldError::invalid("spec.versions", &names, detail));
    }
    let mut seen = std::collections::HashSet::new();
    for (index, version) in list.iter().enumerate() {
        let at = format!("spec.versions[{index}]");
        match version["name"].as_str() {
            None | Some("") => errors.push(FieldError::required(format!("{at}.name"), "")),
            Some(name) if !seen.insert(name) => {
                errors.push(FieldError::duplicate(
                    format!("{at}.name"),
                    &version["name"],
                ));
            }
            Some(_) => {}
        }
        if let Err(error) = Columns::custom(&version["additionalPrinterColumns"]) {
            let field = format!("{at}.additionalPrinterColumns");
            errors.push(FieldError::new(
                field,
                Reason::Invalid,
                format!("Invalid value: {error}"),
            ));
        }
        if !version["schema"]["openAPIV3Schema"].is_object() {
            let field = format!("{at}.schema.openAPIV3Schema");
            errors.push(FieldError::required(field, "schemas are required"));
        } else if let Err(error) = Structural::compile(&version["schema"]["openAPIV3Schema"]) {
            let field = format!("{at}.schema.openAPIV3Schema");
            let body = format!("Invalid value: {error}");
            errors.push(FieldError::new(field, Reason::Invalid, body));
        }
    }
}

/// The names that the group's other definitions have. Only they are read: with their schemas, a new definition would
/// cost as much as all definitions before it together.
fn accepted_names(store: &Store, definition: &Value) -> Vec<Value> {
    #[derive(Deserialize)]
    struct Other {
        #[serde(default)]
        status: Status,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Status {
        #[serde(default)]
        accepted_names: Value,
    }
    let group = definition["spec"]["group"].as_str();
    let others = definitions(store).into_iter().filter(|other| {
        let name = &*other.name.name;
        let of = name.split_once('.').map(|(_, group)| group);
        of == group && definition["metadata"]["name"] != name
    });
    others
        .filter_map(|other| serde_json::from_slice(&other.json).ok())
        .map(|other: Other| other.status.accepted_names)
        .collect()
}

/// A new definition has no status but ours, and only a change of the definition itself is looked at.
pub(crate) fn finish(call: &Call, definition: &mut Value, old: Option<&Value>) {
    if let (None, Some(fields)) = (old, definition.as_object_mut()) {
        fields.remove("status");
    }
    if call.path.subresource.is_empty() {
        establish(definition, &call.core.store, &call.core.now());
    }
}

/// Keeps a deleted definition until its objects are gone.
pub(crate) fn finalizer(store: &Store, definition: &Value) -> Option<&'static str> {
    (store.count(metadata::text(definition, "name")) > 0).then_some(gc::CUSTOM_RESOURCES)
}

/// Accepts the names unless another definition of the group has them, and writes the status.
fn establish(definition: &mut Value, store: &Store, now: &str) {
    let names = definition["spec"]["names"].clone();
    let taken = accepted_names(store, definition)
        .iter()
        .find_map(|theirs| clash(&names, theirs));
    let (accepted, reason, message) = match &taken {
        None => ("True", "NoConflicts", "no conflicts found".to_owned()),
        Some(clash) => (
            "False",
            "NameConflict",
            format!("{clash:?} is already in use"),
        ),
    };
    let (why, explanation) = match &taken {
        None => (
            "InitialNamesAccepted",
            "the initial names have been accepted",
        ),
        Some(_) => ("NotAccepted", "not all names are accepted"),
    };
    let conditions: Vec<Value> = [
        ("NamesAccepted", reason, message),
        ("Established", why, explanation.to_owned()),
    ]
    .into_iter()
    .map(|(kind, reason, message)| {
        let since = condition(definition, kind)
            .filter(|old| old["status"] == accepted)
            .map_or_else(|| json!(now), |old| old["lastTransitionTime"].clone());
        json!({
            "type": kind, "status": accepted, "reason": reason, "message": message,
            "lastTransitionTime": since,
        })
    })
    .collect();
    let mut stored: Vec<Value> = definition["status"]["storedVersions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let versions = definition["spec"]["versions"].as_array();
    let versions = versions.into_iter().flatten();
    for version in versions.filter(|version| version["storage"] == true) {
        if !stored.contains(&version["name"]) {
            stored.push(version["name"].clone());
        }
    }
    let names = if taken.is_none() {
        names
    } else {
        json!({ "plural": "", "kind": "" })
    };
    definition["status"] =
        json!({ "conditions": conditions, "acceptedNames": names, "storedVersions": stored });
}

/// The first name that both have.
fn clash(names: &Value, accepted: &Value) -> Option<String> {
    let resources = |names: &Value| -> Vec<String> {
        let mut found = texts(&names["shortNames"]);
        found.extend([text(&names["plural"]), text(&names["singular"])]);
        found.retain(|name| !name.is_empty());
        found
    };
    let kinds = |names: &Value| [text(&names["kind"]), text(&names["listKind"])];
    let (theirs, their_kinds) = (resources(accepted), kinds(accepted));
    let resource = resources(names)
        .into_iter()
        .find(|name| theirs.contains(name));
    let kind = || {
        kinds(names)
            .into_iter()
            .find(|name| !name.is_empty() && their_kinds.contains(name))
    };
    resource.or_else(kind)
}

fn condition<'a>(definition: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = definition["status"]["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == kind)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(text).collect()
}
