//! A pod's volumes as folders of this machine.
//!
//! Volumes made of objects are replaced as a whole: the files lie in a folder with a fresh name, a link
//! `..data` leads to it, and a link per file leads through that. Replacing the one link changes all
//! files at once, also in containers that run.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown, lchown, symlink};
use std::path::{Component, Path, PathBuf};

use astrago_api::quantity::Amount;
use k8s_openapi::api::core::v1::{DownwardAPIVolumeFile, KeyToPath, Volume, VolumeProjection};
use kube::ResourceExt;
use rustix::fs::FileType;
use rustix::io::Errno;

use super::fields::{self, Facts};
use super::references::{Error, Kind, Objects, Result};
use super::snapshots;
use crate::layout::{self, PodDir};
use crate::sandbox::identity;
use crate::sandbox::mounts::Tree;
use crate::tree;

/// Where a volume is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// A folder or file.
    Path { path: PathBuf, read_only: bool },
    /// What lies at `inside` in a folder of the host.
    Host { folder: PathBuf, inside: PathBuf },
    /// In memory, at most that large.
    Memory { size: Option<u64> },
}

/// The files of a volume: path, content and mode.
type Files = BTreeMap<PathBuf, (Vec<u8>, u32)>;

const MODE: i32 = 0o644;

/// What volumes are made of.
pub(super) struct Volumes<'a> {
    pub(super) dir: &'a PodDir,
    pub(super) data_dir: &'a Path,
    pub(super) snapshots: Option<&'a Path>,
    pub(super) host_folders: &'a [HostFolder],
    pub(super) facts: Facts<'a>,
    pub(super) objects: &'a Objects,
}

impl Volumes<'_> {
    /// Makes all volumes of the pod, or brings those made of objects up to date.
    pub(super) fn make(&self) -> Result<BTreeMap<String, Source>> {
        let Some(spec) = &self.facts.pod.spec else {
            return Ok(BTreeMap::new());
        };
        let context = spec.security_context.as_ref();
        let group = context.and_then(|context| context.fs_group);
        let group = identity::given("fsGroup", group).map_err(Error::Identity)?;
        let volumes = spec.volumes.iter().flatten();
        volumes
            .map(|volume| Ok((volume.name.clone(), self.one(volume, group)?)))
            .collect()
    }

    fn one(&self, volume: &Volume, group: Option<u32>) -> Result<Source> {
        let owner = identity::volume_owner(group);
        let namespace = self.facts.pod.namespace().unwrap_or_default();
        let refused = |problem| Error::Volume {
            volume: volume.name.clone(),
            problem,
        };
        let failed = |source| Error::WriteVolume {
            volume: volume.name.clone(),
            source,
        };
        let own = self.dir.volume(&volume.name);
        let (path, read_only) = if let Some(files) = self.files(volume)? {
            publish(&own, &files, owner).map_err(failed)?;
            (own, true)
        } else if let Some(empty) = &volume.empty_dir {
            if empty.medium.as_deref() == Some("Memory") {
                let limit = empty.size_limit.as_ref();
                let limit = limit.and_then(|size| Amount::try_from(size).ok());
                let size = limit.and_then(|limit| u64::try_from(limit.units_up()).ok());
                let size = size.filter(|size| *size > 0);
                return Ok(Source::Memory { size });
            }
            shared_folder(&own, owner, group.is_some()).map_err(failed)?;
            (own, false)
        } else if let Some(claim) = &volume.persistent_volume_claim {
            let uid = self.objects.claim(&claim.claim_name)?;
            let path = layout::claim(self.data_dir, &namespace, &claim.claim_name, uid);
            shared_folder(&path, owner, group.is_some()).map_err(failed)?;
            (path, claim.read_only.unwrap_or(false))
        } else if let Some(csi) = &volume.csi {
            let path = snapshots::folder(self.snapshots, self.data_dir, &namespace, csi);
            (path.map_err(refused)?, true)
        } else if let Some(host) = &volume.host_path {
            let kind = host.type_.as_deref().unwrap_or_default();
            let found = host_path(&host.path, kind, self.host_folders);
            let (folder, inside) = found.map_err(refused)?;
            return Ok(Source::Host { folder, inside });
        } else {
            let problem = "this node has configMap, secret, projected, downwardAPI, emptyDir, persistentVolumeClaim and hostPath volumes only";
            return Err(refused(problem.to_owned()));
        };
        Ok(Source::Path { path, read_only })
    }

    /// The files of a volume that is made of objects; `None` for other volumes.
    fn files(&self, volume: &Volume) -> Result<Option<Files>> {
        let mut content = Content {
            volume: &volume.name,
            facts: &self.facts,
            objects: self.objects,
            mode: MODE,
            files: Files::new(),
        };
        if let Some(source) = &volume.config_map {
            let (name, items) = (&source.name, source.items.as_deref());
            content.mode = source.default_mode.unwrap_or(MODE);
            content.object(Kind::ConfigMap, name, items, source.optional)?;
        } else if let Some(source) = &volume.secret {
            let name = source.secret_name.as_deref().unwrap_or_default();
            content.mode = source.default_mode.unwrap_or(MODE);
            content.object(Kind::Secret, name, source.items.as_deref(), source.optional)?;
        } else if let Some(source) = &volume.downward_api {
            content.mode = source.default_mode.unwrap_or(MODE);
            content.fields(source.items.as_deref())?;
        } else if let Some(projected) = &volume.projected {
            content.mode = projected.default_mode.unwrap_or(MODE);
            for source in projected.sources.iter().flatten() {
                content.project(source)?;
            }
        } else {
            return Ok(None);
        }
        Ok(Some(content.files))
    }
}

/// The files of a volume while they are being gathered.
struct Content<'a> {
    volume: &'a str,
    facts: &'a Facts<'a>,
    objects: &'a Objects,
    /// Of files that have none of their own.
    mode: i32,
    files: Files,
}

impl Content<'_> {
    fn add(&mut self, path: &str, bytes: Vec<u8>, mode: Option<i32>) -> Result<()> {
        let relative = Path::new(path);
        let proper = !path.is_empty()
            && relative
                .components()
                .all(|part| matches!(part, Component::Normal(_)))
            && !path.starts_with("..");
        if !proper {
            return Err(Error::Volume {
                volume: self.volume.to_owned(),
                problem: format!("{path:?} is not a relative path without \"..\""),
            });
        }
        let mode = mode.unwrap_or(self.mode).unsigned_abs() & 0o777;
        self.files.insert(relative.to_owned(), (bytes, mode));
        Ok(())
    }

    fn project(&mut self, source: &VolumeProjection) -> Result<()> {
        if let Some(source) = &source.config_map {
            let (name, items) = (&source.name, source.items.as_deref());
            self.object(Kind::ConfigMap, name, items, source.optional)?;
        }
        if let Some(source) = &source.secret {
            let (name, items) = (&source.name, source.items.as_deref());
            self.object(Kind::Secret, name, items, source.optional)?;
        }
        if let Some(source) = &source.downward_api {
            self.fields(source.items.as_deref())?;
        }
        if let Some(source) = &source.service_account_token
            && let Some(token) = self.objects.token(source)
        {
            self.add(&source.path, token.as_bytes().to_vec(), None)?;
        }
        Ok(())
    }

    /// The keys of a ConfigMap or Secret: those that are named, or all.
    fn object(
        &mut self,
        kind: Kind,
        name: &str,
        items: Option<&[KeyToPath]>,
        optional: Option<bool>,
    ) -> Result<()> {
        let optional = optional.unwrap_or(false);
        let Some(data) = self.objects.data(kind, name, optional)? else {
            return Ok(());
        };
        let Some(items) = items.filter(|items| !items.is_empty()) else {
            return data
                .iter()
                .try_for_each(|(key, bytes)| self.add(key, bytes.clone(), None));
        };
        for item in items {
            match data.get(&item.key) {
                Some(bytes) => self.add(&item.path, bytes.clone(), item.mode)?,
                None if optional => {}
                None => {
                    return Err(Error::Key {
                        kind,
                        name: name.to_owned(),
                        key: item.key.clone(),
                    });
                }
            }
        }
        Ok(())
    }

    fn fields(&mut self, items: Option<&[DownwardAPIVolumeFile]>) -> Result<()> {
        for item in items.into_iter().flatten() {
            let (path, value) = if let Some(field) = &item.field_ref {
                let value = fields::field(self.facts, &field.field_path);
                (&field.field_path, value)
            } else if let Some(selector) = &item.resource_field_ref {
                let name = selector.container_name.as_deref().unwrap_or_default();
                let spec = self.facts.pod.spec.as_ref();
                let mut containers = spec.into_iter().flat_map(|spec| &spec.containers);
                let value = containers
                    .find(|container| container.name == name)
                    .and_then(|container| fields::resource(self.facts, container, selector));
                (&selector.resource, value)
            } else {
                continue;
            };
            let value = value.ok_or_else(|| Error::Field { path: path.clone() })?;
            self.add(&item.path, value.into_bytes(), item.mode)?;
        }
        Ok(())
    }
}

/// Replaces the content of a volume, if it is another one.
fn publish(volume: &Path, files: &Files, owner: Option<(u32, u32)>) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(volume)?;
    own(volume, owner)?;
    let data = volume.join("..data");
    if is_current(&data, files) {
        return Ok(());
    }
    let fresh = format!("..{}", jiff::Timestamp::now().as_nanosecond());
    let folder = volume.join(&fresh);
    fs::create_dir(&folder)?;
    own(&folder, owner)?;
    for (path, (bytes, mode)) in files {
        let file = folder.join(path);
        let mut above = PathBuf::new();
        for part in path.parent().into_iter().flat_map(Path::components) {
            above.push(part);
            let made = folder.join(&above);
            if !made.is_dir() {
                fs::create_dir(&made)?;
                own(&made, owner)?;
            }
        }
        fs::write(&file, bytes)?;
        fs::set_permissions(&file, fs::Permissions::from_mode(*mode))?;
        own(&file, owner)?;
    }
    let before = fs::read_link(&data).ok();
    let draft = volume.join("..data_tmp");
    let _ = fs::remove_file(&draft);
    symlink(&fresh, &draft)?;
    if let Some((user, group)) = owner {
        lchown(&draft, Some(user), Some(group))?;
    }
    fs::rename(&draft, &data)?;
    let top = |path: &PathBuf| {
        path.components()
            .next()
            .map(|part| PathBuf::from(part.as_os_str()))
    };
    let wanted: std::collections::BTreeSet<_> = files.keys().filter_map(top).collect();
    for name in &wanted {
        let link = volume.join(name);
        if fs::symlink_metadata(&link).is_err() {
            symlink(Path::new("..data").join(name), &link)?;
        }
    }
    for entry in fs::read_dir(volume)?.flatten() {
        let name = PathBuf::from(entry.file_name());
        let ours = name.to_string_lossy().starts_with("..");
        if !ours && !wanted.contains(&name) {
            fs::remove_file(entry.path())?;
        }
    }
    match before {
        Some(before) => tree::remove(&volume.join(before)),
        None => Ok(()),
    }
}

fn is_current(data: &Path, files: &Files) -> bool {
    let same = |(path, (bytes, mode)): (&PathBuf, &(Vec<u8>, u32))| {
        let file = data.join(path);
        fs::read(&file).is_ok_and(|content| content == *bytes)
            && fs::metadata(&file)
                .is_ok_and(|metadata| metadata.permissions().mode() & 0o777 == *mode)
    };
    data.is_dir()
        && files.iter().all(same)
        && data
            .canonicalize()
            .is_ok_and(|folder| count(&folder) == files.len())
}

/// The files in a folder and below it.
fn count(folder: &Path) -> usize {
    let mut files = 0;
    let walked = tree::walk::<()>(folder, |stat| {
        files += usize::from(!FileType::from_raw_mode(stat.st_mode).is_dir());
        ControlFlow::Continue(())
    });
    walked.map_or(usize::MAX, |_| files)
}

/// A folder that every user of the pod may write in.
fn shared_folder(path: &Path, owner: Option<(u32, u32)>, grouped: bool) -> io::Result<()> {
    if !path.is_dir() {
        fs::create_dir_all(path)?;
        own(path, owner)?;
        // With a group of its own, what is made in it belongs to the group.
        let mode = if grouped { 0o2777 } else { 0o777 };
        fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    }
    Ok(())
}

fn own(path: &Path, owner: Option<(u32, u32)>) -> io::Result<()> {
    owner.map_or(Ok(()), |(user, group)| chown(path, Some(user), Some(group)))
}

/// A folder of this machine that pods may mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HostFolder {
    /// As the administrator calls it.
    name: PathBuf,
    /// Without links, as it was when the node started: nothing that a pod does later can change it.
    real: PathBuf,
}

/// The folders that the administrator allows, the longest names first.
pub(super) fn host_folders(allowed: &[PathBuf]) -> Vec<HostFolder> {
    let mut folders = Vec::new();
    for name in allowed {
        let real = name.canonicalize().unwrap_or_else(|_| name.clone());
        folders.extend([name, &real].map(|name| HostFolder {
            name: name.clone(),
            real: real.clone(),
        }));
    }
    folders.sort_by_key(|folder| std::cmp::Reverse(folder.name.components().count()));
    folders
}

/// The allowed folder of a hostPath and the way from there, after making what is to be made. It is
/// resolved again, in the same way, whenever it is mounted: pods may change what is on the way.
fn host_path(path: &str, kind: &str, allowed: &[HostFolder]) -> Result<(PathBuf, PathBuf), String> {
    let wanted = Path::new(path);
    let climbs = wanted.components().any(|part| part == Component::ParentDir);
    let found = allowed.iter().filter(|_| !climbs && wanted.is_absolute());
    let found = found.into_iter().find_map(|folder| {
        let inside = wanted.strip_prefix(&folder.name).ok()?;
        Some((folder.real.clone(), inside.to_owned()))
    });
    let (folder, inside) = found.ok_or_else(|| {
        format!(
            "hostPath {path} is not among the folders that the administrator of this node allows"
        )
    })?;
    let failed = |error: io::Error| match Errno::from_io_error(&error) {
        Some(Errno::XDEV | Errno::LOOP) => {
            format!("hostPath {path} has a link that leads out of what the administrator allows")
        }
        Some(Errno::NOENT) => format!("hostPath {path} does not exist"),
        _ => format!("hostPath {path} cannot be used: {error}"),
    };
    let owner = identity::volume_owner(None).unwrap_or_else(|| {
        let (user, group) = (nix::unistd::geteuid(), nix::unistd::getegid());
        (user.as_raw(), group.as_raw())
    });
    let tree = Tree::of_host(&folder, owner).map_err(failed)?;
    let missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    if tree.below(&inside).is_err_and(|error| missing(&error)) {
        match kind {
            "DirectoryOrCreate" => tree.directory(&inside).map(drop).map_err(failed)?,
            "FileOrCreate" => tree.new_file(&inside).map_err(failed)?,
            _ => {}
        }
    }
    let stat = tree
        .below(&inside)
        .and_then(|file| Ok(rustix::fs::fstat(file)?))
        .map_err(failed)?;
    let found = FileType::from_raw_mode(stat.st_mode);
    let fits = match kind {
        "Directory" | "DirectoryOrCreate" => found.is_dir(),
        "File" | "FileOrCreate" => found.is_file(),
        _ => true,
    };
    if fits {
        Ok((folder, inside))
    } else {
        Err(format!("hostPath {path} is not a {kind}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(all: &[(&str, &str, u32)]) -> Files {
        all.iter()
            .map(|(path, text, mode)| (PathBuf::from(path), (text.as_bytes().to_vec(), *mode)))
            .collect()
    }

    #[test]
    fn a_volume_changes_as_a_whole() {
        let directory = tempfile::tempdir().unwrap();
        let volume = directory.path().join("v");
        let read = |name: &str| fs::read_to_string(volume.join(name)).ok();
        publish(
            &volume,
            &files(&[("a", "1", 0o644), ("sub/b", "2", 0o400)]),
            None,
        )
        .unwrap();
        assert_eq!(
            (read("a").as_deref(), read("sub/b").as_deref()),
            (Some("1"), Some("2"))
        );
        let first = fs::read_link(volume.join("..data")).unwrap();
        publish(
            &volume,
            &files(&[("a", "1", 0o644), ("sub/b", "2", 0o400)]),
            None,
        )
        .unwrap();
        assert_eq!(
            fs::read_link(volume.join("..data")).unwrap(),
            first,
            "nothing changed"
        );
        publish(
            &volume,
            &files(&[("a", "3", 0o755), ("c", "4", 0o644)]),
            None,
        )
        .unwrap();
        assert_eq!(
            (read("a").as_deref(), read("c").as_deref(), read("sub/b")),
            (Some("3"), Some("4"), None)
        );
        assert_eq!(
            fs::metadata(volume.join("a")).unwrap().permissions().mode() & 0o777,
            0o755
        );
        assert!(!volume.join(first).exists());
    }

    #[test]
    fn host_paths_are_refused_unless_allowed_also_through_links() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let (open, closed) = (root.join("open"), root.join("closed"));
        fs::create_dir(&open).unwrap();
        fs::create_dir(&closed).unwrap();
        symlink(&closed, open.join("link")).unwrap();
        symlink("/nowhere/at/all", open.join("dangling")).unwrap();
        let alias = root.join("alias");
        symlink(&open, &alias).unwrap();
        let allowed = host_folders(&[open.clone(), alias.clone()]);
        let check = |path: PathBuf, kind: &str| {
            host_path(path.to_str().unwrap(), kind, &allowed)
                .map(|(folder, inside)| folder.join(inside))
        };
        assert_eq!(
            check(open.clone(), "").unwrap().components().as_path(),
            open
        );
        assert_eq!(
            check(open.join("new"), "DirectoryOrCreate").unwrap(),
            open.join("new")
        );
        assert_eq!(check(alias.join("new"), "").unwrap(), open.join("new"));
        let file = check(open.join("new/file"), "FileOrCreate").unwrap();
        assert!(file.is_file());
        for kind in ["", "FileOrCreate", "DirectoryOrCreate"] {
            assert!(check(open.join("dangling"), kind).is_err());
        }
        assert!(!Path::new("/nowhere").exists());
        assert!(check(closed.clone(), "").is_err());
        assert!(check(open.join("link"), "").is_err());
        assert!(check(open.join("../closed"), "").is_err());
        assert!(check(closed.join("new"), "DirectoryOrCreate").is_err());
        assert!(check(open.join("link/new"), "DirectoryOrCreate").is_err());
        assert!(!closed.join("new").exists());
        assert!(
            check(open.join("missing"), "")
                .unwrap_err()
                .contains("does not exist")
        );
    }
}
