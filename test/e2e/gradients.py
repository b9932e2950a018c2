#!/usr/bin/env python3
"""The gradient of each parameter in the first step of a 16-bit float type beside PyTorch's, both against f64.

usage: gradients.py --build DIR --case test/models/gpt2 [--flags "--param-dtype bf16"] [--factor 1.25]

One step of SGD from nothing, without decay and clipping, leaves each gradient in its velocity, to the bit; the full checkpoint
has it by name. In f32 it is within 3e-6 of f64's (relative, which shows that it is that gradient); in bf16 the norm of what it
differs by is at most `factor` times that of PyTorch's own bf16 step (FOLDER/gradients.json, written by test/models/gradients.py).
"""
import json

import numpy as np

from runner import Case, Deviates, main, read_safetensors

EXACT = 3e-6
MESHES = [("none", 1), ("full", 2)]


def velocities(case, work, shard, ranks, flags):
    name = f"{shard}-{ranks}-{len(flags)}"
    case.shalec(work / name, shard, ranks, ["--optimizer", "sgd", *flags])
    case.train(work / name, work / f"run-{name}", 1, ["--schedule", "constant", "--weight-decay", 0, "--clip-grad-norm", 0, "--momentum", 0.9,
                                                      "--checkpoint", "full", "--save-every", 1])
    found = read_safetensors(next((work / f"run-{name}" / "checkpoints").glob("step-*/optimizer.safetensors")))
    return {name.split("/", 1)[1]: value.astype(np.float64) for name, value in found.items()}


def errors(found, exact, what):
    """The norm of what each gradient differs by."""
    if set(found) != set(exact):
        raise Deviates(f"{what}: gradients of {sorted(set(found) ^ set(exact))} on one side only")
    for name, value in exact.items():
        if found[name].shape != value.shape:
            raise Deviates(f"{what}: {name} has shape {found[name].shape}, not {value.shape}")
    return {name: float(np.linalg.norm(found[name] - value)) for name, value in exact.items()}


def check(a, work):
    case = Case(a.build, a.case)
    case.hyper_flags = lambda: ["--lr", 1e-3]
    recorded = json.loads((case.folder / "gradients.json").read_text())["gradients"]
    exact = {name: value.astype(np.float64) for name, value in read_safetensors(case.folder / "gradients.safetensors").items()}
    single = errors(velocities(case, work, "none", 1, []), exact, "f32")
    for name, error in single.items():
        if not error <= EXACT * recorded[name]["norm"]:
            raise Deviates(f"f32: {name} is off by {error / recorded[name]['norm']:.1e}")
    said = [f"f32 within {max(error / recorded[name]['norm'] for name, error in single.items()):.1e} of f64"]
    over = []
    for shard, ranks in MESHES:
        half = errors(velocities(case, work, shard, ranks, a.flags.split()), exact, f"{shard} on {ranks}")
        factors = {name: error / recorded[name]["bf16_error"] for name, error in half.items()}
        if a.table:
            print("\n".join(f"{shard} {ranks} {factor:5.2f} of {recorded[name]['bf16_error'] / recorded[name]['norm']:.4f} {name}" for name, factor in factors.items()))
        if min(half[name] / recorded[name]["norm"] for name in half) < 1e-4:
            raise Deviates(f"{shard} on {ranks}: a gradient is nearer to f64's than bf16 can be: was it compiled with {a.flags}?")
        worst = max(factors, key=factors.get)
        said.append(f"{shard} on {ranks}: error up to {factors[worst]:.2f} times PyTorch's ({worst}), {np.median(list(factors.values())):.2f} in the middle")
        over += [f"{shard} on {ranks}: {name} {factor:.2f}" for name, factor in factors.items() if not factor <= a.factor]
    if over:
        raise Deviates(f"errors above {a.factor} times PyTorch's: " + "; ".join(over))
    return "; ".join(said)


if __name__ == "__main__":
    main(check, ("--case", {"required": True}), ("--flags", {"default": "--param-dtype bf16"}), ("--factor", {"type": float, "default": 1.25}),
         ("--table", {"action": "store_true"}))
