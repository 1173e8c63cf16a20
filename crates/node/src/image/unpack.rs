//! Layers: tar archives, unpacked into a directory that overlayfs can use as a lower layer.
//!
//! The archive is hostile until proven otherwise. Every path is resolved by the kernel *within*
//! the layer's directory (`openat2` with `RESOLVE_IN_ROOT`), so neither `..` nor a symbolic link
//! that an earlier entry planted leads out of it, and the last part of a path is never followed.
//! What is not unpacked: device nodes (a container's `/dev` is made by the sandbox) and extended
//! attributes by which overlayfs itself is steered.
//!
//! Deletions (`.wh.name`) become what overlayfs understands: a character device 0/0, which an
//! ordinary user may make too, and for `.wh..wh..opq` the attribute `opaque`, in both of the
//! namespaces in which overlayfs may look for it.

use std::cell::Cell;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, Gid, Mode, OFlags, ResolveFlags, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;
use tar::{Archive, Entry, EntryType};

use crate::tree;

const WHITEOUT: &[u8] = b".wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";
/// Entries of one layer; each costs an inode whatever its size.
const ENTRIES_MAX: u64 = 2_000_000;
/// Bytes before an entry's content: its header, and names and attributes that are too long for it. They are held in memory.
const HEADER_MAX: u64 = 1 << 20;
/// Bytes of the names and attributes of directories, which are held until the end.
const HELD_MAX: usize = 128 << 20;

/// Unpacks an archive into an empty directory. Stops when more than `budget` bytes come out of
/// it. Returns the number of bytes written.
pub(super) fn unpack(archive: impl Read, directory: &Path, budget: u64) -> Result<u64> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(directory, flags, Mode::empty())?;
    let mut layer = Layer {
        root,
        directories: Vec::new(),
        held: 0,
        written: 0,
        budget,
        owns: rustix::process::geteuid().is_root(),
    };
    let allowed = Cell::new(0);
    let mut archive = Archive::new(Allowed {
        from: archive,
        left: &allowed,
    });
    let mut entries = archive.entries()?;
    for count in 0.. {
        allowed.set(HEADER_MAX);
        let Some(entry) = entries.next() else { break };
        if count >= ENTRIES_MAX {
            return Err(Error::TooMany);
        }
        let mut entry = entry?;
        allowed.set(u64::MAX);
        layer.entry(&mut entry)?;
        // What is left of it counts as if it were written.
        let left = layer.budget - layer.written;
        if io::copy(&mut entry.take(left.saturating_add(1)), &mut io::sink())? > left {
            return Err(Error::TooLarge);
        }
    }
    layer.finish()?;
    Ok(layer.written)
}

/// Reads as much as is left.
struct Allowed<'a, R> {
    from: R,
    left: &'a Cell<u64>,
}

impl<R: Read> Read for Allowed<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.left.get()).unwrap_or(usize::MAX);
        if left == 0 && !buffer.is_empty() {
            return Err(io::Error::other("a header of the archive is too long"));
        }
        let most = buffer.len().min(left);
        let read = self.from.read(&mut buffer[..most])?;
        self.left.set(self.left.get() - read as u64);
        Ok(read)
    }
}

struct Layer {
    root: OwnedFd,
    /// Directories get their mode and time last: the mode may forbid us to put files into them.
    directories: Vec<(PathBuf, Attributes)>,
    /// The bytes of their names and attributes.
    held: usize,
    written: u64,
    budget: u64,
    /// We may give files away to their owners.
    owns: bool,
}

struct Attributes {
    mode: u32,
    owner: u64,
    group: u64,
    modified: u64,
    extended: Vec<(String, Vec<u8>)>,
}

impl Layer {
    fn entry(&mut self, entry: &mut Entry<'_, impl Read>) -> Result<()> {
        let path = inside(Path::new(OsStr::from_bytes(&entry.path_bytes())))?;
        let Some(name) = path.file_name().map(OsStr::to_owned) else {
            // The layer's own root: `./`.
            let attributes = Attributes::of(entry)?;
            return self.hold(path, attributes);
        };
        let parent = self.parent(&path)?;
        if let Some(hidden) = name.as_bytes().strip_prefix(WHITEOUT) {
            return self.whiteout(&parent, &path, &name, OsStr::from_bytes(hidden));
        }
        let attributes = Attributes::of(entry)?;
        let kind = entry.header().entry_type();
        make_way(&parent, &name, kind == EntryType::Directory)?;
        match kind {
            EntryType::Directory => {
                match rustix::fs::mkdirat(&parent, &name, Mode::RWXU) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
                self.hold(path, attributes)?;
            }
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                self.file(&parent, &name, entry, &attributes)?;
            }
            EntryType::Symlink => {
                let target = entry.link_name_bytes().ok_or(Error::NoTarget(path))?;
                rustix::fs::symlinkat(OsStr::from_bytes(&target), &parent, &name)?;
                self.give_away(&parent, &name, &attributes)?;
                set_time(&parent, &name, &attributes)?;
            }
            EntryType::Link => {
                let target = entry.link_name_bytes().ok_or(Error::NoTarget(path))?;
                let target = inside(Path::new(OsStr::from_bytes(&target)))?;
                let target_name = target.file_name().ok_or(Error::Outside(target.clone()))?;
                let target_parent = self.parent(&target)?;
                rustix::fs::linkat(
                    &target_parent,
                    target_name,
                    &parent,
                    &name,
                    AtFlags::empty(),
                )?;
            }
            EntryType::Fifo => {
                let mode = Mode::from_raw_mode(attributes.mode & 0o777);
                rustix::fs::mknodat(&parent, &name, rustix::fs::FileType::Fifo, mode, 0)?;
                self.give_away(&parent, &name, &attributes)?;
            }
            // Devices are left out on purpose; other types carry no file.
            _ => {}
        }
        Ok(())
    }

    /// Remembers a directory until the end.
    fn hold(&mut self, path: PathBuf, attributes: Attributes) -> Result<()> {
        let extended = attributes.extended.iter();
        let extended: usize = extended.map(|(key, value)| key.len() + value.len()).sum();
        self.held += path.as_os_str().len() + extended;
        if self.held > HELD_MAX {
            return Err(Error::TooMany);
        }
        self.directories.push((path, attributes));
        Ok(())
    }

    /// The directory that holds `path`, made if it is not there.
    fn parent(&self, path: &Path) -> Result<OwnedFd> {
        let directory = path.parent().unwrap_or(Path::new(""));
        match self.open(directory, OFlags::PATH | OFlags::DIRECTORY) {
            Err(Errno::NOENT) => {
                let above = self.parent(directory)?;
                let name = directory.file_name().unwrap_or_default();
                match rustix::fs::mkdirat(&above, name, Mode::from_raw_mode(0o755)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
                // A symbolic link to nothing is still no directory, and an error here.
                Ok(self.open(directory, OFlags::PATH | OFlags::DIRECTORY)?)
            }
            other => Ok(other?),
        }
    }

    fn open(&self, path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let path = if path.as_os_str().is_empty() {
            Path::new(".")
        } else {
            path
        };
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        rustix::fs::openat2(
            &self.root,
            path,
            flags | OFlags::CLOEXEC,
            Mode::empty(),
            resolve,
        )
    }

    fn whiteout(
        &mut self,
        parent: &OwnedFd,
        path: &Path,
        name: &OsStr,
        hidden: &OsStr,
    ) -> Result<()> {
        if name.as_bytes() == OPAQUE {
            let directory = path.parent().unwrap_or(Path::new(""));
            let handle = self.open(directory, OFlags::RDONLY | OFlags::DIRECTORY)?;
            rustix::fs::fsetxattr(&handle, "user.overlay.opaque", b"y", XattrFlags::empty())?;
            if self.owns {
                // Refused in a user namespace, where overlayfs does not look for it either.
                let _ = rustix::fs::fsetxattr(
                    &handle,
                    "trusted.overlay.opaque",
                    b"y",
                    XattrFlags::empty(),
                );
            }
            return Ok(());
        }
        // Other names of this form are another file system's bookkeeping.
        if name.as_bytes().starts_with(b".wh..wh.") || hidden.is_empty() {
            return Ok(());
        }
        if matches!(hidden.as_bytes(), b"." | b"..") {
            return Err(Error::Outside(path.to_owned()));
        }
        make_way(parent, hidden, false)?;
        let kind = rustix::fs::FileType::CharacterDevice;
        rustix::fs::mknodat(parent, hidden, kind, Mode::empty(), 0)?;
        Ok(())
    }

    fn file(
        &mut self,
        parent: &OwnedFd,
        name: &OsStr,
        entry: &mut Entry<'_, impl Read>,
        attributes: &Attributes,
    ) -> Result<()> {
        let flags =
            OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = rustix::fs::openat(parent, name, flags, Mode::RUSR | Mode::WUSR)?;
        let mut file = File::from(handle);
        let left = self.budget - self.written;
        let copied = io::copy(&mut entry.take(left.saturating_add(1)), &mut file)?;
        if copied > left {
            return Err(Error::TooLarge);
        }
        self.written += copied;
        self.give_away(parent, name, attributes)?;
        for (key, value) in &attributes.extended {
            // Not every file system, and not every user, can keep these.
            let _ = rustix::fs::fsetxattr(&file, key, value, XattrFlags::empty());
        }
        // After the owner: changing that clears the setuid bit.
        rustix::fs::fchmod(&file, Mode::from_raw_mode(attributes.mode))?;
        rustix::fs::futimens(&file, &attributes.times())?;
        Ok(())
    }

    fn give_away(&self, parent: &OwnedFd, name: &OsStr, attributes: &Attributes) -> Result<()> {
        if !self.owns {
            return Ok(());
        }
        let (Ok(owner), Ok(group)) = (
            u32::try_from(attributes.owner),
            u32::try_from(attributes.group),
        ) else {
            return Ok(());
        };
        let (owner, group) = (
            Uid::from_raw_unchecked(owner),
            Gid::from_raw_unchecked(group),
        );
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        match rustix::fs::chownat(parent, name, Some(owner), Some(group), flags) {
            // Root of a user namespace does not have all users.
            Ok(()) | Err(Errno::PERM | Errno::INVAL) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Gives directories their attributes, deepest first.
    fn finish(&mut self) -> Result<()> {
        let directories = std::mem::take(&mut self.directories);
        for (path, attributes) in directories.iter().rev() {
            let Ok(handle) = self.open(path, OFlags::RDONLY | OFlags::DIRECTORY) else {
                // A later entry replaced it.
                continue;
            };
            if let (Some(name), true) = (path.file_name(), self.owns) {
                self.give_away(&self.parent(path)?, name, attributes)?;
            }
            for (key, value) in &attributes.extended {
                let _ = rustix::fs::fsetxattr(&handle, key, value, XattrFlags::empty());
            }
            // The owner keeps access: an ordinary user must be able to delete the layer.
            let mode = if self.owns {
                attributes.mode
            } else {
                attributes.mode | 0o700
            };
            rustix::fs::fchmod(&handle, Mode::from_raw_mode(mode))?;
            rustix::fs::futimens(&handle, &attributes.times())?;
        }
        Ok(())
    }
}

impl Attributes {
    fn of(entry: &mut Entry<'_, impl Read>) -> Result<Self> {
        let mut extended = Vec::new();
        for extension in entry.pax_extensions()?.into_iter().flatten() {
            let extension = extension?;
            let Some(key) = extension
                .key()
                .ok()
                .and_then(|key| key.strip_prefix("SCHILY.xattr."))
            else {
                continue;
            };
            let harmless = key.starts_with("user.") && !key.starts_with("user.overlay.");
            if harmless || key == "security.capability" {
                extended.push((key.to_owned(), extension.value_bytes().to_vec()));
            }
        }
        let header = entry.header();
        Ok(Self {
            mode: header.mode()? & 0o7777,
            owner: header.uid()?,
            group: header.gid()?,
            modified: header.mtime()?,
            extended,
        })
    }

    fn times(&self) -> Timestamps {
        let time = Timespec {
            tv_sec: i64::try_from(self.modified).unwrap_or(0),
            tv_nsec: 0,
        };
        Timestamps {
            last_access: time,
            last_modification: time,
        }
    }
}

/// Removes what an earlier entry put there; directories merge.
fn make_way(parent: &OwnedFd, name: &OsStr, for_directory: bool) -> Result<()> {
    let stat = match rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(()),
        other => other?,
    };
    let is_directory =
        rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Directory;
    match (is_directory, for_directory) {
        (true, true) => Ok(()),
        (true, false) => Ok(tree::remove_at(parent, name)?),
        (false, _) => Ok(rustix::fs::unlinkat(parent, name, AtFlags::empty())?),
    }
}

fn set_time(parent: &OwnedFd, name: &OsStr, attributes: &Attributes) -> Result<()> {
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    Ok(rustix::fs::utimensat(
        parent,
        name,
        &attributes.times(),
        flags,
    )?)
}

/// A path without its leading slash and dots. One that climbs is refused, not mended: no honest
/// archive has it.
fn inside(path: &Path) -> Result<PathBuf> {
    let mut clean = PathBuf::new();
    for component in path.components() {
        match component {
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
            Component::Normal(name) => clean.push(name),
            Component::ParentDir => return Err(Error::Outside(path.to_owned())),
        }
    }
    Ok(clean)
}

pub(super) type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the archive names a path outside of the layer: {}", .0.display())]
    Outside(PathBuf),
    #[error("the link {} has no target", .0.display())]
    NoTarget(PathBuf),
    #[error("the layer does not fit into the space for images")]
    TooLarge,
    #[error("the layer has more than {ENTRIES_MAX} entries")]
    TooMany,
    #[error("failed to unpack the layer")]
    Unpack(#[from] io::Error),
}

impl From<Errno> for Error {
    fn from(error: Errno) -> Self {
        Self::Unpack(error.into())
    }
}

#[cfg(test)]
mod tests;
