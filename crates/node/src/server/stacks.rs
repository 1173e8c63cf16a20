//! `/stacks`: what the processes of a container are doing, as JSON.

use std::time::Duration;

use axum::Json;
use axum::extract::Path;
use tokio::sync::Semaphore;

use super::pods::Found;
use super::{Error, Result, State};
use crate::control::{Channel, Error as ControlError, Failure, Request, Response};
use crate::stacks::Stacks;

/// Longer than the supervisor lets reading go on.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many containers are read at once.
static TURNS: Semaphore = Semaphore::const_new(4);

pub(super) async fn serve(
    axum::extract::State(options): State,
    Path((namespace, pod, container)): Path<(String, String, String)>,
) -> Result<Json<Stacks>> {
    let turn = TURNS.acquire().await;
    let told = tokio::task::spawn_blocking(move || {
        // Held until the reading is over, also where the caller has left.
        let _turn = turn;
        let found = Found::find(&options, &namespace, &pod)?;
        found.check_container(&container)?;
        read(&found, container)
    });
    let told = told.await;
    told.map_err(|error| Error::Pods(std::io::Error::other(error)))?
        .map(Json)
}

fn read(found: &Found, container: String) -> Result<Stacks> {
    let not_running = || Error::NotRunning {
        pod: found.name.clone(),
        container: container.clone(),
    };
    let (folder, _) = found.folder.as_ref().ok_or_else(not_running)?;
    let mut channel = match Channel::connect(folder.path()) {
        // Nobody listens at the socket of a pod that has ended.
        Err(ControlError::Connect { .. }) => return Err(not_running()),
        other => other?,
    };
    channel.set_timeout(PATIENCE).map_err(Error::Streams)?;
    let request = Request::Stacks {
        container: container.clone(),
    };
    channel.send(&request, &[])?;
    match channel.receive::<Response>()?.map(|(answer, _)| answer) {
        Some(Response::Stacks(stacks)) => Ok(stacks),
        Some(Response::Failed { reason, message }) => Err(match reason {
            Failure::NoSuchContainer => Error::NoSuchContainer {
                pod: found.name.clone(),
                container,
            },
            Failure::NotRunning => not_running(),
            _ => Error::BadRequest(message),
        }),
        Some(Response::Exited { .. }) => Err(Error::BadRequest(
            "the stacks could not be read in time".to_owned(),
        )),
        // What it does not know it does not answer.
        _ => Err(Error::BadRequest(
            "the pod was started by an earlier version, which cannot tell stacks".to_owned(),
        )),
    }
}
