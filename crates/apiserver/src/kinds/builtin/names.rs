//! The rules for names inside objects, with Kubernetes' explanations.

use crate::kinds::metadata;
use crate::kinds::strategy::Names;

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

/// What is wrong with a name of several labels, such as most objects have.
pub(super) fn subdomain_problem(name: &str) -> Option<&'static str> {
    metadata::name_problem(name, Names::Subdomains)
}

/// What is wrong with the name of a port.
pub(super) fn port_problem(name: &str) -> Option<&'static str> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.len() > 15 {
        Some("must be no more than 15 characters")
    } else if name.is_empty() || !name.chars().all(is_plain) {
        Some("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    } else if !name.contains(|c: char| c.is_ascii_lowercase()) {
        Some("must contain at least one letter (a-z)")
    } else if name.contains("--") {
        Some("must not contain consecutive hyphens")
    } else if name.starts_with('-') || name.ends_with('-') {
        Some("must not begin or end with a hyphen")
    } else {
        None
    }
}

/// What is wrong with the name of a variable, or what all names of some begin with.
pub(super) fn variable_problem(name: &str) -> Option<&'static str> {
    let is_fine = |byte: u8| (b' '..=b'~').contains(&byte) && byte != b'=';
    (!name.bytes().all(is_fine)).then_some(
        "a valid environment variable name must consist only of printable ASCII characters other than '='",
    )
}

/// What is wrong with the name of an HTTP header.
pub(super) fn header_problem(name: &str) -> Option<&'static str> {
    let is_fine = |c: char| c.is_ascii_alphanumeric() || c == '-';
    (name.is_empty() || !name.chars().all(is_fine)).then_some(
        "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')",
    )
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
