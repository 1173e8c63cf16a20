//! The data folder: older ones, damaged ones, full disks, backups.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::harness::target::applies;
use crate::harness::{Up, astrago};

/// Only what is on one machine has a data folder with objects.
fn is_embedded() -> bool {
    applies(
        |target| !target.kubernetes && target.kubeflow.is_none(),
        "the objects are in the data folder",
    )
}

fn job(name: &str) -> Value {
    json!({
        "user_id": "ann", "namespace": "default", "name": name, "framework": "pytorch",
        "training_code": "print()", "config": { "num_nodes": 1 },
    })
}

fn names(up: &Up) -> BTreeSet<String> {
    let (code, list) = up.get("/api/trainjobs?namespace=default&limit=1000");
    assert_eq!(code, 200, "{list}");
    let items = list["items"].as_array().or(list.as_array()).unwrap().iter();
    items
        .map(|job| job["name"].as_str().unwrap().to_owned())
        .collect()
}

/// A data folder as the first release wrote it: a job that finished, one that is held, one that is gone, a user.
fn first_format(folder: &Path) {
    let packed = &include_bytes!("../fixtures/data-folder-1.tar.zst")[..];
    let unpacked = zstd::Decoder::new(packed).unwrap();
    tar::Archive::new(unpacked).unpack(folder).unwrap();
}

#[test]
fn a_folder_of_the_first_format_is_taken_over_and_its_damage_named() {
    if !is_embedded() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    first_format(folder.path());
    let data = folder.path().join("data");
    // The folder is kept for good, and what is in it grows old: the history must not be cleared of it. (The job that
    // finished has been over for longer than it is kept, and is in the history only.)
    let flags = ["--no-node", "--history-days", "36500"];
    let up = Up::start_with(astrago(), folder, &flags);
    let admin = up.bearer();
    let get = |up: &Up, path: &str| up.request("GET", path, None, &[&admin]);
    for (name, want) in [
        ("finished", "Complete"),
        ("held", "Suspended"),
        ("gone", "Complete"),
    ] {
        let (code, job) = get(&up, &format!("/api/trainjobs/{name}?namespace=default"));
        assert_eq!((code, &job["state"]), (200, &json!(want)), "{name}: {job}");
    }
    for name in ["finished", "gone"] {
        let output = up.run(&["logs", name]);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("the fixture has trained"), "{name}: {text}");
    }
    let ann = "authorization: Bearer xa5u4z4sfqcfmuidcnmieb8pp6emqb84jkpwwdx4";
    let (code, who) = up.request("GET", "/api/whoami", None, &[ann]);
    assert_eq!(code, 200, "{who}");
    assert!(who.to_string().contains("ann"), "{who}");
    let doctor = || {
        let mut command = astrago();
        let output = command
            .args(["doctor", "-o", "json", "--data-dir"])
            .arg(&data)
            .output();
        let found: Value = serde_json::from_slice(&output.unwrap().stdout).unwrap();
        let of = |name| {
            found
                .as_array()
                .unwrap()
                .iter()
                .find(|it| it["requirement"] == name)
                .cloned()
        };
        (of("objects").unwrap(), of("history").unwrap())
    };
    // While the server works.
    let (objects, history) = doctor();
    assert_eq!(
        (&objects["level"], &history["level"]),
        (&json!("ok"), &json!("ok")),
        "{objects} {history}"
    );

    let (code, folder) = stop_and_keep(up);
    assert_eq!(code, Some(0));
    let path = data.join("apiserver/store.db");
    let mut bytes = std::fs::read(&path).unwrap();
    let text = b"on and on";
    let places: Vec<usize> = (0..bytes.len() - text.len())
        .filter(|&at| bytes[at..].starts_with(text))
        .collect();
    assert!(!places.is_empty());
    for place in places {
        bytes[place] ^= 1;
    }
    std::fs::write(&path, bytes).unwrap();
    std::fs::write(data.join("history/history.db"), "rot").unwrap();
    let (objects, _) = doctor();
    assert_eq!(objects["level"], "fail", "{objects}");
    assert!(
        objects["found"].as_str().unwrap().contains("held"),
        "{objects}"
    );
    let up = Up::start_with(astrago(), folder, &flags);
    let (code, who) = up.request("GET", "/api/whoami", None, &[ann]);
    assert_eq!(code, 200, "what is whole is there: {who}");
    let (objects, history) = doctor();
    assert_eq!(
        (&objects["level"], &history["level"]),
        (&json!("warn"), &json!("ok")),
        "{objects} {history}"
    );
    let log = up.logs();
    assert!(
        log.contains("the store is damaged") && log.contains("held"),
        "{log}"
    );
    assert!(log.contains("the history of jobs is damaged"), "{log}");
}

/// Stops a server in good order, and keeps its folder.
fn stop_and_keep(mut up: Up) -> (Option<i32>, tempfile::TempDir) {
    let other = tempfile::tempdir().unwrap();
    let folder = std::mem::replace(&mut up.folder, other);
    (up.stop().0, folder)
}

#[test]
fn a_backup_under_writes_has_all_that_was_acknowledged_before() {
    if !is_embedded() {
        return;
    }
    let up = Up::start(&["--no-node", "--no-auth"]);
    let (acknowledged, is_done) = (Mutex::new(BTreeSet::new()), AtomicBool::new(false));
    let file = up.folder.path().join("backup.tar.zst");
    let written = || acknowledged.lock().unwrap().len();
    let want = std::thread::scope(|scope| {
        scope.spawn(|| {
            for index in 0.. {
                if is_done.load(Ordering::Relaxed) {
                    return;
                }
                let name = format!("job{index}");
                let (code, answer) = up.post("/api/trainjob/create", &job(&name));
                assert!((200..300).contains(&code), "{code} {answer}");
                acknowledged.lock().unwrap().insert(name);
            }
        });
        while written() < 5 {
            std::thread::yield_now();
        }
        let want = acknowledged.lock().unwrap().clone();
        let output = up.run(&["backup", file.to_str().unwrap()]);
        is_done.store(true, Ordering::Relaxed);
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        want
    });
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&file).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);

    let restore = |folder: &Path, more: &[&str]| {
        let mut command = astrago();
        command
            .arg("restore")
            .arg(&file)
            .arg("--data-dir")
            .arg(folder)
            .args(more);
        let output = command.output().unwrap();
        (
            output.status.success(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    let (done, text) = restore(&up.folder.path().join("data"), &["--replace"]);
    assert!(!done && text.contains("already uses"), "{text}");
    let other = tempfile::tempdir().unwrap();
    let data = other.path().join("data");
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("mine"), "dear").unwrap();
    let (done, text) = restore(&data, &[]);
    assert!(!done && text.contains("is not empty"), "{text}");
    let (done, text) = restore(&data, &["--replace"]);
    assert!(done, "{text}");
    let kept = std::fs::read_dir(other.path()).unwrap();
    let kept = kept
        .map(|entry| entry.unwrap().path().join("mine"))
        .filter(|path| path.exists());
    assert_eq!(kept.count(), 1, "what was there is kept");
    let restored = Up::start_with(astrago(), other, &["--no-node", "--no-auth"]);
    let found = names(&restored);
    assert!(want.is_subset(&found), "{want:?} {found:?}");
    let token = |up: &Up| std::fs::read(up.folder.path().join("data/admin.token")).unwrap();
    assert_eq!(token(&restored), token(&up));

    // Half a file is no backup.
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
    let empty = tempfile::tempdir().unwrap();
    let (done, text) = restore(&empty.path().join("data"), &[]);
    assert!(!done && text.contains("damaged"), "{text}");
    assert!(!empty.path().join("data").exists());
}

/// A file system that goes with the test, also when it fails.
struct Mount(tempfile::TempDir);

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[test]
fn a_log_that_cannot_be_written_stops_nothing() {
    if !is_embedded() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let listen = "127.0.0.1:0";
    let mut child = astrago()
        .args(["up", "--no-auth", "--no-node", "--log", "debug"])
        .args(["--listen", listen, "--kube-listen", listen, "--data-dir"])
        .arg(folder.path().join("data"))
        .stdout(Stdio::piped())
        .stderr(full)
        .spawn()
        .unwrap();
    let mut ready = String::new();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut ready).unwrap();
    assert!(ready.starts_with("ready"), "{ready:?}");
    let id = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn on_a_full_disk_jobs_can_be_read_and_deleted() {
    if !is_embedded() {
        return;
    }
    let mount = tempfile::tempdir().unwrap();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=96m", "tmpfs"])
        .arg(mount.path())
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        println!("skipped: a tmpfs cannot be mounted here");
        return;
    }
    let mount = Mount(mount);
    let fill = || {
        let mut file = std::fs::File::create(mount.0.path().join("checkpoint")).unwrap();
        while std::io::Write::write_all(&mut file, &[7; 4096]).is_ok() {}
    };
    let folder = tempfile::tempdir_in(mount.0.path()).unwrap();
    let flags = ["--no-node", "--no-auth"];
    let mut up = Up::start_with(astrago(), folder, &flags);
    for index in 0..6 {
        let (code, answer) = up.post("/api/trainjob/create", &job(&format!("job{index}")));
        assert!((200..300).contains(&code), "{code} {answer}");
    }
    fill();
    let refuse = |up: &Up| {
        up.eventually("a full disk", |up| {
            let (code, answer) = up.post("/api/trainjob/create", &job("one-more"));
            if code == 507 {
                return Ok(answer["error"]["message"].as_str().unwrap().to_owned());
            }
            up.request(
                "DELETE",
                "/api/trainjob/one-more?namespace=default",
                None,
                &[],
            );
            Err(answer)
        })
    };
    let text = refuse(&up);
    assert!(
        text.contains("disk") && text.contains("Delete jobs"),
        "{text}"
    );
    let delete = |up: &Up, name: &str| {
        let path = format!("/api/trainjob/{name}?namespace=default");
        let (code, answer) = up.request("DELETE", &path, None, &[]);
        assert_eq!(code, 200, "{name}: {answer}");
        up.eventually("that the job is gone", |up| {
            let left = names(up);
            if left.contains(name) {
                Err(json!(left))
            } else {
                Ok(())
            }
        });
    };
    let (code, answer) = up.post("/api/trainjobs/job3/suspend?namespace=default", &json!({}));
    assert_eq!(code, 200, "{answer}");
    delete(&up, "job0");
    // And so after a start on the full disk, whether it was killed or stopped.
    fill();
    up.kill_and_start(&flags);
    delete(&up, "job1");
    let (code, folder) = stop_and_keep(up);
    assert_eq!(code, Some(0));
    fill();
    let up = Up::start_with(astrago(), folder, &flags);
    delete(&up, "job2");
    std::fs::remove_file(mount.0.path().join("checkpoint")).unwrap();
    up.eventually("room for a job", |up| {
        let (code, answer) = up.post("/api/trainjob/create", &job("again"));
        if (200..300).contains(&code) {
            Ok(())
        } else {
            Err(answer)
        }
    });
}
