//! Objects for tests, in one line each.

use astrago_api::{ClusterTrainingRuntime, TrainJob};
use serde_json::{Value, json};

/// A TrainJob `name` of one node on the runtime `torch`.
pub fn train_job(name: &str) -> TrainJobBuilder {
    TrainJobBuilder {
        object: json!({
            "apiVersion": "trainer.kubeflow.org/v1alpha1",
            "kind": "TrainJob",
            "metadata": { "name": name, "namespace": crate::NAMESPACE },
            "spec": { "runtimeRef": { "name": "torch" }, "trainer": { "numNodes": 1 } },
        }),
    }
}

#[derive(Debug, Clone)]
pub struct TrainJobBuilder {
    object: Value,
}

impl TrainJobBuilder {
    #[must_use]
    pub fn nodes(self, count: i32) -> Self {
        self.set("/spec/trainer/numNodes", json!(count))
    }

    #[must_use]
    pub fn runtime(self, name: &str) -> Self {
        self.set("/spec/runtimeRef/name", json!(name))
    }

    #[must_use]
    pub fn namespace(self, name: &str) -> Self {
        self.set("/metadata/namespace", json!(name))
    }

    /// Held from the start.
    #[must_use]
    pub fn suspended(self) -> Self {
        self.with("spec", "suspend", json!(true))
    }

    /// Started again so often.
    #[must_use]
    pub fn max_restarts(self, count: i32) -> Self {
        self.with("spec", "maxRestarts", json!(count))
    }

    /// How many seconds after its end it is deleted.
    #[must_use]
    pub fn ttl(self, seconds: i32) -> Self {
        self.with("spec", "ttlSecondsAfterFinished", json!(seconds))
    }

    /// After how many seconds it fails.
    #[must_use]
    pub fn deadline(self, seconds: i64) -> Self {
        self.with("spec", "activeDeadlineSeconds", json!(seconds))
    }

    /// How many CPUs every node asks for.
    #[must_use]
    pub fn cpus(self, count: i32) -> Self {
        self.with(
            "spec/trainer",
            "resourcesPerNode",
            json!({ "requests": { "cpu": count.to_string() } }),
        )
    }

    pub fn build(self) -> TrainJob {
        serde_json::from_value(self.object).expect("the builder makes valid objects")
    }

    fn set(mut self, pointer: &str, value: Value) -> Self {
        *self
            .object
            .pointer_mut(pointer)
            .expect("the field is in the template") = value;
        self
    }

    fn with(mut self, parent: &str, key: &str, value: Value) -> Self {
        let parent = self.object.pointer_mut(&format!("/{parent}"));
        parent.expect("the parent is in the template")[key] = value;
        self
    }
}

/// A ClusterTrainingRuntime `name` with one job `node`, without restarts.
pub fn runtime(name: &str) -> RuntimeBuilder {
    RuntimeBuilder {
        object: json!({
            "apiVersion": "trainer.kubeflow.org/v1alpha1",
            "kind": "ClusterTrainingRuntime",
            "metadata": { "name": name, "labels": { "trainer.kubeflow.org/framework": "torch" } },
            "spec": {
                "mlPolicy": { "numNodes": 1, "torch": {} },
                "template": { "spec": { "replicatedJobs": [replicated_job("node", "trainer", "node")] } },
            },
        }),
    }
}

fn replicated_job(name: &str, ancestor: &str, container: &str) -> Value {
    json!({
        "name": name,
        "template": {
            "metadata": { "labels": { "trainer.kubeflow.org/trainjob-ancestor-step": ancestor } },
            "spec": {
                "backoffLimit": 0,
                "template": { "spec": {
                    "restartPolicy": "Never",
                    "containers": [{
                        "name": container,
                        "image": "training:1",
                        "command": ["python", "train.py"],
                    }],
                } },
            },
        },
    })
}

#[derive(Debug, Clone)]
pub struct RuntimeBuilder {
    object: Value,
}

impl RuntimeBuilder {
    /// Jobs on it are started again so often.
    #[must_use]
    pub fn max_restarts(mut self, count: i32) -> Self {
        self.object["spec"]["template"]["spec"]["failurePolicy"] = json!({ "maxRestarts": count });
        self
    }

    /// How many seconds after their end jobs on it are deleted.
    #[must_use]
    pub fn ttl(mut self, seconds: i32) -> Self {
        self.object["spec"]["template"]["spec"]["ttlSecondsAfterFinished"] = json!(seconds);
        self
    }

    /// The training waits for a job `dataset-initializer` to complete.
    #[must_use]
    pub fn initializer(mut self) -> Self {
        let name = "dataset-initializer";
        let jobs = &mut self.object["spec"]["template"]["spec"]["replicatedJobs"];
        let mut node = jobs[0].take();
        node["dependsOn"] = json!([{ "name": name, "status": "Complete" }]);
        *jobs = json!([replicated_job(name, name, name), node]);
        self
    }

    /// Changes anything else.
    #[must_use]
    pub fn change(mut self, change: impl FnOnce(&mut Value)) -> Self {
        change(&mut self.object);
        self
    }

    pub fn build(self) -> ClusterTrainingRuntime {
        serde_json::from_value(self.object).expect("the builder makes valid objects")
    }
}
