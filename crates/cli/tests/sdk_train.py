"""Trains a function on two nodes through Kubeflow's SDK, as its documentation shows it; prints what it sees."""

from kubeflow.trainer import CustomTrainer, TrainerClient


def train():
    import os

    import torch
    import torch.distributed as dist
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    print(f"Rank {rank} of {world} on {os.uname().nodename}", flush=True)
    images, labels = load_digits(return_X_y=True)
    images = (images / 16.0).astype("float32")
    train_x, test_x, train_y, test_y = map(torch.tensor, train_test_split(images, labels, random_state=0))
    model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    mine = slice(rank, None, world)
    for _ in range(60):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(train_x[mine]), train_y[mine]).backward()
        optimizer.step()
    accuracy = (model(test_x).argmax(1) == test_y).float().mean().item()
    print(f"accuracy {accuracy:.4f}", flush=True)
    dist.destroy_process_group()
    assert accuracy > 0.9


client = TrainerClient()
job = client.train(
    trainer=CustomTrainer(func=train, num_nodes=2, resources_per_node={"cpu": 1, "memory": "2Gi"}),
    runtime=client.get_runtime("torch-distributed"),
)
# As it says in docs/guides/pytorch.md: what has not started has no log to follow.
client.wait_for_job_status(job, status={"Running", "Complete"}, timeout=280)
for step in ("node-0", "node-1"):
    for line in client.get_job_logs(job, step=step, follow=True):
        print(f"{step}: {line}")
client.wait_for_job_status(job, timeout=280)
print("state:", client.get_job(job).status)
small = client.train(
    trainer=CustomTrainer(func=lambda: None, num_nodes=1, resources_per_node={"memory": "1Gi"}),
    runtime=client.get_runtime("torch-distributed"),
)
print("with memory alone:", small in [job.name for job in client.list_jobs()], client.get_job(small).num_nodes)
client.delete_job(small)
client.delete_job(job)
print("left:", [job.name for job in client.list_jobs()])
