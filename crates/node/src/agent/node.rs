//! What all tasks of the agent share.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::{Pod, Service};
use kube::{Client, ResourceExt};
use tokio::sync::{Notify, OnceCell, Semaphore};
use tokio::task::spawn_blocking;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::address::{Addresses, Lease};
use super::admission::{self, Needs, Refusal};
use super::events::Events;
use super::hosts::{Names, Stale};
use super::links::Links;
use super::prepare;
use super::references;
use super::register::NodeFacts;
use super::tokens::Tokens;
use super::volumes::HostFolder;
use crate::egress::Egress;
use crate::gpu::{self, Allocation};
use crate::image::{self, HostError};
use crate::launch::Launcher;
use crate::layout::PodDir;
use crate::options::Options;
use crate::server::Certificate;
use crate::spec::{Network, PodSpec};

/// The node as its tasks see it.
pub(super) struct Node {
    pub(super) client: Client,
    pub(super) options: Options,
    pub(super) facts: NodeFacts,
    pub(super) certificate: Certificate,
    pub(super) launcher: Launcher,
    pub(super) egress: Egress,
    pub(super) host_image: Arc<HostImage>,
    /// What `hostPath` volumes may be.
    pub(super) host_folders: Vec<HostFolder>,
    pub(super) images: Option<image::Images>,
    pub(super) events: Events,
    pub(super) tokens: Tokens,
    pub(super) tasks: Tasks,
    /// Starting a pod is work for the CPU; more at once would only be slower.
    pub(super) launches: Semaphore,
    pub(super) shared: Mutex<Shared>,
    /// There are stale hosts files.
    pub(super) names_changed: Notify,
    pub(super) links: Links,
}

/// The host image. Python is asked about itself beside the start of everything else, for nobody but a pod needs to
/// know; where that fails it is asked again for the next pod.
#[derive(Default)]
pub(super) struct HostImage(OnceCell<image::Root>);

impl HostImage {
    pub(super) async fn get(&self, python: Option<&Path>) -> Result<&image::Root, HostError> {
        let ask = || async {
            let python = python.map(Path::to_owned);
            let asked = spawn_blocking(move || image::Root::host(python.as_deref())).await;
            asked.unwrap_or(Err(HostError::Interrupted))
        };
        self.0.get_or_try_init(ask).await
    }
}

/// What changes as pods come and go.
pub(super) struct Shared {
    pub(super) addresses: Addresses,
    pub(super) leases: BTreeMap<String, Lease>,
    pub(super) names: Names,
    /// Whose hosts files are not written yet.
    pub(super) stale: Stale,
    pub(super) gpus: BTreeMap<String, BTreeSet<u32>>,
    /// What the pods that are bound here ask for and have not given back.
    pub(super) claims: BTreeMap<String, Needs>,
}

/// The tasks of the agent, all of which end together.
#[derive(Clone, Default)]
pub(super) struct Tasks {
    tracker: TaskTracker,
    stopping: CancellationToken,
}

impl Tasks {
    /// Tasks that also end when `token` is cancelled.
    pub(super) fn under(token: &CancellationToken) -> Self {
        Self {
            tracker: TaskTracker::new(),
            stopping: token.child_token(),
        }
    }

    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let stopping = self.stopping.clone();
        self.tracker.spawn(async move {
            tokio::select! {
                () = stopping.cancelled() => {}
                () = work => {}
            }
        });
    }

    /// Ends all tasks when it is dropped.
    pub(super) fn guard(&self) -> DropGuard {
        self.stopping.clone().drop_guard()
    }

    /// Ends all tasks and waits for them.
    pub(super) async fn end(&self) {
        self.stopping.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }
}

impl Node {
    /// Takes note of what a pod of an earlier agent has.
    pub(super) fn restore(shared: &mut Shared, spec: &PodSpec) {
        if let Network::Bridge { address, .. } = &spec.network {
            shared
                .addresses
                .restore(&spec.namespace, &spec.uid, *address);
        }
        if !spec.gpus.is_empty() {
            let own = spec.gpus.iter().copied().collect();
            shared.gpus.insert(spec.uid.clone(), own);
        }
    }

    /// Counts what a pod asks for, from when it is bound until [`Self::unclaim`]. The scheduler has seen
    /// that it fits; whoever bound a pod past it is told here if it does not.
    pub(super) fn claim(&self, pod: &Pod) -> Option<Refusal> {
        let uid = pod.uid().unwrap_or_default();
        let begun = PodDir::new(&self.options.data_dir, &uid).spec().exists();
        let needs = admission::needs(pod);
        let mut shared = self.lock();
        if !begun && !admission::is_scheduled(pod) {
            let capacity = &self.facts.capacity;
            let refused = admission::fits(&needs, shared.claims.values(), capacity);
            if refused.is_some() {
                return refused;
            }
        }
        shared.claims.insert(uid, needs);
        None
    }

    /// The pod needs nothing more, or nobody wants it any longer. Others are told after this.
    pub(super) fn unclaim(&self, uid: &str) {
        self.lock().claims.remove(uid);
    }

    /// The pod's address, and from now on its names.
    pub(super) fn lease(&self, pod: &Pod) -> Option<Lease> {
        let uid = pod.uid().unwrap_or_default();
        let mut shared = self.lock();
        let lease = shared
            .addresses
            .lease(&pod.namespace().unwrap_or_default(), &uid)?;
        shared.leases.insert(uid, lease.clone());
        let stale = shared.names.add(pod, lease.address);
        self.outdate(&mut shared, stale);
        Some(lease)
    }

    /// The pod's address, if it has one.
    pub(super) fn address(&self, uid: &str) -> Option<Ipv4Addr> {
        self.lock().leases.get(uid).map(|lease| lease.address)
    }

    /// The pod needs nothing more.
    pub(super) fn release(&self, uid: &str) {
        let mut shared = self.lock();
        shared.gpus.remove(uid);
        shared.addresses.release(uid);
        let stale = shared.names.remove(uid);
        self.outdate(&mut shared, stale);
    }

    /// The pod is gone.
    pub(super) fn forget(&self, uid: &str) {
        self.release(uid);
        self.tokens.forget(uid);
        self.lock().leases.remove(uid);
    }

    /// A Service came, changed or went.
    pub(super) fn service(&self, service: &Service, present: bool) {
        self.links.service(service, present);
        let mut shared = self.lock();
        let stale = shared.names.service(service, present);
        self.outdate(&mut shared, stale);
    }

    /// These are all Services.
    pub(super) fn services(&self, all: &[Service]) {
        self.links.services(all);
        let mut shared = self.lock();
        let stale = shared.names.services(all);
        self.outdate(&mut shared, stale);
    }

    /// The bridge of a namespace, if it has one, and the first of the addresses of its pods.
    pub(super) fn bridge(&self, namespace: &str) -> Option<(String, Ipv4Addr)> {
        self.lock().addresses.bridge(namespace)
    }

    /// Writes the first hosts file of a pod.
    pub(super) fn write_hosts(&self, dir: &PodDir, uid: &str) -> std::io::Result<()> {
        let text = self.lock().names.file(uid);
        prepare::hosts_file(dir, text.as_deref())?;
        // There may have been news between the two.
        let mut shared = self.lock();
        if shared.names.file(uid) != text {
            self.outdate(&mut shared, Stale::from([uid.to_owned()]));
        }
        Ok(())
    }

    /// Brings hosts files up to date when there is news, for as long as it is polled. One writer for all
    /// of them, so that the newest text is the last one written; it writes without the lock, and what
    /// comes meanwhile it does together.
    pub(super) async fn publish_hosts(self: Arc<Self>) {
        loop {
            self.names_changed.notified().await;
            let node = Arc::clone(&self);
            let _ = spawn_blocking(move || node.publish()).await;
        }
    }

    fn publish(&self) {
        loop {
            let (uid, text) = {
                let mut shared = self.lock();
                let Some(uid) = shared.stale.pop_first() else {
                    return;
                };
                let text = shared.names.file(&uid);
                (uid, text)
            };
            let dir = PodDir::new(&self.options.data_dir, &uid);
            // Only for pods that have been made; the others get theirs when they are.
            if dir.path().join("hosts").exists()
                && let Err(error) = prepare::hosts_file(&dir, text.as_deref())
            {
                tracing::warn!(uid, %error, "a hosts file could not be written");
            }
        }
    }

    fn outdate(&self, shared: &mut Shared, stale: Stale) {
        if !stale.is_empty() {
            shared.stale.extend(stale);
            self.names_changed.notify_one();
        }
    }

    /// GPUs for the containers of a pod; init containers and containers use them one after the other,
    /// but are given their own.
    pub(super) fn allocate_gpus(
        &self,
        uid: &str,
        wants: Vec<(String, usize)>,
    ) -> references::Result<BTreeMap<String, Allocation>> {
        let mut shared = self.lock();
        shared.gpus.remove(uid);
        let mut taken: BTreeSet<u32> = shared.gpus.values().flatten().copied().collect();
        let mut given = BTreeMap::new();
        let mut own = BTreeSet::new();
        for (container, count) in wants {
            let allocation = gpu::allocate(&self.facts.gpus, &taken, count)?;
            taken.extend(&allocation.indices);
            own.extend(&allocation.indices);
            given.insert(container, allocation);
        }
        // Those without are not looked through for each pod that comes.
        if !own.is_empty() {
            shared.gpus.insert(uid.to_owned(), own);
        }
        Ok(given)
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        // Nothing that is done under the lock can panic half-way.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn python_is_asked_again_after_it_has_failed_and_not_after_it_has_answered() {
        let (image, broken) = (HostImage::default(), Some(Path::new("/bin/false")));
        image.get(broken).await.unwrap_err();
        let found = image.get(None).await.unwrap().clone();
        assert_eq!(image.get(broken).await.unwrap(), &found);
    }
}
