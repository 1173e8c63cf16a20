//! `astrago.yaml`: how a folder of code is trained, beside the code. It says what the flags of `astrago run` say,
//! under their names; a flag that is given wins.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{CommandFactory, FromArgMatches};

use crate::args::{Arguments, Command, Run};
use crate::config::{self, Settings};
use crate::exit::Usage;

pub(crate) const NAME: &str = "astrago.yaml";

/// What was asked for, with what the folder's file says in the place of flags that were not given.
pub(crate) fn apply(asked: Arguments, raw: &[OsString]) -> Result<Arguments> {
    let Command::Run(run) = &asked.command else {
        return Ok(asked);
    };
    match beside(run) {
        Some(path) => merge(raw, &Settings::read(&path)?),
        None => Ok(asked),
    }
}

/// The file that counts: of a folder that is run, not of a single script or of what git brings.
fn beside(run: &Run) -> Option<PathBuf> {
    let folder = run.path.as_deref().unwrap_or_else(|| Path::new("."));
    let path = folder.join(NAME);
    (run.git.is_none() && path.is_file()).then_some(path)
}

fn merge(raw: &[OsString], settings: &Settings) -> Result<Arguments> {
    let command = config::set(Arguments::command(), "run", settings)?;
    let parse = |words: &[OsString]| {
        let read = command.clone().try_get_matches_from(words);
        let read = read.and_then(|matches| Arguments::from_arg_matches(&matches));
        read.map_err(|error| anyhow::Error::from(Usage(error)))
    };
    let mut asked = parse(raw)?;
    let file = parse(&["astrago".into(), "run".into()])?;
    if let (Command::Run(run), Command::Run(file)) = (&mut asked.command, file.command) {
        // Of what has names, each counts for itself.
        run.env = together(file.env, std::mem::take(&mut run.env), |it| &it.name);
        run.set = together(file.set, std::mem::take(&mut run.set), |it| &it.0);
    }
    Ok(asked)
}

fn together<T>(mut file: Vec<T>, flags: Vec<T>, name: impl Fn(&T) -> &String) -> Vec<T> {
    file.retain(|it| !flags.iter().any(|flag| name(flag) == name(it)));
    file.extend(flags);
    file
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Failure;

    fn merged(text: &str, flags: &[&str]) -> Result<(Option<String>, Run)> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join(NAME);
        std::fs::write(&path, text)?;
        let raw = ["astrago", "run"].iter().chain(flags);
        let raw: Vec<OsString> = raw.map(OsString::from).collect();
        let asked = merge(&raw, &Settings::read(&path)?)?;
        match asked.command {
            Command::Run(run) => Ok((asked.connection.namespace, run)),
            other => anyhow::bail!("{other:?}"),
        }
    }

    const FILE: &str = "
namespace: team
entry: tools/train.py
nodes: 2
memory: 2Gi
deadline: 90m
checkpoint: true
priority: -5
volumes: [data:/data:ro]
arguments: [--lr, 0.01, two words]
env:
  EPOCHS: 12
  DEBUG: true
set:
  node_selector: {zone: a}
";

    #[test]
    fn the_file_stands_for_flags_and_flags_win() {
        let (namespace, run) = merged(FILE, &[]).unwrap();
        assert_eq!(namespace.as_deref(), Some("team"));
        let env = |run: &Run| {
            let pairs = run.env.iter().map(|it| format!("{}={}", it.name, it.value));
            pairs.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            (run.nodes, run.deadline, run.checkpoint),
            (2, Some(5_400), true)
        );
        assert_eq!((run.priority, run.volumes.len()), (Some(-5), 1));
        assert_eq!(run.arguments, ["--lr", "0.01", "two words"]);
        assert_eq!(env(&run), "DEBUG=true EPOCHS=12");
        assert_eq!(
            run.set,
            [("node_selector".to_owned(), r#"{"zone":"a"}"#.to_owned())]
        );

        let flags = [
            "-n", "mine", "--nodes", "3", "-e", "EPOCHS=1", "--", "--quick",
        ];
        let (namespace, run) = merged(FILE, &flags).unwrap();
        assert_eq!((namespace.as_deref(), run.nodes), (Some("mine"), 3));
        assert_eq!(
            (run.memory.as_deref(), run.arguments),
            (Some("2Gi"), vec!["--quick".to_owned()])
        );
        let (_, run) = merged(FILE, &flags).unwrap();
        assert_eq!(env(&run), "DEBUG=true EPOCHS=1");
    }

    #[test]
    fn nothing_or_comments_alone_change_nothing() {
        for text in ["", "# nodes: 2\n"] {
            let (namespace, run) = merged(text, &[]).unwrap();
            assert_eq!(
                (namespace, run.nodes, run.checkpoint),
                (None, 1, false),
                "{text:?}"
            );
        }
    }

    #[test]
    fn mistakes_are_named_all_at_once_with_their_lines() {
        let text = "nodes: two\nmax_restarts: 3\nserver: http://evil\ntoken: x\ngit: x\nretry: never\n\
                    env:\n  A: [1]\nvolume: data:/data\nvolumes: [a:b]\ncheckpoint: 1\ncpu: {a: 1}\ndeadline: soon\n";
        let error = merged(text, &[]).unwrap_err();
        let failure = error.downcast_ref::<Failure>().unwrap();
        let details = failure.details.iter();
        let details: Vec<&str> = details
            .filter_map(|it| it.split_once(".yaml:"))
            .map(|it| it.1)
            .collect();
        insta::assert_snapshot!(details.join("\n"), @r#"
        1: nodes: "two" is not possible: invalid digit found in string
        2: max_restarts: there is no such field; did you mean max-restarts?
        3: server: there is no such field
        4: token: there is no such field
        5: git: there is no such field
        6: retry: must be transient or all, not "never"
        8: env: A must be text, a number, true or false
        10: volumes: another field sets the same; keep one of them
        11: checkpoint: must be true or false
        12: cpu: must be a text or a number
        13: deadline: "soon" must be a time such as 90m, 12h or 3600
        "#);
        assert_eq!(failure.code, 1);
        for text in ["[1]", "a: b: c", "a: 1\n---\nb: 2"] {
            let error = merged(text, &[]).unwrap_err().to_string();
            assert!(
                error.contains("astrago.yaml cannot be understood"),
                "{error}"
            );
        }
    }
}
