//! The one thread that writes.
//!
//! It blocks for a first command, takes whatever else waits, and commits all of it in one
//! transaction. While it waits for the disk the next group gathers, so the size of a group follows
//! the load by itself.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};

use rusqlite::{OptionalExtension as _, params};
use tokio::sync::oneshot;

use super::load::save;
use super::object::{Name, Object};
use super::record::{Digest, checksum};
use super::shard::{Change, Event};
use super::sqlite::Files;
use super::{Action, Observer, Shared, Write, WriteError, read, write};

/// More would only make the first of the group wait longer.
const MAX_GROUP: usize = 512;
/// On a full disk a write may make its object larger by this much: by a condition, a time stamp, a mark of deletion.
const FRUGAL: usize = 16 << 10;
/// After this many bytes written to a full disk, as much old history is removed from it.
const UNLOAD_AFTER: usize = 1 << 20;
/// Bytes of history that stay on a full disk, for watches that come back after a restart.
const KEPT_HISTORY: usize = 512 << 10;
/// What a group takes in the write-ahead log besides its objects, about.
const GROUP_BYTES: usize = 32 << 10;
/// Rows of garbage that one group may delete beyond its own size, so that compaction never stalls.
const GARBAGE_PER_GROUP: usize = 64;

const GIVEN_UP: &str = "the disk failed; restart the server when it is well again";

type Answer<T> = oneshot::Sender<Result<T, WriteError>>;

pub(super) enum Command {
    Write(Write, Answer<Arc<Object>>),
    Compact(Answer<()>),
    Close(oneshot::Sender<()>),
}

pub(super) struct Writer {
    shared: Arc<Shared>,
    files: Files,
    garbage: VecDeque<u64>,
    /// What the log holds.
    digest: Digest,
    /// The highest revision whose history is not on disk any more.
    compacted: u64,
    /// Bytes that were written on a full disk since history was last taken off it.
    squeezed: usize,
    /// The disk failed, and what it holds is known after the next start only.
    given_up: bool,
    observer: Observer,
}

impl Drop for Writer {
    /// However it ends, nothing is written after it.
    fn drop(&mut self) {
        self.shared.writable.store(false, Ordering::Relaxed);
        let _ = self.files.mark.sync();
    }
}

/// An event of the group under way.
struct Staged {
    resource: Arc<str>,
    event: Event,
}

/// The state of names that the group under way has already changed; `None` is deleted.
type Overlay = HashMap<Arc<str>, HashMap<Name, Option<Arc<Object>>>>;

impl Writer {
    pub(super) fn new(
        shared: Arc<Shared>,
        files: Files,
        garbage: Vec<u64>,
        digest: Digest,
        observer: Observer,
    ) -> Self {
        let compacted = shared.compacted.load(Ordering::Acquire);
        Self {
            shared,
            files,
            garbage: garbage.into(),
            digest,
            compacted,
            squeezed: 0,
            given_up: false,
            observer,
        }
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Runs until every sender is gone.
    pub(super) fn run(mut self, queue: &mpsc::Receiver<Command>) {
        while let Ok(first) = queue.recv() {
            let mut writes = Vec::new();
            let mut compactions = Vec::new();
            let mut closing = None;
            let waiting = std::iter::once(first).chain(queue.try_iter().take(MAX_GROUP - 1));
            for command in waiting {
                match command {
                    Command::Write(write, answer) => writes.push((write, answer)),
                    Command::Compact(answer) => compactions.push(answer),
                    Command::Close(answer) => closing = Some(answer),
                }
            }
            if !writes.is_empty() {
                self.commit(writes);
            }
            for answer in compactions {
                let result = if self.given_up {
                    Err(WriteError::Storage(GIVEN_UP.into()))
                } else {
                    self.compact()
                };
                let _ = answer.send(result);
            }
            if let Some(answer) = closing {
                drop(self);
                let _ = answer.send(());
                return;
            }
        }
    }

    fn commit(&mut self, writes: Vec<(Write, Answer<Arc<Object>>)>) {
        if self.given_up {
            for (_, answer) in writes {
                let _ = answer.send(Err(WriteError::Storage(GIVEN_UP.into())));
            }
            return;
        }
        let is_tight = !self.files.reserve.is_whole();
        if is_tight {
            self.shared.writable.store(false, Ordering::Relaxed);
        }
        if let Some(writes) = self.try_commit(writes, is_tight) {
            // The disk is full after all. What makes nothing larger is tried again with the room that history took.
            self.make_room(0);
            self.try_commit(writes, true);
        }
    }

    /// Commits a group. Gives it back when the disk is full and it was not yet `tight`.
    fn try_commit(
        &mut self,
        writes: Vec<(Write, Answer<Arc<Object>>)>,
        is_tight: bool,
    ) -> Option<Vec<(Write, Answer<Arc<Object>>)>> {
        let mut overlay = Overlay::new();
        let mut staged: Vec<Staged> = Vec::with_capacity(writes.len());
        let mut accepted = Vec::with_capacity(writes.len());
        let mut refused = Vec::new();
        let mut revision = self.shared.revision.load(Ordering::Acquire);
        for (write, answer) in writes {
            match stage(&self.shared, &mut overlay, &write, revision + 1, is_tight) {
                Ok(event) => {
                    revision += 1;
                    staged.push(Staged {
                        resource: Arc::clone(&write.resource),
                        event,
                    });
                    accepted.push((write, answer));
                }
                Err(error) => refused.push((write, answer, error)),
            }
        }
        if staged.is_empty() {
            refuse(refused);
            return None;
        }
        let deletable = self.garbage.len().min(staged.len() + GARBAGE_PER_GROUP);
        match self.append(&staged, deletable) {
            Ok(digest) => {
                match self.files.mark.set(revision) {
                    Ok(()) => {}
                    // An older mark notices less.
                    Err(error) if is_no_room(&error) => {
                        tracing::warn!(%error, "failed to note the newest revision");
                    }
                    Err(error) => {
                        let refused = refused
                            .into_iter()
                            .map(|(write, answer, _)| (write, answer));
                        let all = accepted.into_iter().chain(refused);
                        self.give_up(&error, all.map(|(_, answer)| answer));
                        return None;
                    }
                }
                self.digest = digest;
                self.garbage.drain(..deletable);
                self.shared.writable.store(!is_tight, Ordering::Relaxed);
                let bytes: usize = staged.iter().map(|one| one.event.object.json.len()).sum();
                let answers = accepted.into_iter().map(|(_, answer)| answer).collect();
                self.publish(staged, answers, revision);
                // Not before: what stands in the way of a write must be there for whoever looks for it.
                refuse(refused);
                self.squeeze(is_tight, bytes);
            }
            Err(error) => {
                self.shared.writable.store(false, Ordering::Relaxed);
                let refused = refused
                    .into_iter()
                    .map(|(write, answer, _)| (write, answer));
                accepted.extend(refused);
                if is_full(&error) && !is_tight {
                    return Some(accepted);
                }
                tracing::error!(%error, writes = staged.len(), "failed to commit a group of writes");
                let reason: Arc<str> = reason(&error).into();
                for (_, answer) in accepted {
                    let refusal = if is_full(&error) {
                        WriteError::Full
                    } else {
                        WriteError::Storage(Arc::clone(&reason))
                    };
                    let _ = answer.send(Err(refusal));
                }
            }
        }
        None
    }

    /// A disk that fails while it is written to may have called a group synced that it has lost. So nothing is said of the
    /// group, and nothing is built upon it: the next start sees which it was.
    fn give_up(
        &mut self,
        error: &std::io::Error,
        answers: impl Iterator<Item = Answer<Arc<Object>>>,
    ) {
        tracing::error!(%error, "the disk failed; nothing is written until the server is restarted");
        self.shared.writable.store(false, Ordering::Relaxed);
        self.given_up = true;
        for answer in answers {
            let _ = answer.send(Err(WriteError::Storage(GIVEN_UP.into())));
        }
    }

    /// Keeps what is written on a full disk from growing.
    fn squeeze(&mut self, is_tight: bool, bytes: usize) {
        if !is_tight {
            self.squeezed = 0;
            return;
        }
        if self.squeezed == 0 || self.squeezed > UNLOAD_AFTER {
            self.squeezed = 0;
            self.make_room(KEPT_HISTORY);
        }
        self.squeezed += bytes + GROUP_BYTES;
    }

    /// Removes all but this many bytes of history from the disk, and restarts the write-ahead log within the room that it has.
    /// Memory still has the history, and watches that are there miss nothing.
    fn make_room(&mut self, kept: usize) {
        let checkpoint = |files: &Files| {
            let busy = |row: &rusqlite::Row<'_>| row.get::<_, i64>(0);
            files
                .connection
                .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], busy)
                .map_err(|error| WriteError::Storage(reason(&error).into()))
        };
        let made = checkpoint(&self.files)
            .and_then(|_| self.unload(kept))
            .and_then(|()| checkpoint(&self.files));
        if let Err(error) = made {
            tracing::warn!(%error, "failed to make room on a full disk");
        }
    }

    /// Appends the group to the log. Returns what the log then holds.
    fn append(&mut self, staged: &[Staged], deletable: usize) -> rusqlite::Result<Digest> {
        let mut digest = self.digest;
        let transaction = self.files.connection.transaction()?;
        {
            let mut insert = transaction.prepare_cached(
                "INSERT INTO log (revision, resource, namespace, name, verb, body, checksum)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?;
            for Staged { resource, event } in staged {
                let object = &event.object;
                let (namespace, name) = (&*object.name.namespace, &*object.name.name);
                let verb = event.change as u8;
                let names = [&**resource, namespace, name];
                let checksum = checksum(object.revision, names, verb, &object.json);
                insert.execute(params![
                    object.revision.cast_signed(),
                    &**resource,
                    namespace,
                    name,
                    verb,
                    &object.json[..],
                    checksum,
                ])?;
                digest.add(checksum);
            }
            remove(&transaction, self.garbage.range(..deletable), &mut digest)?;
            save(&transaction, self.compacted, digest)?;
        }
        transaction.commit()?;
        Ok(digest)
    }

    /// Makes a committed group visible, then answers.
    fn publish(&mut self, staged: Vec<Staged>, waiting: Vec<Answer<Arc<Object>>>, revision: u64) {
        let mut touched: Vec<Arc<str>> = Vec::new();
        let mut answers = Vec::with_capacity(staged.len());
        for (Staged { resource, event }, answer) in staged.into_iter().zip(waiting) {
            write(&self.shared.relations).apply(&resource, &event);
            let shard = self.shared.shard_or_new(&resource);
            let mut shard = write(&shard);
            let garbage = shard.apply(event.clone(), self.shared.limits);
            if !garbage.is_empty() {
                self.garbage.extend(garbage);
                self.compacted = self.compacted.max(shard.compacted);
            }
            drop(shard);
            answers.push((answer, resource.clone(), event));
            if !touched.contains(&resource) {
                touched.push(resource);
            }
        }
        self.shared.revision.store(revision, Ordering::Release);
        self.shared.latest.send_replace(revision);
        for (_, resource, event) in &answers {
            (self.observer)(resource, event);
        }
        for resource in touched {
            let shard = self.shared.shard_or_new(&resource);
            read(&shard).wake.send_replace(revision);
        }
        for (answer, _, event) in answers {
            let _ = answer.send(Ok(event.object));
        }
    }

    fn compact(&mut self) -> Result<(), WriteError> {
        let shards: Vec<_> = read(&self.shared.shards).values().cloned().collect();
        for shard in shards {
            let mut shard = write(&shard);
            self.garbage.extend(shard.forget());
            self.compacted = self.compacted.max(shard.compacted);
            // Watchers behind the horizon learn of it at once.
            shard.wake.send_replace(self.compacted);
        }
        self.collect()
    }

    fn unload(&mut self, kept: usize) -> Result<(), WriteError> {
        let shards: Vec<_> = read(&self.shared.shards).values().cloned().collect();
        let mut history: Vec<(u64, usize)> = Vec::new();
        for shard in &shards {
            history.extend(read(shard).history());
        }
        history.sort_unstable_by_key(|(revision, _)| std::cmp::Reverse(*revision));
        let mut bytes = 0;
        let until = history.into_iter().find_map(|(revision, size)| {
            bytes += size;
            (bytes > kept).then_some(revision)
        });
        if let Some(until) = until {
            for shard in &shards {
                self.garbage.extend(write(shard).unload_until(until));
            }
            self.compacted = self.compacted.max(until);
        }
        self.collect()
    }

    /// Deletes all garbage.
    fn collect(&mut self) -> Result<(), WriteError> {
        let mut digest = self.digest;
        let deleted: rusqlite::Result<()> = (|| {
            let transaction = self.files.connection.transaction()?;
            remove(&transaction, self.garbage.iter(), &mut digest)?;
            save(&transaction, self.compacted, digest)?;
            transaction.commit()
        })();
        match deleted {
            Ok(()) => {
                self.digest = digest;
                self.garbage.clear();
                Ok(())
            }
            Err(error) => Err(WriteError::Storage(reason(&error).into())),
        }
    }
}

/// Tells why a write was not taken. The caller may have gone; nothing was promised to it.
fn refuse(refused: Vec<(Write, Answer<Arc<Object>>, WriteError)>) {
    for (_, answer, error) in refused {
        let _ = answer.send(Err(error));
    }
}

/// Deletes rows of the log.
fn remove<'a>(
    connection: &rusqlite::Connection,
    revisions: impl Iterator<Item = &'a u64>,
    digest: &mut Digest,
) -> rusqlite::Result<()> {
    let mut delete =
        connection.prepare_cached("DELETE FROM log WHERE revision = ?1 RETURNING checksum")?;
    for revision in revisions {
        let checksum = delete
            .query_row([revision.cast_signed()], |row| row.get::<_, Option<u32>>(0))
            .optional()?;
        if let Some(checksum) = checksum {
            digest.remove(checksum.unwrap_or(0));
        }
    }
    Ok(())
}

/// Checks one write against the newest state and makes its event.
fn stage(
    shared: &Shared,
    overlay: &mut Overlay,
    write: &Write,
    revision: u64,
    is_tight: bool,
) -> Result<Event, WriteError> {
    let Write {
        resource,
        name,
        action,
    } = write;
    let previous = newest(shared, overlay, resource, name);
    let (change, draft) = match (action, &previous) {
        (Action::Create(_), Some(_)) => return Err(WriteError::AlreadyExists),
        (Action::Create(_), None) if is_tight => return Err(WriteError::Full),
        (Action::Create(draft), None) => {
            if !name.namespace.is_empty() {
                let namespace = newest(
                    shared,
                    overlay,
                    "namespaces",
                    &Name::new("", &name.namespace),
                );
                match namespace {
                    None => return Err(WriteError::NamespaceMissing),
                    Some(namespace) if namespace.meta.terminating => {
                        return Err(WriteError::NamespaceTerminating);
                    }
                    Some(_) => {}
                }
            }
            (Change::Added, draft)
        }
        (Action::Replace(..) | Action::Delete(..), None) => return Err(WriteError::NotFound),
        (Action::Replace(expected, _) | Action::Delete(expected, _), Some(current))
            if current.revision != *expected =>
        {
            return Err(WriteError::Conflict);
        }
        (Action::Replace(_, draft), Some(current))
            if is_tight && draft.len() > current.json.len() + FRUGAL =>
        {
            return Err(WriteError::Full);
        }
        (Action::Replace(_, draft), Some(_)) => (Change::Modified, draft),
        (Action::Delete(_, draft), Some(_)) => (Change::Deleted, draft),
    };
    let object = Arc::new(draft.finish(name.clone(), revision));
    let state = (change != Change::Deleted).then(|| Arc::clone(&object));
    overlay
        .entry(Arc::clone(resource))
        .or_default()
        .insert(name.clone(), state);
    Ok(Event {
        change,
        object,
        previous,
    })
}

fn newest(shared: &Shared, overlay: &Overlay, resource: &str, name: &Name) -> Option<Arc<Object>> {
    if let Some(state) = overlay.get(resource).and_then(|names| names.get(name)) {
        return state.clone();
    }
    let shard = shared.shard(resource)?;
    read(&shard).get(name).cloned()
}

fn is_full(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull)
}

fn is_no_room(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded)
}

/// What to tell a caller: the cause, without paths or SQL.
fn reason(error: &rusqlite::Error) -> &'static str {
    use rusqlite::ErrorCode as Code;
    match error.sqlite_error_code() {
        Some(Code::DiskFull) => "no space left on the device",
        Some(Code::ReadOnly) => "the store is read-only",
        Some(Code::SystemIoFailure) => "the device reports an input/output error",
        Some(Code::DatabaseCorrupt | Code::NotADatabase) => {
            "the store's file is damaged; a restart keeps what can be read"
        }
        Some(Code::DatabaseBusy | Code::DatabaseLocked) => "the store's file is locked",
        _ => "the storage engine reports an error",
    }
}
