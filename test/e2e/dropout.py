#!/usr/bin/env python3
"""Dropout drops the same elements for every number of ranks, strategy and recomputation, and after resuming.

usage: dropout.py --build DIR

test/models/dropout drops embeddings, attention probabilities and residuals. Its programs on 1, 2 and 4 ranks follow the interpreter's
run of the unsharded step: loss within 2e-5, gradient norm within 1e-4 relative. Another seed gives other losses. Runs that are
recomputed, resumed or accumulated are compared with runs that are not. Evaluation drops nothing.
"""
import json

import numpy as np

from runner import LOSS, MODELS, NORM, Deviates, largest, main, metrics, run, same_bits, save_safetensors, series

STEPS = 6


def off(got, want):
    """The largest differences of the loss and (relative) of the gradient norm. Both runs must have the same number of steps."""
    return (largest(abs(a["loss"] - b["loss"]) for a, b in zip(got, want, strict=True)),
            largest(abs(a["grad_norm"] - b["grad_norm"]) / b["grad_norm"] for a, b in zip(got, want, strict=True)))


class Dropout:
    def __init__(self, build, work):
        self.bin, self.work, self.data = f"{build}/bin", work, work / "batches.safetensors"
        tokens = np.random.default_rng(0).integers(0, 64, (2 * STEPS, 4, 17))
        save_safetensors(self.data, {"ids": tokens[:, :, :-1], "labels": tokens[:, :, 1:]})

    def compile(self, name, *flags):
        run([f"{self.bin}/shalec", MODELS / "dropout/model.onnx", "-o", self.work / name, "--dim", "batch=4", *flags], "shalec")
        return self.work / name

    def train(self, program, name, *flags, steps=STEPS):
        out = self.work / name
        run([program, "--data", self.data, "--steps", steps, "--lr", "0.01", "--out", out, *flags], "the program")
        return out

    def interpret(self, *flags):
        step = self.compile("step.mlir", "--emit", "nn", *flags)
        text = run([f"{self.bin}/shale-run", step, "--steps", STEPS, "--batches", self.data, "--lr", "0.01", "--beta2", "0.999"], "shale-run").stdout
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def check(a, work):
    case = Dropout(a.build, work)
    want, worst = case.interpret(), (0, 0)
    outs = {}
    for shard, mesh in [("none", "fsdp=1"), ("full", "fsdp=2"), ("grad", "fsdp=2"), ("full", "fsdp=4"), ("none", "replica=2,fsdp=2")]:
        name = f"{shard}-{mesh}".replace(",", "-")
        outs[name] = case.train(case.compile(name, "--mesh", mesh, "--shard", shard), f"run-{name}")
        found = off(metrics(outs[name]), want)
        if not (found[0] <= LOSS and found[1] <= NORM):
            raise Deviates(f"{name}: loss is off by {found[0]:.1e}, gradient norm by {found[1]:.1e}")
        worst = tuple(max(pair) for pair in zip(worst, found))
    other = case.train(work / "none-fsdp=1", "other-seed", "--seed", "1", "--no-shuffle")
    if off(metrics(other), want)[0] < 1e-3:
        raise Deviates("another seed drops the same elements")

    same_bits(outs["full-fsdp=2"], case.train(case.compile("again", "--mesh", "fsdp=2", "--shard", "full", "--recompute", "block"), "run-again"),
              "a run and one that computes blocks again")
    case.train(work / "full-fsdp=2", "resumed", "--stop-after", STEPS // 2)
    resumed = case.train(work / "full-fsdp=2", "resumed")
    same_bits(outs["full-fsdp=2"], resumed, "a run and a resumed one")

    accumulate = ("--accumulate", "2")
    sums = case.interpret(*accumulate)
    for mesh in ("fsdp=1", "fsdp=2"):
        found = off(metrics(case.train(case.compile(f"sums-{mesh}", "--mesh", mesh, "--shard", "full", *accumulate), f"run-sums-{mesh}")), sums)
        if not (found[0] <= LOSS and found[1] <= NORM):
            raise Deviates(f"two micro-batches on {mesh}: loss is off by {found[0]:.1e}, gradient norm by {found[1]:.1e}")

    # With a learning rate of 0 nothing is learnt: losses of steps depend on the seed, the evaluation loss does not.
    still = [case.train(work / "none-fsdp=1", f"still-{seed}", "--lr", "0", "--seed", seed, "--eval-data", case.data, steps=1) for seed in (3, 4)]
    losses = [[line["eval_loss"] for line in metrics(out) if "eval_loss" in line] for out in still]
    if not losses[0] or losses[0] != losses[1] or series(still[0]) == series(still[1]):
        raise Deviates(f"evaluation draws random numbers, or a step does not: {losses}, {[series(out) for out in still]}")
    return f"5 programs within loss {worst[0]:.1e}, norm {worst[1]:.1e} of the interpreter; the same bits recomputed and resumed"


if __name__ == "__main__":
    main(check)
