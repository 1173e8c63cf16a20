"""Horovod with PyTorch: one model on every process, gradients averaged by its optimizer, hand-written digits.

    astrago run train.py --framework horovod --nodes 2 --cpu 1 --memory 2Gi
"""

import os
import socket

import horovod
import horovod.torch as hvd
import torch
from sklearn.datasets import load_digits
from torch import nn

EPOCHS = int(os.environ.get("EPOCHS", "20"))
BATCH = 32


def main():
    hvd.init()
    rank, size = hvd.rank(), hvd.size()
    torch.set_num_threads(1)
    # Every process begins with other numbers, so that only the broadcast can make them equal.
    torch.manual_seed(rank)
    print(f"rank {rank} of {size} on {socket.gethostname()}, Horovod {horovod.__version__}", flush=True)

    digits = load_digits()
    pixels = torch.tensor(digits.data / 16, dtype=torch.float32)
    labels = torch.tensor(digits.target)
    mine = torch.arange(rank, len(labels), size)

    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)

    # As many steps for everybody: whoever stopped early would leave the others waiting for its gradients.
    steps = len(labels) // size // BATCH
    for epoch in range(EPOCHS):
        order = mine[torch.randperm(len(mine))]
        total = 0.0
        for step in range(steps):
            batch = order[step * BATCH : (step + 1) * BATCH]
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(pixels[batch]), labels[batch])
            loss.backward()
            optimizer.step()
            total += loss.item()
        average = hvd.allreduce(torch.tensor(total / steps), name="loss").item()
        if rank == 0:
            print(f"epoch {epoch + 1}/{EPOCHS} loss {average:.4f}", flush=True)

    weights = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    apart = (hvd.allgather(weights.unsqueeze(0)) - weights).abs().max().item()
    right = (model(pixels).argmax(dim=1) == labels).float().mean().item()
    print(f"rank {rank}: accuracy {right:.3f}, weights apart by {apart:.6f}", flush=True)


if __name__ == "__main__":
    main()
