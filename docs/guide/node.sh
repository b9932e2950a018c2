#!/bin/sh
# Starts the ranks of one node of several, where the cluster starts one command per node:
#   NODE_RANK=0 NODES=2 LOCAL_WORLD_SIZE=4 MASTER_ADDR=node0 node.sh ./train --data tokens.bin ..
# SIGTERM and SIGINT go to the ranks, which save. The exit code is that of the first rank that failed of itself, else 76 if a rank lost another one.
set -u
export LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT="${MASTER_PORT:-29500}" WORLD_SIZE=$((NODES * LOCAL_WORLD_SIZE))
ranks="" local=0
while [ "$local" -lt "$LOCAL_WORLD_SIZE" ]; do
  RANK=$((NODE_RANK * LOCAL_WORLD_SIZE + local)) LOCAL_RANK=$local "$@" &
  ranks="$ranks $!" local=$((local + 1))
done
# Signals interrupt `wait`, which is then repeated.
trap 'kill -TERM $ranks 2>/dev/null' TERM
trap 'kill -INT $ranks 2>/dev/null' INT
code=0
for rank in $ranks; do
  wait "$rank"
  status=$?
  while kill -0 "$rank" 2>/dev/null; do
    wait "$rank"
    status=$?
  done
  if [ "$status" -ne 0 ] && { [ "$code" -eq 0 ] || [ "$code" -eq 76 ]; }; then code=$status; fi
done
exit "$code"
