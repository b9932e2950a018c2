"""Sends lines of metrics.jsonl to Weights & Biases: python3 to_wandb.py PROJECT RUN < run1/metrics.jsonl"""
import json
import sys

import wandb

run, last = wandb.init(project=sys.argv[1], id=sys.argv[2], name=sys.argv[2], resume="allow"), -1
for metrics in map(json.loads, sys.stdin):
    step, ranks = metrics.pop("step"), metrics.pop("rank_seconds", [])
    if step > last:  # a resumed run writes the file again
        run.log({**metrics, **{f"rank_seconds/{rank}": value for rank, value in enumerate(ranks)}}, step=step)
        last = step
run.finish()
