//! `astrago logs`.

use std::io::Write;
use std::time::Duration;

use anyhow::{Context, Result};
use astrago_rest::model::{JobStatus, LogLine, LogLines, WorkerLogs};
use futures::StreamExt;
use owo_colors::{AnsiColors, OwoColorize};

use super::job::path;
use crate::args::{Connection, Format, Logs};
use crate::client::events::Events;
use crate::client::{Client, escape};
use crate::output;

/// How often a broken stream is taken up again without a line in between.
const ATTEMPTS: u32 = 6;

/// Prints or follows a job's logs.
pub(crate) async fn show(connection: &Connection, format: Format, arguments: &Logs) -> Result<()> {
    let client = Client::connect(connection).await?;
    let mut query = vec![("namespace", client.namespace().await?)];
    if let Some(worker) = arguments.worker {
        query.push(("worker", worker.to_string()));
    }
    if let Some(tail) = arguments.tail {
        query.push(("tail", tail.to_string()));
    }
    if arguments.follow {
        let prefix = arguments.worker.is_none();
        follow(&client, &arguments.name, &query, |line| {
            print_line(line, prefix)
        })
        .await?;
        return Ok(());
    }
    if arguments.previous {
        query.push(("previous", "true".to_owned()));
    }
    if arguments.worker.is_some() {
        let address = format!("/api/trainjob/{}/logs", escape(&arguments.name));
        let logs: WorkerLogs = client.get(&address, &query).await?;
        return output::print(format, &logs, |_| logs.logs.clone());
    }
    let logs: LogLines = client.get(&path(&arguments.name, "/logs"), &query).await?;
    output::print(format, &logs, |_| {
        logs.lines.iter().map(|line| draw(line, true)).collect()
    })
}

/// Follows a job until it ends, over broken connections; returns its state then.
pub(crate) async fn follow(
    client: &Client,
    name: &str,
    query: &[(&str, String)],
    mut line: impl FnMut(&LogLine) -> Result<()>,
) -> Result<JobStatus> {
    let mut position: Option<String> = None;
    let mut failures = 0;
    loop {
        let answer = client
            .stream(&path(name, "/logs/stream"), query, position.as_deref())
            .await;
        match answer {
            Ok(answer) => {
                let (mut events, mut body) = (Events::default(), answer.bytes_stream());
                while let Some(Ok(chunk)) = body.next().await {
                    for event in events.push(&chunk) {
                        failures = 0;
                        position = event.id.or(position);
                        match event.name.as_str() {
                            "line" => line(
                                &serde_json::from_str(&event.data)
                                    .context("failed to read a line")?,
                            )?,
                            "end" => return client.get(&status(name), query).await,
                            _ => {}
                        }
                    }
                }
            }
            // Never connected: there is no such job, or no right to see it.
            Err(error) if position.is_none() => return Err(error),
            Err(_) => {}
        }
        failures += 1;
        if failures > ATTEMPTS {
            anyhow::bail!("the connection to the server broke and did not come back");
        }
        tokio::time::sleep(Duration::from_millis(100 << failures)).await;
    }
}

fn status(name: &str) -> String {
    format!("/api/trainjob/{}/status", escape(name))
}

/// Prints a line, with its worker before it where there are several.
pub(crate) fn print_line(line: &LogLine, prefix: bool) -> Result<()> {
    let mut out = anstream::stdout().lock();
    out.write_all(draw(line, prefix).as_bytes())?;
    out.flush()?;
    Ok(())
}

fn draw(line: &LogLine, prefix: bool) -> String {
    const COLOURS: [AnsiColors; 6] = [
        AnsiColors::Cyan,
        AnsiColors::Magenta,
        AnsiColors::Green,
        AnsiColors::Yellow,
        AnsiColors::Blue,
        AnsiColors::Red,
    ];
    if !prefix {
        return format!("{}\n", line.text);
    }
    let colour = COLOURS[usize::try_from(line.worker).unwrap_or(0) % COLOURS.len()];
    format!(
        "{} {}\n",
        format!("[{}]", line.worker).color(colour),
        line.text
    )
}
