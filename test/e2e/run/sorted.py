#!/usr/bin/env python3
"""Trains a fixture on batches so large that a program for a GPU sorts the tokens for the gradient of the embedding, and compares it
with the CPU's program, which does not.

usage: e2e sorted --build DIR --case test/models/gpt2 [--squares]

Most tokens of the batches are one of two. The bars are those of follow.py, and a second run must have the same bits. With --squares the
kernel of the gradient must sum its squares, too, and without it must not: the gradient of a tied table has another term. All steps
clip the gradient.
"""
import numpy as np

from runner import (LOSS, NORM, WEIGHT, Case, Deviates, largest, main, metrics, read_program, read_safetensors, same_bits,
                    save_safetensors, weight_difference)

ROWS, STEPS = 64, 3


def draw(batches):
    """Returns batches with the names and types of `batches`, and ROWS rows each."""
    rng = np.random.default_rng(1)
    made = {}
    for name, value in batches.items():
        shape = (STEPS, ROWS, *value.shape[2:])
        tokens = np.where(rng.random(shape) < 0.7, rng.integers(0, 2, shape), rng.integers(0, value.max() + 1, shape))
        made[name] = tokens.astype(value.dtype)
    return made


def check(a, work):
    case = Case(a.build, a.case)
    sizes = {"batch": ROWS}
    case.shalec(work / "planned.mlir", flags=["--target=cuda:emulated", "--emit", "rt"], sizes=sizes)
    planned = read_program(case.bin, work / "planned.mlir")
    if not planned.ops("nn.argsort"):
        raise Deviates("the program for a GPU sorts nothing")
    sums = planned.ops("nn.sorted_embedding_grad")
    squared = [op for op in sums if len(op.results) == 2]
    if not sums or len(squared) != (len(sums) if a.squares else 0):
        raise Deviates(f"{len(squared)} of {len(sums)} gradients of embeddings have sums of squares")
    case.shalec(work / "cpu", sizes=sizes)
    case.shalec(work / "gpu", flags=["--target=cuda:emulated"], sizes=sizes)
    save_safetensors(work / "batches.safetensors", draw(read_safetensors(case.batches)))
    case.batches = work / "batches.safetensors"
    flags = ["--schedule", "constant"]
    case.train(work / "cpu", work / "on-cpu", STEPS, flags)
    flags += ["--cuda-libraries", case.bin.parent / "stubs"]
    case.train(work / "gpu", work / "on-gpu", STEPS, flags)
    case.train(work / "gpu", work / "again", STEPS, flags)
    same_bits(work / "on-gpu", work / "again", "two runs")
    lines = list(zip(metrics(work / "on-gpu"), metrics(work / "on-cpu")))
    if len(lines) != STEPS:
        raise Deviates(f"metrics.jsonl has {len(lines)} steps, not {STEPS}")
    least, clip = min(want["grad_norm"] for _, want in lines), case.trajectory["clip_grad_norm"]
    if not least > clip:
        raise Deviates(f"a gradient is not clipped to {clip}: its norm is {least}")
    loss = largest(abs(got["loss"] - want["loss"]) for got, want in lines)
    norm = largest(abs(got["grad_norm"] - want["grad_norm"]) / want["grad_norm"] for got, want in lines)
    got, want = (read_safetensors(work / out / "model.safetensors") for out in ("on-gpu", "on-cpu"))
    weights = largest(weight_difference(name, got[name], want[name]) for name in want)
    if not (loss <= LOSS and norm <= NORM and weights <= WEIGHT):
        raise Deviates(f"loss is off by {loss:.2e} (bar {LOSS}), gradient norm by {norm:.2e} (bar {NORM}), weights by {weights:.2e} (bar {WEIGHT})")
    return f"loss {loss:.1e}, norm {norm:.1e}, weights {weights:.1e}, twice the same bits"


if __name__ == "__main__":
    main(check, ("--case", {"required": True}), ("--squares", {"action": "store_true"}), success="sorted:")
