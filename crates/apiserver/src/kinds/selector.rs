//! Label and field selectors.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::status::{ApiError, Result};
use crate::store::Object;

/// The most that a selector may ask of each object: every object that is looked at is asked all of it. A set of values is
/// one question.
const MOST: usize = 100;

/// A parsed `labelSelector`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels(Vec<Requirement>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    Exists,
    Absent,
    Greater(i64),
    Less(i64),
}

impl Labels {
    pub fn parse(text: &str) -> Result<Self> {
        let mut parser = Parser { rest: text };
        let mut requirements = Vec::new();
        parser.blanks();
        while !parser.rest.is_empty() {
            if requirements.len() == MOST {
                return Err(too_many("label"));
            }
            requirements.push(parser.requirement().map_err(|problem| {
                ApiError::bad_request(format!(
                    "unable to parse label selector {text:?}: {problem}"
                ))
            })?);
            parser.blanks();
        }
        Ok(Self(requirements))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// From a `LabelSelector` object. What is not understood selects nothing.
    pub fn of(selector: &Value) -> Option<Self> {
        let mut requirements = Vec::new();
        for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
            requirements.push(Requirement {
                key: key.clone(),
                test: Test::In(BTreeSet::from([value.as_str()?.to_owned()])),
            });
        }
        for one in selector["matchExpressions"]
            .as_array()
            .into_iter()
            .flatten()
        {
            let values = one["values"].as_array().into_iter().flatten();
            let values = values.filter_map(|value| Some(value.as_str()?.to_owned()));
            requirements.push(Requirement {
                key: one["key"].as_str()?.to_owned(),
                test: match one["operator"].as_str()? {
                    "In" => Test::In(values.collect()),
                    "NotIn" => Test::NotIn(values.collect()),
                    "Exists" => Test::Exists,
                    "DoesNotExist" => Test::Absent,
                    _ => return None,
                },
            });
        }
        Some(Self(requirements))
    }

    pub fn matches(&self, object: &Object) -> bool {
        self.match_by(|key| object.label(key))
    }

    /// Whether the labels that `label` gives are selected.
    pub fn match_by<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.0.iter().all(|requirement| {
            let value = label(&requirement.key);
            match &requirement.test {
                Test::In(values) => value.is_some_and(|value| values.contains(value)),
                Test::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
                Test::Exists => value.is_some(),
                Test::Absent => value.is_none(),
                Test::Greater(bound) => integer(value).is_some_and(|value| value > *bound),
                Test::Less(bound) => integer(value).is_some_and(|value| value < *bound),
            }
        })
    }

    /// The pairs that every match carries, for the index.
    pub fn equalities(&self) -> Vec<(String, String)> {
        let single = |requirement: &Requirement| match &requirement.test {
            Test::In(values) if values.len() == 1 => {
                Some((requirement.key.clone(), values.first()?.clone()))
            }
            _ => None,
        };
        self.0.iter().filter_map(single).collect()
    }
}

fn integer(value: Option<&str>) -> Option<i64> {
    value?.parse().ok()
}

struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn requirement(&mut self) -> Result<Requirement, String> {
        let negated = self.take("!");
        let key = self.word();
        if key.is_empty() {
            return Err(format!("expected a label key before {:?}", self.rest));
        }
        valid_key(key)?;
        let key = key.to_owned();
        let test = if negated {
            Test::Absent
        } else if self.take("!=") {
            Test::NotIn(BTreeSet::from([self.value()?]))
        } else if self.take("==") || self.take("=") {
            Test::In(BTreeSet::from([self.value()?]))
        } else if self.take(">") {
            Test::Greater(self.bound()?)
        } else if self.take("<") {
            Test::Less(self.bound()?)
        } else {
            match self.word() {
                "in" => Test::In(self.values()?),
                "notin" => Test::NotIn(self.values()?),
                "" => Test::Exists,
                other => return Err(format!("unknown operator {other:?}")),
            }
        };
        if !self.take(",") && !self.rest.is_empty() {
            return Err(format!("expected a comma before {:?}", self.rest));
        }
        Ok(Requirement { key, test })
    }

    fn blanks(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn take(&mut self, token: &str) -> bool {
        self.blanks();
        let found = self.rest.strip_prefix(token);
        self.rest = found.unwrap_or(self.rest);
        found.is_some()
    }

    fn word(&mut self) -> &'a str {
        self.blanks();
        let end = self
            .rest
            .find(|c: char| !(c.is_alphanumeric() || "-_./".contains(c)))
            .unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    fn value(&mut self) -> Result<String, String> {
        let value = self.word();
        if value.len() > 63 {
            return Err("a label value has at most 63 characters".to_owned());
        }
        Ok(value.to_owned())
    }

    fn bound(&mut self) -> Result<i64, String> {
        let word = self.word();
        word.parse()
            .map_err(|_| format!("{word:?} is not an integer"))
    }

    fn values(&mut self) -> Result<BTreeSet<String>, String> {
        if !self.take("(") {
            return Err(format!(
                "expected a list in parentheses before {:?}",
                self.rest
            ));
        }
        let mut values = BTreeSet::new();
        loop {
            values.insert(self.value()?);
            if self.take(")") {
                return Ok(values);
            }
            if !self.take(",") {
                return Err(format!(
                    "expected a comma or a parenthesis before {:?}",
                    self.rest
                ));
            }
        }
    }
}

fn valid_key(key: &str) -> Result<(), String> {
    let name = key.rsplit_once('/').map_or(key, |(_, name)| name);
    let edges = name.starts_with(char::is_alphanumeric) && name.ends_with(char::is_alphanumeric);
    if key.matches('/').count() > 1 || name.len() > 63 || !edges {
        return Err(format!("{key:?} is not a valid label key"));
    }
    Ok(())
}

/// A parsed `fieldSelector`: fields that must, or must not, have a value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fields {
    pub equal: Vec<(String, String)>,
    pub unequal: Vec<(String, String)>,
}

impl Fields {
    /// Parses the selector and refuses fields that `supported` does not know.
    pub fn parse(text: &str, supported: impl Fn(&str) -> bool) -> Result<Self> {
        let mut found = Self::default();
        let terms = terms(text);
        if terms.len() > MOST {
            return Err(too_many("field"));
        }
        for term in terms {
            let (path, rest) = match (term.split_once("!="), term.split_once('=')) {
                (Some((path, value)), _) => (path, Err(value)),
                (None, Some((path, value))) => (path, Ok(value.strip_prefix('=').unwrap_or(value))),
                (None, None) => {
                    return Err(ApiError::bad_request(format!(
                        "invalid selector: {text:?}; can't understand {term:?}"
                    )));
                }
            };
            if !supported(path) {
                return Err(ApiError::bad_request(format!(
                    "field label not supported: {path}"
                )));
            }
            match rest {
                Ok(value) => found.equal.push((path.to_owned(), unescaped(value))),
                Err(value) => found.unequal.push((path.to_owned(), unescaped(value))),
            }
        }
        Ok(found)
    }

    pub fn is_empty(&self) -> bool {
        self.equal.is_empty() && self.unequal.is_empty()
    }

    /// The name that every match must have, which makes a list a look-up.
    pub fn name(&self) -> Option<&str> {
        let name = self.equal.iter().find(|(path, _)| path == "metadata.name");
        name.map(|(_, value)| value.as_str())
    }

    /// Whether the object has the wanted values; `value` reads a field, absent ones as "".
    pub fn matches(&self, value: impl Fn(&str) -> Option<Box<str>>) -> bool {
        let text = |path: &str| value(path).unwrap_or_default();
        self.equal
            .iter()
            .all(|(path, wanted)| *text(path) == **wanted)
            && self
                .unequal
                .iter()
                .all(|(path, unwanted)| *text(path) != **unwanted)
    }
}

fn too_many(what: &str) -> ApiError {
    ApiError::bad_request(format!("a {what} selector has at most {MOST} requirements"))
}

/// Splits at commas that are not escaped.
fn terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (at, c) in text.char_indices() {
        if c == ',' && !escaped {
            terms.push(&text[start..at]);
            start = at + 1;
        }
        escaped = c == '\\' && !escaped;
    }
    terms.push(&text[start..]);
    terms.retain(|term| !term.is_empty());
    terms
}

fn unescaped(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    let mut characters = value.chars();
    while let Some(c) = characters.next() {
        out.extend(if c == '\\' {
            characters.next()
        } else {
            Some(c)
        });
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::store::{Draft, Name};

    fn object(labels: &serde_json::Value) -> Object {
        let value = json!({ "metadata": { "labels": labels } });
        Draft::new("things", &value).finish(Name::new("n", "x"), 1)
    }

    #[rstest]
    #[case("a=1", true)]
    #[case("a==1,b", true)]
    #[case("a!=1", false)]
    #[case("!a", false)]
    #[case("!c", true)]
    #[case("c!=5", true)]
    #[case("a in (1, 2), b notin (x)", true)]
    #[case("a in (3)", false)]
    #[case("a>0", true)]
    #[case("a<1", false)]
    #[case("x.io/role=", true)]
    #[case("", true)]
    fn selects(#[case] selector: &str, #[case] want: bool) {
        let object = object(&json!({ "a": "1", "b": "y", "x.io/role": "" }));
        assert_eq!(Labels::parse(selector).unwrap().matches(&object), want);
    }

    #[rstest]
    #[case("a b")]
    #[case("a in 1")]
    #[case("=1")]
    #[case("a in (1")]
    #[case("a>x")]
    #[case("a/b/c=1")]
    fn refuses(#[case] selector: &str) {
        assert!(Labels::parse(selector).is_err());
    }

    #[test]
    fn fields_may_be_escaped_and_unknown_ones_are_refused() {
        let fields = Fields::parse(r"metadata.name=a\,b,status.phase!=Failed", |_| true).unwrap();
        assert_eq!(fields.name(), Some("a,b"));
        assert!(fields.matches(|path| (path == "metadata.name").then(|| "a,b".into())));
        let error = Fields::parse("spec.secret=1", |_| false).unwrap_err();
        assert_eq!(error.to_string(), "field label not supported: spec.secret");
    }

    #[test]
    fn a_selector_asks_only_so_much() {
        for (count, taken) in [(MOST, true), (MOST + 1, false), (30_000, false)] {
            let labels: Vec<String> = (0..count).map(|n| format!("!a{n}")).collect();
            assert_eq!(Labels::parse(&labels.join(",")).is_ok(), taken, "{count}");
            let fields: Vec<String> = (0..count).map(|n| format!("a!={n}")).collect();
            let fields = Fields::parse(&fields.join(","), |_| true);
            assert_eq!(fields.is_ok(), taken, "{count}");
        }
        let values: Vec<String> = (0..1000).map(|n| n.to_string()).collect();
        assert!(Labels::parse(&format!("a in ({})", values.join(","))).is_ok());
    }

    proptest! {
        #[test]
        fn no_selector_makes_it_panic(text in ".{0,60}") {
            let _ = Labels::parse(&text);
            let _ = Fields::parse(&text, |_| true);
        }
    }
}
