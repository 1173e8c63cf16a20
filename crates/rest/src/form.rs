//! The create form: from a request body to the objects it stands for. Pure.
//!
//! Two forms of request are accepted. Form A nests the sizes in `config`; form B has them flat and adds image,
//! command, environment and volumes. Both are one type, [`CreateRequest`]: [`typed`] reads it, [`check`] fills in
//! what it leaves open, and [`manifest`] makes the ConfigMaps and the TrainJob of it.

pub(crate) mod checkpoint;
pub(crate) mod code;
pub(crate) mod manifest;
pub(crate) mod name;
pub(crate) mod quantity;
mod sizes;
pub(crate) mod typed;
mod volumes;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use astrago_api::labels::retry;
use astrago_plan::{Framework, RESERVED_VARIABLES};
use serde_json::Value;

pub(crate) use self::code::{Code, Delivery};
pub(crate) use self::typed::Mistakes;
use crate::model::{CreateRequest, EnvVar, FieldError, Refusal};

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

/// A request that was checked, with what follows from it.
#[derive(Clone, Debug)]
pub(crate) struct JobRequest {
    /// As it was asked for, with flat sizes and the framework's own name.
    pub(crate) asked: CreateRequest,
    /// `user_id` as a DNS label.
    pub(crate) user: String,
    pub(crate) nodes: i64,
    /// The framework as the runtime of the job has it.
    pub(crate) framework: Framework,
    pub(crate) code: Code,
    /// What is started where the request gives no command.
    pub(crate) script: String,
    /// How a snapshot reaches the nodes; known once the snapshot was looked up.
    pub(crate) delivery: Option<Delivery>,
}

impl JobRequest {
    /// The longest name among the jobs that its nodes are.
    pub(crate) fn longest_job(&self) -> &str {
        longest_job(&self.framework)
    }

    /// What the request says of the job's restarts.
    fn retry(&self) -> &str {
        self.asked.retry.as_deref().unwrap_or(retry::TRANSIENT)
    }
}

fn longest_job(framework: &Framework) -> &str {
    let longest = framework.jobs.iter().max_by_key(|job| job.len());
    longest.map_or("node", String::as_str)
}

/// Reads and checks a request body; either everything is right or every mistake is returned. `frameworks` are those
/// that the cluster has runtimes for.
pub(crate) fn parse(
    body: &Value,
    policy: &Policy,
    frameworks: &[Framework],
) -> Result<JobRequest, Vec<FieldError>> {
    let mut mistakes = Mistakes::default();
    let asked = typed::read(body, &mut mistakes);
    let request = asked.and_then(|asked| check(asked, policy, frameworks, &mut mistakes));
    let errors = mistakes.into_errors();
    request.filter(|_| errors.is_empty()).ok_or(errors)
}

fn check(
    mut asked: CreateRequest,
    policy: &Policy,
    frameworks: &[Framework],
    mistakes: &mut Mistakes,
) -> Option<JobRequest> {
    let trimmed = asked.user_id.trim().to_owned();
    asked.user_id = trimmed;
    let user = mistakes.check("user_id", name::user_label(&asked.user_id));
    mistakes.check("namespace", name::check_label(&asked.namespace));
    if let Some(runtime) = &asked.runtime {
        mistakes.check("runtime", name::check_subdomain(runtime));
    }
    asked.command.take_if(|command| command.trim().is_empty());
    let code = code::check(&asked, mistakes);
    let framework = choose(&mut asked, frameworks, mistakes);
    check_source(&asked, mistakes);
    check_image(&asked, mistakes);
    let nodes = sizes::check(&mut asked, policy, mistakes);
    check_env(&asked.env_vars, mistakes);
    volumes::check(&mut asked.volumes, policy, mistakes);
    checkpoint::check(&asked, mistakes);
    if let Some(retry::TRANSIENT | retry::ALL) | None = asked.retry.as_deref() {
    } else {
        mistakes.push("retry", "must be transient or all");
    }
    if let Some(name) = &asked.name {
        mistakes.check("name", name::check_job_name(name));
    }
    if let Some(origin) = &asked.origin {
        mistakes.check("origin", check_origin(origin));
    }
    let framework = framework?;
    check_against(&framework, &asked, mistakes);
    if let (Some(user), Some(nodes)) = (&user, nodes) {
        check_length(&asked, user, longest_job(&framework), nodes, mistakes);
    }
    Some(JobRequest {
        user: user?,
        nodes: nodes?,
        framework,
        script: match code.as_ref()? {
            Code::Git => "/workspace/code/train.py".to_owned(),
            _ => format!("{SCRIPTS}/train.py"),
        },
        code: code?,
        delivery: None,
        asked,
    })
}

fn check_origin(origin: &str) -> Result<(), Refusal> {
    let (namespace, name) = origin
        .split_once('/')
        .ok_or("must be the namespace and the name of a job, with a slash between")?;
    name::check_label(namespace)?;
    name::check_subdomain(name)
}

/// The framework of the runtime that the request names or, if it names none, of the one for its framework.
fn choose(
    asked: &mut CreateRequest,
    all: &[Framework],
    mistakes: &mut Mistakes,
) -> Option<Framework> {
    let known = all.iter().find(|one| one.names.contains(&asked.framework));
    let Some(runtime) = &asked.runtime else {
        let from_git = asked.git_repository.is_some();
        let chosen = Framework::choose(all, &asked.framework, from_git);
        if chosen.is_none() && known.is_some() && from_git {
            mistakes.push("git_repository", Refusal::GitRuntime);
        } else if chosen.is_none() {
            mistakes.push("framework", unknown_framework(&asked.framework, all));
        }
        asked.framework = chosen?.name().to_owned();
        return chosen.cloned();
    };
    let named = all.iter().find(|one| one.runtime == *runtime);
    if named.is_none() {
        let refusal = Refusal::Runtime {
            value: runtime.clone(),
            known: all.iter().map(|one| one.runtime.clone()).collect(),
        };
        mistakes.push("runtime", refusal);
    }
    match known {
        Some(known) => known.name().clone_into(&mut asked.framework),
        // A runtime that says nothing of its framework runs what the request says.
        None if named.is_some_and(|named| named.names.is_empty()) => {
            mistakes.check("framework", name::check_label(&asked.framework));
        }
        None => mistakes.push("framework", unknown_framework(&asked.framework, all)),
    }
    named.cloned()
}

fn unknown_framework(value: &str, all: &[Framework]) -> Refusal {
    let mut known: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for framework in all.iter().filter(|framework| !framework.names.is_empty()) {
        known
            .entry(framework.name())
            .or_default()
            .push(&framework.runtime);
    }
    let known = known
        .iter()
        .map(|(name, runtimes)| format!("{name} ({})", runtimes.join(", ")));
    Refusal::Framework {
        value: value.to_owned(),
        known: known.collect(),
    }
}

/// What only some frameworks can do, and only where the command is left to us.
fn check_against(framework: &Framework, asked: &CreateRequest, mistakes: &mut Mistakes) {
    let sizes = [
        ("launcher_cpu", &asked.launcher_cpu),
        ("launcher_memory", &asked.launcher_memory),
    ];
    for (field, _) in sizes.iter().filter(|(_, given)| given.is_some()) {
        if !framework.launcher {
            mistakes.push(
                *field,
                "is for frameworks such as horovod, whose launcher is not one of the nodes",
            );
        }
    }
    if asked.nproc_per_node.is_some() && !framework.torch {
        let message = "needs the framework pytorch, whose torchrun starts the processes";
        mistakes.push("nproc_per_node", message);
    }
    if asked.command.is_none() {
        return;
    }
    if asked.nproc_per_node.is_some() {
        let message =
            "is for requests that leave the command to us; yours can call torchrun itself";
        mistakes.push("nproc_per_node", message);
    }
    if !asked.arguments.is_empty() {
        mistakes.push("arguments", "are for requests that leave the command to us");
    }
}

fn check_source(asked: &CreateRequest, mistakes: &mut Mistakes) {
    let Some(source) = &asked.source else { return };
    for (field, text) in [
        ("source.repository", &source.repository),
        ("source.commit", &source.commit),
    ] {
        if text.len() > 1000 || text.chars().any(char::is_control) {
            mistakes.push(field, "must be at most 1000 characters in one line");
        }
    }
}

fn check_image(asked: &CreateRequest, mistakes: &mut Mistakes) {
    let Some(image) = &asked.image else { return };
    if image.trim().is_empty() {
        mistakes.push("image", Refusal::Empty);
    } else if image.len() > 500 {
        let refusal = Refusal::TooLong {
            limit: 500,
            has: None,
        };
        mistakes.push("image", refusal);
    } else if image.contains(|c: char| c.is_whitespace() || c.is_control() || !c.is_ascii()) {
        mistakes.push("image", Refusal::Image);
    }
}

fn check_env(variables: &[EnvVar], mistakes: &mut Mistakes) {
    let mut seen = BTreeSet::new();
    for (index, EnvVar { name, .. }) in variables.iter().enumerate() {
        let field = format!("env_vars[{index}].name");
        if let Some(refusal) = wrong_env_name(name) {
            mistakes.push(field, refusal);
        } else if !seen.insert(name) {
            let value = name.clone();
            mistakes.push(field, Refusal::Twice { value });
        }
    }
    if variables.len() > 128 {
        mistakes.push("env_vars", Refusal::TooMany { limit: 128 });
    }
}

fn wrong_env_name(name: &str) -> Option<Refusal> {
    // A second value of what the runtime sets itself would take the job apart.
    if RESERVED_VARIABLES.contains(&name) {
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

fn check_length(
    asked: &CreateRequest,
    user: &str,
    longest: &str,
    nodes: i64,
    mistakes: &mut Mistakes,
) {
    if let Some(job) = &asked.name {
        mistakes.check("name", name::check_pod_names(job, longest, nodes));
    } else {
        // The time stamp has a fixed length, so any will do.
        let made = name::job_name(user, "20251105130000", None, usize::MAX);
        mistakes.check("user_id", name::check_pod_names(&made, longest, nodes));
    }
}
