//! The kubelet's endpoints on real pods: logs and programs of a container in its sandbox.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::Stdio;

use crate::kubelet::{Kubelet, kubectls};
use crate::support::{Bench, Pod, skip};

/// A kubelet over the bench's folder, in which a pod `default/<name>` runs.
async fn kubelet(bench: &Bench) -> Kubelet {
    Kubelet::over(bench.data.path(), "default").await
}

fn start(bench: &Bench, name: &str, script: &str) -> Pod {
    let pod = bench.start(bench.spec(name, script));
    pod.until_logged("main", 0, "ready");
    pod
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_runs_in_the_containers_sandbox() {
    let Some(bench) = Bench::new() else { return };
    let pod = start(&bench, "exec", "echo ready; export X=1; exec sleep 1000");
    let kubelet = kubelet(&bench).await;
    for kubectl in kubectls() {
        let script = "hostname; cat; ls /proc | grep -c '^1$'; echo oops >&2; exit 5";
        let arguments = ["exec", "-i", "exec", "-c", "main", "--", "sh", "-c", script];
        let mut command = kubelet.kubectl(&kubectl, &arguments);
        let output = tokio::task::spawn_blocking(move || {
            let mut child = command
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let mut stdin = child.stdin.take().unwrap();
            std::io::Write::write_all(&mut stdin, b"through\n").unwrap();
            drop(stdin);
            child.wait_with_output().unwrap()
        })
        .await
        .unwrap();
        let (out, err) = (
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        assert_eq!(out, "exec\nthrough\n1\n", "{kubectl:?}: {err}");
        // Before it kubectl may tell that it was not ready for the message that says that the streams are up.
        assert!(err.contains("oops\n"), "{err}");
        assert_eq!(output.status.code(), Some(5), "{err}");
    }
    drop(pod);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_in_a_sandbox_is_the_programs_own() {
    let Some(bench) = Bench::new() else { return };
    if !std::path::Path::new("/usr/bin/script").exists() {
        skip("there is no script(1)");
        return;
    }
    let pod = start(&bench, "tty", "echo ready; exec sleep 1000");
    let kubelet = kubelet(&bench).await;
    for kubectl in kubectls() {
        // Job control needs a controlling terminal.
        let program = "test -t 0 && set -m && sleep 0 & wait; stty size; test -c \"$(tty)\" && tty; echo done";
        let arguments = [
            "exec", "-it", "tty", "-c", "main", "--", "bash", "-c", program,
        ];
        let output = kubelet.in_terminal(&kubectl, &arguments).await;
        // script(1) may end its input with a NUL, which the terminal echoes.
        let shown = String::from_utf8_lossy(&output.stdout).replace("^@", "");
        assert!(output.status.success(), "{kubectl:?}: {shown}");
        assert!(shown.contains("\r\n/dev/pts/0\r\ndone\r\n"), "{shown}");
        assert!(!shown.contains("no job control"), "{shown}");
    }
    drop(pod);
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_of_a_real_container_are_followed_to_its_end() {
    let Some(bench) = Bench::new() else { return };
    let Some(kubectl) = kubectls().pop() else {
        return;
    };
    let script = "echo ready; for i in $(seq 20000); do echo line $i; done; printf end";
    let pod = start(&bench, "logs", script);
    let kubelet = kubelet(&bench).await;
    let mut command = kubelet.kubectl(&kubectl, &["logs", "-f", "logs", "-c", "main"]);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap())
        .await
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let want: Vec<String> = (1..=20000).map(|number| format!("line {number}")).collect();
    let got: Vec<&str> = text.lines().collect();
    assert_eq!(got.first(), Some(&"ready"));
    assert_eq!(got.last(), Some(&"end"));
    assert!(got[1..got.len() - 1] == want[..], "{} lines", got.len());
    pod.finished();
}

/// As many bytes as do not fit into any buffer on the way, back from a server in a pod that is asked
/// several times at once; and an answer for a port at which nobody listens.
#[tokio::test(flavor = "multi_thread")]
async fn a_port_of_a_pod_is_reached_from_here() {
    const SERVER: &str = r#"
import socketserver
class Twice(socketserver.StreamRequestHandler):
    def handle(self):
        line = self.rfile.readline()
        self.wfile.write(line * (4 << 20))
server = socketserver.ThreadingTCPServer(("127.0.0.1", 6006), Twice)
print("ready", flush=True)
server.serve_forever()
"#;
    let Some(bench) = Bench::new() else { return };
    let pod = start(&bench, "web", &format!("exec python3 -c '{SERVER}'"));
    let kubelet = kubelet(&bench).await;
    for kubectl in kubectls() {
        let mut command = kubelet.kubectl(&kubectl, &["port-forward", "web", ":6006", ":6007"]);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut forward = command.spawn().unwrap();
        let mut lines = BufReader::new(forward.stdout.take().unwrap()).lines();
        let mut errors = BufReader::new(forward.stderr.take().unwrap()).lines();
        let tried = tokio::task::spawn_blocking(move || {
            let mut port_of = |target: &str| -> u16 {
                // "Forwarding from 127.0.0.1:41311 -> 6006", and the same for ::1 where there is IPv6.
                let is_it = |line: &String| line.contains("127.0.0.1") && line.ends_with(target);
                let line = lines.by_ref().map_while(Result::ok).find(is_it);
                let line = line.expect("kubectl says where it listens");
                let (_, rest) = line.split_once("127.0.0.1:").unwrap();
                rest.split(' ').next().unwrap().parse().unwrap()
            };
            let (open, closed) = (port_of("6006"), port_of("6007"));
            let ask = |word: &'static str| {
                std::thread::spawn(move || {
                    let mut connection = TcpStream::connect(("127.0.0.1", open)).unwrap();
                    writeln!(connection, "{word}").unwrap();
                    let mut answer = Vec::new();
                    connection.read_to_end(&mut answer).unwrap();
                    let line = format!("{word}\n");
                    assert_eq!(answer.len(), line.len() << 22);
                    assert!(
                        answer
                            .chunks(line.len())
                            .all(|chunk| chunk == line.as_bytes())
                    );
                })
            };
            let asked = ["a", "bc", "def"].map(ask);
            for one in asked {
                one.join().unwrap();
            }
            drop(TcpStream::connect(("127.0.0.1", closed)).unwrap());
            let mut refused = errors.by_ref().map_while(Result::ok);
            refused.any(|line| line.contains("does something listen there?"))
        });
        assert!(tried.await.unwrap(), "{kubectl:?} told why");
        forward.kill().unwrap();
        forward.wait().unwrap();
    }
    drop(pod);
}
