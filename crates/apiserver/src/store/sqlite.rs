//! Opening the file: locking, layout versions, and reading the log into the cache.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::object::{Name, Object};
use super::relations::Relations;
use super::shard::{Change, Event, Limits};
use super::{Error, Options, Result, Shared, write};

/// "astr", so that a foreign SQLite file is recognised.
const APPLICATION_ID: i64 = 0x6173_7472;
/// What makes each version of the layout of the one before it; the first makes it of nothing. They are never changed
/// once released: a store of any age takes all the steps that it lacks.
const STEPS: [&str; 1] = [include_str!("schema.sql")];

pub(super) struct Loaded {
    pub(super) connection: Connection,
    pub(super) shared: Shared,
    /// Rows that the next groups of writes may delete.
    pub(super) garbage: Vec<u64>,
}

pub(super) fn open(options: &Options) -> Result<Loaded> {
    std::fs::create_dir_all(&options.directory).map_err(|source| Error::CreateDirectory {
        path: options.directory.clone(),
        source,
    })?;
    let path = options.directory.join("store.db");
    let connection = connect(&path).map_err(|source| explain(&path, source))?;
    prepare(&connection, &path, &STEPS)?;
    let (shared, garbage) = load(&connection, &path, options.limits)?;
    Ok(Loaded {
        connection,
        shared,
        garbage,
    })
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    // Before anything is read: with an exclusive lock the WAL's index lives in this process' memory,
    // and a second server is kept out.
    connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    Ok(connection)
}

/// Checks that the file is ours and of a version that we know, then creates or migrates the layout in one transaction.
pub(super) fn prepare(connection: &Connection, path: &Path, steps: &[&str]) -> Result<()> {
    let explain = |source| explain(path, source);
    let read = |pragma: &str| {
        connection
            .pragma_query_value(None, pragma, |row| row.get::<_, i64>(0))
            .map_err(explain)
    };
    let (id, version) = (read("application_id")?, read("user_version")?);
    let tables: i64 = connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(explain)?;
    let known = i64::try_from(steps.len()).unwrap_or(i64::MAX);
    if version > known && id == APPLICATION_ID {
        return Err(Error::Newer {
            path: path.to_owned(),
            found: version,
            known,
        });
    }
    if (id != APPLICATION_ID && tables > 0) || version < 0 {
        return Err(Error::Foreign {
            path: path.to_owned(),
        });
    }
    connection
        .execute_batch(
            "PRAGMA journal_mode = WAL;
             PRAGMA synchronous = FULL;
             PRAGMA wal_autocheckpoint = 2000;
             PRAGMA temp_store = MEMORY;
             PRAGMA cache_size = -4096;",
        )
        .map_err(explain)?;
    let taken = if tables == 0 {
        0
    } else {
        usize::try_from(version).unwrap_or(0)
    };
    // A store that is as it should be is not written to, in case it turns out to be damaged.
    if taken == steps.len() {
        return Ok(());
    }
    let missing = steps.get(taken..).unwrap_or_default().concat();
    let migrated = connection.execute_batch(&format!(
        "BEGIN IMMEDIATE;
         {missing}
         PRAGMA application_id = {APPLICATION_ID};
         PRAGMA user_version = {known};
         COMMIT;"
    ));
    if migrated.is_err() && !connection.is_autocommit() {
        let _ = connection.execute_batch("ROLLBACK");
    }
    migrated.map_err(explain)
}

fn load(connection: &Connection, path: &Path, limits: Limits) -> Result<(Shared, Vec<u64>)> {
    let explain = |source| explain(path, source);
    let damaged = |detail: String| Error::Damaged {
        path: path.to_owned(),
        detail,
    };
    let compacted: i64 = connection
        .query_row(
            "SELECT coalesce(max(value), 0) FROM meta WHERE key = 'compacted'",
            [],
            |row| row.get(0),
        )
        .map_err(explain)?;
    let compacted = compacted.cast_unsigned();
    let shared = Shared {
        shards: RwLock::new(HashMap::new()),
        relations: RwLock::new(Relations::default()),
        revision: AtomicU64::new(0),
        compacted: AtomicU64::new(compacted),
        latest: tokio::sync::watch::Sender::new(0),
        writable: AtomicBool::new(true),
        limits,
    };
    let mut resources: HashMap<String, Arc<str>> = HashMap::new();
    let mut garbage = Vec::new();
    let mut last = compacted;
    let mut query = connection
        .prepare(
            "SELECT revision, resource, namespace, name, verb, body FROM log ORDER BY revision",
        )
        .map_err(explain)?;
    let mut rows = query.query([]).map_err(explain)?;
    while let Some(row) = rows.next().map_err(explain)? {
        let revision = row.get::<_, i64>(0).map_err(explain)?.cast_unsigned();
        let resource: String = row.get(1).map_err(explain)?;
        let text = |column| {
            row.get_ref(column)
                .and_then(|value| Ok(value.as_str()?.to_owned()))
        };
        let name = Name::new(&text(2).map_err(explain)?, &text(3).map_err(explain)?);
        let verb: u8 = row.get(4).map_err(explain)?;
        let body: Vec<u8> = row.get(5).map_err(explain)?;
        let object = Object::from_row(&resource, name, revision, body)
            .map_err(|detail| damaged(format!("revision {revision}: {detail}")))?;
        let resource = resources
            .entry(resource)
            .or_insert_with_key(|name| name.as_str().into());
        let shard = shared.shard_or_new(resource);
        let mut shard = write(&shard);
        let previous = shard.get(&object.name).cloned();
        let change = match verb {
            2 => Change::Deleted,
            _ if previous.is_some() => Change::Modified,
            // The row that this one modified is gone, which only compaction does.
            _ => Change::Added,
        };
        let event = Event {
            change,
            object: Arc::new(object),
            previous,
        };
        write(&shared.relations).apply(resource, &event);
        garbage.extend(shard.apply(event, limits));
        // What was compacted may be newer than every row that is left: a revision is never used twice.
        last = last.max(revision);
    }
    drop(rows);
    drop(query);
    let mut horizon = compacted;
    for shard in super::read(&shared.shards).values() {
        let mut shard = write(shard);
        garbage.extend(shard.forget_until(compacted));
        horizon = horizon.max(shard.compacted);
    }
    // The rings may have become too long while they were filled. What is garbage by that must not be
    // deleted before the horizon says so.
    shared.compacted.store(horizon, Ordering::Release);
    shared.revision.store(last.max(1), Ordering::Release);
    Ok((shared, garbage))
}

fn explain(path: &Path, source: rusqlite::Error) -> Error {
    let path = path.to_owned();
    match source.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Error::Locked { path },
        Some(ErrorCode::ReadOnly) => Error::ReadOnly { path },
        Some(ErrorCode::NotADatabase) => Error::Foreign { path },
        Some(ErrorCode::DatabaseCorrupt) => Error::Damaged {
            path,
            detail: source.to_string(),
        },
        _ => Error::Open { path, source },
    }
}
