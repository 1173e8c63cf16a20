//! The addresses of Services, in the world of [`crate::egress`].

use k8s_openapi::api::core::v1::{Namespace, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::PostParams;
use nix::unistd::geteuid;
use serde_json::{Value, json};

use crate::egress::{INSIDE, world};
use crate::plane::{NODE, Plane, phase};
use crate::support;

/// Says its name to whoever connects.
const SERVE: &str = "import socket, sys
s = socket.create_server(('', int(sys.argv[1])), backlog=64)
while True:
    c, _ = s.accept(); c.sendall(socket.gethostname().encode() + b'\\n'); c.close()
";

/// Asks until all the names have been heard that are to be, and says which ones were.
const HEAR: &str = "import socket, sys, time
place, port, want = sys.argv[1], int(sys.argv[2]), set(sys.argv[3:])
heard, begun = set(), time.monotonic()
while not want or not want <= heard:
    try:
        s = socket.create_connection((place, port), 5)
        heard.add(s.makefile().readline().strip())
    except OSError as e:
        if not want:
            print('closed' if time.monotonic() - begun < 4 else 'late', flush=True); break
        if time.monotonic() - begun > 60: print(place, e); sys.exit(1)
        time.sleep(0.05)
else:
    print(' '.join(sorted(heard)), flush=True)
";

#[test]
fn as_root_the_address_and_the_name_of_a_service_lead_to_its_ready_pods() {
    if geteuid().is_root() {
        world(false, false, "services::inside");
    }
}

#[test]
fn as_an_ordinary_user_the_address_and_the_name_of_a_service_lead_to_its_ready_pods() {
    if geteuid().is_root() {
        world(true, false, "services::inside");
    }
}

/// The slice that the controller of EndpointSlices makes for pods with this port.
fn slice(name: &str, port: u16, pods: &[(&Pod, bool)]) -> Value {
    let endpoints: Vec<Value> = pods
        .iter()
        .map(|(pod, ready)| {
            let address = pod.status.as_ref().and_then(|status| status.pod_ip.clone());
            json!({ "addresses": [address], "conditions": { "ready": ready } })
        })
        .collect();
    json!({ "metadata": { "name": name, "labels": { "kubernetes.io/service-name": "web" } }, "addressType": "IPv4",
            "ports": [{ "name": "http", "port": port, "protocol": "TCP" }], "endpoints": endpoints })
}

/// What the tests above run in their world.
#[tokio::test(flavor = "multi_thread")]
async fn inside() {
    if std::env::var_os(INSIDE).is_none() {
        return;
    }
    let plane = Plane::start().await;
    let open = |options: &mut astrago_node::Options| options.egress = true;
    let agent = plane.agent_with(open).expect("sandboxes are allowed");
    let service: Service = plane
        .create(json!({ "metadata": { "name": "web" }, "spec": { "selector": { "app": "web" }, "ports": [
            { "name": "http", "port": 80, "targetPort": "http" }, { "name": "other", "port": 81 }] } }))
        .await;
    let address = service.spec.unwrap().cluster_ip.expect("an address");
    let ports = |port: u16| json!({ "container": { "ports": [{ "name": "http", "containerPort": port }] } });
    let mut servers = Vec::new();
    for (name, port) in [("one", 8080), ("two", 8081), ("early", 8081)] {
        let script = format!("cat > /tmp/s.py <<'END'\n{SERVE}END\nexec python3 /tmp/s.py {port}");
        plane.pod(name, &script, ports(port)).await;
        let runs =
            |pod: &Pod| phase(pod) == "Running" && pod.status.as_ref().unwrap().pod_ip.is_some();
        servers.push(plane.until(name, "runs", runs).await);
    }
    let (first, second) = (
        slice("web-0", 8080, &[(&servers[0], true)]),
        slice("web-1", 8081, &[(&servers[1], true), (&servers[2], false)]),
    );
    plane.create::<EndpointSlice>(first).await;
    plane.create::<EndpointSlice>(second).await;

    let hear = |lines: &str| format!("cat > /tmp/h.py <<'END'\n{HEAR}END\n{lines}");
    let lines = format!(
        "python3 /tmp/h.py web 80 one two; python3 /tmp/h.py web.default.svc.cluster.local 80 one two
         python3 /tmp/h.py $WEB_SERVICE_HOST $WEB_SERVICE_PORT one two; python3 /tmp/h.py {address} 81; python3 /tmp/h.py {address} 82"
    );
    plane.pod("client", &hear(&lines), json!({})).await;
    let (end, log) = plane.finished("client").await;
    assert_eq!(
        (end.as_str(), log.as_str()),
        ("Succeeded", "one two\none two\none two\nclosed\nclosed\n")
    );

    // From another namespace it leads nowhere.
    let other = serde_json::from_value(json!({ "metadata": { "name": "other" } })).unwrap();
    let namespaces: Api<Namespace> = Api::all(plane.client.clone());
    namespaces
        .create(&PostParams::default(), &other)
        .await
        .unwrap();
    let strangers: Api<Pod> = Api::namespaced(plane.client.clone(), "other");
    let script = hear(&format!(
        "[ \"$(python3 /tmp/h.py {address} 80)\" = closed ]"
    ));
    let stranger = json!({ "metadata": { "name": "stranger" }, "spec": { "nodeName": NODE, "restartPolicy": "Never",
        "containers": [{ "name": "main", "image": "any", "command": ["bash", "-c", script] }] } });
    let stranger = serde_json::from_value(stranger).unwrap();
    strangers
        .create(&PostParams::default(), &stranger)
        .await
        .unwrap();
    loop {
        let pod = strangers.get("stranger").await.unwrap();
        if matches!(phase(&pod), "Succeeded" | "Failed") {
            assert_eq!(phase(&pod), "Succeeded");
            break;
        }
        support::pause(10).await;
    }

    // The rules stay when the agent goes, and the next one keeps them current.
    agent.end().await;
    let agent = plane.agent_with(open).expect("sandboxes are allowed");
    let slices = plane.api::<EndpointSlice>();
    let now = kube::api::DeleteParams::default().grace_period(0);
    slices.delete("web-0", &now).await.unwrap();
    let script = hear(
        "python3 /tmp/h.py web 80 two; until [ \"$(for i in 1 2 3 4 5 6 7 8 9; do python3 /tmp/h.py web 80 two; done | sort -u)\" = two ]; do :; done; echo alone",
    );
    plane.pod("later", &script, json!({})).await;
    let (end, log) = plane.finished("later").await;
    assert_eq!(end, "Succeeded", "{log}");
    assert!(log.ends_with("alone\n"), "{log}");
    for name in ["one", "two", "early", "client", "later"] {
        plane.api::<Pod>().delete(name, &now).await.unwrap();
    }
    strangers.delete("stranger", &now).await.unwrap();
    plane.gone("one").await;
    agent.end().await;
    println!("seen to the end");
}
