#!/usr/bin/env python3
"""Adafactor's state has one number per row and column of a matrix, and is the same on every rank.

usage: e2e factored --build DIR --case test/models/gpt2

- After one step the state in a checkpoint, sharded or full, equals the means of squares of PyTorch's f64 gradients
  (FOLDER/gradients.safetensors) within 3e-6, for every strategy and with tensor axes, by parameter and range of elements.
- The running program has the planned state and sends the planned bytes.
- A run that is resumed from a full checkpoint has the bits of an uninterrupted run.
- A checkpoint of another optimizer and flags out of range are errors.
"""
import numpy as np

from optimizer_state import WAYS, check_resume, first_step, refused, stored, stored_whole
from runner import Case, Deviates, largest, main, read_safetensors

EXACT = 3e-6


def moments(gradients):
    """PyTorch's row_var and col_var, or variance, after one step."""
    made = {}
    for name, g in gradients.items():
        squares = g.astype(np.float64) ** 2
        made[name] = np.concatenate([squares.mean(1), squares.mean(0)]) if g.ndim == 2 else squares
        if g.ndim > 2:
            raise Deviates(f"{name} has {g.ndim} dimensions: the oracle is for two")
    return made


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


def check_way(case, work, exact, shard, ranks, flags):
    what, folder, held = first_step(case, work, "adafactor", shard, ranks, flags)
    worst = compare(f"{what}, shards", stored(folder, "variance"), exact)
    compare(f"{what}, full", stored_whole(folder, "variance"), exact)
    elements = sum(value.size for value in exact.values())
    if set(held) != {4 * elements}:
        raise Deviates(f"{what}: ranks have {held} bytes of state, not all of {4 * elements}")
    return worst


def check(a, work):
    case = Case(a.build, a.case)
    case.hyper_flags = lambda: ["--lr", 1e-2]
    exact = moments(read_safetensors(case.folder / "gradients.safetensors"))
    # The plan that is found, which splits the MLP, and one with the table and all matrices but the fused one.
    every = "wte|c_fc=column,c_proj=row"
    ways = [*WAYS, ("none", 2, ["--mesh", "tp=2"]), ("full", 4, ["--mesh", "fsdp=2,tp=2", "--tensor", every]), ("optimizer", 4, ["--mesh", "fsdp=2,tp=2", "--offload", "all"])]
    worst = largest(check_way(case, work, exact, *way) for way in ways)
    program = work / "full-on-4"
    check_resume(case, work, program)
    start = [program, "--data", case.batches, "--steps", 2]
    refused("--beta2-decay 0.8", [*start, "--out", work / "no", "--beta2-decay", 0.8], 64, "--beta2-decay")
    refused("--clip-threshold 0.5", [*start, "--out", work / "no", "--clip-threshold", 0.5], 64, "takes a number from 1 to")
    return f"{len(ways)} ways, state within {worst:.1e} of PyTorch's in f64; the same bits after a full checkpoint"


if __name__ == "__main__":
    main(check, ("--case", {"required": True}))
