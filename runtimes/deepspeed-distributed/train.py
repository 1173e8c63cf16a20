"""Train a small classifier of handwritten digits with DeepSpeed, whose ZeRO splits gradients and optimizer over all processes.

Astrago starts one process per slot with mpirun, which tells each its place. On CPU the processes speak gloo, on GPU nccl. The data set
(1,797 images of 8 x 8 pixels) comes with scikit-learn: nothing is downloaded. It reaches 95 % accuracy on images that it has not seen.
"""

import os
import socket
import sys

import torch
from mpi4py import MPI
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

if not torch.cuda.is_available():
    os.environ.setdefault("DS_ACCELERATOR", "cpu")

import deepspeed

# DeepSpeed would compile an extension for processes that share memory: a minute of every start, on every node without a GPU.
deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False

EPOCHS = int(os.environ.get("EPOCHS", "20"))
BATCH_SIZE = int(os.environ.get("BATCH_SIZE", "32"))  # per process
LEARNING_RATE = float(os.environ.get("LEARNING_RATE", "0.01"))
TARGET_ACCURACY = float(os.environ.get("TARGET_ACCURACY", "0.95"))


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    rank, world = meet()
    print(f"Rank {rank} of {world} on {os.uname().nodename}", flush=True)

    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
    engine, _, _, _ = deepspeed.initialize(
        model=model,
        optimizer=optimizer,
        config={
            "train_micro_batch_size_per_gpu": BATCH_SIZE,
            "zero_optimization": {"stage": 2, "reduce_scatter": False},
            "zero_allow_untested_optimizer": True,
        },
    )

    images, labels = load_digits(return_X_y=True)
    train_x, test_x, train_y, test_y = map(
        torch.tensor, train_test_split((images / 16.0).astype("float32"), labels, test_size=0.2, random_state=0)
    )
    steps = len(train_x) // (BATCH_SIZE * world)
    loss_of = nn.CrossEntropyLoss()
    for epoch in range(1, EPOCHS + 1):
        order = torch.randperm(len(train_x), generator=torch.Generator().manual_seed(epoch))[rank::world]
        for batch in range(steps):
            chosen = order[batch * BATCH_SIZE : (batch + 1) * BATCH_SIZE]
            loss = loss_of(engine(train_x[chosen].to(engine.device)), train_y[chosen].to(engine.device))
            engine.backward(loss)
            engine.step()
            if batch % 10 == 0:
                print(f"Epoch {epoch}, Batch {batch}/{steps}, Loss: {loss.item():.4f}", flush=True)

    with torch.no_grad():
        accuracy = (engine(test_x.to(engine.device)).argmax(1).cpu() == test_y).float().mean().item()
    print(f"Rank {rank}: accuracy {accuracy:.4f} after {EPOCHS} epochs", flush=True)
    if accuracy < TARGET_ACCURACY:
        sys.exit(f"accuracy {accuracy:.4f} is below the target of {TARGET_ACCURACY}")


def meet():
    """Joins all processes; rank 0 tells the others over MPI where it listens."""
    mpi = MPI.COMM_WORLD
    rank, world = mpi.Get_rank(), mpi.Get_size()
    with socket.create_server(("", 0)) as free:
        port = free.getsockname()[1]
    address, port = mpi.bcast((socket.gethostbyname(socket.gethostname()), port), root=0)
    local = mpi.Split_type(MPI.COMM_TYPE_SHARED).Get_rank()
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), LOCAL_RANK=str(local), MASTER_ADDR=address, MASTER_PORT=str(port))
    deepspeed.init_distributed(dist_backend="nccl" if torch.cuda.is_available() else "gloo", auto_mpi_discovery=False)
    return rank, world


if __name__ == "__main__":
    main()
