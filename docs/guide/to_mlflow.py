"""Sends lines of metrics.jsonl to MLflow: python3 to_mlflow.py EXPERIMENT RUN < run1/metrics.jsonl"""
import json
import sys

import mlflow

mlflow.set_experiment(sys.argv[1])
with mlflow.start_run(run_name=sys.argv[2]):
    last = -1
    for metrics in map(json.loads, sys.stdin):
        step, ranks = metrics.pop("step"), metrics.pop("rank_seconds", [])
        metrics.update({f"rank_seconds/{rank}": value for rank, value in enumerate(ranks)})
        if step > last:  # a resumed run writes the file again
            mlflow.log_metrics({name: float(value) for name, value in metrics.items() if value is not None}, step=step)
            last = step
