//! The store against a model, and on files that it did not write.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    Action, Change, Draft, Error, Limits, Name, Object, Options, Query, Store, Watch, Write,
    WriteError,
};

const RESOURCE: &str = "things.example.org";

/// A runtime for one case; the store's writer has a thread of its own.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime")
        .block_on(future)
}

fn open(directory: &std::path::Path, limits: Limits) -> Store {
    let options = Options {
        directory: directory.to_owned(),
        limits,
        reserve: 0,
    };
    let (store, pending) = Store::open(&options).expect("the store opens");
    pending
        .start(Box::new(|_, _| ()))
        .expect("the writer starts");
    store
}

fn value(name: &str, content: u32) -> Value {
    json!({
        "apiVersion": "example.org/v1", "kind": "Thing",
        "metadata": { "name": name, "uid": name, "labels": { "parity": (content % 2).to_string() } },
        "spec": { "content": content },
    })
}

async fn write(store: &Store, name: &str, action: Action) -> Result<Arc<Object>, WriteError> {
    store
        .write(Write {
            resource: RESOURCE.into(),
            name: Name::new("", name),
            action,
        })
        .await
}

fn content(object: &Object) -> u32 {
    let content = object.value()["spec"]["content"]
        .as_u64()
        .expect("a number");
    content.try_into().expect("it was a u32")
}

#[test]
fn whoever_is_told_that_a_name_is_taken_finds_what_has_it() {
    let directory = tempfile::tempdir().expect("a folder");
    let options = Options {
        directory: directory.path().to_owned(),
        limits: Limits::default(),
        reserve: 0,
    };
    let (store, pending) = Store::open(&options).expect("the store opens");
    let create = |content| Action::Create(Draft::new(RESOURCE, &value("a", content)));
    let second = async {
        let answer = write(&store, "a", create(2)).await;
        (answer, store.get(RESOURCE, &Name::new("", "a")))
    };
    // Both wait for the writer before it starts, and so are of one group.
    let start = async {
        pending
            .start(Box::new(|_, _| ()))
            .expect("the writer starts");
    };
    let (first, (refused, found), ()) = block_on(futures::future::join3(
        write(&store, "a", create(1)),
        second,
        start,
    ));
    assert_eq!(content(&first.expect("the first is taken")), 1);
    assert!(matches!(refused, Err(WriteError::AlreadyExists)));
    assert_eq!(found.map(|found| content(&found)), Some(1));
}

#[derive(Debug, Clone)]
enum Step {
    Create(u8, u32),
    Replace(u8, u32),
    Delete(u8),
    /// Writes on a revision that is no longer the newest.
    Stale(u8),
    /// Takes the watch's events.
    Watch,
    Compact,
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    let name = 0..6_u8;
    prop_oneof![
        6 => (name.clone(), any::<u32>()).prop_map(|(name, content)| Step::Create(name, content)),
        8 => (name.clone(), any::<u32>()).prop_map(|(name, content)| Step::Replace(name, content)),
        4 => name.clone().prop_map(Step::Delete),
        1 => name.prop_map(Step::Stale),
        4 => Just(Step::Watch),
        1 => Just(Step::Compact),
        1 => Just(Step::Reopen),
    ]
}

type State = BTreeMap<String, (u64, u32)>;

/// The model: what the store must say, and what a watcher has seen.
struct Model {
    state: State,
    /// The state after each revision.
    past: BTreeMap<u64, State>,
    revision: u64,
    watched: State,
}

impl Model {
    fn wrote(&mut self, name: &str, revision: u64, content: Option<u32>) {
        assert!(revision > self.revision, "revisions only grow");
        self.revision = revision;
        match content {
            Some(content) => self.state.insert(name.to_owned(), (revision, content)),
            None => self.state.remove(name),
        };
        self.past.insert(revision, self.state.clone());
    }

    /// Follows the watch, or lists again when it has fallen behind.
    fn watch(&mut self, store: &Store, watch: &mut Watch) {
        let Ok(events) = watch.take(usize::MAX) else {
            let page = store
                .list(RESOURCE, &Query::default())
                .expect("the newest state");
            self.watched = listed(&page.objects);
            *watch = store
                .watch(&RESOURCE.into(), page.revision)
                .expect("a fresh watch");
            return;
        };
        for event in events {
            let (name, object) = (event.object.name.name.to_string(), &event.object);
            let known = self.watched.get(&name).copied();
            assert_eq!(
                known.is_some(),
                event.change != Change::Added,
                "{name} {:?}",
                event.change
            );
            assert!(
                known.is_none_or(|(revision, _)| revision < object.revision),
                "in order, once"
            );
            let previous = event.previous.as_ref().map(|previous| previous.revision);
            assert_eq!(previous, known.map(|(revision, _)| revision));
            if event.change == Change::Deleted {
                self.watched.remove(&name);
            } else {
                self.watched
                    .insert(name, (object.revision, content(object)));
            }
        }
        assert_eq!(self.watched, self.state, "the watch tells the whole story");
    }

    fn check(&self, store: &Store) {
        let page = store
            .list(RESOURCE, &Query::default())
            .expect("the newest state");
        assert_eq!(listed(&page.objects), self.state);
        assert!(page.revision >= self.revision);
        let odd = [("parity".to_owned(), "1".to_owned())];
        let query = Query {
            labels: &odd,
            ..Query::default()
        };
        let page = store.list(RESOURCE, &query).expect("the newest state");
        let mut want = self.state.clone();
        want.retain(|_, (_, content)| *content % 2 == 1);
        assert_eq!(listed(&page.objects), want, "the index agrees");
        for (revision, state) in &self.past {
            let query = Query {
                at: Some(*revision),
                ..Query::default()
            };
            // Either the past as it was, or an honest "expired".
            if let Ok(page) = store.list(RESOURCE, &query) {
                assert_eq!(listed(&page.objects), *state, "the state at {revision}");
                assert_eq!(page.revision, *revision);
            }
            let query = Query {
                at: Some(*revision),
                limit: 2,
                ..Query::default()
            };
            if let Ok(page) = store.list(RESOURCE, &query) {
                assert_eq!(page.more, state.len() > 2);
            }
        }
    }
}

fn listed(objects: &[Arc<Object>]) -> State {
    let entry = |object: &Arc<Object>| {
        (
            object.name.name.to_string(),
            (object.revision, content(object)),
        )
    };
    objects.iter().map(entry).collect()
}

async fn run(steps: &[Step], limits: Limits) {
    let directory = tempfile::tempdir().expect("a directory");
    let mut store = open(directory.path(), limits);
    let mut model = Model {
        state: State::new(),
        past: BTreeMap::new(),
        revision: store.revision(),
        watched: State::new(),
    };
    let mut watch = store
        .watch(&RESOURCE.into(), store.revision())
        .expect("a watch");
    for step in steps {
        match step {
            Step::Create(name, content) => {
                let name = format!("n{name}");
                let draft = Draft::new(RESOURCE, &value(&name, *content));
                match write(&store, &name, Action::Create(draft)).await {
                    Ok(object) => model.wrote(&name, object.revision, Some(*content)),
                    Err(WriteError::AlreadyExists) => assert!(model.state.contains_key(&name)),
                    Err(error) => panic!("create: {error}"),
                }
            }
            Step::Replace(name, content) => {
                let name = format!("n{name}");
                let current = model.state.get(&name).map_or(0, |(revision, _)| *revision);
                let draft = Draft::new(RESOURCE, &value(&name, *content));
                match write(&store, &name, Action::Replace(current, draft)).await {
                    Ok(object) => model.wrote(&name, object.revision, Some(*content)),
                    Err(WriteError::NotFound) => assert!(!model.state.contains_key(&name)),
                    Err(error) => panic!("replace: {error}"),
                }
            }
            Step::Delete(name) => {
                let name = format!("n{name}");
                let (current, content) = model.state.get(&name).copied().unwrap_or((0, 0));
                let draft = Draft::new(RESOURCE, &value(&name, content));
                match write(&store, &name, Action::Delete(current, draft)).await {
                    Ok(object) => model.wrote(&name, object.revision, None),
                    Err(WriteError::NotFound) => assert!(!model.state.contains_key(&name)),
                    Err(error) => panic!("delete: {error}"),
                }
            }
            Step::Stale(name) => {
                let name = format!("n{name}");
                let known = model.state.contains_key(&name);
                let draft = Draft::new(RESOURCE, &value(&name, 0));
                let refused = write(&store, &name, Action::Replace(u64::MAX, draft)).await;
                match refused.expect_err("nothing has this revision") {
                    WriteError::Conflict => assert!(known),
                    WriteError::NotFound => assert!(!known),
                    error => panic!("stale: {error}"),
                }
            }
            Step::Watch => model.watch(&store, &mut watch),
            Step::Compact => store.compact().await.expect("compaction"),
            Step::Reopen => {
                let revision = watch.revision();
                store.close().await;
                store = open(directory.path(), limits);
                watch = if let Ok(watch) = store.watch(&RESOURCE.into(), revision) {
                    watch
                } else {
                    let page = store.list(RESOURCE, &Query::default()).expect("a list");
                    model.watched = listed(&page.objects);
                    store
                        .watch(&RESOURCE.into(), page.revision)
                        .expect("a fresh watch")
                };
            }
        }
        model.check(&store);
    }
    model.watch(&store, &mut watch);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn the_store_and_its_watches_equal_the_model(steps in prop::collection::vec(step(), 1..40)) {
        block_on(run(&steps, Limits::default()));
    }

    #[test]
    fn so_they_do_when_history_is_short(steps in prop::collection::vec(step(), 1..40)) {
        block_on(run(&steps, Limits { events: 5, bytes: 600 }));
    }
}

#[test]
fn old_rows_are_deleted_and_the_newest_stay() {
    block_on(async {
        let directory = tempfile::tempdir().unwrap();
        let limits = Limits {
            events: 4,
            bytes: 1 << 20,
        };
        let store = open(directory.path(), limits);
        let draft = |content| Draft::new(RESOURCE, &value("a", content));
        let mut object = write(&store, "a", Action::Create(draft(0))).await.unwrap();
        for content in 1..200 {
            object = write(
                &store,
                "a",
                Action::Replace(object.revision, draft(content)),
            )
            .await
            .unwrap();
        }
        store.close().await;
        let connection = rusqlite::Connection::open(directory.path().join("store.db")).unwrap();
        let rows: i64 = connection
            .query_row("SELECT count(*) FROM log", [], |row| row.get(0))
            .unwrap();
        assert!(rows < 20, "{rows} rows are left");
        drop(connection);
        let store = open(directory.path(), limits);
        let found = store.get(RESOURCE, &Name::new("", "a")).unwrap();
        assert_eq!((found.revision, content(&found)), (object.revision, 199));
        let next = write(&store, "b", Action::Create(draft(0))).await.unwrap();
        assert!(next.revision > object.revision);
    });
}

#[test]
fn what_is_not_ours_or_newer_or_in_use_is_refused_and_left_alone() {
    let try_open = |directory: &std::path::Path| {
        let options = Options {
            directory: directory.to_owned(),
            limits: Limits::default(),
            reserve: 0,
        };
        Store::open(&options)
            .map(drop)
            .expect_err("it must be refused")
    };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");

    std::fs::write(
        &path,
        "this is a diary, not a database, and it is long enough to be read",
    )
    .unwrap();
    let before = std::fs::read(&path).unwrap();
    assert!(matches!(try_open(directory.path()), Error::Foreign { .. }));
    assert_eq!(std::fs::read(&path).unwrap(), before);

    std::fs::remove_file(&path).unwrap();
    let foreign = rusqlite::Connection::open(&path).unwrap();
    foreign
        .execute_batch("CREATE TABLE recipes (name TEXT)")
        .unwrap();
    drop(foreign);
    assert!(matches!(try_open(directory.path()), Error::Foreign { .. }));

    std::fs::remove_file(&path).unwrap();
    let store = open(directory.path(), Limits::default());
    assert!(matches!(try_open(directory.path()), Error::Locked { .. }));
    block_on(store.close());
    drop(store);

    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.pragma_update(None, "user_version", 99).unwrap();
    connection
        .execute("UPDATE meta SET value = 99 WHERE key = 'layout'", [])
        .unwrap();
    drop(connection);
    let error = try_open(directory.path());
    assert!(matches!(error, Error::Newer { found: 99, .. }), "{error}");
}

#[test]
fn a_full_disk_refuses_writes_and_keeps_reads() {
    block_on(async {
        let directory = tempfile::tempdir().unwrap();
        let options = Options {
            directory: directory.path().to_owned(),
            limits: Limits::default(),
            reserve: 0,
        };
        let (store, pending) = Store::open(&options).unwrap();
        // As large as it may get: the engine then says what it says when the disk is full.
        pending
            .files
            .connection
            .pragma_update(None, "max_page_count", 40)
            .unwrap();
        pending.start(Box::new(|_, _| ())).unwrap();
        let big = |name: &str| {
            let mut value = value(name, 1);
            value["spec"]["text"] = "x".repeat(20_000).into();
            Action::Create(Draft::new(RESOURCE, &value))
        };
        let mut written = 0;
        let error = loop {
            let name = format!("n{written}");
            match write(&store, &name, big(&name)).await {
                Ok(_) => written += 1,
                Err(error) => break error,
            }
            assert!(written < 100, "the limit must bite");
        };
        assert!(matches!(error, WriteError::Full), "{error}");
        assert!(error.to_string().contains("Delete jobs"), "{error}");
        assert!(!store.is_writable());
        assert_eq!(store.count(RESOURCE), written);
        let last = Name::new("", &format!("n{}", written - 1));
        let object = store.get(RESOURCE, &last).expect("reads go on");
        let draft = Draft::new(RESOURCE, &value(&last.name, 2));
        let gone = write(&store, &last.name, Action::Delete(object.revision, draft)).await;
        assert!(gone.is_ok(), "a small write still fits: {gone:?}");
        assert!(store.is_writable());
    });
}

#[test]
fn a_full_disk_takes_nothing_from_watches_and_little_from_those_that_come_back() {
    block_on(async {
        let directory = tempfile::tempdir().unwrap();
        let mut options = Options {
            directory: directory.path().to_owned(),
            limits: Limits::default(),
            reserve: 0,
        };
        let draft = |content| {
            let mut value = value("a", content);
            value["spec"]["text"] = "x".repeat(10_000).into();
            Draft::new(RESOURCE, &value)
        };
        let store = open(directory.path(), options.limits);
        let mut object = write(&store, "a", Action::Create(draft(0))).await.unwrap();
        store.close().await;
        // No disk has as much room.
        options.reserve = 1 << 60;
        let (store, pending) = Store::open(&options).unwrap();
        pending.start(Box::new(|_, _| ())).unwrap();
        let mut watch = store.watch(&RESOURCE.into(), object.revision).unwrap();
        let refused = write(&store, "b", Action::Create(draft(0))).await;
        assert!(matches!(refused, Err(WriteError::Full)), "{refused:?}");
        let mut revisions = Vec::new();
        for content in 1..=300 {
            let replace = Action::Replace(object.revision, draft(content));
            object = write(&store, "a", replace).await.unwrap();
            revisions.push(object.revision);
        }
        let events = watch.take(usize::MAX).expect("memory has all of it");
        let seen: Vec<u64> = events.iter().map(|event| event.object.revision).collect();
        assert_eq!(seen, revisions);
        let connection = rusqlite::Connection::open(directory.path().join("store.db")).unwrap();
        let bytes: i64 = connection
            .query_row("SELECT sum(length(body)) FROM log", [], |row| row.get(0))
            .unwrap();
        assert!(bytes < 2 << 20, "{bytes} bytes of 3,000,000 are left");
        drop(connection);
        store.close().await;
        let store = open(directory.path(), options.limits);
        let recent = revisions[revisions.len() - 40];
        let mut watch = store.watch(&RESOURCE.into(), recent).unwrap();
        assert_eq!(watch.take(usize::MAX).unwrap().len(), 39);
        assert!(store.watch(&RESOURCE.into(), revisions[0]).is_err());
    });
}

#[test]
fn what_a_failing_disk_called_synced_is_not_acknowledged() {
    block_on(async {
        let directory = tempfile::tempdir().unwrap();
        let options = Options {
            directory: directory.path().to_owned(),
            limits: Limits::default(),
            reserve: 0,
        };
        let (store, mut pending) = Store::open(&options).unwrap();
        pending.files.mark = super::mark::Mark::failed(directory.path()).unwrap();
        pending.start(Box::new(|_, _| ())).unwrap();
        let mut watch = store.watch(&RESOURCE.into(), store.revision()).unwrap();
        for name in ["a", "b"] {
            let create = Action::Create(Draft::new(RESOURCE, &value(name, 1)));
            let answer = write(&store, name, create).await;
            assert!(matches!(answer, Err(WriteError::Storage(_))), "{answer:?}");
        }
        assert!(!store.is_writable());
        assert_eq!(store.count(RESOURCE), 0, "nobody may build upon it");
        assert!(watch.take(usize::MAX).unwrap().is_empty());
        store.close().await;
        // It was on the disk this time, and is there after the start.
        let store = open(directory.path(), options.limits);
        assert_eq!(store.count(RESOURCE), 1);
        let create = Action::Create(Draft::new(RESOURCE, &value("b", 1)));
        write(&store, "b", create).await.unwrap();
    });
}

#[test]
fn the_death_of_the_writer_is_seen() {
    block_on(async {
        let directory = tempfile::tempdir().unwrap();
        let options = Options {
            directory: directory.path().to_owned(),
            limits: Limits::default(),
            reserve: 0,
        };
        let (store, pending) = Store::open(&options).unwrap();
        pending
            .start(Box::new(|_, _| unreachable!("a bug")))
            .unwrap();
        assert!(store.is_writable());
        let create = || Action::Create(Draft::new(RESOURCE, &value("a", 1)));
        for _ in 0..2 {
            let answer = write(&store, "a", create()).await;
            assert!(matches!(answer, Err(WriteError::Closed)), "{answer:?}");
        }
        // The second write ended with the queue, and the queue goes last.
        assert!(!store.is_writable());
        assert_eq!(store.count(RESOURCE), 1, "reads go on");
    });
}

#[test]
fn an_older_store_takes_the_steps_that_it_lacks_and_keeps_its_objects() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let first = include_str!("schema.sql");
    let version = |connection: &rusqlite::Connection| -> i64 {
        let read = |row: &rusqlite::Row<'_>| row.get(0);
        connection
            .pragma_query_value(None, "user_version", read)
            .unwrap()
    };
    let connection = rusqlite::Connection::open(&path).unwrap();
    super::sqlite::prepare(&connection, &path, &[first]).unwrap();
    let object = Draft::new(RESOURCE, &value("a", 7)).finish(Name::new("", "a"), 5);
    let row = rusqlite::params![RESOURCE, &object.json[..]];
    connection
        .execute("INSERT INTO log VALUES (5, ?1, '', 'a', 0, ?2)", row)
        .unwrap();

    // A step that fails leaves the store as it was.
    let broken = [
        first,
        "ALTER TABLE log ADD COLUMN note TEXT; ALTER TABLE nothing RENAME TO n;",
    ];
    assert!(super::sqlite::prepare(&connection, &path, &broken).is_err());
    assert_eq!(version(&connection), 1);
    assert!(connection.prepare("SELECT note FROM log").is_err());

    let steps = [
        first,
        "ALTER TABLE log ADD COLUMN note TEXT;",
        "UPDATE log SET note = name;",
    ];
    super::sqlite::prepare(&connection, &path, &steps).unwrap();
    assert_eq!(version(&connection), 3);
    let rows = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let found: (String, String) = connection
        .query_row("SELECT name, note FROM log", [], rows)
        .unwrap();
    assert_eq!(found, ("a".to_owned(), "a".to_owned()));
    // Opening it again changes nothing, and the program of before refuses it.
    super::sqlite::prepare(&connection, &path, &steps).unwrap();
    let older = super::sqlite::prepare(&connection, &path, &[first]);
    assert!(matches!(
        older,
        Err(Error::Newer {
            found: 3,
            known: 1,
            ..
        })
    ));
    drop(connection);

    // The real second version gives a checksum to what is there, and trusts no row without one afterwards.
    std::fs::remove_file(&path).unwrap();
    let connection = rusqlite::Connection::open(&path).unwrap();
    super::sqlite::prepare(&connection, &path, &[first]).unwrap();
    let row = rusqlite::params![RESOURCE, &object.json[..]];
    connection
        .execute("INSERT INTO log VALUES (5, ?1, '', 'a', 0, ?2)", row)
        .unwrap();
    drop(connection);
    let store = open(directory.path(), Limits::default());
    let found = store.get(RESOURCE, &Name::new("", "a")).unwrap();
    assert_eq!((found.revision, content(&found)), (5, 7));
    block_on(store.close());
    drop(store);
    let connection = rusqlite::Connection::open(&path).unwrap();
    let changed = connection
        .execute("UPDATE log SET checksum = NULL", [])
        .unwrap();
    assert_eq!(changed, 1);
    drop(connection);
    let store = open(directory.path(), Limits::default());
    assert!(store.get(RESOURCE, &Name::new("", "a")).is_none());
    assert!(!store.damage().is_empty());
}

#[test]
fn a_store_that_becomes_read_only_refuses_writes_and_keeps_reads() {
    block_on(async {
        let directory = tempfile::tempdir().unwrap();
        let options = Options {
            directory: directory.path().to_owned(),
            limits: Limits::default(),
            reserve: 0,
        };
        let (store, pending) = Store::open(&options).unwrap();
        pending
            .files
            .connection
            .pragma_update(None, "query_only", true)
            .unwrap();
        pending.start(Box::new(|_, _| ())).unwrap();
        let draft = Draft::new(RESOURCE, &value("a", 1));
        let error = write(&store, "a", Action::Create(draft))
            .await
            .expect_err("refused");
        assert_eq!(
            error.to_string(),
            "the store cannot take writes: the store is read-only"
        );
        assert!(!store.is_writable());
        assert_eq!(store.count(RESOURCE), 0);
    });
}
