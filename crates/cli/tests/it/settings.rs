//! Settings from flags, variables and a file; upgrades; and how the program ends.

use serde_json::json;

use crate::harness::target::{Target, applies};
use crate::harness::{Up, astrago, has_kubectl};

#[test]
fn a_file_sets_what_no_flag_sets() {
    if !applies(
        |target| !target.kubernetes,
        "the file is that of `astrago up`",
    ) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("astrago.yaml");
    std::fs::write(&file, "no-node: true\nno-auth: true\nlog: warn\n").unwrap();
    let up = Up::start(&["--config", file.to_str().unwrap()]);
    // Without a token, as the file says, and without a machine.
    let (code, nodes) = up.get("/api/nodes");
    assert_eq!((code, nodes), (200, json!([])));
}

#[test]
fn a_wrong_file_is_explained() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("astrago.yaml");
    std::fs::write(&file, "lisen: 1\nno-node: maybe\n").unwrap();
    let output = astrago()
        .args(["up", "--config"])
        .arg(&file)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    for want in ["lisen", "no-node", "hint:"] {
        assert!(text.contains(want), "{text}");
    }
}

#[test]
fn the_exit_code_tells_whose_fault_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let code = |arguments: &[&str]| {
        let output = astrago()
            .arg("--data-dir")
            .arg(folder.path())
            .args(arguments)
            .output()
            .unwrap();
        output.status.code()
    };
    assert_eq!(code(&["--help"]), Some(0));
    assert_eq!(code(&["--version"]), Some(0));
    assert_eq!(code(&["frobnicate"]), Some(1));
    assert_eq!(code(&["logs"]), Some(1));
    assert_eq!(code(&["jobs", "-o", "xml"]), Some(1));
    assert_eq!(code(&["jobs"]), Some(2), "there is no server");
    assert_eq!(code(&["--server", "http://127.0.0.1:1", "jobs"]), Some(2));
}

#[test]
fn an_upgrade_leaves_what_the_administrator_changed() {
    if !applies(
        Target::is_embedded,
        "deploy/ installs the runtimes of a cluster, and Kubeflow's definition lets nobody change their policy",
    ) || !has_kubectl()
    {
        return;
    }
    let flags = ["--no-auth", "--no-node"];
    let mut up = Up::start(&flags);
    let patch = r#"{"spec":{"template":{"spec":{"failurePolicy":{"maxRestarts":11}}}}}"#;
    up.kubectl(&[
        "patch",
        "clustertrainingruntime",
        "pytorch-simple",
        "--type=merge",
        "-p",
        patch,
    ]);
    up.kubectl(&["delete", "clustertrainingruntime", "tensorflow-distributed"]);
    // As if another version had installed what is there.
    let older = r#"{"data":{"pytorch-simple":"older","jax-distributed":"older"}}"#;
    let map = ["configmap", "installed-runtimes", "-n", "astrago-system"];
    up.kubectl(&[&["patch"][..], &map, &["--type=merge", "-p", older]].concat());
    up.kill_and_start(&flags);
    let (_, runtime) = up.get("/api/runtimes/pytorch-simple");
    assert_eq!(runtime["max_restarts"], 11);
    assert_eq!(up.get("/api/runtimes/jax-distributed").0, 200);
    let path = ["-o", "jsonpath={.data.jax-distributed}"];
    let record = up.kubectl(&[&["get"][..], &map, &path].concat());
    assert_ne!(record, "older");
    // What was removed on purpose stays away.
    assert_eq!(up.get("/api/runtimes/tensorflow-distributed").0, 404);
}
