//! The one thread that writes.
//!
//! It blocks for a first command, takes whatever else waits, and commits all of it in one
//! transaction. While it waits for the disk the next group gathers, so the size of a group follows
//! the load by itself.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};

use rusqlite::{Connection, params};
use tokio::sync::oneshot;

use super::object::{Name, Object};
use super::shard::{Change, Event};
use super::{Action, Observer, Shared, Write, WriteError, read, write};

/// More would only make the first of the group wait longer.
const MAX_GROUP: usize = 512;
/// Rows of garbage that one group may delete beyond its own size, so that compaction never stalls.
const GARBAGE_PER_GROUP: usize = 64;

type Answer<T> = oneshot::Sender<Result<T, WriteError>>;

pub(super) enum Command {
    Write(Write, Answer<Arc<Object>>),
    Compact(Answer<()>),
    Close(oneshot::Sender<()>),
}

pub(super) struct Writer {
    shared: Arc<Shared>,
    connection: Connection,
    garbage: VecDeque<u64>,
    /// The highest revision that some ring has dropped.
    compacted: u64,
    observer: Observer,
}

/// An event of the group under way, and who waits for it.
struct Staged {
    resource: Arc<str>,
    event: Event,
    answer: Answer<Arc<Object>>,
}

/// The state of names that the group under way has already changed; `None` is deleted.
type Overlay = HashMap<Arc<str>, HashMap<Name, Option<Arc<Object>>>>;

impl Writer {
    pub(super) fn new(
        shared: Arc<Shared>,
        connection: Connection,
        garbage: Vec<u64>,
        observer: Observer,
    ) -> Self {
        let compacted = shared.compacted.load(Ordering::Acquire);
        Self {
            shared,
            connection,
            garbage: garbage.into(),
            compacted,
            observer,
        }
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
                let result = self.compact();
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
        let mut overlay = Overlay::new();
        let mut staged: Vec<Staged> = Vec::with_capacity(writes.len());
        let mut revision = self.shared.revision.load(Ordering::Acquire);
        for (write, answer) in writes {
            match stage(&self.shared, &mut overlay, write, revision + 1) {
                Ok((resource, event)) => {
                    revision += 1;
                    staged.push(Staged {
                        resource,
                        event,
                        answer,
                    });
                }
                // The caller may have gone; nothing was promised to it.
                Err(error) => drop(answer.send(Err(error))),
            }
        }
        if staged.is_empty() {
            return;
        }
        let deletable = self.garbage.len().min(staged.len() + GARBAGE_PER_GROUP);
        match self.append(&staged, deletable) {
            Ok(()) => {
                self.garbage.drain(..deletable);
                self.shared.writable.store(true, Ordering::Relaxed);
                self.publish(staged, revision);
            }
            Err(error) => {
                self.shared.writable.store(false, Ordering::Relaxed);
                tracing::error!(%error, writes = staged.len(), "failed to commit a group of writes");
                let reason: Arc<str> = reason(&error).into();
                for Staged { answer, .. } in staged {
                    let _ = answer.send(Err(WriteError::Storage(Arc::clone(&reason))));
                }
            }
        }
    }

    fn append(&mut self, staged: &[Staged], deletable: usize) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction()?;
        {
            let mut insert = transaction.prepare_cached(
                "INSERT INTO log (revision, resource, namespace, name, verb, body)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?;
            for Staged {
                resource, event, ..
            } in staged
            {
                let object = &event.object;
                insert.execute(params![
                    object.revision.cast_signed(),
                    &**resource,
                    &*object.name.namespace,
                    &*object.name.name,
                    event.change as u8,
                    &object.json[..],
                ])?;
            }
            if deletable > 0 {
                let mut delete =
                    transaction.prepare_cached("DELETE FROM log WHERE revision = ?1")?;
                for revision in self.garbage.range(..deletable) {
                    delete.execute([revision.cast_signed()])?;
                }
                save_compacted(&transaction, self.compacted)?;
            }
        }
        transaction.commit()
    }

    /// Makes a committed group visible, then answers.
    fn publish(&mut self, staged: Vec<Staged>, revision: u64) {
        let mut touched: Vec<Arc<str>> = Vec::new();
        let mut answers = Vec::with_capacity(staged.len());
        for Staged {
            resource,
            event,
            answer,
        } in staged
        {
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
        let deleted: rusqlite::Result<()> = (|| {
            let transaction = self.connection.transaction()?;
            {
                let mut delete =
                    transaction.prepare_cached("DELETE FROM log WHERE revision = ?1")?;
                for revision in &self.garbage {
                    delete.execute([revision.cast_signed()])?;
                }
                save_compacted(&transaction, self.compacted)?;
            }
            transaction.commit()
        })();
        match deleted {
            Ok(()) => {
                self.garbage.clear();
                Ok(())
            }
            Err(error) => Err(WriteError::Storage(reason(&error).into())),
        }
    }
}

/// Checks one write against the newest state and makes its event.
fn stage(
    shared: &Shared,
    overlay: &mut Overlay,
    write: Write,
    revision: u64,
) -> Result<(Arc<str>, Event), WriteError> {
    let Write {
        resource,
        name,
        action,
    } = write;
    let previous = newest(shared, overlay, &resource, &name);
    let (change, draft) = match (action, &previous) {
        (Action::Create(_), Some(_)) => return Err(WriteError::AlreadyExists),
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
            if current.revision != expected =>
        {
            return Err(WriteError::Conflict);
        }
        (Action::Replace(_, draft), Some(_)) => (Change::Modified, draft),
        (Action::Delete(_, draft), Some(_)) => (Change::Deleted, draft),
    };
    let object = Arc::new(draft.finish(name.clone(), revision));
    let state = (change != Change::Deleted).then(|| Arc::clone(&object));
    overlay
        .entry(Arc::clone(&resource))
        .or_default()
        .insert(name, state);
    Ok((
        resource,
        Event {
            change,
            object,
            previous,
        },
    ))
}

fn newest(shared: &Shared, overlay: &Overlay, resource: &str, name: &Name) -> Option<Arc<Object>> {
    if let Some(state) = overlay.get(resource).and_then(|names| names.get(name)) {
        return state.clone();
    }
    let shard = shared.shard(resource)?;
    read(&shard).get(name).cloned()
}

fn save_compacted(connection: &Connection, revision: u64) -> rusqlite::Result<()> {
    connection
        .prepare_cached("INSERT OR REPLACE INTO meta (key, value) VALUES ('compacted', ?1)")?
        .execute([revision.cast_signed()])
        .map(drop)
}

/// What to tell a caller: the cause, without paths or SQL.
fn reason(error: &rusqlite::Error) -> &'static str {
    use rusqlite::ErrorCode as Code;
    match error.sqlite_error_code() {
        Some(Code::DiskFull) => "no space left on the device",
        Some(Code::ReadOnly) => "the store is read-only",
        Some(Code::SystemIoFailure) => "the device reports an input/output error",
        Some(Code::DatabaseCorrupt | Code::NotADatabase) => "the store's file is damaged",
        Some(Code::DatabaseBusy | Code::DatabaseLocked) => "the store's file is locked",
        _ => "the storage engine reports an error",
    }
}
