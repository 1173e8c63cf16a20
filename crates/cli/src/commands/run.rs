//! `astrago run`: submit a script or a folder, follow it, end as it ends.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use anyhow::{Context, Result};
use astrago_rest::model::{
    CreateRequest, CreateResponse, Deleted, EnvVar, JobDetail, JobState, JobStatus, SnapshotInfo,
    WhoAmI,
};
use clap::Parser as _;
use owo_colors::OwoColorize;
use tokio::signal::unix::{SignalKind, signal};

use super::job::path;
use super::logs;
use crate::args::{Arguments, Command, Connection, Run, Up};
use crate::client::{Client, escape};
use crate::exit::Failure;
use crate::folder::Folder;
use crate::up::data::DataDir;
use crate::up::{self, Running};

/// The exit code after Ctrl-C, as shells have it.
const INTERRUPTED: u8 = 130;

pub(crate) async fn run(connection: &Connection, arguments: &Run) -> Result<ExitCode> {
    let code = Code::read(arguments)?;
    let (client, embedded) = match Client::find(connection).await? {
        Some(client) => (client, None),
        None => start_embedded(connection).await?,
    };
    let result = submit_and_follow(&client, connection, arguments, code).await;
    if let Some(running) = embedded {
        if arguments.detach {
            note(
                "the job ends with this command, because no server runs; start one with `astrago up`",
            );
        }
        running.stop().await;
    }
    result
}

async fn submit_and_follow(
    client: &Client,
    connection: &Connection,
    arguments: &Run,
    code: Code,
) -> Result<ExitCode> {
    let me: WhoAmI = client.get("/api/whoami", &[]).await?;
    let request = request(connection, arguments, &me, &code)?;
    if let Code::Folder(folder, _) = &code {
        send(client, &request.namespace, folder).await?;
    }
    let created: CreateResponse = client
        .post("/api/trainjob/create", &[], Some(&request))
        .await?;
    let (name, namespace) = (&created.trainjob_name, &created.namespace);
    note(&format!(
        "submitted {} in {namespace}; {}",
        name.bold(),
        client.base()
    ));
    if arguments.detach {
        note(&format!(
            "follow it with `astrago logs -f {name} -n {namespace}`"
        ));
        return Ok(ExitCode::SUCCESS);
    }
    let query = [("namespace", namespace.clone())];
    let prefix = request.num_nodes.unwrap_or(1) > 1;
    let mut interrupt = signal(SignalKind::interrupt()).context("failed to listen for Ctrl-C")?;
    let status = tokio::select! {
        status = logs::follow(client, name, &query, |line| logs::print_line(line, prefix)) => status?,
        _ = interrupt.recv() => {
            interrupted(client, name, &query).await?;
            return Ok(ExitCode::from(INTERRUPTED));
        }
    };
    conclude(client, name, &query, &status).await
}

/// Says how the job ended and chooses the exit code.
async fn conclude(
    client: &Client,
    name: &str,
    query: &[(&str, String)],
    status: &JobStatus,
) -> Result<ExitCode> {
    if status.state == JobState::Complete {
        note(&format!("{} {}", name.bold(), "completed".green()));
        return Ok(ExitCode::SUCCESS);
    }
    let mut failure = Failure::theirs(format!(
        "{name} {}: {}",
        status.state.as_str().to_lowercase(),
        status.message
    ));
    let detail: Result<JobDetail> = client.get(&path(name, ""), query).await;
    if let Some(cause) = detail.ok().and_then(|detail| detail.failure) {
        failure.details.push(cause.summary);
        failure
            .details
            .extend(cause.evidence.into_iter().map(|line| format!("  {line}")));
        failure.hint = cause.hint;
    }
    Err(failure.into())
}

/// After Ctrl-C: asks whether the job should go as well, if there is somebody to ask.
async fn interrupted(client: &Client, name: &str, query: &[(&str, String)]) -> Result<()> {
    let mut remove = false;
    if std::io::stdin().is_terminal() && std::io::stderr().is_terminal() {
        anstream::eprint!("\ndelete {name}? [y/N] ");
        std::io::stderr().flush()?;
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
        note(&format!("deleted {name}"));
    } else {
        note(&format!(
            "{name} goes on; delete it with `astrago delete {name}`"
        ));
    }
    Ok(())
}

/// What is run.
enum Code {
    /// The text of one script.
    Script(String),
    /// A folder and the script of it to start.
    Folder(Folder, String),
}

impl Code {
    fn read(arguments: &Run) -> Result<Self> {
        let path = &arguments.path;
        if path.is_dir() {
            let folder = Folder::read(path)?;
            let entry = folder.entry(arguments.entry.as_deref())?;
            return Ok(Self::Folder(folder, entry));
        }
        if arguments.entry.is_some() {
            let failure = Failure::theirs("--entry names a script within a folder");
            return Err(failure.hint("give the folder instead of the script").into());
        }
        let text = std::fs::read_to_string(path).map_err(|error| {
            let failure = Failure::theirs(format!("failed to read {}", path.display()));
            anyhow::Error::from(error).context(failure)
        })?;
        Ok(Self::Script(text))
    }

    /// The framework that it uses: the script to start says, or else another file of the folder.
    fn framework(&self) -> &'static str {
        let found = match self {
            Self::Script(text) => imported_framework(text),
            Self::Folder(folder, entry) => imported_framework(&folder.text(entry)).or_else(|| {
                let others = folder.scripts().map(|script| folder.text(script));
                others
                    .map(|text| imported_framework(&text))
                    .find_map(|found| found)
            }),
        };
        // PyTorch's environment suits a script that imports none.
        found.unwrap_or("pytorch")
    }
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

fn request(
    connection: &Connection,
    arguments: &Run,
    me: &WhoAmI,
    code: &Code,
) -> Result<CreateRequest> {
    let framework = match &arguments.framework {
        Some(framework) => framework.clone(),
        None => code.framework().to_owned(),
    };
    let (training_code, snapshot, entry) = match code {
        Code::Script(text) => (Some(text.clone()), None, "train.py"),
        Code::Folder(folder, entry) => (None, Some(folder.digest().to_string()), entry.as_str()),
    };
    let namespace = connection
        .namespace
        .clone()
        .or_else(|| me.namespace.clone());
    Ok(CreateRequest {
        user_id: me.user.clone(),
        namespace: namespace.unwrap_or_else(|| "default".to_owned()),
        command: Some(command(&framework, arguments, entry)?),
        framework,
        training_code,
        snapshot,
        name: arguments.name.clone(),
        runtime: arguments.runtime.clone(),
        image: arguments.image.clone(),
        num_nodes: Some(arguments.nodes),
        cpu_request: arguments.cpu.clone(),
        cpu_limit: arguments.cpu.clone(),
        memory_request: arguments.memory.clone(),
        memory_limit: arguments.memory.clone(),
        gpu_count: arguments.gpus,
        launcher_cpu: arguments.launcher_cpu.clone(),
        launcher_memory: arguments.launcher_memory.clone(),
        env_vars: arguments
            .env
            .iter()
            .map(|(name, value)| EnvVar {
                name: name.clone(),
                value: value.clone(),
            })
            .collect(),
        max_restarts: arguments.max_restarts,
        checkpoint: arguments.checkpoint.then_some(true),
        ..CreateRequest::default()
    })
}

/// The command that starts the script with its arguments.
fn command(framework: &str, arguments: &Run, entry: &str) -> Result<String> {
    let words: Vec<String> = std::iter::once(format!("/workspace/scripts/{entry}"))
        .chain(arguments.arguments.iter().cloned())
        .collect();
    let script = quote_all(&words);
    let interpreter = match (framework, arguments.nproc_per_node) {
        ("pytorch", Some(processes)) => {
            // torchrun takes the nodes and the meeting point from the variables that the runtime sets.
            format!("torchrun --nproc-per-node={processes}")
        }
        (_, Some(_)) => {
            let failure =
                Failure::theirs("--nproc-per-node starts processes with PyTorch's torchrun");
            return Err(failure
                .hint("leave it away, or say --framework pytorch")
                .into());
        }
        ("horovod" | "deepspeed" | "mlx", None) => "mpirun python3".to_owned(),
        (_, None) => "python3 -u".to_owned(),
    };
    Ok(format!("{interpreter}{script}"))
}

/// The framework that a script imports.
fn imported_framework(code: &str) -> Option<&'static str> {
    let imports = |module: &str| {
        code.lines().map(str::trim_start).any(|line| {
            let rest = line
                .strip_prefix("import ")
                .or_else(|| line.strip_prefix("from "));
            rest.is_some_and(|rest| rest.split([' ', '.', ',']).next() == Some(module))
        })
    };
    let known = [
        ("horovod", "horovod"),
        ("deepspeed", "deepspeed"),
        ("tensorflow", "tensorflow"),
        ("tf_keras", "tensorflow"),
        ("jax", "jax"),
        ("xgboost", "xgboost"),
        ("mlx", "mlx"),
        ("torch", "pytorch"),
    ];
    known
        .iter()
        .find(|(module, _)| imports(module))
        .map(|(_, framework)| *framework)
}

/// Arguments as a shell reads them back, each with a space before it.
fn quote_all(arguments: &[String]) -> String {
    let plain = |text: &str| {
        !text.is_empty()
            && text
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-_=./:,+@%".contains(c))
    };
    arguments.iter().fold(String::new(), |mut line, argument| {
        line.push(' ');
        if plain(argument) {
            line.push_str(argument);
        } else {
            line.push('\'');
            line.push_str(&argument.replace('\'', r"'\''"));
            line.push('\'');
        }
        line
    })
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

/// A remark beside the job's own output.
fn note(text: &str) {
    anstream::eprintln!("{} {text}", "astrago:".dimmed());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_framework_is_guessed_from_the_imports() {
        for (code, want) in [
            ("import torch\n", Some("pytorch")),
            (
                "import os\n  from tensorflow.keras import layers",
                Some("tensorflow"),
            ),
            ("import horovod.torch as hvd\nimport torch", Some("horovod")),
            ("# import jax\nimport jaxtyping", None),
            ("print('hello')", None),
        ] {
            assert_eq!(imported_framework(code), want, "{code}");
        }
    }

    #[test]
    fn arguments_survive_the_shell() {
        let arguments: Vec<String> = ["--lr=0.1", "two words", "it's", ""]
            .iter()
            .map(|text| (*text).to_owned())
            .collect();
        assert_eq!(quote_all(&arguments), r" --lr=0.1 'two words' 'it'\''s' ''");
    }
}
