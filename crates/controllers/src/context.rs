//! What every controller is given: the client, the clock, the shared copies of the world, and where to tell
//! people what happened.

use std::fmt;
use std::sync::Arc;

use astrago_api::ObjectKey;
use astrago_mirror::{Kind, Mirrors};
use kube::api::{DeleteParams, Preconditions, PropagationPolicy};
use kube::{Api, Client, Resource, ResourceExt};
use tokio::sync::mpsc;

use crate::clock::SharedClock;
use crate::events::{Notice, Recorder};
use crate::queue::Queue;
use crate::report::Metrics;

/// Field manager of everything that our controllers apply.
pub const FIELD_MANAGER: &str = "astrago-controllers";

/// Shared by all controllers of one run.
pub struct Context {
    /// The only road to the API server.
    pub client: Client,
    pub clock: SharedClock,
    pub events: Recorder,
    pub metrics: Arc<Metrics>,
    /// Copies of the objects that the controllers read.
    pub mirrors: Mirrors,
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("mirrors", &self.mirrors)
            .finish_non_exhaustive()
    }
}

impl Context {
    /// A context, and the notices that [`crate::events::write`] is to write.
    pub fn new(
        client: Client,
        clock: SharedClock,
        metrics: Arc<Metrics>,
        mirrors: Mirrors,
    ) -> (Arc<Self>, mpsc::UnboundedReceiver<Notice>) {
        let (events, notices) = Recorder::new();
        (
            Arc::new(Self {
                client,
                clock,
                events,
                metrics,
                mirrors,
            }),
            notices,
        )
    }

    /// An empty queue on this context's clock.
    pub fn queue(&self) -> Arc<Queue> {
        Arc::new(Queue::new(Arc::clone(&self.clock)))
    }

    /// Deletes `object`, of this version only if one is given, with all that belongs to it; its name stays taken until
    /// all of that is gone. Returns what is left of it meanwhile.
    pub(crate) async fn delete<K: Kind>(
        &self,
        controller: &'static str,
        api: &Api<K>,
        object: &K,
        version: Option<String>,
    ) -> kube::Result<Option<K>> {
        let parameters = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Foreground),
            preconditions: Some(Preconditions {
                uid: object.uid(),
                resource_version: version,
            }),
            ..DeleteParams::default()
        };
        match api.delete(&object.name_any(), &parameters).await {
            Ok(answer) => {
                self.metrics.wrote(controller);
                let left = answer.left();
                Ok(left.filter(|left| left.meta().deletion_timestamp.is_some()))
            }
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The object of this kind that controls this one.
pub(crate) fn owner_key<K: Resource>(object: &K, kind: &str) -> Option<ObjectKey> {
    let namespace = object.meta().namespace.clone().unwrap_or_default();
    Some(ObjectKey::new(namespace, owner_name(object, kind)?))
}

/// The name of the object of this kind that controls this one.
pub fn owner_name<K: Resource>(object: &K, kind: &str) -> Option<String> {
    let owners = object.meta().owner_references.iter().flatten();
    let mut owners = owners
        .into_iter()
        .filter(|owner| owner.controller == Some(true));
    owners
        .find(|owner| owner.kind == kind)
        .map(|owner| owner.name.clone())
}
