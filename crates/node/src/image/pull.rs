//! Pulling: from a reference to unpacked layers.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use futures::{StreamExt, TryStreamExt};
use oci_client::Reference;
use oci_client::manifest::OciDescriptor;
use tokio::sync::{Semaphore, mpsc};

use super::credentials::{Credentials, fingerprint};
use super::digest::Digest;
use super::registry::{Registry, Remote};
use super::store::{Manifest, Store};
use super::{Error, Result, Root, Source, blob, unpack};

/// When a registry is asked; Kubernetes' `imagePullPolicy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    Always,
    IfNotPresent,
    Never,
}

/// How far a pull is. Layers that were there already count as done from the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    pub layers: usize,
    pub layers_done: usize,
    pub bytes: u64,
    pub bytes_done: u64,
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mebibytes = |bytes: u64| bytes.div_ceil(1 << 20);
        write!(
            f,
            "{} of {} layers, {} of {} MiB",
            self.layers_done,
            self.layers,
            mebibytes(self.bytes_done),
            mebibytes(self.bytes)
        )
    }
}

/// Layers that are fetched at the same time, over all images.
const LAYERS_AT_ONCE: usize = 4;
/// Pieces of a blob between network and disk.
const QUEUE: usize = 16;

/// The node's image store. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Images(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    store: Store,
    quota: u64,
    private: bool,
    slots: Semaphore,
    /// What is being pulled or unpacked: whoever comes second waits and finds it done.
    locks: Mutex<BTreeMap<String, Weak<tokio::sync::Mutex<()>>>>,
}

impl Images {
    /// Opens the store below the node's data directory. `quota` bounds what layers take unpacked;
    /// `private` says whether users may name registries on this machine and in private networks.
    pub fn open(data_dir: &Path, quota: u64, private: bool) -> Result<Self> {
        // Fails when another part of the program has installed one, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let store = Store::open(&data_dir.join("images")).map_err(Error::Store)?;
        let slots = Semaphore::new(LAYERS_AT_ONCE);
        Ok(Self(Arc::new(Inner {
            store,
            quota,
            private,
            slots,
            locks: Mutex::default(),
        })))
    }

    /// Finds an image here or in its registry, and makes sure that it is unpacked.
    ///
    /// An image that came with credentials is handed only to those who show some with which it
    /// was had; others must convince the registry first, even if nothing more is downloaded.
    pub async fn resolve(
        &self,
        image: &str,
        policy: Policy,
        credentials: &Credentials,
        progress: &(dyn Fn(Progress) + Send + Sync),
    ) -> Result<Root> {
        let reference: Reference = image.parse().map_err(|_| Error::Name {
            image: image.to_owned(),
        })?;
        let name = reference.whole();
        let lock = self.lock(&name);
        let _alone = lock.lock().await;
        let auth = credentials.find(&reference);
        let reader = fingerprint(&reference, &auth);
        let here = self.find(&name).await?;
        let may_read = |manifest: &Manifest| {
            manifest.public
                || reader
                    .as_ref()
                    .is_some_and(|reader| manifest.readers.contains(reader))
        };
        match (policy, here) {
            (Policy::Never, None) => return Err(Error::NotPresent { image: name }),
            (Policy::Never | Policy::IfNotPresent, Some(manifest)) if may_read(&manifest) => {
                return Ok(self.root(&name, manifest));
            }
            (Policy::Never, Some(_)) => return Err(Error::Unauthorized { image: name }),
            (Policy::IfNotPresent | Policy::Always, _) => {}
        }
        let registry = Registry::open(reference, auth, self.0.private).await?;
        let (digest, manifest) = registry.manifest().await?;
        let known = self.manifest(&digest).await?;
        let mut manifest = if let Some(known) = known {
            known
        } else {
            let remote = registry.config(manifest).await?;
            self.fetch_layers(&registry, &remote, progress).await?;
            Manifest {
                digest: digest.as_str().to_owned(),
                config: remote.config,
                layers: remote
                    .layers
                    .iter()
                    .map(|(_, id)| id.as_str().to_owned())
                    .collect(),
                public: false,
                readers: BTreeSet::new(),
            }
        };
        manifest.public |= reader.is_none();
        manifest.readers.extend(reader.clone());
        let root = self.root(&name, manifest.clone());
        self.with_store(move |store| store.save(&name, &manifest))
            .await?;
        Ok(root)
    }

    /// Deletes images whose layers no pod has mounted, least recently used first: when the quota
    /// is nearly used up, until there is room again. Returns the bytes that were freed.
    pub async fn clean(&self, in_use: BTreeSet<PathBuf>) -> Result<u64> {
        let percent = |share: u64| self.0.quota / 100 * share;
        let (high, low) = (percent(85), percent(70));
        self.with_store(move |store| {
            let target = if store.used()? > high { low } else { u64::MAX };
            store.clean(&in_use, target)
        })
        .await
    }

    fn root(&self, name: &str, manifest: Manifest) -> Root {
        let lowers = self.0.store.lowers(&manifest);
        let source = Source::Image {
            reference: name.to_owned(),
            digest: manifest.digest,
        };
        Root {
            source,
            lowers,
            config: manifest.config,
        }
    }

    async fn fetch_layers(
        &self,
        registry: &Registry,
        remote: &Remote,
        progress: &(dyn Fn(Progress) + Send + Sync),
    ) -> Result<()> {
        let size = |layer: &OciDescriptor| u64::try_from(layer.size).unwrap_or(0);
        let bytes = remote.layers.iter().map(|(layer, _)| size(layer)).sum();
        let bytes_done = AtomicU64::new(0);
        let layers_done = AtomicUsize::new(0);
        let tell = |more: u64, layers: usize| {
            progress(Progress {
                layers: remote.layers.len(),
                layers_done: layers_done.fetch_add(layers, Ordering::Relaxed) + layers,
                bytes,
                bytes_done: bytes_done.fetch_add(more, Ordering::Relaxed) + more,
            });
        };
        tell(0, 0);
        let tell = &tell;
        let fetches = remote.layers.iter().map(|(layer, diff_id)| async move {
            let fetched = self
                .fetch_layer(registry, layer, diff_id, &|more| tell(more, 0))
                .await?;
            tell(if fetched { 0 } else { size(layer) }, 1);
            Ok::<_, Error>(())
        });
        // Collected, for the compiler cannot see that a future which holds this iterator is `Send`.
        let fetches: Vec<_> = fetches.collect();
        futures::stream::iter(fetches)
            .buffer_unordered(LAYERS_AT_ONCE)
            .try_collect::<()>()
            .await
    }

    /// Fetches and unpacks a layer; `false` if it was there.
    async fn fetch_layer(
        &self,
        registry: &Registry,
        layer: &OciDescriptor,
        diff_id: &Digest,
        progress: &(dyn Fn(u64) + Send + Sync),
    ) -> Result<bool> {
        let lock = self.lock(diff_id.as_str());
        let _alone = lock.lock().await;
        if self.layer_is_here(diff_id).await? {
            return Ok(false);
        }
        let _slot = self
            .0
            .slots
            .acquire()
            .await
            .map_err(|_| Error::Interrupted)?;
        let invalid = Error::Invalid {
            image: registry.reference.whole(),
            what: "a layer's digest",
        };
        let digest = Digest::parse(&layer.digest).ok_or(invalid)?;
        let failed = |source| match source {
            blob::Error::Unpack(unpack::Error::TooLarge) => Error::Quota {
                image: registry.reference.whole(),
                quota: self.0.quota,
            },
            source => Error::Blob {
                image: registry.reference.whole(),
                digest: layer.digest.clone(),
                source,
            },
        };
        let (sender, receiver) = mpsc::channel(QUEUE);
        let unpacking = tokio::task::spawn_blocking({
            let (store, quota, diff_id) = (self.0.store.clone(), self.0.quota, diff_id.clone());
            move || {
                let budget = quota.saturating_sub(store.used().map_err(Error::Store)?);
                let draft = store.draft().map_err(Error::Store)?;
                Ok(
                    blob::unpack_layer(receiver, &digest, &diff_id, &draft.fs(), budget)
                        .map(|written| (draft, written)),
                )
            }
        });
        let downloaded = blob::download(
            &registry.client,
            &registry.reference,
            layer,
            sender,
            progress,
        )
        .await;
        let unpacked = unpacking.await.map_err(|_| Error::Interrupted)??;
        // A failed download makes the unpacking fail too; the first failure is the cause.
        downloaded.map_err(failed)?;
        let (draft, written) = unpacked.map_err(failed)?;
        let diff_id = diff_id.clone();
        self.with_store(move |store| store.keep(&draft, &diff_id, written))
            .await?;
        Ok(true)
    }

    async fn find(&self, name: &str) -> Result<Option<Manifest>> {
        let name = name.to_owned();
        self.with_store(move |store| store.find(&name)).await
    }

    async fn manifest(&self, digest: &Digest) -> Result<Option<Manifest>> {
        let digest = digest.clone();
        self.with_store(move |store| store.manifest(&digest)).await
    }

    async fn layer_is_here(&self, diff_id: &Digest) -> Result<bool> {
        let diff_id = diff_id.clone();
        Ok(self
            .with_store(move |store| store.layer(&diff_id))
            .await?
            .is_some())
    }

    async fn with_store<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Store) -> std::io::Result<T> + Send + 'static,
    ) -> Result<T> {
        let inner = Arc::clone(&self.0);
        let done = tokio::task::spawn_blocking(move || work(&inner.store)).await;
        done.map_err(|_| Error::Interrupted)?.map_err(Error::Store)
    }

    fn lock(&self, key: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut locks = self
            .0
            .locks
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        locks.retain(|_, lock| lock.strong_count() > 0);
        if let Some(lock) = locks.get(key).and_then(Weak::upgrade) {
            return lock;
        }
        let lock = Arc::new(tokio::sync::Mutex::new(()));
        locks.insert(key.to_owned(), Arc::downgrade(&lock));
        lock
    }
}
