//! `astrago logs`.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use astrago_rest::model::{JobDetail, JobState, JobStatus, LogLine, LogLines, WorkerLogs};
use owo_colors::{AnsiColors, OwoColorize};

use super::job::path;
use super::run::{note, stands};
use crate::args::{Connection, Format, Logs};
use crate::client::events::{Event, Events};
use crate::client::{Client, escape};
use crate::exit::Failure;
use crate::output;

/// So long a server may be away before whoever follows a job gives up.
const AWAY: Duration = Duration::from_mins(2);

/// The longest pause between two tries to reach it again.
const LONGEST_PAUSE: Duration = Duration::from_secs(3);

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
    let prefix = arguments.worker.is_none();
    if arguments.follow {
        if let Ok(job) = detail(&client, arguments).await
            && !matches!(job.summary.state, JobState::Running)
            && !job.summary.state.is_finished()
        {
            note(&format!(
                "{} has no log yet: {}",
                arguments.name,
                stands(&job)
            ));
        }
        let print = |lines: &[LogLine]| print_lines(lines, prefix);
        follow(&client, &arguments.name, &query, print).await?;
        return Ok(());
    }
    if arguments.previous {
        query.push(("previous", "true".to_owned()));
    }
    if matches!(format, Format::Table | Format::Wide) {
        let any = print_all(&client, &arguments.name, query, prefix).await?;
        if !any && arguments.tail != Some(0) {
            let job = detail(&client, arguments).await?;
            note(&nothing(&job, arguments));
        }
        return Ok(());
    }
    if arguments.worker.is_some() {
        let address = format!("/api/trainjob/{}/logs", escape(&arguments.name));
        let logs: WorkerLogs = client.get(&address, &query).await?;
        return output::print(format, &logs, |_| logs.logs.clone());
    }
    let logs: LogLines = client.get(&path(&arguments.name, "/logs"), &query).await?;
    output::print(format, &logs, |_| draw_all(&logs.lines, true))
}

async fn detail(client: &Client, arguments: &Logs) -> Result<JobDetail> {
    let query = [("namespace", client.namespace().await?)];
    client.get(&path(&arguments.name, ""), &query).await
}

/// Why nothing was printed.
fn nothing(job: &JobDetail, arguments: &Logs) -> String {
    let name = &arguments.name;
    let who = match arguments.worker {
        Some(worker) => format!("worker {worker} of {name}"),
        None => name.clone(),
    };
    if arguments.previous {
        return format!("{who} has no log of an earlier attempt");
    }
    if job.summary.state.is_finished() {
        return format!("{who} has printed nothing");
    }
    format!("{who} has no log yet: {}", stands(job))
}

/// Prints a log of any length as it comes; whether there was anything.
async fn print_all(
    client: &Client,
    name: &str,
    mut query: Vec<(&str, String)>,
    prefix: bool,
) -> Result<bool> {
    query.push(("format", "ndjson".to_owned()));
    let mut answer = client.stream(&path(name, "/logs"), &query, None).await?;
    let (mut pending, mut any) = (Vec::new(), false);
    while let Some(chunk) = client.live(&mut answer).await? {
        pending.extend_from_slice(&chunk);
        let Some(end) = pending.iter().rposition(|byte| *byte == b'\n') else {
            continue;
        };
        let whole: Vec<u8> = pending.drain(..=end).collect();
        let lines: Result<Vec<LogLine>, _> = serde_json::Deserializer::from_slice(&whole)
            .into_iter()
            .collect();
        let lines = lines.context("failed to read a line")?;
        any |= !lines.is_empty();
        print_lines(&lines, prefix)?;
    }
    Ok(any)
}

/// Follows a job until it ends, over broken connections and restarts of the server; returns its state
/// then, or nothing when it was deleted.
pub(crate) async fn follow(
    client: &Client,
    name: &str,
    query: &[(&str, String)],
    mut print: impl FnMut(&[LogLine]) -> Result<()>,
) -> Result<Option<JobStatus>> {
    let address = path(name, "/logs/stream");
    let mut position: Option<String> = None;
    let mut heard: Option<Instant> = None;
    let mut pause = Duration::from_millis(100);
    loop {
        match client.stream(&address, query, position.as_deref()).await {
            Ok(mut answer) => {
                let mut events = Events::default();
                while let Ok(Some(chunk)) = client.live(&mut answer).await {
                    heard = Some(Instant::now());
                    pause = Duration::from_millis(100);
                    let news = News::read(events.push(&chunk))?;
                    print(&news.lines)?;
                    position = news.position.or(position);
                    if news.end {
                        return status(client, name, query).await;
                    }
                }
                heard.get_or_insert_with(Instant::now);
            }
            // There is no such job, no right to see it, or no server in the first place.
            Err(error) if heard.is_none() || is_refusal(&error) => return Err(error),
            Err(error) if heard.is_some_and(|heard| heard.elapsed() > AWAY) => return Err(error),
            Err(_) => {}
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// What a piece of the stream says.
#[derive(Default)]
struct News {
    lines: Vec<LogLine>,
    position: Option<String>,
    end: bool,
}

impl News {
    fn read(events: Vec<Event>) -> Result<Self> {
        let mut news = Self::default();
        for event in events {
            match event.name.as_str() {
                "line" => {
                    let line = serde_json::from_str(&event.data);
                    news.lines.push(line.context("failed to read a line")?);
                }
                "end" => news.end = true,
                _ => {}
            }
            news.position = event.id.or(news.position);
        }
        Ok(news)
    }
}

fn is_refusal(error: &anyhow::Error) -> bool {
    let failure = error.downcast_ref::<Failure>();
    failure.is_some_and(|failure| failure.code == 1)
}

async fn status(
    client: &Client,
    name: &str,
    query: &[(&str, String)],
) -> Result<Option<JobStatus>> {
    let address = format!("/api/trainjob/{}/status", escape(name));
    match client.get(&address, query).await {
        Ok(status) => Ok(Some(status)),
        Err(error) if is_refusal(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Prints lines, each with its worker before it where there are several.
pub(crate) fn print_lines(lines: &[LogLine], prefix: bool) -> Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    output::write(&draw_all(lines, prefix))
}

fn draw_all(lines: &[LogLine], prefix: bool) -> String {
    lines.iter().map(|line| draw(line, prefix)).collect()
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
    const RESET: &str = "\u{1b}[0m";
    // Colours that a line leaves on are not those of the next one, nor of the shell.
    let end = if line.text.contains('\u{1b}') {
        RESET
    } else {
        ""
    };
    if !prefix {
        return format!("{}{end}\n", line.text);
    }
    let colour = COLOURS[usize::try_from(line.worker).unwrap_or(0) % COLOURS.len()];
    let worker = format!("{} ", format!("[{}]", line.worker).color(colour));
    // A progress bar draws over its own drawings, and over no worker's number.
    let text = line.text.replace('\r', &format!("\r{worker}"));
    format!("{worker}{text}{end}\n")
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;
    use crate::args::Arguments;

    #[test]
    fn no_line_draws_over_the_number_of_its_worker_or_colours_the_next() {
        let line = |text: &str| LogLine {
            time: None,
            worker: 1,
            text: text.to_owned(),
        };
        assert_eq!(draw(&line("loss 1"), false), "loss 1\n");
        let red = "\u{1b}[31mred";
        assert_eq!(draw(&line(red), false), format!("{red}\u{1b}[0m\n"));
        let drawn = draw(&line(" 1/2\r[0] 2/2"), true);
        let drawn: Vec<String> = drawn
            .split('\r')
            .map(|part| anstream::adapter::strip_str(part).to_string())
            .collect();
        assert_eq!(drawn, ["[1]  1/2", "[1] [0] 2/2\n"]);
    }

    /// Answers one request and hangs up; returns the request.
    async fn answer(listener: &TcpListener, body: &str) -> String {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).await.unwrap();
            request.push(byte[0]);
        }
        let head = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(body.as_bytes()).await.unwrap();
        String::from_utf8(request).unwrap()
    }

    fn event(id: &str, text: &str) -> String {
        let data = serde_json::json!({ "time": null, "worker": 0, "text": text });
        format!("event: line\nid: {id}\ndata: {data}\n\n")
    }

    #[tokio::test]
    async fn following_goes_on_behind_the_last_line_after_a_break() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        let words = ["astrago", "jobs", "--server", &server];
        let connection = Arguments::try_parse_from(words).unwrap().connection;
        let client = Client::connect(&connection).await.unwrap();
        let serve = async {
            // The last line is cut in the middle.
            let begun = event("1", "one") + &event("2", "two") + &event("3", "three")[..20];
            let first = answer(&listener, &begun).await;
            assert!(!first.contains("last-event-id"), "{first}");
            let rest = event("3", "three") + "event: end\ndata: {}\n\n";
            let second = answer(&listener, &rest).await;
            assert!(second.contains("last-event-id: 2"), "{second}");
            let status = serde_json::json!({ "trainjob_name": "j", "state": "Complete", "message": "",
                "created_at": "2025-11-05T13:00:00Z", "completed_at": null });
            answer(&listener, &status.to_string()).await
        };
        let mut lines = Vec::new();
        let print = |news: &[LogLine]| {
            lines.extend(news.iter().map(|line| line.text.clone()));
            Ok(())
        };
        let (status, _) = tokio::join!(follow(&client, "j", &[], print), serve);
        assert_eq!(status.unwrap().unwrap().trainjob_name, "j");
        assert_eq!(lines, ["one", "two", "three"]);
    }
}
