//! The part of Kubernetes' JSONPath that printer columns use: fields, quoted fields, indices and
//! slices (negative ones from the end), wildcards, and filters such as
//! `[?(@.type=="Complete")].status`.

use serde_json::Value;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct JsonPath(Vec<Step>);

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    Every,
    /// `[start:end]`; a single index is the slice of one.
    Slice(Option<i64>, Option<i64>),
    Index(i64),
    /// The items for which the comparison holds; without one, those that have the field.
    Filter(JsonPath, Option<(Operator, Value)>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    More,
    MoreOrEqual,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the JSON path {path:?} cannot be read at {rest:?}")]
pub(crate) struct Error {
    path: String,
    rest: String,
}

impl JsonPath {
    pub(super) fn parse(path: &str) -> Result<Self, Error> {
        let bare = path.trim();
        let bare = bare
            .strip_prefix('{')
            .and_then(|one| one.strip_suffix('}'))
            .unwrap_or(bare);
        let mut rest = bare.strip_prefix('$').unwrap_or(bare);
        let mut steps = Vec::new();
        while !rest.is_empty() {
            let (step, after) = step(rest).ok_or_else(|| Error {
                path: path.to_owned(),
                rest: rest.to_owned(),
            })?;
            steps.push(step);
            rest = after;
        }
        Ok(Self(steps))
    }

    pub(super) fn find<'a>(&self, root: &'a Value) -> Vec<&'a Value> {
        let mut found = vec![root];
        for step in &self.0 {
            found = found
                .into_iter()
                .flat_map(|value| step.take(value))
                .collect();
        }
        found
    }
}

impl Step {
    fn take<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
        match self {
            Self::Field(name) => value.get(name).into_iter().collect(),
            Self::Every => match value {
                Value::Object(map) => map.values().collect(),
                _ => list.iter().collect(),
            },
            Self::Index(index) => place(*index, list.len())
                .and_then(|at| list.get(at))
                .into_iter()
                .collect(),
            Self::Slice(start, end) => {
                let clamp = |index: i64| {
                    let length = i64::try_from(list.len()).unwrap_or(i64::MAX);
                    let index = if index < 0 { index + length } else { index };
                    usize::try_from(index.clamp(0, length)).unwrap_or(0)
                };
                let (start, end) = (start.map_or(0, clamp), end.map_or(list.len(), clamp));
                list.get(start..end).unwrap_or_default().iter().collect()
            }
            Self::Filter(path, comparison) => list
                .iter()
                .filter(|item| {
                    let found = path.find(item);
                    match (found.first(), comparison) {
                        (None, _) => false,
                        (Some(_), None) => true,
                        (Some(found), Some((operator, want))) => operator.holds(found, want),
                    }
                })
                .collect(),
        }
    }
}

impl Operator {
    fn holds(self, left: &Value, right: &Value) -> bool {
        use std::cmp::Ordering::{Greater, Less};
        let order = match (left, right) {
            (Value::Number(left), Value::Number(right)) => {
                left.as_f64().partial_cmp(&right.as_f64())
            }
            (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
            _ => None,
        };
        match self {
            Self::Equal => left == right,
            Self::NotEqual => left != right,
            Self::Less => order == Some(Less),
            Self::More => order == Some(Greater),
            Self::LessOrEqual => order.is_some_and(|order| order != Greater),
            Self::MoreOrEqual => order.is_some_and(|order| order != Less),
        }
    }
}

fn place(index: i64, length: usize) -> Option<usize> {
    let length = i64::try_from(length).ok()?;
    usize::try_from(if index < 0 { index + length } else { index }).ok()
}

fn step(text: &str) -> Option<(Step, &str)> {
    if let Some(inside) = text.strip_prefix('[') {
        let end = closing(inside)?;
        return Some((bracket(&inside[..end])?, &inside[end + 1..]));
    }
    let rest = text.strip_prefix('.').unwrap_or(text);
    if let Some(after) = rest.strip_prefix('*') {
        return Some((Step::Every, after));
    }
    if rest.starts_with('[') {
        return step(rest);
    }
    let (mut name, mut escaped, mut end) = (String::new(), false, rest.len());
    for (at, c) in rest.char_indices() {
        match c {
            _ if escaped => {
                name.push(c);
                escaped = false;
            }
            '\\' => escaped = true,
            '.' | '[' => {
                end = at;
                break;
            }
            _ => name.push(c),
        }
    }
    (!name.is_empty()).then(|| (Step::Field(name), &rest[end..]))
}

/// The place of the bracket that closes, past nested ones and quoted text.
fn closing(text: &str) -> Option<usize> {
    let (mut depth, mut quote) = (0, None);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), _) => quote = (c != open).then_some(open),
            (None, '\'' | '"') => quote = Some(c),
            (None, '[') => depth += 1,
            (None, ']') if depth == 0 => return Some(at),
            (None, ']') => depth -= 1,
            _ => {}
        }
    }
    None
}

fn bracket(inside: &str) -> Option<Step> {
    let inside = inside.trim();
    if inside == "*" {
        return Some(Step::Every);
    }
    if let Some(filter) = inside
        .strip_prefix("?(")
        .and_then(|text| text.strip_suffix(')'))
    {
        return self::filter(filter.trim());
    }
    if let Some(name) = quoted(inside) {
        return Some(Step::Field(name.to_owned()));
    }
    let number = |text: &str| match text.trim() {
        "" => Some(None),
        text => text.parse().ok().map(Some),
    };
    match inside.split_once(':') {
        Some((start, end)) => Some(Step::Slice(number(start)?, number(end)?)),
        None => Some(Step::Index(number(inside)??)),
    }
}

fn filter(text: &str) -> Option<Step> {
    const OPERATORS: [(&str, Operator); 6] = [
        ("==", Operator::Equal),
        ("!=", Operator::NotEqual),
        ("<=", Operator::LessOrEqual),
        (">=", Operator::MoreOrEqual),
        ("<", Operator::Less),
        (">", Operator::More),
    ];
    let path = |text: &str| JsonPath::parse(text.trim().strip_prefix('@')?).ok();
    for (sign, operator) in OPERATORS {
        if let Some((left, right)) = text.split_once(sign) {
            let right = right.trim();
            let value = match quoted(right) {
                Some(text) => Value::from(text),
                None => serde_json::from_str(right).ok()?,
            };
            return Some(Step::Filter(path(left)?, Some((operator, value))));
        }
    }
    Some(Step::Filter(path(text)?, None))
}

fn quoted(text: &str) -> Option<&str> {
    ['\'', '"']
        .into_iter()
        .find_map(|quote| text.strip_prefix(quote)?.strip_suffix(quote))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::json;

    use super::JsonPath;

    #[rstest]
    #[case(".spec.replicas", "3")]
    #[case("{.spec.replicas}", "3")]
    #[case(".status.conditions[-1:].type", "\"Complete\"")]
    #[case(".status.conditions[0].type", "\"Suspended\"")]
    #[case(".status.conditions[-1].type", "\"Complete\"")]
    #[case(".status.conditions[?(@.type==\"Complete\")].status", "\"True\"")]
    #[case(".status.conditions[?(@.type=='Complete')].status", "\"True\"")]
    #[case(".status.conditions[?(@.n>1)].type", "\"Complete\"")]
    #[case(".status.conditions[?(@.n)].n", "2")]
    #[case(".metadata.annotations.example\\.com/a", "\"b\"")]
    #[case(".metadata.annotations['example.com/a']", "\"b\"")]
    #[case(".status.conditions[*].type", "\"Suspended\",\"Complete\"")]
    #[case(".missing.field", "")]
    #[case(".status.conditions[7].type", "")]
    fn finds(#[case] path: &str, #[case] want: &str) {
        let object = json!({
            "metadata": {"annotations": {"example.com/a": "b"}},
            "spec": {"replicas": 3},
            "status": {"conditions": [
                {"type": "Suspended", "status": "False"},
                {"type": "Complete", "status": "True", "n": 2},
            ]},
        });
        let path = JsonPath::parse(path).unwrap();
        let found: Vec<_> = path.find(&object).iter().map(ToString::to_string).collect();
        assert_eq!(found.join(","), want);
    }

    #[rstest]
    #[case(".a[")]
    #[case(".a[x]")]
    #[case(".a[?(type==1)]")]
    #[case("..")]
    fn refuses(#[case] path: &str) {
        assert!(JsonPath::parse(path).is_err());
    }

    proptest! {
        #[test]
        fn any_path_is_refused_or_walked(path in "[.\\[\\]a-c*?@()='\"0-9:\\\\-]{0,16}") {
            if let Ok(path) = JsonPath::parse(&path) {
                path.find(&json!({"a": [{"b": 1}, {"c": [2]}]}));
            }
        }
    }
}
