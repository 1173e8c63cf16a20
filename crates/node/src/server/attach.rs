//! `/attach`: what a running container writes, from now on.
//!
//! The output comes from the log, so it is complete and any number of callers may watch. Input
//! cannot be given to a container this way; `exec` is for that.

use std::sync::Arc;

use axum::extract::{Path, Query, Request};
use axum::response::Response;
use futures::StreamExt;
use serde_json::json;
use tokio::sync::mpsc;

use super::pods::Found;
use super::transport::{Channel, Output, Upgrade, Wanted};
use super::{Error, Result, State};
use crate::logs::{Options, Stream, attempts, is_being_written, stream};

pub(super) async fn serve(
    axum::extract::State(options): State,
    Path((namespace, pod, container)): Path<(String, String, String)>,
    Query(pairs): Query<Vec<(String, String)>>,
    request: Request,
) -> Result<Response> {
    let flag = |names: [&str; 2]| {
        pairs
            .iter()
            .find(|(name, _)| names.contains(&name.as_str()))
            .is_some_and(|(_, value)| !(value == "0" || value.eq_ignore_ascii_case("false")))
    };
    if flag(["stdin", "input"]) {
        let text = format!("container {container} in pod {pod} does not take input; use exec");
        return Err(Error::BadRequest(text));
    }
    let wanted = Wanted {
        stdin: false,
        stdout: flag(["stdout", "output"]),
        stderr: flag(["stderr", "error"]),
        resize: flag(["tty", "tty"]),
    };
    let upgrade = Upgrade::negotiate(request, wanted).await?;
    let (directory, attempt) = tokio::task::spawn_blocking({
        let options = Arc::clone(&options);
        move || {
            let found = Found::find(&options, &namespace, &pod)?;
            found.check_container(&container)?;
            let directory = found.logs.join(&container);
            let attempt = attempts(&directory).map_err(Error::Log)?.pop();
            attempt
                .filter(|_| is_being_written(&directory))
                .map(|attempt| (directory, attempt))
                .ok_or(Error::NotRunning { pod, container })
        }
    })
    .await
    .map_err(|error| Error::Log(std::io::Error::other(error)))??;
    Ok(upgrade.run(move |_input, output| async move {
        let copy = |wanted: bool, from, channel| {
            let (directory, output) = (directory.clone(), output.clone());
            async move {
                if wanted {
                    copy(&directory, attempt, from, channel, &output).await;
                }
            }
        };
        tokio::join!(
            copy(wanted.stdout, Stream::Stdout, Channel::Stdout),
            copy(wanted.stderr, Stream::Stderr, Channel::Stderr),
        );
        let status = json!({"metadata": {}, "status": "Success"});
        let _ = output.send(Output::Status(status)).await;
    }))
}

async fn copy(
    directory: &std::path::Path,
    attempt: u32,
    from: Stream,
    channel: Channel,
    output: &mpsc::Sender<Output>,
) {
    let options = Options {
        follow: true,
        tail: Some(0),
        stream: Some(from),
        ..Options::default()
    };
    let Ok(text) = stream(directory, attempt, options).await else {
        return;
    };
    let mut text = std::pin::pin!(text);
    loop {
        let next = tokio::select! {
            next = text.next() => next,
            () = output.closed() => return,
        };
        let Some(Ok(bytes)) = next else { return };
        if output.send(Output::Data(channel, bytes)).await.is_err() {
            return;
        }
    }
}
