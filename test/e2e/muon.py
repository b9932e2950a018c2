#!/usr/bin/env python3
"""Holds Muon's state, and that of AdamW beside it, against PyTorch's gradients.

usage: muon.py --build DIR --case test/models/gpt2

After one step without clipping the momentum of a hidden matrix is PyTorch's gradient times 1 - momentum, and AdamW's first moment of the rest
that times 1 - beta1: in the shards of a checkpoint and in the full one, with each strategy, on 1 to 4 ranks, with offload. A rank has its share of one number per
element of the matrices and two of the rest, by plan and by the running program, which sends what the plan says. A full checkpoint resumes
with the same bits, on other ranks it stays on the run. --optimizer-for moves a matrix to AdamW, whose state then has its size. Wrong flags are
refused.
"""
import json
import re

import numpy as np
from factored import ONCE, WAYS, compare, refused, stored
from runner import Case, Deviates, largest, main, metrics, read_safetensors, same_bits

OPTIMIZER = ["--optimizer", "muon"]
HYPERS = {"lr": 1e-2, "momentum": 0.9375, "beta1": 0.875, "beta2": 0.75}  # decays that f32 has


def is_hidden(name, value):
    return value.ndim == 2 and not re.search("wte|wpe", name)


def states(gradients, hidden):
    """By role, the state of each parameter after one step."""
    wanted = {"momentum": {}, "moment1": {}, "moment2": {}}
    for name, g in gradients.items():
        g = g.astype(np.float64).reshape(-1)
        if hidden(name, gradients[name]):
            wanted["momentum"][name] = (1 - HYPERS["momentum"]) * g
        else:
            wanted["moment1"][name] = (1 - HYPERS["beta1"]) * g
            wanted["moment2"][name] = (1 - HYPERS["beta2"]) * g * g
    return wanted


def check_way(case, work, gradients, hidden, shard, ranks, flags):
    what = f"{shard} on {ranks}" + "".join(f", {flag}" for flag in flags)
    name = re.sub(r"\W+", "-", what)
    program, out, report = work / name, work / f"run-{name}", work / f"report-{name}.json"
    said = case.shalec(program, shard, ranks, [*OPTIMIZER, *flags])
    case.train(program, out, 1, [*ONCE, "--clip-grad-norm", 0, "--checkpoint", "both", "--save-every", 1, "--report-buffers", report], what=what)
    folder = next((out / "checkpoints").glob("step-*"))
    wanted = states(gradients, hidden)
    deviations = [compare(f"{what}, shards, {role}", stored(folder, role), of) for role, of in wanted.items()]
    full = read_safetensors(folder / "optimizer.safetensors")
    for role, of in wanted.items():
        found = {key.split("/", 1)[1]: value.reshape(-1) for key, value in full.items() if key.startswith(role + "/")}
        deviations.append(compare(f"{what}, full, {role}", found, of))
    elements = sum(len(value) for of in wanted.values() for value in of.values())
    held = 0
    for rank in json.loads(report.read_text()):
        rows = [row for row in rank["when_update_begins"] if row["category"] == "optimizer" and "state" in row["space"]]
        held += sum(row["bytes"] - row["padding"] for row in rows)
    whole = 4 * elements * (ranks if shard == "none" else 1)
    if held != whole:
        raise Deviates(f"{what}: the ranks have {held} bytes of state, not {whole}")
    planned = sum(int(size) for size in re.findall(r"^ +\d+ [a-z-]+ over \w+ +(\d+)$", said, re.M))
    counted = {line["comm_bytes"] for line in metrics(out)}
    if counted != {planned}:
        raise Deviates(f"{what} sent {counted} bytes per step; the plan says {planned}")
    return largest(deviations)


def check(a, work):
    case = Case(a.build, a.case)
    case.hyper_flags = lambda: [word for flag, value in HYPERS.items() for word in (f"--{flag}", value)]
    gradients = read_safetensors(case.folder / "gradients.safetensors")
    ways = [(is_hidden, *way) for way in WAYS]
    ways.append((lambda name, value: is_hidden(name, value) and "c_attn" not in name, "full", 2, ["--optimizer-for", "c_attn=adamw"]))
    worst = largest(check_way(case, work, gradients, *way) for way in ways)
    program = work / "full-on-4"
    case.train(program, work / "straight", 6, ONCE)
    case.train(program, work / "parts", 6, [*ONCE, "--stop-after", 3, "--checkpoint", "full"])
    case.train(program, work / "parts", 6, [*ONCE, "--resume", "must"])
    same_bits(work / "straight", work / "parts", "a run at once and one resumed from a full checkpoint")
    case.shalec(work / "adamw", "full", 4)
    case.hyper_flags = lambda: ["--lr", 1e-2]
    case.train(work / "adamw", work / "other", 1, [*ONCE, "--save-every", 1])
    start = [program, "--data", case.batches, "--steps", 2]
    refused("a checkpoint of AdamW", [*start, "--out", work / "other", "--resume", "must"], 65, "was saved with another optimizer")
    refused("--nesterov 2", [*start, "--out", work / "no", "--nesterov", 2], 64, "--nesterov")
    refused("--adamw-lr -1", [*start, "--out", work / "no", "--adamw-lr", -1], 64, "--adamw-lr")
    return f"Muon's state is within {worst:.1e} of PyTorch's gradients"


if __name__ == "__main__":
    main(check, ("--case", {"required": True}))
