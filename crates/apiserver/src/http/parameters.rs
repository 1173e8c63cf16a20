//! The query of a request, checked once.

use crate::status::{ApiError, Result};

/// Parameters of all verbs; each verb reads those that concern it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Parameters {
    pub watch: bool,
    pub limit: usize,
    pub continue_token: String,
    pub label_selector: String,
    pub field_selector: String,
    pub resource_version: String,
    pub resource_version_match: Option<VersionMatch>,
    pub allow_watch_bookmarks: bool,
    pub send_initial_events: Option<bool>,
    pub timeout_seconds: Option<u64>,
    pub dry_run: bool,
    pub field_manager: String,
    pub field_validation: FieldValidation,
    pub force: Option<bool>,
    pub pretty: bool,
    pub include_object: Option<String>,
    pub grace_period_seconds: Option<i64>,
    pub propagation_policy: Option<String>,
    pub orphan_dependents: Option<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VersionMatch {
    Exact,
    NotOlderThan,
}

/// What happens to fields that the kind does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

impl Parameters {
    /// Reads a query string. Unknown parameters are ignored, as in Kubernetes.
    pub(crate) fn parse(query: &str) -> Result<Self> {
        let mut found = Self::default();
        for (key, value) in pairs(query) {
            match key.as_str() {
                "watch" => found.watch = truth(&value),
                "limit" => {
                    // Less than nothing is no limit.
                    let limit: i64 = number(&key, &value)?.unwrap_or(0);
                    found.limit = usize::try_from(limit).unwrap_or(0);
                }
                "continue" => found.continue_token = value,
                "labelSelector" => found.label_selector = value,
                "fieldSelector" => found.field_selector = value,
                "resourceVersion" => found.resource_version = value,
                "resourceVersionMatch" => {
                    found.resource_version_match = match value.as_str() {
                        "" => None,
                        "Exact" => Some(VersionMatch::Exact),
                        "NotOlderThan" => Some(VersionMatch::NotOlderThan),
                        other => {
                            return Err(ApiError::bad_request(format!(
                                "resourceVersionMatch: Unsupported value: {other:?}: supported values: \
                                 \"Exact\", \"NotOlderThan\""
                            )));
                        }
                    }
                }
                "allowWatchBookmarks" => found.allow_watch_bookmarks = truth(&value),
                "sendInitialEvents" => found.send_initial_events = Some(truth(&value)),
                "timeoutSeconds" => found.timeout_seconds = number(&key, &value)?,
                "dryRun" => found.dry_run = dry_run(&value)?,
                "fieldManager" => found.field_manager = manager(value)?,
                "fieldValidation" => {
                    found.field_validation = match value.as_str() {
                        "" | "Warn" => FieldValidation::Warn,
                        "Ignore" => FieldValidation::Ignore,
                        "Strict" => FieldValidation::Strict,
                        other => {
                            return Err(ApiError::bad_request(format!(
                                "fieldValidation: Unsupported value: {other:?}: supported values: \
                                 \"Ignore\", \"Strict\", \"Warn\""
                            )));
                        }
                    }
                }
                "force" => found.force = Some(truth(&value)),
                "pretty" => found.pretty = truth(&value),
                "includeObject" => found.include_object = Some(value),
                "gracePeriodSeconds" => found.grace_period_seconds = number(&key, &value)?,
                "propagationPolicy" => found.propagation_policy = Some(value),
                "orphanDependents" => found.orphan_dependents = Some(truth(&value)),
                _ => {}
            }
        }
        Ok(found)
    }
}

/// Whether `dryRun` says `All`, the only value there is.
pub(crate) fn dry_run(value: &str) -> Result<bool> {
    match value {
        "" => Ok(false),
        "All" => Ok(true),
        other => Err(ApiError::bad_request(format!(
            "dryRun: Unsupported value: {other:?}: supported values: \"All\""
        ))),
    }
}

/// The pairs of a query, decoded.
pub(crate) fn pairs(query: &str) -> impl Iterator<Item = (String, String)> {
    form_urlencoded::parse(query.as_bytes()).into_owned()
}

/// Only absence, `0` and `false` are false: Python sends `True`.
pub(crate) fn truth(value: &str) -> bool {
    !(value == "0" || value.eq_ignore_ascii_case("false"))
}

fn number<T: std::str::FromStr>(key: &str, value: &str) -> Result<Option<T>> {
    if value.is_empty() {
        return Ok(None);
    }
    let wrong = |_| ApiError::bad_request(format!("{key}: {value:?} is not a valid number"));
    value.parse().map(Some).map_err(wrong)
}

fn manager(value: String) -> Result<String> {
    if value.len() > 128 || value.chars().any(char::is_control) {
        return Err(ApiError::bad_request(
            "fieldManager: must be at most 128 printable characters",
        ));
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_and_go_spell_true_differently() {
        for query in ["watch=True", "watch=true", "watch=1", "watch=", "watch"] {
            assert!(Parameters::parse(query).unwrap().watch, "{query}");
        }
        for query in ["watch=False", "watch=false", "watch=0", ""] {
            assert!(!Parameters::parse(query).unwrap().watch, "{query}");
        }
    }

    #[test]
    fn blanks_and_escapes_are_decoded() {
        let found = Parameters::parse("labelSelector=a+in+%28x%2C+y%29&limit=500").unwrap();
        assert_eq!(found.label_selector, "a in (x, y)");
        assert_eq!(found.limit, 500);
        assert_eq!(Parameters::parse("limit=-1").unwrap().limit, 0);
        assert!(Parameters::parse("limit=many").is_err());
        assert!(Parameters::parse("dryRun=Some").is_err());
    }
}
