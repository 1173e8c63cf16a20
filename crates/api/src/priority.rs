//! How high the jobs of a namespace may go in the queue.
//!
//! Whoever may create a job may write any priority on it, or name any PriorityClass, and the queue is shared with other
//! namespaces. So what counts is no more than the namespace allows, which only those may change who may change namespaces.

/// Namespaces of the administrator, who may do everything anyway.
const UNLIMITED: [&str; 2] = ["default", "kube-system"];

/// The highest priority that counts for jobs of this namespace, which has this annotation
/// ([`crate::labels::MAX_PRIORITY`]). Where nobody has said, it is the ordinary one: what jobs have that ask for none.
pub fn highest_priority(namespace: &str, annotation: Option<&str>, ordinary: i32) -> i32 {
    match annotation {
        // What cannot be read allows nothing.
        Some(text) => text.trim().parse().unwrap_or(ordinary),
        None if UNLIMITED.contains(&namespace) => i32::MAX,
        None => ordinary,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_allows_what_its_annotation_says_and_else_nothing_above_the_ordinary() {
        let cases = [
            ("team", None, 7),
            ("team", Some("1000"), 1000),
            ("team", Some("-5"), -5),
            ("team", Some("much"), 7),
            ("default", None, i32::MAX),
            ("default", Some("0"), 0),
        ];
        for (namespace, annotation, want) in cases {
            let got = highest_priority(namespace, annotation, 7);
            assert_eq!(got, want, "{namespace} with {annotation:?}");
        }
    }
}
