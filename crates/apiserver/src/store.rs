//! The object store: an append-only log in SQLite below, a cache in memory above.
//!
//! `docs/storage.md` is the design. In short: [`writer`] is the one thread that speaks SQL and commits
//! writes in groups; [`shard`] holds each resource's current objects and recent events, which serve
//! every read and watch; [`object`] is the JSON with its few indexed parts. A write becomes visible
//! when it is on disk, and its caller is answered after that.

#![expect(
    clippy::similar_names,
    reason = "a shard is shared, and no other words fit as well"
)]

mod check;
#[cfg(test)]
mod damage_tests;
pub(crate) mod fields;
mod list;
mod load;
mod mark;
mod object;
mod pages;
mod record;
mod relations;
mod repair;
mod reserve;
mod shard;
mod sqlite;
#[cfg(test)]
mod tests;
mod wal;
mod watch;
mod writer;

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, mpsc};

use tokio::sync::oneshot;

pub use check::{Report, backup, check};
pub use list::{Page, Query};
pub use object::{Draft, Meta, Name, Object};
pub use relations::Reference;
pub use shard::{Change, Event, Limits};
pub use watch::{Expired, Watch};

use relations::Relations;
use shard::Shard;

/// Called on the writer's thread with every committed event, after the cache has it and before the
/// caller is answered. It must be quick.
pub type Observer = Box<dyn Fn(&Arc<str>, &Event) + Send>;

/// A handle on the store; clones share it.
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
    /// Shared by the clones, so that the writer ends with the last of them.
    commands: Arc<mpsc::Sender<writer::Command>>,
}

/// What readers and the writer share.
struct Shared {
    shards: RwLock<HashMap<Arc<str>, Arc<RwLock<Shard>>>>,
    relations: RwLock<Relations>,
    /// All shards are complete up to this revision.
    revision: AtomicU64,
    /// The history of a shard that does not exist yet starts here.
    compacted: AtomicU64,
    /// Follows `revision`, for those who wait for one.
    latest: tokio::sync::watch::Sender<u64>,
    writable: AtomicBool,
    limits: Limits,
    /// Owners that are not there and may have been lost rather than deleted.
    presumed: HashSet<Box<str>>,
    damage: Vec<Damage>,
}

/// Something in the store that was damaged, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The object or the file.
    pub subject: String,
    pub detail: String,
}

impl Damage {
    fn new(subject: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            subject: subject.into(),
            detail: detail.into(),
        }
    }
}

impl std::fmt::Display for Damage {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}: {}", self.subject, self.detail)
    }
}

/// Where the store lies and how much history it keeps.
#[derive(Debug, Clone)]
pub struct Options {
    pub directory: PathBuf,
    pub limits: Limits,
    /// Bytes of the disk that are held back, twice, for tidying up when it is full; 0 for none.
    pub reserve: u64,
}

/// A conditional change of one object.
#[derive(Debug, Clone)]
pub struct Write {
    /// `plural` or `plural.group`.
    pub resource: Arc<str>,
    pub name: Name,
    pub action: Action,
}

/// What a [`Write`] does, and what it takes for granted.
#[derive(Debug, Clone)]
pub enum Action {
    /// The name must be free, and the namespace there and not terminating.
    Create(Draft),
    /// The object must still be at this revision.
    Replace(u64, Draft),
    /// The object must still be at this revision; the draft is its last state.
    Delete(u64, Draft),
}

/// Why a single write was refused.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    #[error("the object already exists")]
    AlreadyExists,
    #[error("the object has been modified")]
    Conflict,
    #[error("the object does not exist")]
    NotFound,
    #[error("the namespace does not exist")]
    NamespaceMissing,
    #[error("the namespace is being terminated")]
    NamespaceTerminating,
    /// The group's transaction failed; nothing of it was written.
    #[error("the store cannot take writes: {0}")]
    Storage(Arc<str>),
    /// There is no room for anything new; what makes nothing larger is still taken.
    #[error(
        "the disk with the data folder is full: nothing new is taken until there is room. \
         Delete jobs that are no longer needed, or other files on this disk; reading, deleting and suspending go on"
    )]
    Full,
    #[error("the store is closed")]
    Closed,
}

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("failed to create the data directory {}", path.display())]
    CreateDirectory {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("failed to open the store {}", path.display())]
    Open {
        path: PathBuf,
        source: rusqlite::Error,
    },
    #[error("the store {} is in use by another process", path.display())]
    Locked { path: PathBuf },
    #[error("{} cannot be written; the folder and its files must be writable", path.display())]
    ReadOnly { path: PathBuf },
    #[error("the disk with {} is full; some megabytes are needed to open it", path.display())]
    Full { path: PathBuf },
    #[error("failed to repair {}", path.display())]
    Repair {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{} is not a store of this program", path.display())]
    Foreign { path: PathBuf },
    #[error("the store {} is damaged: {detail}", path.display())]
    Damaged { path: PathBuf, detail: String },
    #[error(
        "the store {} has layout version {found}, this program knows versions up to {known}; use a newer program",
        path.display()
    )]
    Newer {
        path: PathBuf,
        found: i64,
        known: i64,
    },
    #[error("failed to start the writer's thread")]
    Spawn(#[source] std::io::Error),
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Store {
    /// Opens or creates the store and rebuilds the cache from its log.
    pub fn open(options: &Options) -> Result<(Self, Pending)> {
        let (files, loaded) = sqlite::open(options)?;
        let shared = Arc::new(loaded.shared);
        let (commands, queue) = mpsc::channel();
        let pending = Pending {
            shared: Arc::clone(&shared),
            files,
            garbage: loaded.garbage,
            digest: loaded.digest,
            queue,
        };
        Ok((
            Self {
                shared,
                commands: Arc::new(commands),
            },
            pending,
        ))
    }

    /// The newest revision that every reader sees.
    pub fn revision(&self) -> u64 {
        self.shared.revision.load(Ordering::Acquire)
    }

    /// Whether writes are taken: the writer lives, and its last group could be committed.
    pub fn is_writable(&self) -> bool {
        self.shared.writable.load(Ordering::Relaxed)
    }

    /// What was found damaged when the store was opened, or before.
    pub fn damage(&self) -> &[Damage] {
        &self.shared.damage
    }

    /// Whether the owner with this uid, which is not there, may have been lost to damage. Nobody deleted it, then.
    pub fn may_be_lost(&self, uid: &str) -> bool {
        self.shared.presumed.contains(uid)
    }

    /// Waits until every reader sees this revision.
    pub async fn reaches(&self, revision: u64) {
        let mut latest = self.shared.latest.subscribe();
        // The sender lives as long as this handle.
        let _ = latest.wait_for(|latest| *latest >= revision).await;
    }

    pub fn get(&self, resource: &str, name: &Name) -> Option<Arc<Object>> {
        let shard = self.shared.shard(resource)?;
        read(&shard).get(name).cloned()
    }

    /// How many objects of a resource there are.
    pub fn count(&self, resource: &str) -> usize {
        self.shared
            .shard(resource)
            .map_or(0, |shard| read(&shard).len())
    }

    /// Every resource that has or had objects.
    pub fn resources(&self) -> Vec<Arc<str>> {
        let mut resources: Vec<_> = read(&self.shared.shards).keys().cloned().collect();
        resources.sort();
        resources
    }

    pub fn by_uid(&self, uid: &str) -> Option<Reference> {
        read(&self.shared.relations).object(uid)
    }

    /// The objects that name this uid as an owner.
    pub fn dependents(&self, uid: &str) -> Vec<Reference> {
        read(&self.shared.relations).dependents(uid)
    }

    /// Every uid that some object names as its owner.
    pub fn owner_uids(&self) -> Vec<Box<str>> {
        read(&self.shared.relations).owners()
    }

    /// Writes one object; returns when the write is on disk, with the object as committed.
    pub async fn write(&self, write: Write) -> Result<Arc<Object>, WriteError> {
        let (answer, answered) = oneshot::channel();
        let command = writer::Command::Write(write, answer);
        self.commands
            .send(command)
            .map_err(|_| WriteError::Closed)?;
        answered.await.map_err(|_| WriteError::Closed)?
    }

    /// Commits what waits, closes the file, and returns when another process may open it.
    pub async fn close(&self) {
        let (answer, answered) = oneshot::channel();
        if self.commands.send(writer::Command::Close(answer)).is_ok() {
            let _ = answered.await;
        }
    }

    /// Forgets all history, so that older revisions answer 410.
    pub async fn compact(&self) -> Result<(), WriteError> {
        let (answer, answered) = oneshot::channel();
        self.commands
            .send(writer::Command::Compact(answer))
            .map_err(|_| WriteError::Closed)?;
        answered.await.map_err(|_| WriteError::Closed)?
    }
}

/// A store whose writer has not started: everything can be read, so that observers can be set up
/// from what is there before the first event reaches them.
pub struct Pending {
    shared: Arc<Shared>,
    files: sqlite::Files,
    garbage: Vec<u64>,
    digest: record::Digest,
    queue: mpsc::Receiver<writer::Command>,
}

impl Pending {
    /// Starts the writer's thread, which ends when the last [`Store`] is dropped.
    pub fn start(self, observer: Observer) -> Result<()> {
        let writer =
            writer::Writer::new(self.shared, self.files, self.garbage, self.digest, observer);
        let queue = self.queue;
        std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || {
                // Whether it ends by a panic or in order: nothing can be written any more.
                let _end = Unwritable(Arc::clone(writer.shared()));
                writer.run(&queue);
            })
            .map(drop)
            .map_err(Error::Spawn)
    }
}

/// Says that the store takes no writes once it is dropped.
struct Unwritable(Arc<Shared>);

impl Drop for Unwritable {
    fn drop(&mut self) {
        self.0.writable.store(false, Ordering::Relaxed);
    }
}

impl Shared {
    fn shard(&self, resource: &str) -> Option<Arc<RwLock<Shard>>> {
        read(&self.shards).get(resource).cloned()
    }

    fn shard_or_new(&self, resource: &Arc<str>) -> Arc<RwLock<Shard>> {
        if let Some(shard) = self.shard(resource) {
            return shard;
        }
        let compacted = self.compacted.load(Ordering::Acquire);
        let mut shards = write(&self.shards);
        let shard = shards.entry(Arc::clone(resource));
        Arc::clone(shard.or_insert_with(|| Arc::new(RwLock::new(Shard::new(compacted)))))
    }
}

// A panic while a lock is held can only be a bug in this module's own short critical sections, which
// leave the maps usable; going on beats refusing every later request.
fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}
