//! `astrago init`: an `astrago.yaml` beside a script, and the schema by which editors complete and check it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use astrago_plan::{Framework, built_in_runtimes};

use super::run::{Hint, imported_framework};
use crate::args::Init;
use crate::exit::Failure;
use crate::folder::ENTRIES;
use crate::{job_file, output};

/// Beside the file, so that editors find it without a network and in every clone.
const SCHEMA: &str = ".astrago.schema.json";

pub(crate) fn init(wanted: &Init) -> Result<()> {
    let (folder, entry) = place(wanted.path.as_deref())?;
    let script = folder.join(&entry);
    let code = fs::read(&script).with_context(|| Failure::unreadable(&script))?;
    let text = text(&entry, &String::from_utf8_lossy(&code))?;
    let schema = include_str!("../../../../docs/astrago.schema.json");
    let files = [
        (folder.join(SCHEMA), schema),
        (folder.join(job_file::NAME), &text),
    ];
    for (path, text) in &files {
        // Its own words again are no loss; whatever else lies there is not written through or over.
        let there = path.symlink_metadata().is_ok();
        if there && !wanted.force && fs::read(path).ok().as_deref() != Some(text.as_bytes()) {
            let failure = Failure::theirs(format!("{} exists already", path.display()));
            return Err(failure.hint("overwrite it with --force").into());
        }
    }
    for (path, text) in &files {
        fs::write(path, text).with_context(|| format!("failed to write {}", path.display()))?;
    }
    let run = match folder.to_str() {
        Some(".") => "astrago run".to_owned(),
        _ => format!("astrago run {}", folder.display()),
    };
    let path = files[1].0.display();
    output::write(&format!("wrote {path}; start it with `{run}`\n"))
}

/// The folder that is run, and the script of it: this folder where the script lies in it, otherwise the script's own.
fn place(path: Option<&Path>) -> Result<(PathBuf, String)> {
    let path = path.unwrap_or_else(|| Path::new("."));
    if path.is_dir() {
        let usual = ENTRIES.into_iter().find(|entry| path.join(entry).is_file());
        let usual = usual.ok_or_else(|| {
            let (names, folder) = (ENTRIES.join(" or "), path.display());
            Failure::theirs(format!("there is no {names} in {folder}"))
                .hint("name the script: `astrago init SCRIPT`")
        })?;
        return Ok((path.to_owned(), usual.to_owned()));
    }
    let failed = || Failure::theirs(format!("failed to read {}", path.display()));
    let real = path
        .canonicalize()
        .map_err(|error| anyhow::Error::from(error).context(failed()))?;
    let here = Path::new(".")
        .canonicalize()
        .context("this folder is gone")?;
    let (folder, entry) = match (real.strip_prefix(here), real.parent(), real.file_name()) {
        (Ok(inside), ..) => (PathBuf::from("."), inside.to_owned()),
        (Err(_), Some(parent), Some(name)) => (parent.to_owned(), PathBuf::from(name)),
        _ => return Err(failed().into()),
    };
    let entry = entry
        .to_str()
        .ok_or_else(|| Failure::theirs(format!("the name of {} is not UTF-8", path.display())))?;
    Ok((folder, entry.to_owned()))
}

const HEAD: &str = "\
# yaml-language-server: $schema=./.astrago.schema.json
# How `astrago run` trains what is in this folder. The fields are the flags of `astrago run --help`; a flag that is given wins.
";

const MORE: &str = "\
# nproc-per-node: 2
# gpus: 1
# cpu: 4
# memory: 16Gi
# max-restarts: 3
# checkpoint: true
# deadline: 12h
# env:
#   EPOCHS: 10
# arguments: [--lr, 0.01]
";

fn text(entry: &str, code: &str) -> Result<String> {
    let frameworks: Vec<Framework> = built_in_runtimes().iter().map(Framework::of).collect();
    let framework = imported_framework(code, frameworks.iter().map(Hint::from));
    let fields = [("entry", Some(entry)), ("framework", framework)];
    let fields = fields
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)));
    let fields = serde_saphyr::to_string(&fields.collect::<BTreeMap<_, _>>())?;
    Ok(format!("{HEAD}{}\nnodes: 1\n{MORE}", fields.trim_end()))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::args::Arguments;
    use crate::config::{self, Settings};

    fn init_in(folder: &Path, force: bool) -> Result<String> {
        let path = Some(folder.to_owned());
        init(&Init { path, force })?;
        Ok(fs::read_to_string(folder.join(job_file::NAME))?)
    }

    #[test]
    fn what_is_written_is_read_with_its_examples_too() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("main.py"), "import jax\n").unwrap();
        let text = init_in(folder.path(), false).unwrap();
        assert!(
            text.contains("\nentry: main.py\nframework: jax\nnodes: 1\n"),
            "{text}"
        );
        let all = text.replace("\n# ", "\n").replacen("\nHow ", "\n# How ", 1);
        let path = folder.path().join("all.yaml");
        fs::write(&path, &all).unwrap();
        config::set(Arguments::command(), "run", &Settings::read(&path).unwrap()).unwrap();
    }

    #[test]
    fn nothing_is_written_over_unless_asked() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("train.py"), "print()\n").unwrap();
        let first = init_in(folder.path(), false).unwrap();
        assert!(!first.contains("framework"), "{first}");
        assert_eq!(init_in(folder.path(), false).unwrap(), first);
        let file = folder.path().join(job_file::NAME);
        fs::write(&file, "nodes: 7\n").unwrap();
        let error = init_in(folder.path(), false).unwrap_err();
        assert!(
            error.to_string().contains("astrago.yaml exists already"),
            "{error}"
        );
        assert_eq!(fs::read_to_string(&file).unwrap(), "nodes: 7\n");
        assert_eq!(init_in(folder.path(), true).unwrap(), first);
    }

    #[test]
    fn a_folder_without_a_script_is_an_answer() {
        let folder = tempfile::tempdir().unwrap();
        let error = init_in(folder.path(), false).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("there is no train.py or main.py in"),
            "{error}"
        );
        let path = Some(folder.path().join("nosuch.py"));
        assert!(init(&Init { path, force: true }).is_err());
    }
}
