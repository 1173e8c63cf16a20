//! `astrago cp`: an archive that `tar` in the container reads or writes.

use std::fs;
use std::io::{self, PipeReader, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use astrago_rest::snapshot;
use serde_json::Value;
use tokio::sync::mpsc;

use super::{CHUNK, PACE, converse, start};
use crate::args::{Connection, Copy};
use crate::exit::Failure;

/// Unpacks beside the place and moves from there: whoever looks sees all of it or nothing. A folder is neither written over
/// nor mixed with another.
const TAKE: &str = "place=$1
[ ! -d \"$1\" ] || place=${1%/}/$2
if [ -d \"$place\" ] || { [ \"$3\" = folder ] && [ -e \"$place\" ]; }; then
  printf 'error: %s exists already\\n\\nhint: remove it first, or copy to another place\\n' \"$place\" >&2
  exit 1
fi
folder=$(mktemp -d \"$(dirname -- \"$place\")/.astrago-cp.XXXXXX\") || exit
tar -x -f - -C \"$folder\" && mv -- \"$folder/$2\" \"$place\"
code=$?
rm -rf -- \"$folder\"
exit $code";

pub(crate) async fn copy(connection: &Connection, wanted: &Copy) -> Result<ExitCode> {
    let worker = wanted.worker;
    match (inside(&wanted.from), inside(&wanted.to)) {
        (None, Some((job, to))) => upload(connection, &wanted.from, job, to, worker).await,
        (Some((job, from)), None) => download(connection, job, from, &wanted.to, worker).await,
        _ => Err(Failure::theirs(
            "one of the two must be JOB:PATH, and the other a path on this machine",
        )
        .hint("such as: astrago cp my-job:/workspace/model.pt .")
        .into()),
    }
}

/// A job and a path in it. What has a slash before its colon is a file of this machine.
fn inside(place: &str) -> Option<(&str, &str)> {
    let (job, path) = place.split_once(':')?;
    (!job.is_empty() && !job.contains('/') && !path.is_empty()).then_some((job, path))
}

async fn upload(
    connection: &Connection,
    from: &str,
    job: &str,
    to: &str,
    worker: u32,
) -> Result<ExitCode> {
    let from = fs::canonicalize(from).map_err(|error| {
        anyhow::Error::from(error).context(Failure::theirs(format!("{from} cannot be read")))
    })?;
    let name = from.file_name().and_then(|name| name.to_str());
    let name = name
        .map(str::to_owned)
        .ok_or_else(|| Failure::theirs(format!("{} has no name to copy it by", from.display())))?;
    let kind = if from.is_dir() { "folder" } else { "file" };
    let command = ["sh", "-c", TAKE, "sh", to, &name, kind].map(str::to_owned);
    let socket = start(connection, job, worker, &command, false).await?;
    let (sender, receiver) = mpsc::channel(4);
    let packed = tokio::task::spawn_blocking(move || pack(&from, &name, Pieces(sender)));
    let status = converse(socket, false, PACE, receiver, |_| Ok(())).await;
    match packed.await? {
        // Whoever refuses it reads no further; then that is what counts.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("failed to read what is to be copied")
        }
        _ => verdict(&status?),
    }
}

async fn download(
    connection: &Connection,
    job: &str,
    from: &str,
    to: &str,
    worker: u32,
) -> Result<ExitCode> {
    let trimmed = from.trim_end_matches('/');
    let (folder, name) = match trimmed.rsplit_once('/') {
        Some(("", name)) => ("/", name),
        Some((folder, name)) => (folder, name),
        None => (".", trimmed),
    };
    if matches!(name, "" | "." | "..") {
        return Err(Failure::theirs(format!("{from:?} names no file or folder")).into());
    }
    let mut place = PathBuf::from(to);
    if place.is_dir() {
        place.push(name);
    }
    if place.is_dir() {
        return Err(there_already(&place).into());
    }
    let command = ["tar", "-c", "-f", "-", "-C", folder, "--", name].map(str::to_owned);
    let socket = start(connection, job, worker, &command, false).await?;
    let (reader, mut writer) = io::pipe()?;
    let unpacked = tokio::task::spawn_blocking({
        let (name, place) = (name.to_owned(), place.clone());
        move || unpack(reader, &name, &place)
    });
    let (_nothing, input) = mpsc::channel(1);
    let take = move |data: &[u8]| writer.write_all(data).map_err(|_| NotTaken.into());
    let status = converse(socket, false, PACE, input, take).await;
    let unpacked = unpacked.await?;
    match status {
        // The program there has failed, and what came is what it left.
        Ok(status) if status["status"] != "Success" => verdict(&status),
        // So it is where the connection broke.
        Err(error) if !error.is::<NotTaken>() => Err(error),
        // Why it was not taken is the greater news.
        status => {
            unpacked.map_err(|error| {
                if error.kind() == io::ErrorKind::AlreadyExists {
                    return there_already(&place).into();
                }
                let failure = Failure::theirs(format!("failed to write {}", place.display()));
                anyhow::Error::from(error).context(failure)
            })?;
            verdict(&status?)
        }
    }
}

/// What went wrong there was said there; which code a program of theirs ended with is nobody's business.
fn verdict(status: &Value) -> Result<ExitCode> {
    let failed = super::verdict(status)? != ExitCode::SUCCESS;
    Ok(ExitCode::from(u8::from(failed)))
}

fn there_already(place: &Path) -> Failure {
    Failure::theirs(format!("{} exists already", place.display()))
        .hint("remove it first, or copy to another place")
}

/// Who unpacks the archive reads no further.
#[derive(Debug, thiserror::Error)]
#[error("the rest of the archive was not taken")]
struct NotTaken;

fn pack(from: &Path, name: &str, pieces: Pieces) -> io::Result<()> {
    let mut archive = tar::Builder::new(io::BufWriter::with_capacity(CHUNK, pieces));
    archive.follow_symlinks(false);
    if from.is_dir() {
        archive.append_dir_all(name, from)?;
    } else {
        archive.append_path_with_name(from, name)?;
    }
    archive.into_inner()?.flush()
}

/// Unpacks into a folder beside the place and moves `name` from there. The archive was made by a program that may be
/// anybody's: nothing of it is written outside, and only files, folders and links are made.
fn unpack(mut reader: PipeReader, name: &str, place: &Path) -> io::Result<()> {
    let parent = place
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    let folder = tempfile::Builder::new()
        .prefix(".astrago-cp.")
        .tempdir_in(parent)?;
    snapshot::entries(&mut reader, |entry| {
        let kind = entry.header().entry_type();
        if kind.is_file() || kind.is_dir() || kind.is_symlink() || kind.is_hard_link() {
            entry.unpack_in(folder.path())?;
        }
        io::Result::Ok(())
    })?;
    // To the end, so that nobody is kept from writing it.
    io::copy(&mut reader, &mut io::sink())?;
    let new = folder.path().join(name);
    // A file takes the place of a file, as with any copy; a folder is neither written over nor mixed with another.
    let there = place.symlink_metadata();
    if there.is_ok_and(|there| there.is_dir() || new.is_dir()) {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    fs::rename(new, place)
}

/// Standard input of the program there.
struct Pieces(mpsc::Sender<Vec<u8>>);

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.0.blocking_send(bytes.to_vec());
        sent.map_err(|_| io::ErrorKind::BrokenPipe)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_in_a_job_has_a_name_before_its_colon() {
        for (place, want) in [
            ("job:/a/b", Some(("job", "/a/b"))),
            ("job:b", Some(("job", "b"))),
            ("./odd:name", None),
            ("/odd:name", None),
            ("plain", None),
            ("job:", None),
        ] {
            assert_eq!(inside(place), want, "{place}");
        }
    }

    /// An archive as no `tar` would make it.
    fn planted(entries: &[(&str, tar::EntryType, &str)]) -> Vec<u8> {
        let mut archive = tar::Builder::new(Vec::new());
        for (path, kind, content) in entries {
            let mut header = tar::Header::new_gnu();
            header.as_mut_bytes()[..path.len()].copy_from_slice(path.as_bytes());
            header.set_entry_type(*kind);
            header.set_mode(0o644);
            if *kind == tar::EntryType::Symlink {
                header.set_size(0);
                header.set_link_name(content).unwrap();
                header.set_cksum();
                archive.append(&header, io::empty()).unwrap();
            } else {
                header.set_size(content.len() as u64);
                header.set_cksum();
                archive.append(&header, content.as_bytes()).unwrap();
            }
        }
        archive.into_inner().unwrap()
    }

    /// What goes into a job is unpacked by its shell, what comes out of it by us, by the same rules.
    #[test]
    fn a_folder_is_neither_written_over_nor_mixed_with_another() {
        use std::process::{Command, Stdio};
        use tar::EntryType::Regular;
        let file = planted(&[("new", Regular, "new")]);
        let tree = planted(&[("new/weights", Regular, "new")]);
        for (kind, archive, there, taken) in [
            ("file", &file, "nothing", true),
            ("file", &file, "file", true),
            ("file", &file, "folder", false),
            ("folder", &tree, "nothing", true),
            ("folder", &tree, "file", false),
            ("folder", &tree, "folder", false),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let make = |name: &str| {
                let place = folder.path().join(name);
                match there {
                    "file" => fs::write(&place, "old").unwrap(),
                    "folder" => fs::create_dir_all(place.join("old")).unwrap(),
                    _ => {}
                }
                place
            };
            let case = format!("a {kind} where there is {there}");
            let place = make("out");
            let (reader, mut writer) = io::pipe().unwrap();
            writer.write_all(archive).unwrap();
            drop(writer);
            assert_eq!(unpack(reader, "new", &place).is_ok(), taken, "{case}");

            // Named as the archive, within a folder.
            make("new");
            let to = folder.path().to_str().unwrap();
            let shell = Command::new("sh")
                .args(["-c", TAKE, "sh", to, "new", kind])
                .stdin(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn();
            let mut shell = shell.unwrap();
            // It need not read what it refuses.
            let _ = shell.stdin.take().unwrap().write_all(archive);
            let output = shell.wait_with_output().unwrap();
            assert_eq!(output.status.success(), taken, "{case}: {output:?}");
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let want = format!("error: {to}/new exists already\n\nhint: ");
            assert_eq!(said.starts_with(&want), !taken, "{case}: {said}");
            for name in ["new", "out"] {
                let old = folder.path().join(name).join("old").is_dir();
                assert_eq!(old, there == "folder", "{case}: {name}");
            }
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "{case}");
        }
    }

    /// A name without an end is all that a program has to send to take the memory of whoever copies from it.
    #[test]
    fn a_name_without_an_end_is_not_held() {
        let folder = tempfile::tempdir().unwrap();
        for kind in [tar::EntryType::GNULongName, tar::EntryType::XHeader] {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(kind);
            header.set_size(1 << 33);
            header.set_cksum();
            let (reader, mut writer) = io::pipe().unwrap();
            let place = folder.path().join("model");
            let unpacking = std::thread::spawn(move || unpack(reader, "model", &place));
            writer.write_all(header.as_bytes()).unwrap();
            let name = [b'x'; 4096];
            let sent = (0..1 << 14).take_while(|_| writer.write_all(&name).is_ok());
            let sent = sent.count() * name.len();
            drop(writer);
            assert!(sent < 1 << 20, "{sent} bytes were taken");
            let error = unpacking.join().unwrap().unwrap_err();
            assert!(error.to_string().contains("too long"), "{error}");
        }
    }

    #[test]
    fn what_comes_out_of_a_job_is_written_nowhere_else() {
        use tar::EntryType::{Regular, Symlink};
        let folder = tempfile::tempdir().unwrap();
        let outside = folder.path().join("outside");
        fs::create_dir(&outside).unwrap();
        let here = folder.path().join("here");
        fs::create_dir(&here).unwrap();
        let outside_path = outside.to_str().unwrap();
        let archive = planted(&[
            ("../../outside/up", Regular, "evil"),
            ("model/link", Symlink, outside_path),
            ("model/link/through", Regular, "evil"),
            ("model/weights", Regular, "good"),
        ]);
        let (reader, mut writer) = io::pipe().unwrap();
        let place = here.join("model");
        let unpacking = std::thread::spawn({
            let place = place.clone();
            move || unpack(reader, "model", &place)
        });
        // Whoever stops reading because of what it reads is right, too.
        let _ = writer.write_all(&archive);
        drop(writer);
        let _ = unpacking.join().unwrap();
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
        let left: Vec<_> = fs::read_dir(&here).unwrap().flatten().collect();
        assert!(left.iter().all(|entry| entry.path() == place), "{left:?}");
    }
}
