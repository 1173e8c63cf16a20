//! The commands of every day with each kubectl that lies beside the default one.

use std::path::PathBuf;

use crate::kubectl::{Cluster, config_map, text};

/// `kubectl.1.29` and newer; older ones read OpenAPI v2 only, which this server does not have.
fn others() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let default = std::env::split_paths(&path)
        .map(|directory| directory.join("kubectl"))
        .find(|program| program.exists());
    let Some(default) = default.and_then(|program| program.canonicalize().ok()) else {
        return Vec::new();
    };
    let (Some(directory), Some(_)) = (default.parent(), default.file_name()) else {
        return Vec::new();
    };
    let mut found: Vec<_> = std::fs::read_dir(directory)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|program| {
            let name = program
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or_default();
            let minor = name
                .strip_prefix("kubectl.1.")
                .and_then(|minor| minor.parse::<u32>().ok());
            minor.is_some_and(|minor| minor >= 29)
        })
        .collect();
    found.sort();
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kubectl_at_hand_does_its_daily_work() {
    let Some(cluster) = Cluster::start().await else {
        return;
    };
    let programs = others();
    if programs.is_empty() {
        println!("skipped: there is no other kubectl than the default one");
        return;
    }
    for program in programs {
        let program = program.to_str().expect("a path in UTF-8");
        let run = async |line: &str, input: &str| {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            let output = cluster.program(program, &words, input, "false").await;
            text(&output, &format!("({program}) {line}"))
        };
        let (one, two) = (
            config_map("a", "1").to_string(),
            config_map("a", "2").to_string(),
        );
        assert!(run("apply -f -", &one).await.contains("created"));
        assert!(run("apply -f -", &two).await.contains("configured"));
        assert!(
            run("apply --server-side --force-conflicts -f -", &one)
                .await
                .contains("applied")
        );
        assert!(run("get cm a", "").await.contains("DATA"));
        assert!(
            run("explain pod.spec.containers.env", "")
                .await
                .contains("EnvVar")
        );
        assert_eq!(run("auth can-i get pods", "").await.trim(), "yes");
        assert!(
            run("create configmap typed --from-literal=a=b", "")
                .await
                .contains("created")
        );
        assert!(run("label cm a x=y", "").await.contains("labeled"));
        assert!(run("describe cm a", "").await.contains("Data"));
        assert!(run("delete cm a typed", "").await.contains("deleted"));
    }
}
