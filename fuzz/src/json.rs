//! Any bytes as JSON, with the words that mean something to the code under test.

use arbitrary::{Result, Unstructured};
use serde_json::{Map, Value};

/// How deep a made value goes.
const DEPTH: usize = 6;

/// How deep it may lie at the bottom of others; together that is less than any object may have.
const BOTTOM: usize = 80;

/// A value whose keys and texts are mostly taken from `words`.
pub fn value(bytes: &mut Unstructured<'_>, words: &[&str]) -> Result<Value> {
    let mut value = nested(bytes, words, DEPTH)?;
    if bytes.ratio(1, 16)? {
        for _ in 0..bytes.int_in_range(0..=BOTTOM)? {
            value = if bytes.ratio(1, 4)? {
                Value::Array(vec![value])
            } else {
                Value::Object(Map::from_iter([(word(bytes, words)?, value)]))
            };
        }
    }
    Ok(value)
}

fn nested(bytes: &mut Unstructured<'_>, words: &[&str], depth: usize) -> Result<Value> {
    let choices = if depth == 0 { 5 } else { 8 };
    Ok(match bytes.int_in_range(0..=choices)? {
        0 => Value::Null,
        1 => Value::Bool(bytes.arbitrary()?),
        2 => Value::from(bytes.int_in_range(-2..=300_i64)?),
        3 => Value::from(bytes.arbitrary::<f64>()?),
        4 | 5 => Value::from(word(bytes, words)?),
        6 => {
            let count = bytes.int_in_range(0..=4)?;
            (0..count)
                .map(|_| nested(bytes, words, depth - 1))
                .collect::<Result<_>>()?
        }
        _ => {
            let mut map = Map::new();
            for _ in 0..bytes.int_in_range(0..=6)? {
                let key = word(bytes, words)?;
                map.insert(key, nested(bytes, words, depth - 1)?);
            }
            Value::Object(map)
        }
    })
}

fn word(bytes: &mut Unstructured<'_>, words: &[&str]) -> Result<String> {
    if bytes.ratio(15, 16)? {
        Ok((*bytes.choose(words)?).to_owned())
    } else {
        bytes.arbitrary()
    }
}
