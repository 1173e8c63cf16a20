//! The create form: from a request body to the objects it stands for. Pure.
//!
//! Two request forms are accepted (mission §2). Form A nests the sizes in `config`; form B has
//! them flat and adds image, command, environment and volumes. They meet in [`JobRequest`], in
//! which every value has been checked and every default filled in; [`manifest`] turns that into
//! the ConfigMaps and the TrainJob.

mod checkpoint;
pub(crate) mod code;
pub(crate) mod fields;
pub(crate) mod framework;
pub(crate) mod manifest;
pub(crate) mod name;
pub(crate) mod quantity;
mod volumes;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use astrago_api::labels::retry;
use astrago_api::quantity::Amount;
use serde_json::Value;

use self::checkpoint::Checkpoint;
pub(crate) use self::code::{Code, Delivery};
use self::fields::Fields;
pub(crate) use self::framework::Framework;
pub(crate) use self::volumes::{Volume, VolumeSource};
use crate::model::{FieldError, Refusal, Source};

/// The directory in which the user's code appears.
pub(crate) const SCRIPTS: &str = "/workspace/scripts";

/// What an administrator may change about what a form may ask for.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The most nodes one job may have.
    pub max_nodes: i64,
    /// Host folders that volumes may mount; empty means that `hostPath` is not allowed at all.
    pub host_paths: Vec<String>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            max_nodes: 1000,
            host_paths: Vec::new(),
        }
    }
}

/// A checked request for a training job.
#[derive(Clone, Debug)]
pub(crate) struct JobRequest {
    pub(crate) user_id: String,
    /// `user_id` as a DNS label.
    pub(crate) user: String,
    pub(crate) namespace: String,
    /// A name of the user's choice; otherwise it is made of user and time.
    pub(crate) name: Option<String>,
    pub(crate) framework: Framework,
    pub(crate) runtime: String,
    pub(crate) code: Code,
    pub(crate) source: Option<Source>,
    /// How a snapshot reaches the nodes; known once the snapshot was looked up.
    pub(crate) delivery: Option<Delivery>,
    /// Processes that torchrun starts on each node, where the request asks for it.
    pub(crate) processes: Option<i64>,
    pub(crate) image: Option<String>,
    pub(crate) nodes: i64,
    pub(crate) resources: Resources,
    pub(crate) launcher: Launcher,
    pub(crate) command: String,
    /// Whether the request gave the command.
    pub(crate) own_command: bool,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) volumes: Vec<Volume>,
    pub(crate) checkpoint: Option<Checkpoint>,
    pub(crate) node_selector: BTreeMap<String, String>,
    pub(crate) max_restarts: Option<i64>,
    pub(crate) retry: &'static str,
    pub(crate) deadline_seconds: Option<i64>,
    pub(crate) ttl_seconds_after_finished: Option<i64>,
    pub(crate) priority: Option<i64>,
    pub(crate) suspend: bool,
}

/// Requests and limits of one node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Resources {
    pub(crate) requests: BTreeMap<String, String>,
    pub(crate) limits: BTreeMap<String, String>,
}

/// What the launcher gets beyond what the runtime gives it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Launcher {
    pub(crate) cpu: Option<String>,
    pub(crate) memory: Option<String>,
}

/// Reads and checks a request body; either everything is right or every mistake is returned.
pub(crate) fn parse(body: &Value, policy: &Policy) -> Result<JobRequest, Vec<FieldError>> {
    let mut errors = Vec::new();
    let request = read(body, policy, &mut errors);
    match request {
        Some(request) if errors.is_empty() => Ok(request),
        _ => Err(errors),
    }
}

fn read(body: &Value, policy: &Policy, errors: &mut Vec<FieldError>) -> Option<JobRequest> {
    let mut fields = Fields::new("", body, errors);
    let user_id = fields.required_text("user_id", errors);
    let user = user_id.and_then(|id| checked(&fields, "user_id", name::user_label(id), errors));
    let namespace = fields
        .required_text("namespace", errors)
        .filter(|namespace| {
            checked(&fields, "namespace", name::check_label(namespace), errors).is_some()
        });
    let framework = fields
        .required_text("framework", errors)
        .and_then(|text| checked(&fields, "framework", text.parse::<Framework>(), errors));
    let runtime = fields.text("runtime", errors).filter(|runtime| {
        checked(&fields, "runtime", name::check_subdomain(runtime), errors).is_some()
    });
    let command = fields
        .text("command", errors)
        .filter(|command| !command.trim().is_empty());
    let code = code::read(&mut fields, command.is_some(), errors);
    let source = read_source(&mut fields, errors);
    let processes = fields.integer("nproc_per_node", 1..=256, errors);
    let image = read_image(&mut fields, errors);
    let sizes = read_sizes(&mut fields, policy, errors);
    let launcher = read_launcher(&mut fields, framework, errors);
    let env = read_env(&mut fields, errors);
    let volumes = volumes::read(&mut fields, policy, errors);
    let checkpoint = checkpoint::read(&mut fields, &env, &volumes, errors);
    let node_selector = read_map(&mut fields, "node_selector", errors);
    let max_restarts = fields.integer("max_restarts", 0..=1000, errors);
    let retry = read_retry(&mut fields, errors);
    let deadline_seconds = fields.integer("deadline_seconds", 1..=31_536_000, errors);
    let ttl_seconds_after_finished =
        fields.integer("ttl_seconds_after_finished", 0..=31_536_000, errors);
    let priority = fields.integer("priority", -1_000_000_000..=1_000_000_000, errors);
    let suspend = fields.boolean("suspend", errors).unwrap_or(false);
    let job_name = fields
        .text("name", errors)
        .filter(|job| checked(&fields, "name", name::check_job_name(job), errors).is_some());
    if let (Some(framework), Some(sizes)) = (framework, &sizes) {
        check_length(
            &fields,
            job_name,
            user.as_deref(),
            framework,
            sizes.nodes,
            errors,
        );
    }
    fields.finish(errors);

    let framework = framework?;
    let from_git = matches!(code, Some(Code::Git(_)));
    let standard_runtime = match (from_git, framework.git_runtime()) {
        (true, Some(runtime)) => runtime,
        (true, None) if runtime.is_none() => {
            errors.push(FieldError::new("git_repository", Refusal::GitRuntime));
            return None;
        }
        _ => framework.runtime(),
    };
    if processes.is_some() {
        let wrong = if framework != Framework::PyTorch {
            Some("needs the framework pytorch, whose torchrun starts the processes")
        } else if command.is_some() || from_git {
            Some("is for requests that leave the command to us; yours can call torchrun itself")
        } else {
            None
        };
        errors.extend(wrong.map(|message| FieldError::new("nproc_per_node", message)));
    }
    let standard_command = if from_git {
        "python3 /workspace/code/train.py".to_owned()
    } else {
        code::start(framework.interpreter(), processes, "train.py")
    };
    let sizes = sizes?;
    Some(JobRequest {
        user_id: user_id?.trim().to_owned(),
        user: user?,
        namespace: namespace?.to_owned(),
        name: job_name.map(str::to_owned),
        framework,
        runtime: runtime.unwrap_or(standard_runtime).to_owned(),
        code: code?,
        source,
        delivery: None,
        processes,
        image: image.or(framework
            .image()
            .filter(|_| runtime.is_none())
            .map(str::to_owned)),
        nodes: sizes.nodes,
        resources: sizes.resources,
        launcher,
        command: command.map_or(standard_command, str::to_owned),
        own_command: command.is_some(),
        env,
        volumes,
        checkpoint,
        node_selector,
        max_restarts,
        retry,
        deadline_seconds,
        ttl_seconds_after_finished,
        priority,
        suspend,
    })
}

fn read_source(fields: &mut Fields<'_>, errors: &mut Vec<FieldError>) -> Option<Source> {
    let mut source = Fields::new("source", fields.take("source")?, errors);
    let mut part = |name| {
        let text = source.required_text(name, errors)?;
        if text.len() > 1000 || text.chars().any(char::is_control) {
            let message = "must be at most 1000 characters in one line";
            errors.push(FieldError::new(source.path(name), message));
            return None;
        }
        Some(text.to_owned())
    };
    let (repository, commit) = (part("repository"), part("commit"));
    source.finish(errors);
    Some(Source {
        repository: repository?,
        commit: commit?,
    })
}

fn read_retry(fields: &mut Fields<'_>, errors: &mut Vec<FieldError>) -> &'static str {
    match fields.text("retry", errors) {
        None | Some(retry::TRANSIENT) => retry::TRANSIENT,
        Some(retry::ALL) => retry::ALL,
        Some(_) => {
            errors.push(FieldError::new("retry", "must be transient or all"));
            retry::TRANSIENT
        }
    }
}

fn read_image(fields: &mut Fields<'_>, errors: &mut Vec<FieldError>) -> Option<String> {
    let image = fields.text("image", errors)?;
    let wrong = if image.trim().is_empty() {
        Some(Refusal::Empty)
    } else if image.len() > 500 {
        Some(Refusal::TooLong {
            limit: 500,
            has: None,
        })
    } else if image.contains(|c: char| c.is_whitespace() || c.is_control() || !c.is_ascii()) {
        Some(Refusal::Image)
    } else {
        None
    };
    if let Some(message) = wrong {
        errors.push(FieldError::new("image", message));
    }
    Some(image.to_owned())
}

struct Sizes {
    nodes: i64,
    resources: Resources,
}

/// The sizes, from `config` (form A) or from the flat fields (form B).
fn read_sizes(
    fields: &mut Fields<'_>,
    policy: &Policy,
    errors: &mut Vec<FieldError>,
) -> Option<Sizes> {
    let flat_nodes = fields.integer("num_nodes", 1..=policy.max_nodes, errors);
    let flat = ReadResources {
        gpus: fields.integer("gpu_count", 0..=1024, errors),
        cpu_request: read_quantity(fields, "cpu_request", MIN_CPU, errors),
        cpu_limit: read_quantity(fields, "cpu_limit", MIN_CPU, errors),
        memory_request: read_quantity(fields, "memory_request", MIN_MEMORY, errors),
        memory_limit: read_quantity(fields, "memory_limit", MIN_MEMORY, errors),
    };
    let Some(config) = fields.take("config") else {
        fields.required("num_nodes", errors);
        flat.check("cpu_request", "memory_request", errors);
        return Some(Sizes {
            nodes: flat_nodes?,
            resources: flat.resources(),
        });
    };
    let repeated = [
        "num_nodes",
        "gpu_count",
        "cpu_request",
        "cpu_limit",
        "memory_request",
        "memory_limit",
    ];
    for name in repeated {
        if fields.take(name).is_some() {
            errors.push(FieldError::new(
                name,
                "is already given by config; give the sizes once",
            ));
        }
    }
    let mut nested = Fields::new("config", config, errors);
    let nodes = nested
        .required("num_nodes", errors)
        .and_then(|()| nested.integer("num_nodes", 1..=policy.max_nodes, errors));
    let cpu = read_quantity(&mut nested, "cpu_per_node", MIN_CPU, errors);
    let memory = read_quantity(&mut nested, "memory_per_node", MIN_MEMORY, errors);
    let read = ReadResources {
        gpus: nested.integer("gpu_per_node", 0..=1024, errors),
        cpu_request: cpu.clone(),
        cpu_limit: cpu,
        memory_request: memory.clone(),
        memory_limit: memory,
    };
    nested.finish(errors);
    Some(Sizes {
        nodes: nodes?,
        resources: read.resources(),
    })
}

fn read_launcher(
    fields: &mut Fields<'_>,
    framework: Option<Framework>,
    errors: &mut Vec<FieldError>,
) -> Launcher {
    let launcher = Launcher {
        cpu: read_quantity(fields, "launcher_cpu", MIN_CPU, errors).map(|(text, _)| text),
        memory: read_quantity(fields, "launcher_memory", MIN_MEMORY, errors).map(|(text, _)| text),
    };
    let given = [
        ("launcher_cpu", launcher.cpu.is_some()),
        ("launcher_memory", launcher.memory.is_some()),
    ];
    for (name, given) in given {
        if given && framework.is_some_and(|framework| framework != Framework::Horovod) {
            let message =
                "is for horovod, the only framework whose launcher is not one of the nodes";
            errors.push(FieldError::new(name, message));
        }
    }
    launcher
}

/// One millicore, and a mebibyte: less cannot run anything and is surely a slip of the unit.
const MIN_CPU: (i64, &str) = (1, "0.001");
const MIN_MEMORY: (i64, &str) = (1024 * 1024 * 1000, "1Mi");

fn read_quantity(
    fields: &mut Fields<'_>,
    name: &'static str,
    (minimum, minimum_text): (i64, &str),
    errors: &mut Vec<FieldError>,
) -> Option<(String, Amount)> {
    let text = fields.quantity_text(name, errors)?;
    let amount = checked(fields, name, quantity::read(&text), errors)?;
    if amount < Amount::milli(minimum) {
        let low = minimum_text.to_owned();
        let refusal = Refusal::AtLeast { low, value: text };
        errors.push(FieldError::new(fields.path(name), refusal));
        return None;
    }
    Some((text, amount))
}

#[derive(Default)]
struct ReadResources {
    gpus: Option<i64>,
    cpu_request: Option<(String, Amount)>,
    cpu_limit: Option<(String, Amount)>,
    memory_request: Option<(String, Amount)>,
    memory_limit: Option<(String, Amount)>,
}

impl ReadResources {
    fn check(&self, cpu: &str, memory: &str, errors: &mut Vec<FieldError>) {
        for (field, request, limit) in [
            (cpu, &self.cpu_request, &self.cpu_limit),
            (memory, &self.memory_request, &self.memory_limit),
        ] {
            if let (Some((request, asked)), Some((limit, allowed))) = (request, limit)
                && asked > allowed
            {
                let (value, limit) = (request.clone(), limit.clone());
                errors.push(FieldError::new(field, Refusal::AboveLimit { value, limit }));
            }
        }
    }

    /// A request without a limit stays without one; a limit alone is also the request, as in
    /// Kubernetes. GPUs stand in both, and zero GPUs in neither.
    fn resources(self) -> Resources {
        let mut resources = Resources::default();
        let pairs = [
            ("cpu", self.cpu_request, self.cpu_limit),
            ("memory", self.memory_request, self.memory_limit),
        ];
        for (name, request, limit) in pairs {
            if let Some((text, _)) = request.or_else(|| limit.clone()) {
                resources.requests.insert(name.to_owned(), text);
            }
            if let Some((text, _)) = limit {
                resources.limits.insert(name.to_owned(), text);
            }
        }
        if let Some(gpus) = self.gpus.filter(|gpus| *gpus > 0) {
            resources
                .requests
                .insert("nvidia.com/gpu".to_owned(), gpus.to_string());
            resources
                .limits
                .insert("nvidia.com/gpu".to_owned(), gpus.to_string());
        }
        resources
    }
}

fn read_env(fields: &mut Fields<'_>, errors: &mut Vec<FieldError>) -> Vec<(String, String)> {
    let mut seen = BTreeSet::new();
    let mut env = Vec::new();
    for (index, item) in fields.list("env_vars", errors).iter().enumerate() {
        let mut entry = Fields::new(&format!("env_vars[{index}]"), item, errors);
        let name = entry.required_text("name", errors);
        let value = match entry.take("value") {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) => number.to_string(),
            Some(Value::Bool(flag)) => flag.to_string(),
            None => String::new(),
            Some(_) => {
                errors.push(FieldError::new(entry.path("value"), "must be a string"));
                String::new()
            }
        };
        if let Some(name) = name {
            if let Some(message) = wrong_env_name(name) {
                errors.push(FieldError::new(entry.path("name"), message));
            } else if !seen.insert(name) {
                errors.push(FieldError::new(
                    entry.path("name"),
                    Refusal::Twice {
                        value: name.to_owned(),
                    },
                ));
            }
            env.push((name.to_owned(), value));
        }
        entry.finish(errors);
    }
    if env.len() > 128 {
        errors.push(FieldError::new("env_vars", Refusal::TooMany { limit: 128 }));
    }
    env
}

/// Variables that the runtime sets itself; a second value would take the job apart.
fn wrong_env_name(name: &str) -> Option<Refusal> {
    const RESERVED: [&str; 5] = [
        "PET_NNODES",
        "PET_NPROC_PER_NODE",
        "PET_NODE_RANK",
        "PET_MASTER_ADDR",
        "PET_MASTER_PORT",
    ];
    if RESERVED.contains(&name) {
        return Some(Refusal::Reserved {
            value: name.to_owned(),
        });
    }
    let valid_start = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let valid_rest = name
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'));
    if !valid_start || !valid_rest || name.len() > 253 {
        return Some(Refusal::VariableName);
    }
    None
}

fn read_map(
    fields: &mut Fields<'_>,
    name: &'static str,
    errors: &mut Vec<FieldError>,
) -> BTreeMap<String, String> {
    let Some(value) = fields.take(name) else {
        return BTreeMap::new();
    };
    let Some(object) = value.as_object() else {
        errors.push(FieldError::new(
            fields.path(name),
            "must be an object of strings",
        ));
        return BTreeMap::new();
    };
    let mut map = BTreeMap::new();
    for (key, value) in object {
        match value.as_str() {
            Some(text) => {
                map.insert(key.clone(), text.to_owned());
            }
            None => {
                errors.push(FieldError::new(
                    format!("{}.{key}", fields.path(name)),
                    "must be a string",
                ));
            }
        }
    }
    map
}

fn check_length(
    fields: &Fields<'_>,
    job: Option<&str>,
    user: Option<&str>,
    framework: Framework,
    nodes: i64,
    errors: &mut Vec<FieldError>,
) {
    let longest = framework.longest_job();
    if let Some(job) = job {
        checked(
            fields,
            "name",
            name::check_pod_names(job, longest, nodes),
            errors,
        );
    } else if let Some(user) = user {
        // The time stamp has a fixed length, so any will do.
        let made = name::job_name(user, "20251105130000", None, usize::MAX);
        checked(
            fields,
            "user_id",
            name::check_pod_names(&made, longest, nodes),
            errors,
        );
    }
}

fn checked<T>(
    fields: &Fields<'_>,
    name: &str,
    result: Result<T, impl Into<Refusal>>,
    errors: &mut Vec<FieldError>,
) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(message) => {
            errors.push(FieldError::new(fields.path(name), message));
            None
        }
    }
}
