//! Opening the file: locking, layout versions, and what is done when it is damaged.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::load::{self, Loaded};
use super::mark::{self, Mark};
use super::reserve::{OverStops, Reserve};
use super::{Error, Options, Result, repair};

/// "astr", so that a foreign SQLite file is recognised.
const APPLICATION_ID: i64 = 0x6173_7472;
/// What makes each version of the layout of the one before it; the first makes it of nothing. They are never changed
/// once released: a store of any age takes all the steps that it lacks.
pub(super) const STEPS: [&str; 2] = [include_str!("schema.sql"), include_str!("checksums.sql")];
/// A process that was killed holds its lock until the kernel has taken it apart.
const PATIENCE: Duration = Duration::from_millis(300);

pub(super) const FILE: &str = "store.db";

/// The open files of a store. The connection is closed before the other files are: to close any of them
/// would give up its locks.
pub(super) struct Files {
    pub(super) connection: Connection,
    pub(super) reserve: Reserve,
    pub(super) mark: Mark,
    _over_stops: OverStops,
    _lock: File,
}

pub(super) fn open(options: &Options) -> Result<(Files, Loaded)> {
    let directory = &options.directory;
    let failed = |source| Error::CreateDirectory {
        path: directory.clone(),
        source,
    };
    std::fs::create_dir_all(directory).map_err(failed)?;
    keep_to_owner(directory);
    let lock = lock(directory)?;
    let path = directory.join(FILE);
    let over_stops = OverStops::release(directory, options.reserve);
    let marked = mark::read(directory);
    let mut damage = repair::log(&path, marked)?;
    let (connection, loaded) = match open_file(&path, options, marked) {
        Err(error @ (Error::Damaged { .. } | Error::Foreign { .. })) => {
            damage.extend(repair::file(&path, marked, error)?);
            open_file(&path, options, marked)?
        }
        opened => opened?,
    };
    let loaded = loaded.settle(&connection, damage);
    let mark = Mark::open(directory).map_err(failed)?;
    let revision = loaded
        .shared
        .revision
        .load(std::sync::atomic::Ordering::Acquire);
    if let Err(error) = mark.set(revision) {
        tracing::warn!(%error, "failed to note the newest revision");
    }
    let reserve = Reserve::open(&path, options.reserve).map_err(failed)?;
    let files = Files {
        connection,
        reserve,
        mark,
        _over_stops: over_stops,
        _lock: lock,
    };
    Ok((files, loaded))
}

fn open_file(path: &Path, options: &Options, marked: Option<u64>) -> Result<(Connection, Loaded)> {
    let connection = connect(path).map_err(|source| explain(path, source))?;
    prepare(&connection, path, &STEPS)?;
    let sound: String = connection
        .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
        .map_err(|source| explain(path, source))?;
    if sound != "ok" {
        return Err(Error::Damaged {
            path: path.to_owned(),
            detail: sound,
        });
    }
    let loaded =
        load::load(&connection, options.limits, marked).map_err(|source| explain(path, source))?;
    Ok((connection, loaded))
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    // The files that SQLite makes beside it get the same mode.
    let made = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    drop(made);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(Duration::from_secs(5))?;
    Ok(connection)
}

/// Makes sure that no second server writes here. Others may read.
fn lock(directory: &Path) -> Result<File> {
    let path = directory.join("store.lock");
    let failed = |source| Error::CreateDirectory {
        path: path.clone(),
        source,
    };
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(&path)
        .map_err(|source| match source.kind() {
            std::io::ErrorKind::ReadOnlyFilesystem | std::io::ErrorKind::PermissionDenied => {
                Error::ReadOnly {
                    path: directory.to_owned(),
                }
            }
            _ => failed(source),
        })?;
    let began = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if began.elapsed() < PATIENCE => {
                std::thread::park_timeout(Duration::from_millis(10));
            }
            Err(TryLockError::WouldBlock) => {
                return Err(Error::Locked {
                    path: directory.join(FILE),
                });
            }
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
    }
}

/// Takes from everybody else what an earlier version, or a copy of the folder, has given them.
fn keep_to_owner(directory: &Path) {
    let tighten = |path: &Path, mode: u32| {
        let Ok(metadata) = std::fs::symlink_metadata(path) else {
            return;
        };
        let permissions = metadata.permissions();
        if permissions.mode().trailing_zeros() >= 6 || metadata.is_symlink() {
            return;
        }
        let private = std::fs::Permissions::from_mode(mode);
        if let Err(error) = std::fs::set_permissions(path, private) {
            tracing::warn!(path = %path.display(), %error, "failed to keep a file to its owner");
        }
    };
    tighten(directory, 0o700);
    for name in [
        "store.db",
        "store.db-wal",
        "store.db-shm",
        "store.mark",
        "ca.crt",
        "ca.key",
    ] {
        tighten(&directory.join(name), 0o600);
    }
}

/// Checks that the file is ours and of a version that we know, then creates or migrates the layout in one transaction.
pub(super) fn prepare(connection: &Connection, path: &Path, steps: &[&str]) -> Result<()> {
    let explain = |source| explain(path, source);
    let version = version(connection, path)?;
    let tables: i64 = connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(explain)?;
    let known = i64::try_from(steps.len()).unwrap_or(i64::MAX);
    if let Some(found) = version.filter(|version| *version > known) {
        // It stands in the table too, so that one wrong bit does not make a store look newer than it is.
        let layout = super::load::meta(connection, "layout").ok().flatten();
        if layout.is_some_and(|layout| layout.cast_signed() <= known) {
            return Err(Error::Damaged {
                path: path.to_owned(),
                detail: format!("its head speaks of layout version {found}"),
            });
        }
        return Err(Error::Newer {
            path: path.to_owned(),
            found,
            known,
        });
    }
    if version.is_none() && tables > 0 {
        return Err(Error::Foreign {
            path: path.to_owned(),
        });
    }
    // What is deleted is overwritten where that costs nothing, so that nothing of it is found again after an accident.
    connection
        .execute_batch(
            "PRAGMA journal_mode = WAL;
             PRAGMA synchronous = FULL;
             PRAGMA wal_autocheckpoint = 2000;
             PRAGMA temp_store = MEMORY;
             PRAGMA cache_size = -4096;
             PRAGMA cell_size_check = ON;
             PRAGMA secure_delete = FAST;",
        )
        .map_err(explain)?;
    let taken = match version {
        Some(version) if tables > 0 => usize::try_from(version).unwrap_or(0),
        _ => 0,
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

/// The version of the layout, if the file is ours.
pub(super) fn version(connection: &Connection, path: &Path) -> Result<Option<i64>> {
    let read = |pragma: &str| {
        connection
            .pragma_query_value(None, pragma, |row| row.get::<_, i64>(0))
            .map_err(|source| explain(path, source))
    };
    let (id, version) = (read("application_id")?, read("user_version")?);
    Ok((id == APPLICATION_ID && version >= 0).then_some(version))
}

pub(super) fn explain(path: &Path, source: rusqlite::Error) -> Error {
    let path = path.to_owned();
    match source.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Error::Locked { path },
        Some(ErrorCode::ReadOnly) => Error::ReadOnly { path },
        Some(ErrorCode::NotADatabase) => Error::Foreign { path },
        Some(ErrorCode::DiskFull) => Error::Full { path },
        // That is how a full disk shows in the shared memory of the log.
        Some(ErrorCode::SystemIoFailure) if is_shared_memory(&source) => Error::Full { path },
        // An error in SQL that is always the same means that the tables are not what they were.
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::Unknown) => Error::Damaged {
            path,
            detail: source.to_string(),
        },
        _ => Error::Open { path, source },
    }
}

fn is_shared_memory(error: &rusqlite::Error) -> bool {
    error
        .sqlite_error()
        .is_some_and(|error| error.extended_code == rusqlite::ffi::SQLITE_IOERR_SHMSIZE)
}
