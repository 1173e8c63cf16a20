//! What a pod that runs costs beside its own program.

use super::server::Server;
use crate::{Result, tell};

const PODS: usize = 20;

pub(crate) async fn measure() -> Result {
    let server = Server::start().await?;
    let mut job = crate::nothing("default");
    job["command"] = "sleep 600".into();
    for _ in 0..PODS {
        server.submit(&job).await?;
    }
    server.settle().await?;
    let mut supervisors = supervisors(&server)?;
    if supervisors.is_empty() {
        return Err("there are no supervisors".into());
    }
    println!("{} pods that sleep", supervisors.len());
    for (what, field) in [("private", 0), ("share of what is shared, and private", 1)] {
        supervisors.sort_by(|one, other| one[field].total_cmp(&other[field]));
        tell(
            &format!("  supervisor, {what}"),
            supervisors[supervisors.len() / 2][field],
            "KiB",
        );
    }
    Ok(())
}

/// Private and proportional memory of each supervisor of this server.
fn supervisors(server: &Server) -> Result<Vec<[f64; 2]>> {
    let folder = server.folder().to_string_lossy().into_owned();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let process = entry.path();
        let words = std::fs::read(process.join("cmdline")).unwrap_or_default();
        let words = String::from_utf8_lossy(&words).into_owned();
        if !(words.contains("supervise\0") && words.contains(&folder) && words.contains("/pods/")) {
            continue;
        }
        let Ok(text) = std::fs::read_to_string(process.join("smaps_rollup")) else {
            continue;
        };
        let sum = |names: &[&str]| -> f64 {
            let lines = text
                .lines()
                .filter(|line| names.iter().any(|name| line.starts_with(name)));
            lines
                .filter_map(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok())
                .sum()
        };
        found.push([sum(&["Private_Clean:", "Private_Dirty:"]), sum(&["Pss:"])]);
    }
    Ok(found)
}
