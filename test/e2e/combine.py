#!/usr/bin/env python3
"""Random combinations of everything that must not change a run: each follows PyTorch's trajectory, and those that differ
in data movement alone have the same bits.

usage: combine.py --build DIR [--count 60] [--seed 0]

A class is a fixture, a mesh, a strategy, units, buckets, micro-batches a step and how they are synchronised: what decides in
which order numbers are added. Its members differ in what is computed again, what is kept on the host, how far ahead units are
gathered, how many at once, and whether they are dropped after forward: every member has the bits of the first. With K micro-batches a
step the rows of each batch are cut into K. All follows from the seed alone.
"""
import random
from concurrent.futures import ThreadPoolExecutor

from runner import MODELS, Case, Deviates, main, read_safetensors, same_bits, save_safetensors

MEMBERS = 4
# Rows of a batch, and meshes by the data ranks that they have.
CASES = {"gpt2": 4, "llama": 4, "plain": 6}
MESHES = {1: ["fsdp=1"], 2: ["fsdp=2"], 3: ["fsdp=3"], 4: ["fsdp=4", "replica=2,fsdp=2"], 6: ["replica=3,fsdp=2"]}
STRATEGIES = ("none", "optimizer", "grad", "full", "full")
MICRO_BATCHES = (1, 1, 2)
# (flag, values) that decide the class, and those by which members differ; some are for one strategy alone.
CLASS = [("--unit", ("block", "block", "size:20000", "match:mlp|layers"), None),
         ("--bucket-size", ("0", "25MiB", "64KiB"), None)]
MEMBER = [("--recompute", ("none", "block", "selective"), None),
          ("--offload", ("none", "all", "optimizer", "params,grads", "activations:0.5", "grads,optimizer:0.5,activations"), None),
          ("--prefetch", ("0", "1", "2", "3"), None),
          ("--max-gathers-in-flight", ("2", "3", "4"), None),
          ("--reshard-after-forward", ("true", "false"), "full")]


def draw_flags(rng, table, shard):
    return [word for flag, values, only in table if only in (None, shard) for word in (flag, rng.choice(values))]


def draw_class(rng):
    name, shard = rng.choice(sorted(CASES)), rng.choice(STRATEGIES)
    pieces = rng.choice(MICRO_BATCHES)
    rows = CASES[name] // pieces
    mesh = rng.choice([mesh for ranks, meshes in sorted(MESHES.items()) if rows % ranks == 0 for mesh in meshes])
    flags = ["--mesh", mesh, *draw_flags(rng, CLASS, shard)]
    if pieces > 1:
        flags += ["--accumulate", str(pieces)]
        if shard in ("grad", "full"):
            flags += ["--sync-every-microbatch", rng.choice(("true", "false"))]
    return {"case": name, "shard": shard, "flags": flags, "pieces": pieces}


def draw(seed, count):
    """Classes with their members, `count` of these in all."""
    rng = random.Random(seed)
    classes = []
    while count > 0:
        kind = draw_class(rng)
        kind["members"] = [draw_flags(rng, MEMBER, kind["shard"]) for _ in range(min(MEMBERS, count))]
        count -= len(kind["members"])
        classes.append(kind)
    return classes


def cut(case, path, pieces):
    """Each batch of the case as `pieces` micro-batches; returns the sizes to compile for."""
    batches = read_safetensors(case.batches)
    rows = next(iter(batches.values())).shape[1]
    save_safetensors(path, {name: value.reshape(len(value) * pieces, rows // pieces, *value.shape[2:]) for name, value in batches.items()})
    case.batches = path


def follow_class(a, work, number, kind):
    """Runs all members; returns the largest differences from the trajectory, and a line for each that fails."""
    case = Case(a.build, MODELS / kind["case"])
    if kind["pieces"] > 1:
        cut(case, work / f"{number}.safetensors", kind["pieces"])
    worst, failures, first = [0.0, 0.0, 0.0], [], None
    for index, member in enumerate(kind["members"]):
        out = work / f"{number}-{index}"
        try:
            case.shalec(out.with_suffix(".train"), kind["shard"], flags=kind["flags"] + member)
            case.train(out.with_suffix(".train"), out)
            found = [*case.check_metrics(out), case.check_weights(out)]
            first = first or (out, member)
            same_bits(first[0], out, f"it and the one with {' '.join(first[1])}")
        except Deviates as error:
            failures.append(f"{kind['case']} --shard {kind['shard']} {' '.join(kind['flags'] + member)}: {error}")
            continue
        worst = [max(pair) for pair in zip(worst, found)]
    return worst, failures


def check(a, work):
    classes = draw(a.seed, a.count)
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda numbered: follow_class(a, work, *numbered), enumerate(classes)))
    failures = [line for _, lines in found for line in lines]
    if failures:
        raise Deviates(f"{len(failures)} of {a.count}\n  " + "\n  ".join(failures))
    loss, norm, weights = (max(column) for column in zip(*(worst for worst, _ in found)))
    return (f"{a.count} combinations in {len(classes)} classes of equal bits; loss {loss:.1e}, norm {norm:.1e}, weights {weights:.1e}")


if __name__ == "__main__":
    main(check, ("--count", {"type": int, "default": 8}), ("--seed", {"type": int, "default": 0}), success="combines:")
