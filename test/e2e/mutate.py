#!/usr/bin/env python3
"""Deletes every single collective, copy between the memories and wait from a fixture's program: partitioned, scheduled and
planned, for each strategy on two ranks, for replicas of full sharding, and with everything recomputed and offloaded. Each deletion
gives other results in the interpreter or is refused when it runs, verifiers apart. Of barriers, offloads and reloads, which
change no value, the verifier of the memory stage misses each.

usage: mutate.py --build DIR --case test/models/gpt2
"""
import re
import sys

from runner import MODELS, Case, Deviates, main, run, stage_files

MISSED = {"mem.barrier": "no barrier parts them", "mem.offload": "memory; it must be in", "mem.reload": "memory; it must be in"}

def mutate(case, path, *flags):
    """(collectives, copies, waits) that were deleted, each of them noticed."""
    said = run([case.bin / "shale-run", path, "--mutate", *flags], f"shale-run --mutate {path.name}").stdout
    counts = {what: [int(n) for n in re.findall(r"\d+", line)] for line in said.splitlines()
              for what in re.findall(r"^\d+ (collectives|copies|waits) deleted", line)}
    kinds = [counts.get(what, [0] * 5) for what in ("collectives", "copies", "waits")]
    # A verifier's refusal would say that the deletion was clumsy.
    if kinds[0][0] == 0 or any(deleted != others + refused for deleted, others, refused, *_ in kinds):
        raise Deviates(f"{path.name}: {said.strip()}")
    return [kind[0] for kind in kinds]


def mutate_memory(case, path):
    """Barriers, offloads and reloads that were deleted."""
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
    runs = [(shard, []) for shard in ("none", "optimizer", "grad", "full")] + [("hybrid", ["--mesh", replicas])]
    if case.folder.name != "plain":  # it is the largest: a minute more
        runs += [("full", offloaded), ("none", offloaded)]
    for number, (shard, flags) in enumerate(runs):
        files = stage_files(case, work / str(number), "rt", shard, 2, flags, {"sequence": 8})
        count, *_ = mutate(case, files["memory"], "--as=f64")
        total["partitioned"] += count
        scheduled = work / f"{number}-scheduled.mlir"
        run([case.bin / "shale-opt", files["fusion"], "--shale-schedule", "-o", scheduled], "shale-opt")
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
    main(check, ("--case", {"required": True}), success="mutants:")
