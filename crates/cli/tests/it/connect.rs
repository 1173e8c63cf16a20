//! Into a worker: a program, a shell and a port of it, for whoever may and only as long as they may.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::harness::target::{Target, applies};
use crate::harness::{Up, astrago, can_run_pods, exchange};

/// Answers on port 8000 with its rank.
const TRAIN: &str = r#"
import http.server, os

class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"rank " + os.environ["RANK"].encode())

http.server.HTTPServer(("", 8000), Answer).serve_forever()
"#;

fn token(up: &Up, flags: &[&str]) -> String {
    let made = up.run(&[&["user", "add", "-o", "json"], flags].concat());
    let made: Value = serde_json::from_slice(&made.stdout).unwrap();
    made["token"].as_str().unwrap().to_owned()
}

fn client(up: &Up, token: &str, arguments: &[&str]) -> Command {
    let mut command = astrago();
    command
        .envs(up.client())
        .env("ASTRAGO_TOKEN", token)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn with_input(mut command: Command, input: &str) -> Output {
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        // A program that refuses reads nothing.
        scope.spawn(move || drop(stdin.write_all(input.as_bytes())));
        child.wait_with_output().unwrap()
    })
}

#[test]
fn a_worker_is_entered_by_its_owner_alone_and_only_as_long_as_they_may() {
    if !can_run_pods() || !applies(Target::is_embedded, "users come from `up`") {
        return;
    }
    let up = Up::start(&[]);
    let (kim, lee) = (token(&up, &["kim"]), token(&up, &["lee"]));
    let script = up.folder.path().join("train.py");
    std::fs::write(&script, TRAIN).unwrap();
    let script = script.to_str().unwrap();
    let submit = [
        "run", script, "--nodes", "2", "--name", "entered", "--detach",
    ];
    let submitted = with_input(client(&up, &kim, &submit), "");
    assert!(submitted.status.success(), "{submitted:?}");

    // Its streams and its exit code are those of the program.
    let program = "echo \"rank $RANK\"; cat; echo wrong >&2; exit 7";
    let exec = [
        "exec", "entered", "--worker", "1", "--", "sh", "-c", program,
    ];
    let output = up.eventually("the worker is entered", |up| {
        let output = with_input(client(up, &kim, &exec), "typed\n");
        match output.status.code() {
            Some(7) => Ok(output),
            _ => Err(String::from_utf8_lossy(&output.stderr).into()),
        }
    });
    assert_eq!(String::from_utf8_lossy(&output.stdout), "rank 1\ntyped\n");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "wrong\n");

    // What goes in does not wait for what comes out.
    let much = "0123456789abcde\n".repeat(1 << 19);
    let echo = ["exec", "entered", "--worker", "1", "--", "cat"];
    let output = with_input(client(&up, &kim, &echo), &much);
    assert!(
        output.stdout == much.as_bytes(),
        "{} bytes",
        output.stdout.len()
    );

    // A shell has a terminal of its own, as large as ours.
    let entered = client(&up, &kim, &[]).get_program().to_owned();
    let shell = format!("stty cols 91 rows 33; {} shell entered", entered.display());
    let mut terminal = client(&up, &kim, &[]);
    let environment: Vec<_> = terminal
        .get_envs()
        .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())))
        .collect();
    terminal = Command::new("script");
    terminal
        .envs(environment)
        .args(["-qefc", &shell, "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let output = with_input(terminal, "tty; stty size; exit 3\n");
    let shown = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{shown}");
    assert!(shown.contains("/dev/pts/"), "{shown}");
    assert!(shown.contains("33 91"), "{shown}");

    // Files and folders go in and out, and nothing else of this machine is touched.
    let copy = |from: &str, to: &str| {
        let output = with_input(client(&up, &kim, &["cp", from, to, "--worker", "1"]), "");
        assert_eq!(output.status.code(), Some(0), "{output:?}");
    };
    let data = up.folder.path().join("data-set");
    std::fs::create_dir_all(data.join("deep")).unwrap();
    std::fs::write(data.join("deep/large"), vec![7; 3_000_000]).unwrap();
    copy(data.to_str().unwrap(), "entered:/tmp/copied");
    let back = up.folder.path().join("back");
    copy("entered:/tmp/copied", back.to_str().unwrap());
    assert_eq!(
        std::fs::read(back.join("deep/large")).unwrap().len(),
        3_000_000
    );
    let missing = ["cp", "entered:/tmp/missing", back.to_str().unwrap()];
    let output = with_input(client(&up, &kim, &missing), "");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(!back.join("missing").exists());
    // What cannot be written here is an error, although the program there has done its work.
    let nowhere = up.folder.path().join("no-such-folder/copied");
    let nowhere = [
        "cp",
        "entered:/tmp/copied",
        nowhere.to_str().unwrap(),
        "--worker",
        "1",
    ];
    let output = with_input(client(&up, &kim, &nowhere), "");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    copy(script, "entered:/tmp");
    let show = [
        "exec",
        "entered",
        "--worker",
        "1",
        "--",
        "cat",
        "/tmp/train.py",
    ];
    let output = with_input(client(&up, &kim, &show), "");
    assert_eq!(String::from_utf8_lossy(&output.stdout), TRAIN);

    let forward = ["port-forward", "entered", "0:8000", "--worker", "1"];
    let mut forwarding = client(&up, &kim, &forward).spawn().unwrap();
    let mut line = String::new();
    let mut words = BufReader::new(forwarding.stdout.take().unwrap());
    words.read_line(&mut line).unwrap();
    let address = line.split_whitespace().nth(1).unwrap();
    let request = "GET / HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n";
    for _ in 0..2 {
        let mut stream = TcpStream::connect(address).unwrap();
        let answer = exchange(&mut stream, request).unwrap();
        assert!(answer.ends_with("rank 1"), "{answer}");
    }
    forwarding.kill().unwrap();
    forwarding.wait().unwrap();

    let namespace = ["-n", "user-kim", "exec", "entered", "--", "true"];
    let output = with_input(client(&up, &lee, &namespace), "");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let (_, audit) = up.request("GET", "/api/audit", None, &[&up.bearer()]);
    let entries = audit["items"].as_array().unwrap();
    let noted = |user: &str, status: u16| {
        entries.iter().any(|entry| {
            let object = entry["object"].as_str().unwrap();
            entry["user"] == user
                && entry["action"] == "CONNECT"
                && entry["status"] == status
                && object == "/api/trainjobs/entered/exec"
        })
    };
    assert!(noted("kim", 101) && noted("lee", 403), "{audit:#}");

    let stays = [
        "exec",
        "entered",
        "--",
        "sh",
        "-c",
        "echo in; exec sleep 1000",
    ];
    let mut inside = client(&up, &kim, &stays).spawn().unwrap();
    let mut words = BufReader::new(inside.stdout.take().unwrap());
    let mut line = String::new();
    words.read_line(&mut line).unwrap();
    assert_eq!(line, "in\n");
    let _ = token(&up, &["kim", "--rotate"]);
    assert_eq!(inside.wait().unwrap().code(), Some(2));
}
