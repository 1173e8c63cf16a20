//! The commands of every day with each kubectl that lies beside the default one, from 1.27 on.
//!
//! All of them talk to one server at once, each in a namespace of its own.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::kubectl::{Cluster, config_map, text};
use crate::plane::gadgets;

/// `kubectl.1.27` and so on, in the folder of the default one.
fn others() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let default = std::env::split_paths(&path)
        .map(|directory| directory.join("kubectl"))
        .find(|program| program.exists());
    let Some(default) = default.and_then(|program| program.canonicalize().ok()) else {
        return Vec::new();
    };
    let (Some(directory), Some(_)) = (default.parent(), default.file_name()) else {
        return Vec::new();
    };
    let mut found: Vec<_> = std::fs::read_dir(directory)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|program| {
            let name = program
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or_default();
            let minor = name
                .strip_prefix("kubectl.1.")
                .and_then(|minor| minor.parse::<u32>().ok());
            minor.is_some_and(|minor| minor >= 27)
        })
        .collect();
    found.sort();
    found
}

/// One kubectl in its namespace.
struct User<'a> {
    cluster: &'a Cluster,
    program: String,
    namespace: String,
}

impl User<'_> {
    async fn output(&self, line: &str, input: &str, editor: &str) -> std::process::Output {
        let mut words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        words.push(format!("--namespace={}", self.namespace));
        self.cluster
            .program(&self.program, &words, input, editor)
            .await
    }

    /// What a command prints that must succeed.
    async fn ok(&self, line: &str) -> String {
        self.feed(line, &Value::Null).await
    }

    async fn feed(&self, line: &str, manifest: &Value) -> String {
        let output = self.output(line, &manifest.to_string(), "false").await;
        text(&output, &format!("({}) {line}", self.program))
    }

    /// The same, and the text must contain something.
    async fn says(&self, line: &str, want: &str) {
        let said = self.ok(line).await;
        assert!(
            said.contains(want),
            "({}) {line}: no {want:?} in {said}",
            self.program
        );
    }

    async fn apply(&self, line: &str, manifest: &Value, want: &str) {
        let said = self.feed(line, manifest).await;
        assert!(
            said.contains(want),
            "({}) {line}: no {want:?} in {said}",
            self.program
        );
    }
}

fn pod(ports: &[u16]) -> Value {
    let ports: Vec<_> = ports
        .iter()
        .map(|port| json!({ "containerPort": port }))
        .collect();
    json!({
        "apiVersion": "v1", "kind": "PodTemplate", "metadata": { "name": "web" },
        "template": { "spec": { "containers": [{ "name": "main", "image": "i", "ports": ports }] } },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kubectl_at_hand_does_its_daily_work() {
    let Some(cluster) = Cluster::start().await else {
        return;
    };
    let programs = others();
    if programs.is_empty() {
        println!("skipped: there is no other kubectl than the default one");
        return;
    }
    cluster.feed("apply -f -", &gadgets()).await;
    let work = programs.iter().enumerate().map(|(index, program)| {
        let user = User {
            cluster: &cluster,
            program: program.to_str().expect("a path in UTF-8").to_owned(),
            namespace: format!("n{index}"),
        };
        async move {
            user.ok(&format!("create namespace {}", user.namespace))
                .await;
            applies(&user).await;
            changes(&user).await;
            reads(&user).await;
            ends(&user).await;
        }
    });
    futures::future::join_all(work).await;
}

async fn applies(user: &User<'_>) {
    let (one, two) = (config_map("a", "1"), config_map("a", "2"));
    user.apply("apply -f -", &one, "created").await;
    user.apply("apply -f -", &one, "unchanged").await;
    user.apply("apply -f -", &two, "configured").await;
    let forced = "apply --server-side --force-conflicts -f -";
    user.apply(forced, &one, "applied").await;
    let other = "apply --server-side --field-manager=other -f -";
    let clash = user.output(other, &two.to_string(), "false").await;
    let error = String::from_utf8_lossy(&clash.stderr).into_owned();
    assert!(error.contains("conflict with \"kubectl\""), "{error}");

    // What is no longer applied goes from a list that merges by key, too.
    user.apply("apply -f -", &pod(&[80, 81]), "created").await;
    user.apply("apply -f -", &pod(&[81, 82]), "configured")
        .await;
    let ports =
        "get podtemplate web -o jsonpath={.template.spec.containers[0].ports[*].containerPort}";
    let mut ports: Vec<_> = user.ok(ports).await.split(' ').map(str::to_owned).collect();
    ports.sort();
    assert_eq!(ports, ["81", "82"], "{}", user.program);

    let gadget = |size: i64| {
        json!({ "apiVersion": "example.org/v1", "kind": "Gadget", "metadata": { "name": "g" },
            "spec": { "size": size } })
    };
    user.apply("apply -f -", &gadget(1), "created").await;
    user.apply("apply -f -", &gadget(2), "configured").await;
    let mut wrong = gadget(2);
    wrong["spec"]["nonsense"] = true.into();
    let refused = user.output("apply -f -", &wrong.to_string(), "false").await;
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && error.contains("nonsense"),
        "({}) {error}",
        user.program
    );
    let differs = user
        .output("diff -f -", &gadget(3).to_string(), "false")
        .await;
    let shown = String::from_utf8_lossy(&differs.stdout).into_owned();
    assert_eq!(differs.status.code(), Some(1), "({}) {shown}", user.program);
    assert!(shown.contains("+  size: 3"), "({}) {shown}", user.program);
}

async fn changes(user: &User<'_>) {
    for (kind, patch) in [
        ("strategic", r#"{"data":{"s":"1"}}"#),
        ("merge", r#"{"data":{"m":"1"}}"#),
        ("json", r#"[{"op":"add","path":"/data/j","value":"1"}]"#),
    ] {
        user.says(&format!("patch cm a --type={kind} -p {patch}"), "patched")
            .await;
    }
    user.says(
        "patch gd g --type=merge --subresource=status -p {\"status\":{\"phase\":\"ok\"}}",
        "patched",
    )
    .await;
    user.says(
        "wait --for=jsonpath={.status.phase}=ok gadget/g --timeout=60s",
        "condition met",
    )
    .await;
    user.says("label cm a x=y", "labeled").await;
    user.says("annotate cm a note=z", "annotate").await;
    let edited = user
        .output("edit cm a", "", "sed -i s/app:.demo/app:\\ edited/")
        .await;
    text(&edited, &format!("({}) edit", user.program));
    user.says("get cm a -o jsonpath={.metadata.labels.app}", "edited")
        .await;
    user.apply("replace -f -", &config_map("a", "3"), "replaced")
        .await;
    user.says("scale gd g --replicas=2", "scaled").await;
    user.says("create configmap typed --from-literal=a=b", "created")
        .await;
    user.says("create secret generic s --from-literal=a=b", "created")
        .await;
    user.says("create serviceaccount robot", "created").await;
    user.says("create role reader --verb=get --resource=pods", "created")
        .await;
    user.says("create quota q --hard=count/configmaps=9", "created")
        .await;
}

async fn reads(user: &User<'_>) {
    user.says("get cm a", "DATA").await;
    user.says("get cm -o wide", "DATA").await;
    user.says(
        "get cm -A -l app=demo -o custom-columns=N:.metadata.name",
        "a",
    )
    .await;
    user.says("get cm --sort-by=.metadata.name -o name", "configmap/a")
        .await;
    user.says("get all", "gadget.example.org/g").await;
    user.says("describe cm a", "Data").await;
    user.says("describe gadget g", "Phase").await;
    user.says("describe quota q", "count/configmaps").await;
    user.says("explain pod.spec.containers.env", "EnvVar").await;
    user.says("explain gadget.spec", "How big.").await;
    user.says("explain gadget --recursive", "replicas").await;
    user.says("auth can-i get pods", "yes").await;
    user.says("auth can-i --list", "*.*").await;
    // 1.27 asks for a beta of the review, which servers of 1.33 no longer have.
    if !user.program.ends_with("1.27") {
        user.says("auth whoami", "admin").await;
    }
    user.says("api-resources --api-group=example.org", "gadgets")
        .await;
    user.says("api-versions", "example.org/v1").await;
    user.says("version", "Server Version").await;
    let event = json!({ "apiVersion": "v1", "kind": "Event",
        "metadata": { "name": "e", "namespace": user.namespace },
        "involvedObject": { "kind": "Gadget", "name": "g", "namespace": user.namespace,
            "apiVersion": "example.org/v1" },
        "reason": "Shone", "message": "it shines", "type": "Normal", "count": 1,
        "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z" });
    user.apply("create -f -", &event, "created").await;
    user.says("events --for=gadget/g", "it shines").await;
}

async fn ends(user: &User<'_>) {
    user.says("delete cm a typed --wait=true", "deleted").await;
    user.says("delete gd --all --cascade=foreground", "deleted")
        .await;
    user.says(
        "delete secret,sa,role,quota,podtemplate --all --cascade=orphan",
        "deleted",
    )
    .await;
    user.says("get cm -l app=demo", "No resources found").await;
}
