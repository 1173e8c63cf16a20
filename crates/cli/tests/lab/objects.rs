//! Clients that write ConfigMaps and TrainJobs, each its own, and watches that follow them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
    WatchParams,
};
use kube::core::WatchEvent;
use kube::{Api, Client, ResourceExt};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::model::{Action, Answer, Operation, Possible, Seen, State, check_watch};
use crate::server::{eventually, pause};

const NAMESPACE: &str = "lab";
const VALUE: &str = "lab/value";
const SENTINEL: &str = "sentinel";
const CLIENTS: u64 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    ConfigMap,
    TrainJob,
}

const KINDS: [Kind; 2] = [Kind::ConfigMap, Kind::TrainJob];

impl Kind {
    fn api(self, client: &Client) -> Api<DynamicObject> {
        let resource = match self {
            Self::ConfigMap => ApiResource::erase::<ConfigMap>(&()),
            Self::TrainJob => ApiResource::erase::<astrago_api::TrainJob>(&()),
        };
        Api::namespaced_with(client.clone(), NAMESPACE, &resource)
    }

    fn object(self, name: &str, value: u64) -> DynamicObject {
        let metadata = json!({ "name": name, "annotations": { VALUE: value.to_string() } });
        let object = match self {
            Self::ConfigMap => json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": { "key": "x".repeat(500) },
            }),
            Self::TrainJob => json!({
                "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": metadata,
                "spec": { "suspend": true, "runtimeRef": { "name": "torch-distributed" }, "trainer": { "numNodes": 2 } },
            }),
        };
        serde_json::from_value(object).unwrap()
    }
}

fn value(object: &DynamicObject) -> State {
    object.annotations().get(VALUE)?.parse().ok()
}

fn version(object: &DynamicObject) -> u64 {
    let version = object.resource_version().unwrap_or_default();
    version.parse().unwrap_or(0)
}

type Key = (Kind, String);

/// The history of one object, and what its writer knows of it.
#[derive(Default)]
struct Own {
    history: Vec<Operation>,
    possible: Possible,
    last: Option<DynamicObject>,
}

pub(crate) struct Objects {
    client: Client,
    own: BTreeMap<Key, Own>,
    watches: Vec<(Kind, Arc<Mutex<Watched>>)>,
    /// The last value that was given out.
    values: u64,
}

#[derive(Default)]
struct Watched {
    seen: BTreeMap<String, Vec<Seen>>,
    wrong: Option<String>,
    /// The server's answer that what came next is no longer kept.
    gap: Option<String>,
}

impl Objects {
    pub(crate) async fn new(client: Client, stop: &CancellationToken) -> Self {
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let namespace = json!({ "metadata": { "name": NAMESPACE } });
        let namespace = serde_json::from_value(namespace).unwrap();
        namespaces
            .create(&PostParams::default(), &namespace)
            .await
            .unwrap();
        let mut watches = Vec::new();
        for kind in KINDS {
            let api = kind.api(&client);
            let sentinel = kind.object(SENTINEL, 0);
            let made = api.create(&PostParams::default(), &sentinel).await.unwrap();
            // One watch that stays for as long as it can, and one that leaves and comes back.
            for restless in [false, true] {
                let watched = Arc::new(Mutex::new(Watched::default()));
                watches.push((kind, Arc::clone(&watched)));
                let task = watch(api.clone(), version(&made), restless, watched);
                let stop = stop.clone();
                tokio::spawn(async move { stop.run_until_cancelled(task).await });
            }
        }
        Self {
            client,
            own: BTreeMap::new(),
            watches,
            values: 0,
        }
    }

    /// Writes until it is stopped; returns how many operations there were, and how many without an answer.
    pub(crate) async fn write(
        &mut self,
        random: &mut StdRng,
        stop: &CancellationToken,
    ) -> Result<(usize, usize), String> {
        let mut clients = Vec::new();
        for number in 0..CLIENTS {
            let keys = (0..3).map(|key| (Kind::ConfigMap, format!("map-{number}-{key}")));
            let keys = keys.chain([(Kind::TrainJob, format!("job-{number}"))]);
            let own = keys.map(|key| {
                let own = self.own.remove(&key).unwrap_or_default();
                (key, own)
            });
            let mut one = Writer {
                client: self.client.clone(),
                own: own.collect(),
                // Values of one client never meet those of another.
                value: self.values + number,
                random: StdRng::seed_from_u64(random.random()),
            };
            let stop = stop.clone();
            clients.push(tokio::spawn(async move {
                let mut result = Ok(());
                while result.is_ok() && !stop.is_cancelled() {
                    result = one.step().await;
                }
                (one, result)
            }));
        }
        let (mut count, mut unknown) = (0, 0);
        for client in clients {
            let (client, result) = client.await.unwrap();
            result?;
            for own in client.own.values() {
                count += own.history.len();
                let missing = |operation: &&Operation| operation.answer == Answer::Unknown;
                unknown += own.history.iter().filter(missing).count();
            }
            self.values = self.values.max(client.value);
            self.own.extend(client.own);
        }
        self.values += CLIENTS - self.values % CLIENTS;
        Ok((count, unknown))
    }

    /// Compares all that is there with the histories, deletes it, and compares the watches.
    pub(crate) async fn settle(&mut self, round: u64, sound_disk: bool) -> Result<(), String> {
        for ((kind, name), own) in &mut self.own {
            let api = kind.api(&self.client);
            for action in [Action::Read, Action::Delete, Action::Read] {
                let deadline = tokio::time::Instant::now() + crate::server::PATIENCE;
                loop {
                    let operation = perform(&api, *kind, name, action, own).await?;
                    if operation.answer != Answer::Unknown {
                        break;
                    }
                    if tokio::time::Instant::now() > deadline {
                        return Err(format!("{kind:?} {name}: {action:?} gets no answer"));
                    }
                    pause(100).await;
                }
            }
        }
        for kind in KINDS {
            let api = kind.api(&self.client);
            let found = eventually("a list", || async {
                api.list(&ListParams::default())
                    .await
                    .map_err(|error| error.to_string())
            });
            let names = found.await?.into_iter().map(|object| object.name_any());
            let mut ours = names.filter(|name| self.own.contains_key(&(kind, name.clone())));
            if let Some(name) = ours.next() {
                return Err(format!("{kind:?} {name} is there, though all were deleted"));
            }
            let patch = patch(round);
            eventually("the sentinel's write", || async {
                api.patch(SENTINEL, &PatchParams::default(), &patch)
                    .await
                    .map_err(|error| error.to_string())
            })
            .await?;
        }
        for (kind, watched) in &self.watches {
            self.check(*kind, watched, round, sound_disk)
                .await
                .map_err(|error| format!("a watch of {kind:?}s: {error}"))?;
        }
        for own in self.own.values_mut() {
            own.history.clear();
        }
        Ok(())
    }

    async fn check(
        &self,
        kind: Kind,
        watched: &Mutex<Watched>,
        round: u64,
        sound_disk: bool,
    ) -> Result<(), String> {
        eventually("the sentinel", || async {
            let watched = watched.lock().unwrap();
            let last = watched.seen.get(SENTINEL).and_then(|seen| seen.last());
            match last {
                Some(seen) if seen.state == Some(round) => Ok(()),
                last => Err(format!("{last:?}, {:?}", watched.wrong)),
            }
        })
        .await?;
        let mut watched = watched.lock().unwrap();
        if let Some(wrong) = watched.wrong.take() {
            return Err(wrong);
        }
        let mut seen = std::mem::take(&mut watched.seen);
        match watched.gap.take() {
            // A full disk gets its room from the history.
            Some(_) if !sound_disk => return Ok(()),
            Some(gap) => return Err(gap),
            None => {}
        }
        for ((of, name), own) in self.own.iter().filter(|((of, _), _)| *of == kind) {
            let seen = seen.remove(name).unwrap_or_default();
            check_watch(&own.history, &seen).map_err(|error| format!("{of:?} {name}: {error}"))?;
        }
        Ok(())
    }
}

struct Writer {
    client: Client,
    own: BTreeMap<Key, Own>,
    value: u64,
    random: StdRng,
}

impl Writer {
    async fn step(&mut self) -> Result<(), String> {
        let at = self.random.random_range(0..self.own.len());
        let Some(((kind, name), own)) = self.own.iter_mut().nth(at) else {
            return Ok(());
        };
        self.value += CLIENTS;
        let value = self.value;
        let action = match (own.possible.known(), self.random.random_range(0..10)) {
            (_, 0) => Action::Read,
            (Some(None), _) | (None, 1..=3) => Action::Create(value),
            (Some(Some(_)), 1..=2) => Action::Delete,
            (Some(Some(_)), 3..=5) if own.last.is_some() => Action::Replace(value),
            (Some(Some(_)), _) | (None, 4..=6) => Action::Patch(value),
            (None, _) => Action::Delete,
        };
        let api = kind.api(&self.client);
        let operation = perform(&api, *kind, name, action, own).await?;
        let unknown = operation.answer == Answer::Unknown;
        pause(if unknown {
            50
        } else {
            self.random.random_range(0..20)
        })
        .await;
        Ok(())
    }
}

fn patch(value: u64) -> Patch<Value> {
    Patch::Merge(json!({ "metadata": { "annotations": { VALUE: value.to_string() } } }))
}

/// Does it, and takes the answer into the object's history.
async fn perform(
    api: &Api<DynamicObject>,
    kind: Kind,
    name: &str,
    action: Action,
    own: &mut Own,
) -> Result<Operation, String> {
    let parameters = PostParams::default();
    let mut found = None;
    let result = match action {
        Action::Create(value) => api.create(&parameters, &kind.object(name, value)).await,
        Action::Patch(value) => {
            api.patch(name, &PatchParams::default(), &patch(value))
                .await
        }
        Action::Replace(value) => {
            let mut object = own.last.clone().unwrap();
            object
                .annotations_mut()
                .insert(VALUE.to_owned(), value.to_string());
            api.replace(name, &parameters, &object).await
        }
        Action::Delete => match api.delete(name, &DeleteParams::default()).await {
            // The API server answers with the status of what it did, which has no version.
            Ok(_) => Ok(DynamicObject::new(
                name,
                &ApiResource::erase::<ConfigMap>(&()),
            )),
            Err(error) => Err(error),
        },
        Action::Read => match api.get_opt(name).await {
            Ok(None) => {
                found = Some(Answer::Found(None, 0));
                Ok(kind.object(name, 0))
            }
            Ok(Some(object)) => {
                found = Some(Answer::Found(value(&object), version(&object)));
                Ok(object)
            }
            Err(error) => Err(error),
        },
    };
    let answer = match &result {
        Ok(_) if found.is_some() => found.unwrap_or(Answer::Unknown),
        Ok(_) if action == Action::Delete => Answer::Deleted,
        Ok(object) => Answer::Done(version(object)),
        Err(kube::Error::Api(status)) => match (status.code, status.reason.as_str()) {
            (409, "AlreadyExists") => Answer::AlreadyExists,
            // Controllers write TrainJobs, too.
            (409, "Conflict") if kind == Kind::TrainJob => {
                own.last = None;
                return Ok(Operation {
                    action: Action::Read,
                    answer: Answer::Conflict,
                });
            }
            (409, "Conflict") => Answer::Conflict,
            (404, "NotFound") => Answer::NotFound,
            (429 | 500.., _) => Answer::Unknown,
            _ => {
                return Err(format!(
                    "{kind:?} {name}: {action:?} was refused: {status:?}"
                ));
            }
        },
        Err(_) => Answer::Unknown,
    };
    own.last = match (answer, result) {
        (Answer::Done(_) | Answer::Found(Some(_), _), Ok(object)) => Some(object),
        _ => None,
    };
    let operation = Operation { action, answer };
    own.history.push(operation);
    own.possible
        .step(operation)
        .map_err(|error| format!("{kind:?} {name}: {error}\nits history: {:?}", own.history))?;
    Ok(operation)
}

/// Follows a kind from a version on, over every break.
async fn watch(
    api: Api<DynamicObject>,
    mut from: u64,
    restless: bool,
    watched: Arc<Mutex<Watched>>,
) {
    let parameters = WatchParams::default().timeout(if restless { 1 } else { 50 });
    loop {
        match api.watch(&parameters, &from.to_string()).await {
            Ok(stream) => {
                let mut stream = std::pin::pin!(stream);
                while let Some(Ok(event)) = stream.next().await {
                    let mut watched = watched.lock().unwrap();
                    match event {
                        WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                            from = from.max(watched.see(&object, value(&object)));
                        }
                        WatchEvent::Deleted(object) => from = from.max(watched.see(&object, None)),
                        WatchEvent::Bookmark(_) => {}
                        WatchEvent::Error(error) => watched.wrong = Some(format!("{error:?}")),
                    }
                }
            }
            // As any client of Kubernetes does, it goes on from a list.
            Err(kube::Error::Api(error)) if error.code == 410 => {
                watched.lock().unwrap().gap = Some(format!("{error:?}"));
                if let Ok(list) = api.list(&ListParams::default()).await {
                    let version = list.metadata.resource_version.unwrap_or_default();
                    from = version.parse().unwrap_or(from);
                    let mut watched = watched.lock().unwrap();
                    for object in &list.items {
                        watched.see(object, value(object));
                    }
                }
            }
            Err(_) => {}
        }
        pause(20).await;
    }
}

impl Watched {
    /// Takes note of an event, and returns its version.
    fn see(&mut self, object: &DynamicObject, state: State) -> u64 {
        let version = version(object);
        let seen = self.seen.entry(object.name_any()).or_default();
        seen.push(Seen { state, version });
        version
    }
}
