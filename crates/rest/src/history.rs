//! What remains of a job when its pods and its TrainJob are gone. The only SQL of this crate.
//!
//! A job's record is written whenever it changes, so that it is there at whatever moment the job
//! is deleted. Logs are files beside the database (see [`logbook`](crate::logbook)); metrics are
//! read from them again when somebody asks.

mod costs;
mod files;
mod samples;
mod sessions;
mod webhooks;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::files::{BackupError, backup, check};
pub(crate) use self::samples::{SAMPLE_SECONDS, Sample};
pub(crate) use self::sessions::SESSION_PREFIX;
pub(crate) use self::webhooks::{Delivery, Stored};
use crate::ledger::Facts;
use crate::model::{AuditEntry, JobDetail, JobEvent};

/// Why the history could not be read or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("failed to open the history")]
    Open(#[source] rusqlite::Error),
    #[error("failed to make room for a new history")]
    Files(#[source] std::io::Error),
    #[error(
        "the history is of layout version {0}, this program knows versions up to {VERSION}; use a newer program"
    )]
    Newer(i64),
    #[error("failed to read or write the history")]
    Sql(#[from] rusqlite::Error),
    #[error("failed to understand a record of the history")]
    Record(#[from] serde_json::Error),
}

pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// A job as it was last seen.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) detail: JobDetail,
    pub(crate) manifest: Value,
    /// The script. Kept beside the rest, which is written again and again.
    #[serde(default, skip_serializing)]
    pub(crate) code: Option<String>,
    pub(crate) events: Vec<JobEvent>,
    #[serde(default)]
    pub(crate) ledger: Facts,
}

/// The database of records and of the audit trail.
pub(crate) struct History {
    connection: Mutex<Connection>,
}

const SCHEMA: &str = "
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = NORMAL;
    CREATE TABLE IF NOT EXISTS job (
        uid TEXT PRIMARY KEY,
        namespace TEXT NOT NULL,
        name TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        seen_at INTEGER NOT NULL,
        gone_at INTEGER,
        record TEXT NOT NULL
    ) STRICT;
    CREATE INDEX IF NOT EXISTS job_by_name ON job (namespace, name, created_at);
    CREATE TABLE IF NOT EXISTS job_code (
        uid TEXT PRIMARY KEY,
        code TEXT NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS audit (
        time INTEGER NOT NULL,
        namespace TEXT NOT NULL,
        entry TEXT NOT NULL
    ) STRICT;
    CREATE INDEX IF NOT EXISTS audit_by_time ON audit (time);
";

/// The most entries of the audit trail that are kept, so that nobody's requests take the room of everybody's jobs.
const MOST_AUDITED: i64 = 200_000;

impl History {
    /// Opens the history, or begins one. One that is damaged is kept aside: nothing may hold up a start.
    pub(crate) fn open(directory: &Path) -> Result<Self> {
        let path = directory.join(files::FILE);
        let connection = match connect(&path) {
            Err(Error::Open(error)) if files::is_damage(&error) => {
                let kept = files::set_aside(&path).map_err(Error::Files)?;
                tracing::error!(
                    path = %path.display(), kept = %kept.display(), %error,
                    "the history of jobs is damaged; it was kept aside, and a new one is begun"
                );
                connect(&path)?
            }
            opened => opened?,
        };
        Ok(Self {
            connection: Mutex::new(connection),
        })
    }

    /// Replaces a job's record. Code that it had stays when there is none in the new one.
    pub(crate) fn put(&self, record: &Record, now: Timestamp) -> Result<()> {
        let summary = &record.detail.summary;
        let json = serde_json::to_string(record)?;
        self.with(|connection| {
            let transaction = connection.unchecked_transaction()?;
            let mut statement = transaction.prepare_cached(
                "INSERT INTO job (uid, namespace, name, created_at, seen_at, record) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
                 ON CONFLICT (uid) DO UPDATE SET seen_at = ?5, record = ?6",
            )?;
            statement.execute(params![
                summary.uid,
                summary.namespace,
                summary.name,
                summary.created_at.as_second(),
                now.as_second(),
                json
            ])?;
            if let Some(code) = &record.code {
                let mut statement = transaction
                    .prepare_cached("INSERT OR REPLACE INTO job_code (uid, code) VALUES (?1, ?2)")?;
                statement.execute(params![summary.uid, code])?;
            }
            drop(statement);
            transaction.commit()?;
            Ok(())
        })
    }

    /// Whether the code of a job is stored.
    pub(crate) fn has_code(&self, uid: &str) -> Result<bool> {
        self.with(|connection| {
            let mut statement =
                connection.prepare_cached("SELECT 1 FROM job_code WHERE uid = ?1")?;
            Ok(statement.exists([uid])?)
        })
    }

    /// The job of this name is gone from the cluster.
    pub(crate) fn gone(&self, namespace: &str, name: &str, now: Timestamp) -> Result<()> {
        self.with(|connection| {
            connection.execute(
                "UPDATE job SET gone_at = ?3 WHERE namespace = ?1 AND name = ?2 AND gone_at IS NULL",
                params![namespace, name, now.as_second()],
            )?;
            Ok(())
        })
    }

    /// The jobs whose record says that they are over.
    pub(crate) fn finished(&self) -> Result<BTreeSet<String>> {
        self.with(|connection| {
            let mut statement = connection.prepare_cached(
                "SELECT uid FROM job WHERE json_extract(record, '$.detail.state') IN ('Complete', 'Failed')",
            )?;
            let rows = statement.query_map([], |row| row.get(0))?;
            rows.collect::<Result<_, _>>().map_err(Error::from)
        })
    }

    /// Notes that TrainJobs which are not among `present` are gone, and returns all that are.
    pub(crate) fn sweep(&self, present: &BTreeSet<String>, now: Timestamp) -> Result<Vec<String>> {
        self.with(|connection| {
            let mut statement = connection.prepare_cached(
                "SELECT uid FROM job WHERE json_extract(record, '$.manifest.kind') = 'TrainJob'",
            )?;
            let rows = statement.query_map([], |row| row.get(0))?;
            let mut gone: Vec<String> = rows.collect::<Result<_, _>>()?;
            gone.retain(|uid| !present.contains(uid));
            let mut statement = connection
                .prepare_cached("UPDATE job SET gone_at = ?2 WHERE uid = ?1 AND gone_at IS NULL")?;
            for uid in &gone {
                statement.execute(params![uid, now.as_second()])?;
            }
            Ok(gone)
        })
    }

    /// The newest record of a name.
    pub(crate) fn find(&self, namespace: &str, name: &str) -> Result<Option<Record>> {
        let found: Option<(String, Option<String>)> = self.with(|connection| {
            connection
                .query_row(
                    "SELECT record, code FROM job LEFT JOIN job_code USING (uid)
                     WHERE namespace = ?1 AND name = ?2 ORDER BY created_at DESC LIMIT 1",
                    params![namespace, name],
                    |row| Ok((row.get(0)?, row.get(1)?)),
                )
                .optional()
                .map_err(Error::from)
        })?;
        let Some((json, code)) = found else {
            return Ok(None);
        };
        let Some(mut record) = understood::<Record>(&json) else {
            return Ok(None);
        };
        // Older records have it in themselves.
        record.code = code.or(record.code);
        Ok(Some(record))
    }

    /// Records of jobs that are gone, the newest first.
    pub(crate) fn archived(&self, namespace: Option<&str>, limit: usize) -> Result<Vec<Record>> {
        let jsons: Vec<String> = self.with(|connection| {
            let mut statement = connection.prepare_cached(
                "SELECT record FROM job WHERE gone_at IS NOT NULL AND (?1 IS NULL OR namespace = ?1)
                 ORDER BY created_at DESC LIMIT ?2",
            )?;
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            let rows = statement.query_map(params![namespace, limit], |row| row.get(0))?;
            rows.collect::<Result<_, _>>().map_err(Error::from)
        })?;
        Ok(jsons.iter().filter_map(|json| understood(json)).collect())
    }

    /// Removes what is older than `before`, and returns the removed jobs so that their logs can go too.
    pub(crate) fn expire(&self, before: Timestamp) -> Result<Vec<String>> {
        self.with(|connection| {
            connection.execute(
                "DELETE FROM audit WHERE time < ?1",
                params![before.as_second()],
            )?;
            connection.execute(
                "DELETE FROM audit WHERE rowid <= (SELECT max(rowid) FROM audit) - ?1",
                params![MOST_AUDITED],
            )?;
            let mut statement = connection.prepare_cached(
                "DELETE FROM job WHERE gone_at IS NOT NULL AND gone_at < ?1 RETURNING uid",
            )?;
            let rows = statement.query_map(params![before.as_second()], |row| row.get(0))?;
            let gone: Vec<String> = rows.collect::<Result<_, _>>()?;
            forget(connection, &gone)?;
            Ok(gone)
        })
    }

    /// Removes the job that has been gone for the longest time, if one has.
    pub(crate) fn expire_oldest(&self) -> Result<Option<String>> {
        self.with(|connection| {
            let gone: Option<String> = connection
                .query_row(
                    "DELETE FROM job WHERE uid = (SELECT uid FROM job WHERE gone_at IS NOT NULL ORDER BY gone_at LIMIT 1)
                     RETURNING uid",
                    [],
                    |row| row.get(0),
                )
                .optional()?;
            forget(connection, gone.as_slice())?;
            Ok(gone)
        })
    }

    /// The snapshots that recorded jobs ran, with their namespaces.
    pub(crate) fn snapshots(&self) -> Result<BTreeSet<(String, String)>> {
        self.with(|connection| {
            let mut statement = connection.prepare_cached(
                "SELECT DISTINCT namespace, json_extract(record, '$.detail.snapshot') FROM job
                 WHERE json_valid(record) AND json_extract(record, '$.detail.snapshot') IS NOT NULL",
            )?;
            let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            rows.collect::<Result<_, _>>().map_err(Error::from)
        })
    }

    pub(crate) fn audit(&self, entry: &AuditEntry) -> Result<()> {
        let json = serde_json::to_string(entry)?;
        self.with(|connection| {
            let mut statement = connection
                .prepare_cached("INSERT INTO audit (time, namespace, entry) VALUES (?1, ?2, ?3)")?;
            statement.execute(params![entry.time.as_second(), entry.namespace, json])?;
            Ok(())
        })
    }

    /// The newest entries of the audit trail.
    pub(crate) fn audit_trail(&self, limit: usize) -> Result<Vec<AuditEntry>> {
        let jsons: Vec<String> = self.with(|connection| {
            let mut statement = connection.prepare_cached(
                "SELECT entry FROM audit ORDER BY time DESC, rowid DESC LIMIT ?1",
            )?;
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            let rows = statement.query_map(params![limit], |row| row.get(0))?;
            rows.collect::<Result<_, _>>().map_err(Error::from)
        })?;
        Ok(jsons.iter().filter_map(|json| understood(json)).collect())
    }

    fn with<T>(&self, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        work(
            &self
                .connection
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }
}

/// The version of the layout, for later ones to know.
const VERSION: i64 = 1;

fn connect(path: &Path) -> Result<Connection> {
    files::make_private(path).map_err(Error::Files)?;
    let connection = Connection::open(path).map_err(Error::Open)?;
    let version: i64 = connection
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .map_err(Error::Open)?;
    if version > VERSION {
        return Err(Error::Newer(version));
    }
    for schema in [
        SCHEMA,
        costs::SCHEMA,
        samples::SCHEMA,
        sessions::SCHEMA,
        webhooks::SCHEMA,
    ] {
        connection.execute_batch(schema).map_err(Error::Open)?;
    }
    if version < VERSION {
        connection
            .pragma_update(None, "user_version", VERSION)
            .map_err(Error::Open)?;
    }
    files::is_sound(&connection).map_err(Error::Open)?;
    Ok(connection)
}

/// A row as what it stands for; one that cannot be understood is passed over.
fn understood<T: serde::de::DeserializeOwned>(json: &str) -> Option<T> {
    serde_json::from_str(json)
        .inspect_err(|error| tracing::warn!(%error, "a record of the history cannot be understood"))
        .ok()
}

/// Removes what is kept beside the records of these jobs.
fn forget(connection: &Connection, uids: &[String]) -> Result<()> {
    for uid in uids {
        connection.execute("DELETE FROM job_code WHERE uid = ?1", [uid])?;
        connection.execute("DELETE FROM pod_cost WHERE job = ?1", [uid])?;
        connection.execute("DELETE FROM sample WHERE owner = ?1", [uid])?;
        connection.execute("DELETE FROM noticed WHERE uid = ?1", [uid])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn record(uid: &str, name: &str, created: i64) -> Record {
        let detail = json!({
            "name": name, "namespace": "team", "uid": uid, "user": null, "framework": null, "runtime": "r",
            "state": "Complete", "message": "", "num_nodes": 1, "nodes_running": 0,
            "per_node": { "cpu": 0.0, "memory": 0, "gpu": 0 },
            "created_at": Timestamp::from_second(created).unwrap(), "started_at": null, "completed_at": null,
            "duration_seconds": 0, "restarts": 0, "progress": null, "image": null, "command": [], "max_restarts": null,
            "nodes": [], "timeline": {}, "waiting": null, "failure": null,
            "usage": { "cpu_core_hours": 0.0, "memory_gib_hours": 0.0, "gpu_hours": 0.0 }, "metrics": [],
        });
        Record {
            ledger: Facts::default(),
            detail: serde_json::from_value(detail).unwrap(),
            manifest: json!({}),
            code: Some("print()".to_owned()),
            events: Vec::new(),
        }
    }

    #[test]
    fn jobs_that_went_unseen_are_noted_as_gone() {
        let folder = tempfile::tempdir().unwrap();
        let at = |second| Timestamp::from_second(second).unwrap();
        let history = History::open(folder.path()).unwrap();
        for (uid, kind) in [("1", "TrainJob"), ("2", "TrainJob"), ("3", "PyTorchJob")] {
            let mut record = record(uid, uid, 10);
            record.manifest = json!({ "kind": kind });
            history.put(&record, at(11)).unwrap();
        }
        let present = BTreeSet::from(["2".to_owned()]);
        assert_eq!(history.sweep(&present, at(20)).unwrap(), ["1"]);
        assert_eq!(history.archived(None, 10).unwrap().len(), 1);
        assert_eq!(history.finished().unwrap().len(), 3);
    }

    #[test]
    fn a_record_outlives_its_job_and_expires() {
        let folder = tempfile::tempdir().unwrap();
        let at = |second| Timestamp::from_second(second).unwrap();
        let history = History::open(folder.path()).unwrap();
        history.put(&record("1", "demo", 10), at(11)).unwrap();
        history.put(&record("2", "demo", 20), at(21)).unwrap();
        assert!(history.archived(None, 10).unwrap().is_empty());
        history.gone("team", "demo", at(30)).unwrap();
        drop(history);
        let history = History::open(folder.path()).unwrap();
        assert_eq!(
            history
                .find("team", "demo")
                .unwrap()
                .unwrap()
                .detail
                .summary
                .uid,
            "2"
        );
        assert_eq!(history.archived(Some("team"), 10).unwrap().len(), 2);
        assert!(history.archived(Some("other"), 10).unwrap().is_empty());
        assert!(history.expire(at(30)).unwrap().is_empty());
        assert_eq!(history.expire(at(31)).unwrap(), ["1", "2"]);
    }

    #[test]
    fn the_audit_trail_has_an_end() {
        let folder = tempfile::tempdir().unwrap();
        let history = History::open(folder.path()).unwrap();
        history
            .with(|connection| {
                let many =
                    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
                     INSERT INTO audit (time, namespace, entry) SELECT 100, 'n', '{}' FROM n";
                connection.execute(many, params![MOST_AUDITED + 5])?;
                Ok(())
            })
            .unwrap();
        history.expire(Timestamp::from_second(1).unwrap()).unwrap();
        let left = history.with(|connection| {
            let count = "SELECT count(*), min(rowid) FROM audit";
            let row = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?));
            connection.query_row(count, [], row).map_err(Error::from)
        });
        assert_eq!(left.unwrap(), (MOST_AUDITED, 6));
    }

    #[test]
    fn a_damaged_history_is_kept_aside_and_a_new_one_begun() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history.db");
        let at = |second| Timestamp::from_second(second).unwrap();
        let write = || {
            let history = History::open(folder.path()).unwrap();
            for index in 0..200 {
                let record = record(&index.to_string(), "demo", index);
                history.put(&record, at(index)).unwrap();
            }
        };
        write();
        let whole = std::fs::read(&path).unwrap();
        let mut rotten = whole.clone();
        rotten[4096..whole.len() / 2].fill(0xAA);
        let cases = [b"not a database at all".to_vec(), rotten, vec![0x55; 4096]];
        for (index, damaged) in cases.iter().enumerate() {
            std::fs::write(&path, damaged).unwrap();
            write();
            let kept = std::fs::read_dir(folder.path()).unwrap();
            let names = kept.map(|file| file.unwrap().file_name().into_string().unwrap());
            let damaged = names.filter(|name| name.starts_with("history.db.damaged-"));
            assert_eq!(damaged.count(), index + 1);
        }

        let connection = Connection::open(&path).unwrap();
        connection
            .execute(
                "UPDATE job SET gone_at = 1, record = 'rot' WHERE uid = '7'",
                [],
            )
            .unwrap();
        connection
            .execute("UPDATE job SET gone_at = 1 WHERE uid = '8'", [])
            .unwrap();
        connection.pragma_update(None, "user_version", 99).unwrap();
        drop(connection);
        let newer = History::open(folder.path()).map(drop).unwrap_err();
        assert!(matches!(newer, Error::Newer(99)), "{newer}");
        let connection = Connection::open(&path).unwrap();
        connection.pragma_update(None, "user_version", 1).unwrap();
        drop(connection);
        // One record that has rotted does not hide the others.
        let history = History::open(folder.path()).unwrap();
        assert_eq!(history.archived(None, 10).unwrap().len(), 1);
        assert!(history.snapshots().unwrap().is_empty());
    }
}
