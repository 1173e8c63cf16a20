//! `astrago apply`: objects from a file, through the Kubernetes API of the server.

use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::args::{Apply, Connection};
use crate::client::Client;
use crate::exit::Failure;
use crate::output;

pub(crate) async fn apply(connection: &Connection, arguments: &Apply) -> Result<()> {
    let text = read(&arguments.file)?;
    let objects = documents(&text).map_err(|error| {
        error.context(Failure::theirs(format!(
            "failed to understand {}",
            arguments.file.display()
        )))
    })?;
    if objects.is_empty() {
        return Err(
            Failure::theirs(format!("{} holds no objects", arguments.file.display())).into(),
        );
    }
    let client = Client::connect(connection).await?;
    let namespace = client.namespace().await?;
    for object in &objects {
        let query = [("namespace", namespace.clone())];
        let done: Value = client.post("/api/apply", &query, Some(object)).await?;
        let text = |key: &str| {
            done.get(key)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        output::write(&format!(
            "{}/{} {}\n",
            text("kind").to_lowercase(),
            text("name"),
            text("result")
        ))?;
    }
    Ok(())
}

fn read(path: &Path) -> Result<String> {
    if path == Path::new("-") {
        let mut text = String::new();
        std::io::stdin()
            .read_to_string(&mut text)
            .context("failed to read standard input")?;
        return Ok(text);
    }
    std::fs::read_to_string(path).with_context(|| Failure::unreadable(path))
}

/// The objects of a stream of YAML documents; lists are taken apart.
fn documents(text: &str) -> Result<Vec<Value>> {
    let mut objects = Vec::new();
    let documents: Vec<Value> = astrago_plan::yaml::all_from_str(text)?;
    for document in documents {
        match document.get("items").and_then(Value::as_array) {
            Some(items) => objects.extend(items.iter().cloned()),
            None if document.is_null() => {}
            None => objects.push(document),
        }
    }
    Ok(objects)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_and_lists_are_taken_apart() {
        let text = "kind: A\n---\n---\nkind: List\nitems:\n- kind: B\n- kind: C\n";
        let kinds: Vec<String> = documents(text)
            .unwrap()
            .iter()
            .map(|object| object["kind"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(kinds, ["A", "B", "C"]);
    }
}
