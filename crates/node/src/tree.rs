//! Trees of files that strangers made, as deep, as large and as closed as they liked.
//!
//! Everything goes through descriptors, one name at a time, and no link is followed. So the length of a
//! path does not matter, nor does the depth of a tree: neither the stack nor the number of open files
//! grows with it beyond a fixed bound.

use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, DirEntry, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::sandbox::mounts::descriptor;

/// Folders in folders that are looked at. No honest program makes more.
pub(crate) const DEPTH: usize = 200;

const FOLDER: OFlags = OFlags::DIRECTORY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Removes a file, or a folder with all that is in it. What is not there counts as removed.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match rustix::fs::openat(CWD, parent, flags, Mode::empty()) {
        Err(Errno::NOENT) => Ok(()),
        parent => remove_at(parent?, name),
    }
}

/// The same for what has this name in an open folder.
pub(crate) fn remove_at(parent: impl AsFd, name: &OsStr) -> io::Result<()> {
    let parent = parent.as_fd();
    let name = CString::new(name.as_bytes())?;
    match rustix::fs::unlinkat(parent, &name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ISDIR) => {}
        Err(error) => return Err(error.into()),
    }
    let top = open_up(parent, &name)?;
    loop {
        let mut pass = Pass::default();
        pass.empty(top.as_fd(), &top, 0)?;
        match (pass.progress, pass.error) {
            (true, _) => {}
            (false, None) => break,
            (false, Some(error)) => return Err(error.into()),
        }
    }
    Ok(rustix::fs::unlinkat(parent, &name, AtFlags::REMOVEDIR)?)
}

/// Folders in folders that are emptied where they are.
const LEVELS: usize = 8;

/// One look at all that lies directly in the folder that is to go.
///
/// Each folder in it is emptied: its files go, and so do the folders in it, down to a depth that honest programs keep
/// to. Those that lie deeper and are not empty move up to the top, where the next look finds them. So every folder is
/// moved once at most, and there are never more levels to hold on to than that.
#[derive(Default)]
struct Pass {
    progress: bool,
    error: Option<Errno>,
}

impl Pass {
    fn remove(&mut self, top: BorrowedFd<'_>, parent: BorrowedFd<'_>, entry: &DirEntry, at: usize) {
        let name = entry.file_name();
        let done = match unlink(parent, name, entry.file_type()) {
            Err(Errno::NOTEMPTY | Errno::EXIST) if at < LEVELS => {
                open_up(parent, name).and_then(|folder| {
                    self.empty(top, &folder, at + 1)?;
                    rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR)
                })
            }
            Err(Errno::NOTEMPTY | Errno::EXIST) => {
                let fresh = format!("{:032x}", rand::random::<u128>());
                // A folder can be moved only by someone who may write in it.
                open_up(parent, name).and_then(|_| rustix::fs::renameat(parent, name, top, fresh))
            }
            other => other,
        };
        self.note(done);
    }

    fn empty(
        &mut self,
        top: BorrowedFd<'_>,
        folder: &OwnedFd,
        at: usize,
    ) -> rustix::io::Result<()> {
        for entry in Dir::read_from(folder)? {
            let entry = entry?;
            if is_proper(entry.file_name()) {
                self.remove(top, folder.as_fd(), &entry, at);
            }
        }
        Ok(())
    }

    fn note(&mut self, done: rustix::io::Result<()>) {
        match done {
            Ok(()) => self.progress = true,
            // Somebody else removed it.
            Err(Errno::NOENT) => {}
            Err(error) => self.error = self.error.or(Some(error)),
        }
    }
}

/// Removes a file or an empty folder. Which of the two it was when it was listed saves a question.
fn unlink(parent: BorrowedFd<'_>, name: &CStr, listed: FileType) -> rustix::io::Result<()> {
    let file = || rustix::fs::unlinkat(parent, name, AtFlags::empty());
    let folder = || rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR);
    if listed.is_dir() {
        match folder() {
            Err(Errno::NOTDIR) => file(),
            other => other,
        }
    } else {
        match file() {
            Err(Errno::ISDIR) => folder(),
            other => other,
        }
    }
}

/// Opens a folder that may be closed to its own owner, which an ordinary user's node is.
fn open_up(parent: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<OwnedFd> {
    let folder = rustix::fs::openat(parent, name, FOLDER | OFlags::PATH, Mode::empty())?;
    let mode = rustix::fs::fstat(&folder)?.st_mode;
    if mode & 0o700 != 0o700 {
        // By its descriptor: the name may stand for something else by now.
        let _ = rustix::fs::chmod(descriptor(&folder), Mode::RWXU);
    }
    rustix::fs::openat(&folder, c".", FOLDER, Mode::empty())
}

/// Removes a tree, or puts it into the folder `aside` if that is not possible: what strangers made must
/// not be in the way for ever.
pub(crate) fn remove_or_set_aside(path: &Path, aside: &Path) -> io::Result<()> {
    let Err(error) = remove(path) else {
        return Ok(());
    };
    let kept = set_aside(path, aside)?;
    tracing::warn!(path = %path.display(), kept = %kept.display(), %error, "what could not be removed was set aside");
    Ok(())
}

/// Moves something into the folder `aside`, and returns where it is.
pub(crate) fn set_aside(path: &Path, aside: &Path) -> io::Result<PathBuf> {
    std::fs::create_dir_all(aside)?;
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", jiff::Timestamp::now().as_millisecond()));
    let kept = aside.join(name);
    std::fs::rename(path, &kept)?;
    Ok(kept)
}

/// Calls `visit` with all that lies below `root` on the same file system, until it breaks.
///
/// # Errors
/// When folders lie deeper than [`DEPTH`]. What cannot be read is passed over.
pub(crate) fn walk<B>(
    root: &Path,
    mut visit: impl FnMut(&Stat) -> ControlFlow<B>,
) -> Result<ControlFlow<B>, TooDeep> {
    let Ok(root) = rustix::fs::open(root, FOLDER, Mode::empty()) else {
        return Ok(ControlFlow::Continue(()));
    };
    let device = rustix::fs::fstat(&root).map_or(0, |stat| stat.st_dev);
    let mut open: Vec<Dir> = Dir::new(root).into_iter().collect();
    while let Some(folder) = open.last_mut() {
        let Some(Ok(entry)) = folder.read() else {
            open.pop();
            continue;
        };
        let name = entry.file_name();
        let Ok(here) = folder.fd() else {
            open.pop();
            continue;
        };
        if !is_proper(name) {
            continue;
        }
        let Ok(stat) = rustix::fs::statat(here, name, AtFlags::SYMLINK_NOFOLLOW) else {
            continue;
        };
        if stat.st_dev != device {
            continue;
        }
        if let ControlFlow::Break(found) = visit(&stat) {
            return Ok(ControlFlow::Break(found));
        }
        if FileType::from_raw_mode(stat.st_mode).is_dir() {
            let below = rustix::fs::openat(here, name, FOLDER, Mode::empty());
            if open.len() >= DEPTH {
                return Err(TooDeep);
            }
            open.extend(below.and_then(Dir::new));
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// A tree has more folders in folders than are looked at.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooDeep;

fn is_proper(name: &CStr) -> bool {
    !matches!(name.to_bytes(), b"." | b"..")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    /// A chain of folders, made one by one, for no path is that long. Returns the lowest.
    fn chain(root: &Path, depth: usize) -> OwnedFd {
        let mut at = rustix::fs::open(root, FOLDER, Mode::empty()).unwrap();
        for _ in 0..depth {
            rustix::fs::mkdirat(&at, c"d", Mode::RWXU).unwrap();
            at = rustix::fs::openat(&at, c"d", FOLDER, Mode::empty()).unwrap();
        }
        at
    }

    #[test]
    fn a_tree_goes_however_deep_wide_or_strange_it_is() {
        // In memory, where this many folders take no time.
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let outside = directory.path().join("outside");
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("kept"), "").unwrap();
        let tree = directory.path().join("tree");
        std::fs::create_dir_all(tree.join("wide/closed/in")).unwrap();
        let lowest = chain(&tree, 20_000);
        rustix::fs::symlinkat(&outside, &lowest, c"link").unwrap();
        drop(lowest);
        for number in 0..2_000 {
            std::fs::create_dir_all(tree.join(format!("wide/{number}/in"))).unwrap();
        }
        symlink(&outside, tree.join("link")).unwrap();
        std::fs::write(tree.join("wide").join(OsStr::from_bytes(b"\xff\xfe\n")), "").unwrap();
        let place = rustix::fs::open(tree.join("wide"), FOLDER, Mode::empty()).unwrap();
        rustix::fs::mknodat(&place, c"fifo", FileType::Fifo, Mode::empty(), 0).unwrap();
        std::fs::write(tree.join("wide/closed/in/file"), "").unwrap();
        for closed in ["wide/closed/in", "wide/closed"] {
            let mode = std::fs::Permissions::from_mode(0o0);
            std::fs::set_permissions(tree.join(closed), mode).unwrap();
        }
        // On a thread with as little stack as the server's have.
        let thread = std::thread::Builder::new().stack_size(64 << 10);
        let removed = thread.spawn({
            let tree = tree.clone();
            move || remove(&tree)
        });
        removed.unwrap().join().unwrap().unwrap();
        assert!(!tree.exists());
        assert!(outside.join("kept").exists());
        remove(&tree).unwrap();
        remove(&directory.path().join("no/where")).unwrap();
    }

    #[test]
    fn what_cannot_be_removed_is_set_aside() {
        let directory = tempfile::tempdir().unwrap();
        let (tree, aside) = (
            directory.path().join("tree"),
            directory.path().join("aside"),
        );
        std::fs::create_dir_all(tree.join("a/b")).unwrap();
        remove_or_set_aside(&tree, &aside).unwrap();
        assert!(!tree.exists() && !aside.exists());
        std::fs::create_dir_all(&tree).unwrap();
        let kept = set_aside(&tree, &aside).unwrap();
        assert!(!tree.exists() && kept.starts_with(&aside) && kept.is_dir());
    }

    #[test]
    fn a_walk_ends_at_what_is_too_deep() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(directory.path().join("a/b/c")).unwrap();
        symlink("/", directory.path().join("a/link")).unwrap();
        let mut seen = 0;
        let walked = walk::<()>(directory.path(), |_| {
            seen += 1;
            ControlFlow::Continue(())
        });
        assert_eq!((walked, seen), (Ok(ControlFlow::Continue(())), 4));
        chain(directory.path(), 1_000);
        let walked = walk::<()>(directory.path(), |_| ControlFlow::Continue(()));
        assert_eq!(walked, Err(TooDeep));
        remove(&directory.path().join("d")).unwrap();
    }
}
