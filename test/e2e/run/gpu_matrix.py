#!/usr/bin/env python3
"""Fixtures as programs for GPUs, with the stand-ins of NVIDIA's libraries: every strategy on every number of ranks, in five variants.

usage: e2e gpu_matrix --build DIR [--case gpt2] [--jobs 2] [--list]

Each program follows PyTorch's trajectory, as in follow.py: loss within 2e-5, gradient norm within 1e-4 relative, final weights within
2e-4. Of bf16 programs only the loss is compared, with a bar of 0.02. Variants: plain, block recomputation, offload of everything,
bf16 (attention is a call of cuDNN there), bf16 with block recomputation. Recomputation must not change bits. Ranks: 1, 2 and 4 (plain: 1, 2
and 3, since it has six rows per batch). `hybrid` is two replicas of two shards.

Prints one line per program, then the number of programs and the worst differences. --case runs one fixture; --list only prints the
combinations. Exits with 1 if a program deviates; the others run nevertheless.
"""
import pathlib
from concurrent.futures import ThreadPoolExecutor

from runner import MODELS, Case, Deviates, largest, main, same_bits

CASES = ("gpt2", "llama", "plain")
VARIANTS = {"plain": "", "recompute": "--recompute=block", "offload": "--offload=all", "bf16": "--param-dtype=bf16",
            "bf16-recompute": "--param-dtype=bf16 --recompute=block"}
SAME = {"recompute": "plain", "bf16-recompute": "bf16"}  # variants with the same bits
HALF_BAR = 0.02


def groups(name):
    """Strategies and numbers of ranks of a fixture, with the flags of the mesh."""
    most = 3 if name == "plain" else 4
    found = [("none", 1, "")] + [(shard, ranks, "") for shard in ("none", "optimizer", "grad", "full") for ranks in (2, most)]
    return found + ([("hybrid", 4, "--mesh=replica=2,fsdp=2")] if most == 4 else [])


def follow(case, shard, ranks, flags, stubs, work, half):
    """Returns the largest differences of loss, norm and weights; of a bf16 program only the loss."""
    work.mkdir(parents=True)
    case.shalec(work / "train", shard, ranks, ["--target=cuda:emulated", *flags.split()])
    case.train(work / "train", work / "run", flags=["--schedule", "constant", "--cuda-libraries", stubs])
    loss, norm = case.check_metrics(work / "run", HALF_BAR if half else None)
    return [loss] if half else [loss, norm, case.check_weights(work / "run")]


def follow_group(a, work, name, shard, ranks, mesh):
    """Runs all variants. Returns their differences by variant, and a line for each that deviates."""
    case, found, failures = Case(a.build, MODELS / name), {}, []
    for variant, flags in VARIANTS.items():
        what = f"{name} --shard {shard} on {ranks}, {variant}"
        folder = work / f"{name}-{shard}-{ranks}"
        try:
            found[variant] = follow(case, shard, ranks, f"{mesh} {flags}", pathlib.Path(a.build) / "stubs", folder / variant, variant.startswith("bf16"))
            if SAME.get(variant) in found:
                same_bits(folder / SAME[variant] / "run", folder / variant / "run", f"it and the program {SAME[variant]}")
            print(f"{what}: " + ", ".join(f"{kind} {value:.1e}" for kind, value in zip(("loss", "norm", "weights"), found[variant])), flush=True)
        except Deviates as error:
            failures.append(f"{what}: {error}")
            print(failures[-1], flush=True)
    return found, failures


def worst(results, half):
    """The largest differences over all results of one width."""
    rows = [row for found, _ in results for variant, row in found.items() if variant.startswith("bf16") == half]
    return [largest(column) for column in zip(*rows)]


def check(a, work):
    tasks = [(name, *group) for name in ([a.case] if a.case else CASES) for group in groups(name)]
    if a.list:
        for name, shard, ranks, _ in tasks:
            print(f"{name} --shard {shard} on {ranks}: {', '.join(VARIANTS)}")
        return f"{len(tasks) * len(VARIANTS)} programs"
    with ThreadPoolExecutor(a.jobs) as pool:
        results = list(pool.map(lambda task: follow_group(a, work, *task), tasks))
    failures = [line for _, lines in results for line in lines]
    if failures:
        raise Deviates(f"{len(failures)} of {len(tasks) * len(VARIANTS)} programs deviate\n  " + "\n  ".join(failures))
    loss, norm, weights = worst(results, half=False)
    return (f"{sum(len(found) for found, _ in results)} programs, loss {loss:.1e}, norm {norm:.1e}, weights {weights:.1e}; "
            f"bf16: loss {worst(results, half=True)[0]:.4f}")


if __name__ == "__main__":
    main(check, ("--case", {"choices": CASES}), ("--jobs", {"type": int, "default": 1}), ("--list", {"action": "store_true"}), success="follow:")
