//! `kubectl logs` against the kubelet's endpoints.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use astrago_node::logs::{Limits, Stream, Writer};

use crate::kubelet::{Kubelet, TOKEN, kubectls};

fn writer(kubelet: &Kubelet, attempt: u32) -> Writer {
    Writer::open(&kubelet.logs(), "main", attempt, Limits::default()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_option_of_kubectl_logs_works() {
    let kubelet = Kubelet::start().await;
    let mut first = writer(&kubelet, 0);
    first
        .write_stream(Stream::Stdout, b"first attempt\n")
        .unwrap();
    drop(first);
    let mut second = writer(&kubelet, 1);
    second
        .write_stream(Stream::Stdout, b"one\ntwo\nthree\n")
        .unwrap();
    for kubectl in kubectls() {
        for (arguments, want) in [
            (&["logs", "job-0"][..], "one\ntwo\nthree\n"),
            (&["logs", "job-0", "--tail", "2"], "two\nthree\n"),
            (&["logs", "job-0", "--tail", "0"], ""),
            (&["logs", "job-0", "--limit-bytes", "5"], "one\nt"),
            (&["logs", "job-0", "--since", "1h", "--tail=1"], "three\n"),
            (&["logs", "job-0", "--previous"], "first attempt\n"),
            (
                &["logs", "job-0", "--since-time", "2999-01-01T00:00:00Z"],
                "",
            ),
        ] {
            let mut command = kubelet.kubectl(&kubectl, arguments);
            let output = tokio::task::spawn_blocking(move || command.output().unwrap())
                .await
                .unwrap();
            assert_eq!(
                String::from_utf8_lossy(&output.stdout),
                want,
                "{arguments:?}: {output:?}"
            );
        }
    }
    let path = "/containerLogs/team/job-0/main?tailLines=2";
    let messages = kubelet.messages(path, "binary.k8s.io", b"").await;
    assert_eq!(messages.concat(), b"two\nthree\n");
    drop(second);
}

#[tokio::test(flavor = "multi_thread")]
async fn following_is_live_and_ends_with_the_container() {
    let kubelet = Kubelet::start().await;
    let mut log = writer(&kubelet, 0);
    log.write_stream(Stream::Stdout, b"zero\n").unwrap();
    let Some(kubectl) = kubectls().pop() else {
        return;
    };
    let mut command = kubelet.kubectl(&kubectl, &["logs", "-f", "job-0"]);
    tokio::task::spawn_blocking(move || {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "zero");
        for number in 0..100 {
            // The next line is written only when this one has arrived.
            let line = format!("line {number}");
            log.write_stream(Stream::Stdout, format!("{line}\n").as_bytes())
                .unwrap();
            assert_eq!(lines.next().unwrap().unwrap(), line);
        }
        drop(log);
        assert!(lines.next().is_none());
        assert!(child.wait().unwrap().success());
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_is_said_so() {
    let kubelet = Kubelet::start().await;
    drop(writer(&kubelet, 0));
    for (path, token, code, want) in [
        ("/containerLogs/team/job-0/main", "", 401, "Unauthorized"),
        ("/containerLogs/team/job-1/main", TOKEN, 404, "job-1"),
        ("/containerLogs/other/job-0/main", TOKEN, 404, "other"),
        (
            "/containerLogs/team/job-0/side",
            TOKEN,
            400,
            "container side is not valid for pod job-0",
        ),
        (
            "/containerLogs/team/job-0/idle",
            TOKEN,
            400,
            "is waiting to start: ContainerCreating",
        ),
        (
            "/containerLogs/team/job-0/main?previous=true",
            TOKEN,
            400,
            "previous terminated container",
        ),
        (
            "/containerLogs/team/job-0/main?tailLines=-1",
            TOKEN,
            422,
            "tailLines",
        ),
        (
            "/containerLogs/team/job-0/..%2Fidle",
            TOKEN,
            400,
            "not valid",
        ),
    ] {
        let response = kubelet.get(path, token).await;
        assert_eq!(response.status().as_u16(), code, "{path}");
        let body = response.text().await.unwrap();
        assert!(body.contains(want), "{path}: {body}");
    }
    assert_eq!(kubelet.get("/healthz", "").await.status(), 200);
}

/// Logs are kept when the pod is gone.
#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_pods_log_can_still_be_read() {
    let kubelet = Kubelet::start().await;
    let mut log = writer(&kubelet, 0);
    log.write_stream(Stream::Stdout, b"last words").unwrap();
    drop(log);
    std::fs::remove_dir_all(kubelet.directory.path().join("pods/uid-0")).unwrap();
    let response = kubelet
        .get("/containerLogs/team/job-0/main?follow=true", TOKEN)
        .await;
    assert_eq!(response.text().await.unwrap(), "last words\n");
    for path in ["main/..", "..", "%2E%2E%2Fjob"] {
        let response = kubelet
            .get(&format!("/containerLogs/team/job-0/{path}"), TOKEN)
            .await;
        assert!(response.status().is_client_error(), "{path}");
    }
}
