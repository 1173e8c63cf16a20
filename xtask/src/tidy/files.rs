//! Rules on single files.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The most lines that a hand-written Rust file may have.
const MOST_LINES: usize = 800;
/// The one place that pauses between two looks at a condition.
const WAITING: &str = "crates/testkit/src/eventually.rs";
/// The threat model: each of its promises names its test.
const PROMISES: &str = "docs/security.md";
/// The sources, those of them that may all the same, words that would give it away, and the rule in short.
type Absence = (Names, Names, Names, &'static str);
type Names = &'static [&'static str];
/// What ARCHITECTURE.md says is absent.
const ABSENT: [Absence; 10] = [
    (
        &["apiserver/src/"],
        &["status.rs"],
        &["StatusCode"],
        "status codes stand in one file of the crate",
    ),
    (
        &["rest/src/"],
        &["error.rs"],
        &["StatusCode"],
        "status codes stand in one file of the crate",
    ),
    (
        &["api/src/", "patch/src/", "plan/src/"],
        &[],
        &["async fn", "tokio::", "std::fs", "std::net", "SystemTime"],
        "this crate does no I/O",
    ),
    (
        &["plan/src/"],
        &[],
        &["::now()", "rand::"],
        "a plan depends on its input only",
    ),
    (
        &["mirror/src/"],
        &[],
        &["PostParams", "PatchParams", "DeleteParams"],
        "a mirror only reads",
    ),
    (
        &["apiserver/src/"],
        &["store"],
        &["rusqlite"],
        "only the store speaks SQL",
    ),
    (
        &["rest/src/"],
        &["history"],
        &["rusqlite"],
        "only the history speaks SQL",
    ),
    (
        &["apiserver/src/", "patch/src/"],
        &[],
        &["TrainJob", "trainjobs", "kubeflow.org", "jobset.x-k8s.io"],
        "kinds of ours come as definitions",
    ),
    (
        &["rest/src/app"],
        &[],
        &["axum"],
        "what the product does knows no web framework",
    ),
    (
        &["node/src/"],
        &["sys"],
        &["expect(unsafe_code", "allow(unsafe_code", "unsafe {"],
        "only node::sys has unsafe code",
    ),
];
/// How sleeping looks; written so that this file does not break its own rule.
const SLEEPS: [&str; 2] = [concat!("thread::", "sleep("), concat!("time::", "sleep(")];

pub(super) fn check(root: &Path, breaches: &mut Vec<String>) -> Result<()> {
    let mut files = Vec::new();
    for folder in ["crates", "xtask"] {
        collect(&root.join(folder), &mut files)?;
    }
    files.sort();
    let mut promised = promised_tests(root)?;
    for file in files {
        let text = fs::read_to_string(&file)
            .with_context(|| format!("failed to read {}", file.display()))?;
        let name = file
            .strip_prefix(root)
            .unwrap_or(&file)
            .display()
            .to_string();
        check_file(&name, &text, breaches);
        promised.retain(|test| !text.contains(&format!("fn {test}(")));
    }
    for test in promised {
        breaches.push(format!(
            "{PROMISES}: names the test {test}, which does not exist"
        ));
    }
    check_version(root, breaches)?;
    check_documents(root, breaches)
}

/// There is one version, the workspace's.
fn check_version(root: &Path, breaches: &mut Vec<String>) -> Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    for (name, want) in [
        ("CHANGELOG.md", format!("## {version}\n")),
        ("ui/package.json", format!("\"version\": \"{version}\"")),
        (
            "deploy/helm/astrago/Chart.yaml",
            format!("appVersion: {version}\n"),
        ),
        ("deploy/README.md", format!("astrago:{version} ")),
        ("docs/install.md", format!("astrago_{version}_amd64.deb")),
    ] {
        let text = fs::read_to_string(root.join(name))
            .with_context(|| format!("failed to read {name}"))?;
        if !text.contains(&want) {
            breaches.push(format!("{name}: does not name the version {version}"));
        }
    }
    Ok(())
}

fn check_file(name: &str, text: &str, breaches: &mut Vec<String>) {
    let lines = text.lines().count();
    if lines > MOST_LINES {
        breaches.push(format!(
            "{name}: {lines} lines, more than {MOST_LINES}; split it"
        ));
    }
    if name.ends_with("/mod.rs") {
        breaches.push(format!("{name}: write foo.rs beside foo/, not mod.rs"));
    }
    check_absent(name, text, breaches);
    for (number, line) in (1..).zip(test_lines(name, text)) {
        if name != WAITING
            && line.is_some_and(|line| SLEEPS.iter().any(|sleep| line.contains(sleep)))
        {
            breaches.push(format!(
                "{name}:{number}: a test waits for conditions, it does not sleep"
            ));
        }
        if line.is_some_and(|line| line.trim_start().starts_with("#[ignore")) {
            breaches.push(format!(
                "{name}:{number}: a test that is ignored tests nothing"
            ));
        }
    }
}

/// What the architecture says is absent from these sources, outside comments and tests.
fn check_absent(name: &str, text: &str, breaches: &mut Vec<String>) {
    for (folders, exceptions, words, rule) in ABSENT {
        let inside = folders
            .iter()
            .find_map(|folder| name.strip_prefix("crates/")?.strip_prefix(folder));
        let Some(inside) = inside else { continue };
        if exceptions.iter().any(|known| inside.starts_with(known)) {
            continue;
        }
        let lines = (1..).zip(text.lines().zip(test_lines(name, text)));
        for (number, (line, in_tests)) in lines {
            let is_code = in_tests.is_none() && !line.trim_start().starts_with("//");
            if is_code && words.iter().any(|word| line.contains(word)) {
                breaches.push(format!("{name}:{number}: {rule}"));
            }
        }
    }
}

/// The lines of a file, as far as they are tests.
fn test_lines<'a>(name: &str, text: &'a str) -> impl Iterator<Item = Option<&'a str>> {
    let mut in_tests =
        name.contains("/tests/") || name.ends_with("tests.rs") || name.contains("/testkit/");
    text.lines().map(move |line| {
        in_tests |= line.starts_with("#[cfg(test)]");
        in_tests.then_some(line)
    })
}

/// The tests that the threat model says hold its boundaries.
fn promised_tests(root: &Path) -> Result<Vec<String>> {
    let text = fs::read_to_string(root.join(PROMISES))
        .with_context(|| format!("failed to read {PROMISES}"))?;
    let is_test = |word: &&str| {
        word.contains('_') && word.chars().all(|c| c.is_ascii_lowercase() || c == '_')
    };
    Ok(text
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(is_test)
        .map(str::to_owned)
        .collect())
}

/// Documents and folders that ARCHITECTURE.md mentions must exist.
fn check_documents(root: &Path, breaches: &mut Vec<String>) -> Result<()> {
    let name = "ARCHITECTURE.md";
    let text =
        fs::read_to_string(root.join(name)).with_context(|| format!("failed to read {name}"))?;
    for mentioned in text.split(['`', '(', ')', ' ', '\n']) {
        let extension = Path::new(mentioned)
            .extension()
            .and_then(|extension| extension.to_str());
        let is_document = mentioned.starts_with("docs/") && extension == Some("md");
        let is_source = mentioned.starts_with("crates/") && extension == Some("rs");
        if (is_document || is_source) && !root.join(mentioned).exists() {
            breaches.push(format!(
                "{name}: mentions {mentioned}, which does not exist"
            ));
        }
    }
    Ok(())
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("failed to list {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            if path
                .file_name()
                .is_none_or(|name| name != "target" && name != "node_modules")
            {
                collect(&path, files)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}
