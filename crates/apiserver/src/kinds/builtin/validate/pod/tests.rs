//! What is refused of pods, in Kubernetes' words, and what is taken although it is unusual.

use rstest::rstest;
use serde_json::{Value, json};

use crate::kinds::builtin::{admit, find};

/// A pod of one container with something else at a place in it.
fn pod_with(place: &str, value: Value) -> Value {
    let mut pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "x" }, "spec": {
        "containers": [{ "name": "a", "image": "b:1" }], "volumes": [{ "name": "v", "emptyDir": {} }] } });
    let (parent, field) = place.rsplit_once('/').expect("a place");
    let mut at = &mut pod["spec"];
    for step in parent.split('/').filter(|step| !step.is_empty()) {
        at = match step.parse::<usize>() {
            Ok(index) => &mut at[index],
            Err(_) => &mut at[step],
        };
    }
    at[field] = value;
    pod
}

fn errors(mut pod: Value, old: Option<&Value>) -> Vec<String> {
    let admitted = admit(find("", "Pod").expect("pods"), &mut pod, old);
    let errors = admitted.err().unwrap_or_default();
    errors.iter().map(ToString::to_string).collect()
}

#[rstest]
#[case::no_handler("/containers/0/livenessProbe", json!({}),
    "spec.containers[0].livenessProbe: Required value: must specify a handler type")]
#[case::two_handlers("/containers/0/readinessProbe", json!({ "exec": { "command": ["a"] }, "tcpSocket": { "port": 1 } }),
    "spec.containers[0].readinessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type")]
#[case::no_command("/containers/0/startupProbe", json!({ "exec": {} }),
    "spec.containers[0].startupProbe.exec.command: Required value")]
#[case::probed_port("/containers/0/livenessProbe", json!({ "httpGet": { "port": 70000 } }),
    "spec.containers[0].livenessProbe.httpGet.port: Invalid value: 70000: must be between 1 and 65535, inclusive")]
#[case::probed_name("/containers/0/livenessProbe", json!({ "tcpSocket": { "port": "A_B" } }),
    "spec.containers[0].livenessProbe.tcpSocket.port: Invalid value: \"A_B\": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")]
#[case::scheme("/containers/0/livenessProbe", json!({ "httpGet": { "port": 1, "scheme": "ftp" } }),
    "spec.containers[0].livenessProbe.httpGet.scheme: Unsupported value: \"ftp\": supported values: \"HTTP\", \"HTTPS\"")]
#[case::header("/containers/0/livenessProbe", json!({ "httpGet": { "port": 1, "httpHeaders": [{ "name": "a b", "value": "" }] } }),
    "spec.containers[0].livenessProbe.httpGet.httpHeaders: Invalid value: \"a b\"")]
#[case::period("/containers/0/livenessProbe", json!({ "exec": { "command": ["a"] }, "periodSeconds": -1 }),
    "spec.containers[0].livenessProbe.periodSeconds: Invalid value: -1: must be greater than or equal to 0")]
#[case::successes("/containers/0/livenessProbe", json!({ "exec": { "command": ["a"] }, "successThreshold": 2 }),
    "spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1")]
#[case::ready_grace("/containers/0/readinessProbe", json!({ "exec": { "command": ["a"] }, "terminationGracePeriodSeconds": 1 }),
    "spec.containers[0].readinessProbe.terminationGracePeriodSeconds: Invalid value: 1: must not be set for readinessProbes")]
#[case::no_grace("/containers/0/livenessProbe", json!({ "exec": { "command": ["a"] }, "terminationGracePeriodSeconds": 0 }),
    "spec.containers[0].livenessProbe.terminationGracePeriodSeconds: Invalid value: 0: must be greater than 0")]
#[case::hook("/containers/0/lifecycle", json!({ "preStop": {} }),
    "spec.containers[0].lifecycle.preStop: Required value: must specify a handler type")]
#[case::sleeps_too_long("/containers/0/lifecycle", json!({ "preStop": { "sleep": { "seconds": 31 } } }),
    "spec.containers[0].lifecycle.preStop.sleep: Invalid value: 31: must be non-negative and less than terminationGracePeriodSeconds (30)")]
#[case::init_hook("/initContainers", json!([{ "name": "i", "image": "b", "lifecycle": { "preStop": { "sleep": { "seconds": 1 } } } }]),
    "spec.initContainers[0].lifecycle: Forbidden: may not be set for init containers without restartPolicy=Always")]
#[case::init_probe("/initContainers", json!([{ "name": "i", "image": "b", "readinessProbe": { "exec": { "command": ["a"] } } }]),
    "spec.initContainers[0].readinessProbe: Forbidden: may not be set for init containers without restartPolicy=Always")]
#[case::init_policy("/initContainers", json!([{ "name": "i", "image": "b", "restartPolicy": "Never" }]),
    "spec.initContainers[0].restartPolicy: Unsupported value: \"Never\": supported values: \"Always\"")]
#[case::own_policy("/containers/0/restartPolicy", json!("Always"),
    "spec.containers[0].restartPolicy: Forbidden: may not be set for non-init containers")]
fn probes_and_hooks_that_cannot_be(#[case] place: &str, #[case] value: Value, #[case] want: &str) {
    let errors = errors(pod_with(place, value), None);
    assert!(
        errors.iter().any(|error| error.starts_with(want)),
        "{errors:?}"
    );
}

#[rstest]
#[case::name("/ports", json!([{ "containerPort": 1, "name": "longer-than-fifteen" }]),
    "ports[0].name: Invalid value: \"longer-than-fifteen\": must be no more than 15 characters")]
#[case::digits("/ports", json!([{ "containerPort": 1, "name": "80" }]),
    "ports[0].name: Invalid value: \"80\": must contain at least one letter (a-z)")]
#[case::name_twice("/ports", json!([{ "containerPort": 1, "name": "a" }, { "containerPort": 2, "name": "a" }]),
    "ports[1].name: Duplicate value: \"a\"")]
#[case::host_port("/ports", json!([{ "containerPort": 1, "hostPort": 70000 }]),
    "ports[0].hostPort: Invalid value: 70000: must be between 1 and 65535, inclusive")]
#[case::host_port_twice("/ports", json!([{ "containerPort": 1, "hostPort": 9 }, { "containerPort": 2, "hostPort": 9 }]),
    "ports[1].hostPort: Duplicate value: \"TCP//9\"")]
#[case::variable("/env", json!([{ "name": "a=b" }]), "env[0].name: Invalid value: \"a=b\"")]
#[case::no_source("/env", json!([{ "name": "A", "valueFrom": {} }]),
    "env[0].valueFrom: Invalid value: \"\": must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`")]
#[case::two_sources("/env", json!([{ "name": "A", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" },
    "secretKeyRef": { "name": "s", "key": "k" } } }]),
    "env[0].valueFrom: Invalid value: \"\": may not have more than one field specified at a time")]
#[case::value_and_source("/env", json!([{ "name": "A", "value": "1", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } }]),
    "env[0].valueFrom: Invalid value: \"\": may not be specified when `value` is not empty")]
#[case::unknown_field("/env", json!([{ "name": "A", "valueFrom": { "fieldRef": { "fieldPath": "spec.containers" } } }]),
    "env[0].valueFrom.fieldRef.fieldPath: Unsupported value: \"spec.containers\"")]
#[case::all_labels("/env", json!([{ "name": "A", "valueFrom": { "fieldRef": { "fieldPath": "metadata.labels" } } }]),
    "env[0].valueFrom.fieldRef.fieldPath: Unsupported value: \"metadata.labels\"")]
#[case::subscript("/env", json!([{ "name": "A", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name['a']" } } }]),
    "env[0].valueFrom.fieldRef: Invalid value: \"metadata.name['a']\": does not support subscript")]
#[case::unknown_resource("/env", json!([{ "name": "A", "valueFrom": { "resourceFieldRef": { "resource": "limits.gpu" } } }]),
    "env[0].valueFrom.resourceFieldRef.resource: Unsupported value: \"limits.gpu\"")]
#[case::bad_key("/env", json!([{ "name": "A", "valueFrom": { "configMapKeyRef": { "name": "c", "key": "a/b" } } }]),
    "env[0].valueFrom.configMapKeyRef.key: Invalid value: \"a/b\"")]
#[case::from_nothing("/envFrom", json!([{ "prefix": "A_" }]),
    "envFrom[0]: Invalid value: \"\": must specify one of: `configMapRef` or `secretRef`")]
#[case::from_nobody("/envFrom", json!([{ "configMapRef": {} }]), "envFrom[0].configMapRef.name: Required value")]
#[case::climbs("/volumeMounts", json!([{ "name": "v", "mountPath": "/v", "subPath": "a/../../b" }]),
    "volumeMounts[0].subPath: Invalid value: \"a/../../b\": must not contain '..'")]
#[case::absolute("/volumeMounts", json!([{ "name": "v", "mountPath": "/v", "subPathExpr": "/a" }]),
    "volumeMounts[0].subPathExpr: Invalid value: \"/a\": must be a relative path")]
#[case::both("/volumeMounts", json!([{ "name": "v", "mountPath": "/v", "subPath": "a", "subPathExpr": "b" }]),
    "volumeMounts[0].subPathExpr: Invalid value: \"b\": subPathExpr and subPath are mutually exclusive")]
#[case::propagation("/volumeMounts", json!([{ "name": "v", "mountPath": "/v", "mountPropagation": "Bidirectional" }]),
    "volumeMounts[0].mountPropagation: Forbidden: Bidirectional mount propagation is available only to privileged containers")]
#[case::message("/terminationMessagePolicy", json!("Never"), "terminationMessagePolicy: Unsupported value: \"Never\"")]
#[case::user("/securityContext", json!({ "runAsUser": -1 }),
    "securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive")]
#[case::escalation("/securityContext", json!({ "privileged": true, "allowPrivilegeEscalation": false }),
    "securityContext: Invalid value")]
#[case::own_resource("/resources", json!({ "limits": { "gpu": 1 } }),
    "resources.limits[gpu]: Invalid value: \"gpu\": must be a standard resource for containers")]
#[case::half_a_device("/resources", json!({ "limits": { "nvidia.com/gpu": "500m" } }),
    "resources.limits[nvidia.com/gpu]: Invalid value: \"500m\": must be an integer")]
#[case::device_without_limit("/resources", json!({ "requests": { "nvidia.com/gpu": 1 } }),
    "resources.limits: Required value: Limit must be set for non overcommitable resources")]
#[case::lent_device("/resources", json!({ "limits": { "nvidia.com/gpu": 2 }, "requests": { "nvidia.com/gpu": 1 } }),
    "resources.requests: Invalid value: \"1\": must be equal to nvidia.com/gpu limit of 2")]
#[case::blanks("/image", json!(" b:1"), "image: Invalid value: \" b:1\": must not have leading or trailing whitespace")]
fn containers_that_cannot_be(#[case] place: &str, #[case] value: Value, #[case] want: &str) {
    let errors = errors(pod_with(&format!("/containers/0{place}"), value), None);
    let want = format!("spec.containers[0].{want}");
    assert!(
        errors.iter().any(|error| error.starts_with(&want)),
        "{errors:?}"
    );
}

#[rstest]
#[case::secret(json!({ "secret": {} }), "secret.secretName: Required value")]
#[case::config_map(json!({ "configMap": {} }), "configMap.name: Required value")]
#[case::mode(json!({ "configMap": { "name": "c", "defaultMode": 1024 } }),
    "configMap.defaultMode: Invalid value: 1024: must be a number between 0 and 0777 (octal), both inclusive")]
#[case::climbs(json!({ "configMap": { "name": "c", "items": [{ "key": "a", "path": "a/../../b" }] } }),
    "configMap.items[0].path: Invalid value: \"a/../../b\": must not contain '..'")]
#[case::reserved(json!({ "secret": { "secretName": "c", "items": [{ "key": "a", "path": "..data" }] } }),
    "secret.items[0].path: Invalid value: \"..data\": must not start with '..'")]
#[case::size(json!({ "emptyDir": { "sizeLimit": "-1" } }), "emptyDir.sizeLimit: Forbidden")]
#[case::host_path(json!({ "hostPath": { "path": "/a/.." } }), "hostPath.path: Invalid value: \"/a/..\": must not contain '..'")]
#[case::host_type(json!({ "hostPath": { "path": "/a", "type": "Disk" } }), "hostPath.type: Unsupported value: \"Disk\"")]
#[case::shows_nothing(json!({ "downwardAPI": { "items": [{ "path": "a" }] } }),
    "downwardAPI.items[0]: Required value: one of fieldRef and resourceFieldRef is required")]
#[case::shows_the_node(json!({ "downwardAPI": { "items": [{ "path": "a", "fieldRef": { "fieldPath": "spec.nodeName" } }] } }),
    "downwardAPI.items[0].fieldRef.fieldPath: Unsupported value: \"spec.nodeName\"")]
#[case::whose_resources(json!({ "downwardAPI": { "items": [{ "path": "a", "resourceFieldRef": { "resource": "limits.cpu" } }] } }),
    "downwardAPI.items[0].resourceFieldRef.containerName: Required value")]
#[case::projects_two(json!({ "projected": { "sources": [{ "secret": { "name": "s" }, "configMap": { "name": "c" } }] } }),
    "projected.sources[0]: Forbidden: may not specify more than 1 volume type per source")]
#[case::same_file(json!({ "projected": { "sources": [
    { "configMap": { "name": "c", "items": [{ "key": "a", "path": "f" }] } }, { "serviceAccountToken": { "path": "f" } } ] } }),
    "projected.sources[1].serviceAccountToken: Invalid value: \"f\": conflicting duplicate paths")]
#[case::short_token(json!({ "projected": { "sources": [{ "serviceAccountToken": { "path": "f", "expirationSeconds": 60 } }] } }),
    "projected.sources[0].serviceAccountToken.expirationSeconds: Invalid value: 60: may not specify a duration less than 10 minutes")]
#[case::no_claim(json!({ "ephemeral": {} }), "ephemeral.volumeClaimTemplate: Required value")]
fn volumes_that_cannot_be(#[case] source: Value, #[case] want: &str) {
    let mut volume = source;
    volume["name"] = json!("v");
    let errors = errors(pod_with("/volumes", json!([volume])), None);
    let want = format!("spec.volumes[0].{want}");
    assert!(
        errors.iter().any(|error| error.starts_with(&want)),
        "{errors:?}"
    );
}

#[rstest]
#[case::dns("/dnsPolicy", json!("Mine"), "spec.dnsPolicy: Unsupported value: \"Mine\"")]
#[case::no_servers("/dnsPolicy", json!("None"), "spec.dnsConfig.nameservers: Required value")]
#[case::server("/dnsConfig", json!({ "nameservers": ["here"] }), "spec.dnsConfig.nameservers[0]: Invalid value: \"here\"")]
#[case::hostname("/hostname", json!("a.b"), "spec.hostname: Invalid value: \"a.b\"")]
#[case::subdomain("/subdomain", json!("a.b"), "spec.subdomain: Invalid value: \"a.b\"")]
#[case::account("/serviceAccountName", json!("A"), "spec.serviceAccountName: Invalid value: \"A\"")]
#[case::alias("/hostAliases", json!([{ "ip": "1.2.3", "hostnames": ["a"] }]), "spec.hostAliases[0].ip: Invalid value: \"1.2.3\"")]
#[case::alias_name("/hostAliases", json!([{ "ip": "::1", "hostnames": ["a b"] }]), "spec.hostAliases[0].hostnames[0]: Invalid value: \"a b\"")]
#[case::group("/securityContext", json!({ "supplementalGroups": [1, -2] }), "spec.securityContext.supplementalGroups[1]: Invalid value: -2")]
#[case::gate_twice("/schedulingGates", json!([{ "name": "a" }, { "name": "a" }]), "spec.schedulingGates[1]: Duplicate value: \"a\"")]
#[case::condition("/readinessGates", json!([{ "conditionType": "a b" }]), "spec.readinessGates[0].conditionType: Invalid value: \"a b\"")]
#[case::selector("/nodeSelector", json!({ "a b": "c" }), "spec.nodeSelector: Invalid value: \"a b\"")]
#[case::tolerates_all("/tolerations", json!([{ "operator": "Equal" }]), "spec.tolerations[0].operator: Invalid value: \"Equal\": operator must be Exists when `key` is empty")]
#[case::tolerates_a_while("/tolerations", json!([{ "key": "a", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 1 }]),
    "spec.tolerations[0].effect: Invalid value: \"NoSchedule\": effect must be 'NoExecute' when `tolerationSeconds` is set")]
#[case::tolerates_a_value("/tolerations", json!([{ "key": "a", "operator": "Exists", "value": "b" }]),
    "spec.tolerations[0].operator: Invalid value: \"b\": value must be empty when `operator` is 'Exists'")]
#[case::toleration("/tolerations", json!([{ "key": "a", "operator": "Like" }]), "spec.tolerations[0].operator: Unsupported value: \"Like\"")]
#[case::effect("/tolerations", json!([{ "operator": "Exists", "effect": "NoRun" }]), "spec.tolerations[0].effect: Unsupported value: \"NoRun\"")]
#[case::no_terms("/affinity", json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [] } } }),
    "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: Required value: must have at least one node selector term")]
#[case::operator("/affinity", json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [
    { "matchExpressions": [{ "key": "a", "operator": "Is", "values": ["b"] }] }] } } }),
    "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].operator: Invalid value: \"Is\": not a valid selector operator")]
#[case::no_values("/affinity", json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [
    { "matchExpressions": [{ "key": "a", "operator": "In" }] }] } } }),
    "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].values: Required value")]
#[case::weight("/affinity", json!({ "podAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [
    { "weight": 0, "podAffinityTerm": { "topologyKey": "a" } }] } }),
    "spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 0: must be in the range 1-100")]
#[case::topology("/affinity", json!({ "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [{ "topologyKey": "" }] } }),
    "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Required value: can not be empty")]
#[case::skew("/topologySpreadConstraints", json!([{ "maxSkew": 0, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule" }]),
    "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero")]
#[case::spread("/topologySpreadConstraints", json!([{ "maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "Maybe" }]),
    "spec.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: \"Maybe\"")]
fn pods_that_cannot_be(#[case] place: &str, #[case] value: Value, #[case] want: &str) {
    let errors = errors(pod_with(place, value), None);
    assert!(
        errors.iter().any(|error| error.starts_with(want)),
        "{errors:?}"
    );
}

#[test]
fn a_pod_with_a_bit_of_everything_is_taken() {
    let probe = json!({ "httpGet": { "port": "http", "httpHeaders": [{ "name": "X-A", "value": "b" }] }, "terminationGracePeriodSeconds": 3 });
    let ready = json!({ "grpc": { "port": 9 }, "successThreshold": 3 });
    let field =
        |path: &str| json!({ "name": "A", "valueFrom": { "fieldRef": { "fieldPath": path } } });
    let pod = json!({ "metadata": { "name": "x" }, "spec": {
        "hostname": "h", "subdomain": "s", "serviceAccountName": "default", "dnsPolicy": "None",
        "dnsConfig": { "nameservers": ["8.8.8.8", "::1"], "searches": ["a.b"], "options": [{ "name": "ndots", "value": "2" }] },
        "hostAliases": [{ "ip": "1.2.3.4", "hostnames": ["a", "b.c"] }], "enableServiceLinks": false,
        "securityContext": { "runAsUser": 1000, "fsGroup": 0, "supplementalGroups": [5], "fsGroupChangePolicy": "Always" },
        "schedulingGates": [{ "name": "acme.io/wait" }], "readinessGates": [{ "conditionType": "acme.io/Ready" }],
        "nodeSelector": { "kubernetes.io/os": "linux", "empty": "" },
        "tolerations": [{ "operator": "Exists" }, { "key": "a", "value": "b", "effect": "NoExecute", "tolerationSeconds": 5 }],
        "topologySpreadConstraints": [{ "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": { "matchExpressions": [{ "key": "a", "operator": "Exists" }] } }],
        "affinity": {
            "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [
                { "matchExpressions": [{ "key": "n", "operator": "Gt", "values": ["1"] }],
                  "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["vm"] }] }] } },
            "podAntiAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [{ "weight": 100, "podAffinityTerm": {
                "topologyKey": "kubernetes.io/hostname", "labelSelector": { "matchLabels": { "a": "b" } } } }] },
        },
        "initContainers": [
            { "name": "one", "image": "b", "ports": [{ "containerPort": 1, "hostPort": 7 }] },
            { "name": "side", "image": "b", "restartPolicy": "Always", "startupProbe": probe, "lifecycle": { "postStart": { "exec": { "command": ["a"] } } },
              "ports": [{ "containerPort": 1, "hostPort": 7 }] },
        ],
        "containers": [{
            "name": "a", "image": "b", "livenessProbe": probe, "readinessProbe": ready,
            "lifecycle": { "preStop": { "sleep": { "seconds": 0 } } },
            "ports": [{ "containerPort": 80, "name": "http" }, { "containerPort": 80, "protocol": "UDP" }],
            "env": [field("metadata.labels['a.b/c']"), field("metadata.annotations['batch.kubernetes.io/job-completion-index']"), field("status.podIPs"),
                { "name": "with.dots and-blanks", "value": "" },
                { "name": "R", "valueFrom": { "resourceFieldRef": { "resource": "limits.hugepages-2Mi" } } },
                { "name": "K", "valueFrom": { "configMapKeyRef": { "name": "c", "key": "a.b", "optional": true } } }],
            "envFrom": [{ "prefix": "P_", "secretRef": { "name": "s", "optional": true } }],
            "volumeMounts": [{ "name": "v", "mountPath": "/v", "subPathExpr": "$(A)/..b" }, { "name": "w", "mountPath": "/w", "mountPropagation": "None" }],
            "resources": { "requests": { "cpu": "10m", "ephemeral-storage": "1Gi" }, "limits": { "nvidia.com/gpu": 2, "hugepages-2Mi": "4Mi", "acme.io/fpga": 1 } },
            "terminationMessagePolicy": "FallbackToLogsOnError",
        }],
        "volumes": [{ "name": "v" }, { "name": "w", "projected": { "sources": [
            { "configMap": { "name": "c", "items": [{ "key": "a", "path": "a/...b", "mode": 0 }] } }, { "secret": { "name": "s" } },
            { "downwardAPI": { "items": [{ "path": "l", "fieldRef": { "fieldPath": "metadata.labels" } },
                { "path": "c", "resourceFieldRef": { "containerName": "a", "resource": "requests.cpu" } }] } },
            { "serviceAccountToken": { "path": "t", "expirationSeconds": 600 } }] } },
            { "name": "h", "hostPath": { "path": "/a", "type": "DirectoryOrCreate" } },
            { "name": "e", "ephemeral": { "volumeClaimTemplate": { "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } } } } }],
    } });
    assert_eq!(errors(pod, None), Vec::<String>::new());
}

/// There were fewer rules once.
#[test]
fn what_was_stored_before_there_was_a_rule_can_still_be_labelled_and_deleted() {
    let old = {
        let mut old = pod_with("/hostAliases", json!([]));
        admit(find("", "Pod").expect("pods"), &mut old, None).expect("a pod");
        old["spec"]["containers"][0]["livenessProbe"] = json!({ "timeoutSeconds": 1, "periodSeconds": 10,
            "successThreshold": 1, "failureThreshold": 3 });
        old
    };
    let mut labelled = old.clone();
    labelled["metadata"]["labels"] = json!({ "a": "b" });
    assert_eq!(errors(labelled, Some(&old)), Vec::<String>::new());
    let mut changed = old.clone();
    changed["spec"]["containers"][0]["image"] = json!("c:1");
    assert_ne!(errors(changed, Some(&old)), Vec::<String>::new());
}
