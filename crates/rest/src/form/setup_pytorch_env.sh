# Sets PyTorch's variables from those that the training operator gives to every node.
# Source this file; it changes nothing but the environment.
export RANK="${PET_NODE_RANK:-0}"
export LOCAL_RANK="${PET_LOCAL_RANK:-0}"
export WORLD_SIZE="${PET_NNODES:-1}"
export MASTER_ADDR="${PET_MASTER_ADDR:-localhost}"
export MASTER_PORT="${PET_MASTER_PORT:-29500}"
