"""Trains a small network on hand-written digits with FSDP: every node holds a part of the parameters."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def digits():
    """Hand-written digits of 8 by 8 pixels, from scikit-learn; made up where it is not installed."""
    try:
        from sklearn.datasets import load_digits

        data = load_digits()
        return torch.tensor(data.data, dtype=torch.float32) / 16, torch.tensor(data.target)
    except ImportError:
        generator = torch.Generator().manual_seed(0)
        labels = torch.randint(0, 10, (1800,), generator=generator)
        centres = torch.rand(10, 64, generator=generator)
        return centres[labels] + 0.1 * torch.randn(1800, 64, generator=generator), labels


def main():
    gpu = torch.cuda.is_available()
    if gpu:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if gpu else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    device = "cuda" if gpu else "cpu"
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)).to(device)
    mesh = init_device_mesh(device, (world,))
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    held = sum(parameter.to_local().numel() for parameter in model.parameters())
    print(f"rank {rank}/{world} holds {held} parameters", flush=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    loss_of = nn.CrossEntropyLoss()
    pixels, labels = digits()
    # Every node takes the same number of batches: a collective call that one node leaves out never returns.
    share = len(pixels) // world
    mine = slice(rank * share, (rank + 1) * share)
    for epoch in range(int(os.environ.get("EPOCHS", "5"))):
        loss = None
        batches = zip(pixels[mine].split(64), labels[mine].split(64))
        for batch, targets in batches:
            optimizer.zero_grad()
            loss = loss_of(model(batch.to(device)), targets.to(device))
            loss.backward()
            optimizer.step()
        print(f"rank {rank}/{world} epoch {epoch} loss {loss.item():.4f}", flush=True)
    with torch.no_grad():
        right = (model(pixels.to(device)).argmax(1).cpu() == labels).float().mean()
    if rank == 0:
        print(f"accuracy {right.item():.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
