//! `astrago doctor`: can this machine run pods, and if not, what is missing?

use std::process::ExitCode;

use anyhow::Result;
use astrago_node::doctor::{self, Finding, Level};
use owo_colors::OwoColorize;

use crate::args::{Connection, Format};
use crate::client::Client;
use crate::output;
use crate::up::data::DataDir;

pub(crate) async fn doctor(connection: &Connection, format: Format) -> Result<ExitCode> {
    let folder = DataDir::locate(connection.data_dir.as_deref())?;
    let mut options = astrago_node::Options::new(folder.join("node"));
    options.egress = true;
    let mut findings = tokio::task::spawn_blocking(move || doctor::check(&options)).await?;
    findings.push(server(connection).await);
    output::print(format, &findings, |_| {
        let rows: Vec<Vec<String>> = findings.iter().map(row).collect();
        output::table(&["", "CHECK", "FOUND"], &rows)
    })?;
    Ok(match doctor::worst(&findings) {
        Level::Ok | Level::Warn => ExitCode::SUCCESS,
        Level::Fail => ExitCode::from(1),
    })
}

fn row(finding: &Finding) -> Vec<String> {
    let mark = match finding.level {
        Level::Ok => "ok".green().to_string(),
        Level::Warn => "warn".yellow().to_string(),
        Level::Fail => "fail".red().to_string(),
    };
    let found = match &finding.fix {
        Some(fix) => format!("{}; {fix}", finding.found),
        None => finding.found.clone(),
    };
    vec![mark, finding.requirement.to_owned(), found]
}

async fn server(connection: &Connection) -> Finding {
    let found = match Client::find(connection).await {
        Ok(Some(server)) => format!("runs at {}", server.base()),
        Ok(None) => "none runs; `astrago up` starts one".to_owned(),
        Err(error) => error.to_string(),
    };
    Finding {
        requirement: "server",
        level: Level::Ok,
        found,
        fix: None,
    }
}
