#!/usr/bin/env python3
"""The scripts that send metrics.jsonl to Weights & Biases and MLflow, with stand-ins for the two modules that write down what they are told: each step
of a run on two ranks arrives once, with all numbers of its line. Steps that a resumed run repeats are left out, and a line that is none is an error.

usage: e2e trackers --build DIR
"""
import json
import math
import os
import pathlib
import subprocess
import sys

from runner import MODELS, ROOT, Deviates, main, metrics, run

WANDB = """
import json
class Run:
    def log(self, values, step):
        told.write(json.dumps([step, values]) + "\\n")
    def finish(self):
        told.close()
def init(project, id, name, resume):
    global told
    assert (project, id, name, resume) == ("words", "first", "first", "allow")
    told = open("told", "w")
    return Run()
"""
MLFLOW = """
import contextlib, json
def set_experiment(name):
    assert name == "words"
@contextlib.contextmanager
def start_run(run_name):
    global told
    assert run_name == "first"
    with open("told", "w") as told:
        yield
def log_metrics(values, step):
    assert all(type(value) is float for value in values.values()), values
    told.write(json.dumps([step, values]) + "\\n")
"""


def send(name, stand_in, lines, work):
    """Runs a script with a stand-in for its module. Returns its exit code, (step, values) of what it sent, and its errors."""
    folder = work / name
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.py").write_text(stand_in)
    done = subprocess.run([sys.executable, ROOT / f"docs/guide/to_{name}.py", "words", "first"], input="".join(line + "\n" for line in lines), text=True,
                          cwd=folder, env={**os.environ, "PYTHONPATH": str(folder)}, capture_output=True)
    return done.returncode, [json.loads(line) for line in (folder / "told").read_text().splitlines()], done.stderr


def wanted(line):
    """The step of a line, and its numbers by name."""
    values = {name: value for name, value in line.items() if name not in ("step", "rank_seconds")}
    return [line["step"], {**values, **{f"rank_seconds/{rank}": value for rank, value in enumerate(line["rank_seconds"])}}]


def check(a, work):
    build, case = pathlib.Path(a.build).resolve(), MODELS / "gpt2"
    run([build / "bin/shalec", case / "model.onnx", "-o", work / "train", "--dim", "batch=4", "--dim", "sequence=64", "--mesh", "fsdp=2"], "shalec")
    run([work / "train", "--data", case / "batches.safetensors", "--steps", "3", "--out", work / "run"], "the program")
    lines = metrics(work / "run")
    broken = {**lines[2], "step": 3, "loss": None, "skipped": True}
    texts = [json.dumps(line) for line in (lines[0], lines[1], lines[0], lines[1], lines[2], broken)]
    for name, stand_in in (("wandb", WANDB), ("mlflow", MLFLOW)):
        code, told, error = send(name, stand_in, texts, work)
        expected = [wanted(line) for line in (*lines, broken)]
        if name == "mlflow":  # it takes finite numbers only
            expected = [[step, {key: float(value) for key, value in values.items() if value is not None}] for step, values in expected]
        if code or told != expected:
            raise Deviates(f"to_{name}.py ends with {code} and sends {told}, not {expected}: {error}")
        if not all(math.isfinite(values["rank_seconds/1"]) for _, values in told):
            raise Deviates(f"to_{name}.py sends no time of rank 1")
        code, told, error = send(name, stand_in, [texts[0], '{"step": 1, "lo'], work)
        if code == 0 or len(told) > 1 or "JSONDecodeError" not in error:
            raise Deviates(f"to_{name}.py ends with {code} for half a line, and sends {told}: {error}")
    return "each step arrives once"


if __name__ == "__main__":
    main(check)
