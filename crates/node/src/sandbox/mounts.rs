//! Mounting inside a tree that somebody else may have filled with symbolic links.
//!
//! Image layers and volumes are written by strangers. Every path below a container's root is therefore
//! resolved by the kernel as if that root were `/` (`openat2` with `RESOLVE_IN_ROOT`), and mounts go
//! onto descriptors, not onto names.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use nix::mount::{MsFlags, mount};
use rustix::fs::{Gid, Mode, OFlags, ResolveFlags, Uid};
use rustix::io::Errno;

use crate::sys;

/// A container's root folder while it is being furnished.
pub(crate) struct Tree {
    root: OwnedFd,
    owner: (u32, u32),
    links: ResolveFlags,
}

impl Tree {
    /// Opens the folder; what is made in it belongs to `owner`.
    pub(crate) fn open(path: &Path, owner: (u32, u32)) -> io::Result<Self> {
        let root = rustix::fs::open(
            path,
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        Ok(Self::at(root, owner))
    }

    /// The same for a folder that is open.
    pub(crate) fn at(root: OwnedFd, owner: (u32, u32)) -> Self {
        Self {
            root,
            owner,
            links: ResolveFlags::IN_ROOT,
        }
    }

    /// A folder of the host in which strangers may have replaced anything by a link: one that leads out
    /// of it is an error. The way to the folder itself has no links at all.
    pub(crate) fn of_host(path: &Path, owner: (u32, u32)) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let links = ResolveFlags::NO_SYMLINKS;
        let root = rustix::fs::openat2(rustix::fs::CWD, path, flags, Mode::empty(), links)?;
        Ok(Self {
            root,
            owner,
            links: ResolveFlags::BENEATH,
        })
    }

    /// What lies below the root; the root itself for an empty path.
    pub(crate) fn below(&self, inside: &Path) -> io::Result<OwnedFd> {
        if inside.as_os_str().is_empty() {
            return self.root.try_clone();
        }
        self.resolve(inside, OFlags::PATH)
    }

    /// Makes an empty file in a folder that exists. Whatever has its name already is an error.
    pub(crate) fn new_file(&self, target: &Path) -> io::Result<()> {
        let name = target.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let parent = self.below(target.parent().unwrap_or(Path::new("")))?;
        let flags =
            OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = rustix::fs::openat(&parent, name, flags, Mode::from_raw_mode(0o644))?;
        self.chown(&file)
    }

    /// A folder inside, made with its parents where it is missing.
    pub(crate) fn directory(&self, target: &Path) -> io::Result<OwnedFd> {
        self.directory_with_mode(target, 0o755)
    }

    /// The same with the mode that a missing last folder gets.
    pub(crate) fn directory_with_mode(&self, target: &Path, mode: u32) -> io::Result<OwnedFd> {
        let mut reached = PathBuf::from(".");
        let mut at = self.root.try_clone()?;
        let names: Vec<_> = names(target).collect();
        for (index, name) in names.iter().enumerate() {
            reached.push(name);
            at = match self.resolve(&reached, OFlags::PATH | OFlags::DIRECTORY) {
                Ok(next) => next,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let last = index + 1 == names.len();
                    match rustix::fs::mkdirat(&at, *name, Mode::from_raw_mode(0o755)) {
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(error) => return Err(error.into()),
                    }
                    let next = self.resolve(&reached, OFlags::RDONLY | OFlags::DIRECTORY)?;
                    self.chown(&next)?;
                    if last && mode != 0o755 {
                        // Not through mkdir, which the process's mask would change.
                        rustix::fs::fchmod(&next, Mode::from_raw_mode(mode))?;
                    }
                    next
                }
                Err(error) => return Err(error),
            };
        }
        Ok(at)
    }

    /// A file inside, made empty where it is missing. A link that leads nowhere is replaced.
    pub(crate) fn file(&self, target: &Path) -> io::Result<OwnedFd> {
        let inside: PathBuf = Path::new(".").join(names(target).collect::<PathBuf>());
        match self.resolve(&inside, OFlags::PATH) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            found => return found,
        }
        let parent = target.parent().unwrap_or(Path::new("/"));
        let name = target.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let parent = self.directory(parent)?;
        match rustix::fs::unlinkat(&parent, name, rustix::fs::AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        let flags =
            OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = rustix::fs::openat(&parent, name, flags, Mode::from_raw_mode(0o644))?;
        self.chown(&file)?;
        self.resolve(&inside, OFlags::PATH)
    }

    /// A symbolic link; what is there already stays.
    pub(crate) fn link(&self, target: &Path, to: &Path) -> io::Result<()> {
        let parent = self.directory(target.parent().unwrap_or(Path::new("/")))?;
        let name = target.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        match rustix::fs::symlinkat(to, &parent, name) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Mounts a file system of its own.
    pub(crate) fn file_system(
        &self,
        kind: &str,
        target: &Path,
        flags: MsFlags,
        data: &str,
    ) -> io::Result<()> {
        let at = self.directory(target)?;
        mount(Some(kind), &descriptor(&at), Some(kind), flags, Some(data))?;
        Ok(())
    }

    /// Shows `source`, a file or folder outside, at `target`. `attributes` hold for all below it.
    pub(crate) fn bind(&self, source: &OwnedFd, target: &Path, attributes: u64) -> io::Result<()> {
        let folder = is_directory(source)?;
        let at = if folder {
            self.directory(target)?
        } else {
            self.file(target)?
        };
        let flags = MsFlags::MS_BIND | MsFlags::MS_REC;
        mount(
            Some(&descriptor(source)),
            &descriptor(&at),
            None::<&str>,
            flags,
            None::<&str>,
        )?;
        // The old descriptor names what is now covered; the new mount is found by its path.
        let inside: PathBuf = Path::new(".").join(names(target).collect::<PathBuf>());
        let mounted = self.resolve(&inside, OFlags::PATH)?;
        sys::mount_attributes(&descriptor(&mounted), attributes, true)
    }

    /// Attaches a mount that was made detached.
    pub(crate) fn attach(&self, detached: &OwnedFd, target: &Path) -> io::Result<()> {
        let at = if is_directory(detached)? {
            self.directory(target)?
        } else {
            self.file(target)?
        };
        let flags = rustix::mount::MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH
            | rustix::mount::MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
        rustix::mount::move_mount(detached, "", &at, "", flags)?;
        Ok(())
    }

    /// Opens something inside.
    pub(crate) fn resolve(&self, inside: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        Ok(rustix::fs::openat2(
            &self.root,
            inside,
            flags | OFlags::CLOEXEC,
            Mode::empty(),
            self.links | ResolveFlags::NO_MAGICLINKS,
        )?)
    }

    fn chown(&self, file: &OwnedFd) -> io::Result<()> {
        let (user, group) = self.owner;
        rustix::fs::fchown(file, Some(Uid::from_raw(user)), Some(Gid::from_raw(group)))?;
        Ok(())
    }
}

/// Opens a path of the host to be shown inside.
pub(crate) fn source(path: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(
        path,
        OFlags::PATH | OFlags::CLOEXEC,
        Mode::empty(),
    )?)
}

/// A copy of a mount, not yet attached, whose owners are seen as `namespace` maps them.
pub(crate) fn mapped(source: &OwnedFd, namespace: &OwnedFd) -> io::Result<OwnedFd> {
    use rustix::mount::OpenTreeFlags;
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH;
    let detached = rustix::mount::open_tree(source, "", flags)?;
    sys::map_owners(&detached, namespace)?;
    Ok(detached)
}

/// A mount of one or more read-only folders with a writable one above them, not yet attached.
pub(crate) fn overlay(lower: &[PathBuf], upper: &Path, work: &Path) -> io::Result<OwnedFd> {
    use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};
    let overlay = rustix::mount::fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    let set = |key: &str, path: &Path| rustix::mount::fsconfig_set_string(&overlay, key, path);
    let single = |path: &Path| {
        !path
            .as_os_str()
            .as_encoded_bytes()
            .iter()
            .any(|b| b":\\,".contains(b))
    };
    match lower {
        [only] if single(only) => set("lowerdir", only)?,
        [upper, lower] if single(upper) && single(lower) => {
            let mut both = upper.as_os_str().to_owned();
            both.push(":");
            both.push(lower);
            set("lowerdir", Path::new(&both))?;
        }
        // One key per layer, because a list of many is longer than the kernel takes.
        many => many.iter().try_for_each(|layer| set("lowerdir+", layer))?,
    }
    set("upperdir", upper)?;
    set("workdir", work)?;
    // The private attributes of overlays are for the machine's root alone, unless kept as the user's.
    if !super::identity::Identity::has_range() {
        rustix::mount::fsconfig_set_flag(&overlay, "userxattr")?;
    }
    // Nothing of it has to survive a power cut.
    let _ = rustix::mount::fsconfig_set_flag(&overlay, "volatile");
    rustix::mount::fsconfig_create(&overlay)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    Ok(rustix::mount::fsmount(
        &overlay,
        FsMountFlags::FSMOUNT_CLOEXEC,
        attributes,
    )?)
}

/// The name by which the kernel finds an open file again.
pub(crate) fn descriptor(file: &impl AsFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_fd().as_raw_fd()))
}

pub(crate) fn is_directory(file: &OwnedFd) -> io::Result<bool> {
    let stat = rustix::fs::fstat(file)?;
    Ok(rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir())
}

/// The proper names in a path; `..` is not one, and climbs nowhere.
fn names(path: &Path) -> impl Iterator<Item = &std::ffi::OsStr> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name),
        Component::Prefix(_) | Component::RootDir | Component::CurDir | Component::ParentDir => {
            None
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(directory: &Path) -> Tree {
        let owner = (
            nix::unistd::geteuid().as_raw(),
            nix::unistd::getegid().as_raw(),
        );
        Tree::open(directory, owner).unwrap()
    }

    #[test]
    fn links_inside_cannot_lead_outside() {
        let outside = tempfile::tempdir().unwrap();
        let inside = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(outside.path(), inside.path().join("data")).unwrap();
        let tree = tree(inside.path());
        // The link means a folder below the root, which does not exist and cannot be made under it.
        let _ = tree.directory(Path::new("/data/made"));
        let _ = tree.file(Path::new("/data/file"));
        let _ = tree.directory(Path::new("/../../etc/made"));
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
        assert!(!Path::new("/etc/made").exists());
        assert!(inside.path().join("etc/made").is_dir());
    }

    #[test]
    fn a_dangling_link_gives_way_to_a_file() {
        let inside = tempfile::tempdir().unwrap();
        std::fs::create_dir(inside.path().join("etc")).unwrap();
        let resolv = inside.path().join("etc/resolv.conf");
        std::os::unix::fs::symlink("../run/nowhere", &resolv).unwrap();
        tree(inside.path())
            .file(Path::new("/etc/resolv.conf"))
            .unwrap();
        assert!(std::fs::symlink_metadata(&resolv).unwrap().is_file());
    }
}
