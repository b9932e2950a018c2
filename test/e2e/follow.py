#!/usr/bin/env python3
"""Compiles a fixture, trains it, and holds the run against PyTorch's.

usage: follow.py --build DIR --case test/models/gpt2 [--model model.onnx] [--trajectory trajectory.json]
                 [--shard none] [--ranks 1] [--flags "..."] [--weights] [--twice]

Bars (docs/architecture.md): loss within 2e-5, gradient norm within 1e-4 relative, final weights (--weights) within
2e-4 but for key biases, whose true gradient is zero; parameters that the trajectory froze keep their first bits.
--twice runs the program again and asks for identical bits. Exit 0 when all holds, 1 with one line that says what does not.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

LOSS, NORM, WEIGHT = 2e-5, 1e-4, 2e-4
TYPES = {"I64": np.int64, "I32": np.int32, "F32": np.float32, "F64": np.float64, "BOOL": np.bool_}


class Deviates(Exception):
    pass


def read_safetensors(path):
    data = pathlib.Path(path).read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    body = memoryview(data)[8 + size:]
    return {name: np.frombuffer(body[slice(*entry["data_offsets"])], TYPES[entry["dtype"]]).reshape(entry["shape"])
            for name, entry in header.items() if name != "__metadata__"}


def run(command, what):
    result = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if result.returncode:
        raise Deviates(f"{what} ended with {result.returncode}: {(result.stderr or result.stdout)[-600:]}")
    return result


def compile_flags(case, trajectory, batches, a):
    """What a user would type to compile this trajectory."""
    if case.name == "plain":
        flags = ["--dim", f"batch={batches['tokens'].shape[1]}", "--loss", "cross-entropy:scores,targets"]
    else:
        _, batch, sequence = batches["input_ids"].shape
        flags = ["--dim", f"batch={batch}", "--dim", f"sequence={sequence}"]
    optimizer = trajectory["optimizer"]
    flags += ["--optimizer", "sgd" if optimizer["name"] == "SGD" else "adamw"]
    if "two and more" in optimizer.get("weight_decay_applies_to", ""):
        flags += ["--no-decay", r"(\.ln_|bias$)"]
    if trajectory.get("frozen"):
        flags += ["--freeze", trajectory["frozen"]]
    mesh = [] if "--mesh" in a.flags else ["--mesh", f"fsdp={a.ranks}"]
    return flags + mesh + ["--shard", a.shard] + a.flags.split()


def run_flags(trajectory, batches, steps, out, ranks):
    optimizer = trajectory["optimizer"]
    flags = ["--data", str(batches), "--steps", str(steps), "--lr", str(optimizer["lr"]), "--weight-decay",
             str(optimizer["weight_decay"]), "--clip-grad-norm", str(trajectory["clip_grad_norm"] or 0), "--schedule",
             "constant", "--out", str(out), "--nproc", str(ranks)]
    if optimizer["name"] == "SGD":
        return flags + ["--momentum", str(optimizer["momentum"])]
    return flags + ["--beta1", str(optimizer["betas"][0]), "--beta2", str(optimizer["betas"][1]), "--eps", str(optimizer["eps"])]


def check_metrics(out, trajectory):
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    steps = trajectory["steps"]
    if [line["step"] for line in lines] != list(range(len(steps))):
        raise Deviates(f"metrics.jsonl has steps {[line['step'] for line in lines]}")
    loss = max(abs(got["loss"] - want["loss"]) for got, want in zip(lines, steps))
    norm = max(abs(got["grad_norm"] - want["grad_norm"]) / want["grad_norm"] for got, want in zip(lines, steps))
    if not loss <= LOSS or not norm <= NORM:
        raise Deviates(f"loss is off by {loss:.2e} (bar {LOSS}), gradient norm by {norm:.2e} (bar {NORM})")
    return loss, norm


def weight_difference(name, got, want):
    difference = np.abs(got.astype(np.float64) - want)
    if name.endswith("c_attn.bias"):  # query, key, value: the middle third is the key's
        third = len(difference) // 3
        difference = np.r_[difference[:third], difference[2 * third:]]
    return float(difference.max())


def strip(name):
    """Shale's name of a parameter: the exporting wrapper's prefix is gone."""
    return name[2:] if name.startswith("m.") else name


def check_weights(out, case):
    got = read_safetensors(out / "model.safetensors")
    want = {strip(name): value for name, value in read_safetensors(case / "final.safetensors").items()}
    worst = 0.0
    for name, value in want.items():
        if name.endswith("k.bias"):
            continue
        if name not in got:
            twins = [other for other in want if other != name and other in got and np.array_equal(value, want[other])]
            if twins:
                continue
            raise Deviates(f"model.safetensors has no {name}")
        if got[name].shape != value.shape:
            raise Deviates(f"{name} has shape {got[name].shape}, not {value.shape}")
        worst = max(worst, weight_difference(name, got[name], value))
    if not worst <= WEIGHT:
        raise Deviates(f"final weights are off by {worst:.2e} (bar {WEIGHT})")
    return worst


def check_frozen(out, initial, pattern):
    """Parameters that match the pattern end with the bits they began with."""
    import re
    got, first = read_safetensors(out / "model.safetensors"), read_safetensors(initial / "model.safetensors")
    frozen = [name for name in got if re.search(pattern, name)]
    if not frozen:
        raise Deviates(f"no parameter matches {pattern}")
    for name in got:
        same = np.array_equal(got[name].view(np.uint32), first[name].view(np.uint32))
        if same != (name in frozen):
            raise Deviates(f"{name} {'kept' if same else 'changed'} its bits")


def follow(a, work):
    case = pathlib.Path(a.case)
    trajectory = json.loads((case / a.trajectory).read_text())
    batches = case / trajectory.get("batches", "batches.safetensors")
    build = pathlib.Path(a.build)
    program = work / "train"
    run([str(build / "bin" / "shalec"), str(case / a.model), "-o", str(program),
         *compile_flags(case, trajectory, read_safetensors(batches), a)], "shalec")
    steps = len(trajectory["steps"])
    run([str(program), *run_flags(trajectory, batches, steps, work / "run", a.ranks)], "the program")
    loss, norm = check_metrics(work / "run", trajectory)
    said = f"loss {loss:.1e}, norm {norm:.1e}"
    if a.weights:
        said += f", weights {check_weights(work / 'run', case):.1e}"
    if trajectory.get("frozen"):
        run([str(program), *run_flags(trajectory, batches, 0, work / "start", a.ranks)], "the program")
        check_frozen(work / "run", work / "start", trajectory["frozen"])
    if a.twice:
        run([str(program), *run_flags(trajectory, batches, steps, work / "again", a.ranks)], "the program")
        for name in ("model.safetensors",):
            if (work / "run" / name).read_bytes() != (work / "again" / name).read_bytes():
                raise Deviates(f"{name} differs between two runs")
        first, second = ([[(line["loss"], line["grad_norm"]) for line in map(json.loads, (work / folder / "metrics.jsonl").open())]]
                         for folder in ("run", "again"))
        if first != second:
            raise Deviates("loss or grad_norm differ between two runs")
        said += ", twice the same bits"
    return said


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--build", required=True)
    p.add_argument("--case", required=True)
    p.add_argument("--model", default="model.onnx")
    p.add_argument("--trajectory", default="trajectory.json")
    p.add_argument("--shard", default="none")
    p.add_argument("--ranks", type=int, default=1)
    p.add_argument("--flags", default="")
    p.add_argument("--weights", action="store_true")
    p.add_argument("--twice", action="store_true")
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        try:
            print("follows:", follow(a, pathlib.Path(folder)))
            return 0
        except (Deviates, subprocess.TimeoutExpired) as error:
            print("deviates:", error)
            return 1


if __name__ == "__main__":
    sys.exit(main())
