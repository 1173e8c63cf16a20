//! JSON in which a field may come twice: the last one counts, and each is named.

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Nobody reads more, and whoever sends a body of nothing else must not fill the memory.
const NAMED_MAX: usize = 32;
const NAME_MAX: usize = 200;

/// The value, and the paths of the fields that came again.
pub(super) fn parse(body: &[u8]) -> serde_json::Result<(Value, Vec<String>)> {
    let repeats = RefCell::new(Vec::new());
    let seed = Place {
        path: &Path::Root,
        repeats: &repeats,
    };
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let value = seed.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok((value, repeats.into_inner()))
}

/// Where a value stands; only written out where a field comes again.
enum Path<'a> {
    Root,
    Field(&'a Self, &'a str),
    Index(&'a Self, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Self::Root, name) => formatter.write_str(name),
            Self::Field(parent, name) => write!(formatter, "{parent}.{name}"),
            Self::Index(parent, index) => write!(formatter, "{parent}[{index}]"),
        }
    }
}

#[derive(Clone, Copy)]
struct Place<'a> {
    path: &'a Path<'a>,
    repeats: &'a RefCell<Vec<String>>,
}

impl<'de> DeserializeSeed<'de> for Place<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Place<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        loop {
            let path = Path::Index(self.path, all.len());
            let item = items.next_element_seed(Place {
                path: &path,
                ..self
            })?;
            match item {
                Some(item) => all.push(item),
                None => return Ok(Value::Array(all)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut all = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            let path = Path::Field(self.path, &name);
            let value = fields.next_value_seed(Place {
                path: &path,
                ..self
            })?;
            let mut repeats = self.repeats.borrow_mut();
            if all.contains_key(&name) && repeats.len() < NAMED_MAX {
                repeats.push(path.to_string().chars().take(NAME_MAX).collect());
            }
            all.insert(name, value);
        }
        Ok(Value::Object(all))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[rstest::rstest]
    #[case(r#"{"a": 1, "b": {"a": 2}}"#, &[])]
    #[case(r#"{"a": 1, "a": 2}"#, &["a"])]
    #[case(r#"{"spec": {"c": [{}, {"x": {"y": 1, "y": 1, "y": 3}}]}}"#, &["spec.c[1].x.y", "spec.c[1].x.y"])]
    #[case(r#"{"s": {"x": 1}, "s": {"y": 1, "y": 2}}"#, &["s.y", "s"])]
    fn fields_that_come_again_are_named_and_the_last_counts(
        #[case] text: &str,
        #[case] want: &[&str],
    ) {
        let (value, repeats) = parse(text.as_bytes()).unwrap();
        assert_eq!(repeats, want);
        assert_eq!(value, serde_json::from_str::<Value>(text).unwrap());
    }

    #[test]
    fn a_body_of_nothing_else_is_not_repeated_to_its_sender() {
        let name = "a".repeat(9999);
        let text = format!("{{{}\"b\": 1}}", format!("\"{name}\": 1,").repeat(99));
        let (_, repeats) = parse(text.as_bytes()).unwrap();
        assert_eq!(repeats, vec![&name[..NAME_MAX]; NAMED_MAX]);
    }

    proptest! {
        #[test]
        fn it_reads_what_the_ordinary_parser_reads(text in r#"[\[\]{}:,"ab0-9.eE\\ntrufals -]{0,40}"#) {
            let want = serde_json::from_str::<Value>(&text);
            let got = parse(text.as_bytes());
            prop_assert_eq!(got.map(|it| it.0).ok(), want.ok());
        }
    }
}
