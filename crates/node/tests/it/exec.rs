//! `kubectl exec`, old and new, against the kubelet's endpoints.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::kubelet::{Kubelet, TOKEN, kubectls};
use crate::support::skip;

async fn output(mut command: Command) -> Output {
    tokio::task::spawn_blocking(move || command.stdin(Stdio::null()).output().unwrap())
        .await
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_and_exit_codes_arrive() {
    let kubelet = Kubelet::start().await;
    for kubectl in kubectls() {
        let script = "echo out; echo err >&2; exit 3";
        let arguments = ["exec", "job-0", "--", "sh", "-c", script];
        let result = output(kubelet.kubectl(&kubectl, &arguments)).await;
        assert_eq!(
            text(&result.stdout),
            "out\n",
            "{kubectl:?}: {}",
            text(&result.stderr)
        );
        assert!(
            text(&result.stderr).starts_with("err\n"),
            "{}",
            text(&result.stderr)
        );
        assert_eq!(result.status.code(), Some(3), "{kubectl:?}");

        let result = output(kubelet.kubectl(&kubectl, &["exec", "job-0", "--", "true"])).await;
        assert!(
            result.status.success(),
            "{kubectl:?}: {}",
            text(&result.stderr)
        );

        let arguments = ["exec", "job-0", "--", "/nonexistent"];
        let result = output(kubelet.kubectl(&kubectl, &arguments)).await;
        assert_eq!(result.status.code(), Some(1), "{kubectl:?}");
        assert!(
            text(&result.stderr).contains("error executing command"),
            "{result:?}"
        );

        let arguments = ["exec", "job-0", "-c", "idle", "--", "true"];
        let result = output(kubelet.kubectl(&kubectl, &arguments)).await;
        assert!(!result.status.success());
    }
}

/// More than all buffers on the way hold, in both directions at once: nothing may wait in a circle.
#[tokio::test(flavor = "multi_thread")]
async fn much_input_and_output_pass_through_unchanged() {
    let kubelet = Kubelet::start().await;
    let content: Vec<u8> = (0..4_000_000_u32).flat_map(u32::to_le_bytes).collect();
    for kubectl in kubectls() {
        let mut command = kubelet.kubectl(&kubectl, &["exec", "-i", "job-0", "--", "cat"]);
        let content = content.clone();
        tokio::task::spawn_blocking(move || {
            let mut child = command
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut stdin = child.stdin.take().unwrap();
            let source = content.clone();
            let writing = std::thread::spawn(move || stdin.write_all(&source).unwrap());
            let mut got = Vec::new();
            child.stdout.take().unwrap().read_to_end(&mut got).unwrap();
            writing.join().unwrap();
            assert!(child.wait().unwrap().success(), "{command:?}");
            assert!(
                got == content,
                "{} bytes instead of {}",
                got.len(),
                content.len()
            );
        })
        .await
        .unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_is_one_and_has_the_callers_size() {
    let kubelet = Kubelet::start().await;
    if !Path::new("/usr/bin/script").exists() {
        skip("there is no script(1)");
        return;
    }
    for kubectl in kubectls() {
        // The size comes in a message of its own, which may follow the program's start.
        let program =
            "until test \"$(stty size)\" = '33 77'; do :; done; echo $TERM; tty -s && echo yes";
        let arguments = ["exec", "-it", "job-0", "--", "sh", "-c", program];
        let result = kubelet.in_terminal(&kubectl, &arguments).await;
        let shown = text(&result.stdout);
        assert!(result.status.success(), "{kubectl:?}: {shown}");
        assert!(shown.contains("xterm\r\nyes\r\n"), "{shown}");
    }
}

/// A program may have ended before its caller has opened all streams.
#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_ends_at_once_is_heard_in_a_terminal() {
    let kubelet = Kubelet::start().await;
    if !Path::new("/usr/bin/script").exists() {
        skip("there is no script(1)");
        return;
    }
    for kubectl in kubectls() {
        for _ in 0..5 {
            let arguments = ["exec", "-it", "job-0", "--", "echo", "short"];
            let result = kubelet.in_terminal(&kubectl, &arguments).await;
            assert!(
                result.status.success(),
                "{kubectl:?}: {}",
                text(&result.stdout)
            );
            let shown = text(&result.stdout);
            assert!(shown.contains("short\r\n"), "{kubectl:?}: {shown}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_ends_with_its_callers_connection() {
    let kubelet = Kubelet::start().await;
    for (count, kubectl) in (1..).zip(kubectls()) {
        let script = "echo started; exec sleep 1000";
        let mut command = kubelet.kubectl(&kubectl, &["exec", "job-0", "--", "sh", "-c", script]);
        let mut child = tokio::task::spawn_blocking(move || {
            let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
            let mut started = [0; 8];
            child
                .stdout
                .as_mut()
                .unwrap()
                .read_exact(&mut started)
                .unwrap();
            child
        })
        .await
        .unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        while kubelet.supervisor.killed() < count {
            assert!(Instant::now() < deadline, "{kubectl:?}");
            tokio::task::yield_now().await;
        }
    }
}

/// A process that outlives the program and holds its output must not hold the caller.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_left_behind_does_not_hold_the_caller() {
    let kubelet = Kubelet::start().await;
    for kubectl in kubectls() {
        let script = "sleep 60 & echo $!";
        let command = kubelet.kubectl(&kubectl, &["exec", "job-0", "--", "sh", "-c", script]);
        let begun = Instant::now();
        let result = output(command).await;
        assert!(result.status.success());
        assert!(begun.elapsed() < Duration::from_secs(30));
        let pid: i32 = text(&result.stdout).trim().parse().unwrap();
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_protocol_tells_of_failures_alone() {
    let kubelet = Kubelet::start().await;
    for (script, want) in [
        ("echo%20out", &[&b"\x01"[..], b"\x01out\n"][..]),
        (
            "exit%203",
            &[
                b"\x01",
                b"\x03command terminated with non-zero exit code: exit status 3",
            ],
        ),
    ] {
        let path = format!(
            "/exec/team/job-0/main?command=sh&command=-c&command={script}&output=1&error=1"
        );
        assert_eq!(kubelet.messages(&path, "channel.k8s.io", b"").await, want);
    }
}

/// A connection that is closed with something unread in it is torn off, and its last words with it.
#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_reads_nothing_is_heard_by_whoever_writes_much() {
    let kubelet = Kubelet::start().await;
    let path = "/exec/team/job-0/main?command=sh&command=-c&command=echo%20heard;%20exit%203&input=1&output=1&error=1";
    let said = vec![7; 1 << 20];
    let heard = kubelet.messages(path, "v5.channel.k8s.io", &said).await;
    assert_eq!(heard[1], b"\x01heard\n");
    assert!(text(&heard[2]).contains("exit status 3"), "{heard:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_make_no_sense_are_refused_with_a_reason() {
    let kubelet = Kubelet::start().await;
    for (path, token, code, want) in [
        (
            "/exec/team/job-0/main?command=sh&stdout=1",
            "wrong",
            401,
            "Unauthorized",
        ),
        (
            "/exec/team/job-0/main?command=sh&stdout=1",
            TOKEN,
            400,
            "neither WebSocket nor SPDY",
        ),
        (
            "/exec/team/job-0/main?stdout=1",
            TOKEN,
            400,
            "at least 1 command",
        ),
        ("/attach/team/job-0/main?stdin=1", TOKEN, 400, "use exec"),
    ] {
        let response = kubelet.get(path, token).await;
        assert_eq!(response.status().as_u16(), code, "{path}");
        let body = response.text().await.unwrap();
        assert!(body.contains(want), "{path}: {body}");
    }
}
