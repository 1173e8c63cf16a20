//! `astrago doctor`: can this machine run pods, is the data whole, and if not, what is missing?

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use astrago_apiserver::store::{self, Damage};
use astrago_node::doctor::{self, Finding, Level};
use astrago_rest::model::ClusterInfo;
use owo_colors::OwoColorize;

use crate::args::{Connection, Format};
use crate::client::Client;
use crate::output;
use crate::up::data::DataDir;

pub(crate) async fn doctor(connection: &Connection, format: Format) -> Result<ExitCode> {
    let folder = DataDir::locate(connection.data_dir.as_deref())?;
    let mut options = astrago_node::Options::new(folder.join("node"));
    options.egress = true;
    let mut findings = tokio::task::spawn_blocking(move || {
        let mut findings = doctor::check(&options);
        findings.extend(data(&folder));
        findings
    })
    .await?;
    findings.extend(server(connection).await);
    output::print(format, &findings, |_| {
        let rows: Vec<Vec<String>> = findings.iter().map(row).collect();
        output::table(&["", "CHECK", "FOUND"], &rows)
    })?;
    Ok(match doctor::worst(&findings) {
        Level::Ok | Level::Warn => ExitCode::SUCCESS,
        Level::Fail => ExitCode::from(1),
    })
}

/// Whether what the server keeps is as it was written.
fn data(folder: &Path) -> Vec<Finding> {
    const MANY: usize = 10;
    const RESTART: &str = "start `astrago up` again: it sets aside what is damaged and goes on with the rest; what is lost can be taken from a backup";
    let mut findings = Vec::new();
    let finding = |requirement, level, found: String, fix: &str| Finding {
        requirement,
        level,
        found,
        fix: (!fix.is_empty()).then(|| fix.to_owned()),
    };
    let listed = |damage: &[Damage]| {
        let lines: Vec<String> = damage.iter().take(MANY).map(ToString::to_string).collect();
        lines.join("; ")
    };
    match store::check(&folder.join("apiserver")) {
        Ok(None) => return findings,
        Ok(Some(report)) => {
            if !report.set_aside.is_empty() {
                let found = format!("set aside earlier: {}", listed(&report.set_aside));
                findings.push(finding("objects", Level::Warn, found, ""));
            }
            findings.push(if report.damaged.is_empty() {
                let found = format!("{} rows, all intact", report.rows);
                finding("objects", Level::Ok, found, "")
            } else {
                finding("objects", Level::Fail, listed(&report.damaged), RESTART)
            });
        }
        Err(error) => {
            let found = astrago_net::chain(&error);
            findings.push(finding("objects", Level::Warn, found, ""));
        }
    }
    findings.push(match astrago_rest::check_history(&folder.join("history")) {
        None => finding("history", Level::Ok, "intact".to_owned(), ""),
        Some(found) => finding("history", Level::Fail, found, RESTART),
    });
    findings
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

async fn server(connection: &Connection) -> Vec<Finding> {
    let finding = |requirement, level, found: String| Finding {
        requirement,
        level,
        found,
        fix: None,
    };
    let server = match Client::find(connection).await {
        Ok(Some(server)) => server,
        Ok(None) => {
            let found = "none runs; `astrago up` starts one".to_owned();
            return vec![finding("server", Level::Ok, found)];
        }
        Err(error) => return vec![finding("server", Level::Warn, error.to_string())],
    };
    let found = format!("runs at {}", server.base());
    let mut findings = vec![finding("server", Level::Ok, found)];
    match server.get::<ClusterInfo>("/api/cluster", &[]).await {
        Ok(cluster) => {
            let levels = [Level::Warn, Level::Ok];
            let level = levels[usize::from(cluster.connected)];
            findings.push(finding("cluster", level, describe(&cluster)));
        }
        Err(error) => findings.push(finding("cluster", Level::Warn, error.to_string())),
    }
    findings
}

fn describe(cluster: &ClusterInfo) -> String {
    let trainer = match (&cluster.trainer_version, cluster.astrago_controllers) {
        (_, true) => "Astrago's controllers".to_owned(),
        (Some(version), false) => format!("Kubeflow Trainer {version}"),
        (None, false) => "Kubeflow Trainer up to v2.1".to_owned(),
    };
    let mut parts = vec![
        cluster
            .kubernetes_version
            .clone()
            .unwrap_or_else(|| "unknown version".to_owned()),
        trainer,
        cluster.dialect.clone(),
    ];
    let offers = [
        (cluster.training_operator_v1, "v1 jobs"),
        (cluster.kueue, "Kueue"),
        (cluster.volcano, "Volcano"),
        (cluster.metrics, "metrics"),
        (cluster.karpenter, "Karpenter"),
    ];
    let offered = offers.iter().filter(|(there, _)| *there);
    parts.extend(offered.map(|(_, name)| (*name).to_owned()));
    if !cluster.connected {
        parts.push("does not answer".to_owned());
    }
    parts.join(", ")
}
