//! `astrago backup` and `astrago restore`: the data folder in one file, also while a server works on it.
//!
//! The databases are copied as of one moment by SQLite itself. What is only for this machine and made again when it is
//! needed stays out: sandboxes, images, addresses, locks. So does what jobs wrote into volumes, which may be of any size.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Read as _, Write};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result};
use astrago_apiserver::{files, store};
use astrago_rest::snapshot;
use clap::Args;

use crate::args::Connection;
use crate::exit::Failure;
use crate::output;
use crate::up::data::{DataDir, FORMAT, FORMAT_FILE, newer, read_format};

#[derive(Debug, Clone, Args)]
pub(crate) struct Backup {
    /// File to write, such as astrago.tar.zst; it has secrets in it, and is for its owner only
    pub(crate) file: PathBuf,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Restore {
    /// File that `astrago backup` wrote
    pub(crate) file: PathBuf,
    /// Restore into a data folder that is not empty; what is in it is kept beside it, under another name
    #[arg(long)]
    pub(crate) replace: bool,
}

const STORE: &str = "apiserver/store.db";
const HISTORY: &str = "history/history.db";
/// Files that are copied as they are, when they are there.
const PLAIN: [&str; 4] = [
    "admin.token",
    "kubelet.token",
    "apiserver/ca.crt",
    "apiserver/ca.key",
];
/// Folders with everything in them: the logs of jobs, and the code that they ran.
const FOLDERS: [&str; 2] = ["history/logs", "history/snapshots"];

pub(crate) fn backup(connection: &Connection, arguments: &Backup) -> Result<()> {
    let folder = DataDir::locate(connection.data_dir.as_deref())?;
    if !folder.join(STORE).exists() {
        return Err(Failure::theirs(format!(
            "there is no data of `astrago up` in {}",
            folder.display()
        ))
        .hint("name the data folder with --data-dir DIR")
        .into());
    }
    if let Some(found) = read_format(&folder).filter(|found| *found > FORMAT) {
        return Err(newer(&folder, found).into());
    }
    let file = std::path::absolute(&arguments.file).context("failed to find the current folder")?;
    if file.exists() {
        return Err(Failure::theirs(format!("{} exists", file.display()))
            .hint("name a file that does not, or remove it first")
            .into());
    }
    let draft = beside(&file, ".new")?;
    let copies = beside(&file, ".copies")?;
    let made = write_archive(&folder, &draft, &copies);
    let _ = std::fs::remove_dir_all(&copies);
    let made = made.and_then(|()| {
        std::fs::rename(&draft, &file)?;
        files::sync_folder(&file)?;
        Ok(())
    });
    if made.is_err() {
        let _ = std::fs::remove_file(&draft);
    }
    made.with_context(|| format!("failed to write {}", file.display()))?;
    let size = std::fs::metadata(&file).map_or(0, |file| file.len());
    output::write(&format!("{}: {size} bytes\n", file.display()))
}

fn write_archive(folder: &Path, draft: &Path, copies: &Path) -> Result<()> {
    let _ = std::fs::remove_dir_all(copies);
    std::fs::DirBuilder::new().mode(0o700).create(copies)?;
    let (objects, history) = (copies.join("store.db"), copies.join("history.db"));
    store::backup(&folder.join("apiserver"), &objects)?;
    let has_history = astrago_rest::backup_history(&folder.join("history"), &history)?;

    let _ = std::fs::remove_file(draft);
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(draft)?;
    let mut archive = tar::Builder::new(zstd::Encoder::new(file, 0)?);
    // First, so that a program that does not know the format reads no further.
    add_bytes(&mut archive, FORMAT_FILE, format!("{FORMAT}\n").as_bytes())?;
    add(&mut archive, &objects, Path::new(STORE))?;
    if has_history {
        add(&mut archive, &history, Path::new(HISTORY))?;
    }
    for name in PLAIN {
        add(&mut archive, &folder.join(name), Path::new(name))?;
    }
    for name in FOLDERS {
        add_folder(&mut archive, &folder.join(name), Path::new(name))?;
    }
    let file = archive.into_inner()?.finish()?;
    file.sync_all()?;
    Ok(())
}

fn add_folder(archive: &mut tar::Builder<impl Write>, path: &Path, name: &Path) -> io::Result<()> {
    let entries = match std::fs::read_dir(path) {
        Ok(entries) => entries,
        // It may go while we look.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let entry = entry?;
        let (path, name) = (entry.path(), name.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_dir() {
            add_folder(archive, &path, &name)?;
        } else if kind.is_file() {
            add(archive, &path, &name)?;
        }
    }
    Ok(())
}

/// Adds a file as long as it is now: logs grow while they are read.
fn add(archive: &mut tar::Builder<impl Write>, path: &Path, name: &Path) -> io::Result<()> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let length = file.metadata()?.len();
    // One that became shorter is filled up: the archive has promised its length.
    let content = file.chain(io::repeat(b'\n')).take(length);
    archive.append_data(&mut header(length), name, content)
}

fn add_bytes(archive: &mut tar::Builder<impl Write>, name: &str, bytes: &[u8]) -> io::Result<()> {
    archive.append_data(&mut header(bytes.len() as u64), name, bytes)
}

fn header(length: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_size(length);
    header.set_mode(0o600);
    header.set_mtime(jiff::Timestamp::now().as_second().unsigned_abs());
    header
}

pub(crate) fn restore(connection: &Connection, arguments: &Restore) -> Result<()> {
    let folder = DataDir::locate(connection.data_dir.as_deref())?;
    let file = File::open(&arguments.file).map_err(|error| {
        let failure = Failure::theirs(format!("failed to read {}", arguments.file.display()));
        anyhow::Error::from(error).context(failure)
    })?;
    let is_used = std::fs::read_dir(&folder).is_ok_and(|mut entries| entries.next().is_some());
    // Held until the end, so that no server starts on what is being replaced.
    let lock = is_used.then(|| DataDir::lock(folder.clone())).transpose()?;
    if is_used && !arguments.replace {
        return Err(Failure::theirs(format!("{} is not empty", folder.display()))
            .hint("name another folder with --data-dir DIR, or give --replace; what is there is then kept under another name")
            .into());
    }
    let draft = beside(&folder, ".restoring")?;
    let _ = std::fs::remove_dir_all(&draft);
    let unpacked = unpack(file, &draft);
    if unpacked.is_err() {
        let _ = std::fs::remove_dir_all(&draft);
    }
    unpacked.with_context(|| format!("failed to restore {}", arguments.file.display()))?;
    let mut told = format!("restored to {}\n", folder.display());
    if is_used {
        let now = jiff::Timestamp::now().as_second();
        let kept = folder.with_file_name(format!(
            "{}.before-{now}",
            folder.file_name().unwrap_or_default().display()
        ));
        std::fs::rename(&folder, &kept).context("failed to set the old data aside")?;
        told = format!("{told}what was there is in {}\n", kept.display());
    } else if folder.exists() {
        std::fs::remove_dir(&folder)?;
    }
    std::fs::rename(&draft, &folder).context("failed to put the data in place")?;
    files::sync_folder(&folder)?;
    drop(lock);
    output::write(&told)
}

/// Unpacks into a new folder and checks what came out of it.
fn unpack(file: File, draft: &Path) -> Result<()> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(draft)?;
    let damaged = || {
        Failure::theirs("the file is damaged, or no backup of astrago").hint("try an older backup")
    };
    let read = snapshot::entries(zstd::Decoder::new(file)?, |entry| {
        let path = entry.path()?.into_owned();
        if !entry.header().entry_type().is_file() || !is_ours(&path) {
            return Err(damaged().into());
        }
        if !entry.unpack_in(draft)? {
            return Err(damaged().into());
        }
        if path == Path::new(FORMAT_FILE)
            && let Some(found) = read_format(draft).filter(|found| *found > FORMAT)
        {
            return Err(newer(draft, found).into());
        }
        let path = draft.join(path);
        std::fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        File::open(&path)?.sync_all()?;
        anyhow::Ok(())
    });
    read.map_err(|error| match error.downcast::<io::Error>() {
        Ok(error) => anyhow::Error::from(error).context(damaged()),
        Err(error) => error,
    })?;
    let report = store::check(&draft.join("apiserver"))?.ok_or_else(damaged)?;
    if let Some(first) = report.damaged.first() {
        return Err(anyhow::anyhow!("{first}").context(damaged()));
    }
    Ok(())
}

/// Whether a backup has a file of this name. Another one, in a file that came from elsewhere, is not for the data folder,
/// let alone for a place outside of it.
fn is_ours(path: &Path) -> bool {
    let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
    let alone = [FORMAT_FILE, STORE, HISTORY].into_iter().chain(PLAIN);
    path.components().all(plain)
        && (alone.into_iter().any(|name| path == Path::new(name))
            || FOLDERS.iter().any(|folder| path.starts_with(folder)))
}

/// A hidden name beside a path, for something that is not finished.
fn beside(path: &Path, end: &str) -> Result<PathBuf> {
    let name = path
        .file_name()
        .ok_or_else(|| Failure::theirs(format!("{} has no name", path.display())))?;
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(end);
    Ok(path.with_file_name(hidden))
}

#[cfg(test)]
mod tests {
    use tar::EntryType::{self, GNULongName, Link, Regular, Symlink};

    use super::*;

    /// A backup that no `astrago backup` wrote: `tar::Builder` would refuse to.
    fn planted(folder: &Path, name: &str, kind: EntryType, content: &[u8]) -> File {
        let path = folder.join("backup");
        let file = File::create(&path).unwrap();
        let mut archive = tar::Builder::new(zstd::Encoder::new(file, 0).unwrap());
        let mut header = header(content.len() as u64);
        header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(kind);
        if matches!(kind, Symlink | Link) {
            header.set_link_name("/etc/passwd").unwrap();
        }
        header.set_cksum();
        archive.append(&header, content).unwrap();
        archive.into_inner().unwrap().finish().unwrap();
        File::open(path).unwrap()
    }

    #[test]
    fn a_file_that_is_no_backup_changes_nothing_anywhere() {
        let folder = tempfile::tempdir().unwrap();
        let victim = folder.path().join("victim");
        std::fs::write(&victim, "before").unwrap();
        std::fs::set_permissions(&victim, Permissions::from_mode(0o644)).unwrap();
        let absolute = victim.to_str().unwrap();
        let bomb = vec![b'x'; 2 << 20];
        for (name, kind, content) in [
            (absolute, Regular, &b"after"[..]),
            ("../victim", Regular, b"after"),
            ("history/logs/../../../victim", Regular, b"after"),
            ("history/logs/link", Symlink, b""),
            ("history/logs/link", Link, b""),
            ("node/pods/theirs/pod.json", Regular, b"{}"),
            ("apiserver/store.db/x", Regular, b"x"),
            ("x", GNULongName, &bomb),
        ] {
            let file = planted(folder.path(), name, kind, content);
            let error = unpack(file, &folder.path().join("draft")).unwrap_err();
            let failure = error.downcast_ref::<Failure>();
            let said = failure.map(|failure| failure.message.as_str());
            let want = "the file is damaged, or no backup of astrago";
            assert_eq!(said, Some(want), "{name}: {error:?}");
            assert_eq!(
                std::fs::read_to_string(&victim).unwrap(),
                "before",
                "{name}"
            );
            let mode = std::fs::metadata(&victim).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o644, "{name}");
            let inside = std::fs::read_dir(folder.path().join("draft")).unwrap();
            assert_eq!(inside.count(), 0, "{name}");
        }
    }
}
