//! The agent with a real API server in this process.

use astrago_node::layout::{self, PodDir};
use k8s_openapi::api::core::v1::{
    ConfigMap, Namespace, Node, PersistentVolumeClaim, Pod, Secret, Service,
};
use kube::Api;
use kube::api::{DeleteParams, LogParams, Patch, PatchParams};
use serde_json::json;

use crate::plane::{NODE, Plane, phase};
use crate::support::{self, PATIENCE};

#[tokio::test(flavor = "multi_thread")]
async fn a_bound_pod_runs_with_its_environment_and_volumes_and_is_deleted() {
    let plane = Plane::start().await;
    let Some(agent) = plane.agent() else { return };
    plane.create::<ConfigMap>(json!({"metadata": {"name": "code"}, "data": {"train.sh": "echo from the map", "level": "7"}})).await;
    plane
        .create::<Secret>(json!({"metadata": {"name": "key"}, "data": {"token": "czNjcmV0"}}))
        .await;
    plane.create::<PersistentVolumeClaim>(json!({"metadata": {"name": "claim"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}})).await;
    let script = "echo $LEVEL $TOKEN $WHO $JOINED $CPU; bash /code/run.sh; cat /etc/secret/token; echo; \
        stat -L -c %a /code/run.sh; touch /code/x 2>&1; touch /claim/made && ls /claim; df -k /dev/shm | tail -1; \
        echo $CUDA_VISIBLE_DEVICES; echo done > /dev/termination-log; pwd; hostname; cat /allowed/file; touch /allowed/mine; python3 -c 'print(40+2)'";
    std::fs::create_dir_all(plane.data.path().join("allowed")).unwrap();
    std::fs::write(plane.data.path().join("allowed/file"), "host file\n").unwrap();
    let allowed = plane.data.path().join("allowed");
    plane.pod("full", script, json!({
        "container": {
            "workingDir": "/work/here",
            "resources": {"limits": {"cpu": "500m", "memory": "256Mi", "nvidia.com/gpu": "1"}},
            "env": [
                {"name": "LEVEL", "valueFrom": {"configMapKeyRef": {"name": "code", "key": "level"}}},
                {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "key", "key": "token"}}},
                {"name": "WHO", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['who']"}}},
                {"name": "JOINED", "value": "$(LEVEL)-$(WHO)"},
                {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
            ],
            "volumeMounts": [
                {"name": "code", "mountPath": "/code"}, {"name": "key", "mountPath": "/etc/secret"},
                {"name": "claim", "mountPath": "/claim"}, {"name": "shm", "mountPath": "/dev/shm"},
                {"name": "host", "mountPath": "/allowed"},
            ],
        },
        "spec": {"volumes": [
            {"name": "code", "configMap": {"name": "code", "defaultMode": 0o755, "items": [{"key": "train.sh", "path": "run.sh"}]}},
            {"name": "key", "secret": {"secretName": "key", "defaultMode": 0o400}},
            {"name": "claim", "persistentVolumeClaim": {"claimName": "claim"}},
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "128Mi"}},
            {"name": "host", "hostPath": {"path": allowed}},
        ]},
    })).await;
    let (phase, log) = plane.finished("full").await;
    assert_eq!(phase, "Succeeded", "{log}");
    for want in [
        "7 s3cret me 7-me 500\n",
        "from the map\n",
        "s3cret\n",
        "\n755\n",
        "Read-only file system",
        "\nmade\n",
        "131072",
        "/work/here\n",
        "\nfull\n",
        "host file\n",
        "42\n",
    ] {
        assert!(log.contains(want), "{want:?} in {log}");
    }
    let pod = plane.api::<Pod>().get("full").await.unwrap();
    let status = pod.status.unwrap();
    let end = status.container_statuses.unwrap()[0]
        .state
        .clone()
        .unwrap()
        .terminated
        .unwrap();
    assert_eq!(
        (end.exit_code, end.reason.as_deref(), end.message.as_deref()),
        (0, Some("Completed"), Some("done\n"))
    );
    assert!(status.pod_ip.is_some() && status.start_time.is_some());
    let node: Node = Api::all(plane.client.clone()).get(NODE).await.unwrap();
    assert_eq!(
        node.status.unwrap().allocatable.unwrap()["nvidia.com/gpu"].0,
        "2"
    );
    plane.delete("full").await;
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(plane.client.clone());
    let uid = claims.get("claim").await.unwrap().metadata.uid.unwrap();
    let folder = layout::claim(plane.data.path(), "default", "claim", &uid);
    assert!(folder.join("made").exists());
    // Its files go with the claim, but not at once.
    let parameters = DeleteParams::default();
    claims.delete("claim", &parameters).await.unwrap();
    let kept = layout::deleted(plane.data.path()).join(format!("default_claim_{uid}/made"));
    let begun = std::time::Instant::now();
    while folder.exists() || !kept.exists() {
        assert!(begun.elapsed() < PATIENCE, "the claim's folder stays");
        support::pause(10).await;
    }
    agent.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_missing_is_said_and_waited_for() {
    let plane = Plane::start().await;
    let Some(agent) = plane.agent() else { return };
    let volume = json!({
        "container": {"volumeMounts": [{"name": "v", "mountPath": "/v"}]},
        "spec": {"volumes": [{"name": "v", "configMap": {"name": "late"}}]},
    });
    plane.pod("patient", "echo $(cat /v/word)", volume).await;
    let waiting = |pod: &Pod| -> Option<(String, String)> {
        let state = pod.status.as_ref()?.container_statuses.as_ref()?[0]
            .state
            .as_ref()?
            .waiting
            .clone()?;
        Some((state.reason?, state.message?))
    };
    let pod = plane
        .until("patient", "says what is missing", |pod| {
            waiting(pod).is_some()
        })
        .await;
    assert_eq!(
        waiting(&pod).unwrap(),
        (
            "CreateContainerConfigError".into(),
            "ConfigMap \"late\" not found".into()
        )
    );
    plane
        .create::<ConfigMap>(json!({"metadata": {"name": "late"}, "data": {"word": "at last"}}))
        .await;
    let (phase, log) = plane.finished("patient").await;
    assert_eq!((phase.as_str(), log.as_str()), ("Succeeded", "at last\n"));
    plane.delete("patient").await;
    let bad = json!({"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/root"}}]}});
    plane.pod("nosy", "ls", bad).await;
    let pod = plane
        .until("nosy", "is refused", |pod| waiting(pod).is_some())
        .await;
    assert!(
        waiting(&pod).unwrap().1.contains("administrator"),
        "{pod:?}"
    );
    plane.delete("nosy").await;
    agent.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_find_each_other_by_the_names_of_their_service_and_use_the_same_port() {
    let plane = Plane::start().await;
    let Some(agent) = plane.agent() else { return };
    let server = "import socket; s = socket.create_server(('0.0.0.0', 29500)); \
        c, a = s.accept(); c.sendall(socket.gethostname().encode()); print(socket.gethostbyaddr(a[0])[0])";
    for job in ["one", "two"] {
        plane.create::<Service>(json!({"metadata": {"name": job}, "spec": {"clusterIP": "None", "selector": {"job": job}}})).await;
        let named =
            |rank: u32| json!({"spec": {"hostname": format!("{job}-{rank}"), "subdomain": job}});
        plane
            .pod(
                &format!("{job}-0"),
                &format!("exec python3 -c \"{server}\""),
                named(0),
            )
            .await;
        let client = format!(
            "import socket, time\nwhile True:\n    try:\n        s = socket.create_connection(('{job}-0.{job}', 29500)); break\n    except OSError: time.sleep(0.05)\nprint('met', s.recv(99).decode())"
        );
        plane
            .pod(
                &format!("{job}-1"),
                &format!("exec python3 -c \"{client}\""),
                named(1),
            )
            .await;
    }
    for job in ["one", "two"] {
        let (phase, log) = plane.finished(&format!("{job}-1")).await;
        assert_eq!(
            (phase.as_str(), log),
            ("Succeeded", format!("met {job}-0\n"))
        );
        let (phase, log) = plane.finished(&format!("{job}-0")).await;
        assert_eq!(
            (phase.as_str(), log),
            (
                "Succeeded",
                format!("{job}-1.{job}.default.svc.cluster.local\n")
            )
        );
    }
    for name in ["one-0", "one-1", "two-0", "two-1"] {
        plane
            .api::<Pod>()
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
    }
    plane.gone("one-0").await;
    agent.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_survives_its_agent_and_is_taken_over_by_the_next() {
    let plane = Plane::start().await;
    let Some(agent) = plane.agent() else { return };
    plane
        .pod(
            "long",
            "echo begun; while [ ! -e /tmp/stop ]; do sleep 0.05; done; echo ended",
            json!({}),
        )
        .await;
    plane
        .pod(
            "stopped",
            "trap 'echo asked; exit 0' TERM; echo up; while :; do sleep 0.05; done",
            json!({}),
        )
        .await;
    let running = |pod: &Pod| phase(pod) == "Running";
    let pod = plane.until("long", "runs", running).await;
    plane.until("stopped", "runs", running).await;
    agent.end().await;
    plane
        .api::<Pod>()
        .delete("stopped", &DeleteParams::default())
        .await
        .unwrap();
    let agent = plane.agent().unwrap();
    // The second pod was deleted while nobody was there; the first goes on as if nothing had been.
    let begun = std::time::Instant::now();
    while plane
        .api::<Pod>()
        .get_opt("stopped")
        .await
        .unwrap()
        .is_some()
    {
        assert!(begun.elapsed() < PATIENCE, "the deleted pod stays");
        support::pause(10).await;
    }
    let after = plane.api::<Pod>().get("long").await.unwrap();
    let started = |pod: &Pod| {
        pod.status
            .as_ref()
            .unwrap()
            .container_statuses
            .as_ref()
            .unwrap()[0]
            .state
            .clone()
    };
    assert_eq!(started(&pod), started(&after));
    assert_eq!(plane.log(&after), "begun\n");
    plane
        .api::<Pod>()
        .delete(
            "long",
            &DeleteParams {
                grace_period_seconds: Some(1),
                ..DeleteParams::default()
            },
        )
        .await
        .unwrap();
    plane.gone("long").await;
    agent.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_run_exactly_once_while_their_agent_is_killed_thirty_times() {
    const PODS: usize = 4;
    const KILLS: usize = 30;
    let plane = Plane::start().await;
    let Some(mut agent) = plane.agent() else {
        return;
    };
    std::fs::create_dir_all(plane.data.path().join("allowed")).unwrap();
    let allowed = plane.data.path().join("allowed");
    let volume = json!({
        "container": {"volumeMounts": [{"name": "h", "mountPath": "/h"}]},
        "spec": {"volumes": [{"name": "h", "hostPath": {"path": allowed}}]},
    });
    let name = |index: usize| format!("rank-{index}");
    for index in 0..PODS {
        let script = format!(
            "echo start >> /h/{index}; until [ -e /h/go ]; do sleep 0.05; done; echo end >> /h/{index}"
        );
        plane.pod(&name(index), &script, volume.clone()).await;
    }
    for kill in 0..KILLS {
        // A little later each time, so that the agent dies at every stage of its work.
        support::pause(7 * kill as u64).await;
        agent.task.abort();
        let _ = (&mut agent.task).await;
        agent = plane.agent().unwrap();
    }
    for index in 0..PODS {
        plane
            .until(&name(index), "runs", |pod| phase(pod) == "Running")
            .await;
    }
    std::fs::write(plane.data.path().join("allowed/go"), "").unwrap();
    for index in 0..PODS {
        let (phase, log) = plane.finished(&name(index)).await;
        assert_eq!(phase, "Succeeded", "{log}");
        let lines =
            std::fs::read_to_string(plane.data.path().join(format!("allowed/{index}"))).unwrap();
        assert_eq!(lines, "start\nend\n", "rank {index} ran more than once");
        let pod = plane.api::<Pod>().get(&name(index)).await.unwrap();
        assert_eq!(
            pod.status.unwrap().container_statuses.unwrap()[0].restart_count,
            0
        );
        plane
            .api::<Pod>()
            .delete(&name(index), &DeleteParams::default())
            .await
            .unwrap();
    }
    plane.gone(&name(0)).await;
    agent.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_takes_more_disk_than_it_may_is_evicted() {
    let plane = Plane::start().await;
    let Some(agent) = plane.agent() else { return };
    let fill =
        |path: &str| format!("head -c 8M /dev/urandom > {path}/large; sync; exec sleep 1000");
    let limited = json!({"container": {"resources": {"limits": {"ephemeral-storage": "4Mi"}}}});
    plane
        .pod("layer", &fill("/usr/local"), limited.clone())
        .await;
    plane.pod("tmp", &fill("/tmp"), limited).await;
    let volume = json!({
        "container": {"volumeMounts": [{"name": "v", "mountPath": "/v"}]},
        "spec": {"volumes": [{"name": "v", "emptyDir": {"sizeLimit": "4Mi"}}]},
    });
    plane.pod("volume", &fill("/v"), volume.clone()).await;
    plane
        .pod("modest", "head -c 1M /dev/urandom > /v/small", volume)
        .await;
    for (name, want) in [
        (
            "layer",
            "Container main exceeded its local ephemeral storage limit \"4Mi\". ",
        ),
        (
            "tmp",
            "Container main exceeded its local ephemeral storage limit \"4Mi\". ",
        ),
        (
            "volume",
            "Usage of EmptyDir volume \"v\" exceeds the limit \"4Mi\". ",
        ),
    ] {
        let (phase, log) = plane.finished(name).await;
        assert_eq!(phase, "Failed", "{name}: {log}");
        let status = plane.api::<Pod>().get(name).await.unwrap().status.unwrap();
        assert_eq!(
            (status.reason.as_deref(), status.message.as_deref()),
            (Some("Evicted"), Some(want)),
            "{name}"
        );
    }
    assert_eq!(plane.finished("modest").await.0, "Succeeded");
    for name in ["layer", "tmp", "volume", "modest"] {
        plane
            .api::<Pod>()
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
    }
    plane.gone("layer").await;
    agent.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_nobody_scheduled_must_fit_and_may_not_have_the_machines_network() {
    let plane = Plane::start().await;
    let Some(agent) = plane.agent() else { return };
    let refused = async |name: &str| {
        let pod = plane
            .until(name, "is refused", |pod| phase(pod) == "Failed")
            .await;
        pod.status.unwrap().reason.unwrap()
    };
    let large = json!({"container": {"resources": {"requests": {"cpu": "100000"}}}});
    plane.pod("large", "true", large).await;
    assert_eq!(refused("large").await, "OutOfcpu");
    let claims = json!([{"name": "gpu", "resourceClaimName": "gpu"}]);
    let claiming = json!({"spec": {"resourceClaims": claims}});
    plane.pod("claiming", "true", claiming).await;
    assert_eq!(refused("claiming").await, "ResourceClaimsNotServed");
    let host = json!({"spec": {"hostNetwork": true}});
    plane.pod("host", "true", host.clone()).await;
    assert_eq!(refused("host").await, "HostNetworkForbidden");

    let namespaces: Api<Namespace> = Api::all(plane.client.clone());
    let label =
        json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}});
    namespaces
        .patch("default", &PatchParams::default(), &Patch::Merge(label))
        .await
        .unwrap();
    plane
        .pod("trusted", "readlink /proc/self/ns/net", host)
        .await;
    let (end, log) = plane.finished("trusted").await;
    let own = std::fs::read_link("/proc/self/ns/net").unwrap();
    assert_eq!(
        (end.as_str(), log.trim()),
        ("Succeeded", own.to_str().unwrap())
    );
    // Through the API server, which trusts the node's certificate because the Node names it.
    let (api, all) = (plane.api::<Pod>(), LogParams::default());
    assert_eq!(api.logs("trusted", &all).await.unwrap(), log);
    for name in ["large", "host", "trusted"] {
        plane
            .api::<Pod>()
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
    }
    plane.gone("trusted").await;
    agent.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_whose_supervisor_is_stopped_can_be_deleted() {
    let plane = Plane::start().await;
    let Some(agent) = plane.agent() else { return };
    let pod = plane.pod("stuck", "sleep 600", json!({})).await;
    plane
        .until("stuck", "runs", |pod| phase(pod) == "Running")
        .await;
    let dir = PodDir::new(plane.data.path(), &pod.metadata.uid.unwrap());
    let pid: i32 = std::fs::read_to_string(dir.lock())
        .unwrap()
        .parse()
        .unwrap();
    let pid = nix::unistd::Pid::from_raw(pid);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGSTOP).unwrap();
    let soon = DeleteParams {
        grace_period_seconds: Some(1),
        ..DeleteParams::default()
    };
    plane.api::<Pod>().delete("stuck", &soon).await.unwrap();
    plane.gone("stuck").await;
    agent.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_end_with_their_node_have_not_done_their_work_and_are_not_to_blame() {
    let plane = Plane::start().await;
    let stops = |options: &mut astrago_node::Options| options.stop_pods = true;
    let Some(agent) = plane.agent_with(stops) else {
        return;
    };
    let polite = "trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done";
    let pod = plane.pod("polite", polite, json!({})).await;
    plane
        .until("polite", "runs", |_| plane.log(&pod).contains("up"))
        .await;
    agent.end().await;
    let agent = plane.agent().unwrap();
    let (end, _) = plane.finished("polite").await;
    let status = plane
        .api::<Pod>()
        .get("polite")
        .await
        .unwrap()
        .status
        .unwrap();
    let conditions = status.conditions.unwrap();
    let condition = conditions
        .iter()
        .find(|one| one.type_ == "DisruptionTarget")
        .unwrap();
    assert_eq!(
        (end.as_str(), condition.reason.as_deref()),
        ("Failed", Some("TerminationByKubelet"))
    );
    let containers = status.container_statuses.unwrap();
    let code = containers[0]
        .state
        .clone()
        .unwrap()
        .terminated
        .unwrap()
        .exit_code;
    assert_eq!(code, 0);
    plane.delete("polite").await;
    agent.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_whose_files_a_power_failure_took_fails_and_one_that_never_ran_begins() {
    let plane = Plane::start().await;
    for name in ["ran", "unread", "new"] {
        let pod = plane.pod(name, "echo ran", json!({})).await;
        let dir = layout::PodDir::new(plane.data.path(), &pod.metadata.uid.unwrap());
        std::fs::create_dir_all(dir.path()).unwrap();
        std::fs::write(dir.spec(), "").unwrap();
        if name == "unread" {
            std::fs::write(dir.state(), "").unwrap();
        }
    }
    let running = Patch::Merge(json!({"status": {"phase": "Running"}}));
    let api = plane.api::<Pod>();
    api.patch_status("ran", &PatchParams::default(), &running)
        .await
        .unwrap();
    let Some(agent) = plane.agent() else { return };
    for name in ["ran", "unread"] {
        assert_eq!(plane.finished(name).await, ("Failed".into(), String::new()));
        let status = api.get(name).await.unwrap().status.unwrap();
        assert_eq!(status.reason.as_deref(), Some("Lost"));
    }
    assert_eq!(
        plane.finished("new").await,
        ("Succeeded".into(), "ran\n".into())
    );
    for name in ["ran", "unread", "new"] {
        api.delete(name, &DeleteParams::default()).await.unwrap();
    }
    plane.gone("new").await;
    agent.end().await;
}
