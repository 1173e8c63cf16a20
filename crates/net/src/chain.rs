//! Errors on one line.

use std::error::Error;

/// An error and its causes, from the outermost in: `failed to create the pod: connection refused`.
pub fn chain(error: &dyn Error) -> String {
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
