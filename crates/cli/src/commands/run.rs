//! `astrago run`: submit a script or a folder, follow it, end as it ends.

mod code;
mod git;
mod screen;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use astrago_rest::model::{
    CreateResponse, Deleted, JobDetail, JobState, JobStatus, Runtime, SnapshotInfo, WhoAmI,
};
use clap::Parser as _;
use owo_colors::OwoColorize;
use tokio::signal::unix::{SignalKind, signal};

use self::code::Code;
pub(super) use self::code::{Hint, imported_framework};
use self::screen::Screen;
pub(super) use self::screen::{note, stands};
use super::job::path;
use super::{logs, namespace};
use crate::args::{Arguments, Command, Connection, Format, Run, Up};
use crate::client::{self, Client, escape};
use crate::exit::Failure;
use crate::folder::Folder;
use crate::output;
use crate::up::data::DataDir;
use crate::up::{self, Running};

/// The exit code after Ctrl-C, as shells have it.
const INTERRUPTED: u8 = 130;

/// How often the job is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// The least time between two looks, however much happens.
const PAUSE: Duration = Duration::from_millis(100);

pub(crate) async fn run(
    connection: &Connection,
    format: Option<Format>,
    arguments: &Run,
) -> Result<ExitCode> {
    let code = Code::read(arguments)?;
    let (client, embedded) = match Client::find(connection).await? {
        Some(client) => (client, None),
        None if arguments.detach => {
            let failure = Failure::ours("there is no server on this machine to leave the job with");
            let hint = "start one with `astrago up`, or leave out --detach";
            return Err(failure.hint(hint).into());
        }
        None => start_embedded(connection).await?,
    };
    let result = submit_and_follow(&client, format, arguments, code).await;
    if let Some(running) = embedded {
        running.stop().await;
    }
    result
}

async fn submit_and_follow(
    client: &Client,
    format: Option<Format>,
    arguments: &Run,
    code: Code,
) -> Result<ExitCode> {
    let created = submit(client, arguments, &code).await?;
    let (name, namespace) = (&created.trainjob_name, &created.namespace);
    note(&format!(
        "submitted {} in namespace {namespace}; {}/jobs/{namespace}/{name}",
        name.bold(),
        client.base()
    ));
    // Programs read the answer; the job's own output would be in its way.
    let program = format.filter(|format| matches!(format, Format::Json | Format::Yaml));
    if arguments.detach {
        note(&format!(
            "follow it with `astrago logs -f {name} -n {namespace}`"
        ));
        if let Some(format) = program {
            output::print(format, &created, |_| String::new())?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let query = [("namespace", namespace.clone())];
    let screen = Screen::new(program.is_none(), arguments.nodes > 1);
    let mut interrupt = signal(SignalKind::interrupt()).context("failed to listen for Ctrl-C")?;
    let status = tokio::select! {
        status = logs::follow(client, name, &query, |lines| screen.lines(lines)) => status,
        () = watch(client, name, &query, &screen) => Ok(None),
        _ = interrupt.recv() => {
            screen.clear();
            interrupted(client, name, &query).await?;
            return Ok(ExitCode::from(INTERRUPTED));
        }
    };
    screen.clear();
    let status = status?.ok_or_else(|| Failure::theirs(format!("{name} was deleted")))?;
    if let Some(format) = program {
        let detail: JobDetail = client.get(&path(name, ""), &query).await?;
        output::print(format, &detail, |_| String::new())?;
    }
    // Of one node, the end of the log is what was printed last.
    let shown = program.is_none() && arguments.nodes == 1;
    conclude(client, name, &query, &status, shown).await
}

/// Creates the job, in a namespace that exists or is the caller's own.
async fn submit(client: &Client, arguments: &Run, code: &Code) -> Result<CreateResponse> {
    let me: WhoAmI = client.get("/api/whoami", &[]).await?;
    let namespace = match client.named_namespace() {
        Some(named) => {
            let known = namespace::must_exist(client, named, &me).await;
            if arguments.create_namespace && known.is_err() {
                namespace::create(client, named).await?;
                note(&format!("created namespace {named}"));
            } else {
                known?;
            }
            named.to_owned()
        }
        None => client::own(&me),
    };
    let framework = if let Some(framework) = &arguments.framework {
        framework.clone()
    } else {
        let runtimes: Vec<Runtime> = client.get("/api/runtimes", &[]).await?;
        code.framework(&runtimes)
    };
    let request = code::request(&namespace, framework, arguments, &me, code)?;
    if let Code::Folder(folder, ..) = code {
        send(client, &namespace, folder).await?;
    }
    let created = client.post("/api/trainjob/create", &[], Some(&request));
    created.await.map_err(|mut error| {
        if let Some(failure) = error.downcast_mut::<Failure>() {
            failure.rename(|field| code::flag(field, arguments));
        }
        error
    })
}

/// Shows how the job stands, for as long as it is followed.
async fn watch(client: &Client, name: &str, query: &[(&str, String)], screen: &Screen) {
    loop {
        let detail: Result<JobDetail> = client.get(&path(name, ""), query).await;
        // While the server is away the log is what waits for it.
        if let Ok(detail) = detail {
            screen.job(&detail);
        }
        tokio::time::sleep(PAUSE).await;
        tokio::select! {
            () = tokio::time::sleep(LOOK.saturating_sub(PAUSE)) => {}
            () = screen.outdated() => {}
        }
    }
}

/// Says how the job ended and chooses the exit code. What the log says of it is left out where it was `shown`.
async fn conclude(
    client: &Client,
    name: &str,
    query: &[(&str, String)],
    status: &JobStatus,
    shown: bool,
) -> Result<ExitCode> {
    if status.state == JobState::Complete {
        note(&format!("{} {}", name.bold(), "completed".green()));
        return Ok(ExitCode::SUCCESS);
    }
    let ended = status.state.as_str().to_lowercase();
    let detail: Result<JobDetail> = client.get(&path(name, ""), query).await;
    let detail = detail.ok();
    let after = match detail.as_ref().map_or(0, |detail| detail.summary.restarts) {
        0 => String::new(),
        1 => " after a restart".to_owned(),
        restarts => format!(" after {restarts} restarts"),
    };
    // Why it failed says more than which object did.
    let Some(cause) = detail.and_then(|detail| detail.failure) else {
        let message = format!("{name} {ended}{after}: {}", status.message);
        return Err(Failure::theirs(message).into());
    };
    let mut failure = Failure::theirs(format!("{name} {ended}{after}: {}", cause.summary));
    failure.details = if shown { Vec::new() } else { cause.evidence };
    failure.hint = cause.hint;
    Err(failure.into())
}

/// After Ctrl-C: asks whether the job should go as well, if there is somebody to ask.
async fn interrupted(client: &Client, name: &str, query: &[(&str, String)]) -> Result<()> {
    let mut remove = false;
    let namespace = query.first().map_or("", |(_, namespace)| namespace);
    if std::io::stdin().is_terminal() && std::io::stderr().is_terminal() {
        output::say(&format!("\ndelete {name} in namespace {namespace}? [y/N] "));
        let answer = tokio::task::spawn_blocking(|| {
            let mut answer = String::new();
            std::io::stdin().read_line(&mut answer).map(|_| answer)
        });
        // A second Ctrl-C means: neither.
        let answer = tokio::select! {
            answer = answer => answer??,
            _ = tokio::signal::ctrl_c() => String::new(),
        };
        remove = matches!(answer.trim(), "y" | "Y" | "yes");
    }
    if remove {
        let _: Deleted = client
            .delete(&format!("/api/trainjob/{}", escape(name)), query)
            .await?;
        note(&format!("deleted {name} in namespace {namespace}"));
    } else {
        note(&format!(
            "{name} keeps running; delete it with `astrago delete {name} -n {namespace}`"
        ));
    }
    Ok(())
}

/// Uploads a folder, unless the server has this content already.
async fn send(client: &Client, namespace: &str, folder: &Folder) -> Result<()> {
    for line in &folder.left_out {
        note(&format!("left out {line}"));
    }
    let digest = folder.digest().to_string();
    let query = [("namespace", namespace.to_owned())];
    let known: Result<SnapshotInfo> = client
        .get(&format!("/api/snapshots/{}", escape(&digest)), &query)
        .await;
    let how = if known.is_ok() {
        "already stored"
    } else {
        let sent: SnapshotInfo = client
            .upload("/api/snapshots", &query, folder.pack()?)
            .await?;
        if sent.digest != digest {
            let message = format!("sent {digest}, and the server stored {}", sent.digest);
            return Err(Failure::ours(message).into());
        }
        "stored"
    };
    note(&format!("{how} {}: {digest}", folder.summary()));
    Ok(())
}

/// Starts everything for the time of this command.
async fn start_embedded(connection: &Connection) -> Result<(Client, Option<Running>)> {
    note("no server runs on this machine; starting one for this command");
    let data = DataDir::open(DataDir::locate(connection.data_dir.as_deref())?)?;
    let running = up::start(&embedded_arguments()?, data).await?;
    let token = Some(running.admin_token.clone());
    let client = Client::new(&running.endpoints.rest, token, connection)?;
    Ok((client, Some(running)))
}

/// What `astrago up` would have been given, with free ports.
fn embedded_arguments() -> Result<Up> {
    let words = [
        "astrago",
        "up",
        "--listen",
        "127.0.0.1:0",
        "--kube-listen",
        "127.0.0.1:0",
    ];
    match Arguments::try_parse_from(words)?.command {
        Command::Up(up) => Ok(up),
        _ => anyhow::bail!("`up` was not parsed as `up`"),
    }
}
