//! JSON Patch (RFC 6902).

use serde_json::Value;

/// Kubernetes refuses patches with more operations than this.
const MAX_OPERATIONS: usize = 10_000;

/// Applies the operations in order. When one fails, `target` is as it was before.
pub fn apply(target: &mut Value, patch: &Value) -> Result<()> {
    let operations = patch.as_array().ok_or(Error::NotAList)?;
    if operations.len() > MAX_OPERATIONS {
        return Err(Error::TooMany {
            count: operations.len(),
        });
    }
    let operations: json_patch::Patch =
        serde_json::from_value(patch.clone()).map_err(Error::Parse)?;
    json_patch::patch(target, &operations).map_err(|error| match error.kind {
        json_patch::PatchErrorKind::TestFailed => Error::TestFailed {
            operation: error.operation,
            path: error.path.to_string(),
        },
        _ => Error::Apply {
            operation: error.operation,
            path: error.path.to_string(),
            source: error,
        },
    })
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
        source: json_patch::PatchError,
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
    fn leaves_the_target_alone_when_refused(#[case] patch: Value) {
        let mut target = json!({"a": {}, "b": 2});
        apply(&mut target, &patch).unwrap_err();
        assert_eq!(target, json!({"a": {}, "b": 2}));
    }

    #[test]
    fn says_which_test_failed() {
        let patch = json!([{"op": "test", "path": "/a", "value": 1}]);
        let error = apply(&mut json!({"a": 2}), &patch).unwrap_err();
        assert_eq!(error.to_string(), "testing value /a failed (operation 0)");
    }
}
