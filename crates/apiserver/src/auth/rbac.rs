//! Rules: what one allows, which a role has, and whether some cover others.

use serde_json::{Value, json};

use super::policy::Attributes;
use crate::kinds::selector::Labels;

/// One entry of a role's `rules`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Rule {
    verbs: Vec<String>,
    groups: Vec<String>,
    resources: Vec<String>,
    names: Vec<String>,
    paths: Vec<String>,
}

impl Rule {
    fn parse(rule: &Value) -> Self {
        let texts = |field: &str| -> Vec<String> {
            let list = rule[field].as_array().into_iter().flatten();
            list.filter_map(|one| Some(one.as_str()?.to_owned()))
                .collect()
        };
        Self {
            verbs: texts("verbs"),
            groups: texts("apiGroups"),
            resources: texts("resources"),
            names: texts("resourceNames"),
            paths: texts("nonResourceURLs"),
        }
    }

    pub(crate) fn is_about_paths(&self) -> bool {
        !self.paths.is_empty()
    }

    /// As a review shows it.
    pub(crate) fn to_value(&self) -> Value {
        if self.is_about_paths() {
            return json!({ "verbs": self.verbs, "nonResourceURLs": self.paths });
        }
        let mut value =
            json!({ "verbs": self.verbs, "apiGroups": self.groups, "resources": self.resources });
        if !self.names.is_empty() {
            value["resourceNames"] = json!(self.names);
        }
        value
    }

    pub(crate) fn allows(&self, asked: &Attributes) -> bool {
        if !has(&self.verbs, &asked.verb) {
            return false;
        }
        if !asked.path.is_empty() {
            return self
                .paths
                .iter()
                .any(|path| path_matches(path, &asked.path));
        }
        let named = self.names.is_empty() || self.names.contains(&asked.name);
        named && has(&self.groups, &asked.group) && self.has_resource(&asked.qualified_resource())
    }

    /// Resources match whole, by `*`, or by `*/subresource`.
    fn has_resource(&self, asked: &str) -> bool {
        let sub = asked.split_once('/').map(|(_, sub)| format!("*/{sub}"));
        has(&self.resources, asked) || sub.is_some_and(|sub| self.resources.contains(&sub))
    }

    /// The questions that must all be allowed to whoever hands this rule out. A wildcard stands
    /// for itself: only a wildcard covers it.
    pub(crate) fn questions(&self) -> Vec<Attributes> {
        let mut questions = Vec::new();
        for verb in &self.verbs {
            for path in &self.paths {
                let question = Attributes {
                    verb: verb.clone(),
                    path: path.clone(),
                    ..Attributes::default()
                };
                questions.push(question);
            }
            for group in &self.groups {
                for resource in &self.resources {
                    let (resource, subresource) =
                        resource.split_once('/').unwrap_or((resource.as_str(), ""));
                    let any = [String::new()];
                    let names = if self.names.is_empty() {
                        &any[..]
                    } else {
                        &self.names
                    };
                    questions.extend(names.iter().map(|name| Attributes {
                        verb: verb.clone(),
                        group: group.clone(),
                        resource: resource.to_owned(),
                        subresource: subresource.to_owned(),
                        name: name.clone(),
                        ..Attributes::default()
                    }));
                }
            }
        }
        questions
    }
}

/// A role's rules; an aggregating role has those of the roles that it selects by label, which may
/// aggregate in turn: `admin` takes in `edit`, which takes in `view`.
pub(crate) fn rules(role: &Value, cluster_roles: &[Value]) -> Vec<Rule> {
    let mut found = Vec::new();
    let mut waiting = vec![role];
    let mut seen = Vec::new();
    while let Some(role) = waiting.pop() {
        let name = &role["metadata"]["name"];
        if seen.contains(&name) {
            continue;
        }
        seen.push(name);
        let selectors = selectors(role);
        // What stands in an aggregating role was written there by us.
        let own = role["rules"].as_array().filter(|_| selectors.is_empty());
        for rule in own.into_iter().flatten().map(Rule::parse) {
            if !found.contains(&rule) {
                found.push(rule);
            }
        }
        for selector in selectors {
            waiting.extend(
                cluster_roles
                    .iter()
                    .filter(|other| selects(selector, other)),
            );
        }
    }
    found
}

/// By what a role aggregates others, if it does.
pub(crate) fn selectors(role: &Value) -> &[Value] {
    let selectors = role["aggregationRule"]["clusterRoleSelectors"].as_array();
    selectors.map(Vec::as_slice).unwrap_or_default()
}

fn selects(selector: &Value, role: &Value) -> bool {
    let labels = &role["metadata"]["labels"];
    Labels::of(selector).is_some_and(|selector| {
        !selector.is_empty() && selector.match_by(|key| labels[key].as_str())
    })
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|one| one == "*" || one == wanted)
}

fn path_matches(pattern: &str, path: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => path.starts_with(prefix),
        None => pattern == path,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn rule(value: &Value) -> Rule {
        Rule::parse(value)
    }

    fn asked(verb: &str, group: &str, resource: &str, name: &str) -> Attributes {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        Attributes {
            verb: verb.to_owned(),
            group: group.to_owned(),
            resource: resource.to_owned(),
            subresource: subresource.to_owned(),
            name: name.to_owned(),
            ..Attributes::default()
        }
    }

    #[rstest]
    #[case("get", "", "pods", "", true)]
    #[case("get", "", "pods/log", "", false)]
    #[case("get", "batch", "pods", "", false)]
    #[case("delete", "", "pods", "", false)]
    fn a_rule_allows_exactly_what_it_says(
        #[case] verb: &str,
        #[case] group: &str,
        #[case] resource: &str,
        #[case] name: &str,
        #[case] want: bool,
    ) {
        let rule = rule(&json!({ "verbs": ["get"], "apiGroups": [""], "resources": ["pods"] }));
        assert_eq!(rule.allows(&asked(verb, group, resource, name)), want);
    }

    #[test]
    fn wildcards_names_and_subresources() {
        let all = rule(&json!({ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] }));
        assert!(all.allows(&asked("delete", "x", "y/z", "n")));
        let named = rule(
            &json!({ "verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a"] }),
        );
        assert!(named.allows(&asked("get", "", "secrets", "a")));
        assert!(!named.allows(&asked("get", "", "secrets", "")));
        let scale =
            rule(&json!({ "verbs": ["get"], "apiGroups": ["*"], "resources": ["*/scale"] }));
        assert!(scale.allows(&asked("get", "x", "things/scale", "")));
        assert!(!scale.allows(&asked("get", "x", "things", "")));
    }

    #[test]
    fn only_a_wildcard_covers_a_wildcard() {
        let wide = rule(&json!({ "verbs": ["*"], "apiGroups": [""], "resources": ["pods"] }));
        let narrow =
            rule(&json!({ "verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"] }));
        assert!(
            narrow
                .questions()
                .iter()
                .all(|question| wide.allows(question))
        );
        assert!(
            !wide
                .questions()
                .iter()
                .all(|question| narrow.allows(question))
        );
    }

    #[test]
    fn roles_aggregate_by_label() {
        let edit = json!({
            "metadata": { "name": "edit" },
            "aggregationRule": { "clusterRoleSelectors": [{ "matchLabels": { "to-edit": "true" } }] },
        });
        let part = json!({
            "metadata": { "name": "part", "labels": { "to-edit": "true" } },
            "rules": [{ "verbs": ["get"], "apiGroups": ["x"], "resources": ["y"] }],
        });
        assert_eq!(rules(&edit, &[edit.clone(), part]).len(), 1);
    }
}
