//! schemathesis over the document: no 5xx, and no answer outside its schema.

use std::path::PathBuf;
use std::process::Stdio;

use crate::harness::{ADMIN, Site, form_a};

/// The program from the Python environment of the tests; `None`, with the reason printed, where there is none.
fn schemathesis() -> Option<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let python = std::env::var_os("ASTRAGO_TEST_PYTHON")
        .map(PathBuf::from)
        .or_else(|| home.map(|home| home.join(".cache/astrago/python/bin/python3")));
    let found = python
        .and_then(|python| Some(python.parent()?.join("schemathesis")))
        .filter(|path| path.exists());
    if found.is_none() {
        assert!(
            std::env::var("CI").as_deref() != Ok("true"),
            "CI must have schemathesis"
        );
        println!("skipped: this test needs schemathesis (scripts/setup)");
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schemathesis_finds_no_fault_of_ours() {
    let Some(program) = schemathesis() else {
        return;
    };
    let site = Site::start().await;
    site.post("/api/trainjob/create", ADMIN, &form_a("admin", "default"))
        .await
        .ok();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = site.router.clone();
    tokio::spawn(async move { axum::serve(listener, router).await });
    let output = tokio::process::Command::new(program)
        .arg("run")
        .arg(format!("http://{address}/api/openapi.json"))
        .args(["--header", &format!("Authorization: Bearer {ADMIN}")])
        .args(["--checks", "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"])
        // What is sent as it happens never ends.
        .args(["--exclude-path-regex", "stream$"])
        .args(["--phases", "examples,coverage,fuzzing"])
        .args(["--max-examples", "15", "--max-time", "60", "--continue-on-failure"])
        .args(["--generation-deterministic", "--no-shrink"])
        .args(["--suppress-health-check", "all", "--warnings", "off", "--no-color"])
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
