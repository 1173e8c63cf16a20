//! Images on disk.
//!
//! ```text
//! images/layers/<short diff ID>/fs      an unpacked layer, shared by all images that have it
//!                              /layer.json   its full diff ID and size
//!        manifests/<digest>.json        an image: configuration and layers; its mtime is its last use
//!        names/<hash of reference>      the digest that a reference led to
//!        draft/                         unpacking goes on here; emptied on start
//! ```
//!
//! Everything appears by renaming something complete and synced, so a crash leaves drafts at most.
//! Which images are in use is not stored: the caller derives it from the pods that there are.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::config::Config;
use super::digest::{Digest, Hasher};
use crate::layout;
use crate::tree;

/// What was used more recently than this stays: between resolving an image and the pod's being
/// known, nothing else protects it.
const GRACE: Duration = Duration::from_mins(10);

#[derive(Clone, Debug)]
pub(super) struct Store {
    root: PathBuf,
}

/// An image that is complete on disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Manifest {
    pub(super) digest: String,
    pub(super) config: Config,
    /// Diff IDs, bottom first.
    pub(super) layers: Vec<String>,
    /// It can be had without credentials.
    pub(super) public: bool,
    /// Fingerprints of credentials with which it was had.
    #[serde(default)]
    pub(super) readers: BTreeSet<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LayerNote {
    diff_id: String,
    bytes: u64,
}

impl Store {
    pub(super) fn open(root: &Path) -> io::Result<Self> {
        use std::os::unix::fs::DirBuilderExt;
        let draft = root.join("draft");
        // Images contain setuid programs; other users of the machine must not reach them.
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(root)?;
        tree::remove_or_set_aside(&draft, &layout::quarantine(root.parent().unwrap_or(root)))?;
        for name in ["layers", "manifests", "names", "draft"] {
            fs::create_dir_all(root.join(name))?;
        }
        Ok(Self {
            root: root.to_owned(),
        })
    }

    /// The image that a reference led to when it was last pulled.
    pub(super) fn find(&self, reference: &str) -> io::Result<Option<Manifest>> {
        let name = match fs::read_to_string(self.name(reference)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        match Digest::parse(name.trim()) {
            Some(digest) => self.manifest(&digest),
            None => Ok(None),
        }
    }

    /// The image with this digest, if it is complete; marks it as used.
    pub(super) fn manifest(&self, digest: &Digest) -> io::Result<Option<Manifest>> {
        let path = self.manifest_path(digest.as_str());
        let Some(manifest) = read_json::<Manifest>(&path)? else {
            return Ok(None);
        };
        for layer in &manifest.layers {
            if self.layer_of(layer)?.is_none() {
                return Ok(None);
            }
        }
        File::options()
            .append(true)
            .open(&path)?
            .set_modified(SystemTime::now())?;
        Ok(Some(manifest))
    }

    pub(super) fn save(&self, reference: &str, manifest: &Manifest) -> io::Result<()> {
        let text = serde_json::to_vec(manifest)?;
        self.replace(&self.manifest_path(&manifest.digest), &text)?;
        self.replace(&self.name(reference), manifest.digest.as_bytes())
    }

    /// The directories of an image, topmost first.
    pub(super) fn lowers(&self, manifest: &Manifest) -> Vec<PathBuf> {
        let layers = manifest
            .layers
            .iter()
            .rev()
            .filter_map(|layer| Digest::parse(layer));
        // The same layer twice is nothing new, and overlayfs refuses it.
        let mut seen = BTreeSet::new();
        layers
            .filter(|layer| seen.insert(layer.clone()))
            .map(|layer| self.layer_path(&layer).join("fs"))
            .collect()
    }

    pub(super) fn layer(&self, diff_id: &Digest) -> io::Result<Option<PathBuf>> {
        let path = self.layer_path(diff_id);
        let note = read_json::<LayerNote>(&path.join("layer.json"))?;
        Ok(note
            .filter(|note| note.diff_id == diff_id.as_str())
            .map(|_| path.join("fs")))
    }

    fn layer_of(&self, diff_id: &str) -> io::Result<Option<PathBuf>> {
        Digest::parse(diff_id).map_or(Ok(None), |diff_id| self.layer(&diff_id))
    }

    /// A directory to unpack a layer into.
    pub(super) fn draft(&self) -> io::Result<Draft> {
        let path = self
            .root
            .join("draft")
            .join(format!("{:016x}", rand::random::<u64>()));
        fs::create_dir(&path)?;
        let draft = Draft { path };
        fs::create_dir(draft.fs())?;
        Ok(draft)
    }

    /// Makes a draft a layer, once it is on disk for certain.
    pub(super) fn keep(&self, draft: &Draft, diff_id: &Digest, bytes: u64) -> io::Result<()> {
        let note = LayerNote {
            diff_id: diff_id.as_str().to_owned(),
            bytes,
        };
        fs::write(draft.path.join("layer.json"), serde_json::to_vec(&note)?)?;
        // One call for all its files, where one fsync each would take minutes.
        rustix::fs::syncfs(File::open(&draft.path)?)?;
        let target = self.layer_path(diff_id);
        match fs::rename(&draft.path, &target) {
            // Somebody else was faster, with the same content.
            Err(_) if self.layer(diff_id)?.is_some() => Ok(()),
            Err(_) if target.exists() => {
                self.discard(&target)?;
                fs::rename(&draft.path, &target)
            }
            other => other,
        }?;
        sync_directory(&self.root.join("layers"))
    }

    /// What all layers take together.
    pub(super) fn used(&self) -> io::Result<u64> {
        let mut used = 0;
        for entry in fs::read_dir(self.root.join("layers"))? {
            let note = read_json::<LayerNote>(&entry?.path().join("layer.json"))?;
            used += note.map_or(0, |note| note.bytes);
        }
        Ok(used)
    }

    /// Deletes images that nobody uses, least recently used first, until no more than `target`
    /// bytes are left; then layers that belong to no image. `in_use` are the layers that pods have
    /// mounted. Returns the bytes that were freed.
    pub(super) fn clean(&self, in_use: &BTreeSet<PathBuf>, target: u64) -> io::Result<u64> {
        let mut kept = Vec::new();
        for entry in fs::read_dir(self.root.join("manifests"))? {
            let entry = entry?;
            match read_json::<Manifest>(&entry.path())? {
                Some(manifest) => kept.push((entry.metadata()?.modified()?, manifest)),
                None => fs::remove_file(entry.path())?,
            }
        }
        kept.sort_by_key(|(used, _)| *used);
        let before = self.used()?;
        let mut after = before.saturating_sub(self.delete_orphans(&kept)?);
        while after > target {
            let idle = kept.iter().position(|(used, manifest)| {
                let is_used = self
                    .lowers(manifest)
                    .iter()
                    .all(|layer| in_use.contains(layer));
                !is_used && is_past_grace(*used)
            });
            let Some(index) = idle else { break };
            let (_, manifest) = kept.remove(index);
            fs::remove_file(self.manifest_path(&manifest.digest))?;
            after = after.saturating_sub(self.delete_orphans(&kept)?);
        }
        Ok(before - after)
    }

    /// Deletes layers that belong to none of these images.
    fn delete_orphans(&self, images: &[(SystemTime, Manifest)]) -> io::Result<u64> {
        let needed: BTreeSet<&str> = images
            .iter()
            .flat_map(|(_, manifest)| manifest.layers.iter().map(String::as_str))
            .collect();
        let mut freed = 0;
        for entry in fs::read_dir(self.root.join("layers"))? {
            let path = entry?.path();
            let note_path = path.join("layer.json");
            let note = read_json::<LayerNote>(&note_path)?;
            let is_needed = note
                .as_ref()
                .is_some_and(|note| needed.contains(&*note.diff_id));
            // A layer of an image whose pull is not finished has no manifest yet.
            let made = fs::metadata(&note_path).and_then(|metadata| metadata.modified());
            if !is_needed && made.map_or(true, is_past_grace) {
                self.discard(&path)?;
                freed += note.map_or(0, |note| note.bytes);
            }
        }
        Ok(freed)
    }

    /// Takes a layer out of sight at once, then deletes it.
    fn discard(&self, layer: &Path) -> io::Result<()> {
        let away = self
            .root
            .join("draft")
            .join(format!("{:016x}", rand::random::<u64>()));
        fs::rename(layer, &away)?;
        tree::remove(&away)
    }

    fn layer_path(&self, diff_id: &Digest) -> PathBuf {
        self.root.join("layers").join(diff_id.short())
    }

    fn manifest_path(&self, digest: &str) -> PathBuf {
        self.root
            .join("manifests")
            .join(format!("{}.json", digest.replace(':', "-")))
    }

    fn name(&self, reference: &str) -> PathBuf {
        let mut hasher = Hasher::sha256();
        hasher.update(reference.as_bytes());
        self.root.join("names").join(hasher.finish().file_name())
    }

    fn replace(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let draft = self
            .root
            .join("draft")
            .join(format!("{:016x}", rand::random::<u64>()));
        let mut file = File::create(&draft)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&draft, path)?;
        sync_directory(path.parent().unwrap_or(&self.root))
    }
}

/// Deleted when it is dropped, unless it became a layer.
#[derive(Debug)]
pub(super) struct Draft {
    path: PathBuf,
}

impl Draft {
    pub(super) fn fs(&self) -> PathBuf {
        self.path.join("fs")
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // Gone already if it became a layer; what stays after a failure goes on the next start.
        let _ = tree::remove(&self.path);
    }
}

fn is_past_grace(time: SystemTime) -> bool {
    time.elapsed().is_ok_and(|age| age >= GRACE)
}

fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// A file that is missing, or that no version of ours wrote, counts as absent.
fn read_json<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match fs::read(path) {
        Ok(content) => Ok(serde_json::from_slice(&content).ok()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(letter: char) -> Digest {
        Digest::parse(&format!("sha256:{}", letter.to_string().repeat(64))).unwrap()
    }

    fn layer(store: &Store, letter: char, bytes: u64) {
        let draft = store.draft().unwrap();
        fs::write(draft.fs().join("file"), letter.to_string()).unwrap();
        store.keep(&draft, &digest(letter), bytes).unwrap();
    }

    fn image(store: &Store, name: &str, id: char, layers: &str) -> Manifest {
        let manifest = Manifest {
            digest: digest(id).as_str().to_owned(),
            config: Config::default(),
            layers: layers
                .chars()
                .map(|letter| digest(letter).as_str().to_owned())
                .collect(),
            public: true,
            readers: BTreeSet::new(),
        };
        store.save(name, &manifest).unwrap();
        manifest
    }

    /// Pretends that everything was last used so long ago.
    fn age(store: &Store, manifest: &Manifest, minutes: u64) {
        let time = SystemTime::now() - Duration::from_secs(60 * minutes);
        let mut paths = vec![store.manifest_path(&manifest.digest)];
        paths.extend(
            store
                .lowers(manifest)
                .iter()
                .map(|path| path.with_file_name("layer.json")),
        );
        for path in paths {
            File::options()
                .append(true)
                .open(path)
                .unwrap()
                .set_modified(time)
                .unwrap();
        }
    }

    #[test]
    fn images_share_layers_and_the_least_used_goes_first() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(&directory.path().join("images")).unwrap();
        for (letter, bytes) in [('a', 100), ('b', 10), ('c', 10), ('d', 10)] {
            layer(&store, letter, bytes);
        }
        let old = image(&store, "old", '1', "ab");
        let running = image(&store, "running", '2', "ac");
        let recent = image(&store, "recent", '3', "ad");
        age(&store, &running, 300);
        age(&store, &old, 200);
        age(&store, &recent, 100);
        assert_eq!(store.used().unwrap(), 130);
        let in_use = store.lowers(&running).into_iter().collect();
        assert_eq!(store.clean(&in_use, 125).unwrap(), 10);
        assert!(store.find("old").unwrap().is_none());
        assert!(store.find("running").unwrap().is_some());
        assert!(store.find("recent").unwrap().is_some());
        // Just used now, so it stays although nobody has it.
        assert_eq!(store.clean(&BTreeSet::new(), 0).unwrap(), 0);
    }

    #[test]
    fn an_image_without_one_of_its_layers_is_not_there() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        layer(&store, 'a', 1);
        image(&store, "image", '1', "ab");
        assert!(store.find("image").unwrap().is_none());
        layer(&store, 'b', 1);
        let found = store.find("image").unwrap().unwrap();
        let lowers = store.lowers(&found);
        assert_eq!(fs::read_to_string(lowers[0].join("file")).unwrap(), "b");
        assert_eq!(fs::read_to_string(lowers[1].join("file")).unwrap(), "a");
    }

    #[test]
    fn drafts_do_not_survive_a_start() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        std::mem::forget(store.draft().unwrap());
        Store::open(directory.path()).unwrap();
        assert_eq!(
            fs::read_dir(directory.path().join("draft"))
                .unwrap()
                .count(),
            0
        );
    }
}
