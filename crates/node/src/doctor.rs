//! What this machine must allow for pods to run, what was found, and how to mend it.
//!
//! Each requirement is one function that looks and one that judges, so that the judgement can be
//! tested for machines that we do not have.

mod cgroups;
mod kernel;
mod tools;

use serde::Serialize;

use crate::{Images, Options};

/// What became of one requirement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What is needed, in a few words.
    pub requirement: &'static str,
    pub level: Level,
    /// What there is.
    pub found: String,
    /// How to mend it, where something is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    Ok,
    /// Pods run, but something is missing.
    Warn,
    /// Pods do not run.
    Fail,
}

impl Finding {
    fn ok(requirement: &'static str, found: impl Into<String>) -> Self {
        Self {
            requirement,
            level: Level::Ok,
            found: found.into(),
            fix: None,
        }
    }

    fn warn(requirement: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            level: Level::Warn,
            fix: Some(fix.into()),
            ..Self::ok(requirement, found)
        }
    }

    fn fail(requirement: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            level: Level::Fail,
            ..Self::warn(requirement, found, fix)
        }
    }
}

/// Looks at everything. Changes nothing that stays; takes about a second.
pub fn check(options: &Options) -> Vec<Finding> {
    let is_root = rustix::process::geteuid().is_root();
    let mut findings = vec![
        kernel::version(),
        kernel::user_namespaces(),
        kernel::sandboxes(&options.supervisor),
        kernel::overlay(),
        kernel::seccomp(),
        cgroups::check(is_root),
        tools::identities(is_root),
        tools::egress(is_root, options.egress, &options.resolvers),
        tools::disk_space(&options.data_dir),
        tools::quarantine(&options.data_dir),
        tools::volumes(&options.data_dir),
    ];
    if options.images == Images::Host {
        findings.push(tools::python(options.python.as_deref()));
        findings.push(tools::git());
    }
    findings.push(tools::gpus());
    findings
}

/// The worst of all findings decides whether pods can run.
pub fn worst(findings: &[Finding]) -> Level {
    findings
        .iter()
        .map(|finding| finding.level)
        .max()
        .unwrap_or(Level::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_finding_that_is_not_good_says_what_to_do() {
        let directory = tempfile::tempdir().unwrap();
        // This program is no supervisor; that a real one works is tested elsewhere.
        let supervisor = "/bin/false".into();
        let findings = check(&Options {
            supervisor,
            ..Options::new(directory.path())
        });
        assert!(findings.len() >= 10);
        for finding in &findings {
            assert_eq!(
                finding.level == Level::Ok,
                finding.fix.is_none(),
                "{finding:?}"
            );
            assert!(!finding.found.is_empty(), "{finding:?}");
        }
    }

    #[test]
    fn one_failure_is_a_failure() {
        let findings = [Finding::ok("a", "b"), Finding::fail("a", "b", "c")];
        assert_eq!(worst(&findings), Level::Fail);
        assert_eq!(worst(&findings[..1]), Level::Ok);
    }
}
