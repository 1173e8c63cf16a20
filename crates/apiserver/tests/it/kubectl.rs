//! Real kubectl over TLS. Each test has a server, a kubeconfig and a home of its own.

use std::process::{Command, Output};

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::plane::{Plane, gadgets};

/// A served plane and the kubectl that talks to it.
pub(crate) struct Cluster {
    pub(crate) plane: Plane,
    pub(crate) url: String,
    shutdown: CancellationToken,
}

impl Cluster {
    /// `None`, with a printed reason, where there is no kubectl; a failure in CI.
    pub(crate) async fn start() -> Option<Self> {
        let found = Command::new("kubectl")
            .args(["version", "--client"])
            .output();
        if found.is_err() {
            assert!(
                std::env::var("CI").as_deref() != Ok("true"),
                "kubectl is missing"
            );
            println!("skipped: kubectl is not installed");
            return None;
        }
        let plane = Plane::start().await;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a free port");
        let url = format!("https://{}", listener.local_addr().expect("an address"));
        let shutdown = CancellationToken::new();
        let (server, stop) = (plane.server.clone(), shutdown.clone());
        tokio::spawn(async move { server.serve(listener, stop).await });
        let config = plane
            .server
            .kubeconfig(&url, "admin", "secret-token", "default");
        std::fs::write(plane.directory.path().join("kubeconfig"), config).expect("a kubeconfig");
        Some(Self {
            plane,
            url,
            shutdown,
        })
    }

    /// Runs kubectl in a shell line's words; blanks separate, there is no quoting.
    pub(crate) async fn kubectl(&self, line: &str) -> Output {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        self.kubectl_with(&words, "").await
    }

    /// Runs kubectl with `input` as its standard input.
    pub(crate) async fn kubectl_with(&self, words: &[String], input: &str) -> Output {
        self.program("kubectl", words, input, "false").await
    }

    /// Runs a kubectl with `input` as its standard input and an editor.
    pub(crate) async fn program(
        &self,
        program: &str,
        words: &[String],
        input: &str,
        editor: &str,
    ) -> Output {
        use std::io::Write as _;
        let home = self.plane.directory.path().join("home");
        std::fs::create_dir_all(&home).expect("a home");
        let mut command = Command::new(program);
        command
            .args(words)
            .env("HOME", &home)
            .env("KUBECONFIG", self.plane.directory.path().join("kubeconfig"))
            .env("KUBE_EDITOR", editor)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped());
        let input = input.to_owned();
        tokio::task::spawn_blocking(move || {
            let mut child = command.spawn().expect("kubectl starts");
            let mut stdin = child.stdin.take().expect("a pipe");
            let _ = stdin.write_all(input.as_bytes());
            drop(stdin);
            child.wait_with_output().expect("kubectl ends")
        })
        .await
        .expect("kubectl was waited for")
    }

    /// Standard output of a kubectl that must succeed.
    pub(crate) async fn ok(&self, line: &str) -> String {
        text(&self.kubectl(line).await, line)
    }

    /// The same, with a manifest on standard input: `apply -f -`.
    pub(crate) async fn feed(&self, line: &str, manifest: &Value) -> String {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        text(
            &self.kubectl_with(&words, &manifest.to_string()).await,
            line,
        )
    }

    /// Standard error of a kubectl that must fail.
    pub(crate) async fn fails(&self, line: &str) -> String {
        let output = self.kubectl(line).await;
        assert!(!output.status.success(), "kubectl {line} should fail");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

pub(crate) fn text(output: &Output, line: &str) -> String {
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "kubectl {line}: {out}{err}");
    format!("{out}{err}")
}

pub(crate) fn config_map(name: &str, value: &str) -> Value {
    serde_json::json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": name, "labels": { "app": "demo" } }, "data": { "key": value },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn core_objects_are_created_read_changed_and_deleted() {
    let Some(cluster) = Cluster::start().await else {
        return;
    };
    let out = cluster
        .feed("create -f - --validate=false", &config_map("a", "1"))
        .await;
    assert!(out.contains("configmap/a created"), "{out}");
    assert!(cluster.ok("get configmaps").await.contains("a "));
    assert_eq!(cluster.ok("get cm a -o jsonpath={.data.key}").await, "1");
    assert_eq!(
        cluster.ok("get cm -l app=demo -o name").await,
        "configmap/a\n"
    );
    cluster.ok("label cm a tier=x").await;
    cluster.ok("annotate cm a note=y").await;
    assert_eq!(
        cluster
            .ok("get cm a -o jsonpath={.metadata.labels.tier}")
            .await,
        "x"
    );
    let error = cluster.fails("get cm missing").await;
    assert!(
        error.contains("configmaps \"missing\" not found"),
        "{error}"
    );
    cluster.ok("delete cm a").await;
    assert!(cluster.fails("get cm a").await.contains("NotFound"));
    let namespace = serde_json::json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "team" } });
    cluster
        .feed("create -f - --validate=false", &namespace)
        .await;
    cluster.ok("delete namespace team").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn custom_objects_work_as_core_ones() {
    let Some(cluster) = Cluster::start().await else {
        return;
    };
    cluster
        .feed("create -f - --validate=false", &gadgets())
        .await;
    cluster
        .ok("wait --for=condition=Established crd/gadgets.example.org --timeout=10s")
        .await;
    let resources = cluster.ok("api-resources --api-group=example.org").await;
    assert!(
        resources.contains("gadgets") && resources.contains("gd"),
        "{resources}"
    );
    let gadget = serde_json::json!({
        "apiVersion": "example.org/v1", "kind": "Gadget",
        "metadata": { "name": "g" }, "spec": { "size": 1 },
    });
    cluster.feed("create -f - --validate=false", &gadget).await;
    assert_eq!(
        cluster.ok("get gd g -o jsonpath={.spec.color}").await,
        "grey"
    );
    cluster
        .ok("patch gd g --type=merge -p {\"spec\":{\"size\":3}}")
        .await;
    assert_eq!(cluster.ok("get gd g -o jsonpath={.spec.size}").await, "3");
    let error = cluster
        .fails("patch gd g --type=merge -p {\"spec\":{\"size\":-1}}")
        .await;
    assert!(
        error.contains("should be greater than or equal to 0"),
        "{error}"
    );
    let error = cluster.fails("patch gd g -p {\"spec\":{\"size\":3}}").await;
    assert!(
        error.contains("strategic") || error.contains("unsupported"),
        "{error}"
    );
    cluster.ok("scale gd g --replicas=4").await;
    assert_eq!(
        cluster.ok("get gd g -o jsonpath={.spec.replicas}").await,
        "4"
    );
    cluster.ok("delete gd --all").await;
    assert!(cluster.ok("get gd").await.contains("No resources found"));
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_and_health_are_told() {
    let Some(cluster) = Cluster::start().await else {
        return;
    };
    assert!(cluster.ok("version").await.contains("Server Version"));
    assert_eq!(cluster.ok("get --raw /readyz").await, "ok");
    assert!(
        cluster
            .ok("get --raw /metrics")
            .await
            .contains("apiserver_request_total")
    );
    assert!(cluster.url.starts_with("https://127.0.0.1:"));
}

#[tokio::test(flavor = "multi_thread")]
async fn apply_in_both_ways_diff_explain_and_edit() {
    let Some(cluster) = Cluster::start().await else {
        return;
    };
    cluster.feed("apply -f -", &gadgets()).await;
    let mut gadget = serde_json::json!({
        "apiVersion": "example.org/v1", "kind": "Gadget",
        "metadata": { "name": "g" }, "spec": { "size": 1 },
    });
    assert!(
        cluster
            .feed("apply -f -", &gadget)
            .await
            .contains("created")
    );
    assert!(
        cluster
            .feed("apply -f -", &gadget)
            .await
            .contains("unchanged")
    );
    gadget["spec"]["size"] = 2.into();
    assert!(
        cluster
            .feed("apply -f -", &gadget)
            .await
            .contains("configured")
    );
    assert_eq!(cluster.ok("get gd g -o jsonpath={.spec.size}").await, "2");
    gadget["spec"]["nonsense"] = true.into();
    let words: Vec<String> = ["apply", "-f", "-"].map(str::to_owned).to_vec();
    let strict = cluster.kubectl_with(&words, &gadget.to_string()).await;
    let error = String::from_utf8_lossy(&strict.stderr).into_owned();
    assert!(error.contains("unknown field \"spec.nonsense\""), "{error}");
    let explained = cluster.ok("explain gadget.spec").await;
    assert!(
        explained.contains("What is wanted.") && explained.contains("How big."),
        "{explained}"
    );

    let map = config_map("s", "1");
    cluster.feed("apply --server-side -f -", &map).await;
    let words: Vec<String> = ["apply", "--server-side", "--field-manager=other", "-f", "-"]
        .map(str::to_owned)
        .to_vec();
    let clash = cluster
        .kubectl_with(&words, &config_map("s", "2").to_string())
        .await;
    let error = String::from_utf8_lossy(&clash.stderr).into_owned();
    assert!(error.contains("conflict with \"kubectl\""), "{error}");
    cluster
        .feed(
            "apply --server-side --force-conflicts --field-manager=other -f -",
            &config_map("s", "2"),
        )
        .await;
    assert_eq!(cluster.ok("get cm s -o jsonpath={.data.key}").await, "2");
    let words: Vec<String> = ["diff", "-f", "-"].map(str::to_owned).to_vec();
    let diff = cluster
        .kubectl_with(&words, &config_map("s", "3").to_string())
        .await;
    assert_eq!(
        diff.status.code(),
        Some(1),
        "{}",
        String::from_utf8_lossy(&diff.stderr)
    );
    assert_eq!(
        cluster.ok("get cm s -o jsonpath={.data.key}").await,
        "2",
        "a diff changes nothing"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn rights_can_be_asked_for() {
    let Some(cluster) = Cluster::start().await else {
        return;
    };
    assert_eq!(cluster.ok("auth can-i delete pods").await, "yes\n");
    cluster
        .ok("create rolebinding ann --clusterrole=view --user=ann")
        .await;
    assert_eq!(cluster.ok("auth can-i list pods --as=ann").await, "yes\n");
    let output = cluster.kubectl("auth can-i delete pods --as=ann").await;
    assert_eq!(String::from_utf8_lossy(&output.stdout), "no\n");
    assert!(
        cluster
            .ok("auth can-i --list --as=ann")
            .await
            .contains("pods")
    );
    assert!(cluster.ok("auth whoami").await.contains("admin"));
    cluster.ok("create configmap c --from-literal=a=b").await;
    cluster
        .ok("create secret generic s --from-literal=a=b")
        .await;
    let error = cluster.fails("delete cm c --as=ann").await;
    assert!(error.contains("forbidden"), "{error}");
}
