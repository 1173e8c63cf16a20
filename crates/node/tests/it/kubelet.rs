//! The kubelet's endpoints over TLS, with just enough of an API server before them for kubectl,
//! and a supervisor that runs programs without a sandbox behind them.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};

use astrago_node::control::{self, Channel, Exec, Failure, Request, Response};
use astrago_node::layout;
use astrago_node::metrics::Collector;
use astrago_node::server::{self, Certificate};
use axum::Router;
use axum::extract::{Path as Segments, Request as HttpRequest};
use axum::http::{HeaderValue, Uri, header};
use axum::routing::{any, get};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

pub(crate) const TOKEN: &str = "a token for tests";

/// A kubelet with one pod, `team/job-0`, whose container is `main`.
pub(crate) struct Kubelet {
    pub(crate) address: String,
    pub(crate) directory: tempfile::TempDir,
    pub(crate) supervisor: Supervisor,
    namespace: &'static str,
    cancelled: CancellationToken,
}

impl Kubelet {
    pub(crate) async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let folder = layout::PodDir::new(directory.path(), "uid-0");
        std::fs::create_dir_all(folder.path()).unwrap();
        let spec = json!({"uid": "uid-0", "namespace": "team", "name": "job-0",
            "containers": [{"name": "main"}, {"name": "idle"}]});
        std::fs::write(folder.spec(), spec.to_string()).unwrap();
        let supervisor = Supervisor::start(control::listen(folder.path()).unwrap());
        let mut kubelet = Self::over(directory.path(), "team").await;
        kubelet.directory = directory;
        kubelet.supervisor = supervisor;
        kubelet
    }

    /// A kubelet over a folder with pods of its own.
    pub(crate) async fn over(data_dir: &Path, namespace: &'static str) -> Self {
        let options = server::Options {
            data_dir: data_dir.to_owned(),
            node_name: "machine".into(),
            token: TOKEN.into(),
            collector: Collector::new(data_dir, "machine"),
        };
        let kubelet = server::router(options);
        let router = api_server(kubelet.clone()).merge(kubelet);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let certificate = Certificate::generate("machine", &[], None).unwrap();
        let cancelled = CancellationToken::new();
        tokio::spawn({
            let cancelled = cancelled.clone();
            async move {
                server::serve(listener, certificate, router, cancelled).await;
            }
        });
        let directory = tempfile::tempdir().unwrap();
        let supervisor = Supervisor::default();
        Self {
            address,
            directory,
            supervisor,
            namespace,
            cancelled,
        }
    }

    pub(crate) fn logs(&self) -> PathBuf {
        layout::pod_logs(self.directory.path(), "team", "job-0", "uid-0")
    }

    /// A request to the kubelet itself.
    pub(crate) async fn get(&self, path: &str, token: &str) -> reqwest::Response {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .tls_danger_accept_invalid_certs(true)
            .no_proxy()
            .build();
        let url = format!("https://{}{path}", self.address);
        client
            .unwrap()
            .get(url)
            .bearer_auth(token)
            .send()
            .await
            .unwrap()
    }

    /// All messages that come over a WebSocket, up to its end, to whoever has first said everything.
    pub(crate) async fn messages(&self, path: &str, protocol: &str, said: &[u8]) -> Vec<Vec<u8>> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .tls_danger_accept_invalid_certs(true)
            .http1_only()
            .no_proxy()
            .build();
        let request = client
            .unwrap()
            .get(format!("https://{}{path}", self.address))
            .bearer_auth(TOKEN)
            .header(header::CONNECTION, "upgrade")
            .header(header::UPGRADE, "websocket")
            .header(header::SEC_WEBSOCKET_VERSION, "13")
            .header(header::SEC_WEBSOCKET_KEY, "c2l4dGVlbiBsZXR0ZXJzLg==")
            .header(header::SEC_WEBSOCKET_PROTOCOL, protocol);
        let response = request.send().await.unwrap();
        assert_eq!(response.headers()[header::SEC_WEBSOCKET_PROTOCOL], protocol);
        let mut connection = response.upgrade().await.unwrap();
        for piece in said.chunks(60_000) {
            let length = u16::try_from(piece.len() + 1).unwrap().to_be_bytes();
            // Bytes, masked by zeros, on the first channel.
            let head = [0x82, 0xfe, length[0], length[1], 0, 0, 0, 0, 0];
            connection.write_all(&head).await.unwrap();
            connection.write_all(piece).await.unwrap();
        }
        connection.flush().await.unwrap();
        let mut found = Vec::new();
        loop {
            let mut head = [0; 2];
            connection.read_exact(&mut head).await.unwrap();
            let length = match head[1] {
                126 => connection.read_u16().await.unwrap(),
                short => u16::from(short),
            };
            let mut message = vec![0; usize::from(length)];
            connection.read_exact(&mut message).await.unwrap();
            // The last 4 bits are what it is: 2 bytes, 8 the end.
            if head[0] & 15 == 8 {
                return found;
            }
            assert_eq!(head[0] & 15, 2);
            found.push(message);
        }
    }

    /// A kubectl that talks to this server.
    pub(crate) fn kubectl(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .env("HOME", self.directory.path())
            .env("KUBECONFIG", "/dev/null")
            .env("NO_PROXY", "127.0.0.1")
            .args(["--server", &format!("https://{}", self.address)])
            .args(["--insecure-skip-tls-verify", "--token", "any"])
            .args(["--namespace", self.namespace])
            .args(arguments);
        command
    }

    /// Runs kubectl in a terminal of 33 rows and 77 columns.
    pub(crate) async fn in_terminal(&self, program: &Path, arguments: &[&str]) -> Output {
        let inner = self.kubectl(program, arguments);
        let words: Vec<String> = std::iter::once(inner.get_program())
            .chain(inner.get_args())
            .map(|word| format!("'{}'", word.to_str().unwrap().replace('\'', "'\\''")))
            .collect();
        let mut command = Command::new("timeout");
        command
            .args(["60", "script", "-qefc"])
            .arg(format!("stty rows 33 cols 77; {}", words.join(" ")))
            .arg("/dev/null")
            .stdin(Stdio::null());
        for (name, value) in inner.get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        tokio::task::spawn_blocking(move || command.output().unwrap())
            .await
            .unwrap()
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.cancelled.cancel();
    }
}

/// The kubectls of this machine: the oldest, which speaks SPDY, and the newest, which speaks
/// WebSocket. None is a reason to skip.
pub(crate) fn kubectls() -> Vec<PathBuf> {
    let beside = std::fs::read_dir("/usr/lib/google-cloud-sdk/bin")
        .into_iter()
        .flatten();
    let mut versions: Vec<PathBuf> = beside
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            path.file_name()
                .is_some_and(|name| name.as_encoded_bytes().starts_with(b"kubectl."))
        })
        .collect();
    versions.sort();
    if versions.len() > 2 {
        versions = vec![versions.remove(0), versions.pop().unwrap()];
    }
    if versions.is_empty() && Command::new("kubectl").arg("help").output().is_ok() {
        versions.push("kubectl".into());
    }
    if versions.is_empty() {
        assert!(std::env::var_os("CI").is_none(), "there is no kubectl");
        println!("skipped: there is no kubectl");
    }
    versions
}

fn api_server(kubelet: Router) -> Router {
    let pods = json!({"kind": "APIResourceList", "groupVersion": "v1", "resources": [
        {"name": "pods", "singularName": "pod", "namespaced": true, "kind": "Pod", "verbs": ["get"]}]});
    let groups = json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": []});
    let versions = json!({"kind": "APIVersions", "versions": ["v1"]});
    Router::new()
        .route("/api", get(|| async { axum::Json(versions) }))
        .route("/apis", get(|| async { axum::Json(groups) }))
        .route("/api/v1", get(|| async { axum::Json(pods) }))
        .route("/api/v1/namespaces/{namespace}/pods/{pod}", get(pod))
        .route(
            "/api/v1/namespaces/{namespace}/pods/{pod}/{verb}",
            any(move |segments, request| proxy(kubelet, segments, request)),
        )
}

async fn pod(
    Segments((namespace, name)): Segments<(String, String)>,
) -> axum::Json<serde_json::Value> {
    axum::Json(json!({"kind": "Pod", "apiVersion": "v1",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": [{"name": "main"}]}, "status": {"phase": "Running"}}))
}

/// What an API server does with a pod's subresources.
async fn proxy(
    kubelet: Router,
    Segments(segments): Segments<BTreeMap<String, String>>,
    mut request: HttpRequest,
) -> axum::response::Response {
    let verb = match segments["verb"].as_str() {
        "log" => "containerLogs",
        "portforward" => "portForward",
        verb => verb,
    };
    let query = request.uri().query().unwrap_or_default();
    let container = query
        .split('&')
        .find_map(|pair| pair.strip_prefix("container="))
        .unwrap_or("main");
    let container = if verb == "portForward" {
        String::new()
    } else {
        format!("/{container}")
    };
    let (namespace, pod) = (&segments["namespace"], &segments["pod"]);
    let path = format!("/{verb}/{namespace}/{pod}{container}?{query}");
    *request.uri_mut() = path.parse::<Uri>().unwrap();
    let token = HeaderValue::from_str(&format!("Bearer {TOKEN}")).unwrap();
    request.headers_mut().insert(header::AUTHORIZATION, token);
    // Everything but the connection is left behind, as over a real one.
    let connection = request
        .extensions_mut()
        .remove::<hyper::upgrade::OnUpgrade>();
    request.extensions_mut().clear();
    request.extensions_mut().extend(
        connection
            .map(|connection| {
                let mut extensions = axum::http::Extensions::new();
                extensions.insert(connection);
                extensions
            })
            .unwrap_or_default(),
    );
    kubelet.oneshot(request).await.unwrap()
}

/// Runs programs as a supervisor does, in no container at all.
#[derive(Clone, Default)]
pub(crate) struct Supervisor {
    killed: Arc<Mutex<usize>>,
}

impl Supervisor {
    fn start(listener: UnixListener) -> Self {
        let supervisor = Self::default();
        let result = supervisor.clone();
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                let supervisor = supervisor.clone();
                let channel = Channel::new(connection.unwrap());
                std::thread::spawn(move || supervisor.serve(channel));
            }
        });
        result
    }

    /// Programs that were killed because their caller was gone.
    pub(crate) fn killed(&self) -> usize {
        *self.killed.lock().unwrap()
    }

    fn serve(&self, mut channel: Channel) {
        let Ok(Some((request, descriptors))) = channel.receive::<Request>() else {
            return;
        };
        let answer = match request {
            Request::Exec(exec) if exec.container == "main" => {
                self.exec(&exec, descriptors, channel);
                return;
            }
            Request::Exec(_) => failed(Failure::NotRunning, "it does not run"),
            _ => failed(Failure::Invalid, "not in this test"),
        };
        let _ = channel.send(&answer, &[]);
    }

    fn exec(&self, exec: &Exec, descriptors: Vec<OwnedFd>, channel: Channel) {
        assert_eq!(descriptors.len(), exec.descriptors());
        let mut command = if exec.tty {
            let mut command = Command::new("setsid");
            command.args(["--ctty", "--wait"]).args(&exec.argv);
            command
        } else {
            let mut command = Command::new(&exec.argv[0]);
            command.args(&exec.argv[1..]);
            command
        };
        command.envs(&exec.env);
        let mut descriptors = descriptors.into_iter();
        if exec.tty {
            let terminal = descriptors.next().unwrap();
            command.stdin(terminal.try_clone().unwrap());
            command.stdout(terminal.try_clone().unwrap());
            command.stderr(terminal);
        } else {
            let mut next = |wanted: bool| {
                if wanted {
                    descriptors.next().unwrap().into()
                } else {
                    Stdio::null()
                }
            };
            command.stdin(next(exec.stdin));
            command.stdout(next(exec.stdout));
            command.stderr(next(exec.stderr));
        }
        let spawned = command.spawn();
        // The command keeps copies of the descriptors, which would keep the pipes open.
        drop(command);
        let mut child = match spawned {
            Ok(child) => child,
            Err(error) => {
                let _ = channel.send(&failed(Failure::NotExecutable, &error.to_string()), &[]);
                return;
            }
        };
        channel.send(&Response::Started, &[]).unwrap();
        let mut stream = channel.into_stream();
        let watch = stream.try_clone().unwrap();
        let pid = rustix::process::Pid::from_child(&child);
        let killed = Arc::clone(&self.killed);
        std::thread::spawn(move || {
            // Nothing more is sent to a supervisor: this returns when the other side is gone.
            if (&watch).read(&mut [0]).is_ok_and(|read| read == 0)
                && rustix::process::kill_process(pid, rustix::process::Signal::KILL).is_ok()
            {
                *killed.lock().unwrap() += 1;
            }
        });
        let code = child.wait().unwrap().code().unwrap_or(137);
        let line = serde_json::to_string(&Response::Exited { code }).unwrap() + "\n";
        let _ = std::io::Write::write_all(&mut stream, line.as_bytes());
        let _ = stream.shutdown(std::net::Shutdown::Both);
    }
}

fn failed(reason: Failure, message: &str) -> Response {
    Response::Failed {
        reason,
        message: message.to_owned(),
    }
}
