//! Kubeflow Trainer's and JobSet's own controllers, with their definitions and webhooks as their
//! releases have them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::cluster::free_ports;
use super::pki::Authority;
use super::process::{PATIENCE, Process};
use super::target::{self, program};

pub(crate) struct Kubeflow {
    trainer: Process,
    job_set: Process,
}

/// What differs between the two controllers.
struct Part<'a> {
    name: &'a str,
    program: String,
    config: Value,
    /// The folder of the release with its manifests.
    webhooks: PathBuf,
}

impl Kubeflow {
    /// The same on our API server, which has no webhooks: its own definition of JobSets has the defaults that JobSet's
    /// webhook would write.
    pub(crate) fn install_without_webhooks(
        folder: &Path,
        release: target::Kubeflow,
        kubeconfig: &Path,
        authority: &Authority,
    ) -> Self {
        Self::work(folder, release, kubeconfig, authority, false)
    }

    /// Installs the definitions, starts the controllers, and puts their webhooks in force.
    pub(crate) fn install(
        folder: &Path,
        release: target::Kubeflow,
        kubeconfig: &Path,
        authority: &Authority,
    ) -> Self {
        Self::work(folder, release, kubeconfig, authority, true)
    }

    fn work(
        folder: &Path,
        release: target::Kubeflow,
        kubeconfig: &Path,
        authority: &Authority,
        webhooks: bool,
    ) -> Self {
        let [trainer_port, trainer_health, set_port, set_health] = free_ports();
        let (trainer, job_set) = (
            manifests(&format!("trainer-{}", release.trainer)),
            manifests(&format!("jobset-{}", release.job_set)),
        );
        let kubectl = Kubectl { folder, kubeconfig };
        kubectl.run(&["create", "namespace", "kubeflow-system"]);
        kubectl.run(&["create", "namespace", "jobset-system"]);
        // The release's own overlay makes this, with the version of the release, since v2.2.
        if release.trainer != "v2.1.0" {
            let version = format!(
                "--from-literal=kubeflow_trainer_version={}",
                release.trainer
            );
            let map = ["create", "configmap", "kubeflow-trainer-public", &version];
            kubectl.run(&[&["-n", "kubeflow-system"], &map[..]].concat());
        }
        kubectl.apply(&trainer.join("manifests/base/crds"), "-k");
        if webhooks {
            kubectl.apply(&job_set.join("config/components/crd/bases"), "-f");
        }
        established(kubeconfig);

        let address = |port: u16| format!("127.0.0.1:{port}");
        let job_set = Part {
            name: "jobset",
            program: format!("jobset-{}", release.job_set),
            config: json!({
                "apiVersion": "config.jobset.x-k8s.io/v1alpha1", "kind": "Configuration",
                "health": { "healthProbeBindAddress": address(set_health) },
                "metrics": { "bindAddress": "0" },
                "webhook": { "port": set_port, "host": "127.0.0.1" },
                "leaderElection": { "leaderElect": false },
                "internalCertManagement": { "enable": false },
            }),
            webhooks: job_set.join("config/components/webhook/manifests.yaml"),
        };
        let trainer = Part {
            name: "trainer",
            program: format!("trainer-{}", release.trainer),
            config: json!({
                "apiVersion": "config.trainer.kubeflow.org/v1alpha1", "kind": "Configuration",
                "health": { "healthProbeBindAddress": address(trainer_health) },
                "metrics": { "bindAddress": "0" },
                "webhook": { "port": trainer_port, "host": "127.0.0.1" },
                "leaderElection": { "leaderElect": false },
                "certManagement": { "enable": false },
            }),
            webhooks: trainer.join("manifests/base/webhook/manifests.yaml"),
        };
        let mut started = Self {
            job_set: job_set.start(folder, kubeconfig, authority),
            trainer: trainer.start(folder, kubeconfig, authority),
        };
        ready(&mut started.job_set, set_health);
        ready(&mut started.trainer, trainer_health);
        if webhooks {
            kubectl.webhooks(&job_set, set_port, authority);
            kubectl.webhooks(&trainer, trainer_port, authority);
        }
        started
    }

    pub(crate) fn logs(&self) -> String {
        self.trainer.log() + &self.job_set.log()
    }
}

impl Part<'_> {
    fn start(&self, folder: &Path, kubeconfig: &Path, authority: &Authority) -> Process {
        let own = folder.join(self.name);
        // The webhooks' certificate is looked for in the folder for temporary files.
        authority.server(&own.join("k8s-webhook-server/serving-certs"), "tls");
        let config = own.join("config.yaml");
        std::fs::write(&config, self.config.to_string()).unwrap();
        Process::start(
            folder,
            self.name,
            Command::new(program(&self.program))
                .env("TMPDIR", &own)
                .env("KUBECONFIG", kubeconfig)
                .arg("--config")
                .arg(&config),
        )
    }
}

/// Waits until every definition is served.
pub(crate) fn established(kubeconfig: &Path) {
    let deadline = Instant::now() + PATIENCE;
    let served = || {
        let path = "jsonpath={range .items[*]}{.status.conditions[?(@.type=='Established')].status}{'\\n'}{end}";
        let output = Command::new("kubectl")
            .env("KUBECONFIG", kubeconfig)
            .args(["get", "crds", "-o", path])
            .output()
            .unwrap();
        let states = String::from_utf8_lossy(&output.stdout).into_owned();
        output.status.success() && !states.is_empty() && states.lines().all(|line| line == "True")
    };
    while !served() {
        assert!(Instant::now() < deadline, "the definitions are not served");
        std::thread::park_timeout(Duration::from_millis(100));
    }
}

/// Waits until a controller says that it is ready.
fn ready(process: &mut Process, port: u16) {
    process.wait("that the controller is ready", || {
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).ok()?;
        let answer = super::exchange(&mut stream, "GET /readyz HTTP/1.0\r\n\r\n").ok()?;
        answer.contains(" 200 ").then_some(())
    });
}

struct Kubectl<'a> {
    folder: &'a Path,
    kubeconfig: &'a Path,
}

impl Kubectl<'_> {
    fn run(&self, arguments: &[&str]) {
        let output = Command::new("kubectl")
            .env("KUBECONFIG", self.kubeconfig)
            .args(arguments)
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        // What the embedded API server has from the start is there already.
        assert!(
            output.status.success() || stderr.contains("AlreadyExists"),
            "kubectl {arguments:?}: {stderr}"
        );
    }

    fn apply(&self, path: &Path, flag: &str) {
        let path = path.to_str().unwrap();
        self.run(&["apply", "--server-side", "--force-conflicts", flag, path]);
    }

    /// The webhooks of a release, reached on loopback instead of by a Service.
    fn webhooks(&self, part: &Part<'_>, port: u16, authority: &Authority) {
        let text = std::fs::read_to_string(&part.webhooks).unwrap();
        let bundle = std::fs::read(authority.path("ca.crt")).unwrap();
        let mut items: Vec<Value> = Vec::new();
        for document in text.split("\n---").filter(|text| text.contains("kind:")) {
            let document = document.trim_start_matches("---");
            let mut object: Value = serde_saphyr::from_str(document).unwrap();
            let name = object["metadata"]["name"].as_str().unwrap();
            object["metadata"]["name"] = json!(format!("{}-{name}", part.name));
            for webhook in object["webhooks"].as_array_mut().unwrap() {
                let path = webhook["clientConfig"]["service"]["path"].as_str().unwrap();
                let url = format!("https://127.0.0.1:{port}{path}");
                webhook["clientConfig"] = json!({ "url": url, "caBundle": base64(&bundle) });
            }
            items.push(object);
        }
        let path = self.folder.join(format!("{}-webhooks.json", part.name));
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": items });
        std::fs::write(&path, list.to_string()).unwrap();
        self.apply(&path, "-f");
    }
}

/// Where the release's manifests are, in the Go modules' cache.
pub(crate) fn manifests(release: &str) -> PathBuf {
    let bin = program("etcd");
    let cache = bin.parent().unwrap().parent().unwrap();
    let path = cache.join("modules").join(release);
    assert!(path.exists(), "{} is missing", path.display());
    path
}

fn base64(bytes: &[u8]) -> String {
    use k8s_openapi::ByteString;
    let text = serde_json::to_value(ByteString(bytes.to_vec())).unwrap();
    text.as_str().unwrap().to_owned()
}
