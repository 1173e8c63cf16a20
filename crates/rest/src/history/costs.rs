//! What the pods of a job have held, also of those that are gone.

use rusqlite::params;

use super::{History, Result};
use crate::model::Usage;

pub(super) const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS pod_cost (
        job TEXT NOT NULL,
        pod TEXT NOT NULL,
        cpu_core_hours REAL NOT NULL,
        memory_gib_hours REAL NOT NULL,
        gpu_hours REAL NOT NULL,
        PRIMARY KEY (job, pod)
    ) STRICT, WITHOUT ROWID;
";

impl History {
    /// Notes what the pods of a job have held so far.
    pub(crate) fn put_costs(&self, job: &str, pods: &[(String, Usage)]) -> Result<()> {
        self.with(|connection| {
            let mut statement = connection.prepare_cached(
                "INSERT OR REPLACE INTO pod_cost (job, pod, cpu_core_hours, memory_gib_hours, gpu_hours)
                 VALUES (?1, ?2, ?3, ?4, ?5)",
            )?;
            for (pod, usage) in pods {
                statement.execute(params![
                    job,
                    pod,
                    usage.cpu_core_hours,
                    usage.memory_gib_hours,
                    usage.gpu_hours
                ])?;
            }
            Ok(())
        })
    }

    /// The sum over the pods of a job that are not among these.
    pub(crate) fn costs_of_others(&self, job: &str, pods: &[(String, Usage)]) -> Result<Usage> {
        self.with(|connection| {
            let mut statement = connection.prepare_cached(
                "SELECT pod, cpu_core_hours, memory_gib_hours, gpu_hours FROM pod_cost WHERE job = ?1",
            )?;
            let rows = statement.query_map([job], |row| {
                let usage = Usage {
                    cpu_core_hours: row.get(1)?,
                    memory_gib_hours: row.get(2)?,
                    gpu_hours: row.get(3)?,
                };
                Ok((row.get::<_, String>(0)?, usage))
            })?;
            let mut sum = Usage::default();
            for row in rows {
                let (pod, usage) = row?;
                if !pods.iter().any(|(known, _)| *known == pod) {
                    sum = sum.plus(&usage);
                }
            }
            Ok(sum)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_that_are_gone_still_count() {
        let folder = tempfile::tempdir().unwrap();
        let history = History::open(folder.path()).unwrap();
        let hours = |cpu_core_hours| Usage {
            cpu_core_hours,
            ..Usage::default()
        };
        let first = [("a".to_owned(), hours(1.0)), ("b".to_owned(), hours(2.0))];
        history.put_costs("job", &first).unwrap();
        history
            .put_costs("job", &[("a".to_owned(), hours(4.0))])
            .unwrap();
        let others = history
            .costs_of_others("job", &[("b".to_owned(), hours(9.0))])
            .unwrap();
        assert_eq!(others, hours(4.0));
        assert_eq!(
            history.costs_of_others("other", &[]).unwrap(),
            Usage::default()
        );
    }
}
