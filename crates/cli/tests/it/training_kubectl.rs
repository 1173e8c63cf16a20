//! The kubectl lines of the documents that describe the system, as written there.

use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::harness::target::{Target, applies};
use crate::harness::{Up, can_run_pods, has_kubectl};

const SETUP: &str = r#"apiVersion: v1
kind: ConfigMap
metadata:
  name: pytorch-pet-setup
data:
  setup_pytorch_env.sh: |
    export RANK=$PET_NODE_RANK
    export WORLD_SIZE=$PET_NNODES
    export MASTER_ADDR=$PET_MASTER_ADDR
    export MASTER_PORT=$PET_MASTER_PORT
    export LOCAL_RANK=0
    echo "  - RANK: $RANK"
    echo "  - WORLD_SIZE: $WORLD_SIZE"
"#;

const SCRIPT: &str = r#"apiVersion: v1
kind: ConfigMap
metadata:
  name: user-train-script
data:
  train.py: |
    import os, time
    for epoch in range(1, 4):
        print(f"Epoch {epoch}/3", flush=True)
        time.sleep(0.2)
    print(f"done {os.environ['RANK']}", flush=True)
"#;

const JOB: &str = r#"apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata:
  name: pytorch-distributed-configmap
spec:
  runtimeRef:
    apiGroup: trainer.kubeflow.org
    kind: ClusterTrainingRuntime
    name: pytorch-simple
  trainer:
    numNodes: 2
    image: pytorch/pytorch:2.2.2-cuda11.8-cudnn8-runtime
    command: ["bash", "-c", "source /shared/setup_pytorch_env.sh && python3 /workspace/scripts/train.py"]
    resourcesPerNode:
      requests: { cpu: 100m, memory: 64Mi }
      limits: { cpu: "1", memory: 256Mi }
  podTemplateOverrides:
    - targetJobs:
        - name: node
      spec:
        volumes:
          - name: shared
            configMap: { name: pytorch-pet-setup, defaultMode: 0755 }
          - name: train-script
            configMap: { name: user-train-script, defaultMode: 0755 }
        containers:
          - name: node
            volumeMounts:
              - { name: shared, mountPath: /shared }
              - { name: train-script, mountPath: /workspace/scripts }
"#;

#[test]
fn the_lines_of_the_documents_work_with_an_unmodified_kubectl() {
    if !applies(
        Target::takes_overrides,
        "the documents speak the dialect of v2.1",
    ) {
        return;
    }
    if !can_run_pods() || !has_kubectl() {
        return;
    }
    let up = Up::start(&["--no-auth", "--stop-pods", "--capacity", "cpu=4,memory=4Gi"]);
    for (file, text) in [
        ("setup.yaml", SETUP),
        ("script.yaml", SCRIPT),
        ("job.yaml", JOB),
    ] {
        std::fs::write(up.folder.path().join(file), text).unwrap();
    }
    let user = |arguments: &[&str]| up.kubectl(&[arguments, &["-n", "test-user"]].concat());

    let runtimes = up.kubectl(&["get", "clustertrainingruntimes"]);
    assert!(
        runtimes.contains("pytorch-simple") && runtimes.contains("tensorflow-distributed"),
        "{runtimes}"
    );
    assert_eq!(
        up.kubectl(&["create", "namespace", "test-user"]),
        "namespace/test-user created\n"
    );
    for file in ["setup.yaml", "script.yaml", "job.yaml"] {
        assert!(user(&["apply", "-f", file]).ends_with(" created\n"));
    }
    assert!(user(&["get", "trainjob"]).contains("pytorch-distributed-configmap"));
    let pod = up.eventually("the first pod", |_| {
        let pods = user(&["get", "pods"]);
        let first = pods
            .split_whitespace()
            .find(|word| word.starts_with("pytorch-distributed-configmap-node-0-0-"));
        first.map(str::to_owned).ok_or_else(|| json!(pods))
    });
    up.eventually("that its log can be followed", |_| {
        let pods = user(&["get", "pods", &pod, "-o", "jsonpath={.status.phase}"]);
        if pods == "Pending" {
            Err(json!(pods))
        } else {
            Ok(())
        }
    });
    // -f ends by itself when the container does, and has seen all of it.
    let followed = user(&["logs", "-f", &pod]);
    assert!(
        followed.contains("RANK: 0") && followed.ends_with("Epoch 3/3\ndone 0\n"),
        "{followed}"
    );
    assert_eq!(user(&["logs", &pod, "-c", "node"]), followed);
    up.eventually("the state in the list", |_| {
        let list = user(&["get", "trainjob"]);
        if list.contains("Complete") {
            Ok(())
        } else {
            Err(json!(list))
        }
    });
    let described = user(&["describe", "trainjob", "pytorch-distributed-configmap"]);
    assert!(
        described.contains("jobset completed successfully"),
        "{described}"
    );
    let described = user(&["describe", "pod", &pod]);
    assert!(
        described.contains("Completed") && described.contains("Scheduled"),
        "{described}"
    );

    let explained = up.kubectl(&["explain", "trainjob.spec"]);
    assert!(explained.contains("runtimeRef"), "{explained}");
    let explained = up.kubectl(&["explain", "trainjob.spec.podTemplateOverrides.spec"]);
    assert!(explained.contains("nodeSelector"), "{explained}");

    assert!(
        user(&["delete", "trainjob", "--all"])
            .contains("\"pytorch-distributed-configmap\" deleted")
    );
    up.eventually("the end of its pods", |_| {
        let pods = user(&["get", "pods", "-o", "name"]);
        if pods.is_empty() {
            Ok(())
        } else {
            Err(json!(pods))
        }
    });
    assert!(user(&["delete", "configmap", "--all"]).contains("user-train-script"));
    up.kubectl(&["delete", "namespace", "test-user"]);
    assert!(!up.kubectl(&["get", "namespaces"]).contains("test-user"));
}

#[test]
fn an_editor_changes_a_runtime_and_columns_show_the_nodes() {
    if !applies(
        |target| target.kubeflow.is_none() || !target.kubernetes,
        "Kubeflow's definitions let nobody change a runtime's policies",
    ) {
        return;
    }
    if !can_run_pods() || !has_kubectl() {
        return;
    }
    let up = Up::start(&[
        "--no-auth",
        "--stop-pods",
        "--capacity",
        "cpu=4,memory=4Gi,nvidia.com/gpu=8",
    ]);
    let editor = up.folder.path().join("editor.sh");
    let text = "#!/bin/sh\nsed -i 's/^      replicatedJobs:/      failurePolicy:\\n        maxRestarts: 10\\n      replicatedJobs:/' \"$1\"\n";
    std::fs::write(&editor, text).unwrap();
    std::fs::set_permissions(&editor, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut edit = up.kubectl_command();
    edit.args(["edit", "clustertrainingruntime", "torch-distributed"]);
    let output = edit.env("KUBE_EDITOR", &editor).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        said.contains("torch-distributed edited"),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let path = "jsonpath={.spec.template.spec.failurePolicy.maxRestarts}";
    assert_eq!(
        up.kubectl(&[
            "get",
            "clustertrainingruntime",
            "torch-distributed",
            "-o",
            path
        ]),
        "10"
    );

    let columns = "custom-columns=NAME:.metadata.name, \
        INSTANCE:.metadata.labels['node\\.kubernetes\\.io/instance-type'], \
        ARCH:.status.nodeInfo.architecture, OS:.status.nodeInfo.osImage, \
        GPU:.status.capacity['nvidia\\.com/gpu'], CAPACITY:.metadata.labels['karpenter\\.sh/capacity-type']";
    let node = up.eventually("the node", |up| {
        let nodes = up.kubectl(&["get", "nodes", "-o", columns]);
        nodes
            .lines()
            .nth(1)
            .map(str::to_owned)
            .ok_or_else(|| json!(nodes))
    });
    let words: Vec<&str> = node.split_whitespace().collect();
    assert!(words.contains(&"8"), "{node}");
    assert!(
        words.contains(&"amd64") || words.contains(&"arm64"),
        "{node}"
    );
    assert!(
        !words[1].contains("none"),
        "the instance type is known: {node}"
    );
}

/// By rules in our definitions, which both API servers hold to, or by Kubeflow's webhook.
#[test]
fn a_runtime_that_cannot_work_is_refused() {
    if !applies(
        |target| target.kubernetes || target.is_embedded(),
        "Kubeflow refuses by its webhook, and our API server has none",
    ) || !has_kubectl()
    {
        return;
    }
    let up = Up::start(&["--no-auth", "--no-node"]);
    let get = [
        "get",
        "clustertrainingruntime",
        "torch-distributed",
        "-o",
        "json",
    ];
    let mut good: serde_json::Value = serde_json::from_str(&up.kubectl(&get)).unwrap();
    let labels = good["metadata"]["labels"].clone();
    good["metadata"] = json!({ "name": "tried", "labels": labels });
    let job = "/spec/template/spec/replicatedJobs/0";
    let change = |path: &str, value: serde_json::Value| {
        let mut bad = good.clone();
        *bad.pointer_mut(&format!("{job}{path}")).unwrap() = value;
        bad
    };
    let mut twice = good.clone();
    twice.pointer_mut(job).unwrap()["replicas"] = json!(2);
    let container = "/template/spec/template/spec/containers/0/name";
    let cases = [
        ("two of the trainer", twice, "always must be 1"),
        (
            "no container node",
            change(container, json!("other")),
            "must contain the required container for the ancestor",
        ),
        ("nothing wrong", good.clone(), ""),
    ];
    for (name, runtime, want) in cases {
        let file = up.folder.path().join("runtime.json");
        std::fs::write(&file, runtime.to_string()).unwrap();
        let mut create = up.kubectl_command();
        create.args(["create", "--dry-run=server", "-f", file.to_str().unwrap()]);
        let output = create.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.success(), want.is_empty(), "{name}: {said}");
        assert!(said.contains(want), "{name}: {said}");
    }
}

/// Documents about Kubeflow look for its controllers first.
#[test]
fn kubectl_finds_what_stands_for_the_control_plane() {
    let embedded = applies(Target::is_embedded, "others have pods of their own");
    if !embedded || !can_run_pods() || !has_kubectl() {
        return;
    }
    let up = Up::start(&["--no-auth"]);
    let running = |namespace: &str, name: &str| {
        up.eventually("a pod that stands for a controller", |up| {
            let arguments = ["get", "pods", "-n", namespace, "--no-headers"];
            let table = up.kubectl(&arguments);
            let line = table.lines().find(|line| line.starts_with(name));
            let words: Vec<&str> = line.unwrap_or_default().split_whitespace().collect();
            match words[..] {
                [name, "1/1", "Running", "0", ..] => Ok(name.to_owned()),
                _ => Err(json!(table)),
            }
        })
    };
    running("kubeflow-system", "kubeflow-trainer-controller-manager-");
    running("kubeflow-system", "jobset-controller-manager-");
    let operator = running("kubeflow", "training-operator-");
    let uid = || {
        let arguments = [
            "get",
            "pod",
            &operator,
            "-n",
            "kubeflow",
            "--ignore-not-found",
        ];
        up.kubectl(&[&arguments[..], &["-o", "jsonpath={.metadata.uid}"]].concat())
    };
    let before = uid();
    up.kubectl(&["delete", "pod", &operator, "-n", "kubeflow", "--wait=false"]);
    up.eventually("another one", |_| {
        Some(uid())
            .filter(|now| !now.is_empty() && *now != before)
            .ok_or(json!("none yet"))
    });
    running("kubeflow", "training-operator-");
}
