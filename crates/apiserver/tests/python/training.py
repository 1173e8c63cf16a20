"""The client of the Training Operator v1: jobs are listed, read, created and deleted."""

from importlib.metadata import version

from kubeflow.training import (
    KubeflowOrgV1PyTorchJob,
    KubeflowOrgV1PyTorchJobSpec,
    KubeflowOrgV1ReplicaSpec,
    TrainingClient,
)
from kubernetes import client, config

config.load_kube_config()
replica = KubeflowOrgV1ReplicaSpec(
    replicas=1,
    restart_policy="OnFailure",
    template=client.V1PodTemplateSpec(
        spec=client.V1PodSpec(containers=[client.V1Container(name="pytorch", image="pytorch/pytorch")])
    ),
)
job = KubeflowOrgV1PyTorchJob(
    api_version="kubeflow.org/v1",
    kind="PyTorchJob",
    metadata=client.V1ObjectMeta(name="sdk", namespace="default"),
    spec=KubeflowOrgV1PyTorchJobSpec(
        run_policy={"cleanPodPolicy": "None"}, pytorch_replica_specs={"Master": replica, "Worker": replica}
    ),
)
training = TrainingClient(job_kind="PyTorchJob")
training.create_job(job, namespace="default")
stored = training.get_job("sdk", namespace="default")
assert stored.spec.pytorch_replica_specs["Worker"].replicas == 1, stored
assert [one.metadata.name for one in training.list_jobs(namespace="default")] == ["sdk"]
assert training.get_job_conditions("sdk", namespace="default") == []
training.update_job(
    KubeflowOrgV1PyTorchJob(
        api_version="kubeflow.org/v1",
        kind="PyTorchJob",
        metadata=client.V1ObjectMeta(name="sdk", namespace="default", labels={"a": "b"}),
        spec=job.spec,
    ),
    "sdk",
    namespace="default",
)
assert training.get_job("sdk", namespace="default").metadata.labels == {"a": "b"}
training.delete_job("sdk", namespace="default")
assert training.list_jobs(namespace="default") == []
print("fine with kubeflow-training", version("kubeflow-training"))
