//! From `print` to whoever reads it: the terminal of `astrago run`, and the stream that the page reads.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::load::{Summary, client};
use super::server::Server;
use crate::{Result, milliseconds, quantiles, tell};

const JOBS: usize = 10;

/// Says when it prints: what comes first, as soon as there is a process, and what follows.
const SCRIPT: &str = "
import time
for _ in range(50):
    print(time.time_ns(), flush=True)
    time.sleep(0.05)
";

/// How long each line took, and those that were the first of their job.
#[derive(Default)]
struct Seen {
    first: Vec<Duration>,
    later: Vec<Duration>,
}

impl Seen {
    fn add(&mut self, times: Vec<Duration>) {
        let mut times = times.into_iter();
        self.first.extend(times.next());
        self.later.extend(times);
    }

    fn tell(self, what: &str) {
        println!("{what}");
        let first = Summary::of(self.first);
        tell(
            &format!("  first line (median of {JOBS})"),
            milliseconds(first.quantile(0.5)),
            "ms",
        );
        quantiles("  later lines: p50, p99, longest", &Summary::of(self.later));
    }
}

pub(crate) async fn measure() -> Result {
    let server = Server::start().await?;
    let script = server.folder().join("lines.py");
    std::fs::write(&script, SCRIPT)?;
    let (mut floor, mut terminal, mut page) = (Seen::default(), Seen::default(), Seen::default());
    for number in 0..JOBS {
        let bare = Command::new("python3")
            .arg(&script)
            .stdout(Stdio::piped())
            .spawn()?;
        floor.add(read(bare)?);
        let name = format!("lines-{number}");
        let run = start(&server, &script, &name)?;
        let shown = tokio::task::spawn_blocking(move || read(run));
        page.add(follow(&server, &name).await?);
        terminal.add(shown.await??);
    }
    floor.tell("floor: a line of Python through a pipe");
    terminal.tell("a line to the terminal of `astrago run`");
    page.tell("a line to the stream of the page");
    Ok(())
}

fn start(server: &Server, script: &Path, name: &str) -> Result<std::process::Child> {
    let mut command = server.command();
    command.arg("run").arg(script).args(["--name", name]);
    Ok(command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?)
}

/// How long each line took to come out of a program.
fn read(mut program: std::process::Child) -> Result<Vec<Duration>> {
    let output = program.stdout.take().ok_or("no output")?;
    let lines = BufReader::new(output).lines();
    let times: Result<Vec<Duration>> = lines.map(|line| since(&line?)).collect();
    program.wait()?;
    times
}

/// How long each line took to come by the stream of a job that is about to exist.
async fn follow(server: &Server, name: &str) -> Result<Vec<Duration>> {
    let path = format!("/api/trainjobs/{name}/logs/stream?namespace=default");
    let client = client()?;
    let mut answer = loop {
        if let Some(answer) = server.stream(&client, &path).await? {
            break answer;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    };
    let (mut text, mut times) = (String::new(), Vec::new());
    while let Some(chunk) = answer.chunk().await? {
        text.push_str(std::str::from_utf8(&chunk)?);
        while let Some((event, rest)) = text.split_once("\n\n") {
            if event.contains("event: end") {
                return Ok(times);
            }
            let data = event.lines().find_map(|line| line.strip_prefix("data:"));
            if let Some(data) = data.filter(|_| event.contains("event: line")) {
                let line: serde_json::Value = serde_json::from_str(data)?;
                times.push(since(line["text"].as_str().unwrap_or_default())?);
            }
            text = rest.to_owned();
        }
    }
    Err("the stream has no end".into())
}

/// How long ago a program printed this moment.
fn since(line: &str) -> Result<Duration> {
    let printed = Duration::from_nanos(line.trim().parse()?);
    Ok(SystemTime::now().duration_since(UNIX_EPOCH + printed)?)
}
