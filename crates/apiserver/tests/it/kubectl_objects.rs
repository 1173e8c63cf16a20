//! Real kubectl on what objects are: applying, patching, explaining, printing, validating.

use serde_json::{Value, json};

use crate::kubectl::{Cluster, config_map, text};
use crate::plane::gadgets;

fn pod(image: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "web" },
        "spec": { "containers": [{
            "name": "main", "image": image, "ports": [{ "containerPort": 80 }],
            "env": [{ "name": "A", "value": "1" }],
            "resources": { "limits": { "cpu": 2.0, "memory": "1Gi" } },
        }]},
    })
}

fn gadget(size: i64) -> Value {
    json!({
        "apiVersion": "example.org/v1", "kind": "Gadget", "metadata": { "name": "g" },
        "spec": { "size": size },
    })
}

/// What kubectl prints of a manifest that it must not get through with.
async fn refused(cluster: &Cluster, line: &str, manifest: &Value) -> String {
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    let output = cluster.kubectl_with(&words, &manifest.to_string()).await;
    assert!(!output.status.success(), "kubectl {line} should fail");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_field_that_is_absent_selects_as_its_zero_value() {
    let Some(cluster) = Cluster::start().await else {
        return;
    };
    cluster.feed("apply -f -", &pod("one")).await;
    for name in ["one", "two"] {
        let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name } });
        cluster.feed("apply -f -", &node).await;
    }
    cluster.ok("cordon two").await;
    for (line, names) in [
        (
            "nodes --field-selector=spec.unschedulable=false",
            "node/one\n",
        ),
        (
            "nodes --field-selector=spec.unschedulable!=false",
            "node/two\n",
        ),
        (
            "nodes --field-selector=spec.unschedulable=true",
            "node/two\n",
        ),
        ("pods --field-selector=spec.hostNetwork=false", "pod/web\n"),
        ("pods --field-selector=spec.hostNetwork!=false", ""),
        ("pods --field-selector=spec.nodeName=", "pod/web\n"),
    ] {
        let shown = cluster.ok(&format!("get -o name {line}")).await;
        assert_eq!(shown, names, "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn apply_creates_changes_and_leaves_alone() {
    let Some(cluster) = Cluster::start().await else {
        return;
    };
    let apply = "apply -f -";
    assert_eq!(
        cluster.feed(apply, &config_map("a", "1")).await,
        "configmap/a created\n"
    );
    assert_eq!(
        cluster.feed(apply, &config_map("a", "1")).await,
        "configmap/a unchanged\n"
    );
    cluster
        .ok("patch cm a -p {\"data\":{\"extra\":\"x\"}}")
        .await;
    assert_eq!(
        cluster.feed(apply, &config_map("a", "2")).await,
        "configmap/a configured\n"
    );
    // What others wrote stays, what was applied before and is not now goes.
    assert_eq!(
        cluster
            .ok("get cm a -o jsonpath={.data.key}{.data.extra}")
            .await,
        "2x"
    );

    assert_eq!(
        cluster.feed(apply, &pod("busybox:1")).await,
        "pod/web created\n"
    );
    assert_eq!(
        cluster.feed(apply, &pod("busybox:2")).await,
        "pod/web configured\n"
    );
    let spec = cluster
        .ok("get pod web -o jsonpath={.spec.containers[0]}")
        .await;
    let container: Value = serde_json::from_str(&spec).expect("a container");
    assert_eq!(container["image"], "busybox:2");
    assert_eq!(
        container["resources"]["limits"],
        json!({ "cpu": "2", "memory": "1Gi" })
    );
    let mut changed = pod("busybox:2");
    changed["spec"]["containers"][0]["env"][0]["value"] = json!("2");
    let error = refused(&cluster, apply, &changed).await;
    assert!(
        error.contains("spec: Forbidden: pod updates may not change fields"),
        "{error}"
    );
}

/// As docs/compatibility.md has it: kubectl's own list of kinds to prune has some that are not served.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_applied_no_more_is_pruned_where_kinds_are_named() {
    let Some(cluster) = Cluster::start().await else {
        return;
    };
    let list = |names: &[&str]| {
        let labelled = names.iter().map(|name| {
            let mut map = config_map(name, "1");
            map["metadata"]["labels"] = json!({ "app": "pruned" });
            map
        });
        json!({ "apiVersion": "v1", "kind": "List", "items": labelled.collect::<Vec<_>>() })
    };
    let apply = "apply --prune -l app=pruned --prune-allowlist=core/v1/ConfigMap -f -";
    cluster.feed(apply, &list(&["a", "b"])).await;
    let said = cluster.feed(apply, &list(&["a"])).await;
    assert!(said.contains("configmap/b pruned"), "{said}");
    assert_eq!(
        cluster.ok("get cm -l app=pruned -o name").await,
        "configmap/a\n"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_cannot_be_added_to_a_pod_that_runs_and_kubectl_says_so() {
    let Some(cluster) = Cluster::start().await else {
        return;
    };
    let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p" },
                      "spec": { "containers": [{ "name": "c", "image": "i" }] } });
    cluster.feed("create -f -", &pod).await;
    let said = cluster.fails("debug p --image=busybox").await;
    assert!(said.contains("ephemeral containers are disabled"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn server_side_apply_conflicts_until_it_is_forced() {
    let Some(cluster) = Cluster::start().await else {
        return;
    };
    let config = |value: &str| {
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" },
            "data": { "key": value } })
    };
    let mine = "apply --server-side -f - --field-manager=mine";
    let yours = "apply --server-side -f - --field-manager=yours";
    assert_eq!(
        cluster.feed(mine, &config("1")).await,
        "configmap/a serverside-applied\n"
    );
    let before = cluster
        .ok("get cm a -o jsonpath={.metadata.resourceVersion}")
        .await;
    cluster.feed(mine, &config("1")).await;
    let after = cluster
        .ok("get cm a -o jsonpath={.metadata.resourceVersion}")
        .await;
    assert_eq!(after, before, "an apply that changes nothing is no write");

    let error = refused(&cluster, yours, &config("2")).await;
    let want = "Apply failed with 1 conflict: conflict with \"mine\": .data.key";
    assert!(error.contains(want), "{error}");
    cluster
        .feed(&format!("{yours} --force-conflicts"), &config("2"))
        .await;
    assert_eq!(cluster.ok("get cm a -o jsonpath={.data.key}").await, "2");
    let managers =
        "get cm a --show-managed-fields -o jsonpath={.metadata.managedFields[*].manager}";
    assert_eq!(cluster.ok(managers).await, "yours");

    // kubectl hands over what it applied on the client's side before.
    cluster.feed("apply -f -", &config_map("b", "1")).await;
    let out = cluster
        .feed("apply --server-side -f -", &config_map("b", "1"))
        .await;
    assert!(out.contains("configmap/b serverside-applied"), "{out}");
    let managers =
        "get cm b --show-managed-fields -o jsonpath={.metadata.managedFields[*].manager}";
    let managers = cluster.ok(managers).await;
    assert!(
        !managers.contains("kubectl-client-side-apply"),
        "{managers}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn all_four_kinds_of_patches() {
    let Some(cluster) = Cluster::start().await else {
        return;
    };
    cluster.feed("create -f -", &pod("busybox:1")).await;
    cluster
        .ok("patch pod web -p {\"spec\":{\"containers\":[{\"name\":\"main\",\"image\":\"x:1\"}]}}")
        .await;
    let image = "get pod web -o jsonpath={.spec.containers[0].image}";
    assert_eq!(cluster.ok(image).await, "x:1");
    cluster
        .ok("patch pod web --type=json -p [{\"op\":\"replace\",\"path\":\"/spec/containers/0/image\",\"value\":\"x:2\"}]")
        .await;
    assert_eq!(cluster.ok(image).await, "x:2");
    cluster
        .ok("patch pod web --type=merge -p {\"metadata\":{\"labels\":{\"a\":\"b\"}}}")
        .await;
    assert_eq!(
        cluster
            .ok("get pod web -o jsonpath={.metadata.labels.a}")
            .await,
        "b"
    );
    let error = cluster
        .fails(
            "patch pod web --type=json -p [{\"op\":\"test\",\"path\":\"/kind\",\"value\":\"Cow\"}]",
        )
        .await;
    assert!(error.contains("testing value /kind failed"), "{error}");
    let error = cluster
        .fails("patch pod web -p {\"spec\":{\"containers\":[{\"image\":\"x\"}]}}")
        .await;
    assert!(error.contains("merge key"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn diff_shows_and_does_not_write() {
    let Some(cluster) = Cluster::start().await else {
        return;
    };
    cluster.feed("apply -f -", &config_map("a", "1")).await;
    let words = ["diff", "-f", "-"].map(str::to_owned);
    let same = cluster
        .kubectl_with(&words, &config_map("a", "1").to_string())
        .await;
    assert_eq!(same.status.code(), Some(0));
    let output = cluster
        .kubectl_with(&words, &config_map("a", "2").to_string())
        .await;
    assert_eq!(output.status.code(), Some(1));
    let diff = String::from_utf8_lossy(&output.stdout);
    assert!(
        diff.contains("-  key: \"1\"") && diff.contains("+  key: \"2\""),
        "{diff}"
    );
    assert_eq!(cluster.ok("get cm a -o jsonpath={.data.key}").await, "1");
    let out = cluster
        .feed("apply --dry-run=server -f -", &config_map("a", "2"))
        .await;
    assert!(out.contains("configured (server dry run)"), "{out}");
    assert_eq!(cluster.ok("get cm a -o jsonpath={.data.key}").await, "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn edit_and_replace() {
    let Some(cluster) = Cluster::start().await else {
        return;
    };
    cluster.feed("create -f -", &gadgets()).await;
    cluster
        .ok("wait --for=condition=Established crd/gadgets.example.org --timeout=10s")
        .await;
    cluster.feed("create -f -", &gadget(1)).await;
    cluster.feed("create -f -", &config_map("a", "1")).await;
    for (what, editor, path, want) in [
        (
            "gadget g",
            "sed -i 's/size:.*/size: 7/'",
            "{.spec.size}",
            "7",
        ),
        (
            "cm a",
            "sed -i 's/key:.*/key: edited/'",
            "{.data.key}",
            "edited",
        ),
    ] {
        let words: Vec<_> = format!("edit {what}")
            .split(' ')
            .map(str::to_owned)
            .collect();
        let output = cluster.program("kubectl", &words, "", editor).await;
        assert!(text(&output, what).contains("edited"));
        assert_eq!(
            cluster.ok(&format!("get {what} -o jsonpath={path}")).await,
            want
        );
    }
    assert_eq!(
        cluster.feed("replace -f -", &config_map("a", "9")).await,
        "configmap/a replaced\n"
    );
    assert_eq!(cluster.ok("get cm a -o jsonpath={.data.key}").await, "9");
    let mut stale = config_map("a", "8");
    stale["metadata"]["resourceVersion"] = json!("1");
    let error = refused(&cluster, "replace -f -", &stale).await;
    assert!(error.contains("the object has been modified"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_describes_fields() {
    let Some(cluster) = Cluster::start().await else {
        return;
    };
    cluster.feed("create -f -", &gadgets()).await;
    cluster
        .ok("wait --for=condition=Established crd/gadgets.example.org --timeout=10s")
        .await;
    let spec = cluster.ok("explain gadget.spec").await;
    assert!(
        spec.contains("What is wanted.") && spec.contains("How big."),
        "{spec}"
    );
    let containers = cluster.ok("explain pod.spec.containers").await;
    assert!(containers.contains("imagePullPolicy") && containers.contains("-required-"));
    let template = cluster
        .ok("explain job.spec.template.spec.volumes.configMap --recursive")
        .await;
    assert!(template.contains("defaultMode"), "{template}");
    assert!(
        cluster
            .fails("explain pod.spec.colour")
            .await
            .contains("does not exist")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_fields_are_refused_warned_of_or_dropped() {
    let Some(cluster) = Cluster::start().await else {
        return;
    };
    cluster.feed("create -f -", &gadgets()).await;
    cluster
        .ok("wait --for=condition=Established crd/gadgets.example.org --timeout=10s")
        .await;
    let mut object = gadget(1);
    object["spec"]["colour"] = json!("red");
    let error = refused(&cluster, "create -f -", &object).await;
    assert!(
        error.contains("strict decoding error: unknown field \"spec.colour\""),
        "{error}"
    );
    let out = cluster.feed("create --validate=warn -f -", &object).await;
    assert!(
        out.contains("unknown field \"spec.colour\"") && out.contains("created"),
        "{out}"
    );
    assert_eq!(
        cluster.ok("get gadget g -o jsonpath={.spec.colour}").await,
        ""
    );
    let mut pod = pod("x:1");
    pod["spec"]["containers"][0]["shape"] = json!("round");
    let error = refused(&cluster, "apply -f -", &pod).await;
    assert!(
        error.contains("unknown field \"spec.containers[0].shape\""),
        "{error}"
    );
    object["spec"] = json!({ "size": "big" });
    let error = refused(&cluster, "apply -f -", &object).await;
    let want = "spec.size: Invalid value: \"string\": spec.size in body must be of type integer: \"string\"";
    assert!(error.contains(want), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_makes_objects_of_its_own() {
    let Some(cluster) = Cluster::start().await else {
        return;
    };
    for (line, want) in [
        (
            "create configmap c --from-literal=a=b",
            "configmap/c created",
        ),
        (
            "create secret generic s --from-literal=a=b",
            "secret/s created",
        ),
        ("create namespace team", "namespace/team created"),
        ("create serviceaccount bot", "serviceaccount/bot created"),
        (
            "create role r --verb=get,list --resource=pods",
            "role.rbac.authorization.k8s.io/r created",
        ),
        (
            "create rolebinding b --role=r --serviceaccount=default:bot",
            "rolebinding.rbac.authorization.k8s.io/b created",
        ),
        (
            "create clusterrole acme:cr --verb=get --resource=nodes",
            "clusterrole.rbac.authorization.k8s.io/acme:cr created",
        ),
        (
            "create clusterrolebinding acme:crb --clusterrole=acme:cr --user=u",
            "clusterrolebinding.rbac.authorization.k8s.io/acme:crb created",
        ),
        ("create job j --image=x -- echo hi", "job.batch/j created"),
        ("create quota q --hard=pods=3", "resourcequota/q created"),
        (
            "create priorityclass p --value=7",
            "priorityclass.scheduling.k8s.io/p created",
        ),
        (
            "create service clusterip v --tcp=80:8080",
            "service/v created",
        ),
        (
            "run p --image=x --restart=Never --env=A=b -- sleep 5",
            "pod/p created",
        ),
    ] {
        let out = cluster.ok(line).await;
        assert_eq!(out.trim(), want, "{line}");
    }
    let command = cluster
        .ok("get pod p -o jsonpath={.spec.containers[0].args}{.spec.restartPolicy}")
        .await;
    assert_eq!(command, "[\"sleep\",\"5\"]Never");
    assert_eq!(
        cluster.ok("get secret s -o jsonpath={.data.a}").await,
        "Yg=="
    );
    assert_eq!(
        cluster
            .ok("get svc v -o jsonpath={.spec.ports[0].targetPort}")
            .await,
        "8080"
    );
    assert_eq!(
        cluster
            .ok("get quota q -o jsonpath={.spec.hard.pods}")
            .await,
        "3"
    );
    assert!(cluster.ok("create token bot").await.len() > 40);

    assert_eq!(cluster.ok("auth can-i get pods").await.trim(), "yes");
    let bot = "--as=system:serviceaccount:default:bot";
    assert_eq!(
        cluster
            .ok(&format!("auth can-i list pods {bot}"))
            .await
            .trim(),
        "yes"
    );
    let output = cluster
        .kubectl(&format!("auth can-i delete pods {bot}"))
        .await;
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "no");
    assert!(cluster.ok("auth can-i --list").await.contains("*.*"));
    assert!(cluster.ok("auth whoami").await.contains("system:masters"));
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_have_kubernetes_columns() {
    let Some(cluster) = Cluster::start().await else {
        return;
    };
    cluster.feed("create -f -", &pod("x:1")).await;
    cluster.feed("create -f -", &config_map("a", "1")).await;
    cluster.ok("create job j --image=x -- echo hi").await;
    for (line, columns) in [
        ("get pods", "NAME READY STATUS RESTARTS AGE"),
        (
            "get pods -o wide",
            "NAME READY STATUS RESTARTS AGE IP NODE NOMINATED NODE READINESS GATES",
        ),
        ("get jobs", "NAME STATUS COMPLETIONS DURATION AGE"),
        ("get configmaps", "NAME DATA AGE"),
        ("get namespaces", "NAME STATUS AGE"),
        (
            "get pods --show-labels",
            "NAME READY STATUS RESTARTS AGE LABELS",
        ),
        ("get pods -A", "NAMESPACE NAME READY STATUS RESTARTS AGE"),
        ("get cm --sort-by=.metadata.name", "NAME DATA AGE"),
        (
            "get cm -o custom-columns=N:.metadata.name,K:.data.key",
            "N K",
        ),
    ] {
        let out = cluster.ok(line).await;
        let head = out.lines().next().unwrap_or_default();
        let head: Vec<_> = head.split_whitespace().collect();
        assert_eq!(head.join(" "), columns, "{line}");
    }
    let row = cluster.ok("get pod web --no-headers").await;
    let cells: Vec<_> = row.split_whitespace().take(4).collect();
    assert_eq!(cells, ["web", "0/1", "Pending", "0"]);
    assert!(cluster.ok("describe pod web").await.contains("Image:"));
    assert!(
        cluster
            .ok("describe job j")
            .await
            .contains("Backoff Limit:")
    );
}
