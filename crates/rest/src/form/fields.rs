//! Reading a JSON object field by field, collecting every mistake instead of stopping at the first.
//!
//! Serde reports one error and stops; a person who filled in a form wants the whole list. So the
//! body arrives as a [`Value`] and each field is taken out by name and by type. What was never
//! taken out is unknown, and that is reported too: a misspelt optional field would otherwise be
//! lost in silence.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::model::{FieldError, Refusal};

/// A JSON object being read.
pub(crate) struct Fields<'body> {
    prefix: String,
    object: Option<&'body Map<String, Value>>,
    known: BTreeSet<&'static str>,
}

impl<'body> Fields<'body> {
    /// Starts reading `value`, which must be an object. `path` is where it stands in the body.
    pub(crate) fn new(path: &str, value: &'body Value, errors: &mut Vec<FieldError>) -> Self {
        let object = value.as_object();
        if object.is_none() {
            let at = if path.is_empty() { "body" } else { path };
            errors.push(FieldError::new(
                at,
                Refusal::Kind {
                    want: "an object",
                    got: kind_of(value),
                },
            ));
        }
        let prefix = if path.is_empty() {
            String::new()
        } else {
            format!("{path}.")
        };
        Self {
            prefix,
            object,
            known: BTreeSet::new(),
        }
    }

    /// The full path of a field, as it is named in errors.
    pub(crate) fn path(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Takes a field as it is. `null` counts as absent.
    pub(crate) fn take(&mut self, name: &'static str) -> Option<&'body Value> {
        self.known.insert(name);
        self.object?.get(name).filter(|value| !value.is_null())
    }

    pub(crate) fn text(
        &mut self,
        name: &'static str,
        errors: &mut Vec<FieldError>,
    ) -> Option<&'body str> {
        let value = self.take(name)?;
        let text = value.as_str();
        if text.is_none() {
            self.wrong_type(name, "a string", value, errors);
        }
        text
    }

    /// A string that must be there and not be blank.
    pub(crate) fn required_text(
        &mut self,
        name: &'static str,
        errors: &mut Vec<FieldError>,
    ) -> Option<&'body str> {
        self.required(name, errors)?;
        let text = self.text(name, errors)?;
        if text.trim().is_empty() {
            errors.push(FieldError::new(self.path(name), Refusal::Empty));
            return None;
        }
        Some(text)
    }

    pub(crate) fn integer(
        &mut self,
        name: &'static str,
        range: std::ops::RangeInclusive<i64>,
        errors: &mut Vec<FieldError>,
    ) -> Option<i64> {
        let value = self.take(name)?;
        let Some(number) = value.as_i64() else {
            self.wrong_type(name, "a whole number", value, errors);
            return None;
        };
        if !range.contains(&number) {
            let (low, high) = (*range.start(), *range.end());
            let refusal = Refusal::Between {
                low,
                high,
                value: number,
            };
            errors.push(FieldError::new(self.path(name), refusal));
            return None;
        }
        Some(number)
    }

    pub(crate) fn boolean(
        &mut self,
        name: &'static str,
        errors: &mut Vec<FieldError>,
    ) -> Option<bool> {
        let value = self.take(name)?;
        let flag = value.as_bool();
        if flag.is_none() {
            self.wrong_type(name, "true or false", value, errors);
        }
        flag
    }

    pub(crate) fn list(
        &mut self,
        name: &'static str,
        errors: &mut Vec<FieldError>,
    ) -> &'body [Value] {
        let Some(value) = self.take(name) else {
            return &[];
        };
        if let Some(items) = value.as_array() {
            return items;
        }
        self.wrong_type(name, "a list", value, errors);
        &[]
    }

    /// A number or a string, both as text: quantities are written either way.
    pub(crate) fn quantity_text(
        &mut self,
        name: &'static str,
        errors: &mut Vec<FieldError>,
    ) -> Option<String> {
        match self.take(name)? {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            other => {
                self.wrong_type(name, "a quantity such as \"4\" or \"16Gi\"", other, errors);
                None
            }
        }
    }

    /// Reports a missing field; returns `None` when it is missing.
    pub(crate) fn required(
        &mut self,
        name: &'static str,
        errors: &mut Vec<FieldError>,
    ) -> Option<()> {
        self.known.insert(name);
        let object = self.object?;
        if object.get(name).is_none_or(Value::is_null) {
            errors.push(FieldError::new(self.path(name), Refusal::Required));
            return None;
        }
        Some(())
    }

    /// Reports every field that nobody asked for, with the nearest known name.
    pub(crate) fn finish(self, errors: &mut Vec<FieldError>) {
        let Some(object) = self.object else { return };
        for name in object
            .keys()
            .filter(|name| !self.known.contains(name.as_str()))
        {
            let message = match nearest(name, &self.known) {
                Some(known) => format!("unknown field; did you mean {known}?"),
                None => "unknown field".to_owned(),
            };
            errors.push(FieldError::new(self.path(name), message));
        }
    }

    fn wrong_type(
        &self,
        name: &str,
        want: &'static str,
        got: &Value,
        errors: &mut Vec<FieldError>,
    ) {
        let got = kind_of(got);
        errors.push(FieldError::new(
            self.path(name),
            Refusal::Kind { want, got },
        ));
    }
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
fn nearest<'name>(unknown: &str, known: &BTreeSet<&'name str>) -> Option<&'name str> {
    if unknown.len() > 64 {
        return None;
    }
    known
        .iter()
        .map(|name| (distance(unknown, name), *name))
        .filter(|(distance, name)| *distance <= 2 && *distance < name.len())
        .min()
        .map(|(_, name)| name)
}

fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, from) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in right.iter().enumerate() {
            let substituted = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::exact_type(json!({"n": 3}), Some(3), &[])]
    #[case::string(json!({"n": "3"}), None, &["n must be a whole number, not a string"])]
    #[case::fraction(json!({"n": 1.5}), None, &["n must be a whole number, not a fraction"])]
    #[case::zero(json!({"n": 0}), None, &["n must be between 1 and 8, not 0"])]
    #[case::null_is_absent(json!({"n": null}), None, &[])]
    #[case::typo(json!({"node": 3}), None, &["node unknown field; did you mean nodes?"])]
    #[case::unknown(json!({"zebra": 3}), None, &["zebra unknown field"])]
    fn integers_are_read_strictly(
        #[case] body: Value,
        #[case] want: Option<i64>,
        #[case] want_errors: &[&str],
    ) {
        let mut errors = Vec::new();
        let mut fields = Fields::new("", &body, &mut errors);
        let got = fields.integer("n", 1..=8, &mut errors);
        fields.known.insert("nodes");
        fields.finish(&mut errors);
        assert_eq!(got, want);
        let got: Vec<String> = errors
            .iter()
            .map(|e| format!("{} {}", e.field, e.message))
            .collect();
        assert_eq!(got, want_errors);
    }

    #[test]
    fn a_body_that_is_no_object_is_one_error() {
        let (body, mut errors) = (json!([1]), Vec::new());
        let mut fields = Fields::new("", &body, &mut errors);
        assert!(fields.required_text("user_id", &mut errors).is_none());
        fields.finish(&mut errors);
        assert_eq!(errors.len(), 1);
        assert_eq!(errors[0].field, "body");
    }
}
