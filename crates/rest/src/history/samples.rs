//! What jobs and machines really used, measured now and then.

use std::collections::BTreeMap;

use jiff::Timestamp;
use rusqlite::params;

use super::{History, Result};
use crate::model::{UsagePoint, UsageSeries};

pub(super) const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS sample (
        owner TEXT NOT NULL,
        worker INTEGER NOT NULL,
        time INTEGER NOT NULL,
        cpu REAL NOT NULL,
        memory INTEGER NOT NULL,
        gpu REAL,
        gpu_memory INTEGER,
        PRIMARY KEY (owner, worker, time)
    ) STRICT, WITHOUT ROWID;
";

pub(crate) const SAMPLE_SECONDS: i64 = 10;

/// A series that is longer loses every second point, so that a month of training fits as an hour does.
const MOST_POINTS: i64 = 1440;

/// How long measurements of machines are kept.
const MACHINE_SECONDS: i64 = 24 * 3600;

pub(crate) struct Sample {
    /// A job's uid, or a machine by [`Sample::machine`].
    pub(crate) owner: String,
    /// The rank; -1 for a machine.
    pub(crate) worker: i64,
    pub(crate) point: UsagePoint,
}

impl Sample {
    /// How a machine is called among the owners; no uid has a slash.
    pub(crate) fn machine(name: &str) -> String {
        format!("node/{name}")
    }
}

impl History {
    pub(crate) fn put_samples(&self, samples: &[Sample], now: Timestamp) -> Result<()> {
        self.with(|connection| {
            let transaction = connection.unchecked_transaction()?;
            {
                let mut insert = transaction.prepare_cached(
                    "INSERT OR REPLACE INTO sample (owner, worker, time, cpu, memory, gpu, gpu_memory)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                )?;
                for sample in samples {
                    let point = &sample.point;
                    insert.execute(params![
                        sample.owner,
                        sample.worker,
                        point.time.as_second(),
                        point.cpu,
                        point.memory,
                        point.gpu,
                        point.gpu_memory
                    ])?;
                }
            }
            transaction.execute(
                "DELETE FROM sample WHERE owner >= 'node/' AND owner < 'node0' AND time < ?1",
                [now.as_second() - MACHINE_SECONDS],
            )?;
            transaction.commit()?;
            Ok(())
        })
    }

    /// Thins out the series of one owner that have become too long.
    pub(crate) fn thin_samples(&self, owner: &str) -> Result<()> {
        self.with(|connection| {
            let mut long = connection.prepare_cached(
                "SELECT worker FROM sample WHERE owner = ?1 AND worker >= 0 GROUP BY worker HAVING count(*) > ?2",
            )?;
            let workers: Vec<i64> = long
                .query_map(params![owner, MOST_POINTS], |row| row.get(0))?
                .collect::<Result<_, _>>()?;
            for worker in workers {
                connection.execute(
                    "DELETE FROM sample WHERE owner = ?1 AND worker = ?2 AND time IN (
                         SELECT time FROM (
                             SELECT time, row_number() OVER (ORDER BY time) AS place
                             FROM sample WHERE owner = ?1 AND worker = ?2)
                         WHERE place % 2 = 0)",
                    params![owner, worker],
                )?;
            }
            Ok(())
        })
    }

    /// The series of a job or a machine, by worker.
    pub(crate) fn samples(&self, owner: &str) -> Result<Vec<UsageSeries>> {
        self.with(|connection| {
            let mut statement = connection.prepare_cached(
                "SELECT worker, time, cpu, memory, gpu, gpu_memory FROM sample WHERE owner = ?1
                 ORDER BY worker, time",
            )?;
            let rows = statement.query_map([owner], |row| {
                let point = UsagePoint {
                    time: Timestamp::from_second(row.get(1)?).unwrap_or_default(),
                    cpu: row.get(2)?,
                    memory: row.get(3)?,
                    gpu: row.get(4)?,
                    gpu_memory: row.get(5)?,
                };
                Ok((row.get::<_, i64>(0)?, point))
            })?;
            let mut series: BTreeMap<i64, Vec<UsagePoint>> = BTreeMap::new();
            for row in rows {
                let (worker, point) = row?;
                series.entry(worker).or_default().push(point);
            }
            Ok(series
                .into_iter()
                .map(|(worker, points)| UsageSeries {
                    worker: (worker >= 0).then_some(worker),
                    points,
                })
                .collect())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(owner: &str, worker: i64, second: i64) -> Sample {
        #[expect(clippy::cast_precision_loss, reason = "a small number")]
        let cpu = second as f64;
        Sample {
            owner: owner.to_owned(),
            worker,
            point: UsagePoint {
                time: Timestamp::from_second(second).unwrap(),
                cpu,
                memory: 5,
                gpu: None,
                gpu_memory: None,
            },
        }
    }

    #[test]
    fn long_series_are_thinned_and_machines_are_forgotten_after_a_day() {
        let folder = tempfile::tempdir().unwrap();
        let history = History::open(folder.path()).unwrap();
        let now = |second| Timestamp::from_second(second).unwrap();
        let long: Vec<Sample> = (0..=MOST_POINTS)
            .map(|at| sample("job", 0, at * 10))
            .collect();
        history.put_samples(&long, now(0)).unwrap();
        history.put_samples(&[sample("job", 1, 0)], now(0)).unwrap();
        history.thin_samples("job").unwrap();
        let series = history.samples("job").unwrap();
        assert_eq!(series[0].points.len(), 721);
        assert_eq!(series[0].points[1].time, now(20));
        assert_eq!((series[1].worker, series[1].points.len()), (Some(1), 1));
        let machine = Sample::machine("a");
        history
            .put_samples(&[sample(&machine, -1, 10)], now(10))
            .unwrap();
        assert_eq!(history.samples(&machine).unwrap()[0].worker, None);
        history
            .put_samples(&[], now(10 + MACHINE_SECONDS + 1))
            .unwrap();
        assert!(history.samples(&machine).unwrap().is_empty());
    }
}
