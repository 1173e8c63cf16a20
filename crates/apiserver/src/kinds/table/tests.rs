use rstest::rstest;
use serde_json::{Value, json};

use super::{Columns, Include, PLAIN, head, row};
use crate::kinds::builtin::find;

fn builtin(group: &str, kind: &str) -> Columns {
    Columns::builtin(find(group, kind).map_or(&PLAIN, |info| &info.columns))
}

const NOW: &str = "2026-01-01T00:10:00Z";

fn cells(columns: &Columns, mut object: Value) -> Vec<String> {
    object["metadata"]["name"] = json!("x");
    object["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
    let now = NOW.parse().unwrap();
    let head = head(columns, &json!({}), "meta.k8s.io/v1");
    let headers = head["columnDefinitions"].as_array().unwrap().len();
    let row = row(columns, &object, Include::Metadata, now);
    let cells = row["cells"].as_array().unwrap();
    assert_eq!(cells.len(), headers);
    cells
        .iter()
        .map(|cell| {
            cell.as_str()
                .map_or_else(|| cell.to_string(), str::to_owned)
        })
        .collect()
}

fn pod(spec: &Value, status: &Value) -> Vec<String> {
    cells(&builtin("", "Pod"), json!({"spec": spec, "status": status}))
}

#[rstest]
#[case::pending(json!({"phase": "Pending"}), ["0/1", "Pending", "0"])]
#[case::creating(json!({"phase": "Pending", "containerStatuses": [
    {"name": "a", "ready": false, "restartCount": 0,
        "state": {"waiting": {"reason": "ContainerCreating"}}}]}), ["0/1", "ContainerCreating", "0"])]
#[case::running(json!({"phase": "Running", "containerStatuses": [
    {"name": "a", "ready": true, "restartCount": 0, "state": {"running": {}}}]}),
    ["1/1", "Running", "0"])]
#[case::restarted(json!({"phase": "Running", "containerStatuses": [
    {"name": "a", "ready": true, "restartCount": 2, "state": {"running": {}},
        "lastState": {"terminated": {"finishedAt": "2026-01-01T00:09:00Z"}}}]}),
    ["1/1", "Running", "2 (60s ago)"])]
#[case::completed(json!({"phase": "Succeeded", "containerStatuses": [
    {"name": "a", "ready": false, "restartCount": 0,
        "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}]}),
    ["0/1", "Completed", "0"])]
#[case::failed(json!({"phase": "Failed", "containerStatuses": [
    {"name": "a", "ready": false, "restartCount": 0, "state": {"terminated": {"exitCode": 3}}}]}),
    ["0/1", "ExitCode:3", "0"])]
#[case::crashing(json!({"phase": "Running", "containerStatuses": [
    {"name": "a", "ready": false, "restartCount": 5,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}), ["0/1", "CrashLoopBackOff", "5"])]
#[case::gated(json!({"phase": "Pending", "conditions": [
    {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]}),
    ["0/1", "SchedulingGated", "0"])]
fn pods_say_what_their_containers_say(#[case] status: Value, #[case] want: [&str; 3]) {
    let cells = pod(&json!({"containers": [{"name": "a"}]}), &status);
    assert_eq!(cells[1..4], want);
    assert_eq!(cells[4], "10m");
}

#[rstest]
#[case::first(json!([{"name": "i", "state": {"running": {}}}]), "Init:0/2")]
#[case::second(json!([{"name": "i", "state": {"terminated": {"exitCode": 0}}},
    {"name": "j", "state": {"running": {}}}]), "Init:1/2")]
#[case::broken(json!([{"name": "i", "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}]),
    "Init:Error")]
fn pods_show_their_init_containers(#[case] statuses: Value, #[case] want: &str) {
    let spec =
        json!({"containers": [{"name": "a"}], "initContainers": [{"name": "i"}, {"name": "j"}]});
    let cells = pod(
        &spec,
        &json!({"phase": "Pending", "initContainerStatuses": statuses}),
    );
    assert_eq!(cells[2], want);
}

#[test]
fn a_pod_that_goes_says_so() {
    let object = json!({"metadata": {"deletionTimestamp": NOW}, "spec": {"containers": [{"name": "a"}]},
        "status": {"phase": "Running"}});
    assert_eq!(cells(&builtin("", "Pod"), object)[2], "Terminating");
}

#[rstest]
#[case("", "ConfigMap", json!({"data": {"a": "", "b": ""}, "binaryData": {"c": ""}}), &["3", "10m"])]
#[case("", "Secret", json!({"type": "Opaque", "data": {"a": ""}}), &["Opaque", "1", "10m"])]
#[case("", "Namespace", json!({"status": {"phase": "Active"}}), &["Active", "10m"])]
#[case("", "Service", json!({"spec": {"type": "ClusterIP", "clusterIP": "None",
    "ports": [{"port": 80, "protocol": "TCP"}], "selector": {"a": "b"}}}),
    &["ClusterIP", "None", "<none>", "80/TCP", "10m", "a=b"])]
#[case("batch", "Job", json!({"spec": {"completions": 2, "template": {"spec":
    {"containers": [{"name": "c", "image": "i"}]}}, "selector": {"matchLabels": {"u": "1"}}},
    "status": {"succeeded": 1, "startTime": "2026-01-01T00:05:00Z"}}),
    &["Running", "1/2", "5m", "10m", "c", "i", "u=1"])]
#[case("batch", "Job", json!({"spec": {"completions": 1}, "status": {"succeeded": 1,
    "startTime": "2026-01-01T00:05:00Z", "completionTime": "2026-01-01T00:05:30Z",
    "conditions": [{"type": "Complete", "status": "True"}]}}),
    &["Complete", "1/1", "30s", "10m", "", "", "<none>"])]
#[case("", "Node", json!({"metadata": {"labels": {"node-role.kubernetes.io/worker": ""}},
    "status": {"conditions": [{"type": "Ready", "status": "True"}],
    "nodeInfo": {"kubeletVersion": "v1"}, "addresses": [{"type": "InternalIP", "address": "1.2.3.4"}]}}),
    &["Ready", "worker", "10m", "v1", "1.2.3.4", "<none>", "<unknown>", "<unknown>", "<unknown>"])]
#[case("", "PersistentVolumeClaim", json!({"spec": {"volumeName": "v", "storageClassName": "s",
    "volumeMode": "Filesystem"}, "status": {"phase": "Bound", "accessModes": ["ReadWriteOnce"],
    "capacity": {"storage": "1Gi"}}}),
    &["Bound", "v", "1Gi", "RWO", "s", "<unset>", "10m", "Filesystem"])]
#[case("coordination.k8s.io", "Lease", json!({"spec": {"holderIdentity": "me"}}), &["me", "10m"])]
#[case("rbac.authorization.k8s.io", "RoleBinding", json!({"roleRef": {"kind": "Role", "name": "r"},
    "subjects": [{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "namespace": "n", "name": "s"}]}),
    &["Role/r", "10m", "u", "", "n/s"])]
#[case("scheduling.k8s.io", "PriorityClass", json!({"value": 7}),
    &["7", "false", "10m", "PreemptLowerPriority"])]
#[case("", "ResourceQuota", json!({"spec": {"hard": {"limits.cpu": "2", "pods": "3"}},
    "status": {"used": {"pods": "1"}}}), &["pods: 1/3", "limits.cpu: 0/2", "10m"])]
#[case("example.com", "Other", json!({}), &["10m"])]
fn built_in_kinds_have_their_columns(
    #[case] group: &str,
    #[case] kind: &str,
    #[case] object: Value,
    #[case] want: &[&str],
) {
    let cells = cells(&builtin(group, kind), object);
    assert_eq!(cells[0], "x");
    assert_eq!(cells[1..], *want);
}

#[test]
fn events_tell_what_happened_to_whom() {
    let event = json!({"involvedObject": {"kind": "Pod", "name": "p"}, "reason": "Started",
        "message": "hello ", "type": "Normal", "count": 3, "source": {"component": "kubelet"},
        "firstTimestamp": "2026-01-01T00:01:00Z", "lastTimestamp": "2026-01-01T00:09:00Z"});
    let want = [
        "60s", "Normal", "Started", "pod/p", "", "kubelet", "hello", "9m", "3", "x",
    ];
    assert_eq!(cells(&builtin("", "Event"), event), want);
}

#[test]
fn custom_columns_follow_their_paths() {
    let columns = json!([
        {"name": "State", "type": "string", "jsonPath": ".status.conditions[-1:].type"},
        {"name": "Nodes", "type": "integer", "jsonPath": ".spec.nodes", "priority": 1},
        {"name": "Gone", "type": "string", "jsonPath": ".spec.gone"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]);
    let columns = Columns::custom(&columns).unwrap();
    let object = json!({"spec": {"nodes": 2}, "status": {"conditions": [
        {"type": "Suspended"}, {"type": "Complete"}]}});
    assert_eq!(
        cells(&columns, object),
        ["x", "Complete", "2", "null", "10m"]
    );
    assert_eq!(columns.definitions[2]["priority"], 1);
}

#[test]
fn without_columns_there_is_the_age() {
    let columns = Columns::custom(&Value::Null).unwrap();
    assert_eq!(cells(&columns, json!({})), ["x", "10m"]);
}
