//! Tables of cases, one file per table under `tests/cases`: a base runtime, and for each case what
//! differs in runtime and job, and what is expected of the plan or which errors.
//!
//! A change is a JSON merge patch. An expectation is a path into `{jobSet, pods, configMaps,
//! sshAuth}` and the value there: list items are named by their `name` (or `mountPath`), so the order
//! of lists that have none does not matter.

use std::collections::BTreeMap;

use astrago_api::{TrainJob, TrainingRuntime};
use astrago_plan::Preview;
use rstest::rstest;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::objects::{parse, plan_with, read, repository};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    runtime: Value,
    job: Value,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    #[serde(default)]
    runtime: Value,
    #[serde(default)]
    job: Value,
    /// What is expected at these paths; null means that nothing is there.
    #[serde(default)]
    want: BTreeMap<String, Value>,
    /// The errors that are expected: `field: message`, all of them.
    #[serde(default)]
    errors: Vec<String>,
}

#[rstest]
#[case("plain")]
#[case("torch")]
#[case("torchtune")]
#[case("mpi")]
#[case("jax")]
#[case("xgboost")]
#[case("tensorflow")]
#[case("resources")]
#[case("patches")]
#[case("initializer")]
#[case("lifetime")]
#[case("names")]
fn every_case_of_the_table_holds(#[case] table: &str) {
    let path = repository().join(format!("crates/plan/tests/cases/{table}.yaml"));
    let table: Table = parse(&read(&path));
    assert!(!table.cases.is_empty());
    for case in &table.cases {
        check(&table, case);
    }
}

fn check(table: &Table, case: &Case) {
    let name = &case.name;
    let runtime: TrainingRuntime = object(&table.runtime, &case.runtime);
    let job: TrainJob = object(&table.job, &case.job);
    match plan_with(&job, &runtime) {
        Ok(preview) => {
            assert!(
                case.errors.is_empty(),
                "{name}: planned, but wanted {:?}",
                case.errors
            );
            let planned = flatten(&preview);
            for (path, want) in &case.want {
                let got = at(&planned, path);
                assert_eq!(got, *want, "{name}: {path}");
            }
        }
        Err(errors) => {
            let got: Vec<String> = errors.iter().map(ToString::to_string).collect();
            assert_eq!(got, case.errors, "{name}");
        }
    }
}

fn object<T: serde::de::DeserializeOwned>(base: &Value, change: &Value) -> T {
    let mut object = base.clone();
    if !change.is_null() {
        astrago_patch::merge::apply(&mut object, change);
    }
    serde_json::from_value(object).unwrap()
}

fn flatten(preview: &Preview) -> Value {
    json!({
        "jobSet": preview.plan.job_set,
        "service": preview.service,
        "claims": preview.volume_claims,
        "configMaps": preview.plan.config_maps,
        "sshAuth": preview.plan.ssh_auth.as_ref().map(|ssh| &ssh.secret_name),
        "warnings": preview.plan.warnings,
        "pods": preview.pods.iter().map(|planned| json!({
            "name": format!("{}-{}", planned.replicated_job, planned.index),
            "metadata": planned.pod.metadata,
            "spec": planned.pod.spec,
        })).collect::<Vec<_>>(),
        "podNames": preview.pods.iter().map(|planned| {
            format!("{}-{}", planned.replicated_job, planned.index)
        }).collect::<Vec<_>>(),
    })
}

/// The value at a path such as `pods.node-0.spec.containers.node.env.A.value`, where a list item is
/// found by its name, its mount path or its number; null where there is nothing.
fn at(value: &Value, path: &str) -> Value {
    let mut here = value.clone();
    for step in path.split('.') {
        // A path has dots between its steps, so a step writes those of a key as colons.
        let step = step.replace(':', ".");
        here = match &here {
            Value::Array(items) => items
                .iter()
                .find(|item| item["name"] == *step || item["mountPath"] == *step)
                .or_else(|| step.parse().ok().and_then(|index: usize| items.get(index)))
                .cloned()
                .unwrap_or_default(),
            other => other.get(&step).cloned().unwrap_or_default(),
        };
    }
    here
}
