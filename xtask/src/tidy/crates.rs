//! Which crate may use which, and that every crate has the workspace's lints.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// The crates of ours that a crate may depend on. Tests may use `testkit` too.
const ALLOWED: [(&str, &[&str]); 12] = [
    ("astrago-api", &["astrago-patch"]),
    ("astrago-net", &[]),
    ("astrago-mirror", &["astrago-api"]),
    ("astrago-patch", &[]),
    ("astrago-plan", &["astrago-api", "astrago-patch"]),
    ("astrago-apiserver", &["astrago-net", "astrago-patch"]),
    (
        "astrago-controllers",
        &["astrago-api", "astrago-mirror", "astrago-plan"],
    ),
    ("astrago-node", &["astrago-api", "astrago-net"]),
    (
        "astrago-rest",
        &[
            "astrago-api",
            "astrago-mirror",
            "astrago-net",
            "astrago-plan",
        ],
    ),
    (
        "astrago-testkit",
        &[
            "astrago-api",
            "astrago-apiserver",
            "astrago-controllers",
            "astrago-mirror",
            "astrago-node",
            "astrago-patch",
            "astrago-plan",
            "astrago-rest",
        ],
    ),
    (
        "astrago",
        &[
            "astrago-api",
            "astrago-apiserver",
            "astrago-controllers",
            "astrago-mirror",
            "astrago-net",
            "astrago-node",
            "astrago-patch",
            "astrago-plan",
            "astrago-rest",
        ],
    ),
    ("xtask", &["astrago-api", "astrago-rest", "astrago"]),
];

pub(super) fn check(root: &Path, breaches: &mut Vec<String>) -> Result<()> {
    let metadata = metadata(root)?;
    let packages = metadata["packages"].as_array().cloned().unwrap_or_default();
    let ours: BTreeSet<&str> = packages.iter().filter_map(|p| p["name"].as_str()).collect();
    for package in &packages {
        let name = package["name"].as_str().unwrap_or_default();
        let Some((_, allowed)) = ALLOWED.iter().find(|(known, _)| *known == name) else {
            breaches.push(format!(
                "{name}: not in the table of crates in xtask/src/tidy/crates.rs"
            ));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            // A test may lean on anything of ours; what ships may not.
            let used = dependency["name"].as_str().unwrap_or_default();
            if dependency["kind"] != "dev" && ours.contains(used) && !allowed.contains(&used) {
                breaches.push(format!("{name}: must not depend on {used}"));
            }
        }
        let manifest = package["manifest_path"].as_str().unwrap_or_default();
        let text =
            fs::read_to_string(manifest).with_context(|| format!("failed to read {manifest}"))?;
        if !text.contains("[lints]\nworkspace = true") {
            breaches.push(format!(
                "{name}: Cargo.toml lacks `[lints] workspace = true`"
            ));
        }
    }
    Ok(())
}

fn metadata(root: &Path) -> Result<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .current_dir(root)
        .output()
        .context("failed to run cargo metadata")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cargo metadata failed: {errors}");
    serde_json::from_slice(&output.stdout).context("failed to read the answer of cargo metadata")
}
