"""The newest and an older Kubeflow SDK: runtimes and jobs are listed, read, created and deleted."""

from importlib.metadata import version

from kubernetes import client, config
from kubeflow.trainer import CustomTrainer, TrainerClient

config.load_kube_config()
api = client.CustomObjectsApi()
GROUP, VERSION = "trainer.kubeflow.org", "v1alpha1"
api.create_cluster_custom_object(
    GROUP,
    VERSION,
    "clustertrainingruntimes",
    {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": "torch-distributed", "labels": {"trainer.kubeflow.org/framework": "torch"}},
        "spec": {
            "mlPolicy": {"numNodes": 1, "torch": {"numProcPerNode": "auto"}},
            "template": {
                "spec": {
                    "replicatedJobs": [
                        {
                            "name": "node",
                            "template": {
                                "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
                                "spec": {
                                    "template": {
                                        "spec": {"containers": [{"name": "node", "image": "pytorch/pytorch"}]}
                                    }
                                },
                            },
                        }
                    ]
                }
            },
        },
    },
)


def train():
    print("hello")


trainer = TrainerClient()
runtimes = trainer.list_runtimes()
assert [runtime.name for runtime in runtimes] == ["torch-distributed"], runtimes
name = trainer.train(
    trainer=CustomTrainer(func=train, num_nodes=2, resources_per_node={"cpu": 2, "memory": "1Gi"}),
    runtime=trainer.get_runtime("torch-distributed"),
)
stored = api.get_namespaced_custom_object(GROUP, VERSION, "default", "trainjobs", name)
assert stored["spec"]["trainer"]["numNodes"] == 2, stored
assert stored["spec"]["suspend"] is False, stored
job = trainer.get_job(name)
assert job.name == name and job.runtime.name == "torch-distributed", job
assert [job.name for job in trainer.list_jobs()] == [name]
api.patch_namespaced_custom_object_status(
    GROUP,
    VERSION,
    "default",
    "trainjobs",
    name,
    {
        "status": {
            "conditions": [
                {
                    "type": "Complete",
                    "status": "True",
                    "reason": "JobsCompleted",
                    "message": "done",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }
            ]
        }
    },
)
assert trainer.wait_for_job_status(name, timeout=30).status == "Complete"
trainer.delete_job(name)
assert trainer.list_jobs() == []
print("fine with kubeflow", version("kubeflow"), "and kubernetes", version("kubernetes"))
