#!/usr/bin/env python3
"""Holds the plan's bytes against design and against the running program, for every strategy.

usage: bytes.py --build DIR --case test/models/gpt2

With P the padded bytes of all parameters (f32) and N ranks, a rank
- keeps, when the update begins, parameters + gradients + optimizer state of: none 4P, optimizer 2P + 2P/N,
  grad P + 3P/N, full 4P/N (docs/architecture.md);
- sends a step: none 2P, optimizer and grad 2P, full P for the reduction and at most 2P for the gathers, each times
  (N-1)/N, and listed scalars; which is what the communicator counts.
"""
import re

from runner import Case, Deviates, main, metrics, run


def planned_collectives(text):
    """{kind: (count, bytes)} of a step, as shalec prints them."""
    return {kind: (int(count), int(size)) for count, kind, size in
            re.findall(r"^ +(\d+) (all-gather|all-reduce|reduce-scatter) over \w+ +(\d+)$", text, re.M)}


def check_wire(strategy, ranks, whole, plan):
    share = whole * (ranks - 1) // ranks
    scalars = 256 * ranks
    gathered = plan.get("all-gather", (0, 0))[1]
    scattered = plan.get("reduce-scatter", (0, 0))[1]
    reduced = plan.get("all-reduce", (0, 0))[1]
    # An all-reduce rounds each slice up to an element a group.
    holds = {"none": gathered == scattered == 0 and 2 * share <= reduced <= 2 * share + scalars,
             "optimizer": gathered == scattered == share and reduced <= scalars,
             "grad": gathered == scattered == share and reduced <= scalars,
             "full": scattered == share and share <= gathered <= 2 * share and reduced <= scalars}[strategy]
    if not holds:
        raise Deviates(f"{strategy} on {ranks} ranks plans {plan}; parameters have {whole} bytes")


def check_rest(strategy, ranks, whole, table):
    got = {category: sum(size for name, size in rows) for category, rows in table.items()}
    want = {"none": (whole, whole, 2 * whole), "optimizer": (whole, whole, 2 * whole // ranks),
            "grad": (whole, whole // ranks, 2 * whole // ranks), "full": (whole // ranks, whole // ranks, 2 * whole // ranks)}[strategy]
    have = tuple(got.get(category, 0) for category in ("parameters", "gradients", "optimizer"))
    if have != want:
        raise Deviates(f"{strategy} on {ranks} ranks holds parameters, gradients, optimizer state of {have}; {want} expected")


def check(a, work):
    case = Case(a.build, a.case)
    for shard, ranks in [(s, n) for s in ("none", "optimizer", "grad", "full") for n in (2, 4)]:
        program, out = work / f"train-{shard}-{ranks}", work / f"run-{shard}-{ranks}"
        plan = planned_collectives(case.shalec(program, shard, ranks))
        described = run([program, "--describe"], "--describe").stdout
        table = {}
        for size, category, name in re.findall(r"^ +(?:state|arena) +\d+ +(\d+) +\d+ +(\w+) +(.*)$", described, re.M):
            table.setdefault(category, []).append((name, int(size)))
        at_rest = sum(int(size) for size in re.findall(r"^ +state +\d+ +(\d+) +\d+ +parameters ", described, re.M))
        whole = at_rest * (ranks if shard == "full" else 1)
        check_wire(shard, ranks, whole, plan)
        check_rest(shard, ranks, whole, table)
        case.train(program, out, steps=3)
        counted = {line["comm_bytes"] for line in metrics(out)}
        total = sum(size for _, size in plan.values())
        if counted != {total}:
            raise Deviates(f"{shard} on {ranks} ranks sent {counted} bytes a step; the plan says {total}")
    return "at rest and on the wire as designed, and as counted"


if __name__ == "__main__":
    main(check, ("--case", {"required": True}), success="bytes:")
