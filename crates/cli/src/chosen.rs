//! The namespace that somebody chose to work in, kept per server in their configuration folder.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::exit::Failure;

/// The namespace that was chosen for a server; nothing where none was, or where nothing can be read.
pub(crate) fn read(server: &str) -> Option<String> {
    all(&file()?).ok()?.remove(server)
}

/// Remembers a choice, or forgets it.
pub(crate) fn write(server: &str, namespace: Option<&str>) -> Result<()> {
    let path = file().ok_or_else(|| {
        Failure::theirs("there is no home folder to remember the choice in")
            .hint("set ASTRAGO_NAMESPACE instead")
    })?;
    let mut chosen = all(&path)?;
    match namespace {
        Some(namespace) => _ = chosen.insert(server.to_owned(), namespace.to_owned()),
        None => _ = chosen.remove(server),
    }
    let failed = || format!("failed to write {}", path.display());
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).with_context(failed)?;
    }
    // Readers see the old content or the new.
    let draft = path.with_extension(std::process::id().to_string());
    std::fs::write(&draft, serde_json::to_vec_pretty(&chosen)?).with_context(failed)?;
    std::fs::rename(&draft, &path).with_context(failed)
}

fn all(path: &PathBuf) -> Result<BTreeMap<String, String>> {
    let failed = || {
        Failure::theirs(format!("failed to read {}", path.display()))
            .hint("remove it; it only holds the namespaces that you chose")
    };
    match std::fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).with_context(failed),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(BTreeMap::new()),
        Err(error) => Err(error).with_context(failed),
    }
}

fn file() -> Option<PathBuf> {
    let variable = |name: &str| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let base = variable("XDG_CONFIG_HOME").or_else(|| Some(variable("HOME")?.join(".config")))?;
    Some(base.join("astrago/namespaces.json"))
}
