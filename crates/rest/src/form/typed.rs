//! From a JSON body to a typed request, with every mistake that is in it.
//!
//! Serde stops at the first mistake; a person who filled in a form wants the whole list. So the body is held against
//! the OpenAPI schema of the request first. What has the wrong type is reported and left out, so are fields that
//! nobody knows (a misspelt optional field would otherwise be lost in silence), and serde reads the rest.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};
use utoipa::openapi::schema::{AdditionalProperties, Object, SchemaFormat, SchemaType, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema as _, ToSchema as _};

use crate::model::{CreateRequest, FieldError, Refusal};

/// What is wrong with a request: at most one thing for each field.
#[derive(Default)]
pub(crate) struct Mistakes(Vec<FieldError>);

/// A request can have a million mistakes; nobody reads more than these.
const MOST: usize = 100;

impl Mistakes {
    pub(crate) fn push(&mut self, field: impl Into<String>, refusal: impl Into<Refusal>) {
        let field = field.into();
        if !self.is_full() && !self.has(&field) {
            self.0.push(FieldError::new(field, refusal));
        }
    }

    pub(crate) fn has(&self, field: &str) -> bool {
        self.0.iter().any(|error| error.field == field)
    }

    fn is_full(&self) -> bool {
        self.0.len() >= MOST
    }

    /// Notes a refusal at its field; passes on what was not refused.
    pub(crate) fn check<T>(
        &mut self,
        field: impl Into<String>,
        result: Result<T, impl Into<Refusal>>,
    ) -> Option<T> {
        result.map_err(|refusal| self.push(field, refusal)).ok()
    }

    /// All of them, in the order of the request's fields.
    pub(crate) fn into_errors(mut self) -> Vec<FieldError> {
        let known = object_of(&SCHEMAS[0].1);
        self.0.sort_by_key(|error| {
            let first = error.field.split(['.', '[']).next();
            let place = known.and_then(|known| known.properties.get_index_of(first?));
            place.unwrap_or(usize::MAX)
        });
        self.0
    }
}

/// The request's schema, and those that it refers to by name.
static SCHEMAS: LazyLock<Vec<(String, RefOr<Schema>)>> = LazyLock::new(|| {
    let mut schemas = vec![(CreateRequest::name().into_owned(), CreateRequest::schema())];
    CreateRequest::schemas(&mut schemas);
    schemas
});

/// The request that a body stands for, as far as it has the right types; `None` if it is no object at all.
pub(crate) fn read(body: &Value, mistakes: &mut Mistakes) -> Option<CreateRequest> {
    let typed = typed(&SCHEMAS[0].1, "", body, mistakes)?;
    let request = serde_json::from_value(typed);
    mistakes.check("body", request.map_err(|error| error.to_string()))
}

/// The part of `value` that agrees with its schema.
fn typed(
    schema: &RefOr<Schema>,
    at: &str,
    value: &Value,
    mistakes: &mut Mistakes,
) -> Option<Value> {
    let refuse = |want: &'static str, mistakes: &mut Mistakes| {
        let field = if at.is_empty() { "body" } else { at };
        let got = kind_of(value);
        mistakes.push(field, Refusal::Kind { want, got });
        None
    };
    if let RefOr::T(Schema::Array(list)) = schema {
        let Some(items) = value.as_array() else {
            return refuse("a list", mistakes);
        };
        let utoipa::openapi::schema::ArrayItems::RefOrSchema(item) = &list.items else {
            return Some(value.clone());
        };
        let items = items.iter().enumerate().map(|(index, value)| {
            let read = typed(item, &format!("{at}[{index}]"), value, mistakes);
            // An empty one in its place, so that those after it keep their number.
            read.unwrap_or_else(|| stand_in(item))
        });
        return Some(items.collect());
    }
    let object = object_of(schema)?;
    match (kind(object), value) {
        (Type::Object, Value::Object(fields)) => Some(fields_of(object, at, fields, mistakes)),
        (Type::Object, _) => refuse("an object", mistakes),
        (Type::Boolean, Value::Bool(_)) => Some(value.clone()),
        (Type::Boolean, _) => refuse("true or false", mistakes),
        (Type::Integer, _) => match (value.as_i64(), bounds(object)) {
            (None, _) => refuse("a whole number", mistakes),
            (Some(value), Some((low, high))) if !(low..=high).contains(&value) => {
                mistakes.push(at, Refusal::Between { low, high, value });
                None
            }
            _ => Some(value.clone()),
        },
        (_, Value::String(_)) => Some(value.clone()),
        _ => match (format(object), value) {
            ("quantity" | "scalar", Value::Number(number)) => Some(json!(number.to_string())),
            ("scalar", Value::Bool(flag)) => Some(json!(flag.to_string())),
            ("quantity", _) => refuse("a quantity such as \"4\" or \"16Gi\"", mistakes),
            _ => refuse("a string", mistakes),
        },
    }
}

fn fields_of(
    object: &Object,
    at: &str,
    fields: &Map<String, Value>,
    mistakes: &mut Mistakes,
) -> Value {
    let path = |name: &str| match at {
        "" => name.to_owned(),
        at => format!("{at}.{name}"),
    };
    let mut read = Map::new();
    if let Some(AdditionalProperties::RefOr(schema)) = object.additional_properties.as_deref() {
        for (name, value) in fields {
            let value = typed(schema, &path(name), value, mistakes);
            read.extend(value.map(|value| (name.clone(), value)));
        }
        return Value::Object(read);
    }
    for (name, schema) in &object.properties {
        let required = object.required.contains(name);
        // `null` counts as absent.
        let value = match fields.get(name).filter(|value| !value.is_null()) {
            Some(Value::String(text)) if required && text.trim().is_empty() => {
                mistakes.push(path(name), Refusal::Empty);
                None
            }
            Some(value) => typed(schema, &path(name), value, mistakes),
            None if required => {
                mistakes.push(path(name), Refusal::Required);
                None
            }
            None => None,
        };
        let value = value.or_else(|| required.then(|| stand_in(schema)));
        read.extend(value.map(|value| (name.clone(), value)));
    }
    for name in fields
        .keys()
        .filter(|name| !object.properties.contains_key(*name))
    {
        if mistakes.is_full() {
            break;
        }
        let message = match nearest(name, object.properties.keys()) {
            Some(known) => format!("unknown field; did you mean {known}?"),
            None => "unknown field".to_owned(),
        };
        mistakes.push(path(name), message);
    }
    Value::Object(read)
}

/// What stands for a value that is needed and was refused, so that the rest can be checked.
fn stand_in(schema: &RefOr<Schema>) -> Value {
    match object_of(schema).map(|object| (kind(object), object)) {
        Some((Type::Object, object)) => {
            let required = object.required.iter();
            let fields = required
                .filter_map(|name| Some((name.clone(), stand_in(object.properties.get(name)?))));
            Value::Object(fields.collect())
        }
        Some((Type::Integer, _)) => json!(1),
        _ => json!(""),
    }
}

/// The schema behind references, and without the `null` that an optional one may be.
fn object_of(schema: &RefOr<Schema>) -> Option<&Object> {
    match schema {
        RefOr::Ref(reference) => {
            let name = reference.ref_location.rsplit('/').next()?;
            object_of(&SCHEMAS.iter().find(|(known, _)| known == name)?.1)
        }
        RefOr::T(Schema::Object(object)) => Some(object),
        RefOr::T(Schema::OneOf(choices)) => {
            let mut choices = choices.items.iter().filter_map(object_of);
            choices.find(|object| kind(object) != Type::Null)
        }
        RefOr::T(_) => None,
    }
}

fn kind(object: &Object) -> Type {
    match &object.schema_type {
        SchemaType::Type(kind) => kind.clone(),
        SchemaType::Array(kinds) => {
            let mut kinds = kinds.iter().filter(|kind| **kind != Type::Null);
            kinds.next().cloned().unwrap_or(Type::Null)
        }
        SchemaType::AnyValue => Type::Null,
    }
}

fn format(object: &Object) -> &str {
    match &object.format {
        Some(SchemaFormat::Custom(format)) => format,
        _ => "",
    }
}

fn bounds(object: &Object) -> Option<(i64, i64)> {
    let bound = |bound: &Option<utoipa::Number>| serde_json::to_value(bound).ok()?.as_i64();
    Some((bound(&object.minimum)?, bound(&object.maximum)?))
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(number) if number.is_f64() => "a fraction",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// The known name at an edit distance of at most two, for a "did you mean".
fn nearest<'name>(
    unknown: &str,
    known: impl Iterator<Item = &'name String>,
) -> Option<&'name String> {
    if unknown.len() > 64 {
        return None;
    }
    known
        .map(|name| (strsim::levenshtein(unknown, name), name))
        .filter(|(distance, name)| *distance <= 2 && *distance < name.len())
        .min()
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::exact_type(json!({"gpu_count": 3}), Some(3), &[])]
    #[case::string(json!({"gpu_count": "3"}), None, &["gpu_count must be a whole number, not a string"])]
    #[case::fraction(json!({"gpu_count": 1.5}), None, &["gpu_count must be a whole number, not a fraction"])]
    #[case::too_low(json!({"gpu_count": -1}), None, &["gpu_count must be between 0 and 1024, not -1"])]
    #[case::null_is_absent(json!({"gpu_count": null}), None, &[])]
    #[case::typo(json!({"gpu_counts": 3}), None, &["gpu_counts unknown field; did you mean gpu_count?"])]
    #[case::unknown(json!({"zebra": 3}), None, &["zebra unknown field"])]
    #[case::in_a_list(
        json!({"env_vars": [{"name": 1}, 2]}),
        None,
        &["env_vars[0].name must be a string, not a number", "env_vars[1] must be an object, not a number"]
    )]
    #[case::in_a_map(
        json!({"node_selector": {"zone": 1}}),
        None,
        &["node_selector.zone must be a string, not a number"]
    )]
    fn fields_are_read_strictly(
        #[case] mut body: Value,
        #[case] want: Option<i64>,
        #[case] want_errors: &[&str],
    ) {
        for required in ["user_id", "namespace", "framework"] {
            body[required] = json!("x");
        }
        let mut mistakes = Mistakes::default();
        let request = read(&body, &mut mistakes).unwrap();
        assert_eq!(request.gpu_count, want);
        let errors = mistakes.into_errors();
        let got: Vec<String> = errors
            .iter()
            .map(|error| format!("{} {}", error.field, error.message))
            .collect();
        assert_eq!(got, want_errors);
    }

    #[test]
    fn a_body_that_is_no_object_is_one_error() {
        let mut mistakes = Mistakes::default();
        assert!(read(&json!([1]), &mut mistakes).is_none());
        let errors = mistakes.into_errors();
        assert_eq!(errors.len(), 1);
        assert_eq!(errors[0].field, "body");
    }
}
