//! In which line of a YAML file a field stands, so that an error can point at it.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use super::{Error, all_from_str};

/// The lines of the fields of one document.
#[derive(Debug)]
pub struct Lines {
    line: u64,
    inside: Inside,
}

#[derive(Debug)]
enum Inside {
    Fields(Vec<(String, Lines)>),
    Items(Vec<Lines>),
    Nothing,
}

impl Lines {
    /// The lines of every document of a file.
    pub fn of(text: &str) -> Result<Vec<Self>, Error> {
        all_from_str(text)
    }

    /// The line of the field at a path such as `spec.containers[0].name` or
    /// `metadata.annotations[a.b/c]`, or of the nearest field around it that is there.
    pub fn line(&self, path: &str) -> u64 {
        let mut here = self;
        for step in steps(path) {
            let next = match &here.inside {
                Inside::Fields(fields) => fields
                    .iter()
                    .find(|(name, _)| name == step)
                    .map(|(_, inside)| inside),
                Inside::Items(items) => step.parse().ok().and_then(|i: usize| items.get(i)),
                Inside::Nothing => None,
            };
            match next {
                Some(next) => here = next,
                None => break,
            }
        }
        here.line
    }
}

/// The parts of a path; what stands in brackets is one part, dots and all.
fn steps(path: &str) -> Vec<&str> {
    let mut steps = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('[') {
            let end = inner.find(']').unwrap_or(inner.len());
            steps.push(&inner[..end]);
            rest = inner.get(end + 1..).unwrap_or_default();
        } else {
            let rest_of_name = rest.strip_prefix('.').unwrap_or(rest);
            let end = rest_of_name.find(['.', '[']).unwrap_or(rest_of_name.len());
            steps.push(&rest_of_name[..end]);
            rest = &rest_of_name[end..];
        }
    }
    steps
}

impl<'de> Deserialize<'de> for Lines {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Inside>::deserialize(deserializer)?;
        Ok(Self {
            line: spanned.referenced.line(),
            inside: spanned.value,
        })
    }
}

impl<'de> Deserialize<'de> for Inside {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(InsideVisitor)
    }
}

struct InsideVisitor;

/// Scalars have nothing inside, whatever they are.
macro_rules! nothing_inside {
    ($($method:ident: $type:ty),*) => {
        $(fn $method<E>(self, _: $type) -> Result<Inside, E> {
            Ok(Inside::Nothing)
        })*
    };
}

impl<'de> Visitor<'de> for InsideVisitor {
    type Value = Inside;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any YAML")
    }

    nothing_inside!(
        visit_bool: bool, visit_i64: i64, visit_i128: i128, visit_u64: u64, visit_u128: u128,
        visit_f64: f64, visit_str: &str, visit_bytes: &[u8]
    );

    fn visit_unit<E>(self) -> Result<Inside, E> {
        Ok(Inside::Nothing)
    }

    fn visit_none<E>(self) -> Result<Inside, E> {
        Ok(Inside::Nothing)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Inside, D::Error> {
        Inside::deserialize(deserializer)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Inside, A::Error> {
        let mut fields = Vec::new();
        while let Some(entry) = map.next_entry::<String, Lines>()? {
            fields.push(entry);
        }
        Ok(Inside::Fields(fields))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Inside, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element::<Lines>()? {
            items.push(item);
        }
        Ok(Inside::Items(items))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const TEXT: &str = "\
kind: A
---
kind: TrainJob
metadata:
  annotations:
    astrago.io/max-restarts: ten
spec:
  list:
    - name: a
      value: 1
    - name: b
      value: [1, 2,
        3]
";

    #[rstest]
    #[case("kind", 3)]
    #[case("metadata.annotations[astrago.io/max-restarts]", 6)]
    #[case("spec.list[0].value", 10)]
    #[case("spec.list[1].name", 11)]
    #[case("spec.list[1].value[2]", 13)]
    #[case("spec.list[1].missing.deeper", 11)]
    fn a_path_has_the_line_of_the_field_or_of_what_is_around_it(
        #[case] path: &str,
        #[case] want: u64,
    ) {
        let lines = Lines::of(TEXT).unwrap();
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[1].line(path), want, "{path}");
    }
}
