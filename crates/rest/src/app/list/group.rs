//! Jobs that stand together in a list.

use super::super::{Error, Result};
use crate::model::{JobGroup, JobSummary};

/// What jobs that stand together have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    User,
    State,
    Framework,
    Tags,
}

impl Group {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        match text {
            "user" => Ok(Self::User),
            "state" => Ok(Self::State),
            "framework" => Ok(Self::Framework),
            "tags" => Ok(Self::Tags),
            other => Err(Error::invalid(
                "group",
                format!("must be user, state, framework or tags, not {other:?}"),
            )),
        }
    }

    /// The group of a job; those that have none come last.
    fn of(self, job: &JobSummary) -> (bool, String) {
        let value = match self {
            Self::User => job.user.clone().unwrap_or_default(),
            Self::State => job.state.as_str().to_owned(),
            Self::Framework => job.framework.clone().unwrap_or_default(),
            Self::Tags => job.tags.join(", "),
        };
        (value.is_empty(), value)
    }

    /// Brings the jobs of each group together, in the order that they have, and counts them.
    pub(super) fn gather(self, jobs: &mut [JobSummary]) -> Vec<JobGroup> {
        // States have an order of their own.
        jobs.sort_by_cached_key(|job| (self == Self::State).then_some(job.state));
        jobs.sort_by_cached_key(|job| (self != Self::State).then(|| self.of(job)));
        let mut groups: Vec<JobGroup> = Vec::new();
        for job in jobs {
            let (_, value) = self.of(job);
            match groups.last_mut() {
                Some(last) if last.value == value => last.jobs += 1,
                _ => groups.push(JobGroup { value, jobs: 1 }),
            }
        }
        groups
    }
}

#[cfg(test)]
pub(super) mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    pub(in crate::app::list) fn job(
        name: &str,
        user: Option<&str>,
        state: &str,
        tags: &[&str],
    ) -> JobSummary {
        serde_json::from_value(json!({
            "name": name, "namespace": "default", "uid": name, "runtime": "torch", "state": state, "message": "",
            "user": user, "num_nodes": 1, "nodes_running": 0, "per_node": { "cpu": 0.0, "memory": 0, "gpu": 0 },
            "created_at": "2026-01-01T00:00:00Z", "duration_seconds": 0, "restarts": 0, "tags": tags,
        }))
        .unwrap()
    }

    #[rstest]
    #[case::owners_by_name_and_those_without_last(Group::User, &["b", "d", "c", "a"], &[("jun", 2), ("minji", 1), ("", 1)])]
    #[case::states_as_jobs_pass_through_them(Group::State, &["c", "a", "d", "b"], &[("Pending", 1), ("Running", 2), ("Failed", 1)])]
    #[case::tags_that_are_all_the_same(Group::Tags, &["c", "d", "a", "b"], &[("paper", 1), ("paper, sweep", 1), ("", 2)])]
    fn groups_keep_the_order_within_them(
        #[case] group: Group,
        #[case] want: &[&str],
        #[case] counts: &[(&str, usize)],
    ) {
        let mut jobs = [
            job("a", None, "Running", &[]),
            job("b", Some("jun"), "Failed", &[]),
            job("c", Some("minji"), "Pending", &["paper"]),
            job("d", Some("jun"), "Running", &["paper", "sweep"]),
        ];
        let groups = group.gather(&mut jobs);
        let names: Vec<&str> = jobs.iter().map(|job| job.name.as_str()).collect();
        assert_eq!(names, want);
        let got: Vec<(&str, usize)> = groups.iter().map(|one| (&*one.value, one.jobs)).collect();
        assert_eq!(got, counts);
    }
}
