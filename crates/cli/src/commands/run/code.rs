//! What is run, and the request that says so.

use std::path::Path;

use anyhow::{Context, Result};
use astrago_plan::Framework;
use astrago_rest::model::{CreateRequest, Runtime, Source, WhoAmI};
use serde_json::Value;

use super::git;
use crate::args::Run;
use crate::exit::Failure;
use crate::folder::Folder;
use crate::job_file;

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
        if path.is_none() && !Path::new(job_file::NAME).is_file() {
            let failure = Failure::theirs(format!(
                "nothing to run was named, and there is no {} here",
                job_file::NAME
            ));
            let hint = "name a script or a folder, as in `astrago run train.py`, or write the file with `astrago init`";
            return Err(failure.hint(hint).into());
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
        let text = std::fs::read_to_string(path).with_context(|| Failure::unreadable(path))?;
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
    pub(super) fn framework(&self, runtimes: &[Runtime]) -> String {
        let found = match self {
            Self::Script(text) => imported_framework(text, runtimes.iter().map(Hint::from)),
            Self::Folder(folder, entry, _) => {
                let mut scripts = std::iter::once(entry.as_str()).chain(folder.scripts());
                scripts.find_map(|script| {
                    imported_framework(&folder.text(script), runtimes.iter().map(Hint::from))
                })
            }
        };
        found.unwrap_or(USUAL).to_owned()
    }
}

/// The framework whose environment suits a script that imports none.
const USUAL: &str = "pytorch";

/// What of a runtime gives its framework away.
pub(crate) struct Hint<'a> {
    framework: Option<&'a str>,
    imports: &'a [String],
    launched: bool,
}

impl<'a> From<&'a Runtime> for Hint<'a> {
    fn from(runtime: &'a Runtime) -> Self {
        Self {
            framework: runtime.framework.as_deref(),
            imports: &runtime.imports,
            launched: runtime.jobs.iter().any(|job| job == "launcher"),
        }
    }
}

impl<'a> From<&'a Framework> for Hint<'a> {
    fn from(framework: &'a Framework) -> Self {
        Self {
            framework: framework.names.first().map(String::as_str),
            imports: &framework.imports,
            launched: framework.mpi,
        }
    }
}

/// The framework that a script imports, of those that there are runtimes for. What a launcher starts goes before
/// what it may be built on, and what is usual comes last.
pub(crate) fn imported_framework<'a>(
    code: &str,
    runtimes: impl Iterator<Item = Hint<'a>>,
) -> Option<&'a str> {
    let modules: Vec<&str> = code
        .lines()
        .map(str::trim_start)
        .filter_map(|line| line.strip_prefix("import ").or(line.strip_prefix("from ")))
        .filter_map(|rest| rest.split([' ', '.', ',']).next())
        .collect();
    let imports = |hint: &Hint<'_>| {
        let mut imports = hint.imports.iter();
        imports.any(|module| modules.contains(&module.as_str()))
    };
    runtimes
        .filter(|hint| imports(hint))
        .min_by_key(|hint| (hint.framework == Some(USUAL), !hint.launched))?
        .framework
}

/// The request for a job in a namespace. What `--set` says goes over everything else; the server names
/// what it does not know.
pub(super) fn request(
    namespace: &str,
    framework: String,
    arguments: &Run,
    me: &WhoAmI,
    code: &Code,
) -> Result<Value> {
    let mut request = CreateRequest {
        user_id: me.user.clone(),
        namespace: namespace.to_owned(),
        framework,
        arguments: arguments.arguments.clone(),
        nproc_per_node: arguments.nproc_per_node.map(i64::from),
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
        env_vars: arguments.env.clone(),
        volumes: arguments.volumes.clone(),
        max_restarts: arguments.max_restarts,
        retry: arguments.retry.clone(),
        deadline_seconds: arguments.deadline,
        priority: arguments.priority,
        checkpoint: arguments.checkpoint.then_some(true),
        ..CreateRequest::default()
    };
    for (number, volume) in request.volumes.iter_mut().enumerate() {
        volume.name = format!("volume-{number}");
    }
    match code {
        Code::Script(text) => request.training_code = Some(text.clone()),
        Code::Folder(folder, entry, source) => {
            request.snapshot = Some(folder.digest().to_string());
            request.entry = Some(entry.clone());
            request.source.clone_from(source);
        }
    }
    let mut request = serde_json::to_value(request)?;
    for (field, text) in &arguments.set {
        // A number, a list or an object as JSON has it; everything else is a text.
        let value = serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone()));
        request[field.as_str()] = value;
    }
    Ok(request)
}

/// The flag that a field of the request was made of; none where its user named the field.
pub(super) fn flag(field: &str, arguments: &Run) -> Option<String> {
    let (name, rest) = field.split_at(field.find(['[', '.']).unwrap_or(field.len()));
    if arguments.set.iter().any(|(set, _)| set == name) {
        return None;
    }
    let number = || rest.strip_prefix('[')?.split(']').next()?.parse().ok();
    let flag = match name {
        "namespace" | "framework" | "runtime" | "image" | "name" | "entry" | "retry"
        | "priority" | "checkpoint" => format!("--{name}"),
        "nproc_per_node" | "launcher_cpu" | "launcher_memory" | "max_restarts" => {
            format!("--{}", name.replace('_', "-"))
        }
        "num_nodes" => "--nodes".to_owned(),
        "cpu_request" | "cpu_limit" => "--cpu".to_owned(),
        "memory_request" | "memory_limit" => "--memory".to_owned(),
        "gpu_count" => "--gpus".to_owned(),
        "deadline_seconds" => "--deadline".to_owned(),
        "env_vars" => match number().and_then(|it: usize| arguments.env.get(it)) {
            Some(variable) => format!("--env {}", variable.name),
            None => "--env".to_owned(),
        },
        "volumes" => match number().and_then(|it: usize| arguments.volumes.get(it)) {
            Some(volume) => {
                let claim = volume.pvc.as_deref().unwrap_or_default();
                format!("--volume {claim}:{}", volume.mount_path)
            }
            None => "--volume".to_owned(),
        },
        "arguments" => "the arguments".to_owned(),
        "training_code" => "the script".to_owned(),
        _ => return None,
    };
    Some(flag)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use serde_json::json;

    use super::*;
    use crate::args::{Arguments, Command};

    #[test]
    fn the_framework_is_guessed_from_the_imports() {
        let runtime = |framework: &str, imports: &[&str], jobs: &[&str]| {
            let runtime = json!({ "name": framework, "framework": framework, "title": framework, "imports": imports,
                "jobs": jobs, "default": true, "launcher": false, "torchrun": false, "fetches_git": false, "num_nodes": 1, "deprecated": false });
            serde_json::from_value(runtime).unwrap()
        };
        let runtimes: Vec<Runtime> = vec![
            runtime("pytorch", &["torch"], &["node"]),
            runtime("tensorflow", &["tensorflow", "tf_keras"], &["node"]),
            runtime("horovod", &["horovod"], &["node", "launcher"]),
            runtime("jax", &["jax"], &["node"]),
        ];
        for (code, want) in [
            ("import torch\n", Some("pytorch")),
            (
                "import os\n  from tensorflow.keras import layers",
                Some("tensorflow"),
            ),
            ("import torch\nimport tf_keras", Some("tensorflow")),
            ("import horovod.torch as hvd\nimport torch", Some("horovod")),
            ("# import jax\nimport jaxtyping", None),
            ("print('hello')", None),
        ] {
            let hints = runtimes.iter().map(Hint::from);
            assert_eq!(imported_framework(code, hints), want, "{code}");
        }
    }

    fn run(words: &[&str]) -> Run {
        let words = ["astrago", "run", "x.py"].iter().chain(words);
        let Command::Run(run) = Arguments::try_parse_from(words).unwrap().command else {
            panic!("not a run");
        };
        run
    }

    #[test]
    fn what_is_refused_is_named_as_its_user_named_it() {
        let run = run(&["-e", "1B=x", "--volume", "d:/d", "--set", "memory_limit=x"]);
        let refused = |fields: &[&str]| {
            let fields = fields.iter();
            let fields = fields.map(|field| ((*field).to_owned(), "is wrong".to_owned()));
            let mut failure = Failure::theirs("refused").fields(fields.collect());
            failure.rename(|field| flag(field, &run));
            (failure.message, failure.details)
        };
        let one = refused(&["cpu_request", "cpu_limit"]);
        assert_eq!(one, ("--cpu: is wrong".to_owned(), Vec::new()));
        let fields = [
            "num_nodes",
            "env_vars[0].name",
            "volumes[0].pvc",
            "max_restarts",
            "memory_limit",
            "user_id",
        ];
        let (message, details) = refused(&fields);
        assert_eq!(message, "the request is invalid");
        let want = [
            "--nodes: is wrong",
            "--env 1B: is wrong",
            "--volume d:/d: is wrong",
            "--max-restarts: is wrong",
            "memory_limit: is wrong",
            "user_id: is wrong",
        ];
        assert_eq!(details, want);
        assert_eq!(refused(&[]).0, "refused");
    }

    #[test]
    fn flags_become_fields_and_others_can_be_set() {
        let words = [
            "--nproc-per-node",
            "2",
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
            "--",
            "--lr",
            "two words",
        ];
        let run = run(&words);
        let me = WhoAmI {
            user: "kim".to_owned(),
            groups: Vec::new(),
            admin: false,
            namespace: None,
        };
        let code = Code::Script("print()".to_owned());
        let request = request("user-kim", "pytorch".to_owned(), &run, &me, &code).unwrap();
        let volume =
            json!([{ "name": "volume-0", "pvc": "data", "mountPath": "/data", "readOnly": true }]);
        for (field, want) in [
            ("nproc_per_node", json!(2)),
            ("arguments", json!(["--lr", "two words"])),
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
