//! The rules for names inside objects, with Kubernetes' explanations.

pub(super) const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
pub(super) const KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
pub(super) const TOO_LONG: &str = "must be no more than 63 characters";

/// What is wrong with a DNS label, if anything.
pub(super) fn label_problem(name: &str) -> Option<&'static str> {
    let is_edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    if name.len() > 63 {
        return Some(TOO_LONG);
    }
    let is_fine = name.starts_with(is_edge)
        && name.ends_with(is_edge)
        && name.chars().all(|c| is_edge(c) || c == '-');
    (!is_fine).then_some(LABEL)
}

/// Whether a key of a ConfigMap or Secret is one.
pub(super) fn is_key(key: &str) -> bool {
    !key.is_empty()
        && key.len() <= 253
        && key != "."
        && key != ".."
        && key
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-._".contains(c))
}
