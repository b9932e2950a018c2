#!/usr/bin/env python3
"""8-bit AdamW's state has a byte per element and moment, in blocks of 256 elements with a scale, split over the ranks.

usage: e2e blocks --build DIR --case test/models/gpt2

- After one step the state in a checkpoint, sharded or full, decodes to the moments of PyTorch's f64 gradients (FOLDER/gradients.safetensors)
  within the rounding of a code, for every strategy, by parameter and range of elements.
- The running program has the planned state, 2 + 8 / 256 bytes per element of full blocks, and sends the planned bytes.
- A run that is resumed from a full checkpoint has the bits of an uninterrupted run.
- A checkpoint of AdamW, a parameter that a tensor axis splits, and --optimizer-dtype are errors.
"""
import numpy as np

from optimizer_state import WAYS, check_resume, first_step, refused, stored, stored_whole
from runner import Case, Deviates, largest, main, read_safetensors

BETAS = {"moment1_8bit": 0.9, "moment2_8bit": 0.999}
HALF = 1 / 16 + 1e-5  # of a value: half of the step between two codes, and what gradients differ by


def words(count):
    return -(-count // 256) * 65


def decoded(state, count, top):
    """The values of the codes of a parameter."""
    blocks = state.view(np.uint8).reshape(-1, 65, 4)
    codes = blocks[:, :64].transpose(0, 2, 1).reshape(-1, 256).astype(int)
    scales = blocks[:, 64].reshape(-1).view(np.float32).astype(np.float64)
    sign, codes = np.where(codes > top, -1, 1), codes & top
    values = np.where(codes == 0, 0, np.exp2((codes - top) // 8) * (1 + (codes - top) % 8 / 8))
    return (sign * values * scales[:, None]).reshape(-1)[:count]


def compare(what, role, found, gradients):
    if set(found) != set(gradients):
        raise Deviates(f"{what}: state of {sorted(set(found) ^ set(gradients))} on one side only")
    (top, power), worst = (127, 1) if role == "moment1_8bit" else (255, 2), []
    for name, gradient in gradients.items():
        if name.endswith("k.bias"):
            continue  # zero except for rounding
        exact = (1 - BETAS[role]) * gradient.astype(np.float64).reshape(-1) ** power
        if found[name].size != words(exact.size):
            raise Deviates(f"{what}: the state of {name} has {found[name].size} words, not {words(exact.size)}")
        blocks = np.pad(np.abs(exact), (0, -exact.size % 256)).reshape(-1, 256)
        # The least code, and what is rounding of the gradients.
        floor = np.repeat(blocks.max(1), 256)[:exact.size] * 2.0**-15 + np.abs(exact).max() * 1e-6**power
        off = np.abs(decoded(found[name], exact.size, top) - exact) - floor
        off = off / (np.abs(exact) + 1e-30)
        worst.append(off.max())
    if not largest(worst) <= HALF * power:
        raise Deviates(f"{what}: {role} is off by {largest(worst):.3f}")
    return largest(worst)


def check_way(case, work, gradients, shard, ranks, flags):
    what, folder, held = first_step(case, work, "adamw8bit", shard, ranks, flags)
    worst = []
    for role in BETAS:
        worst.append(compare(f"{what}, shards", role, stored(folder, role, np.int32), gradients))
        compare(f"{what}, full", role, stored_whole(folder, role), gradients)
    total = sum(2 * 4 * words(value.size) for value in gradients.values())
    if (set(held) != {total} if shard == "none" else sum(held) != total):
        raise Deviates(f"{what}: ranks have {held} bytes of state, of {total}")
    return largest(worst)


def check(a, work):
    case = Case(a.build, a.case)
    case.hyper_flags = lambda: ["--lr", 1e-3]
    gradients = read_safetensors(case.folder / "gradients.safetensors")
    worst = largest([check_way(case, work, gradients, *way) for way in WAYS])
    check_resume(case, work, work / "full-on-4")
    compile_it = [f"{a.build}/bin/shalec", case.folder / "model.onnx", "--dim", "batch=4", "--dim", "sequence=64", "--optimizer", "adamw8bit", "--plan-only"]
    refused("a split parameter", [*compile_it, "--mesh", "tp=2"], 64, "or a mesh without tensor axes")
    refused("--optimizer-dtype bf16", [*compile_it, "--optimizer-dtype", "bf16"], 64, "leave out --optimizer-dtype")
    return f"{len(WAYS)} ways, codes within {worst:.4f} of PyTorch's moments; the same bits after a full checkpoint"


if __name__ == "__main__":
    main(check, ("--case", {"required": True}))
