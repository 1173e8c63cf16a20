//! What follows from deletions: dependents, finalizers of propagation, namespaces and definitions.
//!
//! One task. Its input is a queue of [`Work`] that the store's observer fills from committed events;
//! its output are ordinary deletes and edits. Every item says only *where to look*, the decision is
//! made on the current state, so an item may come late, twice, or again after a restart: when the
//! server opens, [`at_start`] looks at everything that could be unfinished.
//!
//! ```text
//!   an owner is gone          -> its dependents go, or lose the reference if they have other owners
//!   foregroundDeletion        -> dependents go first, then the finalizer
//!   orphan                    -> dependents lose the reference, then the finalizer goes
//!   a namespace terminates    -> all that is in it goes, then its finalizer
//!   a definition terminates   -> its objects go, then its finalizer
//! ```

mod namespace;

use std::collections::{HashSet, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use serde_json::Value;
use tokio::sync::mpsc;

use crate::kinds::metadata;
use crate::kinds::registry::DEFINITIONS;
use crate::server::Core;
use crate::status::{ApiError, Result};
use crate::store::{Change, Event, Name, Object, Query, Reference, Store};
use crate::tasks::bootstrap;
use crate::verbs::commit::edit;
use crate::verbs::delete::{self, Options, Propagation};

pub(crate) const FOREGROUND: &str = "foregroundDeletion";
pub(crate) const ORPHAN: &str = "orphan";
/// Keeps a definition until its objects are gone.
pub(crate) const CUSTOM_RESOURCES: &str = "customresourcecleanup.apiextensions.k8s.io";
/// How long to wait when the store refuses writes.
const RETRY: Duration = Duration::from_millis(500);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Work {
    /// The object with this uid is gone.
    Gone(Box<str>),
    /// An object has owners, which may not exist.
    Dependent(Reference),
    Terminating(Reference),
    /// A namespace is new, or something in it went or is not as it must be.
    Namespace(Arc<str>),
}

/// The work that follows from an event. Runs on the writer's thread.
pub(crate) fn work(store: &Store, resource: &Arc<str>, event: &Event) -> Vec<Work> {
    let object = &event.object;
    let reference = || Reference {
        resource: Arc::clone(resource),
        name: object.name.clone(),
    };
    let mut found = Vec::new();
    if event.change == Change::Deleted {
        found.push(Work::Gone(object.meta.uid.clone()));
        found.extend(
            object
                .meta
                .owners
                .iter()
                .filter_map(|owner| store.by_uid(owner))
                .map(Work::Terminating),
        );
        if !object.name.namespace.is_empty() {
            found.push(Work::Namespace(Arc::clone(&object.name.namespace)));
        }
        // Its definition may wait for the last object; a look at what does not exist is cheap.
        found.push(Work::Terminating(Reference {
            resource: DEFINITIONS.into(),
            name: Name::new("", resource),
        }));
        return found;
    }
    let owners_changed = event
        .previous
        .as_ref()
        .is_none_or(|previous| previous.meta.owners != object.meta.owners);
    if !object.meta.owners.is_empty() && owners_changed {
        found.push(Work::Dependent(reference()));
    }
    if object.meta.terminating {
        found.push(Work::Terminating(reference()));
        // It may no longer hold up its owners.
        let owners = object.meta.owners.iter();
        found.extend(
            owners
                .filter_map(|owner| store.by_uid(owner))
                .map(Work::Terminating),
        );
    }
    if &**resource == "namespaces" {
        found.push(Work::Namespace(Arc::clone(&object.name.name)));
    }
    if &**resource == "configmaps" && &*object.name.name == bootstrap::AUTHORITY {
        found.push(Work::Namespace(Arc::clone(&object.name.namespace)));
    }
    found
}

/// Everything that may be unfinished in a store that was just opened.
fn at_start(store: &Store) -> Vec<Work> {
    let absent = store
        .owner_uids()
        .into_iter()
        .filter(|uid| store.by_uid(uid).is_none());
    let mut found: Vec<_> = absent.map(Work::Gone).collect();
    for resource in store.resources() {
        let terminating = |object: &Object| object.meta.terminating;
        let query = Query {
            filter: Some(&terminating),
            ..Query::default()
        };
        let objects = store
            .list(&resource, &query)
            .map(|page| page.objects)
            .unwrap_or_default();
        found.extend(objects.into_iter().map(|object| {
            Work::Terminating(Reference {
                resource: Arc::clone(&resource),
                name: object.name.clone(),
            })
        }));
    }
    let namespaces = store.list("namespaces", &Query::default());
    let namespaces = namespaces.map(|page| page.objects).unwrap_or_default();
    found.extend(
        namespaces
            .into_iter()
            .map(|object| Work::Namespace(Arc::clone(&object.name.name))),
    );
    found
}

/// Works until the server stops.
pub(crate) async fn run(core: Arc<Core>, mut queue: mpsc::UnboundedReceiver<Work>) {
    let mut waiting: VecDeque<Work> = at_start(&core.store).into();
    let mut known: HashSet<Work> = waiting.iter().cloned().collect();
    loop {
        while let Ok(work) = queue.try_recv() {
            if known.insert(work.clone()) {
                waiting.push_back(work);
            }
        }
        let Some(work) = waiting.pop_front() else {
            tokio::select! {
                work = queue.recv() => match work {
                    Some(work) => {
                        known.insert(work.clone());
                        waiting.push_back(work);
                    }
                    None => return,
                },
                () = core.stopping.cancelled() => return,
            }
            continue;
        };
        known.remove(&work);
        let handled = AssertUnwindSafe(handle(&core, &work)).catch_unwind().await;
        let handled = handled.unwrap_or_else(|panic| {
            Err(ApiError::Internal(astrago_net::supervise::message(&*panic)))
        });
        match handled {
            Ok(()) => {}
            Err(ApiError::Unavailable(_) | ApiError::Full(_)) => {
                if known.insert(work.clone()) {
                    waiting.push_back(work);
                }
                tokio::select! {
                    () = tokio::time::sleep(RETRY) => {}
                    () = core.stopping.cancelled() => return,
                }
            }
            Err(error) => tracing::warn!(%error, ?work, "failed to follow up on a deletion"),
        }
    }
}

async fn handle(core: &Core, work: &Work) -> Result<()> {
    match work {
        Work::Gone(uid) => {
            if core.store.by_uid(uid).is_none() {
                for dependent in core.store.dependents(uid) {
                    check_dependent(core, &dependent).await?;
                }
            }
            Ok(())
        }
        Work::Dependent(reference) => check_dependent(core, reference).await,
        Work::Terminating(reference) => check_terminating(core, reference).await,
        Work::Namespace(name) => namespace::check(core, name).await,
    }
}

/// How one of an object's owners stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// It exists.
    Solid,
    /// It waits for its dependents to go first.
    Waiting,
    /// It does not exist, or is out of reach: an owner is cluster-scoped or of the same namespace.
    Absent,
}

fn owner(store: &Store, dependent: &Object, uid: &str) -> Owner {
    let Some(reference) = store.by_uid(uid) else {
        // What damage has taken was not deleted, and its dependents may be at work.
        return if store.may_be_lost(uid) {
            Owner::Solid
        } else {
            Owner::Absent
        };
    };
    let home = &reference.name.namespace;
    if !home.is_empty() && *home != dependent.name.namespace {
        return Owner::Absent;
    }
    match store.get(&reference.resource, &reference.name) {
        None => Owner::Absent,
        Some(owner) if !owner.meta.terminating => Owner::Solid,
        Some(owner) if metadata::finalizers(&owner.value()).contains(&FOREGROUND) => Owner::Waiting,
        Some(_) => Owner::Solid,
    }
}

/// Deletes a dependent without living owners, or takes the dead ones off it.
async fn check_dependent(core: &Core, reference: &Reference) -> Result<()> {
    let Some(object) = core.store.get(&reference.resource, &reference.name) else {
        return Ok(());
    };
    if object.meta.owners.is_empty() {
        return Ok(());
    }
    let stands = |uid: &str| owner(&core.store, &object, uid);
    let owners: Vec<(Box<str>, Owner)> = object
        .meta
        .owners
        .iter()
        .map(|uid| (uid.clone(), stands(uid)))
        .collect();
    let has = |wanted: Owner| owners.iter().any(|(_, owner)| *owner == wanted);
    if has(Owner::Solid) {
        if has(Owner::Absent) || has(Owner::Waiting) {
            let dead: Vec<Box<str>> = owners
                .into_iter()
                .filter(|(_, owner)| *owner != Owner::Solid)
                .map(|(uid, _)| uid)
                .collect();
            drop_owners(core, reference, &dead).await?;
        }
        return Ok(());
    }
    if has(Owner::Waiting) && is_in_circle(&core.store, &object) {
        unblock(core, reference).await?;
    }
    if object.meta.terminating {
        return Ok(());
    }
    let finalizers_value = object.value();
    let finalizers = metadata::finalizers(&finalizers_value);
    let has_dependents = !core.store.dependents(&object.meta.uid).is_empty();
    let propagation = if finalizers.contains(&ORPHAN) {
        Propagation::Orphan
    } else if finalizers.contains(&FOREGROUND) || (has(Owner::Waiting) && has_dependents) {
        Propagation::Foreground
    } else {
        Propagation::Background
    };
    remove(core, reference, propagation, &object.meta.uid).await
}

/// How many objects are looked at for a circle: a user may hang any number below each other.
const CIRCLE_MAX: usize = 1000;

/// Whether an owner of this object waits, through others that wait, for the object itself: none of them would ever go.
fn is_in_circle(store: &Store, object: &Object) -> bool {
    let mut seen = HashSet::new();
    let mut next = store.dependents(&object.meta.uid);
    for _ in 0..CIRCLE_MAX {
        let Some(reference) = next.pop() else {
            break;
        };
        let Some(dependent) = store.get(&reference.resource, &reference.name) else {
            continue;
        };
        let uid = &dependent.meta.uid;
        if !dependent.meta.terminating
            || !metadata::finalizers(&dependent.value()).contains(&FOREGROUND)
            || !seen.insert(uid.clone())
        {
            continue;
        }
        if object.meta.owners.contains(uid) {
            return true;
        }
        next.extend(store.dependents(uid));
    }
    false
}

/// Lets the owners of an object go before it.
async fn unblock(core: &Core, reference: &Reference) -> Result<()> {
    let (resource, name) = (&reference.resource, &reference.name);
    let unblock = |object: &mut Value| {
        let owners = object["metadata"]["ownerReferences"].as_array_mut();
        for owner in owners.into_iter().flatten() {
            owner["blockOwnerDeletion"] = false.into();
        }
    };
    edit(core, resource, name, unblock).await.map(drop)
}

async fn check_terminating(core: &Core, reference: &Reference) -> Result<()> {
    let Some(object) = core.store.get(&reference.resource, &reference.name) else {
        return Ok(());
    };
    if !object.meta.terminating {
        return Ok(());
    }
    let value = object.value();
    let finalizers = metadata::finalizers(&value);
    let uid = &object.meta.uid;
    if finalizers.contains(&ORPHAN) {
        for dependent in core.store.dependents(uid) {
            drop_owners(core, &dependent, std::slice::from_ref(uid)).await?;
        }
        return drop_finalizer(core, reference, ORPHAN).await;
    }
    if finalizers.contains(&FOREGROUND) {
        let mut blocked = false;
        for dependent in core.store.dependents(uid) {
            check_dependent(core, &dependent).await?;
            blocked |= blocks(core, &dependent, uid);
        }
        return if blocked {
            Ok(())
        } else {
            drop_finalizer(core, reference, FOREGROUND).await
        };
    }
    if finalizers.contains(&CUSTOM_RESOURCES) && &*reference.resource == DEFINITIONS {
        return check_definition(core, reference).await;
    }
    Ok(())
}

/// Whether a dependent still holds up the deletion of its owner.
fn blocks(core: &Core, dependent: &Reference, owner: &str) -> bool {
    let Some(object) = core.store.get(&dependent.resource, &dependent.name) else {
        return false;
    };
    let value = object.value();
    let mut references = value["metadata"]["ownerReferences"]
        .as_array()
        .into_iter()
        .flatten();
    references.any(|one| one["uid"] == owner && one["blockOwnerDeletion"] == true)
}

async fn check_definition(core: &Core, reference: &Reference) -> Result<()> {
    let resource: Arc<str> = Arc::clone(&reference.name.name);
    let objects = core.store.list(&resource, &Query::default());
    let objects = objects.map(|page| page.objects).unwrap_or_default();
    for object in &objects {
        let instance = Reference {
            resource: Arc::clone(&resource),
            name: object.name.clone(),
        };
        remove(core, &instance, Propagation::Background, &object.meta.uid).await?;
    }
    if core.store.count(&resource) == 0 {
        drop_finalizer(core, reference, CUSTOM_RESOURCES).await?;
    }
    Ok(())
}

async fn remove(
    core: &Core,
    reference: &Reference,
    propagation: Propagation,
    uid: &str,
) -> Result<()> {
    let table = core.registry.table();
    let Some(kind) = table.by_resource(&reference.resource) else {
        // The definition is gone, so nobody can have set finalizers that anyone would act on.
        return edit(core, &reference.resource, &reference.name, |object| {
            object["metadata"]["deletionTimestamp"] = core.now().into();
            metadata::of(object).remove("finalizers");
        })
        .await
        .map(drop);
    };
    let options = Options {
        uid: Some(uid.to_owned()),
        propagation: Some(propagation),
        ..Options::default()
    };
    match delete::remove(core, kind, &reference.name, &options).await {
        // Gone already, or another object under the same name.
        Ok(_) | Err(ApiError::NotFound(_) | ApiError::Conflict { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

async fn drop_owners(core: &Core, reference: &Reference, dead: &[Box<str>]) -> Result<()> {
    edit(core, &reference.resource, &reference.name, |object| {
        if let Some(owners) = object["metadata"]["ownerReferences"].as_array_mut() {
            owners.retain(|owner| !dead.iter().any(|uid| owner["uid"] == **uid));
            if owners.is_empty() {
                metadata::of(object).remove("ownerReferences");
            }
        }
    })
    .await
    .map(drop)
}

async fn drop_finalizer(core: &Core, reference: &Reference, finalizer: &str) -> Result<()> {
    edit(core, &reference.resource, &reference.name, |object| {
        if let Some(finalizers) = object["metadata"]["finalizers"].as_array_mut() {
            finalizers.retain(|one| one != finalizer);
            if finalizers.is_empty() {
                metadata::of(object).remove("finalizers");
            }
        }
    })
    .await
    .map(drop)
}
