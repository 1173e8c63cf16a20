//! Files that were hit after they were written: what is damaged is named and never served, and the rest is there.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use super::{Action, Draft, Error, Limits, Name, Object, Options, Query, Store, Write, WriteError};

const RESOURCE: &str = "things.example.org";
const OBJECTS: usize = 60;

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime")
        .block_on(future)
}

fn options(directory: &Path) -> Options {
    Options {
        directory: directory.to_owned(),
        limits: Limits::default(),
        reserve: 0,
    }
}

fn open(directory: &Path) -> Store {
    let (store, pending) = Store::open(&options(directory)).expect("it opens");
    pending.start(Box::new(|_, _| ())).expect("it starts");
    store
}

fn thing(name: &str) -> Value {
    serde_json::json!({
        "apiVersion": "example.org/v1", "kind": "Thing",
        "metadata": { "name": name, "uid": name },
        "spec": { "text": format!("{name}-").repeat(300) },
    })
}

async fn create(store: &Store, name: &str) -> Result<std::sync::Arc<Object>, WriteError> {
    let action = Action::Create(Draft::new(RESOURCE, &thing(name)));
    let (resource, name) = (RESOURCE.into(), Name::new("", name));
    store
        .write(Write {
            resource,
            name,
            action,
        })
        .await
}

/// A store with objects, closed, or as a process leaves it that is killed.
fn filled(directory: &Path, is_closed: bool) {
    let store = open(directory);
    block_on(async {
        for index in 0..OBJECTS {
            create(&store, &format!("thing{index:02}")).await.unwrap();
        }
        if is_closed {
            store.close().await;
            return;
        }
        let copy = tempfile::tempdir().unwrap();
        let files = ["store.db", "store.db-wal", "store.mark"];
        for file in files {
            std::fs::copy(directory.join(file), copy.path().join(file)).unwrap();
        }
        store.close().await;
        for file in files {
            std::fs::copy(copy.path().join(file), directory.join(file)).unwrap();
        }
    });
}

fn names(store: &Store) -> BTreeSet<String> {
    let page = store.list(RESOURCE, &Query::default()).unwrap();
    for object in &page.objects {
        let name = &object.name.name;
        assert_eq!(
            object.value()["spec"],
            thing(name)["spec"],
            "{name} is served as written"
        );
    }
    let names = page.objects.iter();
    names.map(|object| object.name.name.to_string()).collect()
}

fn all() -> BTreeSet<String> {
    (0..OBJECTS)
        .map(|index| format!("thing{index:02}"))
        .collect()
}

fn flip(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

fn position(path: &Path, text: &str) -> usize {
    let bytes = std::fs::read(path).unwrap();
    memchr::memmem::rfind(&bytes, text.as_bytes()).expect("it is there")
}

#[test]
fn a_flipped_bit_in_a_value_takes_that_object_and_names_it() {
    let directory = tempfile::tempdir().unwrap();
    filled(directory.path(), true);
    let path = directory.path().join("store.db");
    flip(&path, position(&path, "thing07-thing07-"));
    let report = super::check(directory.path()).unwrap().unwrap();
    assert!(
        report.damaged[0].to_string().contains("thing07"),
        "{report:?}"
    );

    let store = open(directory.path());
    let mut want = all();
    want.remove("thing07");
    assert_eq!(names(&store), want);
    assert!(
        store.damage()[0].to_string().contains("thing07"),
        "{:?}",
        store.damage()
    );
    // It can be made again, and what was found stays known.
    block_on(async {
        create(&store, "thing07").await.unwrap();
        store.close().await;
    });
    let store = open(directory.path());
    assert_eq!(names(&store), all());
    assert_eq!(store.damage().len(), 1);
    let report = super::check(directory.path()).unwrap().unwrap();
    assert!(report.damaged.is_empty(), "{report:?}");
    assert_eq!(report.set_aside.len(), 1);
}

#[test]
fn an_older_state_does_not_pass_for_a_damaged_one_nor_a_deleted_one_come_back() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    block_on(async {
        let write = async |action| {
            let write = Write {
                resource: RESOURCE.into(),
                name: Name::new("", "a"),
                action,
            };
            store.write(write).await.unwrap()
        };
        let mut value = thing("a");
        let first = write(Action::Create(Draft::new(RESOURCE, &value))).await;
        value["spec"]["text"] = "a much newer one".into();
        let second = write(Action::Replace(
            first.revision,
            Draft::new(RESOURCE, &value),
        ))
        .await;
        value["spec"]["text"] = "its last words".into();
        write(Action::Delete(
            second.revision,
            Draft::new(RESOURCE, &value),
        ))
        .await;
        store.close().await;
    });
    let path = directory.path().join("store.db");
    flip(&path, position(&path, "its last words"));
    let store = open(directory.path());
    assert_eq!(store.count(RESOURCE), 0);
    assert!(!store.damage().is_empty());
}

#[test]
fn what_cannot_be_read_as_an_object_is_set_aside() {
    let directory = tempfile::tempdir().unwrap();
    filled(directory.path(), true);
    let connection = rusqlite::Connection::open(directory.path().join("store.db")).unwrap();
    let deep = format!(
        r#"{{"metadata":{{"resourceVersion":"7"}},"spec":{}{}}}"#,
        "[".repeat(2000),
        "]".repeat(2000)
    );
    for (revision, body) in [(5_i64, "no JSON"), (7, &deep), (9, r#"{"metadata":7}"#)] {
        let name: String = connection
            .query_row(
                "SELECT name FROM log WHERE revision = ?1",
                [revision],
                |row| row.get(0),
            )
            .unwrap();
        let names = [RESOURCE, "", &name];
        let checksum = super::record::checksum(revision.cast_unsigned(), names, 0, body.as_bytes());
        connection
            .execute(
                "UPDATE log SET body = ?2, checksum = ?3 WHERE revision = ?1",
                rusqlite::params![revision, body.as_bytes(), checksum],
            )
            .unwrap();
    }
    drop(connection);
    let store = open(directory.path());
    assert_eq!(names(&store).len(), OBJECTS - 3);
    let told: Vec<String> = store.damage().iter().map(ToString::to_string).collect();
    assert!(
        told.iter()
            .any(|line| line.contains("nested 2001 levels deep")),
        "{told:?}"
    );
}

#[test]
fn a_flipped_bit_anywhere_in_the_log_of_writes_takes_at_most_what_it_hit() {
    let directory = tempfile::tempdir().unwrap();
    filled(directory.path(), false);
    let wal = directory.path().join("store.db-wal");
    let length = std::fs::read(&wal).unwrap().len();
    // The header, the header of a frame, its salt, its checksum, and pages early, in the middle and at the end.
    let frame = 32 + 40 * 4120;
    let places = [
        0,
        17,
        frame + 1,
        frame + 9,
        frame + 17,
        frame + 24 + 3000,
        length / 2,
        length - 600,
    ];
    for place in places {
        let copy = tempfile::tempdir().unwrap();
        for file in ["store.db", "store.db-wal", "store.mark"] {
            std::fs::copy(directory.path().join(file), copy.path().join(file)).unwrap();
        }
        flip(&copy.path().join("store.db-wal"), place);
        let store = open(copy.path());
        let found = names(&store);
        assert!(
            found.len() + 2 >= OBJECTS,
            "{place}: {} objects are left",
            found.len()
        );
        assert!(!store.damage().is_empty(), "{place}");
        let told: Vec<String> = store.damage().iter().map(ToString::to_string).collect();
        for lost in all().difference(&found) {
            assert!(
                told.iter().any(|line| line.contains(lost)),
                "{place}: {lost} in {told:?}"
            );
        }
        let kept = std::fs::read_dir(copy.path()).unwrap();
        let kept = kept.filter(|file| {
            let name = file.as_ref().unwrap().file_name();
            name.to_string_lossy().contains(".damaged-")
        });
        assert!(kept.count() > 0, "{place}: the damaged file is kept");
    }
}

#[test]
fn a_tail_that_is_lost_is_noticed_and_its_revisions_are_not_used_again() {
    let directory = tempfile::tempdir().unwrap();
    filled(directory.path(), false);
    let wal = directory.path().join("store.db-wal");
    let bytes = std::fs::read(&wal).unwrap();
    std::fs::write(&wal, &bytes[..32 + (bytes.len() / 4120 * 3 / 4) * 4120]).unwrap();
    let store = open(directory.path());
    assert!(store.count(RESOURCE) < OBJECTS);
    let told = store.damage()[0].to_string();
    assert!(told.contains("acknowledged and are missing"), "{told}");
    let next = block_on(create(&store, "next")).unwrap();
    assert!(next.revision > OBJECTS as u64 + 1, "{}", next.revision);
}

#[test]
fn damage_to_the_structure_of_the_file_loses_no_row_that_is_whole() {
    let directory = tempfile::tempdir().unwrap();
    filled(directory.path(), true);
    let whole = std::fs::read(directory.path().join("store.db")).unwrap();
    let mark = std::fs::read(directory.path().join("store.mark")).unwrap();
    let leaf = (1..whole.len() / 4096)
        .map(|page| page * 4096)
        .filter(|&at| whole[at] == 0x0d)
        .nth(3)
        .expect("a leaf of the tree");
    let root = (1..whole.len() / 4096)
        .map(|page| page * 4096)
        .find(|&at| whole[at] == 0x05)
        .expect("the root of the tree");
    // The first page, the root, a leaf: kind, number of cells, where they are.
    for (place, length) in [
        (0, 100),
        (root, 16),
        (leaf, 1),
        (leaf + 3, 2),
        (leaf + 8, 4),
    ] {
        let copy = tempfile::tempdir().unwrap();
        let mut damaged = whole.clone();
        damaged[place..place + length].fill(0xAA);
        std::fs::write(copy.path().join("store.db"), damaged).unwrap();
        std::fs::write(copy.path().join("store.mark"), &mark).unwrap();
        let store = open(copy.path());
        assert_eq!(names(&store), all(), "{place}");
        assert!(!store.damage().is_empty(), "{place}");
        block_on(async {
            create(&store, "next").await.unwrap();
            store.close().await;
        });
        assert_eq!(names(&open(copy.path())).len(), OBJECTS + 1);
    }
    // Half of the file is gone.
    let copy = tempfile::tempdir().unwrap();
    let mut damaged = whole.clone();
    damaged[4096..whole.len() / 2].fill(0xAA);
    std::fs::write(copy.path().join("store.db"), damaged).unwrap();
    let store = open(copy.path());
    assert!(names(&store).len() > OBJECTS / 3);
}

#[test]
fn a_file_that_was_never_ours_is_refused_and_not_changed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let diary = "this is a diary, not a database, ".repeat(300);
    std::fs::write(&path, &diary).unwrap();
    let error = Store::open(&options(directory.path()))
        .map(drop)
        .expect_err("refused");
    assert!(matches!(error, Error::Foreign { .. }), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), diary);
}

#[test]
fn everything_is_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("apiserver");
    std::fs::create_dir(&directory).unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let loosen = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    filled(&directory, true);
    loosen(&directory, 0o755);
    loosen(&directory.join("store.db"), 0o644);
    let options = Options {
        reserve: 1 << 20,
        ..options(&directory)
    };
    let (store, pending) = Store::open(&options).unwrap();
    pending.start(Box::new(|_, _| ())).unwrap();
    block_on(store.close());
    let (store, _pending) = Store::open(&options).unwrap();
    assert!(directory.join("store.db-wal").exists());
    assert_eq!(mode(&directory), 0o700);
    for file in std::fs::read_dir(&directory).unwrap() {
        let path = file.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
    drop(store);
}

/// A file system that goes with the test, also when it fails.
struct Mount<'a>(&'a Path);

impl Drop for Mount<'_> {
    fn drop(&mut self) {
        let mut unmount = std::process::Command::new("umount");
        let _ = unmount.arg("-l").arg(self.0).status();
    }
}

#[test]
fn a_full_disk_takes_what_tidies_it_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=12m", "tmpfs"])
        .arg(folder.path())
        .output();
    if !mounted.is_ok_and(|mounted| mounted.status.success()) {
        println!("skipped: a tmpfs cannot be mounted here");
        return;
    }
    let _mount = Mount(folder.path());
    let fill = || {
        let mut file = std::fs::File::create(folder.path().join("checkpoint")).unwrap();
        let bytes = [7; 4096];
        while std::io::Write::write_all(&mut file, &bytes).is_ok() {}
    };
    let options = Options {
        reserve: 2 << 20,
        ..options(&folder.path().join("apiserver"))
    };
    let reopen = || {
        let (store, pending) = Store::open(&options).expect("it opens on a full disk");
        pending.start(Box::new(|_, _| ())).expect("it starts");
        store
    };
    block_on(async {
        let store = reopen();
        for index in 0..OBJECTS {
            create(&store, &format!("thing{index:02}")).await.unwrap();
        }
        fill();
        // Somebody else has taken all the room there was; ours is used by what tidies up.
        let mut refused = None;
        for index in 0..2000 {
            if let Err(error) = create(&store, &format!("more{index}")).await {
                refused = Some(error);
                break;
            }
        }
        let error = refused.expect("the disk is full");
        assert!(matches!(error, WriteError::Full), "{error}");
        assert!(!store.is_writable());
        let page = store.list(RESOURCE, &Query::default()).unwrap();
        let mut taken = 0;
        for object in page.objects.iter().skip(1) {
            let write = |action| Write {
                resource: RESOURCE.into(),
                name: object.name.clone(),
                action,
            };
            let mut value = object.value();
            value["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
            let draft = Draft::new(RESOURCE, &value);
            let marked = store.write(write(Action::Replace(object.revision, draft.clone())));
            let revision = marked.await.expect("it is marked").revision;
            let gone = store.write(write(Action::Delete(revision, draft))).await;
            gone.expect("it is deleted");
            taken += 1;
        }
        assert!(taken >= OBJECTS - 1);
        // After a restart it is the same, and with room again everything is taken.
        store.close().await;
        fill();
        let store = reopen();
        assert_eq!(store.count(RESOURCE), 1);
        let object = store
            .list(RESOURCE, &Query::default())
            .unwrap()
            .objects
            .remove(0);
        let draft = Draft::new(RESOURCE, &object.value());
        let gone = store.write(Write {
            resource: RESOURCE.into(),
            name: object.name.clone(),
            action: Action::Delete(object.revision, draft),
        });
        let gone = gone.await;
        std::fs::remove_file(folder.path().join("checkpoint")).unwrap();
        gone.expect("deleted at once after a start on a full disk");
        while create(&store, "again").await.is_err() {
            tokio::task::yield_now().await;
        }
        store.close().await;
    });
}
