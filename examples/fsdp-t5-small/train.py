"""Train a small T5-like model with FSDP: every node keeps a share of the weights, gradients and optimizer, none keeps all of them.

An encoder and a decoder, as in T5, learn to reverse a row of letters. The task needs no data and no download, and a model that has not
learnt to look from the decoder into the encoder cannot do it. It ends with an error below 95 % of letters right.

The only things it takes from its surroundings are the variables that torchrun or Astrago set for every process, and CHECKPOINT_DIR, where
sharded checkpoints are kept over restarts: each process writes its own share, and they are put together again for any number of nodes.
"""

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

EPOCHS = int(os.environ.get("EPOCHS", "3"))
STEPS = int(os.environ.get("STEPS", "60"))  # per epoch
BATCH_SIZE = int(os.environ.get("BATCH_SIZE", "64"))  # per process
LEARNING_RATE = float(os.environ.get("LEARNING_RATE", "0.003"))
TARGET_ACCURACY = float(os.environ.get("TARGET_ACCURACY", "0.95"))
CHECKPOINT_DIR = os.environ.get("CHECKPOINT_DIR")

LETTERS, LENGTH, WIDTH = 16, 8, 64
START = LETTERS  # what the decoder begins with


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    use_gpu = torch.cuda.is_available()
    dist.init_process_group("nccl" if use_gpu else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if use_gpu else torch.device("cpu")
    print(f"Rank {rank} of {world} on {os.uname().nodename} ({device})", flush=True)

    model = Model().to(device)
    mesh = init_device_mesh(device.type, (world,))
    # Each layer is gathered when it is needed and let go afterwards; so is the rest of the model.
    for layer in [*model.transformer.encoder.layers, *model.transformer.decoder.layers]:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    here = sum(weight.to_local().numel() for weight in model.parameters())
    print(f"Rank {rank}: keeps {here} of {sum(weight.numel() for weight in model.parameters())} weights", flush=True)

    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
    loss_of = nn.CrossEntropyLoss()
    first = load_checkpoint(model, optimizer, rank)
    random = torch.Generator().manual_seed(1000 * first + rank)
    for epoch in range(first, EPOCHS + 1):
        for batch in range(STEPS):
            letters, wanted = examples(BATCH_SIZE, random)
            loss = loss_of(model(letters.to(device), wanted.to(device)).flatten(0, 1), wanted.flatten().to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if batch % 20 == 0:
                print(f"Epoch {epoch}, Batch {batch}/{STEPS}, Loss: {loss.item():.4f}", flush=True)
        save_checkpoint(model, optimizer, epoch)

    letters, wanted = examples(256, torch.Generator().manual_seed(0))
    with torch.no_grad():
        guessed = model(letters.to(device), wanted.to(device)).argmax(2).cpu()
    accuracy = (guessed == wanted).float().mean().item()
    print(f"Rank {rank}: accuracy {accuracy:.4f} after {EPOCHS} epochs", flush=True)
    dist.destroy_process_group()
    if accuracy < TARGET_ACCURACY:
        sys.exit(f"accuracy {accuracy:.4f} is below the target of {TARGET_ACCURACY}")


class Model(nn.Module):
    """T5's shape in small: two layers of encoder, two of decoder."""

    def __init__(self):
        super().__init__()
        self.letters = nn.Embedding(LETTERS + 1, WIDTH)
        self.places = nn.Parameter(torch.randn(LENGTH, WIDTH) * 0.1)
        self.transformer = nn.Transformer(WIDTH, 4, 2, 2, dim_feedforward=128, dropout=0.0, batch_first=True)
        self.output = nn.Linear(WIDTH, LETTERS)

    def forward(self, source, target):
        """What the decoder says next at every place, when it has seen what stands before it."""
        before = torch.cat([torch.full_like(target[:, :1], START), target[:, :-1]], 1)
        mask = nn.Transformer.generate_square_subsequent_mask(LENGTH, device=source.device)
        seen = self.transformer(self.letters(source) + self.places, self.letters(before) + self.places, tgt_mask=mask)
        return self.output(seen)


def examples(count, random):
    letters = torch.randint(0, LETTERS, (count, LENGTH), generator=random)
    return letters, letters.flip(1)


def load_checkpoint(model, optimizer, rank):
    """Loads the newest whole checkpoint, and returns the epoch to begin with."""
    folder = Path(CHECKPOINT_DIR) if CHECKPOINT_DIR else None
    if folder is None or not (folder / "newest").exists():
        return 1
    epoch = int((folder / "newest").read_text())
    weights, steps = get_state_dict(model, optimizer)
    checkpoint.load({"model": weights, "optimizer": steps}, checkpoint_id=folder / f"epoch-{epoch}")
    set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=steps)
    print(f"Rank {rank}: resumed from checkpoint of epoch {epoch}", flush=True)
    return epoch + 1


def save_checkpoint(model, optimizer, epoch):
    """Every process writes its share; `newest` names a checkpoint only when all of them have."""
    if not CHECKPOINT_DIR:
        return
    folder = Path(CHECKPOINT_DIR)
    weights, steps = get_state_dict(model, optimizer)
    checkpoint.save({"model": weights, "optimizer": steps}, checkpoint_id=folder / f"epoch-{epoch}")
    dist.barrier()
    if dist.get_rank() == 0:
        draft = folder / "newest.tmp"
        draft.write_text(str(epoch))
        draft.replace(folder / "newest")
    dist.barrier()


if __name__ == "__main__":
    main()
