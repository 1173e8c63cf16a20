//! A Kubernetes control plane on loopback, from the programs that `scripts/cluster-build` made.
//!
//! etcd, kube-apiserver, kube-controller-manager and kube-scheduler, each with its own log in the
//! test's folder. The node is `astrago node`, which the harness starts beside it.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::astrago;
use super::kubeflow::{self, Kubeflow};
use super::pki::Authority;
use super::process::Process;
use super::target::{Target, program};
use crate::manifests::documents;

/// Fields are dropped in order: whoever depends on another goes first.
pub(crate) struct Cluster {
    kubeflow: Option<Kubeflow>,
    controllers: Option<Process>,
    others: Vec<Process>,
    api_server: Process,
    _etcd: Process,
    authority: Authority,
    folder: PathBuf,
    etcd_port: u16,
    port: u16,
}

/// Where our own manifests stand.
pub(crate) const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

impl Cluster {
    /// Starts it with the controllers and runtimes of the target, and waits until it serves.
    pub(crate) fn start(folder: &Path, target: Target) -> Self {
        let mut cluster = Self::bare(folder);
        cluster.start_controllers();
        cluster.volumes();
        if let Some(release) = target.kubeflow {
            let kubeconfig = cluster.kubeconfig();
            let kubeflow = Kubeflow::install(folder, release, &kubeconfig, &cluster.authority);
            cluster.kubeflow = Some(kubeflow);
        } else {
            // All of them: those of v1 jobs too.
            for kind in definitions() {
                cluster.apply("-f", kind.to_str().unwrap());
            }
            kubeflow::established(&cluster.kubeconfig());
            cluster.deploy("overlays/standalone", "controllers");
            cluster.deploy("overlays/standalone", "public");
            cluster.deploy("components/training-operator", "role");
            cluster.start_own_controllers();
        }
        cluster.runtimes();
        cluster
    }

    /// An API server that knows nothing but Kubernetes, and nobody who works with it.
    pub(crate) fn bare(folder: &Path) -> Self {
        let authority = Authority::new(&folder.join("pki"));
        authority.server(&folder.join("pki"), "apiserver");
        authority.client("admin", "admin", &["system:masters"]);
        authority.client("kubelet-client", "kube-apiserver", &["system:masters"]);
        let [etcd_port, peer_port, port] = free_ports();
        let etcd = start_etcd(folder, etcd_port, peer_port);
        let api_server = start_api_server(folder, &authority, etcd_port, port);
        let mut cluster = Self {
            kubeflow: None,
            controllers: None,
            others: Vec::new(),
            api_server,
            _etcd: etcd,
            authority,
            folder: folder.to_owned(),
            etcd_port,
            port,
        };
        cluster.write_kubeconfig();
        cluster.wait_ready();
        cluster
    }

    /// The administrator's.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        kubeconfig(&self.folder)
    }

    pub(crate) fn certificate_authority(&self) -> PathBuf {
        self.authority.path("ca.crt")
    }

    /// A kubeconfig for the bearer of a token.
    pub(crate) fn kubeconfig_for(&self, name: &str, token: &str) -> PathBuf {
        let path = self.folder.join(format!("{name}.kubeconfig"));
        self.write(&path, &json!({ "token": token }), "astrago-system");
        path
    }

    /// A token of a service account, which is made if it is not there.
    pub(crate) fn token(&self, namespace: &str, name: &str) -> String {
        let _ = self
            .command(&["-n", namespace, "create", "serviceaccount", name])
            .output();
        self.kubectl(&["-n", namespace, "create", "token", name, "--duration=8h"])
            .trim()
            .to_owned()
    }

    /// A kubeconfig with the rights that deploy/ gives to `astrago serve`, and no others.
    pub(crate) fn server_kubeconfig(&self) -> PathBuf {
        self.deploy("base", "roles");
        let token = self.token("astrago-system", "astrago");
        self.kubeconfig_for("server", &token)
    }

    /// Applies a file of deploy/kustomize, but for what would run our image in the cluster: the tests start
    /// that themselves.
    fn deploy(&self, folder: &str, file: &str) {
        let folders = format!("{REPOSITORY}/deploy/kustomize");
        self.apply("-f", &format!("{folders}/base/namespace.yaml"));
        let text = std::fs::read_to_string(format!("{folders}/{folder}/{file}.yaml")).unwrap();
        let mut items = documents(&text);
        items.retain(|object| object["kind"] != "Deployment");
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": items });
        let path = self.folder.join(format!("{file}.json"));
        std::fs::write(&path, list.to_string()).unwrap();
        self.apply("-f", path.to_str().unwrap());
    }

    /// `astrago controllers` with the rights that deploy/ gives to it, and no others; where Kubeflow's
    /// run, nothing.
    pub(crate) fn start_own_controllers(&mut self) {
        if self.kubeflow.is_some() {
            return;
        }
        let token = self.token("astrago-system", "astrago-controllers");
        let kubeconfig = self.kubeconfig_for("controllers", &token);
        let mut command = astrago();
        command
            .args(["controllers", "--kubeconfig"])
            .arg(kubeconfig)
            .args(["--controllers", "train-jobs,job-sets,legacy-jobs"]);
        let process = Process::start(&self.folder, "astrago-controllers", &mut command);
        self.controllers = Some(process);
    }

    pub(crate) fn kill_controllers(&mut self) {
        if let Some(controllers) = &mut self.controllers {
            controllers.kill();
        }
    }

    /// Throws away everything that etcd remembers of the past, and the API server's memory with it.
    pub(crate) fn forget_the_past(&mut self) {
        let now = self.etcd(
            "/v3/kv/range",
            &json!({ "key": "AA==", "count_only": true }),
        );
        let revision = &now["header"]["revision"];
        self.kill_api_server();
        self.etcd(
            "/v3/kv/compaction",
            &json!({ "revision": revision, "physical": true }),
        );
        self.start_api_server();
    }

    /// Asks etcd something, in the JSON form of its API.
    fn etcd(&self, path: &str, body: &Value) -> Value {
        let mut stream = TcpStream::connect(("127.0.0.1", self.etcd_port)).unwrap();
        let body = body.to_string();
        let request = format!(
            "POST {path} HTTP/1.0\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let answer = super::exchange(&mut stream, &request).unwrap();
        assert!(answer.contains(" 200 "), "{answer}");
        let (_, text) = answer.split_once("\r\n\r\n").unwrap();
        serde_json::from_str(text).unwrap()
    }

    /// Stops the API server's process where it is, or lets it go on: nobody hears from it, and no
    /// connection breaks.
    pub(crate) fn freeze_api_server(&self, frozen: bool) {
        self.api_server
            .signal(if frozen { "-STOP" } else { "-CONT" });
    }

    /// Kills the API server as a power cut would.
    pub(crate) fn kill_api_server(&mut self) {
        self.api_server.kill();
    }

    pub(crate) fn start_api_server(&mut self) {
        self.api_server =
            start_api_server(&self.folder, &self.authority, self.etcd_port, self.port);
        self.wait_ready();
    }

    pub(crate) fn kubectl(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "kubectl {arguments:?}: {stderr}\n{}",
            self.logs()
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The ends of all logs.
    pub(crate) fn logs(&self) -> String {
        let mut text = self.api_server.log();
        let controllers = self.controllers.iter().chain(&self.others);
        controllers.for_each(|process| text.push_str(&process.log()));
        if let Some(kubeflow) = &self.kubeflow {
            text.push_str(&kubeflow.logs());
        }
        text
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("kubectl");
        command.env("KUBECONFIG", self.kubeconfig()).args(arguments);
        command
    }

    fn apply(&self, flag: &str, path: &str) {
        self.kubectl(&["apply", "--server-side", flag, path]);
    }

    fn write_kubeconfig(&self) {
        let user = json!({
            "client-certificate": self.authority.path("admin.crt"),
            "client-key": self.authority.path("admin.key"),
        });
        self.write(&self.kubeconfig(), &user, "default");
    }

    fn write(&self, path: &Path, user: &Value, namespace: &str) {
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{ "name": "test", "cluster": {
                "server": format!("https://127.0.0.1:{}", self.port),
                "certificate-authority": self.authority.path("ca.crt"),
            }}],
            "users": [{ "name": "user", "user": user }],
            // The namespace that a pod of ours would be in, where the lease of the controllers is.
            "contexts": [{ "name": "test", "context": {
                "cluster": "test", "user": "user", "namespace": namespace,
            } }],
        });
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, config.to_string()).unwrap();
    }

    fn wait_ready(&mut self) {
        let (folder, api_server) = (self.folder.clone(), &mut self.api_server);
        api_server.wait("that the API server is ready", || {
            let ready = Command::new("kubectl")
                .env("KUBECONFIG", kubeconfig(&folder))
                .args(["get", "--raw", "/readyz"])
                .output()
                .unwrap();
            ready.status.success().then_some(())
        });
    }

    fn start_controllers(&mut self) {
        let kubeconfig = self.kubeconfig();
        let manager = Process::start(
            &self.folder,
            "kube-controller-manager",
            Command::new(program("kube-controller-manager"))
                .arg("--kubeconfig")
                .arg(&kubeconfig)
                .arg("--root-ca-file")
                .arg(self.authority.path("ca.crt"))
                .arg("--service-account-private-key-file")
                .arg(self.authority.path("sa.key"))
                .args(["--leader-elect=false", "--secure-port=0"]),
        );
        let scheduler = Process::start(
            &self.folder,
            "kube-scheduler",
            Command::new(program("kube-scheduler"))
                .arg("--kubeconfig")
                .arg(&kubeconfig)
                .args(["--leader-elect=false", "--secure-port=0"]),
        );
        self.others = vec![manager, scheduler];
    }

    /// The catalogue, as far as the Trainer's version knows the fields.
    fn runtimes(&self) {
        for entry in std::fs::read_dir(format!("{REPOSITORY}/runtimes")).unwrap() {
            let file = entry.unwrap().path().join("runtime.yaml");
            if !file.exists() {
                continue;
            }
            let file = file.to_str().unwrap();
            let output = self
                .command(&["apply", "--server-side", "-f", file])
                .output()
                .unwrap();
            let stderr = String::from_utf8_lossy(&output.stderr);
            if stderr.contains("field not declared in schema") {
                println!("{file}: this Trainer does not know it: {stderr}");
                continue;
            }
            assert!(output.status.success(), "{file}: {stderr}\n{}", self.logs());
        }
    }

    /// Volumes for the claims of the tests. Where their data lies is the node's own matter.
    fn volumes(&self) {
        let volumes: Vec<Value> = (0..4)
            .map(|number| {
                json!({
                    "apiVersion": "v1", "kind": "PersistentVolume",
                    "metadata": { "name": format!("volume-{number}") },
                    "spec": {
                        "capacity": { "storage": "100Gi" }, "accessModes": ["ReadWriteOnce", "ReadWriteMany"],
                        "persistentVolumeReclaimPolicy": "Retain",
                        "hostPath": { "path": format!("/nowhere/volume-{number}") },
                    },
                })
            })
            .collect();
        let path = self.folder.join("volumes.json");
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": volumes });
        std::fs::write(&path, list.to_string()).unwrap();
        self.apply("-f", path.to_str().unwrap());
    }
}

/// The files of our own definitions.
fn definitions() -> Vec<PathBuf> {
    let folder = std::fs::read_dir(format!("{REPOSITORY}/manifests/crds")).unwrap();
    let files = folder.map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = files
        .filter(|path| !path.ends_with("kustomization.yaml"))
        .collect();
    files.sort();
    assert!(files.len() >= 11, "{files:?}");
    files
}

/// Where the administrator's kubeconfig is, embedded or not.
pub(crate) fn kubeconfig(folder: &Path) -> PathBuf {
    folder.join("data/kubeconfig")
}

fn start_etcd(folder: &Path, port: u16, peer_port: u16) -> Process {
    let (client, peer) = (
        format!("http://127.0.0.1:{port}"),
        format!("http://127.0.0.1:{peer_port}"),
    );
    Process::start(
        folder,
        "etcd",
        Command::new(program("etcd"))
            .arg("--data-dir")
            .arg(folder.join("etcd"))
            .args([
                "--listen-client-urls",
                &client,
                "--advertise-client-urls",
                &client,
            ])
            .args([
                "--listen-peer-urls",
                &peer,
                "--initial-advertise-peer-urls",
                &peer,
            ])
            .args(["--initial-cluster", &format!("default={peer}")])
            // The data need not outlive the machine.
            .args(["--unsafe-no-fsync", "--log-level", "warn"]),
    )
}

fn start_api_server(folder: &Path, authority: &Authority, etcd_port: u16, port: u16) -> Process {
    let file = |flag: &str, name: &str| format!("--{flag}={}", authority.path(name).display());
    Process::start(
        folder,
        "kube-apiserver",
        Command::new(program("kube-apiserver"))
            .arg(format!("--etcd-servers=http://127.0.0.1:{etcd_port}"))
            .arg(format!("--secure-port={port}"))
            .args([
                file("tls-cert-file", "apiserver.crt"),
                file("tls-private-key-file", "apiserver.key"),
                file("client-ca-file", "ca.crt"),
                file("kubelet-client-certificate", "kubelet-client.crt"),
                file("kubelet-client-key", "kubelet-client.key"),
                file("service-account-key-file", "sa.pub"),
                file("service-account-signing-key-file", "sa.key"),
            ])
            .args([
                "--bind-address=127.0.0.1",
                // An address of loopback cannot be in an Endpoints object.
                "--endpoint-reconciler-type=none",
                "--service-account-issuer=https://kubernetes.default.svc",
                "--service-cluster-ip-range=10.96.0.0/16",
                "--authorization-mode=Node,RBAC",
                "--kubelet-preferred-address-types=InternalIP",
                "--profiling=false",
            ]),
    )
}

/// Ports that were free a moment ago.
pub(crate) fn free_ports<const N: usize>() -> [u16; N] {
    let listeners = [(); N].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}
