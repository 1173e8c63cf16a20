//! What is run, and the request that says so.

use std::path::Path;

use anyhow::Result;
use astrago_rest::model::{CreateRequest, EnvVar, Source, VolumeRequest, WhoAmI};
use serde_json::Value;

use super::git;
use crate::args::{Run, Volume};
use crate::exit::Failure;
use crate::folder::Folder;

/// What is run.
pub(super) enum Code {
    /// The text of one script.
    Script(String),
    /// A folder and the script of it to start, and where it comes from.
    Folder(Folder, String, Option<Source>),
}

impl Code {
    pub(super) fn read(arguments: &Run) -> Result<Self> {
        let path = arguments.path.as_deref();
        if let Some(git) = &arguments.git {
            return Self::fetch(git, path, arguments.entry.as_deref());
        }
        let path = path.unwrap_or_else(|| Path::new("."));
        if path.is_dir() {
            let folder = Folder::read(path)?;
            let entry = folder.entry(arguments.entry.as_deref())?;
            return Ok(Self::Folder(folder, entry, None));
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

    /// What is in a repository: all of it, or the folder or the script of it that was named.
    fn fetch(git: &str, path: Option<&Path>, entry: Option<&str>) -> Result<Self> {
        let root = tempfile::tempdir()?;
        let source = git::fetch(git, root.path())?;
        let inside = root.path().join(path.unwrap_or_else(|| Path::new("")));
        let script = path.filter(|_| inside.is_file()).and_then(Path::to_str);
        let folder = if script.is_some() {
            root.path()
        } else {
            &inside
        };
        if !folder.is_dir() {
            let path = path.unwrap_or(folder).display();
            let failure = Failure::theirs(format!("there is no {path} in the repository"));
            return Err(failure.into());
        }
        let folder = Folder::read(folder)?;
        let entry = folder.entry(entry.or(script))?;
        Ok(Self::Folder(folder, entry, Some(source)))
    }

    /// The framework that it uses: the script to start says, or else another file of the folder.
    fn framework(&self) -> &'static str {
        let found = match self {
            Self::Script(text) => imported_framework(text),
            Self::Folder(folder, entry, _) => {
                imported_framework(&folder.text(entry)).or_else(|| {
                    let others = folder.scripts().map(|script| folder.text(script));
                    others
                        .map(|text| imported_framework(&text))
                        .find_map(|found| found)
                })
            }
        };
        // PyTorch's environment suits a script that imports none.
        found.unwrap_or("pytorch")
    }
}

/// The request for a job in a namespace. What `--set` says goes over everything else; the server names
/// what it does not know.
pub(super) fn request(namespace: &str, arguments: &Run, me: &WhoAmI, code: &Code) -> Result<Value> {
    let mut request = serde_json::to_value(described(namespace, arguments, me, code)?)?;
    for (field, text) in &arguments.set {
        // A number, a list or an object as JSON has it; everything else is a text.
        let value = serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone()));
        request[field.as_str()] = value;
    }
    Ok(request)
}

fn described(namespace: &str, arguments: &Run, me: &WhoAmI, code: &Code) -> Result<CreateRequest> {
    let framework = match arguments.framework.as_deref() {
        Some("torch") => "pytorch".to_owned(),
        Some(framework) => framework.to_owned(),
        None => code.framework().to_owned(),
    };
    let (training_code, snapshot, entry, source) = match code {
        Code::Script(text) => (Some(text.clone()), None, "train.py", None),
        Code::Folder(folder, entry, source) => {
            let digest = folder.digest().to_string();
            (None, Some(digest), entry.as_str(), source.clone())
        }
    };
    Ok(CreateRequest {
        user_id: me.user.clone(),
        namespace: namespace.to_owned(),
        command: Some(command(&framework, arguments, entry)?),
        framework,
        training_code,
        snapshot,
        source,
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
        volumes: volumes(&arguments.volumes),
        max_restarts: arguments.max_restarts,
        retry: arguments.retry.clone(),
        deadline_seconds: arguments.deadline,
        priority: arguments.priority,
        checkpoint: arguments.checkpoint.then_some(true),
        ..CreateRequest::default()
    })
}

fn volumes(volumes: &[Volume]) -> Vec<VolumeRequest> {
    let numbered = volumes.iter().enumerate();
    let volume = |(number, volume): (usize, &Volume)| VolumeRequest {
        name: format!("volume-{number}"),
        pvc: Some(volume.claim.clone()),
        config_map: None,
        host_path: None,
        memory: None,
        mount_path: volume.path.clone(),
        read_only: volume.read_only,
    };
    numbered.map(volume).collect()
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
            astrago_rest::torchrun(processes.into())
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

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use serde_json::json;

    use super::*;
    use crate::args::{Arguments, Command};

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

    #[test]
    fn flags_become_fields_and_others_can_be_set() {
        let words = [
            "astrago",
            "run",
            "x.py",
            "--framework",
            "torch",
            "--deadline",
            "2h",
            "--priority",
            "-5",
            "--volume",
            "data:/data:ro",
            "--set",
            "ttl_seconds_after_finished=60",
            "--set",
            "image=me/it",
        ];
        let Command::Run(run) = Arguments::try_parse_from(words).unwrap().command else {
            panic!("not a run");
        };
        let me = WhoAmI {
            user: "kim".to_owned(),
            groups: Vec::new(),
            admin: false,
            namespace: None,
        };
        let code = Code::Script("print()".to_owned());
        let request = request("user-kim", &run, &me, &code).unwrap();
        let volume =
            json!([{ "name": "volume-0", "pvc": "data", "mountPath": "/data", "readOnly": true }]);
        for (field, want) in [
            ("framework", json!("pytorch")),
            ("deadline_seconds", json!(7200)),
            ("priority", json!(-5)),
            ("volumes", volume),
            ("ttl_seconds_after_finished", json!(60)),
            ("image", json!("me/it")),
        ] {
            assert_eq!(request[field], want, "{field}");
        }
    }
}
