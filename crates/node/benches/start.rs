//! From a bound pod to the first instruction of its container, next to what else can be done on the same
//! machine: a bare fork and exec, bubblewrap, crun. Then many pods at once, and what a supervisor weighs.
//!
//! Every way runs the same program, which tells the time at which it began.

#![expect(clippy::print_stdout, reason = "a benchmark speaks to its reader")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use astrago_apiserver::{Identity, Options as ServerOptions, Server};
use astrago_node::launch::{self, Bridges, Launcher};
use astrago_node::layout::{self, PodDir};
use astrago_node::logs;
use astrago_node::spec::{ContainerSpec, Limits, Network, PodSpec, RestartPolicy};
use astrago_node::state::State;
use futures::TryStreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio_util::sync::CancellationToken;

type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

const PROGRAM: &str = env!("CARGO_BIN_EXE_astrago-supervise");
const ROUNDS: usize = 60;
const PATIENCE: Duration = Duration::from_mins(3);
/// Tells the time in nanoseconds as soon as it runs.
const CLOCK: [&str; 2] = ["date", "+%s%N"];
const NODE: &str = "bench";

fn main() -> Result<()> {
    // `cargo test` runs benchmarks, too, to see that they work.
    let quick = !std::env::args().any(|argument| argument == "--bench");
    let rounds = if quick { 2 } else { ROUNDS };
    let pods = if quick { 3 } else { 200 };
    if let Err(error) = Bridges::obtain(Path::new(PROGRAM), []) {
        println!("skipped: no sandboxes on this machine: {error}");
        return Ok(());
    }
    println!("start to first instruction, ms           p50      p99");
    report("fork and exec", rounds, bare)?;
    if has("bwrap") {
        report("bubblewrap", rounds, bubblewrap)?;
    }
    if has("crun") && rustix::process::geteuid().is_root() {
        let bundle = Bundle::new()?;
        report("crun", rounds, || bundle.run())?;
    }
    let supervised = Supervised::new()?;
    report("a pod, from its spec", rounds, || {
        supervised.run(Network::None)
    })?;
    let bridge = || Network::Bridge {
        bridge: "ns0".into(),
        address: [10, 224, 0, 2].into(),
        prefix: 22,
        gateway: None,
    };
    report("a pod with an address, from its spec", rounds, || {
        supervised.run(bridge())
    })?;
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        let plane = Plane::start().await?;
        let mut times = Vec::new();
        for _ in 0..rounds {
            times.push(plane.one().await?);
        }
        show("a pod, from its object in the API", times);
        plane.flood(if quick { 8 } else { 2048 }).await?;
        plane.many(pods).await?;
        plane.end().await;
        Ok(())
    })
}

fn has(program: &str) -> bool {
    let found = Command::new("sh")
        .args(["-c", &format!("command -v {program}")])
        .output();
    let found = found.is_ok_and(|output| output.status.success());
    if !found {
        println!("{program:<36} not installed");
    }
    found
}

fn report(name: &str, rounds: usize, mut run: impl FnMut() -> Result<Duration>) -> Result<()> {
    run()?;
    let times = (0..rounds).map(|_| run()).collect::<Result<Vec<_>>>()?;
    show(name, times);
    Ok(())
}

fn show(name: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() * percent / 100).min(times.len() - 1)];
    let milliseconds = |time: Duration| time.as_secs_f64() * 1000.0;
    println!(
        "{name:<36} {:>8.2} {:>8.2}",
        milliseconds(at(50)),
        milliseconds(at(99))
    );
}

/// How long after `begun` the program says that it ran.
fn since(begun: SystemTime, said: &str) -> Result<Duration> {
    let nanoseconds: u64 = said.trim().parse()?;
    let at = SystemTime::UNIX_EPOCH + Duration::from_nanos(nanoseconds);
    Ok(at.duration_since(begun)?)
}

fn time(command: &mut Command) -> Result<Duration> {
    let begun = SystemTime::now();
    let output = command.stdin(Stdio::null()).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    since(begun, &String::from_utf8_lossy(&output.stdout))
}

fn bare() -> Result<Duration> {
    time(Command::new(CLOCK[0]).args(&CLOCK[1..]))
}

fn bubblewrap() -> Result<Duration> {
    let flags = [
        "--unshare-all",
        "--ro-bind",
        "/usr",
        "/usr",
        "--proc",
        "/proc",
        "--dev",
        "/dev",
    ];
    let mut command = Command::new("bwrap");
    command.args(flags);
    for name in ["/bin", "/lib", "/lib64", "/etc"] {
        command.args(["--ro-bind", name, name]);
    }
    time(command.args(["--tmpfs", "/tmp"]).args(CLOCK))
}

/// What crun runs: the same folders of the host in the same namespaces.
struct Bundle(tempfile::TempDir);

impl Bundle {
    fn new() -> Result<Self> {
        let bundle = tempfile::tempdir()?;
        std::fs::create_dir(bundle.path().join("rootfs"))?;
        let made = Command::new("crun")
            .arg("spec")
            .current_dir(bundle.path())
            .status()?;
        if !made.success() {
            return Err("crun makes no spec".into());
        }
        let path = bundle.path().join("config.json");
        let mut config: serde_json::Value = serde_json::from_slice(&std::fs::read(&path)?)?;
        config["process"]["terminal"] = json!(false);
        config["process"]["args"] = json!(CLOCK);
        let mounts = config["mounts"].as_array_mut().ok_or("no mounts")?;
        for name in ["/usr", "/bin", "/lib", "/lib64", "/etc"] {
            let options = ["rbind", "ro"];
            mounts.insert(
                0,
                json!({"destination": name, "type": "none", "source": name, "options": options}),
            );
        }
        std::fs::write(path, config.to_string())?;
        Ok(Self(bundle))
    }

    /// Where both versions of cgroups are mounted crun refuses to work, so the second is taken out of its sight
    /// before the clock starts.
    fn run(&self) -> Result<Duration> {
        let id = format!("astrago-bench-{}", rand::random::<u32>());
        let script = format!(
            "umount /sys/fs/cgroup/unified 2>/dev/null; {}; exec crun run {id}",
            CLOCK.join(" ")
        );
        let output = Command::new("unshare")
            .args(["--mount", "sh", "-c", &script])
            .current_dir(self.0.path())
            .stdin(Stdio::null())
            .output()?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into());
        }
        let said = String::from_utf8(output.stdout)?;
        let (begun, ran) = said.trim().split_once('\n').ok_or("crun said nothing")?;
        let begun = SystemTime::UNIX_EPOCH + Duration::from_nanos(begun.parse()?);
        since(begun, ran)
    }
}

/// Pods without an agent.
struct Supervised {
    data: tempfile::TempDir,
    launcher: Launcher,
}

impl Supervised {
    fn new() -> Result<Self> {
        Ok(Self {
            data: tempfile::tempdir()?,
            launcher: Launcher::new(Path::new(PROGRAM), Bridges::obtain(Path::new(PROGRAM), [])?),
        })
    }

    fn run(&self, network: Network) -> Result<Duration> {
        let uid = format!("{:016x}", rand::random::<u64>());
        let log_dir = layout::pod_logs(self.data.path(), "default", "bench", &uid);
        let spec = PodSpec {
            namespace: "default".into(),
            name: "bench".into(),
            hostname: "bench".into(),
            restart_policy: RestartPolicy::Never,
            grace_seconds: 0,
            active_deadline_seconds: None,
            network,
            limits: Limits::default(),
            init_containers: Vec::new(),
            containers: vec![ContainerSpec {
                name: "main".into(),
                argv: CLOCK.map(str::to_owned).to_vec(),
                env: vec![("PATH".into(), "/usr/bin:/bin".into())],
                working_dir: "/workspace".into(),
                ..ContainerSpec::default()
            }],
            egress: None,
            relay: None,
            storage: Vec::new(),
            gpus: Vec::new(),
            log_dir: log_dir.clone(),
            uid: uid.clone(),
        };
        let dir = PodDir::new(self.data.path(), &uid);
        std::fs::create_dir_all(dir.path())?;
        std::fs::write(dir.spec(), serde_json::to_vec(&spec)?)?;
        let begun = SystemTime::now();
        self.launcher.start(&dir)?;
        let finished = || {
            State::read(&dir.state())
                .is_ok_and(|state| state.is_some_and(|it| it.phase.is_finished()))
        };
        wait(|| finished() && !launch::is_supervised(&dir))?;
        let took = since(begun, &last_word(&log_dir)?)?;
        launch::remove(&dir, &uid)?;
        Ok(took)
    }
}

fn last_word(log_dir: &Path) -> Result<String> {
    let text = std::fs::read_to_string(log_dir.join("main/0.log"))?;
    let word = text.lines().next().and_then(|line| line.split(' ').nth(3));
    Ok(word.ok_or("the container said nothing")?.to_owned())
}

fn wait(done: impl Fn() -> bool) -> Result<()> {
    let begun = Instant::now();
    while !done() {
        if begun.elapsed() > PATIENCE {
            return Err("waited in vain".into());
        }
        std::thread::park_timeout(Duration::from_millis(1));
    }
    Ok(())
}

/// An API server and a node.
struct Plane {
    client: Client,
    data: tempfile::TempDir,
    token: CancellationToken,
    node: tokio::task::JoinHandle<()>,
    _server: Server,
    _objects: tempfile::TempDir,
}

impl Plane {
    async fn start() -> Result<Self> {
        let (objects, data) = (tempfile::tempdir()?, tempfile::tempdir()?);
        let server = Server::open(ServerOptions::new(objects.path())).await?;
        let client = Client::new(server.local(Identity::admin()), "default");
        let mut options = astrago_node::Options::new(data.path());
        options.node_name = NODE.into();
        options.supervisor = PathBuf::from(PROGRAM);
        let token = CancellationToken::new();
        let running = astrago_node::run(client.clone(), options, token.clone());
        let node = tokio::spawn(async move {
            if let Err(error) = running.await {
                println!("the node ended: {error}");
            }
        });
        let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(client.clone());
        while nodes.get_opt(NODE).await?.is_none() {
            tokio::task::yield_now().await;
        }
        Ok(Self {
            client,
            data,
            token,
            node,
            _server: server,
            _objects: objects,
        })
    }

    fn pods(&self) -> Api<Pod> {
        Api::default_namespaced(self.client.clone())
    }

    async fn create(&self, name: &str, command: &[&str]) -> Result<Pod> {
        let pod = json!({"metadata": {"name": name}, "spec": {"nodeName": NODE, "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "any", "command": command}]}});
        let pod = serde_json::from_value(pod)?;
        Ok(self.pods().create(&PostParams::default(), &pod).await?)
    }

    async fn one(&self) -> Result<Duration> {
        let begun = SystemTime::now();
        let pod = self.create("one", &CLOCK).await?;
        let uid = pod.uid().unwrap_or_default();
        self.until(|pods| pods.iter().all(|pod| phase(pod) == "Succeeded"))
            .await?;
        let logs = layout::pod_logs(self.data.path(), "default", "one", &uid);
        let took = since(begun, &last_word(&logs)?)?;
        self.pods().delete("one", &DeleteParams::default()).await?;
        self.until(<[Pod]>::is_empty).await?;
        Ok(took)
    }

    async fn many(&self, count: usize) -> Result<()> {
        let begun = Instant::now();
        for index in 0..count {
            self.create(&format!("many-{index}"), &["sleep", "1000"])
                .await?;
        }
        self.until(|pods| pods.len() == count && pods.iter().all(|pod| phase(pod) == "Running"))
            .await?;
        println!(
            "{count} pods at once: all run after {:.2} s",
            begun.elapsed().as_secs_f64()
        );
        let all = supervisors(self.data.path());
        let kibibytes = |key: &str| {
            all.iter().map(|pid| memory(pid, key)).sum::<u64>() / (all.len().max(1) as u64)
        };
        println!(
            "{} supervisors, each: {} KiB private, {} KiB proportional",
            all.len(),
            kibibytes("Private_Clean:") + kibibytes("Private_Dirty:"),
            kibibytes("Pss:")
        );
        let begun = Instant::now();
        self.pods()
            .delete_collection(&DeleteParams::default(), &ListParams::default())
            .await?;
        self.until(<[Pod]>::is_empty).await?;
        wait(|| supervisors(self.data.path()).is_empty())?;
        println!(
            "{count} pods deleted after {:.2} s",
            begun.elapsed().as_secs_f64()
        );
        Ok(())
    }

    /// Follows a container that writes as fast as it can, as `logs -f` does.
    async fn flood(&self, mebibytes: usize) -> Result<()> {
        let program = format!(
            "import os\nline = b'x' * 127 + b'\\n'\nfor _ in range({mebibytes}): os.write(1, line * 8192)"
        );
        let pod = self.create("flood", &["python3", "-c", &program]).await?;
        let uid = pod.uid().unwrap_or_default();
        let folder = layout::pod_logs(self.data.path(), "default", "flood", &uid).join("main");
        wait(|| folder.join("0.log").exists())?;
        let own = Path::new("/proc/self");
        let (begun, before) = (Instant::now(), memory(own, "Private_Dirty:"));
        let options = logs::Options {
            follow: true,
            ..logs::Options::default()
        };
        let mut output = Box::pin(logs::stream(&folder, 0, options).await?);
        let (mut bytes, mut heaviest, mut most) = (0, 0, 0);
        let mut looked = Instant::now();
        while let Some(chunk) = output.try_next().await? {
            bytes += chunk.len();
            if looked.elapsed() > Duration::from_millis(200) {
                looked = Instant::now();
                let supervisors = supervisors(self.data.path());
                let weights = supervisors.iter().map(|it| memory(it, "Private_Dirty:"));
                heaviest = weights.max().unwrap_or(0).max(heaviest);
                most = memory(own, "Private_Dirty:").max(most);
            }
        }
        #[expect(
            clippy::cast_precision_loss,
            reason = "it is rounded for people anyway"
        )]
        let rate = bytes as f64 / 1e6 / begun.elapsed().as_secs_f64();
        println!(
            "logs -f: {mebibytes} MiB written, {} read, {rate:.0} MB/s; supervisor at most {heaviest} KiB, reader {before} KiB before and {most} KiB at most",
            bytes >> 20
        );
        self.until(|pods| pods.iter().all(|pod| phase(pod) == "Succeeded"))
            .await?;
        self.pods()
            .delete("flood", &DeleteParams::default())
            .await?;
        self.until(<[Pod]>::is_empty).await
    }

    async fn until(&self, wanted: impl Fn(&[Pod]) -> bool) -> Result<()> {
        let begun = Instant::now();
        loop {
            if wanted(&self.pods().list(&ListParams::default()).await?.items) {
                return Ok(());
            }
            if begun.elapsed() > PATIENCE {
                return Err("waited in vain".into());
            }
            let _ =
                tokio::time::timeout(Duration::from_millis(5), std::future::pending::<()>()).await;
        }
    }

    async fn end(self) {
        self.token.cancel();
        let _ = self.node.await;
    }
}

fn phase(pod: &Pod) -> &str {
    let status = pod.status.as_ref();
    status
        .and_then(|status| status.phase.as_deref())
        .unwrap_or("")
}

/// The supervisors of a data folder, as folders of `/proc`.
fn supervisors(data: &Path) -> Vec<PathBuf> {
    let mark = data.display().to_string();
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let ours = all.map(|entry| entry.path()).filter(|path| {
        let line = std::fs::read(path.join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(&mark)
    });
    ours.collect()
}

/// A line of a process's memory, in KiB.
fn memory(process: &Path, key: &str) -> u64 {
    let text = std::fs::read_to_string(process.join("smaps_rollup")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}
