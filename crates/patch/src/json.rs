//! JSON Patch (RFC 6902).

use json_patch::{AddOperation, PatchErrorKind, PatchOperation, ReplaceOperation};
use serde_json::Value;

use crate::bounds::{self, MAX_SIZE};

/// Kubernetes refuses patches with more operations than this.
const MAX_OPERATIONS: usize = 10_000;

/// Applies the operations in order. When one fails, `target` is as it was before.
///
/// A patch can make much of little: copies of copies double what is there, and each operation can put its own depth
/// below that of the last. So every operation is weighed before it is made.
pub fn apply(target: &mut Value, patch: &Value) -> Result<()> {
    let operations = patch.as_array().ok_or(Error::NotAList)?;
    if operations.len() > MAX_OPERATIONS {
        return Err(Error::TooMany {
            count: operations.len(),
        });
    }
    let operations: json_patch::Patch =
        serde_json::from_value(patch.clone()).map_err(Error::Parse)?;
    // The crate's own way back panics after some moves, so a copy is changed instead.
    let mut changed = target.clone();
    let mut budget = MAX_SIZE;
    for (index, operation) in operations.iter().enumerate() {
        let path = || shown(operation.path());
        weigh(&changed, operation, &mut budget).map_err(|source| Error::Exceeded {
            operation: index,
            path: path(),
            source,
        })?;
        let done = json_patch::patch_unsafe(&mut changed, std::slice::from_ref(operation));
        done.map_err(|error| match error.kind {
            PatchErrorKind::TestFailed => Error::TestFailed {
                operation: index,
                path: path(),
            },
            source => Error::Apply {
                operation: index,
                path: path(),
                source,
            },
        })?;
    }
    *target = changed;
    Ok(())
}

/// Refuses an operation that would put something too deep, or copy more than an object may weigh. What is added was sent
/// with the patch, so that its size is bounded already.
fn weigh(
    target: &Value,
    operation: &PatchOperation,
    copies: &mut usize,
) -> Result<(), bounds::Exceeded> {
    let depth = operation.path().count();
    let from = |pointer: &json_patch::jsonptr::Pointer| target.pointer(pointer.as_str());
    match operation {
        PatchOperation::Add(AddOperation { value, .. })
        | PatchOperation::Replace(ReplaceOperation { value, .. }) => {
            bounds::spend(value, depth, &mut { usize::MAX })
        }
        PatchOperation::Copy(copy) => {
            from(&copy.from).map_or(Ok(()), |source| bounds::spend(source, depth, copies))
        }
        // What does not sink needs no look; what does costs its weight, or many moves would take all day.
        PatchOperation::Move(moved) if depth > moved.from.count() => {
            from(&moved.from).map_or(Ok(()), |source| bounds::spend(source, depth, copies))
        }
        PatchOperation::Move(_) | PatchOperation::Remove(_) | PatchOperation::Test(_) => Ok(()),
    }
}

/// A path as messages show it: as long as anyone would read.
fn shown(path: &json_patch::jsonptr::Pointer) -> String {
    const LONGEST: usize = 200;
    let text = path.as_str();
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("a JSON patch must be a list of operations")]
    NotAList,
    #[error("the allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {count}")]
    TooMany { count: usize },
    #[error("the JSON patch cannot be read")]
    Parse(#[source] serde_json::Error),
    #[error("testing value {path} failed (operation {operation})")]
    TestFailed { operation: usize, path: String },
    #[error("operation {operation} of the JSON patch does not apply at {path:?}")]
    Apply {
        operation: usize,
        path: String,
        #[source]
        source: PatchErrorKind,
    },
    #[error(
        "operation {operation} of the JSON patch makes too much of the object at {path:?}: {source}"
    )]
    Exceeded {
        operation: usize,
        path: String,
        source: bounds::Exceeded,
    },
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::add(json!([{"op": "add", "path": "/a/b", "value": 1}]), json!({"a": {"b": 1}}))]
    #[case::append(
        json!([{"op": "add", "path": "/a", "value": [1]}, {"op": "add", "path": "/a/-", "value": 2}]),
        json!({"a": [1, 2]})
    )]
    #[case::escaped(
        json!([{"op": "add", "path": "/a/x~1y~0z", "value": true}]),
        json!({"a": {"x/y~z": true}})
    )]
    fn applies(#[case] patch: Value, #[case] want: Value) {
        let mut target = json!({"a": {}});
        apply(&mut target, &patch).unwrap();
        assert_eq!(target, want);
    }

    #[rstest]
    #[case::not_a_list(json!({"op": "add"}))]
    #[case::unknown_operation(json!([{"op": "steal", "path": "/a"}]))]
    #[case::missing_parent(json!([{"op": "add", "path": "/x/y", "value": 1}]))]
    #[case::failed_test(json!([
        {"op": "remove", "path": "/a"},
        {"op": "test", "path": "/b", "value": 1}
    ]))]
    #[case::move_to_own_parent(json!([
        {"op": "add", "path": "/a/x", "value": {"y": 1}},
        {"op": "move", "from": "/a/x/y", "path": "/a/x"},
        {"op": "test", "path": "/b", "value": 1}
    ]))]
    #[case::move_into_itself(json!([{"op": "move", "from": "/a", "path": "/a/b"}]))]
    #[case::doubled(
        (0..24).map(|index| json!({"op": "copy", "from": "/a", "path": format!("/a/x{index}")})).collect()
    )]
    #[case::doubled_flat(
        std::iter::once(json!({"op": "add", "path": "/a/x", "value": ["x".repeat(1000)]}))
            .chain((0..24).map(|_| json!({"op": "copy", "from": "/a", "path": "/a/x/-"})))
            .collect()
    )]
    #[case::deeper_and_deeper(deeper(100, 60).into())]
    #[case::moved_deeper(
        [deeper(1, 80), deeper_elsewhere(80)].concat().into_iter()
            .chain([json!({"op": "move", "from": "/c", "path": format!("/a{}", "/x".repeat(80))})])
            .collect()
    )]
    fn leaves_the_target_alone_when_refused(#[case] patch: Value) {
        let mut target = json!({"a": {}, "b": 2});
        apply(&mut target, &patch).unwrap_err();
        assert_eq!(target, json!({"a": {}, "b": 2}));
    }

    /// Each operation adds `levels` to the end of those before it.
    fn deeper(operations: usize, levels: usize) -> Vec<Value> {
        let value = || (0..levels).fold(json!({}), |inner, _| json!({ "x": inner }));
        (0..operations)
            .map(|index| format!("/a{}", "/x".repeat(1 + index * (levels + 1))))
            .map(|path| json!({"op": "add", "path": path, "value": value()}))
            .collect()
    }

    fn deeper_elsewhere(levels: usize) -> Vec<Value> {
        let value = (0..levels).fold(json!({}), |inner, _| json!({ "x": inner }));
        vec![json!({"op": "add", "path": "/c", "value": value})]
    }

    #[test]
    fn says_which_test_failed() {
        let patch = json!([{"op": "test", "path": "/a", "value": 1}]);
        let error = apply(&mut json!({"a": 2}), &patch).unwrap_err();
        assert_eq!(error.to_string(), "testing value /a failed (operation 0)");
    }
}
