"""The smallest distributed program: every node adds its rank, and all print the same sum.

It uses the variables that a PyTorchJob gives its pods (MASTER_ADDR, MASTER_PORT, RANK, WORLD_SIZE), without torchrun.
"""

import torch
import torch.distributed as dist

dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
rank, world = dist.get_rank(), dist.get_world_size()
device = "cuda" if torch.cuda.is_available() else "cpu"
total = torch.tensor([float(rank)], device=device)
dist.all_reduce(total)
print(f"rank {rank} of {world}: the sum of all ranks is {int(total.item())}", flush=True)
assert int(total.item()) == world * (world - 1) // 2
dist.destroy_process_group()
