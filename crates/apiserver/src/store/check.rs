//! Looking at a store from outside, also while a server has it open: for `astrago doctor` and for backups.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use super::record::{Digest, checksum};
use super::sqlite::{FILE, STEPS, explain, version};
use super::{Damage, Error, Result, load, mark};

/// What was found in a store.
#[derive(Debug, Default)]
pub struct Report {
    /// How many revisions of objects it holds.
    pub rows: u64,
    /// What is damaged now.
    pub damaged: Vec<Damage>,
    /// What was found damaged before and is kept aside.
    pub set_aside: Vec<Damage>,
}

/// Reads the whole store in a directory and holds it against its checksums; `None` when there is no store.
pub fn check(directory: &Path) -> Result<Option<Report>> {
    let path = directory.join(FILE);
    if !path.exists() {
        return Ok(None);
    }
    // The mark first: a server that runs writes it after the log.
    let marked = mark::read(directory);
    let connection = open(&path)?;
    let mut report = Report::default();
    match look(&connection, marked, &mut report) {
        Err(error) if explains_damage(&error) => {
            let damage = Damage::new("store.db", error.to_string());
            report.damaged.push(damage);
        }
        Err(source) => return Err(explain(&path, source)),
        Ok(()) => {}
    }
    Ok(Some(report))
}

/// Writes a copy of the store as it is at this moment into a new file, whatever a server does meanwhile.
pub fn backup(directory: &Path, to: &Path) -> Result<()> {
    let path = directory.join(FILE);
    let connection = open(&path)?;
    let known = i64::try_from(STEPS.len()).unwrap_or(i64::MAX);
    match version(&connection, &path)? {
        None => return Err(Error::Foreign { path }),
        Some(found) if found > known => return Err(Error::Newer { path, found, known }),
        Some(_) => {}
    }
    let name = to.to_str().ok_or_else(|| Error::Repair {
        path: to.to_owned(),
        source: std::io::ErrorKind::InvalidFilename.into(),
    })?;
    connection
        .execute("VACUUM INTO ?1", [name])
        .map(drop)
        .map_err(|source| explain(&path, source))
}

fn open(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let failed = |source| explain(path, source);
    let connection = Connection::open_with_flags(path, flags).map_err(failed)?;
    connection
        .busy_timeout(std::time::Duration::from_secs(5))
        .map_err(failed)?;
    Ok(connection)
}

fn explains_damage(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase, Unknown};
    matches!(
        error.sqlite_error_code(),
        Some(DatabaseCorrupt | NotADatabase | Unknown)
    )
}

fn look(connection: &Connection, marked: Option<u64>, report: &mut Report) -> rusqlite::Result<()> {
    // All of it as of one moment.
    let transaction = connection.unchecked_transaction()?;
    let columns = transaction
        .prepare("SELECT * FROM log LIMIT 0")?
        .column_count();
    if columns < 7 {
        // Of an older version; its rows get checksums when it is opened.
        return Ok(());
    }
    report.set_aside = load::remembered(&transaction)?;
    let expected = (
        load::meta(&transaction, "rows")?,
        load::meta(&transaction, "sum")?,
    );
    let mut last = load::meta(&transaction, "compacted")?.unwrap_or(0);
    let mut digest = Digest::default();
    let mut query = transaction
        .prepare("SELECT revision, resource, namespace, name, verb, body, checksum FROM log")?;
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        let revision = row.get::<_, i64>(0)?.cast_unsigned();
        last = last.max(revision);
        let text = |column| row.get_ref(column).ok()?.as_str().ok();
        let read = || {
            let names = [text(1)?, text(2)?, text(3)?];
            let verb = row.get::<_, u8>(4).ok()?;
            Some(checksum(
                revision,
                names,
                verb,
                row.get_ref(5).ok()?.as_blob().ok()?,
            ))
        };
        let stored = row.get::<_, Option<u32>>(6).unwrap_or(None);
        digest.add(stored.unwrap_or(0));
        if expected.0.is_some() && (stored.is_none() || read() != stored) {
            let [resource, namespace, name] =
                [1, 2, 3].map(|column| text(column).unwrap_or_default().to_owned());
            let subject = super::record::subject(&resource, &namespace, &name);
            let detail = format!("revision {revision} in store.db: its checksum does not fit");
            report.damaged.push(Damage::new(subject, detail));
        }
    }
    report.rows = digest.rows;
    if let (Some(rows), Some(sum)) = expected
        && report.damaged.is_empty()
        && (Digest { rows, sum }) != digest
    {
        let detail = format!("it has {} rows and should have {rows}", digest.rows);
        report.damaged.push(Damage::new("the log", detail));
    }
    if let Some(marked) = marked.filter(|marked| *marked > last) {
        let detail = format!(
            "writes {} to {marked} were acknowledged and are missing",
            last + 1
        );
        report.damaged.push(Damage::new("the log", detail));
    }
    let mut query = transaction.prepare("PRAGMA integrity_check(20)")?;
    let lines: Vec<String> = query
        .query_map([], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    let wrong = lines.into_iter().filter(|line| line != "ok");
    report
        .damaged
        .extend(wrong.map(|line| Damage::new("store.db", line)));
    Ok(())
}
