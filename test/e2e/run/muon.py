#!/usr/bin/env python3
"""Holds Muon's state, and that of AdamW beside it, against PyTorch's gradients.

usage: e2e muon --build DIR --case test/models/gpt2

After one step without clipping the momentum of a hidden matrix is PyTorch's gradient times 1 - momentum, and AdamW's first moment of the rest
that times 1 - beta1: in the shards of a checkpoint and in the full one, with each strategy, on 1 to 4 ranks, with offload. A rank has its share of one number per
element of the matrices and two of the rest, by plan and by the running program, which sends what the plan says. A full checkpoint resumes
with the same bits, on other ranks it stays on the run. --optimizer-for moves a matrix to AdamW, whose state then has its size. Wrong flags are
refused.
"""
import re

import numpy as np
from factored import compare
from optimizer_state import WAYS, check_resume, first_step, refused, stored, stored_whole
from runner import Case, Deviates, largest, main, read_safetensors

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
    what, folder, held = first_step(case, work, "muon", shard, ranks, flags)
    wanted, deviations = states(gradients, hidden), []
    for role, of in wanted.items():
        deviations.append(compare(f"{what}, shards, {role}", stored(folder, role), of))
        whole = {name: value.reshape(-1) for name, value in stored_whole(folder, role).items()}
        deviations.append(compare(f"{what}, full, {role}", whole, of))
    elements = sum(len(value) for of in wanted.values() for value in of.values())
    if sum(held) != 4 * elements * (ranks if shard == "none" else 1):
        raise Deviates(f"{what}: the ranks have {held} bytes of state, of {4 * elements}")
    return largest(deviations)


def check(a, work):
    case = Case(a.build, a.case)
    case.hyper_flags = lambda: [word for flag, value in HYPERS.items() for word in (f"--{flag}", value)]
    gradients = read_safetensors(case.folder / "gradients.safetensors")
    ways = [(is_hidden, *way) for way in WAYS]
    ways.append((lambda name, value: is_hidden(name, value) and "c_attn" not in name, "full", 2, ["--optimizer-for", "c_attn=adamw"]))
    worst = largest(check_way(case, work, gradients, *way) for way in ways)
    program = work / "full-on-4"
    check_resume(case, work, program)
    start = [program, "--data", case.batches, "--steps", 2]
    refused("--nesterov 2", [*start, "--out", work / "no", "--nesterov", 2], 64, "--nesterov")
    refused("--adamw-lr -1", [*start, "--out", work / "no", "--adamw-lr", -1], 64, "--adamw-lr")
    return f"Muon's state is within {worst:.1e} of PyTorch's gradients"


if __name__ == "__main__":
    main(check, ("--case", {"required": True}))
