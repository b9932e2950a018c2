#!/usr/bin/env python3
"""Random combinations of everything that must not change a run: each follows PyTorch's trajectory, and those that differ
in data movement alone have the same bits.

usage: combine.py --build DIR [--count 60] [--seed 0]

A class is a fixture, a mesh, a strategy, units, micro-batches and the rest of what decides in which order numbers are added;
its members differ in what is computed again, what is moved away, how far ahead units are gathered, how many at once, and
whether they are dropped after forward: every member has the bits of the first. The classes and members follow from the seed
alone. A flag that the compiler does not know is an error, as everywhere.
"""
import random
from concurrent.futures import ThreadPoolExecutor

from runner import MODELS, Case, Deviates, main, read_safetensors, same_bits, save_safetensors

MEMBERS = 4
CASES = ("gpt2", "llama", "plain")
MESHES = {"gpt2": ("fsdp=1", "fsdp=2", "fsdp=4", "replica=2,fsdp=2"), "llama": ("fsdp=1", "fsdp=2", "fsdp=4", "replica=2,fsdp=2"),
          "plain": ("fsdp=1", "fsdp=2", "fsdp=3", "replica=3,fsdp=2")}
# Decide the class.
STRATEGIES = ("none", "optimizer", "grad", "full", "full")
UNITS = ("block", "block", "size:20000", "match:mlp|layers")
# Differ within a class; each is (flag, values).
MOVEMENT = (("--recompute", ("none", "block", "selective")),
            ("--prefetch", ("0", "1", "2", "3")),
            ("--max-gathers-in-flight", ("2", "3", "4")))
MOVEMENT_FULL = (("--reshard-after-forward", ("true", "false")),)


def draw_class(rng):
    name = rng.choice(CASES)
    mesh, strategy = rng.choice(MESHES[name]), rng.choice(STRATEGIES)
    flags = ["--mesh", mesh, "--unit", rng.choice(UNITS)]
    return {"case": name, "shard": strategy, "flags": flags, "accumulate": 1}


def draw_member(rng, kind):
    movement = MOVEMENT + (MOVEMENT_FULL if kind["shard"] == "full" else ())
    return [word for flag, values in movement for word in (flag, rng.choice(values))]


def draw(seed, count):
    """Classes with their members, `count` of these in all."""
    rng = random.Random(seed)
    classes = []
    while count > 0:
        kind = draw_class(rng)
        kind["members"] = [draw_member(rng, kind) for _ in range(min(MEMBERS, count))]
        count -= len(kind["members"])
        classes.append(kind)
    return classes


def follow_class(a, work, number, kind):
    """Runs all members; returns the largest differences from the trajectory, and a line for each that fails."""
    case = Case(a.build, MODELS / kind["case"])
    worst, failures = [0.0, 0.0, 0.0], []
    for index, member in enumerate(kind["members"]):
        what = f"{kind['case']} --shard {kind['shard']} {' '.join(kind['flags'] + member)}"
        out = work / f"{number}-{index}"
        try:
            case.shalec(out.with_suffix(".train"), kind["shard"], flags=kind["flags"] + member)
            case.train(out.with_suffix(".train"), out)
            found = [*case.check_metrics(out), case.check_weights(out)]
            if index:
                same_bits(work / f"{number}-0", out, "it and the first of its class")
        except Deviates as error:
            failures.append(f"{what}: {error}; the first of its class has {' '.join(kind['members'][0])}")
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
    return (f"{sum(len(kind['members']) for kind in classes)} combinations in {len(classes)} classes of equal bits; "
            f"loss {loss:.1e}, norm {norm:.1e}, weights {weights:.1e}")


if __name__ == "__main__":
    main(check, ("--count", {"type": int, "default": 8}), ("--seed", {"type": int, "default": 0}), success="combines:")
