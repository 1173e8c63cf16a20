//! What a pod's object promises its containers, through the whole agent.

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::plane::{Plane, phase};
use crate::registry::{Registry, layer};

/// Takes away the pods of a test.
async fn clear(plane: &Plane, names: &[&str]) {
    for name in names {
        let now = DeleteParams {
            grace_period_seconds: Some(0),
            ..DeleteParams::default()
        };
        plane.api::<Pod>().delete(name, &now).await.unwrap();
    }
    plane.gone(names[0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn volumes_of_every_kind_show_what_they_are_made_of() {
    let plane = Plane::start().await;
    let Some(agent) = plane.agent() else { return };
    let data = json!({"metadata": {"name": "settings"}, "data": {"rate": "0.1", "seed": "7"}});
    plane.create::<ConfigMap>(data).await;
    plane
        .create::<Secret>(json!({"metadata": {"name": "key"}, "data": {"token": "czNjcmV0"}}))
        .await;
    let script = "cat /all/settings/rate /all/key/token /all/who; stat -L -c %a /all/key/token; \
        cat /info/cpu /info/name; echo; cat /part; ls /sub; cat /expr/mark; touch /frozen/x; touch /all/x; \
        echo $S_rate $S_seed '$(S_rate)' $BOTH $KEPT; df /dev/shm --output=size | tail -1; id -u";
    plane
        .pod(
            "volumes",
            script,
            json!({
                "container": {
                    "args": [],
                    "resources": {"limits": {"cpu": "1500m"}},
                    "envFrom": [{"prefix": "S_", "configMapRef": {"name": "settings"}}],
                    "env": [
                        {"name": "BOTH", "value": "$(S_rate)/$(S_seed)"},
                        {"name": "KEPT", "value": "$$(S_rate)"},
                        {"name": "RANK", "value": "3"},
                    ],
                    "volumeMounts": [
                        {"name": "all", "mountPath": "/all"},
                        {"name": "info", "mountPath": "/info"},
                        {"name": "all", "mountPath": "/part", "subPath": "settings/seed"},
                        {"name": "work", "mountPath": "/sub", "subPath": "deep/er"},
                        {"name": "work", "mountPath": "/expr", "subPathExpr": "rank-$(RANK)"},
                        {"name": "work", "mountPath": "/frozen", "readOnly": true},
                        {"name": "shm", "mountPath": "/dev/shm"},
                    ],
                },
                "spec": {
                    "initContainers": [{
                        "name": "before", "image": "any",
                        "command": ["bash", "-c", "mkdir -p /w/deep/er /w/rank-3; touch /w/deep/er/file; echo marked > /w/rank-3/mark"],
                        "volumeMounts": [{"name": "work", "mountPath": "/w"}],
                    }],
                    "volumes": [
                        {"name": "work", "emptyDir": {}},
                        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "96Mi"}},
                        {"name": "info", "downwardAPI": {"items": [
                            {"path": "cpu", "resourceFieldRef": {"containerName": "main", "resource": "limits.cpu"}},
                            {"path": "name", "fieldRef": {"fieldPath": "metadata.name"}},
                        ]}},
                        {"name": "all", "projected": {"defaultMode": 0o440, "sources": [
                            {"configMap": {"name": "settings", "items": [{"key": "rate", "path": "settings/rate"}, {"key": "seed", "path": "settings/seed"}]}},
                            {"secret": {"name": "key", "items": [{"key": "token", "path": "key/token", "mode": 0o400}]}},
                            {"downwardAPI": {"items": [{"path": "who", "fieldRef": {"fieldPath": "metadata.annotations['who']"}}]}},
                        ]}},
                    ],
                },
            }),
        )
        .await;
    let (end, log) = plane.finished("volumes").await;
    assert_eq!(end, "Succeeded", "{log}");
    for want in [
        "0.1s3cretme400\n",
        "2volumes\n",
        "7file\n",
        "marked\n",
        "touch: cannot touch '/frozen/x': Read-only file system\n",
        "touch: cannot touch '/all/x': Read-only file system\n",
        "0.1 7 0.1 0.1/7 $(S_rate)\n",
        "98304\n",
        "\n0\n",
    ] {
        assert!(log.contains(want), "{want:?} in {log}");
    }
    clear(&plane, &["volumes"]).await;
    agent.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_pod_sees_a_changed_config_map_change_as_a_whole() {
    let plane = Plane::start().await;
    let Some(agent) = plane.agent() else { return };
    let data = json!({"metadata": {"name": "pair"}, "data": {"a": "1", "b": "1"}});
    plane.create::<ConfigMap>(data).await;
    // Both files are read through the one link that is replaced.
    let script = "while :; do d=$(readlink /v/..data); a=$(cat /v/$d/a 2>/dev/null) && b=$(cat /v/$d/b 2>/dev/null) || continue; \
        [ $a = $b ] || { echo torn $a $b; exit 1; }; [ $a = 2 ] && break; sleep 0.02; done; echo whole $(cat /v/a)";
    let volume = json!({
        "container": {"volumeMounts": [{"name": "v", "mountPath": "/v"}]},
        "spec": {"volumes": [{"name": "v", "configMap": {"name": "pair"}}]},
    });
    plane.pod("reader", script, volume).await;
    plane
        .until("reader", "runs", |pod| phase(pod) == "Running")
        .await;
    let change = Patch::Merge(json!({"data": {"a": "2", "b": "2"}}));
    plane
        .api::<ConfigMap>()
        .patch("pair", &PatchParams::default(), &change)
        .await
        .unwrap();
    let (end, log) = plane.finished("reader").await;
    assert_eq!((end.as_str(), log.as_str()), ("Succeeded", "whole 2\n"));
    clear(&plane, &["reader"]).await;
    agent.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_probes_users_and_ends_are_as_the_object_says() {
    let plane = Plane::start().await;
    let Some(agent) = plane.agent() else { return };
    // A server that is ready once its hook has run, and says good-bye by its hook before SIGTERM comes.
    let serve = "trap 'echo term; exit 0' TERM; until [ -e /tmp/hooked ]; do sleep 0.02; done; \
        mkdir /tmp/www; touch /tmp/www/up; python3 -m http.server 8080 --directory /tmp/www >/dev/null 2>&1 & \
        while :; do sleep 0.05; done";
    plane
        .pod(
            "server",
            serve,
            json!({
                "container": {
                    "lifecycle": {
                        "postStart": {"exec": {"command": ["touch", "/tmp/hooked"]}},
                        "preStop": {"exec": {"command": ["bash", "-c", "echo stopping > /proc/1/fd/1"]}},
                    },
                    "startupProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1, "failureThreshold": 60},
                    "readinessProbe": {"httpGet": {"path": "/up", "port": 8080}, "periodSeconds": 1},
                },
            }),
        )
        .await;
    let ready = |pod: &Pod| {
        let conditions = pod.status.as_ref().and_then(|it| it.conditions.as_ref());
        let mut conditions = conditions.into_iter().flatten();
        conditions.any(|one| one.type_ == "Ready" && one.status == "True")
    };
    plane.until("server", "is ready", ready).await;

    plane
        .pod(
            "hog",
            "exec python3 -c 'x = []\nwhile True: x.append(bytearray(1 << 20))'",
            json!({"container": {"resources": {"limits": {"memory": "48Mi"}}}}),
        )
        .await;
    let user = json!({"container": {"securityContext": {"runAsUser": 1234, "runAsGroup": 4321}}});
    plane
        .pod(
            "user",
            "id -u; id -g; touch /tmp/x && stat -c %u /tmp/x",
            user,
        )
        .await;
    let root = json!({"container": {"securityContext": {"runAsNonRoot": true}}});
    plane.pod("root", "true", root).await;

    let (_, log) = plane.finished("user").await;
    assert_eq!(log, "1234\n4321\n1234\n");
    plane.finished("hog").await;
    let hog = plane.api::<Pod>().get("hog").await.unwrap();
    let statuses = hog.status.unwrap().container_statuses.unwrap();
    let end = statuses[0].state.clone().unwrap().terminated.unwrap();
    assert_eq!(
        (end.exit_code, end.reason.as_deref()),
        (137, Some("OOMKilled"))
    );
    let refused = plane
        .until("root", "is refused", |pod| {
            format!("{:?}", pod.status).contains("runAsNonRoot")
        })
        .await;
    assert!(format!("{:?}", refused.status).contains("CreateContainerConfigError"));

    let server = plane.api::<Pod>().get("server").await.unwrap();
    let polite = DeleteParams {
        grace_period_seconds: Some(30),
        ..DeleteParams::default()
    };
    plane.api::<Pod>().delete("server", &polite).await.unwrap();
    clear(&plane, &["hog", "user", "root"]).await;
    assert_eq!(plane.log(&server), "stopping\nterm\n");
    agent.end().await;
}

/// A layer with a shell and what it needs, from this machine.
fn shell_layer() -> Vec<u8> {
    let linked = std::process::Command::new("ldd")
        .arg("/bin/bash")
        .output()
        .unwrap();
    let linked = String::from_utf8_lossy(&linked.stdout).into_owned();
    let mut files: Vec<(String, Vec<u8>)> = linked
        .split_whitespace()
        .filter(|word| word.starts_with('/'))
        .chain(["/bin/bash"])
        .map(|path| {
            let content = std::fs::read(path).unwrap();
            (path.trim_start_matches('/').to_owned(), content)
        })
        .collect();
    files.push((
        "etc/passwd".into(),
        b"trainer:x:77:78::/home:/bin/bash\n".to_vec(),
    ));
    let files: Vec<(&str, &[u8])> = files
        .iter()
        .map(|(path, content)| (path.as_str(), content.as_slice()))
        .collect();
    layer(&files)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_of_a_private_registry_is_pulled_with_the_pods_secret_and_run() {
    let plane = Plane::start().await;
    let pull = |options: &mut astrago_node::Options| {
        options.images = astrago_node::Images::Pull;
        options.private_registries = true;
    };
    let Some(agent) = plane.agent_with(pull) else {
        return;
    };
    let registry = Registry::start().await;
    registry.require_login("user", "right");
    let config = json!({
        "Entrypoint": ["/bin/bash", "-c"], "Cmd": ["echo never"], "Env": ["FROM_IMAGE=yes"],
        "WorkingDir": "/srv/work", "User": "trainer",
    });
    let upper = layer(&[("srv/work/model", b"weights")]);
    registry.push("v1", &[shell_layer(), upper], &config);
    let auths = json!({"auths": {registry.address(): {"username": "user", "password": "right"}}});
    let secret = json!({"metadata": {"name": "pull"}, "type": "kubernetes.io/dockerconfigjson",
        "stringData": {".dockerconfigjson": auths.to_string()}});
    plane.create::<Secret>(secret).await;
    let image = format!("{}/image:v1", registry.address());
    let script = "echo $FROM_IMAGE $UID $PWD $(<model) $PLACE; [ -e /usr/bin/python3 ] || echo nothing of the host";
    let more = |secrets: serde_json::Value| {
        json!({
            "container": {"image": image, "command": null, "args": [script],
                "env": [{"name": "PLACE", "value": "pod"}]},
            "spec": {"imagePullSecrets": secrets},
        })
    };
    plane.pod("stranger", "", more(json!([]))).await;
    let waits = |pod: &Pod| format!("{:?}", pod.status).contains("ErrImagePull");
    plane.until("stranger", "is refused", waits).await;
    plane
        .pod("tenant", "", more(json!([{"name": "pull"}])))
        .await;
    let (end, log) = plane.finished("tenant").await;
    assert_eq!(
        (end.as_str(), log.as_str()),
        (
            "Succeeded",
            "yes 77 /srv/work weights pod\nnothing of the host\n"
        )
    );
    clear(&plane, &["tenant", "stranger"]).await;
    agent.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pull_tells_how_far_it_is_and_the_images_stop_signal_is_obeyed() {
    let plane = Plane::start().await;
    let pull = |options: &mut astrago_node::Options| {
        options.images = astrago_node::Images::Pull;
        options.private_registries = true;
    };
    let Some(agent) = plane.agent_with(pull) else {
        return;
    };
    let registry = Registry::start().await;
    let config = json!({"StopSignal": "USR1"});
    let upper = layer(&[("srv/model", b"weights")]);
    let (_, layers) = registry.push("v1", &[shell_layer(), upper], &config);
    let go = registry.hold(&layers[0]);
    let image = format!("{}/image:v1", registry.address());
    let script =
        "trap 'echo saved; exit 0' USR1; echo up; while :; do read -t 0.05 < /dev/zero; done";
    let more = |signal: Option<&str>| {
        json!({"container": {"image": image, "lifecycle": {"stopSignal": signal},
            "command": ["/bin/bash", "-c", script]}})
    };
    plane.pod("slow", "", more(None)).await;
    let want = format!("pulling image {image}: ");
    let waits = |pod: &Pod| format!("{:?}", pod.status).contains(&want);
    plane.until("slow", "tells of the pull", waits).await;
    go.notify_one();
    let running = |pod: &Pod| phase(pod) == "Running" && plane.log(pod).contains("up");
    let pod = plane.until("slow", "runs", running).await;
    let containers = pod.status.clone().unwrap().container_statuses.unwrap();
    assert_eq!(containers[0].stop_signal.as_deref(), Some("SIGUSR1"));
    plane.delete("slow").await;
    assert_eq!(plane.log(&pod), "up\nsaved\n");

    plane.pod("wrong", "", more(Some("SIGNOTHING"))).await;
    let refused = |pod: &Pod| format!("{:?}", pod.status).contains("is not a signal");
    plane.until("wrong", "is refused", refused).await;
    clear(&plane, &["wrong"]).await;
    agent.end().await;
}
