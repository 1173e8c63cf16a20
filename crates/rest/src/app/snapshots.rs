//! Folders of code: taking them, giving them to jobs, and back from the history.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufReader};
use std::path::Path;

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio_util::io::ReaderStream;

use super::belongings::owner_reference;
use super::{Error, Result, jobs, namespaces, record, upkeep};
use crate::context::Context;
use crate::form::code::{self, Files};
use crate::form::{Code, Delivery, JobRequest, SCRIPTS, name};
use crate::identity::{Access, Caller};
use crate::limits::{Kept, Share};
use crate::model::SnapshotInfo;
use crate::names;
use crate::snapshot::{self, Digest, Listing};
use crate::snapshots::Error as Stored;
use crate::world::Key;

/// Takes an archive for jobs of a namespace.
pub(crate) async fn upload<E>(
    context: &Context,
    caller: &Caller,
    namespace: &str,
    body: impl Stream<Item = Result<Bytes, E>> + Unpin,
) -> Result<SnapshotInfo>
where
    E: std::error::Error + Send + Sync + 'static,
{
    let user = caller
        .label()
        .map_err(|message| Error::invalid("user", message))?;
    if caller.is_admin() {
        name::check_label(namespace).map_err(|message| Error::invalid("namespace", message))?;
    } else {
        namespaces::ensure(context, caller, namespace, &user).await?;
    }
    let access = Access::jobs("create", namespace);
    context.gate.demand(caller, &access).await?;
    let draft = context.snapshots.draft().map_err(refused)?;
    let mut share = context.limiter.share(caller, Kept::OnDisk);
    receive(body, draft.path(), &mut share).await?;
    // Nobody closes it, so that there is always a turn.
    let turn = context.snapshots.checks.acquire().await;
    let (store, place) = (context.snapshots.clone(), namespace.to_owned());
    let stored = tokio::task::spawn_blocking(move || store.store(&place, &draft)).await;
    drop((turn, share));
    let (digest, listing) = stored.map_err(Error::disk)?.map_err(refused)?;
    if !context.mounts_snapshots && !Delivery::fits_config_map(&listing) {
        return Err(Error::invalid("snapshot", Delivery::refusal(&listing)));
    }
    Ok(info(namespace, &digest, &listing))
}

async fn receive<E>(
    mut body: impl Stream<Item = Result<Bytes, E>> + Unpin,
    draft: &Path,
    share: &mut Share,
) -> Result<()>
where
    E: std::error::Error + Send + Sync + 'static,
{
    let mut file = tokio::fs::File::create(draft).await.map_err(Error::disk)?;
    let mut left = snapshot::MAX_BYTES;
    while let Some(part) = body.next().await {
        let part = part.map_err(|_| Error::Malformed("the body ended too early".to_owned()))?;
        left = left.checked_sub(part.len() as u64).ok_or_else(|| {
            Error::TooLarge(usize::try_from(snapshot::MAX_BYTES).unwrap_or(usize::MAX))
        })?;
        share.grow(part.len()).map_err(Error::TooManyRequests)?;
        file.write_all(&part).await.map_err(Error::disk)?;
    }
    file.flush().await.map_err(Error::disk)
}

/// What is stored under a digest in a namespace.
pub(crate) async fn describe(
    context: &Context,
    caller: &Caller,
    namespace: &str,
    digest: &Digest,
) -> Result<SnapshotInfo> {
    let access = Access::jobs("create", namespace);
    context.gate.demand(caller, &access).await?;
    let listing = find(context, namespace, digest)?;
    let listing = listing.ok_or_else(|| Error::NotFound {
        kind: "snapshot",
        name: digest.to_string(),
        namespace: namespace.to_owned(),
    })?;
    Ok(info(namespace, digest, &listing))
}

/// The code of a job as an archive, also when the job is gone.
pub(crate) async fn code(
    context: &Context,
    caller: &Caller,
    key: &Key,
) -> Result<BoxStream<'static, io::Result<Bytes>>> {
    let detail = jobs::show(context, caller, key).await?;
    let digest = detail.snapshot.and_then(|digest| digest.parse().ok());
    if let Some(digest) = digest {
        let archive = context.snapshots.archive(&key.namespace, &digest);
        let file = tokio::fs::File::open(archive).await.map_err(Error::disk)?;
        // Read as it is sent: it may be large, and many may ask for it.
        return Ok(ReaderStream::new(file).boxed());
    }
    let text = match record::code_of(context, key).await {
        Some(text) => Some(text),
        None => context
            .history
            .find(&key.namespace, &key.name)
            .map_err(Error::disk)?
            .and_then(|record| record.code),
    };
    let text = text.ok_or_else(|| Error::NotFound {
        kind: "stored code of the job",
        name: key.name.clone(),
        namespace: key.namespace.clone(),
    })?;
    let archive = snapshot::pack([("train.py", false, text.as_bytes())]).map_err(Error::disk)?;
    Ok(futures::stream::iter([Ok(archive.into())]).boxed())
}

/// Looks up the snapshot that a request names, in the request's own namespace and nowhere else, and
/// decides how it reaches the nodes.
pub(super) fn resolve(context: &Context, request: &mut JobRequest) -> Result<()> {
    let Code::Snapshot(digest) = &request.code else {
        return Ok(());
    };
    let asked = &request.asked;
    let namespace = &asked.namespace;
    let listing = find(context, namespace, digest)?.ok_or_else(|| {
        let message = format!(
            "there is no snapshot {digest} in namespace {namespace:?}; upload it with POST /api/snapshots"
        );
        Error::invalid("snapshot", message)
    })?;
    if asked.command.is_none() || asked.entry.is_some() {
        let entry = code::entry(&listing, asked.entry.as_deref());
        let entry = entry.map_err(|field| Error::Invalid(vec![field]))?;
        request.script = format!("{SCRIPTS}/{entry}");
    }
    request.delivery = Some(delivery(context, namespace, digest, &listing)?);
    Ok(())
}

fn delivery(
    context: &Context,
    namespace: &str,
    digest: &Digest,
    listing: &Listing,
) -> Result<Delivery> {
    if Delivery::fits_config_map(listing) {
        return Ok(Delivery::ConfigMap(files(context, namespace, digest)?));
    }
    if context.mounts_snapshots {
        return Ok(Delivery::Engine);
    }
    Err(Error::invalid("snapshot", Delivery::refusal(listing)))
}

fn files(context: &Context, namespace: &str, digest: &Digest) -> Result<Files> {
    let archive = context.snapshots.archive(namespace, digest);
    let archive = std::fs::File::open(archive).map_err(Error::disk)?;
    let mut files = BTreeMap::new();
    snapshot::read(BufReader::new(archive), |path, executable, content| {
        let mut bytes = Vec::new();
        content.read_to_end(&mut bytes)?;
        files.insert(path.to_owned(), (executable, bytes));
        Ok(())
    })
    .map_err(Error::disk)?;
    Ok(files)
}

/// Makes a job one of the owners of its snapshot's ConfigMap. Between the look at the map and the
/// making of the job its last other owner may have gone, and the map with it; then it is made again.
pub(super) async fn share(context: &Context, mut map: ConfigMap, job: &str, uid: Option<String>) {
    let Some(owner) = owner_reference(job, uid) else {
        return;
    };
    let (name, namespace) = (map.name_any(), map.namespace().unwrap_or_default());
    let maps: Api<ConfigMap> = Api::namespaced(context.client.clone(), &namespace);
    let patch = Patch::Strategic(json!({ "metadata": { "ownerReferences": [owner] } }));
    let shared = match maps.patch(&name, &PatchParams::default(), &patch).await {
        Err(kube::Error::Api(status)) if status.code == 404 => {
            map.metadata.owner_references = Some(vec![owner]);
            maps.create(&PostParams::default(), &map).await
        }
        other => other,
    };
    if let Err(error) = shared {
        let error = crate::error::chain(&error);
        tracing::warn!(name, namespace, error, "the job does not own its code yet");
    }
}

/// Puts right what a crash or a race left behind: jobs own the ConfigMaps of their snapshots, maps that
/// jobs need exist, and maps that no job needs do not.
pub(super) async fn adopt(context: &Context) -> Result<()> {
    let failed = |error| Error::cluster("look after the code that jobs share", error);
    let mut users: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for job in context.world.mirrors.train_jobs.all() {
        let key = Key::of(&*job);
        let digest = job.annotations().get(names::SNAPSHOT);
        if let Some(digest) = digest.and_then(|digest| digest.parse::<Digest>().ok()) {
            let place = (key.namespace, digest);
            users.entry(place).or_default().push((key.name, job.uid()));
        }
    }
    let all: Api<ConfigMap> = Api::all(context.client.clone());
    let ours = ListParams::default().labels(names::SNAPSHOT);
    let mut known = BTreeMap::new();
    for map in all.list(&ours).await.map_err(failed)? {
        let digest = map.annotations().get(names::SNAPSHOT);
        let digest: Option<Digest> = digest.and_then(|digest| digest.parse().ok());
        let namespace = map.namespace().unwrap_or_default();
        let age = map
            .creation_timestamp()
            .map_or(0, |time| context.now().as_second() - time.0.as_second());
        let Some(digest) = digest else { continue };
        let place = (namespace.clone(), digest);
        if !users.contains_key(&place)
            && map.owner_references().is_empty()
            && age > upkeep::GRACE_SECONDS
        {
            let maps: Api<ConfigMap> = Api::namespaced(context.client.clone(), &namespace);
            let name = map.name_any();
            tracing::info!(name, namespace, "removing code that no job uses");
            upkeep::delete_this(&maps, &map).await.map_err(failed)?;
            continue;
        }
        known.insert(place, map);
    }
    for ((namespace, digest), jobs) in users {
        let map = known.remove(&(namespace.clone(), digest.clone()));
        let owners: BTreeSet<String> = map
            .iter()
            .flat_map(kube::ResourceExt::owner_references)
            .map(|owner| owner.uid.clone())
            .collect();
        let missing: Vec<_> = jobs
            .into_iter()
            .filter(|(_, uid)| uid.as_ref().is_some_and(|uid| !owners.contains(uid)))
            .collect();
        if missing.is_empty() {
            continue;
        }
        let map = match map {
            Some(map) => map,
            None => match wanted_map(context, &namespace, &digest) {
                Some(map) => map,
                None => continue,
            },
        };
        for (job, uid) in missing {
            share(context, map.clone(), &job, uid).await;
        }
    }
    Ok(())
}

/// The ConfigMap of a snapshot, if it is delivered in one and is still stored.
fn wanted_map(context: &Context, namespace: &str, digest: &Digest) -> Option<ConfigMap> {
    let listing = find(context, namespace, digest).ok().flatten()?;
    if !Delivery::fits_config_map(&listing) {
        return None;
    }
    let files = files(context, namespace, digest).ok()?;
    let mut map = code::snapshot_config_map(namespace, digest, &files);
    map.metadata.namespace = Some(namespace.to_owned());
    Some(map)
}

/// Deletes the snapshots that neither a living job nor the history needs.
pub(super) fn expire(context: &Context) {
    let mut used = match context.history.snapshots() {
        Ok(used) => used,
        Err(error) => {
            tracing::warn!(error = %crate::error::chain(&error), "failed to read which snapshots are used");
            return;
        }
    };
    for job in context.world.mirrors.train_jobs.all() {
        let digest = job.annotations().get(names::SNAPSHOT).cloned();
        used.extend(digest.map(|digest| (job.namespace().unwrap_or_default(), digest)));
    }
    match context.snapshots.sweep(&used) {
        Ok(0) => {}
        Ok(deleted) => tracing::info!(deleted, "deleted snapshots that no job uses"),
        Err(error) => {
            tracing::warn!(error = %crate::error::chain(&error), "failed to delete old snapshots");
        }
    }
}

fn find(context: &Context, namespace: &str, digest: &Digest) -> Result<Option<Listing>> {
    context
        .snapshots
        .find(namespace, digest)
        .map_err(Error::disk)
}

fn info(namespace: &str, digest: &Digest, listing: &Listing) -> SnapshotInfo {
    SnapshotInfo {
        digest: digest.to_string(),
        namespace: namespace.to_owned(),
        files: listing.files.len(),
        bytes: listing.bytes,
    }
}

fn refused(error: Stored) -> Error {
    match error {
        Stored::Archive(error) => Error::invalid("snapshot", error.to_string()),
        full @ Stored::Full(_) => Error::Conflict(full.to_string()),
        other => Error::disk(other),
    }
}
