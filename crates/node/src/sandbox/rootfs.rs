//! Furnishing a container's root folder.
//!
//! Runs in a mount namespace of its own in the setup user namespace, right before the container is
//! cloned from it: whatever is mounted here goes away with the container.

mod beginning;

use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown};
use std::path::{Path, PathBuf};

use nix::mount::MsFlags;

use self::beginning::{FOLDERS, Made, beginning, is_covered};
use super::identity::Identity;
use super::mounts::{self, Tree};
use crate::spec::{ContainerSpec, Mount, Root};
use crate::sys::{NO_DEVICES, NO_EXECUTE, NO_SETUID, READ_ONLY};

/// The host's folders that make up the host image. Links among them are copied as links.
pub(crate) const SYSTEM: &[&str] = &[
    "bin", "etc", "lib", "lib32", "lib64", "libx32", "nix", "opt", "sbin", "usr",
];

/// Size of `/dev/shm` where the pod says nothing.
const SHARED_MEMORY: u64 = 64 << 20;

/// Makes the root folder of a container below `directory` and returns where it is.
pub(crate) fn build(
    container: &ContainerSpec,
    pod: &crate::layout::PodDir,
    identity: Identity,
) -> Result<PathBuf> {
    let directory = pod.container(&container.name);
    let owner = (identity.outside(0), identity.outside(0));
    let root = directory.join("root");
    own_directory(&root, owner).map_err(|source| Error::Prepare {
        path: root.clone(),
        source,
    })?;
    let builder = Builder {
        container,
        pod,
        directory: &directory,
        owner,
        identity,
    };
    match &container.root {
        Root::Layers { lower } => {
            let mapped = builder.map_layers(lower, "root");
            let overlay = builder.overlay(mapped.as_deref().unwrap_or(lower), "root")?;
            attach(&overlay, &root, owner).map_err(|source| Error::Overlay {
                lower: lower.clone(),
                source,
            })?;
        }
        // Where no layer can be laid, as below a folder that is itself one, the folders are made one by one.
        Root::Host { read_only } => {
            let lower = builder.skeleton("root", &beginning(read_only))?;
            if let Ok(overlay) = builder.overlay(std::slice::from_ref(&lower), "root") {
                attach(&overlay, &root, owner).map_err(|source| Error::Overlay {
                    lower: vec![lower],
                    source,
                })?;
            }
        }
    }
    // Opened after the overlay is there, which it must see.
    let tree = Tree::open(&root, owner).map_err(|source| Error::Prepare {
        path: root.clone(),
        source,
    })?;
    if let Root::Host { read_only } = &container.root {
        builder.host(&tree, read_only)?;
    }
    builder.folders(&tree)?;
    builder.devices(&tree)?;
    Builder::system_information(&tree)?;
    for mount in &container.mounts {
        builder.volume(&tree, pod, mount)?;
    }
    Ok(root)
}

fn attach(overlay: &OwnedFd, root: &Path, owner: (u32, u32)) -> io::Result<()> {
    Tree::open(root, owner)?.attach(overlay, Path::new("/"))
}

struct Builder<'a> {
    container: &'a ContainerSpec,
    pod: &'a crate::layout::PodDir,
    directory: &'a Path,
    owner: (u32, u32),
    identity: Identity,
}

impl Builder<'_> {
    /// The system folders of the host, each under a private layer, and the folders of Python.
    fn host(&self, tree: &Tree, read_only: &[PathBuf]) -> Result<()> {
        for name in SYSTEM {
            let lower = Path::new("/").join(name);
            let target = Path::new("/").join(name);
            let Ok(metadata) = fs::symlink_metadata(&lower) else {
                continue;
            };
            if metadata.is_symlink() {
                let to = fs::read_link(&lower).map_err(|source| Error::Target {
                    target: target.clone(),
                    source,
                })?;
                tree.link(&target, &to)
                    .map_err(|source| Error::Target { target, source })?;
            } else if metadata.is_dir() && is_empty(&lower) {
                // There is nothing to lay anything over.
                tree.directory(&target)
                    .map_err(|source| Error::Target { target, source })?;
            } else if metadata.is_dir() {
                match self.overlay(&self.with_owners(&lower)?, name) {
                    Ok(overlay) => {
                        tree.attach(&overlay, &target)
                            .map_err(|source| Error::Overlay {
                                lower: vec![lower],
                                source,
                            })?;
                    }
                    // An ordinary user cannot lay anything over a folder in which others mounted
                    // something, as they do in /etc of containers. It is shown as it is.
                    Err(Error::Overlay { source, .. })
                        if source.kind() == io::ErrorKind::InvalidInput =>
                    {
                        self.read_only(tree, &lower)?;
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        for path in read_only.iter().filter(|path| !is_covered(path)) {
            self.python(tree, path)?;
        }
        Ok(())
    }

    /// A folder of Python's in its own place, under a private layer: what `pip` adds there goes away with the
    /// container.
    fn python(&self, tree: &Tree, path: &Path) -> Result<()> {
        let name = path.to_string_lossy().replace('/', "_");
        let lower = [path.to_owned()];
        let mapped = self.map_layers(&lower, &name);
        match self.overlay(mapped.as_deref().unwrap_or(&lower), &name) {
            Ok(overlay) => tree.attach(&overlay, path).map_err(|source| Error::Target {
                target: path.to_owned(),
                source,
            }),
            // Not every file system takes a layer.
            Err(Error::Overlay { .. }) => self.read_only(tree, path),
            Err(error) => Err(error),
        }
    }

    /// A folder of the host in its own place.
    fn read_only(&self, tree: &Tree, path: &Path) -> Result<()> {
        let source = mounts::source(path).map_err(|source| Error::Source {
            path: path.to_owned(),
            source,
        })?;
        // Mapped owners let it be read also where only its owner may.
        let same = |pid| self.identity.apply(pid);
        if self.mapped(tree, &source, path, true, same).is_ok() {
            return Ok(());
        }
        tree.bind(&source, path, READ_ONLY | NO_SETUID | NO_DEVICES)
            .map_err(|source| Error::Target {
                target: path.to_owned(),
                source,
            })
    }

    /// The layers with the owners that they have in the image or on the host: their root is the
    /// container's. `None` where owners cannot be mapped, or need not be.
    fn map_layers(&self, lower: &[PathBuf], name: &str) -> Option<Vec<PathBuf>> {
        if self.identity != Identity::Range {
            return None;
        }
        let namespace = super::process::containers_namespace().ok()?;
        // Mounted where only this process and the container see it, so all may use the same place.
        let place = self.pod.skeletons().join("lower").join(name);
        let map = |(index, layer): (usize, &PathBuf)| {
            let at = place.join(index.to_string());
            fs::create_dir_all(&at).ok()?;
            let source = mounts::source(layer).ok()?;
            let mapped = mounts::mapped(&source, namespace).ok()?;
            Tree::open(&at, self.owner)
                .ok()?
                .attach(&mapped, Path::new("/"))
                .ok()?;
            Some(at)
        };
        lower.iter().enumerate().map(map).collect()
    }

    /// A folder of the host as it is laid below a container. Host folders belong to nobody there; those in which
    /// containers may make files are made its root's by a layer that they all share.
    fn with_owners(&self, lower: &Path) -> Result<Vec<PathBuf>> {
        let own = writable(lower);
        if own.is_empty() {
            return Ok(vec![lower.to_owned()]);
        }
        let own: Vec<Made> = own
            .into_iter()
            .map(|path| Made::Folder(path, 0o755))
            .collect();
        Ok(vec![self.skeleton("usr", &own)?, lower.to_owned()])
    }

    /// A folder with all this in it, which belongs to a container's root. It is made once: what is made and removed for
    /// each pod is most of what starting it takes.
    fn skeleton(&self, name: &str, all: &[Made]) -> Result<PathBuf> {
        let mut digest = DefaultHasher::new();
        (self.owner, all).hash(&mut digest);
        let name = format!("{name}-{:016x}", digest.finish());
        let place = self.pod.skeletons().join(&name);
        if place.is_dir() {
            return Ok(place);
        }
        // Whoever is second has made the same.
        let draft = self.directory.join(&name);
        let make = || -> io::Result<()> {
            own_directory(&draft, self.owner)?;
            for made in all {
                match made {
                    Made::Folder(path, mode) => {
                        let folder = draft.join(path);
                        own_directory(&folder, self.owner)?;
                        fs::set_permissions(&folder, fs::Permissions::from_mode(*mode))?;
                    }
                    Made::Link(path, to) => {
                        let link = draft.join(path);
                        std::os::unix::fs::symlink(to, &link)?;
                        lchown(link, Some(self.owner.0), Some(self.owner.1))?;
                    }
                }
            }
            fs::create_dir_all(self.pod.skeletons())?;
            match fs::rename(&draft, &place) {
                Err(_) if place.is_dir() => Ok(()),
                renamed => renamed,
            }
        };
        make().map_err(|source| Error::Prepare {
            path: place.clone(),
            source,
        })?;
        Ok(place)
    }

    /// A private writable layer over `lower`.
    fn overlay(&self, lower: &[PathBuf], name: &str) -> Result<OwnedFd> {
        let upper = self.directory.join("layers").join(name);
        let work = self.directory.join("work").join(name);
        own_directory(&upper, self.owner)
            .and_then(|()| own_directory(&work, self.owner))
            .map_err(|source| Error::Prepare {
                path: upper.clone(),
                source,
            })?;
        mounts::overlay(lower, &upper, &work).map_err(|source| Error::Overlay {
            lower: lower.to_vec(),
            source,
        })
    }

    /// Folders that programs expect, and the one that the container starts in.
    fn folders(&self, tree: &Tree) -> Result<()> {
        for (target, mode) in FOLDERS {
            let target = Path::new("/").join(target);
            tree.directory_with_mode(&target, *mode)
                .map_err(|source| Error::Target { target, source })?;
        }
        let target = &self.container.working_dir;
        let missing = tree
            .resolve(
                Path::new(".")
                    .join(target.strip_prefix("/").unwrap_or(target))
                    .as_path(),
                rustix::fs::OFlags::PATH,
            )
            .is_err();
        let folder = tree.directory(target).map_err(|source| Error::Target {
            target: target.clone(),
            source,
        })?;
        if missing {
            let user = rustix::fs::Uid::from_raw(self.identity.outside(self.container.user));
            let group = rustix::fs::Gid::from_raw(self.identity.outside(self.container.group));
            rustix::fs::fchown(folder, Some(user), Some(group)).map_err(|error| Error::Target {
                target: target.clone(),
                source: error.into(),
            })?;
        }
        Ok(())
    }

    fn devices(&self, tree: &Tree) -> Result<()> {
        let (user, group) = self.owner;
        let failed = |source| Error::Target {
            target: "/dev".into(),
            source,
        };
        let tmpfs = |target: &str, mode: u32, size: u64, flags| {
            let data = format!("mode={mode:o},size={size},uid={user},gid={group}");
            tree.file_system("tmpfs", Path::new(target), flags, &data)
                .map_err(failed)
        };
        let quiet = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
        tmpfs("/dev", 0o755, 1 << 20, quiet)?;
        let nodes = ["null", "zero", "full", "random", "urandom", "tty"]
            .map(|name| Path::new("/dev").join(name));
        for path in nodes.iter().chain(&self.container.devices) {
            let source = mounts::source(path).map_err(|source| Error::Source {
                path: path.clone(),
                source,
            })?;
            tree.bind(&source, path, NO_SETUID | NO_EXECUTE)
                .map_err(failed)?;
        }
        let terminals = "newinstance,ptmxmode=0666,mode=0620";
        tree.file_system("devpts", Path::new("/dev/pts"), quiet, terminals)
            .map_err(failed)?;
        for (name, to) in [
            ("ptmx", "pts/ptmx"),
            ("fd", "/proc/self/fd"),
            ("stdin", "/proc/self/fd/0"),
            ("stdout", "/proc/self/fd/1"),
            ("stderr", "/proc/self/fd/2"),
        ] {
            tree.link(&Path::new("/dev").join(name), Path::new(to))
                .map_err(failed)?;
        }
        tmpfs("/dev/shm", 0o1777, SHARED_MEMORY, quiet | MsFlags::MS_NODEV)?;
        // Few programs use message queues, and some kernels have none.
        let _ = tree.file_system(
            "mqueue",
            Path::new("/dev/mqueue"),
            quiet | MsFlags::MS_NODEV,
            "",
        );
        Ok(())
    }

    /// `/sys` of the pod's own network namespace, read-only, without what tells of the machine.
    fn system_information(tree: &Tree) -> Result<()> {
        let flags =
            MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC | MsFlags::MS_RDONLY;
        let target = Path::new("/sys");
        if tree.file_system("sysfs", target, flags, "").is_err() {
            // A machine that is itself a container may forbid it; an empty folder does no harm.
            return Ok(());
        }
        for masked in [
            "/sys/firmware",
            "/sys/devices/virtual/powercap",
            "/sys/kernel",
        ] {
            let exists = tree
                .resolve(&Path::new(".").join(&masked[1..]), rustix::fs::OFlags::PATH)
                .is_ok();
            if exists {
                tree.file_system("tmpfs", Path::new(masked), flags, "size=0")
                    .map_err(|source| Error::Target {
                        target: masked.into(),
                        source,
                    })?;
            }
        }
        Ok(())
    }

    fn volume(&self, tree: &Tree, pod: &crate::layout::PodDir, mount: &Mount) -> Result<()> {
        let (path, host, sub_path, target, read_only) = match mount {
            Mount::Bind {
                source,
                host,
                sub_path,
                target,
                read_only,
            } => (source.clone(), host.as_deref(), sub_path, target, read_only),
            Mount::Memory {
                key,
                sub_path,
                target,
                read_only,
                ..
            } => (pod.volume(key), None, sub_path, target, read_only),
        };
        let opened = match host {
            None => mounts::source(&path),
            Some(inside) => {
                Tree::of_host(&path, self.owner).and_then(|folder| folder.below(inside))
            }
        };
        let path = host.map_or_else(|| path.clone(), |inside| path.join(inside));
        let mut source = opened.map_err(|source| Error::Source {
            path: path.clone(),
            source,
        })?;
        if let Some(relative) = sub_path {
            source = self
                .sub_path(source, relative)
                .map_err(|source| Error::Source {
                    path: path.join(relative),
                    source,
                })?;
        }
        if host.is_some() && self.lent(tree, &source, target, *read_only).is_ok() {
            return Ok(());
        }
        let usual = NO_SETUID | NO_DEVICES;
        let attributes = if *read_only { usual | READ_ONLY } else { usual };
        tree.bind(&source, target, attributes)
            .map_err(|source| Error::Target {
                target: target.clone(),
                source,
            })
    }

    /// Part of a volume. What the pod itself put there, links above all, leads nowhere outside.
    fn sub_path(&self, volume: OwnedFd, relative: &Path) -> io::Result<OwnedFd> {
        let tree = Tree::at(volume, self.owner);
        let inside = Path::new(".").join(relative.strip_prefix("/").unwrap_or(relative));
        match tree.resolve(&inside, rustix::fs::OFlags::PATH) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => tree.directory(relative),
            found => found,
        }
    }

    /// A host folder in which the container's user stands for its owner.
    fn lent(
        &self,
        tree: &Tree,
        source: &OwnedFd,
        target: &Path,
        read_only: bool,
    ) -> io::Result<()> {
        let stat = rustix::fs::fstat(source)?;
        let inside = (self.container.user, self.container.group);
        let owner = (stat.st_uid, stat.st_gid);
        self.mapped(tree, source, target, read_only, |pid| {
            super::identity::lend(pid, inside, owner)
        })
    }

    /// Something of the host with owners as `apply` maps them.
    fn mapped(
        &self,
        tree: &Tree,
        source: &OwnedFd,
        target: &Path,
        read_only: bool,
        apply: impl FnOnce(nix::unistd::Pid) -> io::Result<()>,
    ) -> io::Result<()> {
        if self.identity != Identity::Range {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let namespace = super::process::user_namespace(apply)?;
        let detached = mounts::mapped(source, &namespace)?;
        let attributes = NO_SETUID | NO_DEVICES | if read_only { READ_ONLY } else { 0 };
        crate::sys::mount_attributes(&mounts::descriptor(&detached), attributes, false)?;
        tree.attach(&detached, target)
    }
}

/// Nothing can be seen in it.
fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none())
}

/// Folders below a system folder in which containers may make files: itself and, in `/usr`, the next
/// two levels, as far as everybody may list them.
fn writable(lower: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    if lower != Path::new("/usr") {
        return found;
    }
    for below in ["", "local"] {
        let Ok(entries) = fs::read_dir(lower.join(below)) else {
            continue;
        };
        for entry in entries.flatten() {
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            if metadata.is_dir() && metadata.mode() & 0o5 == 0o5 {
                found.push(Path::new(below).join(entry.file_name()));
            }
        }
    }
    found
}

/// Makes a folder that belongs to the container's root.
fn own_directory(path: &Path, owner: (u32, u32)) -> io::Result<()> {
    fs::create_dir_all(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    chown(path, Some(owner.0), Some(owner.1))
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Error {
    #[error("failed to prepare {}", path.display())]
    Prepare { path: PathBuf, source: io::Error },
    #[error("failed to lay a private layer over {}", lower.first().map(|p| p.display().to_string()).unwrap_or_default())]
    Overlay {
        lower: Vec<PathBuf>,
        source: io::Error,
    },
    #[error("failed to open {} to mount it", path.display())]
    Source { path: PathBuf, source: io::Error },
    #[error("failed to mount at {} in the container", target.display())]
    Target { target: PathBuf, source: io::Error },
}

type Result<T, E = Error> = std::result::Result<T, E>;
