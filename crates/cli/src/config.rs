//! Files that stand for flags: the configuration of the servers, and the `astrago.yaml` of a job (`job_file`).
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

use anyhow::Result;
use astrago_plan::yaml::{self, Lines};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, Command};
use serde_json::{Map, Value};

use crate::exit::Failure;

/// The variable that names a file when no flag does.
const VARIABLE: &str = "ASTRAGO_CONFIG";

/// The commands that read a file.
const SERVERS: [&str; 2] = ["up", "serve"];

/// Flags that make no sense in a file.
const NEVER: [&str; 3] = ["config", "git", "help"];

/// The longest file that is read.
const MAX_BYTES: u64 = 1 << 20;

/// What a file says, and in which lines.
pub(crate) struct Settings {
    path: PathBuf,
    fields: Map<String, Value>,
    lines: Option<Lines>,
}

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
        Some(path) => set(command, server, &Settings::read(&path)?),
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

impl Settings {
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let shown = path.display();
        let failed = |error: anyhow::Error| {
            error.context(Failure::theirs(format!("failed to read {shown}")))
        };
        let size = std::fs::metadata(path).map_err(|error| failed(error.into()))?;
        if size.len() > MAX_BYTES {
            let message = format!("{shown} is larger than {MAX_BYTES} bytes");
            return Err(Failure::theirs(message)
                .hint("is it really a settings file?")
                .into());
        }
        let text = std::fs::read_to_string(path).map_err(|error| failed(error.into()))?;
        Self::parse(path, &text)
    }

    fn parse(path: &Path, text: &str) -> Result<Self> {
        let broken = |message: &dyn std::fmt::Display| {
            Failure::theirs(format!(
                "{} cannot be understood: {message}",
                path.display()
            ))
            .hint("it must be YAML with a `name: value` per line")
        };
        // Comments alone are no fields.
        let mut documents: Vec<Value> = yaml::all_from_str(text).map_err(|error| broken(&error))?;
        documents.retain(|document| !document.is_null());
        if documents.len() > 1 {
            return Err(broken(&"it has more than one document").into());
        }
        let fields = match documents.pop() {
            None => Map::new(),
            Some(Value::Object(fields)) => fields,
            Some(_) => return Err(broken(&"it has no fields").into()),
        };
        let lines = Lines::of(text).map_err(|error| broken(&error))?;
        Ok(Self {
            path: path.to_owned(),
            fields,
            lines: lines.into_iter().next(),
        })
    }
}

/// Makes what a file says the defaults of a command; everything that is wrong in it is named at once.
pub(crate) fn set(command: Command, called: &str, settings: &Settings) -> Result<Command> {
    let mut wrong = Vec::new();
    let mut defaults: Vec<(clap::Id, bool, Vec<clap::builder::OsStr>)> = Vec::new();
    let known = known(&command, called);
    for (key, value) in &settings.fields {
        let found = known.iter().find(|(_, argument)| is_named(argument, key));
        let values = match found {
            None => Err(unknown(key, &known)),
            Some((_, argument)) => texts(argument, value)
                .and_then(|texts| valid(&command, called, argument, &texts).map(|()| texts)),
        };
        match (found, values) {
            (Some((_, argument)), _) if defaults.iter().any(|it| it.0 == *argument.get_id()) => {
                wrong.push((
                    key,
                    "another field sets the same; keep one of them".to_owned(),
                ));
            }
            (Some((global, argument)), Ok(texts)) => {
                // Clap keeps defaults for as long as the program runs, and so do we.
                let values = texts.into_iter().map(|text| (&*text.leak()).into());
                defaults.push((argument.get_id().clone(), *global, values.collect()));
            }
            (_, Err(message)) => wrong.push((key, message)),
            (None, Ok(_)) => {}
        }
    }
    if !wrong.is_empty() {
        let path = settings.path.display();
        let mut failure = Failure::theirs(format!("{path} has mistakes")).hint(format!(
            "its fields are the flags of `astrago {called} --help`"
        ));
        let line = |key: &str| settings.lines.as_ref().map_or(1, |lines| lines.line(key));
        wrong.sort_by_key(|(key, _)| line(key));
        let details = wrong
            .iter()
            .map(|(key, message)| format!("{path}:{}: {key}: {message}", line(key)));
        failure.details = details.collect();
        return Err(failure.into());
    }
    let put = |command: Command, global: bool| {
        let wanted = defaults.iter().filter(|it| it.1 == global);
        wanted.fold(command, |command, (id, _, values)| {
            command.mut_arg(id, |argument| argument.default_values(values.clone()))
        })
    };
    Ok(put(command, true).mut_subcommand(called, |command| put(command, false)))
}

/// The flags that a file may set, and whether all commands have them. Where the server is and who asks is not for a
/// file to say that came with somebody's code.
fn known<'a>(command: &'a Command, called: &str) -> Vec<(bool, &'a Arg)> {
    let own = command.find_subcommand(called).into_iter();
    let own = own.flat_map(Command::get_arguments).map(|it| (false, it));
    let global = command.get_arguments().map(|it| (true, it));
    let global = global.filter(|(_, it)| called == "run" && it.get_id() == "namespace");
    own.chain(global)
        .filter(|(_, it)| it.is_last_set() || it.get_long().is_some_and(|it| !NEVER.contains(&it)))
        .collect()
}

/// What a file calls an argument: as its flag is called, or as what follows `--` is.
fn names(argument: &Arg) -> impl Iterator<Item = &str> {
    let last = argument.is_last_set().then(|| argument.get_id().as_str());
    let aliases = argument.get_all_aliases().unwrap_or_default();
    last.into_iter().chain(argument.get_long()).chain(aliases)
}

fn is_named(argument: &Arg, key: &str) -> bool {
    names(argument).any(|name| name == key)
}

fn unknown(key: &str, known: &[(bool, &Arg)]) -> String {
    let meant = key.replace('_', "-");
    let names = known.iter().flat_map(|(_, argument)| names(argument));
    let near = names
        .filter(|_| key.len() <= 64)
        .map(|name| (strsim::levenshtein(&meant, name), name))
        .filter(|(distance, name)| *distance <= 2 && *distance * 2 <= name.len())
        // Of equally near ones that which goes on from it: of `gpu` it is `gpus`, not `cpu`.
        .min_by_key(|(distance, name)| (*distance, !name.starts_with(&meant)));
    match near {
        Some((_, name)) => format!("there is no such field; did you mean {name}?"),
        None => "there is no such field".to_owned(),
    }
}

/// A value as the texts that its flag takes.
fn texts(argument: &Arg, value: &Value) -> Result<Vec<String>, String> {
    let scalar = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        _ => None,
    };
    let form = argument.get_value_names().and_then(|names| names.first());
    let form = form.map_or("", |form| form.as_str());
    match (argument.get_action(), value) {
        (ArgAction::SetTrue, Value::Bool(flag)) => Ok(vec![flag.to_string()]),
        (ArgAction::SetTrue, _) => Err("must be true or false".to_owned()),
        (ArgAction::Append, Value::Object(fields)) if form.contains('=') => fields
            .iter()
            .map(|(name, value)| match scalar(value) {
                _ if name.contains('=') => Err(format!("the name {name:?} has a = in it")),
                Some(text) => Ok(format!("{name}={text}")),
                // Other fields of the request are whatever JSON can be.
                None if form == "FIELD=VALUE" => Ok(format!("{name}={value}")),
                None => Err(format!("{name} must be text, a number, true or false")),
            })
            .collect(),
        (ArgAction::Append, Value::Array(list)) => list
            .iter()
            .map(|one| scalar(one).ok_or_else(|| "must be a list of strings".to_owned()))
            .collect(),
        (ArgAction::Append, value) => match scalar(value) {
            Some(text) => Ok(vec![text]),
            None if form.contains('=') => Err("must be `name: value` lines or a list".to_owned()),
            None => Err("must be a list of strings".to_owned()),
        },
        (_, Value::String(_) | Value::Number(_)) => Ok(scalar(value).into_iter().collect()),
        _ => Err("must be a text or a number".to_owned()),
    }
}

/// Has clap look at each value, as it would on the command line.
fn valid(command: &Command, called: &str, argument: &Arg, texts: &[String]) -> Result<(), String> {
    let Some(long) = argument.get_long() else {
        return Ok(());
    };
    if matches!(argument.get_action(), ArgAction::SetTrue) {
        return Ok(());
    }
    for text in texts {
        let words = ["astrago", called, &format!("--{long}={text}")];
        let Err(error) = command.clone().try_get_matches_from(words) else {
            continue;
        };
        let source = std::error::Error::source(&error).map(ToString::to_string);
        match (error.kind(), error.get(ContextKind::ValidValue)) {
            (ErrorKind::InvalidValue, Some(ContextValue::Strings(valid))) => {
                return Err(format!("must be {}, not {text:?}", valid.join(" or ")));
            }
            (ErrorKind::InvalidValue, _) => return Err("must not be empty".to_owned()),
            (ErrorKind::ValueValidation, _) => {
                return Err(match source {
                    Some(why) if why.contains(text.as_str()) => why,
                    Some(why) => format!("{text:?} is not possible: {why}"),
                    None => format!("{text:?} is not possible"),
                });
            }
            // Something else that a whole command line would need.
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, FromArgMatches};
    use serde_json::json;

    use super::*;
    use crate::args::{Arguments, Command as Subcommand, Up};

    fn up(settings: &Value, arguments: &[&str]) -> Result<Up> {
        let settings = Settings::parse(Path::new("file"), &settings.to_string())?;
        let command = set(Arguments::command(), "up", &settings)?;
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
        let mut details = failure.details.clone();
        details.sort();
        let want = [
            "file:1: lisen: there is no such field; did you mean listen?",
            "file:1: listen: must be a text or a number",
            "file:1: no-node: must be true or false",
        ];
        assert_eq!(details, want);
        let error = up(&json!({ "listen": "here" }), &[]).unwrap_err();
        let failure = error.downcast_ref::<Failure>().unwrap();
        assert_eq!(
            failure.details,
            ["file:1: listen: \"here\" is not possible: invalid socket address syntax"]
        );
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
