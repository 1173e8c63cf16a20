//! What is done when the files themselves are damaged: the old ones are kept, and all that is left of them is used.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags, params};

use super::pages::{self, Found, Pages};
use super::record::Digest;
use super::{Damage, Error, Result, load, sqlite, wal};

const PAGE_SIZE: usize = 4096;

/// Makes SQLite's log readable to its end, if something committed lies behind a damaged place.
pub(super) fn log(path: &Path, marked: Option<u64>) -> Result<Vec<Damage>> {
    let wal_path = beside(path, "-wal");
    let failed = |source| Error::Repair {
        path: wal_path.clone(),
        source,
    };
    let Some(bytes) = read(&wal_path).map_err(failed)? else {
        return Ok(Vec::new());
    };
    let Some(sealed) = wal::reseal(&bytes, PAGE_SIZE) else {
        return Ok(Vec::new());
    };
    if !sealed.is_certain && marked.is_none_or(|marked| newest(path) >= Some(marked)) {
        return Ok(Vec::new());
    }
    let kept = aside(&wal_path).map_err(failed)?;
    std::fs::copy(&wal_path, &kept).map_err(failed)?;
    crate::files::write_private(&wal_path, &sealed.bytes).map_err(failed)?;
    let frames: Vec<String> = sealed.damaged.iter().map(usize::to_string).collect();
    let detail = format!(
        "frame {} cannot be trusted; the file was kept as {}, and what it holds was used as far as rows have their checksums",
        frames.join(", "),
        kept.display()
    );
    Ok(vec![Damage::new("store.db-wal", detail)])
}

/// What SQLite would take for the newest revision.
fn newest(path: &Path) -> Option<u64> {
    let connection = connect(path).ok()?;
    let newest: Option<i64> = connection
        .query_row("SELECT max(revision) FROM log", [], |row| row.get(0))
        .ok()?;
    let compacted = load::meta(&connection, "compacted").ok()?;
    newest.map(i64::cast_unsigned).max(compacted)
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(path, flags)
}

/// Makes a new file of the rows that are left in one that SQLite cannot read. What is not recognised as ours is refused.
pub(super) fn file(path: &Path, marked: Option<u64>, error: Error) -> Result<Vec<Damage>> {
    let failed = |source| Error::Repair {
        path: path.to_owned(),
        source,
    };
    let old = read(path).map_err(failed)?.unwrap_or_default();
    let log = read(&beside(path, "-wal"))
        .map_err(failed)?
        .unwrap_or_default();
    let found = pages::scan(&Pages {
        file: &old,
        newer: wal::pages(&log, PAGE_SIZE),
        size: PAGE_SIZE,
    });
    if found.whole.is_empty() && marked.is_none() {
        return Err(error);
    }
    let expected = connect(path)
        .and_then(|connection| load::meta(&connection, "rows"))
        .unwrap_or(None);
    let draft = beside(path, ".new");
    let _ = std::fs::remove_file(&draft);
    rebuild(&draft, &found)?;
    let kept = aside(path).map_err(failed)?;
    std::fs::rename(path, &kept).map_err(failed)?;
    for end in ["-wal", "-shm"] {
        match std::fs::rename(beside(path, end), beside(&kept, end)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
    }
    std::fs::rename(&draft, path).map_err(failed)?;
    crate::files::sync_folder(path).map_err(failed)?;
    let rows = found.whole.len();
    let missing = expected.map_or(0, |expected| {
        expected.saturating_sub((rows + found.damaged.len()) as u64)
    });
    let mut damage = vec![Damage::new(
        "store.db",
        format!(
            "its structure is damaged; it was kept as {}, {rows} rows were found in it and taken over, {missing} were not found",
            kept.display(),
        ),
    )];
    damage.extend(found.damaged.values().map(|record| {
        let detail = format!(
            "revision {} in store.db: its checksum does not fit",
            record.revision
        );
        Damage::new(record.subject(), detail)
    }));
    Ok(damage)
}

fn rebuild(path: &Path, found: &Found) -> Result<()> {
    let failed = |source| sqlite::explain(path, source);
    let connection = Connection::open(path).map_err(failed)?;
    sqlite::prepare(&connection, path, &sqlite::STEPS)?;
    let transaction = connection.unchecked_transaction().map_err(failed)?;
    let mut digest = Digest::default();
    let mut last = 0;
    for record in found.whole.values() {
        // A row that is superseded by a damaged one must not be taken for the newest.
        let newer = |damaged: &super::record::Record| {
            damaged.revision > record.revision && damaged.subject() == record.subject()
        };
        last = last.max(record.revision);
        if found.damaged.values().any(newer) {
            continue;
        }
        let checksum = record.checksum();
        transaction
            .execute(
                "INSERT INTO log (revision, resource, namespace, name, verb, body, checksum)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                params![
                    record.revision.cast_signed(),
                    record.resource,
                    record.namespace,
                    record.name,
                    record.verb,
                    record.body,
                    checksum
                ],
            )
            .map_err(failed)?;
        digest.add(checksum);
    }
    last = last.max(found.damaged.keys().next_back().copied().unwrap_or(0));
    load::save(&transaction, last, digest).map_err(failed)?;
    transaction.commit().map_err(failed)?;
    // Closing moves everything from the log into the file.
    connection.close().map_err(|(_, source)| failed(source))?;
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(path, private)
        .and_then(|()| std::fs::File::open(path)?.sync_all())
        .map_err(|source| Error::Repair {
            path: path.to_owned(),
            source,
        })
}

fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// A name that is free, for a file that is kept because it is damaged.
fn aside(path: &Path) -> io::Result<PathBuf> {
    let now = jiff::Timestamp::now().as_second();
    for turn in 0.. {
        let kept = beside(path, &format!(".damaged-{}", now + turn));
        if !kept.try_exists()? {
            return Ok(kept);
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}
