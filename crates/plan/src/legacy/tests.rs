//! Tables of the v1 rules: what is refused, and what the pods of every kind are told.

use std::collections::BTreeMap;

use astrago_api::legacy::{
    CleanPodPolicy, JAXJob, MPIJob, MXJob, PaddleJob, PyTorchJob, TFJob, XGBoostJob,
};
use k8s_openapi::api::core::v1::Pod;
use rstest::rstest;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;

fn read<K: DeserializeOwned>(spec: Value) -> K {
    named("job", spec)
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "reads better with json! in place"
)]
fn named<K: DeserializeOwned>(name: &str, spec: Value) -> K {
    let object = json!({ "apiVersion": "kubeflow.org/v1", "kind": "Any", "spec": spec,
        "metadata": { "name": name, "namespace": "team", "uid": "u" } });
    serde_json::from_value(object).expect("a job")
}

fn replica(container: &str, count: Option<i32>) -> Value {
    let template = json!({ "spec": { "containers": [{ "name": container, "image": "i" }] } });
    json!({ "replicas": count, "template": template })
}

fn pytorch(extra: &Value) -> PyTorchJob {
    let mut spec = json!({ "pytorchReplicaSpecs": {
        "Master": replica("pytorch", Some(1)), "Worker": replica("pytorch", Some(2)) } });
    merge(&mut spec, extra);
    read(spec)
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}

fn pod(job: &TrainingJob, kind: &str, index: i32) -> Pod {
    job.pod(job.replica(kind).expect("the type"), index)
}

fn environment(pod: &Pod, container: usize) -> BTreeMap<String, String> {
    let spec = pod.spec.as_ref().expect("a spec");
    let variables = spec.containers[container].env.iter().flatten();
    variables
        .map(|variable| {
            let value = variable.value.clone();
            (
                variable.name.clone(),
                value.unwrap_or_else(|| "(from)".into()),
            )
        })
        .collect()
}

fn errors<K: LegacyKind>(job: &K) -> Vec<String> {
    match TrainingJob::of(job) {
        Ok(_) => Vec::new(),
        Err(errors) => errors.iter().map(ToString::to_string).collect(),
    }
}

#[rstest]
#[case::two_masters(json!({"pytorchReplicaSpecs": {"Master": {"replicas": 2}}}),
    "spec.pytorchReplicaSpecs.Master.replicas: must be 1")]
#[case::negative(json!({"pytorchReplicaSpecs": {"Worker": {"replicas": -1}}}),
    "spec.pytorchReplicaSpecs.Worker.replicas: must be from 0")]
#[case::unknown_type(json!({"pytorchReplicaSpecs": {"PS": replica("pytorch", None)}}),
    "spec.pytorchReplicaSpecs.PS: is not a replica type of a PyTorchJob")]
#[case::twice(json!({"pytorchReplicaSpecs": {"worker": replica("pytorch", None)}}),
    "spec.pytorchReplicaSpecs.worker: Worker is given twice")]
#[case::no_container(json!({"pytorchReplicaSpecs": {"Worker": {"template": {"spec": {"containers": []}}}}}),
    "spec.pytorchReplicaSpecs.Worker.template.spec.containers: must be specified")]
#[case::other_container(json!({"pytorchReplicaSpecs": {"Worker": {"template": {"spec": {"containers": [{"name": "a", "image": "i"}]}}}}}),
    "spec.pytorchReplicaSpecs.Worker.template.spec.containers: must have at least one container with name pytorch")]
#[case::no_image(json!({"pytorchReplicaSpecs": {"Worker": {"template": {"spec": {"containers": [{"name": "pytorch"}]}}}}}),
    "spec.pytorchReplicaSpecs.Worker.template.spec.containers[0].image: must be required")]
#[case::nproc(json!({"nprocPerNode": "many"}), "spec.nprocPerNode: must be auto, cpu, gpu or a positive number")]
#[case::both_nprocs(json!({"nprocPerNode": "2", "elasticPolicy": {"nProcPerNode": 2}}),
    "spec.elasticPolicy.nProcPerNode: Forbidden: must not be used with")]
#[case::bounds(json!({"elasticPolicy": {"minReplicas": 3, "maxReplicas": 2}}),
    "spec.elasticPolicy.minReplicas: must not be greater")]
#[case::limit(json!({"runPolicy": {"backoffLimit": -1}}), "spec.runPolicy.backoffLimit: must not be negative")]
fn a_bad_pytorch_job_is_refused_with_its_field(#[case] extra: Value, #[case] want: &str) {
    let errors = errors(&pytorch(&extra));
    assert!(
        errors.iter().any(|error| error.starts_with(want)),
        "{errors:?}"
    );
}

#[test]
fn every_kind_knows_what_it_cannot_be_without() {
    let mpi: MPIJob = read(json!({ "mpiReplicaSpecs": { "Worker": replica("mpi", None) } }));
    assert_eq!(
        errors(&mpi),
        ["spec.mpiReplicaSpecs.Launcher: must be specified"]
    );
    let xgboost: XGBoostJob =
        read(json!({ "xgbReplicaSpecs": { "Worker": replica("xgboost", None) } }));
    assert_eq!(
        errors(&xgboost),
        ["spec.xgbReplicaSpecs.Master: must be specified"]
    );
    let both =
        json!({ "Chief": replica("tensorflow", None), "Master": replica("tensorflow", None) });
    let tensorflow: TFJob = read(json!({ "tfReplicaSpecs": both, "successPolicy": "Some" }));
    let want = [
        "spec.successPolicy: must be empty or AllWorkers",
        "spec.tfReplicaSpecs: must not have more than 1 Chief or Master role",
    ];
    assert_eq!(errors(&tensorflow), want);
    let empty: JAXJob = read(json!({ "jaxReplicaSpecs": {} }));
    assert_eq!(errors(&empty).len(), 2);
}

#[rstest]
#[case("Job", 1)]
#[case("1job", 1)]
#[case(&"a".repeat(55), 1)]
#[case(&"a".repeat(54), 0)]
fn a_name_that_its_pods_cannot_have_is_refused(#[case] name: &str, #[case] want: usize) {
    let spec = json!({ "pytorchReplicaSpecs": { "Worker": replica("pytorch", Some(10)) } });
    let job: PyTorchJob = named(name, spec);
    assert_eq!(errors(&job).len(), want, "{:?}", errors(&job));
}

#[test]
fn a_pytorch_job_has_the_names_labels_and_variables_of_the_training_operator() {
    let job = TrainingJob::of(&pytorch(&json!({}))).expect("a valid job");
    let master = pod(&job, "Master", 0);
    assert_eq!(master.metadata.name.as_deref(), Some("job-master-0"));
    let labels = master.metadata.labels.clone().expect("labels");
    for (key, want) in [
        ("training.kubeflow.org/job-name", "job"),
        (
            "training.kubeflow.org/operator-name",
            "pytorchjob-controller",
        ),
        ("training.kubeflow.org/replica-type", "master"),
        ("training.kubeflow.org/replica-index", "0"),
        ("training.kubeflow.org/job-role", "master"),
    ] {
        assert_eq!(labels.get(key).map(String::as_str), Some(want), "{key}");
    }
    let owner = &master.metadata.owner_references.as_ref().expect("an owner")[0];
    assert_eq!(
        (
            owner.kind.as_str(),
            owner.controller,
            owner.block_owner_deletion
        ),
        ("PyTorchJob", Some(true), Some(true))
    );
    let worker = pod(&job, "Worker", 1);
    assert_eq!(worker.metadata.name.as_deref(), Some("job-worker-1"));
    assert_eq!(
        worker.metadata.annotations.as_ref().expect("annotations")["astrago.io/gang-size"],
        "3"
    );
    let spec = worker.spec.as_ref().expect("a spec");
    assert_eq!(spec.restart_policy.as_deref(), Some("OnFailure"));
    assert_eq!(
        spec.init_containers.as_ref().expect("it waits")[0].name,
        "init-pytorch"
    );
    assert!(
        master
            .spec
            .as_ref()
            .expect("a spec")
            .init_containers
            .is_none()
    );
    let want = [
        ("MASTER_ADDR", "job-master-0"),
        ("MASTER_PORT", "23456"),
        ("PET_MASTER_ADDR", "job-master-0"),
        ("PET_MASTER_PORT", "23456"),
        ("PET_NNODES", "3"),
        ("PET_NODE_RANK", "2"),
        ("PET_NPROC_PER_NODE", "auto"),
        ("PYTHONUNBUFFERED", "1"),
        ("RANK", "2"),
        ("WORLD_SIZE", "3"),
    ];
    let want: BTreeMap<_, _> = want
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
    assert_eq!(environment(&worker, 0), want);
    let service = job
        .service(job.replica("Worker").expect("workers"), 1)
        .expect("a service");
    assert_eq!(service.metadata.name.as_deref(), Some("job-worker-1"));
    let spec = service.spec.expect("a spec");
    assert_eq!(spec.cluster_ip.as_deref(), Some("None"));
    assert_eq!(spec.ports.expect("ports")[0].port, 23456);
    let selector = spec.selector.expect("a selector");
    assert!(selector.iter().all(|(key, value)| {
        worker.metadata.labels.as_ref().expect("labels").get(key) == Some(value)
    }));
}

#[rstest]
#[case::unset(json!({}), "3")]
#[case::number(json!({"nprocPerNode": "4"}), "12")]
#[case::per_gpu(json!({"nprocPerNode": "gpu", "pytorchReplicaSpecs": {"Worker": {"template": {"spec": {"containers":
    [{"name": "pytorch", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "2"}}}]}}}}}), "6")]
fn the_world_counts_processes(#[case] extra: Value, #[case] want: &str) {
    let job = TrainingJob::of(&pytorch(&extra)).expect("a valid job");
    assert_eq!(environment(&pod(&job, "Worker", 0), 0)["WORLD_SIZE"], want);
}

#[test]
fn types_are_read_in_any_case_and_ports_and_user_variables_are_kept() {
    let template = json!({ "spec": { "restartPolicy": "Always", "containers": [
        { "name": "side", "image": "i" },
        { "name": "pytorch", "image": "i", "env": [{ "name": "RANK", "value": "9" }, { "name": "MINE", "value": "1" }],
          "ports": [{ "name": "pytorchjob-port", "containerPort": 29400 }] }] } });
    let spec = json!({ "pytorchReplicaSpecs": { "MASTER": { "template": template, "restartPolicy": "ExitCode" } } });
    let job = TrainingJob::of(&read::<PyTorchJob>(spec)).expect("a valid job");
    let master = pod(&job, "Master", 0);
    assert_eq!(
        master
            .spec
            .as_ref()
            .expect("a spec")
            .restart_policy
            .as_deref(),
        Some("Never")
    );
    let (side, main) = (environment(&master, 0), environment(&master, 1));
    assert_eq!(
        (
            main["RANK"].as_str(),
            main["MINE"].as_str(),
            main["MASTER_PORT"].as_str()
        ),
        ("0", "1", "29400")
    );
    assert_eq!(side["RANK"], "0");
}

#[test]
fn an_elastic_job_meets_at_its_first_worker() {
    let spec = json!({ "pytorchReplicaSpecs": { "Worker": replica("pytorch", Some(3)) },
        "elasticPolicy": { "minReplicas": 1, "maxReplicas": 4, "maxRestarts": 5, "rdzvId": "x",
            "rdzvConf": [{ "key": "timeout", "value": "9" }, { "key": "a", "value": "b" }] } });
    let job = TrainingJob::of(&read::<PyTorchJob>(spec)).expect("a valid job");
    let worker = pod(&job, "Worker", 0);
    let got = environment(&worker, 0);
    assert_eq!(got["PET_RDZV_ENDPOINT"], "job-worker-0:23456");
    assert_eq!(got["PET_NNODES"], "1:4");
    assert_eq!(got["PET_RDZV_BACKEND"], "c10d");
    assert_eq!(got["PET_MAX_RESTARTS"], "5");
    assert_eq!(got["PET_RDZV_CONF"], "timeout=9,a=b");
    assert!(!got.contains_key("MASTER_ADDR") && !got.contains_key("RANK"));
    assert_eq!(
        worker.metadata.labels.expect("labels")["training.kubeflow.org/job-role"],
        "master"
    );
    assert!(worker.spec.expect("a spec").init_containers.is_none());
}

#[rstest]
#[case("Chief", 0, "chief")]
#[case("PS", 1, "ps")]
#[case("Worker", 1, "worker")]
#[case("Evaluator", 0, "evaluator")]
fn every_tensorflow_replica_knows_the_cluster_and_its_task(
    #[case] kind: &str,
    #[case] index: i32,
    #[case] role: &str,
) {
    let specs = json!({ "Chief": replica("tensorflow", Some(1)), "PS": replica("tensorflow", Some(2)),
        "Worker": replica("tensorflow", Some(2)), "Evaluator": replica("tensorflow", Some(1)) });
    let job =
        TrainingJob::of(&read::<TFJob>(json!({ "tfReplicaSpecs": specs }))).expect("a valid job");
    let got = environment(&pod(&job, kind, index), 0);
    let config: Value = serde_json::from_str(&got["TF_CONFIG"]).expect("JSON");
    assert_eq!(
        config,
        json!({
        "cluster": {
            "chief": ["job-chief-0.team.svc:2222"],
            "evaluator": ["job-evaluator-0.team.svc:2222"],
            "ps": ["job-ps-0.team.svc:2222", "job-ps-1.team.svc:2222"],
            "worker": ["job-worker-0.team.svc:2222", "job-worker-1.team.svc:2222"] },
        "task": { "type": role, "index": index },
        "environment": "cloud" })
    );
}

#[test]
fn a_dynamic_worker_knows_itself_and_the_servers_and_one_alone_nothing() {
    let specs =
        json!({ "PS": replica("tensorflow", Some(1)), "Worker": replica("tensorflow", Some(2)) });
    let spec = json!({ "tfReplicaSpecs": specs, "enableDynamicWorker": true });
    let job = TrainingJob::of(&read::<TFJob>(spec)).expect("a valid job");
    let got = environment(&pod(&job, "Worker", 1), 0);
    let config: Value = serde_json::from_str(&got["TF_CONFIG"]).expect("JSON");
    assert_eq!(
        config,
        json!({ "cluster": { "worker": { "1": "job-worker-1.team.svc:2222" },
        "ps": ["job-ps-0.team.svc:2222"] }, "task": { "type": "worker", "index": 1 } })
    );
    let alone = json!({ "tfReplicaSpecs": { "Worker": replica("tensorflow", None) } });
    let job = TrainingJob::of(&read::<TFJob>(alone)).expect("a valid job");
    assert!(environment(&pod(&job, "Worker", 0), 0).is_empty());
}

#[test]
fn xgboost_jax_and_paddle_find_each_other() {
    let specs =
        json!({ "Master": replica("xgboost", Some(1)), "Worker": replica("xgboost", Some(2)) });
    let job =
        TrainingJob::of(&read::<XGBoostJob>(json!({ "xgbReplicaSpecs": specs }))).expect("valid");
    let got = environment(&pod(&job, "Worker", 1), 0);
    assert_eq!(
        (got["RANK"].as_str(), got["WORLD_SIZE"].as_str()),
        ("2", "3")
    );
    assert_eq!(got["WORKER_ADDRS"], "job-worker-0,job-worker-1");
    assert_eq!(
        (got["MASTER_ADDR"].as_str(), got["MASTER_PORT"].as_str()),
        ("job-master-0", "9999")
    );

    let specs = json!({ "Worker": replica("jax", Some(2)) });
    let job = TrainingJob::of(&read::<JAXJob>(json!({ "jaxReplicaSpecs": specs }))).expect("valid");
    let got = environment(&pod(&job, "Worker", 1), 0);
    assert_eq!(got["COORDINATOR_ADDRESS"], "job-worker-0");
    assert_eq!(
        (
            got["COORDINATOR_PORT"].as_str(),
            got["PROCESS_ID"].as_str(),
            got["NUM_PROCESSES"].as_str()
        ),
        ("6666", "1", "2")
    );

    let specs = json!({ "Worker": replica("paddle", Some(2)) });
    let job =
        TrainingJob::of(&read::<PaddleJob>(json!({ "paddleReplicaSpecs": specs }))).expect("valid");
    assert_eq!(
        environment(&pod(&job, "Worker", 0), 0)["PADDLE_MASTER"],
        "$(POD_IP_DUMMY):36543"
    );
    assert_eq!(
        environment(&pod(&job, "Worker", 1), 0)["PADDLE_MASTER"],
        "job-worker-0:36543"
    );
}

#[test]
fn mxnet_has_a_scheduler_at_its_root() {
    let specs = json!({ "Scheduler": replica("mxnet", None), "Server": replica("mxnet", Some(1)), "Worker": replica("mxnet", Some(2)) });
    let job = TrainingJob::of(&read::<MXJob>(json!({ "mxReplicaSpecs": specs }))).expect("valid");
    let got = environment(&pod(&job, "Worker", 1), 0);
    for (key, want) in [
        ("DMLC_PS_ROOT_URI", "job-scheduler-0"),
        ("DMLC_PS_ROOT_PORT", "9091"),
        ("DMLC_NUM_SERVER", "1"),
        ("DMLC_NUM_WORKER", "2"),
        ("DMLC_ROLE", "worker"),
        ("DMLC_WORKER_ID", "1"),
    ] {
        assert_eq!(got[key], want, "{key}");
    }
}

#[test]
fn an_mpi_job_has_a_host_file_a_key_and_workers_that_serve() {
    let specs = json!({ "Launcher": replica("mpi", None), "Worker": replica("mpi", Some(2)) });
    let job = TrainingJob::of(&read::<MPIJob>(
        json!({ "mpiReplicaSpecs": specs, "slotsPerWorker": 2 }),
    ))
    .expect("valid");
    assert_eq!(job.clean_pod_policy(), CleanPodPolicy::Running);
    let config = job.mpi_config().expect("a config").data.expect("data");
    assert_eq!(
        config["hostfile"],
        "job-worker-0 slots=2\njob-worker-1 slots=2\n"
    );
    let launcher = pod(&job, "Launcher", 0);
    assert_eq!(launcher.metadata.name.as_deref(), Some("job-launcher"));
    assert!(
        !launcher
            .metadata
            .labels
            .as_ref()
            .expect("labels")
            .contains_key("training.kubeflow.org/replica-index")
    );
    assert!(
        job.service(job.replica("Launcher").expect("one"), 0)
            .is_none()
    );
    let got = environment(&launcher, 0);
    assert_eq!(got["OMPI_MCA_orte_default_hostfile"], "/etc/mpi/hostfile");
    assert_eq!(got["OMPI_MCA_plm_rsh_agent"], "/etc/mpi/kubexec.sh");
    let worker = pod(&job, "Worker", 0);
    let container = &worker.spec.as_ref().expect("a spec").containers[0];
    assert_eq!(
        container.command.as_ref().expect("a command")[1],
        "/etc/mpi/sshd.sh"
    );
}

#[test]
fn a_pytorch_job_becomes_a_train_job_that_plans() {
    let extra = json!({ "runPolicy": { "ttlSecondsAfterFinished": 60, "backoffLimit": 2 } });
    let job = TrainingJob::of(&pytorch(&extra)).expect("a valid job");
    let migration = job.migrate().expect("a counterpart");
    let [runtime, train_job] = migration.objects.as_slice() else {
        unreachable!("a runtime and a job: {migration:?}");
    };
    let runtime: astrago_api::TrainingRuntime =
        serde_json::from_value(runtime.clone()).expect("a runtime");
    let train_job: astrago_api::TrainJob =
        serde_json::from_value(train_job.clone()).expect("a job");
    assert_eq!(train_job.spec.ttl_seconds_after_finished, Some(60));
    let plan = crate::plan_train_job(
        &train_job,
        crate::Runtime::from(&runtime),
        &crate::Options::default(),
    );
    let set = plan.expect("a plan").job_set;
    let node = set.replicated_job("node").expect("nodes");
    assert_eq!(node.parallelism(), 3);
    let container = &node
        .pod_template()
        .and_then(|pod| pod.spec.as_ref())
        .expect("a pod")
        .containers[0];
    assert_eq!(container.name, "node");
    let names: Vec<_> = container
        .env
        .iter()
        .flatten()
        .map(|variable| variable.name.as_str())
        .collect();
    assert!(
        names.contains(&"PET_NNODES") && names.contains(&"RANK"),
        "{names:?}"
    );
    let notes = migration.notes.join("\n");
    assert!(
        notes.contains("cleanPodPolicy None") && notes.contains("all nodes"),
        "{notes}"
    );
}

#[test]
fn what_has_no_counterpart_says_so() {
    let specs = json!({ "PS": replica("tensorflow", None), "Worker": replica("tensorflow", None) });
    let job =
        TrainingJob::of(&read::<TFJob>(json!({ "tfReplicaSpecs": specs }))).expect("a valid job");
    let error = job.migrate().expect_err("no counterpart").to_string();
    assert!(error.contains("parameter servers"), "{error}");
    let specs = json!({ "Launcher": replica("mpi", None), "Worker": replica("mpi", Some(2)) });
    let job = TrainingJob::of(&read::<MPIJob>(
        json!({ "mpiReplicaSpecs": specs, "slotsPerWorker": 2 }),
    ))
    .expect("valid");
    let migration = job.migrate().expect("a counterpart");
    assert_eq!(
        migration.objects[0]["spec"]["runtimeRef"]["name"],
        "horovod-distributed"
    );
    assert_eq!(migration.objects[0]["spec"]["trainer"]["numProcPerNode"], 2);
}
