#!/usr/bin/env python3
"""8-bit AdamW's state has a byte per element and moment, in blocks of 256 elements with a scale, split over the ranks.

usage: blocks.py --build DIR --case test/models/gpt2

- After one step the state in a checkpoint, sharded or full, decodes to the moments of PyTorch's f64 gradients (FOLDER/gradients.safetensors)
  within the rounding of a code, for every strategy, by parameter and range of elements.
- The running program has the planned state, 2 + 8 / 256 bytes per element of full blocks, and sends the planned bytes.
- A run that is resumed from a full checkpoint has the bits of an uninterrupted run.
- A checkpoint of AdamW, a parameter that a tensor axis splits, and --optimizer-dtype are errors.
"""
import json
import re

import numpy as np

from factored import ONCE, refused
from runner import Case, Deviates, largest, main, metrics, read_safetensors, same_bits

WAYS = [("none", 1, []), ("none", 2, []), ("optimizer", 2, []), ("grad", 2, []), ("full", 4, []), ("full", 2, ["--offload", "all"])]
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


def stored(folder, role):
    """The state in the shards of a checkpoint. The pieces of a parameter must cover its state exactly once."""
    manifest, state = json.loads((folder / "manifest.json").read_text())["body"], {}
    for piece in sorted((p for p in manifest["pieces"] if p["role"] == role), key=lambda p: p["begin"]):
        with open(folder / piece["file"], "rb") as file:
            file.seek(piece["offset"])
            part = np.frombuffer(file.read(4 * (piece["end"] - piece["begin"])), np.int32)
        before = state.setdefault(piece["parameter"], np.zeros(0, np.int32))
        if len(before) != piece["begin"]:
            raise Deviates(f"the state of {piece['parameter']} is stored up to {len(before)}, then from {piece['begin']}")
        state[piece["parameter"]] = np.concatenate([before, part])
    return state


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
    what = f"{shard} on {ranks}" + "".join(f", {flag}" for flag in flags[1:])
    name = re.sub(r"\W+", "-", what)
    program, out, report = work / name, work / f"run-{name}", work / f"report-{name}.json"
    said = case.shalec(program, shard, ranks, ["--optimizer", "adamw8bit", *flags])
    case.train(program, out, 1, [*ONCE, "--clip-grad-norm", 0, "--checkpoint", "both", "--save-every", 1, "--report-buffers", report], what=what)
    folder, worst = next((out / "checkpoints").glob("step-*")), []
    full = read_safetensors(folder / "optimizer.safetensors")
    for role in BETAS:
        worst.append(compare(f"{what}, shards", role, stored(folder, role), gradients))
        whole = {key.split("/", 1)[1]: value for key, value in full.items() if key.split("/", 1)[0] == role}
        compare(f"{what}, full", role, whole, gradients)
    held, total = [], sum(2 * 4 * words(value.size) for value in gradients.values())
    for rank in json.loads(report.read_text()):
        rows = [row for row in rank["when_update_begins"] if row["category"] == "optimizer" and "state" in row["space"]]
        held.append(sum(row["bytes"] - row["padding"] for row in rows))
    if (set(held) != {total} if shard == "none" else sum(held) != total):
        raise Deviates(f"{what}: ranks have {held} bytes of state, of {total}")
    planned = sum(int(size) for size in re.findall(r"^ +\d+ [a-z-]+ over \w+ +(\d+)$", said, re.M))
    counted = {line["comm_bytes"] for line in metrics(out)}
    if counted != {planned}:
        raise Deviates(f"{what} sent {counted} bytes per step; the plan says {planned}")
    return largest(worst)


def check(a, work):
    case = Case(a.build, a.case)
    case.hyper_flags = lambda: ["--lr", 1e-3]
    gradients = read_safetensors(case.folder / "gradients.safetensors")
    worst = largest([check_way(case, work, gradients, *way) for way in WAYS])
    program = work / "full-on-4"
    case.train(program, work / "straight", 6, ONCE)
    case.train(program, work / "parts", 6, [*ONCE, "--stop-after", 3, "--checkpoint", "full"])
    case.train(program, work / "parts", 6, [*ONCE, "--resume", "must"])
    same_bits(work / "straight", work / "parts", "a run at once and one resumed from a full checkpoint")
    case.shalec(work / "adamw", "full", 4)
    case.train(work / "adamw", work / "float", 1, [*ONCE, "--save-every", 1])
    refused("a checkpoint of AdamW", [program, "--data", case.batches, "--steps", 2, *ONCE, "--out", work / "float", "--resume", "must"], 65,
            "was saved with another optimizer")
    compile_it = [f"{a.build}/bin/shalec", case.folder / "model.onnx", "--dim", "batch=4", "--dim", "sequence=64", "--optimizer", "adamw8bit", "--plan-only"]
    refused("a split parameter", [*compile_it, "--mesh", "tp=2"], 64, "or a mesh without tensor axes")
    refused("--optimizer-dtype bf16", [*compile_it, "--optimizer-dtype", "bf16"], 64, "leave out --optimizer-dtype")
    return f"{len(WAYS)} ways, codes within {worst:.4f} of PyTorch's moments; the same bits after a full checkpoint"


if __name__ == "__main__":
    main(check, ("--case", {"required": True}))
