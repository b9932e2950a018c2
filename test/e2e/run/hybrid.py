#!/usr/bin/env python3
"""Follows PyTorch's runs on two replicas of two shards, for every strategy, and compares the bytes that ranks send with the design.

usage: e2e hybrid --build DIR --case test/models/gpt2

P is the padded bytes of all parameters (f32), N the number of shards and r that of replicas. Per step a rank sends the bytes of a run
without replicas, and 2 (r-1)/r of its gradients for the reduction over replicas. Its gradients are P with none, P/N with the others.
"""
import re

from runner import Case, Deviates, main, metrics, run

MESH = ("--mesh", "replica=2,fsdp=2")
SCALARS = 4096


def check_wire(strategy, whole, plan):
    gathered, scattered, reduced = (plan.get(kind, (0, 0))[1] for kind in ("all-gather", "reduce-scatter", "all-reduce"))
    half, over_replicas = whole // 2, (whole if strategy == "none" else whole // 2)
    within = 2 * half if strategy == "none" else 0  # the all-reduce over shards
    gathers = {"none": (0, 0), "optimizer": (half, half), "grad": (half, half), "full": (half, 2 * half)}[strategy]
    holds = (gathers[0] <= gathered <= gathers[1] and scattered == (0 if strategy == "none" else half)
             and within + over_replicas <= reduced <= within + over_replicas + SCALARS)
    if not holds:
        raise Deviates(f"{strategy} plans {plan}; parameters have {whole} bytes")


def follow(a, work, strategy, trajectory, *flags):
    case = Case(a.build, a.case, trajectory)
    name = "-".join([strategy, trajectory, *flags]).replace("/", "-")
    program, out = work / "train", work / f"run-{name}"
    said = case.shalec(program, strategy, 4, [*MESH, *flags])
    plan = {}
    for kind, count, size in ((kind, int(c), int(s)) for c, kind, s in
                              re.findall(r"^ +(\d+) (all-gather|all-reduce|reduce-scatter) over \w+ +(\d+)\b", said, re.M)):
        before = plan.get(kind, (0, 0))
        plan[kind] = (before[0] + count, before[1] + size)
    case.train(program, out)
    found = case.check_metrics(out)
    counted, total = {line["comm_bytes"] for line in metrics(out)}, sum(size for _, size in plan.values())
    if counted != {total}:
        raise Deviates(f"{strategy} sent {counted} bytes per step; the plan says {total}")
    if not flags and trajectory == "trajectory.json":
        described = run([program, "--describe"], "--describe").stdout
        rest = sum(int(size) for size in re.findall(r"^ +state +\d+ +(\d+) +\d+ +parameters ", described, re.M))
        check_wire(strategy, rest * (2 if strategy == "full" else 1), plan)
    return found


def check(a, work):
    runs = [(strategy, "trajectory.json") for strategy in ("none", "optimizer", "grad", "full")]
    runs += [("hybrid", "trajectory-frozen.json", "--unit", "match:h\\.[0-9]+\\.mlp"), ("grad", "trajectory-frozen.json", "--unit", "size:20K"),
             ("full", "trajectory-accumulate.json", "--unit", "class:GPT2Block"),
             ("full", "trajectory-accumulate.json", "--sync-every-microbatch=false", "--bucket-size", "0")]
    found = [follow(a, work, *one) for one in runs]
    return f"{len(runs)} programs, loss {max(l for l, _ in found):.1e}, norm {max(n for _, n in found):.1e}; bytes as designed and as counted"


if __name__ == "__main__":
    main(check, ("--case", {"required": True}))
