#!/usr/bin/env python3
"""Adafactor's state has one number per row and column of a matrix, and is the same on every rank.

usage: factored.py --build DIR --case test/models/gpt2

- After one step the state in a checkpoint, sharded or full, equals the means of squares of PyTorch's f64 gradients
  (FOLDER/gradients.safetensors) within 3e-6, for every strategy, by parameter and range of elements.
- The running program has the planned state and sends the planned bytes.
- A run that is resumed from a full checkpoint has the bits of an uninterrupted run.
- A checkpoint of another optimizer and flags out of range are errors.
"""
import json
import re
import subprocess

import numpy as np

from runner import Case, Deviates, largest, main, metrics, read_safetensors, run, same_bits

EXACT = 3e-6
WAYS = [("none", 1, []), ("none", 2, []), ("optimizer", 2, []), ("grad", 2, []), ("full", 4, []), ("full", 2, ["--offload", "all"])]
ONCE = ["--schedule", "constant"]


def moments(gradients):
    """PyTorch's row_var and col_var, or variance, after one step."""
    made = {}
    for name, g in gradients.items():
        squares = g.astype(np.float64) ** 2
        made[name] = np.concatenate([squares.mean(1), squares.mean(0)]) if g.ndim == 2 else squares
        if g.ndim > 2:
            raise Deviates(f"{name} has {g.ndim} dimensions: the oracle is for two")
    return made


def stored(folder, role="variance"):
    """The state of a role in the shards of a checkpoint. The pieces of a parameter must cover its state exactly once."""
    manifest, state = json.loads((folder / "manifest.json").read_text())["body"], {}
    for piece in sorted((p for p in manifest["pieces"] if p["role"] == role), key=lambda p: p["begin"]):
        with open(folder / piece["file"], "rb") as file:
            file.seek(piece["offset"])
            values = np.frombuffer(file.read(4 * (piece["end"] - piece["begin"])), np.float32)
        before = state.setdefault(piece["parameter"], np.zeros(0, np.float32))
        if len(before) != piece["begin"]:
            raise Deviates(f"the state of {piece['parameter']} is stored up to {len(before)}, then from {piece['begin']}")
        state[piece["parameter"]] = np.concatenate([before, values])
    return state


def compare(what, found, exact):
    if set(found) != set(exact):
        raise Deviates(f"{what}: state of {sorted(set(found) ^ set(exact))} on one side only")
    worst = 0
    for name, value in exact.items():
        if found[name].shape != value.shape:
            raise Deviates(f"{what}: the state of {name} has shape {found[name].shape}, not {value.shape}")
        if name.endswith("k.bias"):
            continue  # zero except for rounding
        worst = largest([worst, np.linalg.norm(found[name] - value) / np.linalg.norm(value)])
    if not worst <= EXACT:
        raise Deviates(f"{what}: state is off by {worst:.1e}")
    return worst


def refused(what, command, code, message):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != code or message not in done.stderr:
        raise Deviates(f"{what} ends with {done.returncode}, not {code} and '{message}': {done.stderr[-500:]}")


def check_way(case, work, exact, shard, ranks, flags):
    what = f"{shard} on {ranks}" + "".join(f", {flag}" for flag in flags[1:])
    name = re.sub(r"\W+", "-", what)
    program, out, report = work / name, work / f"run-{name}", work / f"report-{name}.json"
    said = case.shalec(program, shard, ranks, ["--optimizer", "adafactor", *flags])
    one = [*ONCE, "--clip-grad-norm", 0]
    case.train(program, out, 1, [*one, "--checkpoint", "both", "--save-every", 1, "--report-buffers", report], what=what)
    folder = next((out / "checkpoints").glob("step-*"))
    worst = compare(f"{what}, shards", stored(folder), exact)
    full = {key.split("/", 1)[1]: value for key, value in read_safetensors(folder / "optimizer.safetensors").items()}
    compare(f"{what}, full", full, exact)
    held, elements = [], sum(value.size for value in exact.values())
    for rank in json.loads(report.read_text()):
        rows = [row for row in rank["when_update_begins"] if row["category"] == "optimizer" and "state" in row["space"]]
        held.append(sum(row["bytes"] - row["padding"] for row in rows))
    if set(held) != {4 * elements}:
        raise Deviates(f"{what}: ranks have {held} bytes of state, not all of {4 * elements}")
    planned = sum(int(size) for size in re.findall(r"^ +\d+ [a-z-]+ over \w+ +(\d+)$", said, re.M))
    counted = {line["comm_bytes"] for line in metrics(out)}
    if counted != {planned}:
        raise Deviates(f"{what} sent {counted} bytes per step; the plan says {planned}")
    return worst


def check(a, work):
    case = Case(a.build, a.case)
    case.hyper_flags = lambda: ["--lr", 1e-2]
    exact = moments(read_safetensors(case.folder / "gradients.safetensors"))
    worst = max(check_way(case, work, exact, *way) for way in WAYS)
    program = work / "full-on-4"
    case.train(program, work / "straight", 6, ONCE)
    case.train(program, work / "parts", 6, [*ONCE, "--stop-after", 3, "--checkpoint", "full"])
    case.train(program, work / "parts", 6, [*ONCE, "--resume", "must"])
    same_bits(work / "straight", work / "parts", "a run at once and one resumed from a full checkpoint")
    case.shalec(work / "adamw", "full", 4)
    case.train(work / "adamw", work / "other", 1, [*ONCE, "--save-every", 1])
    start = [program, "--data", case.batches, "--steps", 2]
    refused("a checkpoint of AdamW", [*start, "--out", work / "other", "--resume", "must"], 65, "was saved with another optimizer")
    refused("--beta2-decay 0.8", [*start, "--out", work / "no", "--beta2-decay", 0.8], 64, "--beta2-decay")
    refused("--clip-threshold 0.5", [*start, "--out", work / "no", "--clip-threshold", 0.5], 64, "takes a number from 1 to")
    return f"{len(WAYS)} ways, state within {worst:.1e} of PyTorch's in f64; the same bits after a full checkpoint"


if __name__ == "__main__":
    main(check, ("--case", {"required": True}))
