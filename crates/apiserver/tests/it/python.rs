//! Python's clients: Kubernetes' own, the Kubeflow SDK in two versions, and the client of the Training Operator.
//!
//! The scripts lie in `tests/python` and assert for themselves; here they get a server with our definitions.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::kubectl::Cluster;

/// The interpreter, and the folder with an older SDK, as `scripts/setup` leaves them.
struct Python {
    program: PathBuf,
    older: PathBuf,
}

impl Python {
    /// `None`, with a printed reason, where they are not set up; a failure in CI.
    fn find() -> Option<Self> {
        let cache = std::env::var_os("ASTRAGO_CACHE").map(PathBuf::from);
        let cache = cache
            .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache/astrago")))?;
        let program = std::env::var_os("ASTRAGO_TEST_PYTHON").map(PathBuf::from);
        let found = Self {
            program: program.unwrap_or_else(|| cache.join("python/bin/python3")),
            older: cache.join("python-kubeflow-0.3"),
        };
        if found.program.exists() && found.older.exists() {
            return Some(found);
        }
        assert!(
            std::env::var("CI").as_deref() != Ok("true"),
            "the Python environment is missing: run scripts/setup"
        );
        println!("skipped: no Python environment; run scripts/setup");
        None
    }

    async fn run(&self, cluster: &Cluster, script: &str, older: bool) -> String {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python");
        let mut command = Command::new(&self.program);
        command.arg(folder.join(script)).env(
            "KUBECONFIG",
            cluster.plane.directory.path().join("kubeconfig"),
        );
        if older {
            command.env("PYTHONPATH", &self.older);
        }
        let output = tokio::task::spawn_blocking(move || command.output())
            .await
            .expect("python was waited for")
            .expect("python starts");
        let (out, err) = (
            String::from_utf8_lossy(&output.stdout).into_owned(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        );
        assert!(output.status.success(), "{script}: {out}{err}");
        out
    }
}

/// A server with the definitions that a user installs.
async fn installed(groups: &[&str]) -> Option<(Cluster, Python)> {
    let python = Python::find()?;
    let cluster = Cluster::start().await?;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../manifests/crds");
    for group in groups {
        let path = folder.join(group);
        let text = std::fs::read_to_string(&path).expect("a definition");
        let definition: serde_json::Value = serde_saphyr::from_str(&text).expect("YAML");
        let (code, answer) = cluster
            .plane
            .post(
                "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
                definition,
            )
            .await;
        assert_eq!(code, 201, "{answer}");
    }
    Some((cluster, python))
}

const TRAINER: [&str; 3] = [
    "trainer.kubeflow.org_trainjobs.yaml",
    "trainer.kubeflow.org_trainingruntimes.yaml",
    "trainer.kubeflow.org_clustertrainingruntimes.yaml",
];

#[tokio::test(flavor = "multi_thread")]
async fn the_client_of_kubernetes_reads_writes_and_watches() {
    for older in [false, true] {
        let Some((cluster, python)) = installed(&TRAINER).await else {
            return;
        };
        let said = python.run(&cluster, "plain.py", older).await;
        assert!(said.contains("fine with kubernetes"), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_newest_sdk_handles_jobs() {
    let Some((cluster, python)) = installed(&TRAINER).await else {
        return;
    };
    let said = python.run(&cluster, "trainer.py", false).await;
    assert!(said.contains("fine with kubeflow 0.5"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_sdk_handles_jobs() {
    let Some((cluster, python)) = installed(&TRAINER).await else {
        return;
    };
    let said = python.run(&cluster, "trainer.py", true).await;
    assert!(said.contains("fine with kubeflow 0.3"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_of_the_training_operator_handles_jobs() {
    let definitions = ["kubeflow.org_pytorchjobs.yaml"];
    let Some((cluster, python)) = installed(&definitions).await else {
        return;
    };
    let said = python.run(&cluster, "training.py", false).await;
    assert!(said.contains("fine with kubeflow-training 1.9"), "{said}");
}
