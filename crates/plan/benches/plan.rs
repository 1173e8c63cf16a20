//! How fast jobs are planned, and how that grows with their nodes.

use astrago_api::TrainJob;
use astrago_plan::{
    Options, Plan, Runtime, built_in_runtime, explain_train_job, jobs_of, plan_train_job, pod_of,
    preview,
};
use divan::{Bencher, counter::ItemsCount};
use k8s_openapi::api::core::v1::Pod;

const NODES: [i32; 4] = [2, 10, 100, 1000];

fn main() {
    divan::main();
}

fn job(nodes: i32) -> TrainJob {
    let yaml = include_str!("../../../examples/pytorch-volumes/trainjob.yaml");
    let mut job: TrainJob = astrago_plan::yaml::from_str(yaml).expect("the example is valid");
    job.spec.trainer.get_or_insert_default().num_nodes = Some(nodes);
    job
}

fn runtime() -> Runtime<'static> {
    Runtime::from(built_in_runtime("pytorch-simple").expect("the runtime is built in"))
}

fn plan(job: &TrainJob) -> Plan {
    plan_train_job(job, runtime(), &Options::default()).expect("the example can be planned")
}

/// From a TrainJob to its JobSet; does not depend on the number of nodes.
#[divan::bench(args = NODES)]
fn job_set(bencher: Bencher, nodes: i32) {
    let job = job(nodes);
    bencher.counter(ItemsCount::new(1_u32)).bench(|| plan(&job));
}

/// The same, with the origin of every field.
#[divan::bench(args = NODES)]
fn job_set_explained(bencher: Bencher, nodes: i32) {
    let job = job(nodes);
    bencher
        .counter(ItemsCount::new(1_u32))
        .bench(|| explain_train_job(&job, runtime(), &Options::default()));
}

/// From a TrainJob to all of its pods; items are pods.
#[divan::bench(args = NODES)]
fn pods(bencher: Bencher, nodes: i32) {
    let job = job(nodes);
    bencher
        .counter(ItemsCount::new(nodes.unsigned_abs()))
        .bench(|| {
            let plan = plan(&job);
            let jobs = jobs_of(&plan.job_set, 0);
            let pods: Vec<Pod> = (0..nodes)
                .map(|index| pod_of(&jobs[0], index, "xxxxx"))
                .collect();
            pods
        });
}

/// The whole preview with all origins; items are pods.
#[divan::bench(args = [2, 10, 100])]
fn whole_preview(bencher: Bencher, nodes: i32) {
    let job = job(nodes);
    bencher
        .counter(ItemsCount::new(nodes.unsigned_abs()))
        .bench(|| preview(&job, runtime(), &Options::default()));
}
