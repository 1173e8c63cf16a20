//! Service → EndpointSlices: which pods stand behind it, at which addresses and ports.
//!
//! A pod finds the Services that select it by the first pair of their selectors, and each Service remembers the pods
//! that it selects, so that neither looks through all of the other. Changes of a moment make one write.

mod slices;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use astrago_api::ObjectKey;
use astrago_mirror::{Mirror, selector_entry};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use tokio_util::sync::CancellationToken;

use crate::context::{Context, FIELD_MANAGER};
use crate::controller::{Category, Next, Retry, drive, retry_of};
use crate::events::reference;
use crate::report;

const CONTROLLER: &str = "service";

/// Pods of a job come and go together; what happens within this time is written at once.
const MOMENT: SignedDuration = SignedDuration::from_millis(300);

/// The pods that each Service selects.
type Members = Mutex<HashMap<ObjectKey, BTreeSet<ObjectKey>>>;

type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a Service could not be given its EndpointSlices.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("failed to write the EndpointSlice {name}")]
    Write { name: String, source: kube::Error },
}

impl Category for Error {
    fn category(&self) -> &'static str {
        "FailedToUpdateEndpointSlices"
    }

    fn retry(&self) -> Retry {
        let Self::Write { source, .. } = self;
        retry_of(source)
    }
}

pub(crate) async fn run(context: Arc<Context>, stop: CancellationToken) {
    let (queue, members) = (context.queue(), Arc::new(Members::default()));
    let soon = {
        let (queue, clock) = (Arc::clone(&queue), Arc::clone(&context.clock));
        move |key| queue.add_at(key, clock.now().saturating_add(MOMENT).unwrap_or_default())
    };
    let mirrors = &context.mirrors;
    let own: Mirror<EndpointSlice> = Mirror::new(slices::entries);
    let (shared, known, later) = (Arc::clone(&context), Arc::clone(&members), soon.clone());
    mirrors.services.subscribe(move |change| {
        let Some(service) = change.latest() else {
            return;
        };
        let key = ObjectKey::of(&**service);
        let selected = match &change.new {
            None => BTreeSet::new(),
            Some(service) => {
                let pods = shared.mirrors.pods.in_namespace(&key.namespace);
                let pods = pods.iter().filter(|pod| selects(service, pod));
                pods.map(|pod| ObjectKey::of(&**pod)).collect()
            }
        };
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        if change.new.is_none() {
            known.remove(&key);
            return;
        }
        known.insert(key.clone(), selected);
        later(key);
    });
    let (shared, known, later) = (Arc::clone(&context), Arc::clone(&members), soon.clone());
    mirrors.pods.subscribe(move |change| {
        let mut concerned = BTreeSet::new();
        for pod in [&change.old, &change.new].into_iter().flatten() {
            concerned.extend(services_of(&shared, pod).map(|service| ObjectKey::of(&*service)));
        }
        let Some(pod) = change.latest().map(|pod| ObjectKey::of(&**pod)) else {
            return;
        };
        for key in concerned {
            let service = shared.mirrors.services.get(&key);
            let now = change.new.as_deref().zip(service.as_deref());
            let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
            let pods = known.entry(key.clone()).or_default();
            if now.is_some_and(|(pod, service)| selects(service, pod)) {
                pods.insert(pod.clone());
            } else {
                pods.remove(&pod);
            }
            later(key);
        }
    });
    let changed = soon.clone();
    own.subscribe(move |change| {
        if let Some(key) = change.latest().and_then(|slice| slices::service_of(slice)) {
            changed(key);
        }
    });
    let follow = own.run(context.client.clone(), stop.clone());
    let work = async {
        let ready = async {
            tokio::join!(mirrors.services.ready(), mirrors.pods.ready(), own.ready());
        };
        if stop.run_until_cancelled(ready).await.is_none() {
            return;
        }
        drive(&context, CONTROLLER, &queue, 2, &stop, |key| {
            reconcile(Arc::clone(&context), own.clone(), Arc::clone(&members), key)
        })
        .await;
    };
    tokio::join!(follow, work);
}

fn services_of(context: &Context, pod: &Pod) -> impl Iterator<Item = Arc<Service>> {
    let namespace = pod.namespace().unwrap_or_default();
    let entries = pod.labels().iter();
    let found: Vec<_> = entries
        .flat_map(|(key, value)| {
            let entry = selector_entry(&namespace, key, value);
            context.mirrors.services.find(&entry)
        })
        .filter(|service| selects(service, pod))
        .collect();
    found.into_iter()
}

fn selects(service: &Service, pod: &Pod) -> bool {
    let selector = service
        .spec
        .as_ref()
        .and_then(|spec| spec.selector.as_ref());
    let labels = pod.labels();
    service.namespace() == pod.namespace()
        && selector.is_some_and(|selector| {
            !selector.is_empty()
                && selector
                    .iter()
                    .all(|(key, value)| labels.get(key) == Some(value))
        })
}

async fn reconcile(
    context: Arc<Context>,
    own: Mirror<EndpointSlice>,
    members: Arc<Members>,
    key: ObjectKey,
) -> Result<Next> {
    let Some(service) = context.mirrors.services.get(&key) else {
        return Ok(Next::AwaitChange);
    };
    let keys = {
        let members = members.lock().unwrap_or_else(PoisonError::into_inner);
        members.get(&key).cloned().unwrap_or_default()
    };
    let pods: Vec<Arc<Pod>> = keys
        .iter()
        .filter_map(|pod| context.mirrors.pods.get(pod))
        .collect();
    let result = write(&context, &own, &service, &pods).await;
    if let Err(error) = &result {
        report::failure(&context, CONTROLLER, reference(&*service), error);
    }
    result.map(|()| Next::AwaitChange)
}

async fn write(
    context: &Context,
    own: &Mirror<EndpointSlice>,
    service: &Service,
    pods: &[Arc<Pod>],
) -> Result<()> {
    let Some(wanted) = slices::slices(service, pods) else {
        return Ok(());
    };
    let namespace = service.namespace().unwrap_or_default();
    let api = Api::<EndpointSlice>::namespaced(context.client.clone(), &namespace);
    let failed = |name: String| move |source| Error::Write { name, source };
    let mut present = own.find(&slices::entry(&ObjectKey::of(service)));
    for slice in wanted {
        let name = slice.name_any();
        let known = present.iter().position(|known| known.name_any() == name);
        let known = known.map(|index| present.swap_remove(index));
        if known.is_some_and(|known| slices::same(&known, &slice)) {
            continue;
        }
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        let written = api.patch(&name, &parameters, &Patch::Apply(&slice)).await;
        own.observe(written.map_err(failed(name))?);
        context.metrics.wrote(CONTROLLER);
    }
    for slice in present {
        let name = slice.name_any();
        match api.delete(&name, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => {}
            deleted => drop(deleted.map_err(failed(name))?),
        }
        context.metrics.wrote(CONTROLLER);
    }
    Ok(())
}
