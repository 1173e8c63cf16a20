//! The columns of claims, volumes and storage classes.

use serde_json::{Value, json};

use super::{Printer, Row, items, text};

pub(crate) const CLAIM: Printer = Printer {
    headers: "Name, Status, Volume, Capacity, Access Modes, StorageClass, VolumeAttributesClass, Age, VolumeMode*",
    cells: claim,
};

fn claim(row: &Row<'_>) -> Vec<Value> {
    let (spec, status) = (&row.object["spec"], &row.object["status"]);
    let volume = text(&spec["volumeName"], "");
    let (modes, capacity) = if volume.is_empty() {
        (String::new(), "")
    } else {
        (
            access_modes(&status["accessModes"]),
            text(&status["capacity"]["storage"], ""),
        )
    };
    let phase = if row.object["metadata"]["deletionTimestamp"].is_null() {
        text(&status["phase"], "")
    } else {
        "Terminating"
    };
    vec![
        row.name(),
        json!(phase),
        json!(volume),
        json!(capacity),
        json!(modes),
        json!(text(&spec["storageClassName"], "")),
        json!(text(&spec["volumeAttributesClassName"], "<unset>")),
        row.age(),
        json!(text(&spec["volumeMode"], "<unset>")),
    ]
}

pub(crate) const VOLUME: Printer = Printer {
    headers: "Name, Capacity, Access Modes, Reclaim Policy, Status, Claim, StorageClass, VolumeAttributesClass, Reason, Age, VolumeMode*",
    cells: volume,
};

fn volume(row: &Row<'_>) -> Vec<Value> {
    let (spec, status) = (&row.object["spec"], &row.object["status"]);
    let claim = match &spec["claimRef"] {
        Value::Null => String::new(),
        claim => format!(
            "{}/{}",
            text(&claim["namespace"], ""),
            text(&claim["name"], "")
        ),
    };
    vec![
        row.name(),
        json!(text(&spec["capacity"]["storage"], "")),
        json!(access_modes(&spec["accessModes"])),
        json!(text(&spec["persistentVolumeReclaimPolicy"], "")),
        json!(text(&status["phase"], "")),
        json!(claim),
        json!(text(&spec["storageClassName"], "")),
        json!(text(&spec["volumeAttributesClassName"], "<unset>")),
        json!(text(&status["reason"], "")),
        row.age(),
        json!(text(&spec["volumeMode"], "<unset>")),
    ]
}

fn access_modes(modes: &Value) -> String {
    let short = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let has = |mode: &str| items(modes).iter().any(|one| one == mode);
    let found: Vec<_> = short
        .iter()
        .filter(|(mode, _)| has(mode))
        .map(|(_, short)| *short)
        .collect();
    found.join(",")
}

pub(crate) const CLASS: Printer = Printer {
    headers: "Name, Provisioner, ReclaimPolicy, VolumeBindingMode, AllowVolumeExpansion, Age",
    cells: class,
};

fn class(row: &Row<'_>) -> Vec<Value> {
    let object = row.object;
    let default = "storageclass.kubernetes.io/is-default-class";
    let is_default = object["metadata"]["annotations"][default] == "true";
    let name = text(&object["metadata"]["name"], "");
    vec![
        json!(if is_default {
            format!("{name} (default)")
        } else {
            name.to_owned()
        }),
        object["provisioner"].clone(),
        json!(text(&object["reclaimPolicy"], "Delete")),
        json!(text(&object["volumeBindingMode"], "Immediate")),
        json!(object["allowVolumeExpansion"] == true),
        row.age(),
    ]
}
