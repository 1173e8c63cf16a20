//! The way out of pods, in a world made for the test: namespaces for the host, what is behind it and a
//! network beside it. No packet leaves them.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use nix::unistd::geteuid;
use serde_json::json;

use crate::plane::{NODE, Plane, phase};
use crate::support::{self, PROGRAM, eventually, open_to_all, program, skip};

/// Set for the test that runs inside.
pub(crate) const INSIDE: &str = "ASTRAGO_TEST_WORLD";

/// Asks each address and says what came back; a way that is closed must say so at once.
const ASK: &str = "import socket, sys, time
for target in sys.argv[1:]:
    host, port = target.rsplit(':', 1)
    begun = time.monotonic()
    try:
        s = socket.create_connection((host, int(port)), 5); s.settimeout(5)
        word = s.makefile().readline().strip() or 'reached'
    except OSError as e:
        word = 'closed'
    print(target, word, 'late' if time.monotonic() - begun > 4 else 'in time', flush=True)
";

pub(crate) fn world(user: bool, strict: bool, test: &str) {
    if !geteuid().is_root() {
        return;
    }
    let missing = ["ip", "nft", "unshare", "nsenter", "setpriv"]
        .into_iter()
        .chain(user.then_some("pasta"))
        .chain(strict.then_some("iptables"))
        .find(|name| {
            !["/usr/sbin", "/usr/bin", "/sbin", "/bin"]
                .iter()
                .any(|folder| Path::new(folder).join(name).exists())
        });
    if let Some(name) = missing {
        return skip(&format!("there is no {name}; scripts/setup installs it"));
    }
    let home = tempfile::tempdir().unwrap();
    open_to_all(home.path());
    let place = |name: &str| home.path().join(name);
    // The build may lie in a home folder that is closed to others.
    std::fs::copy(std::env::current_exe().unwrap(), place("it")).unwrap();
    std::fs::copy(program(), place("supervisor")).unwrap();
    std::fs::write(place("world.sh"), include_str!("world.sh")).unwrap();
    std::fs::write(place("server.py"), include_str!("world.py")).unwrap();
    let mut command = Command::new("unshare");
    command.args([
        "--net",
        "--mount",
        "--pid",
        "--fork",
        "--mount-proc",
        "--kill-child",
    ]);
    command.arg("bash").arg(place("world.sh"));
    if user {
        let drop = ["--reuid=65534", "--regid=65534", "--clear-groups", "--"];
        command.arg("setpriv").args(drop);
        command.env("WORLD_TUNNELS", "1");
    }
    if strict {
        command.env("WORLD_STRICT", "1");
    }
    let output = command
        .arg(place("it"))
        .args(["--exact", test, "--nocapture"])
        .env("WORLD_DIR", home.path())
        .env(INSIDE, home.path())
        .env(PROGRAM, place("supervisor"))
        .env("TMPDIR", home.path())
        .env("HOME", home.path())
        .env(
            "PATH",
            "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        )
        .current_dir("/")
        .output()
        .unwrap();
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(
        output.status.success() && text.contains("seen to the end"),
        "{text}"
    );
}

#[test]
fn as_root_pods_reach_the_world_and_not_the_host() {
    world(false, false, "egress::inside");
}

#[test]
fn a_host_that_forwards_nothing_by_default_lets_pods_through() {
    world(false, true, "egress::inside");
}

#[test]
fn as_an_ordinary_user_pods_reach_the_world_and_not_the_host() {
    world(true, false, "egress::inside");
}

/// What the tests above run in their world.
#[tokio::test(flavor = "multi_thread")]
async fn inside() {
    let Some(home) = std::env::var_os(INSIDE) else {
        return;
    };
    let home = Path::new(&home);
    let root = geteuid().is_root();
    let forwarding = || {
        let text = std::fs::read_to_string("/proc/sys/net/ipv4/conf/up0/forwarding").unwrap();
        text.trim().to_owned()
    };
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let plane = Plane::start().await;
    let open = |options: &mut astrago_node::Options| options.egress = true;
    let agent = plane.agent_with(open).expect("sandboxes are allowed");
    let others: Api<Namespace> = Api::all(plane.client.clone());
    let other = serde_json::from_value(json!({"metadata": {"name": "other"}})).unwrap();
    others.create(&PostParams::default(), &other).await.unwrap();

    // A neighbour of another Kubernetes namespace, which listens.
    let neighbours: Api<Pod> = Api::namespaced(plane.client.clone(), "other");
    let neighbour = json!({"metadata": {"name": "neighbour"}, "spec": {"nodeName": NODE, "containers": [
        {"name": "main", "image": "any", "command": ["python3", "-m", "http.server", "80"]}]}});
    let neighbour = serde_json::from_value(neighbour).unwrap();
    neighbours
        .create(&PostParams::default(), &neighbour)
        .await
        .unwrap();
    let address = loop {
        let pod = neighbours.get("neighbour").await.unwrap();
        if phase(&pod) == "Running" {
            break pod.status.unwrap().pod_ip.unwrap();
        }
        support::pause(10).await;
    };

    let script =
        |targets: &str| format!("cat > /tmp/a.py <<'END'\n{ASK}END\npython3 /tmp/a.py {targets}");
    let closed = [
        format!("198.51.100.2:{port}"),
        format!("192.0.2.1:{port}"),
        format!("172.17.0.1:{port}"),
        format!("127.0.0.1:{port}"),
        "169.254.169.254:80".to_owned(),
        format!("{address}:80"),
    ];
    // From the host all of them are open, but for those that only pods see.
    for target in [&closed[0], &closed[2], &closed[4]] {
        std::net::TcpStream::connect(target.as_str()).unwrap();
    }
    let targets = format!(
        "server.world.test:80 server:80 203.0.113.9:80 {}",
        closed.join(" ")
    );
    let pod = plane.pod("traveller", &script(&targets), json!({})).await;
    let (end, log) = plane.finished("traveller").await;
    let uid = pod.metadata.uid.unwrap();
    let supervisor = astrago_node::layout::PodDir::new(plane.data.path(), &uid).supervisor_log();
    let log = format!(
        "{log}{}",
        std::fs::read_to_string(supervisor).unwrap_or_default()
    );
    let status = plane.api::<Pod>().get("traveller").await.unwrap().status;
    assert_eq!(end, "Succeeded", "{log} {status:?}");
    let node: Node = Api::all(plane.client.clone()).get(NODE).await.unwrap();
    let conditions = node.status.unwrap().conditions.unwrap();
    let egress = conditions
        .iter()
        .find(|one| one.type_ == "astrago.io/Egress")
        .unwrap();
    let want = if root { "Masquerade" } else { "Pasta" };
    assert_eq!(
        (egress.status.as_str(), egress.reason.as_deref()),
        ("True", Some(want)),
        "{egress:?}"
    );
    for name in ["server.world.test", "server", "203.0.113.9"] {
        let line = format!("{name}:80 you are 198.51.100.2 in time\n");
        assert!(log.contains(&line), "{line:?} in {log}");
    }
    for target in &closed {
        assert!(
            log.contains(&format!("{target} closed in time\n")),
            "{target} in {log}"
        );
    }

    // The host has not become a router for others.
    if root {
        assert_eq!(forwarding(), "1");
        let reach = "import socket; socket.create_connection(('192.0.2.9', 80), 2)";
        let world = std::env::var("WORLD_PID").unwrap();
        let passed = Command::new("nsenter")
            .args(["--target", &world, "--net", "python3", "-c", reach])
            .output()
            .unwrap();
        assert!(
            !passed.status.success(),
            "the world reaches the lan through the host"
        );
    }

    // Another node on the same machine comes and goes, and both keep their way out.
    let second = Plane::start().await;
    let guest = second.agent_with(open).unwrap();
    for (place, name) in [(&second, "guest"), (&plane, "beside")] {
        place.pod(name, &script("203.0.113.9:80"), json!({})).await;
        let (_, log) = place.finished(name).await;
        assert!(
            log.contains("you are 198.51.100.2 in time"),
            "{name}: {log}"
        );
    }
    second.delete("guest").await;
    guest.end().await;
    let keeper = second.data.path().join("egress/keeper.lock");
    eventually("the other node's keeper is gone", || {
        let file = std::fs::File::open(&keeper).unwrap();
        let lock = nix::fcntl::Flock::lock(file, nix::fcntl::FlockArg::LockExclusiveNonblock);
        lock.map(drop).map_err(|(_, errno)| errno.to_string())
    });
    plane
        .pod("alone", &script("203.0.113.9:80"), json!({}))
        .await;
    let (_, log) = plane.finished("alone").await;
    assert!(log.contains("you are 198.51.100.2 in time"), "{log}");
    for name in ["beside", "alone"] {
        plane
            .api::<Pod>()
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
    }

    // Names of pods are never asked for outside, nor in reverse.
    let names =
        "import socket; print(socket.gethostbyaddr(socket.gethostbyname(socket.gethostname()))[0])";
    plane
        .pod("named", &format!("python3 -c \"{names}\""), json!({}))
        .await;
    let (_, log) = plane.finished("named").await;
    assert_eq!(log, "named\n");
    let asked = std::fs::read_to_string(home.join("asked")).unwrap();
    assert!(
        !asked.contains("named") && !asked.contains("arpa"),
        "{asked}"
    );

    // It stays open while the agent is away, and as it is when the next one comes.
    let waits = format!(
        "until [ -e /go/go ]; do sleep 0.05; done; {}",
        script("203.0.113.9:80")
    );
    let volume = json!({
        "container": {"volumeMounts": [{"name": "go", "mountPath": "/go"}]},
        "spec": {"volumes": [{"name": "go", "emptyDir": {}}]},
    });
    let pod = plane.pod("waiting", &waits, volume).await;
    plane
        .until("waiting", "runs", |pod| phase(pod) == "Running")
        .await;
    agent.end().await;
    let uid = pod.metadata.uid.unwrap();
    let go = astrago_node::layout::PodDir::new(plane.data.path(), &uid).volume("go");
    std::fs::write(go.join("go"), "").unwrap();
    let logs = astrago_node::layout::pod_logs(plane.data.path(), "default", "waiting", &uid);
    eventually("the pod gets out without an agent", || {
        let log = support::read_log(&logs.join("main/0.log"));
        if log.contains("you are 198.51.100.2") {
            Ok(())
        } else {
            Err(log)
        }
    });
    let agent = plane.agent_with(open).unwrap();
    plane.finished("waiting").await;
    plane
        .pod("after", &script("203.0.113.9:80"), json!({}))
        .await;
    let (_, log) = plane.finished("after").await;
    assert!(log.contains("you are 198.51.100.2 in time"), "{log}");

    neighbours
        .delete(
            "neighbour",
            &DeleteParams {
                grace_period_seconds: Some(0),
                ..DeleteParams::default()
            },
        )
        .await
        .unwrap();
    for name in ["traveller", "named", "waiting", "after"] {
        plane
            .api::<Pod>()
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
    }
    plane.gone("traveller").await;
    agent.end().await;
    eventually("everything is taken away", || {
        let links = Command::new("ip").args(["-o", "link"]).output().unwrap();
        let links = String::from_utf8_lossy(&links.stdout).into_owned();
        let rules = Command::new("nft")
            .args(["list", "ruleset"])
            .output()
            .unwrap();
        let rules = String::from_utf8_lossy(&rules.stdout).into_owned();
        let processes = processes("--egress") + processes("pasta");
        if links.contains("astrago")
            || rules.contains("astrago")
            || processes > 0
            || forwarding() != "0"
        {
            return Err(format!("{links}{rules}{processes} processes"));
        }
        Ok(())
    });

    // Switched off, there is no way out, and names outside are not found at once.
    let agent = plane.agent().unwrap();
    plane
        .pod(
            "shut",
            &script("203.0.113.9:80 server.world.test:80"),
            json!({}),
        )
        .await;
    let (_, log) = plane.finished("shut").await;
    assert_eq!(
        log,
        "203.0.113.9:80 closed in time\nserver.world.test:80 closed in time\n"
    );
    plane.delete("shut").await;
    agent.end().await;
    println!("seen to the end");
}

/// How many processes have this word in their command line.
fn processes(word: &str) -> usize {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    all.filter(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        line.contains(word) && !line.contains("world.sh") && !line.contains("--exact")
    })
    .count()
}
