//! `astrago namespace`, and which namespaces may be worked in.

use anyhow::Result;
use astrago_rest::model::{Namespace, NewNamespace, WhoAmI};

use crate::args::{Connection, Format, NamespaceCommand};
use crate::client::Client;
use crate::exit::Failure;
use crate::output::{self, dash};

pub(crate) async fn namespace(
    connection: &Connection,
    format: Format,
    command: &NamespaceCommand,
) -> Result<()> {
    let client = Client::connect(connection).await?;
    match command {
        NamespaceCommand::List => {
            let current = client.namespace().await?;
            let namespaces = list(&client).await?;
            output::print(format, &namespaces, |_| draw(&namespaces, &current))
        }
        NamespaceCommand::Create { name } => {
            let made = create(&client, name).await?;
            output::print(format, &made, |_| {
                format!(
                    "created namespace {name}; work in it with `-n {name}` or `astrago namespace use {name}`\n"
                )
            })
        }
        NamespaceCommand::Use { name: Some(name) } => {
            let me: WhoAmI = client.get("/api/whoami", &[]).await?;
            must_exist(&client, name, &me).await?;
            client.choose(Some(name))?;
            output::write(&format!("working in namespace {name} from now on\n"))
        }
        NamespaceCommand::Use { name: None } => {
            client.choose(None)?;
            let own = client.own_namespace().await?;
            output::write(&format!("working in namespace {own} from now on\n"))
        }
    }
}

pub(crate) async fn create(client: &Client, name: &str) -> Result<NewNamespace> {
    let wanted = NewNamespace {
        name: name.to_owned(),
    };
    client.post("/api/namespaces", &[], Some(&wanted)).await
}

/// Refuses a namespace that does not exist and is not the caller's own, and names those that do:
/// a slip of the keyboard must not lead anywhere.
pub(crate) async fn must_exist(client: &Client, name: &str, me: &WhoAmI) -> Result<()> {
    if me.namespace.as_deref() == Some(name) {
        return Ok(());
    }
    let names: Vec<String> = list(client).await?.into_iter().map(|it| it.name).collect();
    missing(name, &names).map_or(Ok(()), |failure| Err(failure.into()))
}

async fn list(client: &Client) -> Result<Vec<Namespace>> {
    client.get("/api/namespaces", &[]).await
}

fn missing(name: &str, existing: &[String]) -> Option<Failure> {
    if existing.iter().any(|existing| existing == name) {
        return None;
    }
    let mut failure = Failure::theirs(format!("there is no namespace {name:?}")).hint(format!(
        "create it with --create-namespace, or with `astrago namespace create {name}`"
    ));
    let jobs_run_there = |name: &&str| !name.starts_with("kube-") && !name.ends_with("-system");
    let existing = existing.iter().map(String::as_str).filter(jobs_run_there);
    let existing: Vec<&str> = existing.collect();
    failure.details = vec![format!("there are: {}", existing.join(", "))];
    Some(failure)
}

fn draw(namespaces: &[Namespace], current: &str) -> String {
    let row = |namespace: &Namespace| {
        let mark = if namespace.name == current { "*" } else { "" };
        vec![
            mark.to_owned(),
            namespace.name.clone(),
            dash(namespace.user.clone()),
            namespace.jobs.to_string(),
        ]
    };
    let rows: Vec<Vec<String>> = namespaces.iter().map(row).collect();
    output::table(&["", "NAME", "USER", "JOBS"], &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_answered_with_what_there_is() {
        let existing = ["default", "kube-system", "user-kim"].map(str::to_owned);
        assert!(missing("user-kim", &existing).is_none());
        let failure = missing("user-kmi", &existing).unwrap();
        assert_eq!(failure.code, 1);
        assert_eq!(failure.details, ["there are: default, user-kim"]);
        assert!(failure.hint.unwrap().contains("--create-namespace"));
    }
}
