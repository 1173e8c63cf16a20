//! The file of the history as a whole: keeping it private, setting it aside, copying it.

use std::fs::{OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode, OpenFlags};

pub(super) const FILE: &str = "history.db";

/// Why the history could not be copied.
#[derive(Debug, thiserror::Error)]
#[error("failed to copy {}", path.display())]
pub struct BackupError {
    path: PathBuf,
    source: rusqlite::Error,
}

/// Writes a copy of the history in a directory as it is at this moment into a new file, whatever a server does meanwhile.
/// Returns whether there was one.
pub fn backup(directory: &Path, to: &Path) -> Result<bool, BackupError> {
    let path = directory.join(FILE);
    if !path.exists() {
        return Ok(false);
    }
    let copied = open(&path).and_then(|connection| {
        let to = to.to_string_lossy();
        connection.execute("VACUUM INTO ?1", [to])
    });
    copied
        .map(|_| true)
        .map_err(|source| BackupError { path, source })
}

/// What is wrong with the history in a directory, if something is.
pub fn check(directory: &Path) -> Option<String> {
    let path = directory.join(FILE);
    if !path.exists() {
        return None;
    }
    let checked = open(&path).and_then(|connection| is_sound(&connection));
    checked.err().map(|error| error.to_string())
}

fn open(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(std::time::Duration::from_secs(5))?;
    Ok(connection)
}

/// An error of the kind that damage makes, unless the structure of the file is whole.
pub(super) fn is_sound(connection: &Connection) -> rusqlite::Result<()> {
    let found: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if found == "ok" {
        return Ok(());
    }
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
    Err(rusqlite::Error::SqliteFailure(code, Some(found)))
}

pub(super) fn is_damage(error: &rusqlite::Error) -> bool {
    // An error in SQL that is always the same means that the tables are not what they were.
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::Unknown)
    )
}

/// Makes the file for its owner only, as are then the files that SQLite makes beside it: it has the keys that
/// notifications are signed with.
pub(super) fn make_private(path: &Path) -> io::Result<()> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path)?
        .set_permissions(Permissions::from_mode(0o600))?;
    for end in ["-wal", "-shm"] {
        match std::fs::set_permissions(beside(path, end), Permissions::from_mode(0o600)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Renames the files of a damaged history.
pub(super) fn set_aside(path: &Path) -> io::Result<PathBuf> {
    let mut now = jiff::Timestamp::now().as_second();
    let mut kept = beside(path, &format!(".damaged-{now}"));
    while kept.try_exists()? {
        now += 1;
        kept = beside(path, &format!(".damaged-{now}"));
    }
    std::fs::rename(path, &kept)?;
    for end in ["-wal", "-shm"] {
        match std::fs::rename(beside(path, end), beside(&kept, end)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(kept)
}

fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}
