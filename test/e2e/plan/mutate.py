#!/usr/bin/env python3
"""Deletes each collective, each copy between memories and each wait of a fixture's program, one at a time. Each deletion must be found.

usage: e2e mutate --build DIR --case test/models/gpt2 [--all]

The programs are partitioned, scheduled and planned: each strategy on two ranks, replicas with full sharding, and everything recomputed and
offloaded. Of plain, which is the largest, without --all only full sharding, with replicas and without. After a deletion the interpreter must give other results or stop with an error; errors of verifiers do not count. Barriers,
offloads and reloads change no value, so there the verifier of the memory stage must find the deletion.
"""
import re
import sys

from deletions import mutate
from runner import MODELS, Case, Deviates, main, run, stage_files

MISSED = {"mem.barrier": "a mem.barrier is missing", "mem.offload": "memory; it must be in", "mem.reload": "memory; it must be in"}

def mutate_memory(case, path):
    """The number of deleted barriers, offloads and reloads."""
    script, total = MODELS.parent / "passes" / "memory" / "mutate.py", 0
    for op, message in MISSED.items():
        said = run([sys.executable, script, case.bin / "shale-opt", path, re.escape(op), message], f"deleting each {op} of {path.name}").stdout
        total += int(said.split()[0])
    return total


def check(a, work):
    case = Case(a.build, a.case)
    total = {"partitioned": 0, "scheduled": 0, "planned": 0, "copies": 0, "waits": 0, "barriers, offloads and reloads": 0}
    replicas = "replica=3,fsdp=2" if case.most_ranks == 3 else "replica=2,fsdp=2"
    offloaded = ["--recompute", "block", "--offload", "all"]
    runs = [("full", []), ("hybrid", ["--mesh", replicas])]
    if a.all or case.folder.name != "plain":
        runs += [(shard, []) for shard in ("none", "optimizer", "grad")] + [("full", offloaded), ("none", offloaded)]
    for number, (shard, flags) in enumerate(runs):
        files = stage_files(case, work / str(number), "rt", shard, 2, flags, {"sequence": 8})
        count, *_ = mutate(case, files["memory"], "--as=f64")
        total["partitioned"] += count
        scheduled = work / f"{number}-scheduled.mlir"
        run([case.bin / "shale-opt", files["fusion"], "--shale-stage-schedule", "-o", scheduled], "shale-opt")
        total["scheduled"] += mutate(case, scheduled, "--as=f64")[0]
        planned, copies, waits = mutate(case, files["plan"], "--exact")
        if planned != count or waits != planned + copies or (copies > 0) != (flags == offloaded):
            raise Deviates(f"{shard}: {count} collectives partitioned, {planned} and {copies} copies planned with {waits} waits")
        total["planned"] += planned
        total["copies"] += copies
        total["waits"] += waits
        if flags == offloaded:
            total["barriers, offloads and reloads"] += mutate_memory(case, files["memory"])
    return ", ".join(f"{count} {what}" for what, count in total.items()) + " deleted one at a time, each missed"


if __name__ == "__main__":
    main(check, ("--case", {"required": True}), ("--all", {"action": "store_true"}), success="mutants:")
