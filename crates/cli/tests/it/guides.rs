//! Every command of the README and the guides, as it stands there, in the order in which it stands there.
//!
//! A block that needs something that its reader has is given it, by a comment before it: `<!-- given: touch train.py -->`.
//! One that cannot be run here says what it lacks: `<!-- needs: a cluster -->`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::harness::cluster::REPOSITORY;
use crate::harness::target::Target;
use crate::harness::{astrago, can_run_pods, has_kubectl, needed, python};

/// Starts a server on the ports that the guides name, in a network of its own where nobody else has them, and runs the
/// scripts. Jobs that a guide leaves behind must end well, and are taken away before the next begins.
const WALK: &str = r#"
set -eu
ip link set lo up
: >up.out
astrago up --python "$ASTRAGO_TEST_PYTHON" --capacity cpu=4,memory=16Gi --stop-pods >up.out 2>up.err &
server=$!
trap 'kill $server; wait $server' EXIT
timeout 60 tail -f --pid=$server up.out | grep -q -m 1 ^ready
for script in scripts/*; do
  bash -eu -o pipefail "$script"
  jobs=$(kubectl get trainjobs -A -o name)
  [ -z "$jobs" ] || kubectl wait trainjobs --all -A --for=condition=Complete --timeout=300s
  kubectl delete trainjobs --all -A --cascade=foreground
  kubectl delete configmaps --all
done
"#;

#[test]
fn every_command_of_the_guides_works_as_it_stands_there() {
    let target = Target::chosen();
    let Some(python) = python().filter(|_| can_run_pods() && has_kubectl()) else {
        return;
    };
    if target.kubernetes || target.kubeflow.is_some() {
        println!("does not apply to this target: the guides are about `astrago up`");
        return;
    }
    let jq = Command::new("jq").arg("--version").output().ok();
    let Some(_) = needed(jq, "jq") else { return };

    let folder = tempfile::tempdir().unwrap();
    let at = |path: &str| folder.path().join(path);
    for path in ["bin", "home", "scripts", "target/release"] {
        std::fs::create_dir_all(at(path)).unwrap();
    }
    for path in ["runtimes", "examples"] {
        symlink(Path::new(REPOSITORY).join(path), at(path)).unwrap();
    }
    for path in ["bin/astrago", "target/release/astrago"] {
        symlink(env!("CARGO_BIN_EXE_astrago"), at(path)).unwrap();
    }
    let mut all = 0;
    for (number, guide) in guides().iter().enumerate() {
        let script = script(guide);
        all += script.matches("echo '###").count();
        std::fs::write(at(&format!("scripts/{number:02}")), script).unwrap();
    }
    assert!(all >= 35, "only {all} blocks were found");

    let log = at("log");
    let file = std::fs::File::create(&log).unwrap();
    let path = std::env::var("PATH").unwrap();
    let status = Command::new("unshare")
        .args(["--net", "bash", "-c", WALK])
        .current_dir(folder.path())
        .env_clear()
        .env("PATH", format!("{}:{path}", at("bin").display()))
        .env("HOME", at("home"))
        .env("KUBECONFIG", at("home/.local/share/astrago/kubeconfig"))
        .env("ASTRAGO_TEST_PYTHON", python)
        .env("ASTRAGO_EGRESS", "off")
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .stdout(file.try_clone().unwrap())
        .stderr(file)
        .status()
        .unwrap();
    let said = std::fs::read_to_string(&log).unwrap();
    let lines: Vec<&str> = said.lines().collect();
    let end = lines[lines.len().saturating_sub(60)..].join("\n");
    let server = std::fs::read_to_string(at("up.err")).unwrap_or_default();
    assert!(status.success(), "{end}\n\nthe server:\n{server}");
}

/// Also of those that only a sentence names, and of those that nobody runs here.
#[test]
fn every_command_and_flag_that_a_document_names_is_there() {
    let mut helps: BTreeMap<String, String> = BTreeMap::new();
    let mut help = |words: &[&str]| {
        let said = helps.entry(words.join(" ")).or_insert_with(|| {
            let output = astrago().args(words).arg("--help").output().unwrap();
            assert!(
                output.status.success(),
                "there is no `astrago {}`",
                words.join(" ")
            );
            String::from_utf8(output.stdout).unwrap()
        });
        said.clone()
    };
    let mut checked = 0;
    for document in documents() {
        let text = std::fs::read_to_string(&document).unwrap();
        let lines = text.lines().map(str::trim_start);
        let lines = lines.filter(|line| line.starts_with("astrago ") && !line.contains('`'));
        let named = text.split('`').filter(|part| part.starts_with("astrago "));
        for command in lines.chain(named) {
            let words = command.split_whitespace().skip(1);
            let words: Vec<&str> = words
                .take_while(|word| !matches!(*word, "--" | "|" | "#" | "&&"))
                .collect();
            let is_name = |word: &&&str| word.starts_with(|c: char| c.is_ascii_lowercase());
            let Some(first) = words.first().filter(is_name) else {
                continue;
            };
            let mut said = help(&[first]);
            if let Some(second) = words.get(1).filter(|_| said.contains("\nCommands:\n")) {
                said = help(&[first, second]);
            }
            for flag in words.iter().filter(|word| word.starts_with("--")) {
                let flag = flag.split(['=', ',', ')']).next().unwrap();
                let there = said.split(|c: char| c.is_whitespace() || "[],=".contains(c));
                let place = document.display();
                assert!(
                    there.clone().any(|word| word == flag),
                    "{place}: {command}: {flag}"
                );
                checked += 1;
            }
        }
    }
    assert!(checked >= 30, "only {checked} flags were found");
}

/// What users read: the README in its languages, and all below `docs`.
fn documents() -> Vec<PathBuf> {
    let root = Path::new(REPOSITORY);
    let mut found: Vec<PathBuf> = ["README.md", "README.ko.md"]
        .map(|name| root.join(name))
        .into();
    let mut folders = vec![root.join("docs"), root.join("examples")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "md") {
                found.push(path);
            }
        }
    }
    found
}

/// Files that `kubectl apply` can take have the code within them, and it must not grow old there.
#[test]
fn the_code_in_the_config_maps_is_the_code_of_the_runtimes() {
    for (framework, runtime) in [
        ("pytorch", "pytorch-simple"),
        ("tensorflow", "tensorflow-distributed"),
    ] {
        let read =
            |path: String| std::fs::read_to_string(Path::new(REPOSITORY).join(path)).unwrap();
        let file = format!("{framework}/{framework}-train-script-configmap.yaml");
        let map = read(format!("examples/with-kubectl/{file}"));
        let map: serde_json::Value = serde_saphyr::from_str(&map).unwrap();
        assert_eq!(
            map["data"]["train.py"],
            read(format!("runtimes/{runtime}/train.py"))
        );
    }
}

/// The commands of the Korean README are those of the English one.
#[test]
fn both_readmes_have_the_same_commands() {
    let commands = |name: &str| -> Vec<String> {
        let blocks = blocks(&Path::new(REPOSITORY).join(name));
        let lines = blocks.into_iter().flat_map(|(_, block)| block);
        lines
            .map(|line| line.split(" #").next().unwrap().trim_end().to_owned())
            .collect()
    };
    assert_eq!(commands("README.md"), commands("README.ko.md"));
}

fn guides() -> Vec<PathBuf> {
    let folder = Path::new(REPOSITORY).join("docs/guides");
    let entries = std::fs::read_dir(folder).unwrap();
    let mut guides: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    guides.sort();
    guides.insert(0, Path::new(REPOSITORY).join("README.md"));
    guides.push(Path::new(REPOSITORY).join("examples/with-kubectl/README.md"));
    guides
}

/// The blocks of a file one after the other: what one of them sets, the next one finds.
fn script(guide: &Path) -> String {
    let mut script = String::new();
    for (line, block) in blocks(guide) {
        let name = guide.file_name().unwrap().display();
        writeln!(script, "echo '### {name}:{line}'\n{}", block.join("\n")).unwrap();
    }
    script
}

/// The shell blocks that need nothing special, each with the line where it begins, without their indentation.
fn blocks(guide: &Path) -> Vec<(usize, Vec<String>)> {
    let text = std::fs::read_to_string(guide).unwrap();
    let mut found: Vec<(usize, Vec<String>)> = Vec::new();
    let mut fence: Option<(usize, bool)> = None;
    let mut before = "";
    for (number, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        match (fence, trimmed.strip_prefix("```")) {
            (None, Some(language)) => {
                let shell = language == "sh" && !before.starts_with("<!-- needs:");
                fence = Some((line.len() - trimmed.len(), shell));
                if shell {
                    let given = before.strip_prefix("<!-- given: ");
                    let given = given.and_then(|given| given.strip_suffix(" -->"));
                    found.push((number + 1, given.map(str::to_owned).into_iter().collect()));
                }
            }
            (Some(_), Some(_)) => fence = None,
            (Some((indent, true)), None) => {
                let text = line.get(indent..).unwrap_or_default().to_owned();
                found.last_mut().unwrap().1.push(text);
            }
            _ => {}
        }
        before = trimmed;
    }
    found
}
