//! How large and how deep an object may be, on every road into the store.
//!
//! Readers, writers, comparisons and even the end of a [`Value`] are recursive, so that nothing deeper than this may
//! ever exist; and what is stored must be read again by clients whose parsers have limits of their own (128 levels in
//! Rust), within a list and a watch's event.

use serde_json::Value;

/// Bytes of a request's body, as in Kubernetes.
pub const MAX_BODY: usize = 3 << 20;
/// Bytes of a stored object as JSON; etcd's limit is of the same order.
pub const MAX_SIZE: usize = 2 << 20;
/// Maps and lists within each other, the object itself included. Real objects have less than half of it.
pub const MAX_DEPTH: usize = 100;

/// What clients can still read in a list. An object that older programs stored may be deeper than [`MAX_DEPTH`].
pub const MAX_READABLE_DEPTH: usize = 120;

/// What an object has too much of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Exceeded {
    #[error("it is larger than {MAX_SIZE} bytes")]
    Size,
    #[error("it is nested deeper than {MAX_DEPTH} levels")]
    Depth,
}

/// Whether an object keeps within both limits.
pub fn check(value: &Value) -> Result<(), Exceeded> {
    spend(value, 0, &mut { MAX_SIZE })
}

/// About how long an object that keeps within the limits is as JSON.
pub fn weight(value: &Value) -> usize {
    let mut left = MAX_SIZE;
    let _ = spend(value, 0, &mut left);
    MAX_SIZE - left
}

/// Takes what a value at this depth weighs off the budget. Ends where a limit is met, so that it costs no more than
/// what is allowed.
pub(crate) fn spend(value: &Value, depth: usize, budget: &mut usize) -> Result<(), Exceeded> {
    let mut take = |bytes: usize| {
        *budget = budget.checked_sub(bytes).ok_or(Exceeded::Size)?;
        Ok(())
    };
    match value {
        Value::Null | Value::Bool(_) => take(4),
        Value::Number(_) => take(8),
        Value::String(text) => take(length(text)),
        Value::Array(list) => {
            take(2)?;
            let depth = deeper(depth)?;
            list.iter().try_for_each(|item| {
                spend(item, depth, budget)?;
                *budget = budget.checked_sub(1).ok_or(Exceeded::Size)?;
                Ok(())
            })
        }
        Value::Object(map) => {
            take(2)?;
            let depth = deeper(depth)?;
            map.iter().try_for_each(|(name, value)| {
                *budget = budget.checked_sub(length(name) + 2).ok_or(Exceeded::Size)?;
                spend(value, depth, budget)
            })
        }
    }
}

/// How deep a text of JSON goes, found without going there.
pub fn depth_of_json(json: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let (mut is_text, mut is_escaped) = (false, false);
    for byte in json {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            _ if is_text => {}
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

fn deeper(depth: usize) -> Result<usize, Exceeded> {
    if depth < MAX_DEPTH {
        Ok(depth + 1)
    } else {
        Err(Exceeded::Depth)
    }
}

/// The length of a text as JSON, escapes included.
fn length(text: &str) -> usize {
    let escapes = text.bytes().map(|byte| match byte {
        b'"' | b'\\' => 1,
        0..0x20 => 5,
        _ => 0,
    });
    text.len() + 2 + escapes.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    pub(crate) fn nested(levels: usize) -> Value {
        (1..levels).fold(json!({}), |inner, _| json!({ "a": inner }))
    }

    #[rstest]
    #[case::deepest(nested(MAX_DEPTH), Ok(()))]
    #[case::too_deep(nested(MAX_DEPTH + 1), Err(Exceeded::Depth))]
    #[case::list(json!([nested(MAX_DEPTH)]), Err(Exceeded::Depth))]
    #[case::large(json!({ "a": "x".repeat(MAX_SIZE - 100) }), Ok(()))]
    #[case::too_large(json!({ "a": "x".repeat(MAX_SIZE) }), Err(Exceeded::Size))]
    #[case::escaped(json!({ "a": "\u{1}".repeat(MAX_SIZE / 5) }), Err(Exceeded::Size))]
    #[case::many(json!(vec![1; MAX_SIZE / 8]), Err(Exceeded::Size))]
    fn objects_have_limits(#[case] value: Value, #[case] want: Result<(), Exceeded>) {
        assert_eq!(check(&value), want);
    }

    #[rstest]
    #[case("1", 0)]
    #[case("[{}, {\"a\": [1]}, \"[[[[\\\"[[\"]", 3)]
    fn the_depth_of_a_text_is_that_of_its_value(#[case] json: &str, #[case] want: usize) {
        assert_eq!(depth_of_json(json.as_bytes()), want);
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        assert_eq!(depth_of_json(deep.as_bytes()), 100_000);
    }

    #[test]
    fn the_weight_is_about_the_length() {
        let value = json!({ "a": [1, 2, "x\n\"", null, true], "b": { "c": 123_456, "d": "text" } });
        let mut left = MAX_SIZE;
        spend(&value, 0, &mut left).unwrap();
        let (weight, length) = (MAX_SIZE - left, value.to_string().len());
        assert!(weight.abs_diff(length) < length / 2, "{weight} {length}");
    }
}
