# Writes TF_CONFIG for this worker to /shared-env/tf_config.env, and exports it when sourced.
# The pod's host name is <job>-node-0-<index>; the number of workers is PET_NNODES or NUM_WORKERS.
workers="${PET_NNODES:-${NUM_WORKERS:-1}}"
index="${JOB_COMPLETION_INDEX:-${PET_NODE_RANK:-0}}"
host="${HOSTNAME:-$(hostname)}"
host="${host%%.*}"
prefix="${host%-*}"
job="${TRAINJOB_NAME:-${prefix%-node-0}}"
namespace="${POD_NAMESPACE:-$(cat /var/run/secrets/kubernetes.io/serviceaccount/namespace 2>/dev/null || true)}"
suffix="$job"
if [ -n "$namespace" ]; then suffix="$job.$namespace.svc.cluster.local"; fi
list=""
worker=0
while [ "$worker" -lt "$workers" ]; do
  list="$list${list:+,}\"$prefix-$worker.$suffix:2222\""
  worker=$((worker + 1))
done
export TF_CONFIG="{\"cluster\":{\"worker\":[$list]},\"task\":{\"type\":\"worker\",\"index\":$index}}"
if [ -d /shared-env ] && [ -w /shared-env ]; then
  printf "export TF_CONFIG='%s'\n" "$TF_CONFIG" > /shared-env/tf_config.env
fi
