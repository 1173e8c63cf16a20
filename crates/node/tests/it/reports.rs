//! Reports of progress: a token for one purpose, and one road to the host.

use astrago_node::relay::{HOST, PORT, Target, VARIABLE};
use k8s_openapi::api::authentication::v1::TokenReview;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::plane::{Plane, phase};
use crate::support;

const AUDIENCE: &str = "trainer.kubeflow.org/v1alpha1/namespaces/default/trainjobs/j/status";

/// Says `word`, a file's content and what comes back.
const REPORT: &str = "import socket, sys
def report(word):
    s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 60)
    s.sendall((word + ' ' + open('/token/token').read()).encode()); s.shutdown(socket.SHUT_WR)
    print(word, s.makefile().read(), flush=True)
report('first')
while not input_seen():
    time.sleep(0.05)
report('second')
";

fn script() -> String {
    let python = REPORT.replace(
        "import socket, sys",
        "import os, socket, sys, time\ndef input_seen(): return os.path.exists('/tmp/go')",
    );
    format!("cat > /tmp/r.py <<'END'\n{python}END\npython3 /tmp/r.py {HOST} {PORT}")
}

fn reporting() -> Value {
    json!({
        "container": {
            "env": [{"name": VARIABLE, "value": format!("https://{HOST}:{PORT}/x")}],
            "volumeMounts": [{"name": "token", "mountPath": "/token"}, {"name": "go", "mountPath": "/tmp"}],
        },
        "spec": {"volumes": [
            {"name": "token", "projected": {"sources": [
                {"serviceAccountToken": {"audience": AUDIENCE, "expirationSeconds": 3600, "path": "token"}},
            ]}},
            {"name": "go", "emptyDir": {}},
        ]},
    })
}

/// Takes one report and answers it.
async fn take(server: &TcpListener) -> (String, String) {
    let taken = async {
        let (mut stream, _) = server.accept().await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        stream.write_all(b"taken").await.unwrap();
        text
    };
    let text = tokio::time::timeout(support::PATIENCE, taken)
        .await
        .unwrap();
    let (word, token) = text.split_once(' ').unwrap();
    (word.to_owned(), token.to_owned())
}

async fn review(plane: &Plane, token: &str, audiences: &[&str]) -> Value {
    let reviews: Api<TokenReview> = Api::all(plane.client.clone());
    let review = json!({"metadata": {}, "spec": {"token": token, "audiences": audiences}});
    let review = serde_json::from_value(review).unwrap();
    let answer = reviews.create(&PostParams::default(), &review).await;
    json!(answer.unwrap().status)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_reports_with_a_token_for_that_alone_and_across_a_restart_of_the_agent() {
    let plane = Plane::start().await;
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = Target::Tcp(server.local_addr().unwrap());
    let with_relay =
        |options: &mut astrago_node::Options| options.status_relay = Some(target.clone());
    let Some(agent) = plane.agent_with(with_relay) else {
        return;
    };
    let pod = plane.pod("reporter", &script(), reporting()).await;
    let (word, token) = take(&server).await;
    assert_eq!(word, "first");
    let status = review(&plane, &token, &[AUDIENCE]).await;
    assert_eq!(status["authenticated"], true, "{status}");
    assert_eq!(status["audiences"], json!([AUDIENCE]));
    assert_eq!(
        status["user"]["username"],
        "system:serviceaccount:default:default"
    );
    for other in [&["somebody-else"][..], &[]] {
        let status = review(&plane, &token, other).await;
        assert_ne!(status["authenticated"], true, "for {other:?}: {status}");
    }

    plane
        .until("reporter", "runs", |pod| phase(pod) == "Running")
        .await;
    agent.end().await;
    let uid = pod.metadata.uid.unwrap();
    let go = astrago_node::layout::PodDir::new(plane.data.path(), &uid).volume("go");
    std::fs::write(go.join("go"), "").unwrap();
    let agent = plane.agent_with(with_relay).unwrap();
    let (word, again) = take(&server).await;
    assert_eq!(word, "second");
    assert_eq!(
        review(&plane, &again, &[AUDIENCE]).await["authenticated"],
        true
    );
    let (phase, log) = plane.finished("reporter").await;
    assert_eq!(
        (phase.as_str(), log.as_str()),
        ("Succeeded", "first taken\nsecond taken\n")
    );
    plane.delete("reporter").await;
    // The token ends with its pod.
    let status = review(&plane, &again, &[AUDIENCE]).await;
    assert_ne!(status["authenticated"], true, "{status}");
    agent.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_is_not_to_report_has_no_road_to_the_host() {
    let plane = Plane::start().await;
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = Target::Tcp(server.local_addr().unwrap());
    let with_relay = |options: &mut astrago_node::Options| options.status_relay = Some(target);
    let Some(agent) = plane.agent_with(with_relay) else {
        return;
    };
    let script = format!(
        "getent hosts {HOST}; for a in 127.0.0.1 127.0.10.43; do (echo > /dev/tcp/$a/{PORT}) 2>&1 | grep -o 'Connection refused'; done"
    );
    plane.pod("quiet", &script, json!({})).await;
    let (_, log) = plane.finished("quiet").await;
    assert_eq!(log, "Connection refused\n".repeat(4));
    plane.delete("quiet").await;
    agent.end().await;
}
