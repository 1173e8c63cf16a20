//! Defaults of pods and pod templates.

use serde_json::{Map, Value, json};

use super::{each, set};

pub(super) fn template(template: &mut Map<String, Value>) {
    if let Some(Value::Object(spec)) = template.get_mut("spec") {
        self::spec(spec);
    }
}

pub(super) fn spec(spec: &mut Map<String, Value>) {
    set(spec, "restartPolicy", "Always");
    set(spec, "dnsPolicy", "ClusterFirst");
    set(spec, "schedulerName", "default-scheduler");
    set(spec, "terminationGracePeriodSeconds", 30);
    set(spec, "securityContext", json!({}));
    // The deprecated name of the field is still what older clients read.
    match (
        spec.get("serviceAccountName").cloned(),
        spec.get("serviceAccount").cloned(),
    ) {
        (Some(name), _) => {
            spec.insert("serviceAccount".to_owned(), name);
        }
        (None, Some(name)) => {
            spec.insert("serviceAccountName".to_owned(), name);
        }
        (None, None) => {}
    }
    let shares_host = spec.get("hostNetwork").and_then(Value::as_bool) == Some(true);
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for one in each(spec, list) {
            container(one);
            if shares_host {
                for port in each(one, "ports") {
                    if let Some(number) = port.get("containerPort").cloned() {
                        set(port, "hostPort", number);
                    }
                }
            }
        }
    }
    for volume in each(spec, "volumes") {
        self::volume(volume);
    }
}

fn container(container: &mut Map<String, Value>) {
    set(container, "terminationMessagePath", "/dev/termination-log");
    set(container, "terminationMessagePolicy", "File");
    set(container, "resources", json!({}));
    let image = container
        .get("image")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let policy = if pulls_always(image) {
        "Always"
    } else {
        "IfNotPresent"
    };
    set(container, "imagePullPolicy", policy);
    for port in each(container, "ports") {
        set(port, "protocol", "TCP");
    }
    for variable in each(container, "env") {
        if let Some(Value::Object(reference)) = variable
            .get_mut("valueFrom")
            .and_then(|from| from.get_mut("fieldRef"))
        {
            set(reference, "apiVersion", "v1");
        }
    }
    if let Some(Value::Object(resources)) = container.get_mut("resources")
        && let Some(Value::Object(limits)) = resources.get("limits").cloned()
    {
        let requests = resources.entry("requests").or_insert_with(|| json!({}));
        if let Value::Object(requests) = requests {
            for (resource, amount) in limits {
                set(requests, &resource, amount);
            }
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(Value::Object(probe)) = container.get_mut(name) {
            set(probe, "timeoutSeconds", 1);
            set(probe, "periodSeconds", 10);
            set(probe, "successThreshold", 1);
            set(probe, "failureThreshold", 3);
            http(probe);
        }
    }
    if let Some(Value::Object(lifecycle)) = container.get_mut("lifecycle") {
        for name in ["postStart", "preStop"] {
            if let Some(Value::Object(hook)) = lifecycle.get_mut(name) {
                http(hook);
            }
        }
    }
}

fn http(handler: &mut Map<String, Value>) {
    if let Some(Value::Object(get)) = handler.get_mut("httpGet") {
        set(get, "path", "/");
        set(get, "scheme", "HTTP");
    }
}

/// An image without a tag, or with the tag `latest`, may be another one tomorrow.
fn pulls_always(image: &str) -> bool {
    if image.contains('@') {
        return false;
    }
    let name = image.rsplit('/').next().unwrap_or(image);
    match name.split_once(':') {
        None => true,
        Some((_, tag)) => tag == "latest",
    }
}

fn volume(volume: &mut Map<String, Value>) {
    const MODE: i32 = 0o644;
    if volume.keys().all(|key| key == "name") {
        volume.insert("emptyDir".to_owned(), json!({}));
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(Value::Object(source)) = volume.get_mut(source) {
            set(source, "defaultMode", MODE);
        }
    }
    let fields = |items: &mut Map<String, Value>| {
        for item in each(items, "items") {
            if let Some(Value::Object(reference)) = item.get_mut("fieldRef") {
                set(reference, "apiVersion", "v1");
            }
        }
    };
    if let Some(Value::Object(downward)) = volume.get_mut("downwardAPI") {
        fields(downward);
    }
    if let Some(Value::Object(projected)) = volume.get_mut("projected") {
        for source in each(projected, "sources") {
            if let Some(Value::Object(downward)) = source.get_mut("downwardAPI") {
                fields(downward);
            }
            if let Some(Value::Object(token)) = source.get_mut("serviceAccountToken") {
                set(token, "expirationSeconds", 3600);
            }
        }
    }
    if let Some(Value::Object(host)) = volume.get_mut("hostPath") {
        set(host, "type", "");
    }
}

/// `Guaranteed` when every container has equal requests and limits for cpu and memory,
/// `BestEffort` when none has any, `Burstable` otherwise.
pub(super) fn quality_of_service(spec: &Value) -> &'static str {
    let containers = ["containers", "initContainers"]
        .into_iter()
        .flat_map(|list| spec[list].as_array().into_iter().flatten());
    let (mut has_any, mut all_equal) = (false, true);
    for container in containers {
        let resources = &container["resources"];
        for resource in ["cpu", "memory"] {
            let (request, limit) = (
                &resources["requests"][resource],
                &resources["limits"][resource],
            );
            has_any |= !request.is_null() || !limit.is_null();
            all_equal &= !limit.is_null() && request == limit;
        }
    }
    match (has_any, all_equal) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}
