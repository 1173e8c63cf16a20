//! SIGKILL under write load, again and again: what was acknowledged is there afterwards.
//!
//! The test starts itself again as the writer, which prints a line for each acknowledged write, and kills it
//! at an arbitrary moment.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use astrago_apiserver::store::{Action, Draft, Limits, Name, Options, Store, Write};
use serde_json::json;

const DIRECTORY: &str = "ASTRAGO_CRASH_DIRECTORY";
const RESOURCE: &str = "things.example.org";
const ROUNDS: u32 = 50;
const WRITERS: usize = 8;

#[test]
fn acknowledged_writes_survive_being_killed_fifty_times() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut acknowledged: HashMap<String, u64> = HashMap::new();
    for round in 0..ROUNDS {
        let mut writer = Command::new(std::env::current_exe().expect("this program"))
            .args(["crash::writes_until_it_is_killed", "--exact", "--nocapture"])
            .env(DIRECTORY, directory.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the writer starts");
        let mut lines = BufReader::new(writer.stdout.take().expect("a pipe"));
        let patience = 5 + (round * 37) % 150;
        let mut text = String::new();
        for _ in 0..patience {
            lines.read_line(&mut text).expect("a line of the writer");
        }
        writer.kill().expect("the writer is alive");
        writer.wait().expect("the writer ends");
        lines.read_to_string(&mut text).expect("what it still said");
        // The last line may be cut off in the middle; then nobody was told.
        for line in text
            .split_inclusive('\n')
            .filter(|line| line.ends_with('\n'))
        {
            let mut words = line.split_whitespace();
            if let (Some("acknowledged"), Some(name), Some(revision)) =
                (words.next(), words.next(), words.next())
            {
                let revision: u64 = revision.parse().expect("a revision");
                let newest = acknowledged.entry(name.to_owned()).or_default();
                *newest = revision.max(*newest);
            }
        }
        verify(directory.path(), &acknowledged);
    }
    assert!(
        acknowledged.len() > 100,
        "the writers did write: {}",
        acknowledged.len()
    );
}

fn verify(directory: &Path, acknowledged: &HashMap<String, u64>) {
    let (store, _pending) =
        Store::open(&options(directory)).expect("the store opens after a crash");
    for (name, revision) in acknowledged {
        let object = store.get(RESOURCE, &Name::new("", name));
        let Some(object) = object else {
            panic!("{name} at {revision} is lost")
        };
        assert!(
            object.revision >= *revision,
            "{name}: {} < {revision}",
            object.revision
        );
        assert_eq!(object.value()["metadata"]["name"], **name);
    }
}

fn options(directory: &Path) -> Options {
    Options {
        directory: directory.to_owned(),
        limits: Limits {
            events: 50,
            bytes: 1 << 20,
        },
        reserve: 0,
    }
}

/// Only writes when it is started by the test above.
#[tokio::test(flavor = "multi_thread")]
async fn writes_until_it_is_killed() {
    let Some(directory) = std::env::var_os(DIRECTORY) else {
        return;
    };
    let (store, pending) = Store::open(&options(Path::new(&directory))).expect("the store opens");
    pending
        .start(Box::new(|_, _| ()))
        .expect("the writer's thread starts");
    let tasks: Vec<_> = (0..WRITERS)
        .map(|writer| tokio::spawn(write(store.clone(), writer)))
        .collect();
    for task in tasks {
        task.await.expect("a writer ends with its process");
    }
}

async fn write(store: Store, writer: usize) {
    let resource: Arc<str> = RESOURCE.into();
    for number in 0_u64.. {
        let text = format!("w{writer}-{}", number % 20);
        let name = Name::new("", &text);
        let value = json!({
            "apiVersion": "example.org/v1", "kind": "Thing",
            "metadata": { "name": text, "uid": text }, "spec": { "number": number },
        });
        let draft = Draft::new(RESOURCE, &value);
        let action = match store.get(RESOURCE, &name) {
            Some(current) => Action::Replace(current.revision, draft),
            None => Action::Create(draft),
        };
        let write = Write {
            resource: Arc::clone(&resource),
            name,
            action,
        };
        let object = store
            .write(write)
            .await
            .expect("the only writer of this name");
        println!("acknowledged {text} {}", object.revision);
    }
}
