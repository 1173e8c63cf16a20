use std::path::Path;

use clap::Parser;

use super::*;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    args: PreviewArgs,
    #[arg(short, long, value_enum)]
    output: Option<Format>,
}

fn run_with(arguments: &[&str]) -> Result<String> {
    run_with_warnings(arguments).map(|(out, _)| out)
}

fn run_with_warnings(arguments: &[&str]) -> Result<(String, String)> {
    let command = Command::parse_from(std::iter::once("preview").chain(arguments.iter().copied()));
    let (mut out, mut err) = (Vec::new(), Vec::new());
    run(
        &command.args,
        Form::from(command.output),
        &mut out,
        &mut err,
    )?;
    Ok((
        String::from_utf8(out).unwrap(),
        String::from_utf8(err).unwrap(),
    ))
}

#[test]
fn json_is_one_document_and_warnings_are_beside_it() {
    let file = file(
        "\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: mine}
spec:
  mlPolicy: {numNodes: 1, torch: {}}
  template:
    spec:
      replicatedJobs:
        - name: node
          template:
            spec:
              template:
                spec:
                  containers: [{name: node, image: i, args: [of, the, runtime]}]
---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: one}
spec: {runtimeRef: {name: mine}, trainer: {command: [python]}}
---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: two}
spec: {runtimeRef: {name: mine}}
",
    );
    let path = file.path().to_str().unwrap();
    let (out, err) = run_with_warnings(&["-f", path, "-o", "json"]).unwrap();
    let list: serde_json::Value = serde_json::from_str(&out).unwrap();
    let sets = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|item| item["kind"] == "JobSet");
    let names: Vec<&str> = sets
        .filter_map(|set| set["metadata"]["name"].as_str())
        .collect();
    assert_eq!(names, ["one", "two"]);
    assert!(err.starts_with("warning: spec.trainer.command"), "{err}");
}

fn example(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    root.join(name)
        .join("trainjob.yaml")
        .to_str()
        .unwrap()
        .to_owned()
}

fn file(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    file
}

/// The problems of a file, without the name of the file.
fn problems(text: &str) -> Vec<String> {
    let file = file(text);
    let path = file.path().to_str().unwrap();
    match run_with(&["-f", path]) {
        Err(Error::Invalid { problems }) => problems
            .iter()
            .map(|line| line.replace(path, "job.yaml"))
            .collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn yaml_has_every_object_and_reads_back() {
    let text = run_with(&["-f", &example("tensorflow-volumes")]).unwrap();
    let objects: Vec<serde_json::Value> = astrago_plan::yaml::all_from_str(&text).unwrap();
    let kinds: Vec<&str> = objects
        .iter()
        .filter_map(|object| object["kind"].as_str())
        .collect();
    assert_eq!(kinds, ["JobSet", "Service", "Job", "Pod", "Pod"]);
}

#[test]
fn origins_stand_behind_the_fields() {
    let text = run_with(&["-f", &example("fsdp-t5-large"), "--origin"]).unwrap();
    for want in [
        "mountPath: /dev/shm  # override spec.podTemplateOverrides[0]",
        "command:  # TrainJob spec.trainer.command",
        "subdomain: t5-large  # injected by JobSet",
        "terminationGracePeriodSeconds: 30  # default",
    ] {
        assert!(text.contains(want), "{want}\n{text}");
    }
}

#[test]
fn a_table_has_a_row_per_container() {
    let text = run_with(&["-f", &example("tensorflow-volumes"), "-o", "table"]).unwrap();
    insta::assert_snapshot!(text, @"
    POD                             RANK   CONTAINER             IMAGE                              CPU   MEMORY     GPU
    user-job-12345-node-0-0-xxxxx   0      tf-config-generator   busybox:1.36                       -     -          -
    user-job-12345-node-0-0-xxxxx   0      node                  tensorflow/tensorflow:2.15.0-gpu   2/4   8Gi/16Gi   1
    user-job-12345-node-0-1-xxxxx   1      tf-config-generator   busybox:1.36                       -     -          -
    user-job-12345-node-0-1-xxxxx   1      node                  tensorflow/tensorflow:2.15.0-gpu   2/4   8Gi/16Gi   1
    ");
}

#[test]
fn json_is_a_list_with_the_origins_beside_it() {
    let text = run_with(&["-f", &example("pytorch-git"), "-o", "json", "--origin"]).unwrap();
    let list: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(list["kind"], "List");
    let origins = &list["origins"]["pytorch-git-node-0-0-xxxxx"];
    assert_eq!(
        origins["spec.containers[node].env[PET_NNODES].value"]["name"],
        "torch"
    );
}

#[test]
fn every_mistake_is_pointed_at() {
    let text = "\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata:
  name: demo
spec:
  numNodes: 2
  runtimeRef:
    name: torch-distributed
  trainer:
    numNodes: 0
    numProcPerNode: many
";
    insta::assert_debug_snapshot!(problems(text));
}

#[test]
fn a_container_that_the_runtime_does_not_have_is_pointed_at() {
    let text = "\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata:
  name: demo
spec:
  runtimeRef:
    name: torch-distributed
  podTemplateOverrides:
    - targetJobs:
        - name: node
      spec:
        containers:
          - name: trainer
";
    assert_eq!(
        problems(text),
        [
            "job.yaml:13: spec.podTemplateOverrides[0].spec.containers[0].name: must not have container \
         that doesn't exist in the runtime job node: \"trainer\"; it has node",
        ]
    );
}

#[test]
fn broken_yaml_is_pointed_at() {
    let file = file("kind: TrainJob\nspec: {\n");
    let error = run_with(&["-f", file.path().to_str().unwrap()])
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("line 2") || error.contains("line 3"),
        "{error}"
    );
}

#[test]
fn an_unknown_runtime_is_named_with_those_that_are_known() {
    let text = "\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: demo}
spec:
  runtimeRef: {name: nope}
";
    let problems = problems(text);
    assert!(problems[0].starts_with("job.yaml:5: spec.runtimeRef.name: no ClusterTrainingRuntime"));
    assert!(problems[0].contains("torch-distributed"), "{problems:?}");
}

#[test]
fn a_runtime_from_a_file_is_used_in_place_of_the_built_in_one() {
    let runtime =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../runtimes/torch-distributed/runtime.yaml");
    let text = std::fs::read_to_string(runtime)
        .unwrap()
        .replace("pytorch/pytorch:", "mine:");
    let runtime = file(&text);
    let job = file(
        "\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: demo}
spec:
  runtimeRef: {name: torch-distributed}
",
    );
    let path = |file: &tempfile::NamedTempFile| file.path().to_str().unwrap().to_owned();
    let table = run_with(&[
        "-f",
        &path(&job),
        "--runtime",
        &path(&runtime),
        "-o",
        "table",
    ])
    .unwrap();
    assert!(table.contains("mine:"), "{table}");
}
