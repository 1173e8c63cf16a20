//! Reading the log into the cache, and setting aside what cannot be trusted.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

use astrago_patch::bounds;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row, params};
use serde_json::Value;

use super::object::{Name, Object};
use super::record::{Digest, Record, subject};
use super::relations::Relations;
use super::shard::{Change, Event, Limits};
use super::{Damage, Shared, write};

/// Damage is remembered for so long.
const REMEMBERED_SECONDS: i64 = 30 * 24 * 60 * 60;

pub(super) struct Loaded {
    pub(super) shared: Shared,
    /// Rows that the next groups of writes may delete.
    pub(super) garbage: Vec<u64>,
    pub(super) digest: Digest,
    /// What is to be set aside, with the content of the row.
    aside: Vec<(Damage, Option<Vec<u8>>)>,
    /// Rows of the log that are set aside.
    bad: Vec<u64>,
    /// Rows from before there were checksums.
    unsealed: Vec<(u64, u32)>,
}

/// A row that cannot be trusted.
struct Bad {
    damage: Damage,
    revision: u64,
    /// What its columns and its body call it.
    names: Vec<(String, Name)>,
    content: Vec<u8>,
}

pub(super) fn load(
    connection: &Connection,
    limits: Limits,
    marked: Option<u64>,
) -> rusqlite::Result<Loaded> {
    let compacted = meta(connection, "compacted")?.unwrap_or(0);
    let expected = match (meta(connection, "rows")?, meta(connection, "sum")?) {
        (Some(rows), Some(sum)) => Some(Digest { rows, sum }),
        _ => None,
    };
    let mut loaded = Loaded {
        shared: Shared {
            shards: RwLock::new(HashMap::new()),
            relations: RwLock::new(Relations::default()),
            revision: AtomicU64::new(0),
            compacted: AtomicU64::new(compacted),
            latest: tokio::sync::watch::Sender::new(0),
            writable: AtomicBool::new(true),
            limits,
            presumed: HashSet::new(),
            damage: Vec::new(),
        },
        garbage: Vec::new(),
        digest: Digest::default(),
        aside: Vec::new(),
        bad: Vec::new(),
        unsealed: Vec::new(),
    };
    let mut resources: HashMap<String, Arc<str>> = HashMap::new();
    let mut bad = Vec::new();
    let mut last = compacted;
    let mut query = connection.prepare(
        "SELECT revision, resource, namespace, name, verb, body, checksum FROM log ORDER BY revision",
    )?;
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        // What was compacted may be newer than every row that is left: a revision is never used twice.
        last = last.max(row.get::<_, i64>(0)?.cast_unsigned());
        let stored = row.get::<_, Option<u32>>(6).unwrap_or(None);
        loaded.digest.add(stored.unwrap_or(0));
        let checked = record(row).and_then(|record| {
            let checksum = record.checksum();
            match stored {
                Some(stored) if stored == checksum => {}
                None if expected.is_none() => loaded.unsealed.push((record.revision, checksum)),
                _ => return Err(bad_row(row, "its checksum does not fit")),
            }
            Ok(record)
        });
        match checked {
            Ok(record) => {
                if let Err(one) = loaded.take(record, &mut resources, limits) {
                    bad.push(one);
                }
            }
            Err(one) => bad.push(one),
        }
    }
    drop(rows);
    drop(query);
    loaded.judge(bad, expected, &mut last, marked);
    loaded.finish(compacted, last);
    Ok(loaded)
}

impl Loaded {
    /// Puts a row into the cache.
    fn take(
        &mut self,
        record: Record,
        resources: &mut HashMap<String, Arc<str>>,
        limits: Limits,
    ) -> Result<(), Bad> {
        let name = Name::new(&record.namespace, &record.name);
        let depth = bounds::depth_of_json(&record.body);
        let read = if depth > bounds::MAX_READABLE_DEPTH {
            Err(format!("it is nested {depth} levels deep"))
        } else {
            Object::from_row(&record.resource, name, record.revision, &record.body)
        };
        let object = read.map_err(|detail| Bad {
            damage: Damage::new(record.subject(), detail),
            revision: record.revision,
            names: vec![(
                record.resource.clone(),
                Name::new(&record.namespace, &record.name),
            )],
            content: record.body.clone(),
        })?;
        let resource = resources
            .entry(record.resource)
            .or_insert_with_key(|name| name.as_str().into());
        let shard = self.shared.shard_or_new(resource);
        let mut shard = write(&shard);
        let previous = shard.get(&object.name).cloned();
        let change = match record.verb {
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
        write(&self.shared.relations).apply(resource, &event);
        self.garbage.extend(shard.apply(event, limits));
        Ok(())
    }

    /// Says what is damaged or missing, and keeps older states of what is damaged from being served.
    fn judge(
        &mut self,
        bad: Vec<Bad>,
        expected: Option<Digest>,
        last: &mut u64,
        marked: Option<u64>,
    ) {
        let found = self.digest;
        let differs = match expected {
            Some(expected) if bad.is_empty() => expected != found,
            Some(expected) => expected.rows != found.rows,
            None => false,
        };
        if let Some(expected) = expected.filter(|_| differs) {
            let detail = format!(
                "it has {} rows and should have {}, or some of them are older than they should be",
                found.rows, expected.rows
            );
            self.aside.push((Damage::new("the log", detail), None));
        }
        if let Some(marked) = marked.filter(|marked| *marked > *last) {
            let detail = format!(
                "writes {} to {marked} were acknowledged and are missing; what is served is older",
                *last + 1
            );
            self.aside.push((Damage::new("the log", detail), None));
            *last = marked;
        }
        for one in bad {
            for (resource, name) in &one.names {
                self.evict(resource, name, one.revision);
            }
            self.bad.push(one.revision);
            self.aside.push((one.damage, Some(one.content)));
        }
    }

    /// An older state must not pass for the newest, nor what was deleted come back.
    fn evict(&mut self, resource: &str, name: &Name, revision: u64) {
        let Some((resource, shard)) = self
            .shared
            .shard(resource)
            .map(|shard| (resource.into(), shard))
        else {
            return;
        };
        let mut shard = write(&shard);
        let Some(older) = shard
            .get(name)
            .filter(|older| older.revision < revision)
            .cloned()
        else {
            return;
        };
        let event = Event {
            change: Change::Deleted,
            object: Arc::clone(&older),
            previous: Some(Arc::clone(&older)),
        };
        write(&self.shared.relations).apply(&resource, &event);
        self.garbage.extend(shard.apply(event, self.shared.limits));
        let detail = format!(
            "its state at revision {} is whole, but not the newest",
            older.revision
        );
        let damage = Damage::new(subject(&resource, &name.namespace, &name.name), detail);
        self.aside.push((damage, Some(older.json.to_vec())));
    }

    fn finish(&mut self, compacted: u64, last: u64) {
        // Nobody may go on from a history with holes.
        let compacted = if self.aside.is_empty() {
            compacted
        } else {
            last
        };
        let mut horizon = compacted;
        for shard in super::read(&self.shared.shards).values() {
            let mut shard = write(shard);
            self.garbage.extend(shard.forget_until(compacted));
            horizon = horizon.max(shard.compacted);
        }
        // The rings may have become too long while they were filled. What is garbage by that must not be
        // deleted before the horizon says so.
        self.shared.compacted.store(horizon, Ordering::Release);
        self.shared.revision.store(last.max(1), Ordering::Release);
    }

    /// Sets aside in the file what must not be served, and says so. A file that cannot be written to keeps it from nothing.
    pub(super) fn settle(mut self, connection: &Connection, mut damage: Vec<Damage>) -> Self {
        for one in damage.drain(..) {
            self.aside.push((one, None));
        }
        for (damage, _) in &self.aside {
            tracing::error!(
                what = damage.subject,
                detail = damage.detail,
                "the store is damaged"
            );
        }
        if !(self.aside.is_empty() && self.unsealed.is_empty())
            && let Err(error) = self.write(connection)
        {
            tracing::error!(%error, "failed to set aside what is damaged in the store");
        }
        let before = jiff::Timestamp::now().as_second() - REMEMBERED_SECONDS;
        let forgotten = connection.execute("DELETE FROM quarantine WHERE found_at < ?1", [before]);
        if let Err(error) = forgotten {
            tracing::warn!(%error, "failed to forget what was set aside long ago");
        }
        let known = remembered(connection).unwrap_or_default();
        if !(known.is_empty() && self.aside.is_empty()) {
            let relations = super::read(&self.shared.relations);
            let owners = relations.owners().into_iter();
            let presumed = owners
                .filter(|uid| relations.object(uid).is_none())
                .collect();
            drop(relations);
            self.shared.presumed = presumed;
        }
        self.shared.damage = if known.is_empty() {
            self.aside.drain(..).map(|(damage, _)| damage).collect()
        } else {
            known
        };
        self
    }

    fn write(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let transaction = connection.unchecked_transaction()?;
        let mut digest = self.digest;
        let now = jiff::Timestamp::now().as_second();
        for (damage, content) in &self.aside {
            transaction.execute(
                "INSERT INTO quarantine (found_at, subject, detail, content) VALUES (?1, ?2, ?3, ?4)",
                params![now, damage.subject, damage.detail, content],
            )?;
        }
        for revision in &self.bad {
            let checksum = transaction.query_row(
                "DELETE FROM log WHERE revision = ?1 RETURNING checksum",
                [revision.cast_signed()],
                |row| row.get::<_, Option<u32>>(0).or(Ok(None)),
            )?;
            digest.remove(checksum.unwrap_or(0));
        }
        for (revision, checksum) in &self.unsealed {
            transaction.execute(
                "UPDATE log SET checksum = ?2 WHERE revision = ?1",
                params![revision.cast_signed(), checksum],
            )?;
            digest.remove(0);
            digest.add(*checksum);
        }
        save(
            &transaction,
            self.shared.compacted.load(Ordering::Acquire),
            digest,
        )?;
        transaction.commit()?;
        self.digest = digest;
        Ok(())
    }
}

/// Notes how far history is gone, and what the log holds now.
pub(super) fn save(
    connection: &Connection,
    compacted: u64,
    digest: Digest,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO meta (key, value) VALUES ('compacted', ?1), ('rows', ?2), ('sum', ?3)",
        )?
        .execute([compacted, digest.rows, digest.sum].map(u64::cast_signed))
        .map(drop)
}

pub(super) fn meta(connection: &Connection, key: &str) -> rusqlite::Result<Option<u64>> {
    let value: Option<i64> =
        connection.query_row("SELECT max(value) FROM meta WHERE key = ?1", [key], |row| {
            row.get(0)
        })?;
    Ok(value.map(i64::cast_unsigned))
}

/// The damage that was found and set aside.
pub(super) fn remembered(connection: &Connection) -> rusqlite::Result<Vec<Damage>> {
    let mut query = connection.prepare("SELECT subject, detail FROM quarantine ORDER BY id")?;
    let rows = query.query_map([], |row| {
        Ok(Damage {
            subject: row.get(0)?,
            detail: row.get(1)?,
        })
    })?;
    rows.collect()
}

/// A row whose columns are what they should be.
fn record(row: &Row<'_>) -> Result<Record, Bad> {
    let text = |column| match row.get_ref(column) {
        Ok(ValueRef::Text(text)) => std::str::from_utf8(text).ok().map(str::to_owned),
        _ => None,
    };
    let read = || {
        let verb = row.get::<_, u8>(4).ok().filter(|verb| *verb <= 2)?;
        let Ok(ValueRef::Blob(body)) = row.get_ref(5) else {
            return None;
        };
        Some(Record {
            revision: row.get::<_, i64>(0).ok()?.cast_unsigned(),
            resource: text(1)?,
            namespace: text(2)?,
            name: text(3)?,
            verb,
            body: body.to_vec(),
        })
    };
    read().ok_or_else(|| bad_row(row, "its columns cannot be read"))
}

/// What can be said of a row that is damaged somewhere.
fn bad_row(row: &Row<'_>, detail: &str) -> Bad {
    let bytes = |column| match row.get_ref(column) {
        Ok(ValueRef::Text(bytes) | ValueRef::Blob(bytes)) => bytes.to_vec(),
        _ => Vec::new(),
    };
    let text = |column| String::from_utf8_lossy(&bytes(column)).into_owned();
    let (resource, namespace, name) = (text(1), text(2), text(3));
    let (content, revision) = (bytes(5), row.get::<_, i64>(0).unwrap_or(0).cast_unsigned());
    let detail = format!("revision {revision} in store.db: {detail}");
    let mut names = vec![(resource.clone(), Name::new(&namespace, &name))];
    let mut called = subject(&resource, &namespace, &name);
    if let Ok(body) = serde_json::from_slice::<Value>(&content) {
        let part = |key: &str| body["metadata"][key].as_str().unwrap_or_default();
        let (space, own) = (part("namespace"), part("name"));
        if (space, own) != (&*namespace, &*name) {
            called = format!("{called}, or {}", subject(&resource, space, own));
        }
        names.push((resource.clone(), Name::new(space, own)));
    }
    Bad {
        damage: Damage::new(called, detail),
        revision,
        names,
        content,
    }
}
