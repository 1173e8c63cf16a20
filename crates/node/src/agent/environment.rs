//! A container's environment: literal values, references, and `$(NAME)` in values and arguments.

use k8s_openapi::api::core::v1::{Container, EnvVarSource};

use super::fields::{self, Facts};
use super::references::{Error, Kind, Objects, Result};

/// The variables of a container in the order in which they take effect, those of the image first.
pub(super) fn resolve(
    container: &Container,
    facts: &Facts<'_>,
    objects: &Objects,
    image: &[(String, String)],
) -> Result<Vec<(String, String)>> {
    let mut all = Variables::default();
    for (name, value) in image {
        all.set(name, value.clone());
    }
    for source in container.env_from.iter().flatten() {
        let prefix = source.prefix.as_deref().unwrap_or_default();
        let map = source.config_map_ref.as_ref();
        let secret = source.secret_ref.as_ref();
        let references = [
            map.map(|it| (Kind::ConfigMap, &it.name, it.optional)),
            secret.map(|it| (Kind::Secret, &it.name, it.optional)),
        ];
        for (kind, name, optional) in references.into_iter().flatten() {
            let data = objects.data(kind, name, optional.unwrap_or(false))?;
            for (key, bytes) in data.into_iter().flatten() {
                if let Ok(value) = String::from_utf8(bytes.clone()) {
                    all.set(&format!("{prefix}{key}"), value);
                }
            }
        }
    }
    for variable in container.env.iter().flatten() {
        let value = match (&variable.value, &variable.value_from) {
            (_, Some(source)) => from(source, container, facts, objects)?,
            (value, None) => Some(expand(value.as_deref().unwrap_or_default(), |name| {
                all.get(name)
            })),
        };
        if let Some(value) = value {
            all.set(&variable.name, value);
        }
    }
    Ok(all.0)
}

/// Replaces `$(NAME)` by the variable's value. `$$(NAME)` stands for itself with one dollar, and names
/// that are not known stay as they are.
pub(super) fn expand<'a>(text: &str, lookup: impl Fn(&str) -> Option<&'a str>) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        result.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            result.push('$');
            rest = after;
        } else if let Some((name, after)) = rest
            .strip_prefix('(')
            .and_then(|inner| inner.split_once(')'))
        {
            if let Some(value) = lookup(name) {
                result.push_str(value);
            } else {
                result.push_str("$(");
                result.push_str(name);
                result.push(')');
            }
            rest = after;
        } else {
            result.push('$');
        }
    }
    result.push_str(rest);
    result
}

/// Variables in order; a name that comes again replaces its value in place.
#[derive(Default)]
struct Variables(Vec<(String, String)>);

impl Variables {
    fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    fn set(&mut self, name: &str, value: String) {
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }
}

/// The value behind a reference; `None` for one that is optional and missing.
fn from(
    source: &EnvVarSource,
    container: &Container,
    facts: &Facts<'_>,
    objects: &Objects,
) -> Result<Option<String>> {
    if let Some(field) = &source.field_ref {
        return fields::field(facts, &field.field_path)
            .map(Some)
            .ok_or_else(|| Error::Field {
                path: field.field_path.clone(),
            });
    }
    if let Some(resource) = &source.resource_field_ref {
        return fields::resource(facts, container, resource)
            .map(Some)
            .ok_or_else(|| Error::Field {
                path: resource.resource.clone(),
            });
    }
    let map = source.config_map_key_ref.as_ref();
    let secret = source.secret_key_ref.as_ref();
    let reference = map
        .map(|it| (Kind::ConfigMap, &it.name, &it.key, it.optional))
        .or(secret.map(|it| (Kind::Secret, &it.name, &it.key, it.optional)));
    let Some((kind, name, key, optional)) = reference else {
        return Ok(None);
    };
    let optional = optional.unwrap_or(false);
    let data = objects.data(kind, name, optional)?;
    match data.and_then(|data| data.get(key)) {
        Some(bytes) => Ok(Some(String::from_utf8_lossy(bytes).into_owned())),
        None if optional => Ok(None),
        None => Err(Error::Key {
            kind,
            name: name.clone(),
            key: key.clone(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[rstest::rstest]
    #[case("$(A)/$(B)", "1/$(B)")]
    #[case("$$(A) $$ $", "$(A) $ $")]
    #[case("$(A", "$(A")]
    #[case("$A ${A}", "$A ${A}")]
    #[case("é$(A)é", "é1é")]
    fn names_in_parentheses_are_replaced(#[case] text: &str, #[case] want: &str) {
        assert_eq!(expand(text, |name| (name == "A").then_some("1")), want);
    }

    #[test]
    fn a_variable_sees_those_before_it() {
        let container: Container = serde_json::from_value(serde_json::json!({
            "name": "c",
            "env": [
                {"name": "A", "value": "1"},
                {"name": "B", "value": "$(A)-$(C)"},
                {"name": "C", "value": "3"},
                {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "PATH", "value": "/mine:$(PATH)"},
                {"name": "MISSING", "valueFrom": {"configMapKeyRef": {"name": "none", "key": "k", "optional": true}}},
            ],
        }))
        .unwrap();
        let mut pod = k8s_openapi::api::core::v1::Pod::default();
        pod.metadata.name = Some("p".into());
        let facts = Facts::for_tests(&pod);
        let image = [("PATH".to_owned(), "/bin".to_owned())];
        let got = resolve(&container, &facts, &Objects::default(), &image).unwrap();
        let want = [
            ("PATH", "/mine:/bin"),
            ("A", "1"),
            ("B", "1-$(C)"),
            ("C", "3"),
            ("NAME", "p"),
        ];
        assert_eq!(
            got,
            want.map(|(name, value)| (name.to_owned(), value.to_owned()))
        );
    }
}
