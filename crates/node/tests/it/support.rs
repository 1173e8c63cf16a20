//! Pods for tests: a spec goes in, a state and logs come out.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use astrago_node::launch::{self, Bridges, Launcher};
use astrago_node::layout::{self, PodDir};
use astrago_node::spec::{ContainerSpec, Limits, Network, PodSpec, RestartPolicy};
use astrago_node::state::{State, Terminated};
use tempfile::TempDir;

/// How long anything may take before a test fails.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// A node's folder and networks, without an agent.
pub(crate) struct Bench {
    pub(crate) data: TempDir,
    pub(crate) launcher: Launcher,
}

/// A pod that was started; removed with all it has when dropped.
pub(crate) struct Pod {
    pub(crate) dir: PodDir,
    pub(crate) spec: PodSpec,
}

/// Says why a test cannot run here; under CI that is a failure.
pub(crate) fn skip(reason: &str) {
    println!("skipped: {reason}");
    assert!(
        std::env::var_os("CI").is_none(),
        "cannot be skipped under CI: {reason}"
    );
}

/// Names the supervisor's program where the one of the build cannot be reached.
pub(crate) const PROGRAM: &str = "ASTRAGO_TEST_SUPERVISOR";

pub(crate) fn program() -> &'static Path {
    static FOUND: LazyLock<PathBuf> = LazyLock::new(|| {
        std::env::var_os(PROGRAM).map_or_else(
            || env!("CARGO_BIN_EXE_astrago-supervise").into(),
            PathBuf::from,
        )
    });
    &FOUND
}

impl Bench {
    /// `None`, said aloud, where the machine allows no sandboxes.
    pub(crate) fn new() -> Option<Self> {
        let data = tempfile::tempdir().unwrap();
        match Bridges::obtain(program(), []) {
            Ok(bridges) => Some(Self {
                data,
                launcher: Launcher::new(program(), bridges),
            }),
            Err(error) => {
                skip(&format!("no sandboxes on this machine: {error}"));
                None
            }
        }
    }

    /// A pod with one container that runs a shell script.
    pub(crate) fn spec(&self, name: &str, script: &str) -> PodSpec {
        let uid = format!("{name}-{:08x}", rand::random::<u32>());
        PodSpec {
            namespace: "default".into(),
            name: name.into(),
            hostname: name.into(),
            log_dir: layout::pod_logs(self.data.path(), "default", name, &uid),
            uid,
            restart_policy: RestartPolicy::Never,
            grace_seconds: 5,
            active_deadline_seconds: None,
            network: Network::None,
            limits: Limits::default(),
            init_containers: Vec::new(),
            containers: vec![shell("main", script)],
            egress: None,
            relay: None,
            storage: Vec::new(),
            gpus: Vec::new(),
        }
    }

    pub(crate) fn start(&self, spec: PodSpec) -> Pod {
        let dir = PodDir::new(self.data.path(), &spec.uid);
        std::fs::create_dir_all(dir.path()).unwrap();
        std::fs::write(dir.spec(), serde_json::to_vec(&spec).unwrap()).unwrap();
        let pod = Pod { dir, spec };
        self.launch(&pod);
        pod
    }

    pub(crate) fn launch(&self, pod: &Pod) {
        self.launcher.start(&pod.dir).unwrap();
    }

    /// Runs a script to its end: how it ended and what it said.
    pub(crate) fn run(&self, name: &str, script: &str) -> (Terminated, String) {
        let pod = self.start(self.spec(name, script));
        let end = pod.finished().containers[0].terminated().cloned().unwrap();
        (end, pod.log("main", 0))
    }
}

/// A container that runs a shell script.
pub(crate) fn shell(name: &str, script: &str) -> ContainerSpec {
    ContainerSpec {
        name: name.into(),
        argv: ["bash", "-c", script].map(str::to_owned).to_vec(),
        env: vec![
            (
                "PATH".into(),
                "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin".into(),
            ),
            ("HOME".into(), "/root".into()),
        ],
        working_dir: "/workspace".into(),
        limits: Limits {
            pids: Some(256),
            ..Limits::default()
        },
        ..ContainerSpec::default()
    }
}

impl Pod {
    pub(crate) fn state(&self) -> State {
        State::read(&self.dir.state()).unwrap().unwrap_or_default()
    }

    /// Waits until the state is as wanted.
    pub(crate) fn until(&self, what: &str, wanted: impl Fn(&State) -> bool) -> State {
        eventually(&format!("{}: {what}", self.spec.name), || {
            let state = self.state();
            if wanted(&state) {
                Ok(state)
            } else {
                Err(format!("{state:?}"))
            }
        })
    }

    /// Waits for the end of the pod and of its supervisor.
    pub(crate) fn finished(&self) -> State {
        let state = self.until("is finished", |state| state.phase.is_finished());
        self.unsupervised();
        state
    }

    pub(crate) fn unsupervised(&self) {
        eventually("the supervisor is gone", || {
            if launch::is_supervised(&self.dir) {
                Err("it has the lock".to_owned())
            } else {
                Ok(())
            }
        });
    }

    /// What a container wrote.
    pub(crate) fn log(&self, container: &str, attempt: u32) -> String {
        read_log(
            &self
                .spec
                .log_dir
                .join(container)
                .join(format!("{attempt}.log")),
        )
    }

    /// Waits until a container has written a line.
    pub(crate) fn until_logged(&self, container: &str, attempt: u32, text: &str) {
        eventually(&format!("{} writes {text:?}", self.spec.name), || {
            let log = self.log(container, attempt);
            if log.contains(text) {
                Ok(())
            } else {
                Err(format!("{log}\n{:?}", self.state()))
            }
        });
    }

    pub(crate) fn stop(&self, grace_seconds: u64) {
        launch::stop(&self.dir, Some(grace_seconds)).unwrap();
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        let _ = launch::stop(&self.dir, Some(0));
        if !std::thread::panicking() {
            self.unsupervised();
        }
        let _ = launch::remove(&self.dir, &self.spec.uid);
    }
}

/// Lets everybody write in a folder.
pub(crate) fn open_to_all(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
}

/// Repeats until it succeeds; fails with the last reason when patience ends.
pub(crate) fn eventually<T>(what: &str, attempt: impl Fn() -> Result<T, String>) -> T {
    let begun = Instant::now();
    loop {
        match attempt() {
            Ok(value) => return value,
            Err(reason) => {
                assert!(
                    begun.elapsed() < PATIENCE,
                    "waited in vain until {what}; last: {reason}"
                );
                std::thread::park_timeout(Duration::from_millis(5));
            }
        }
    }
}

/// What stands in a log file, without the log's own prefix.
pub(crate) fn read_log(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let mut content = String::new();
    for line in text.lines() {
        let mut words = line.splitn(4, ' ');
        let (tag, rest) = (words.nth(2).unwrap_or("F"), words.next().unwrap_or(""));
        content.push_str(rest);
        if tag == "F" {
            content.push('\n');
        }
    }
    content
}

/// Lets a moment pass between two looks at a condition.
pub(crate) async fn pause(milliseconds: u64) {
    let moment = Duration::from_millis(milliseconds);
    let _ = tokio::time::timeout(moment, std::future::pending::<()>()).await;
}
