#!/usr/bin/env python3
"""Deletes every single collective and every wait from a fixture's program: partitioned, scheduled and planned, for
each strategy on two ranks, and for replicas of full sharding. Each deletion is refused or gives other results in the interpreter.

usage: mutate.py --build DIR --case test/models/gpt2
"""
import re

from runner import Case, Deviates, main, run, stage_files


def mutate(case, path, *flags):
    """(collectives, waits) that were deleted, each of them noticed."""
    said = run([case.bin / "shale-run", path, "--mutate", *flags], f"shale-run --mutate {path.name}").stdout
    counts = {what: [int(n) for n in re.findall(r"\d+", line)] for line in said.splitlines() for what in re.findall(r"^\d+ (collectives|waits) deleted", line)}
    none = [0] * 5
    collectives, waits = counts.get("collectives", none), counts.get("waits", none)
    if collectives[0] == 0 or collectives[0] != collectives[1] + collectives[2]:
        raise Deviates(f"{path.name}: {said.strip()}")  # a verifier's refusal would say that the deletion was clumsy
    return collectives[0], waits[0]


def check(a, work):
    case = Case(a.build, a.case)
    total = {"partitioned": 0, "scheduled": 0, "planned": 0, "waits": 0}
    replicas = "replica=3,fsdp=2" if case.most_ranks == 3 else "replica=2,fsdp=2"
    for shard, flags in [(shard, []) for shard in ("none", "optimizer", "grad", "full")] + [("hybrid", ["--mesh", replicas])]:
        files = stage_files(case, work / shard, "rt", shard, 2, flags, {"sequence": 8})
        count, _ = mutate(case, files["memory"], "--as=f64")
        total["partitioned"] += count
        scheduled = work / f"{shard}-scheduled.mlir"
        run([case.bin / "shale-opt", files["fusion"], "--shale-schedule", "-o", scheduled], "shale-opt")
        total["scheduled"] += mutate(case, scheduled, "--as=f64")[0]
        planned, waits = mutate(case, files["plan"], "--exact")
        if planned != count or waits != planned:
            raise Deviates(f"{shard}: {count} collectives partitioned, {planned} planned with {waits} waits")
        total["planned"] += planned
        total["waits"] += waits
    return ", ".join(f"{count} {what}" for what, count in total.items()) + " deleted one at a time, each missed"


if __name__ == "__main__":
    main(check, ("--case", {"required": True}), success="mutants:")
