//! `astrago version`.

use anyhow::Result;
use serde_json::{Value, json};

use crate::args::{Connection, Format};
use crate::client::Client;
use crate::output;

pub(crate) async fn version(connection: &Connection, format: Format) -> Result<()> {
    let client = env!("CARGO_PKG_VERSION");
    let server = match Client::find(connection).await {
        Ok(Some(server)) => server.get::<Value>("/api/version", &[]).await.ok(),
        Ok(None) | Err(_) => None,
    };
    let server = server.and_then(|answer| Some(answer.get("version")?.as_str()?.to_owned()));
    let value = json!({ "client": client, "server": server });
    output::print(format, &value, |_| match &server {
        Some(server) => format!("astrago {client} (server {server})\n"),
        None => format!("astrago {client} (no server reached)\n"),
    })
}
