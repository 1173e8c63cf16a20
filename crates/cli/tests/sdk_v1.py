"""Trains a function through the Training Operator's SDK (kubeflow-training 1.9), as its documentation shows it."""

from kubeflow.training import TrainingClient


def train():
    import os

    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    total = torch.tensor([float(rank + 1)])
    dist.all_reduce(total)
    print(f"rank {rank} of {world}, sum {total.item():.0f}, at {os.environ['MASTER_ADDR']}", flush=True)
    dist.destroy_process_group()


client = TrainingClient(namespace="default", job_kind="PyTorchJob")
client.create_job(
    name="sdk",
    job_kind="PyTorchJob",
    base_image="pytorch/pytorch:2.2.2-cuda11.8-cudnn8-runtime",
    train_func=train,
    num_workers=2,
    num_procs_per_worker=1,
    resources_per_worker={"cpu": "500m", "memory": "1Gi"},
)
job = client.wait_for_job_conditions("sdk", wait_timeout=240, polling_interval=1)
print("conditions:", [condition.type for condition in job.status.conditions if condition.status == "True"])
print("pods:", sorted(client.get_job_pod_names("sdk")))
logs, _ = client.get_job_logs("sdk", is_master=True)
for pod, log in logs.items():
    print(pod, log)
assert client.is_job_succeeded("sdk")
client.delete_job("sdk")
print("left:", client.list_jobs())
