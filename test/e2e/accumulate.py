#!/usr/bin/env python3
"""Follows PyTorch's run of two micro-batches a step, for every strategy and both ways to synchronise, and holds the bytes
on the wire against design and the communicator's count.

usage: accumulate.py --build DIR --case test/models/gpt2

With P the padded bytes of all parameters (f32), N ranks and K micro-batches a rank sends a step: none 2P; optimizer and grad
P for the gathers and P for the reduction, grad K P for the reduction when it synchronises each micro-batch; full K times the
gathers, and K P or P for the reduction; each times (N-1)/N, and listed scalars. The accumulators are whole unless each
micro-batch is synchronised over their slices.
"""
import re

from bytes import planned_collectives
from runner import Case, Deviates, main, metrics, run

# strategy, flag, reductions of P in a step of K, whether accumulators are whole
WAYS = [("none", "", None, True), ("optimizer", "", 1, True), ("grad", "", 2, False),
        ("grad", "--sync-every-microbatch=false", 1, True), ("full", "", 2, False), ("full", "--sync-every-microbatch=false", 1, True)]
K = 2


def check_wire(way, ranks, whole, plan):
    strategy, _, reductions, _ = way
    share, scalars = whole * (ranks - 1) // ranks, 512 * ranks
    gathered, scattered, reduced = (plan.get(kind, (0, 0))[1] for kind in ("all-gather", "reduce-scatter", "all-reduce"))
    if strategy == "none":
        holds = gathered == scattered == 0 and 2 * share <= reduced <= 2 * share + scalars
    else:
        low, high = (K * share, 2 * K * share) if strategy == "full" else (share, share)
        holds = scattered == reductions * share and low <= gathered <= high and reduced <= scalars
    if not holds:
        raise Deviates(f"{way} on {ranks} ranks plans {plan}; parameters have {whole} bytes")


def follow(case, work, way, ranks):
    strategy, flag, _, accumulators_whole = way
    name = f"{strategy}-{ranks}-{len(flag)}"
    program, out = work / name, work / f"run-{name}"
    plan = planned_collectives(case.shalec(program, strategy, ranks, flag.split()))
    case.train(program, out)
    loss, norm = case.check_metrics(out)
    described = run([program, "--describe"], "--describe").stdout
    state = {}
    for size, category in re.findall(r"^ +state +\d+ +(\d+) +\d+ +(\w+) ", described, re.M):
        state[category] = state.get(category, 0) + int(size)
    whole = state["parameters"] * (ranks if strategy == "full" else 1)
    expected = (whole if accumulators_whole else whole // ranks) + 8  # and the sums of loss and count
    if state["gradients"] != expected:
        raise Deviates(f"{way} on {ranks} ranks has accumulators of {state['gradients']} bytes; {expected} expected")
    if ranks > 1:
        check_wire(way, ranks, whole, plan)
    total = sum(size for _, size in plan.values())
    counted = {line["comm_bytes"] for line in metrics(out)}
    if counted != {total}:
        raise Deviates(f"{way} on {ranks} ranks sent {counted} bytes a step; the plan says {total}")
    return loss, norm


def check(a, work):
    case = Case(a.build, a.case, "trajectory-accumulate.json")
    # On one rank nothing is sliced: one strategy stands for all.
    runs = [(WAYS[0], 1), (WAYS[4], 1)] + [(way, 2) for way in WAYS] + [(WAYS[4], 4)]
    found = [follow(case, work, way, ranks) for way, ranks in runs]
    return f"{len(runs)} programs, loss {max(l for l, _ in found):.1e}, norm {max(n for _, n in found):.1e}; bytes as designed and as counted"


if __name__ == "__main__":
    main(check, ("--case", {"required": True}))
