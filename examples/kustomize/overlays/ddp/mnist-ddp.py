"""Trains a small network on hand-written digits with DistributedDataParallel. Started by torchrun on every node."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


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
    dist.init_process_group("nccl" if gpu else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if gpu else torch.device("cpu")
    torch.manual_seed(0)
    pixels, labels = digits()
    dataset = TensorDataset(pixels, labels)
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=64, sampler=sampler)
    network = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)).to(device)
    model = DistributedDataParallel(network)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    loss_of = nn.CrossEntropyLoss()
    for epoch in range(int(os.environ.get("EPOCHS", "5"))):
        sampler.set_epoch(epoch)
        loss = None
        for batch, targets in loader:
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
