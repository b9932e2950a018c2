#!/usr/bin/env python3
"""Dropout drops the same elements for every number of ranks, strategy and recomputation, and after resuming.

usage: e2e dropout --build DIR

test/models/dropout drops embeddings, attention probabilities and residuals. Its programs on 1, 2 and 4 ranks follow the interpreter's
run of the unsharded step: loss within 2e-5, gradient norm within 1e-4 relative. Another seed gives other losses. Runs that are
recomputed, resumed or accumulated are compared with runs that are not. Evaluation drops nothing.
"""
from dropping import STEPS, Dropout, off
from runner import LOSS, NORM, Deviates, main, metrics, same_bits, series


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
