//! `astrago delete`.

use std::io::IsTerminal;

use anyhow::Result;
use astrago_rest::model::{Deleted, JobList};

use crate::args::{Connection, Delete, Format};
use crate::client::{Client, escape};
use crate::exit::{self, Failure};
use crate::output;

/// How many jobs are asked for at once.
const PAGE: usize = 1000;

pub(crate) async fn delete(
    connection: &Connection,
    format: Format,
    arguments: &Delete,
) -> Result<()> {
    let client = Client::connect(connection).await?;
    let namespace = client.namespace().await?;
    let many = arguments.all || arguments.selector.is_some();
    let names = if many {
        all(&client, &namespace, arguments).await?
    } else {
        arguments.names.clone()
    };
    if names.is_empty() {
        return output::write(&format!(
            "there is nothing to delete in namespace {namespace}\n"
        ));
    }
    if !arguments.yes && (names.len() > 1 || many) {
        confirm(&names, &namespace)?;
    }
    let query = [("namespace", namespace.clone())];
    let mut gone = Vec::new();
    let mut failed = None;
    for name in &names {
        let address = format!("/api/trainjob/{}", escape(name));
        match client.delete::<Deleted>(&address, &query).await {
            Ok(deleted) => gone.push(deleted),
            // The others are to go all the same.
            Err(error) => {
                if let Some(earlier) = failed.replace(error) {
                    exit::report(&earlier);
                }
            }
        }
    }
    let text = |_| {
        let line = |it: &Deleted| {
            format!(
                "deleted {} in namespace {}\n",
                it.trainjob_name, it.namespace
            )
        };
        gone.iter().map(line).collect()
    };
    match gone.as_slice() {
        [one] if names.len() == 1 => output::print(format, one, text)?,
        gone => output::print(format, &gone, text)?,
    }
    failed.map_or(Ok(()), Err)
}

async fn all(client: &Client, namespace: &str, wanted: &Delete) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for page in 0.. {
        let mut query = vec![
            ("namespace", namespace.to_owned()),
            ("limit", PAGE.to_string()),
            ("page", page.to_string()),
        ];
        query.extend(wanted.state.clone().map(|state| ("state", state)));
        query.extend(wanted.selector.clone().map(|labels| ("labels", labels)));
        let jobs: JobList = client.get("/api/trainjobs", &query).await?;
        names.extend(jobs.items.into_iter().map(|job| job.name));
        if jobs.next_page.is_none() {
            break;
        }
    }
    Ok(names)
}

/// Asks whether that many jobs should go; where nobody can be asked, they stay.
fn confirm(names: &[String], namespace: &str) -> Result<()> {
    let shown = names[..names.len().min(10)].join(", ");
    let more = names.len().saturating_sub(10);
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    let count = match names.len() {
        1 => "1 job".to_owned(),
        count => format!("{count} jobs"),
    };
    let what = format!("{count} in namespace {namespace}: {shown}{more}");
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Err(Failure::theirs(format!("this would delete {what}"))
            .hint("add --yes to delete them")
            .into());
    }
    output::say(&format!("delete {what}? [y/N] "));
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    if matches!(answer.trim(), "y" | "Y" | "yes") {
        return Ok(());
    }
    Err(Failure::theirs("nothing was deleted").into())
}
