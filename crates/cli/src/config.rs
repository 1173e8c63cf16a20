//! The configuration file of the servers.
//!
//! What a file says takes the place of the built-in defaults, so that the order of precedence is that
//! of the command line itself: a flag, then its environment variable, then the file, then the default.
//! A key is the name of a flag; there is no second set of names to learn.
//!
//! ```yaml
//! listen: 127.0.0.1:9000
//! capacity: [cpu=8, memory=32Gi]
//! no-auth: true
//! ```

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{ArgAction, Command};
use serde_json::{Map, Value};

use crate::exit::Failure;

/// The variable that names a file when no flag does.
const VARIABLE: &str = "ASTRAGO_CONFIG";

/// The commands that read a file.
const SERVERS: [&str; 2] = ["up", "serve"];

/// Puts what the configuration file says, if there is one, into a command line's defaults.
pub(crate) fn apply(command: Command, arguments: &[OsString]) -> Result<Command> {
    let Some(server) = SERVERS.into_iter().find(|name| is_called(arguments, name)) else {
        return Ok(command);
    };
    let named = flag(arguments).or_else(|| {
        std::env::var_os(VARIABLE)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    });
    match named {
        Some(path) => {
            let settings = read(&path)?;
            set(command, server, &settings, &path)
        }
        None => Ok(command),
    }
}

fn is_called(arguments: &[OsString], name: &str) -> bool {
    arguments.iter().skip(1).any(|argument| argument == name)
}

/// The file that `--config FILE` or `--config=FILE` names.
fn flag(arguments: &[OsString]) -> Option<PathBuf> {
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        if argument == "--config" {
            return arguments.next().map(PathBuf::from);
        }
        let text = argument.to_str().unwrap_or_default();
        if let Some(path) = text.strip_prefix("--config=") {
            return Some(PathBuf::from(path));
        }
    }
    None
}

fn read(path: &Path) -> Result<Map<String, Value>> {
    let failed = || {
        Failure::theirs(format!(
            "failed to read the configuration {}",
            path.display()
        ))
    };
    let text = std::fs::read_to_string(path)
        .map_err(|error| anyhow::Error::from(error).context(failed()))?;
    if text.trim().is_empty() {
        return Ok(Map::new());
    }
    serde_saphyr::from_str(&text)
        .map_err(|error| anyhow::Error::from(error).context(failed()))
        .with_context(failed)
}

fn set(
    command: Command,
    server: &str,
    settings: &Map<String, Value>,
    path: &Path,
) -> Result<Command> {
    let mut wrong = Vec::new();
    let mut defaults = Vec::new();
    let known = command.find_subcommand(server).into_iter();
    let known: Vec<_> = known.flat_map(Command::get_arguments).collect();
    for (key, value) in settings {
        let argument = known
            .iter()
            .find(|argument| argument.get_long() == Some(key) && key != "config" && key != "help");
        let Some(argument) = argument else {
            wrong.push(format!("{key}: there is no such setting"));
            continue;
        };
        let is_flag = matches!(argument.get_action(), ArgAction::SetTrue);
        match values(value, is_flag) {
            Ok(values) => defaults.push((argument.get_id().clone(), values)),
            Err(message) => wrong.push(format!("{key}: {message}")),
        }
    }
    if !wrong.is_empty() {
        let mut failure = Failure::theirs(format!("the configuration {} is wrong", path.display()))
            .hint(format!(
                "the settings are the flags of `astrago {server} --help`"
            ));
        failure.details = wrong;
        return Err(failure.into());
    }
    Ok(command.mut_subcommand(server, |command| {
        defaults.into_iter().fold(command, |command, (id, values)| {
            command.mut_arg(id, |argument| argument.default_values(values))
        })
    }))
}

/// A setting as the texts that a flag takes.
fn values(value: &Value, is_flag: bool) -> Result<Vec<clap::builder::OsStr>, &'static str> {
    // Clap keeps defaults for as long as the program runs, and so do we.
    let text = |text: String| -> clap::builder::OsStr {
        let text: &'static str = text.leak();
        text.into()
    };
    match value {
        Value::Bool(flag) if is_flag => Ok(vec![text(flag.to_string())]),
        _ if is_flag => Err("must be true or false"),
        Value::String(one) => Ok(vec![text(one.clone())]),
        Value::Number(number) => Ok(vec![text(number.to_string())]),
        Value::Array(list) => list
            .iter()
            .map(|one| match one {
                Value::String(one) => Ok(text(one.clone())),
                Value::Number(number) => Ok(text(number.to_string())),
                _ => Err("must be a list of texts"),
            })
            .collect(),
        Value::Null | Value::Bool(_) | Value::Object(_) => {
            Err("must be a text, a number or a list")
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, FromArgMatches};
    use serde_json::json;

    use super::*;
    use crate::args::{Arguments, Command as Subcommand, Up};

    fn up(settings: &Value, arguments: &[&str]) -> Result<Up> {
        let settings = settings.as_object().unwrap();
        let command = set(Arguments::command(), "up", settings, Path::new("file"))?;
        let all = ["astrago", "up"].iter().chain(arguments);
        let matches = command.try_get_matches_from(all)?;
        match Arguments::from_arg_matches(&matches)?.command {
            Subcommand::Up(up) => Ok(up),
            other => anyhow::bail!("{other:?}"),
        }
    }

    #[test]
    fn a_flag_wins_over_the_file_and_the_file_over_the_default() {
        let file = json!({ "listen": "127.0.0.1:9000", "no-node": true, "capacity": ["cpu=8", "memory=1Gi"],
                           "history-days": 7 });
        let read = up(&file, &[]).unwrap();
        assert_eq!(
            (read.listen.port(), read.no_node, read.capacity.len()),
            (9000, true, 2)
        );
        assert_eq!(read.history.days, 7);
        assert_eq!(read.kube_listen.port(), 8443);
        let read = up(&file, &["--listen", "127.0.0.1:9001"]).unwrap();
        assert_eq!((read.listen.port(), read.no_node), (9001, true));
    }

    #[test]
    fn wrong_settings_are_named_all_at_once() {
        let file = json!({ "lisen": "x", "no-node": "yes", "listen": {} });
        let error = up(&file, &[]).unwrap_err();
        let failure = error.downcast_ref::<Failure>().unwrap();
        assert_eq!(failure.details.len(), 3, "{:?}", failure.details);
    }

    #[test]
    fn the_file_is_found_by_its_flag() {
        let arguments = |list: &[&str]| list.iter().map(OsString::from).collect::<Vec<_>>();
        let found = |list: &[&str]| flag(&arguments(list));
        assert_eq!(
            found(&["astrago", "up", "--config", "a.yaml"]),
            Some("a.yaml".into())
        );
        assert_eq!(
            found(&["astrago", "up", "--config=b.yaml"]),
            Some("b.yaml".into())
        );
        assert_eq!(found(&["astrago", "up"]), None);
    }
}
