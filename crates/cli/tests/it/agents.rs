//! `astrago mcp`, driven by the official client of the Model Context Protocol.

use std::process::Command;

use serde_json::{Value, json};

use crate::harness::target::{Target, applies};
use crate::harness::{Up, can_run_pods, python};

#[test]
fn an_agent_looks_and_changes_only_what_it_may_and_was_confirmed() {
    if !applies(
        Target::is_embedded,
        "agents speak to the REST API, which is the same everywhere",
    ) {
        return;
    }
    let (true, Some(python)) = (can_run_pods(), python()) else {
        return;
    };
    let up = Up::start(&["--stop-pods"]);
    let agent = |part: &str, environment: &[(&str, String)]| {
        let mut command = Command::new(&python);
        command
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp_client.py"))
            .args([env!("CARGO_BIN_EXE_astrago"), part])
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("ASTRAGO_EGRESS", "off")
            .envs(environment.iter().cloned());
        let output = command.output().unwrap();
        assert!(
            output.status.success(),
            "{part}: {}\n{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    };
    agent("looks", &up.client());
    agent("changes", &up.client());

    let theirs = json!({
        "user_id": "admin", "namespace": "default", "framework": "pytorch", "name": "theirs",
        "training_code": "print('secret')", "config": { "num_nodes": 1 },
    });
    let bearer = up.bearer();
    let (code, made) = up.request("POST", "/api/trainjob/create", Some(&theirs), &[&bearer]);
    assert_eq!(code, 200, "{made}");
    let added = up.run(&["user", "add", "bob", "-o", "json"]);
    let added: Value = serde_json::from_slice(&added.stdout).unwrap();
    let token = added["token"].as_str().unwrap().to_owned();
    let server = format!("http://{}", up.address);
    agent("other", &[("ASTRAGO_SERVER", server), ("ASTRAGO_TOKEN", token)]);
}
