#!/usr/bin/env python3
"""8-bit AdamW's state has a byte per element and moment, in blocks of 256 elements with a scale, split over the ranks.

usage: e2e blocks --build DIR --case test/models/gpt2

- After one step the state in a checkpoint, sharded or full, decodes to the moments of PyTorch's f64 gradients (FOLDER/gradients.safetensors)
  within the rounding of a code, for every strategy, by parameter and range of elements.
- The running program has the planned state, 2 + 8 / 256 bytes per element of full blocks, and sends the planned bytes.
- A run that is resumed from a full checkpoint has the bits of an uninterrupted run.
- The same holds for parameters that a tensor axis splits between blocks. Of a wider model, whose columns and fused matmuls are split, too,
  the state after a step is that of a program without a tensor axis, which resumes it.
- A checkpoint of AdamW, a part that would end inside of a block, and --optimizer-dtype are errors.
"""
import numpy as np

from gpt import write_model
from optimizer_state import ONCE, WAYS, check_resume, first_step, refused, stored, stored_whole
from runner import Case, Deviates, largest, main, metrics, read_safetensors, run

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
        worst.append(compare(f"{what}, full", role, stored_whole(folder, role), gradients))
        if "--mesh" not in flags: # else shards have parts of several rows
            compare(f"{what}, shards", role, stored(folder, role, np.int32), gradients)
    total = sum(2 * 4 * words(value.size) for value in gradients.values())
    if "--mesh" in flags:
        return largest(worst)
    if (set(held) != {total} if shard == "none" else sum(held) != total):
        raise Deviates(f"{what}: ranks have {held} bytes of state, of {total}")
    return largest(worst)


def check_wide(a, work):
    """Programs of a model whose blocks a tensor axis splits along each dimension, and whose vocabulary it pads."""
    write_model(work / "wide", layers=1, width=512, vocabulary=513, length=16)
    states, losses = {}, {}
    for name, shard, mesh in (("one", "full", "fsdp=2"), ("two", "full", "fsdp=2,tp=2"), ("none", "none", "tp=2")):
        said = run([f"{a.build}/bin/shalec", work / "wide/model.onnx", "--loss", "next-token:logits", "--optimizer", "adamw8bit", "--shard", shard, "--mesh", mesh,
                    "--dim", "batch=4", "-o", work / name], "shalec")
        if "adamw8bit has one scale" in said.stdout + said.stderr:
            raise Deviates(f"{mesh} leaves something whole: {said.stderr}")
        train = [work / name, "--data", work / "wide/data.bin", *ONCE, "--lr", 1e-3, "--save-every", 1]
        run([*train, "--steps", 2, "--checkpoint", "full", "--out", work / f"wide-{name}"], name)
        folder = next((work / f"wide-{name}/checkpoints").glob("step-*1"))
        states[name] = {role: stored_whole(folder, role) for role in BETAS}
        losses[name] = [line["loss"] for line in metrics(work / f"wide-{name}")]
        run([work / "one", *train[1:], "--steps", 3, "--resume", "must", "--out", work / f"wide-{name}"], f"{name}, resumed")
        losses[name].append(metrics(work / f"wide-{name}")[-1]["loss"])
    for name in ("two", "none"):
        off = largest(abs(x - y) for x, y in zip(losses[name], losses["one"], strict=True))
        for role, state in states[name].items():
            for parameter, value in states["one"][role].items():
                count, top = value.size // 65 * 256, 127 if role == "moment1_8bit" else 255
                want, got = (decoded(each, count, top) for each in (value, state[parameter]))
                if not largest(np.abs(want - got) - HALF * np.abs(want) * 2 - np.abs(want).max() * 1e-3) <= 0:
                    raise Deviates(f"{name}: {role} of {parameter} differs")
        if not off <= 2e-5:
            raise Deviates(f"{name}: losses {losses[name]}, without a tensor axis {losses['one']}")
    return "the state of split columns is that of whole ones"


def check(a, work):
    case = Case(a.build, a.case)
    case.hyper_flags = lambda: ["--lr", 1e-3]
    gradients = read_safetensors(case.folder / "gradients.safetensors")
    split = ["--tensor", "wte=column,c_proj=row"]
    ways = [*WAYS, ("none", 2, ["--mesh", "tp=2", *split]), ("full", 4, ["--mesh", "fsdp=2,tp=2", *split])]
    worst = largest([check_way(case, work, gradients, *way) for way in ways])
    wide = check_wide(a, work)
    check_resume(case, work, work / "full-on-4")
    compile_it = [f"{a.build}/bin/shalec", case.folder / "model.onnx", "--dim", "batch=4", "--dim", "sequence=64", "--optimizer", "adamw8bit", "--plan-only"]
    refused("a block that is cut", [*compile_it, "--mesh", "tp=2", "--tensor", "c_fc=column"], 64, "and parts would be cut after 128")
    refused("--optimizer-dtype bf16", [*compile_it, "--optimizer-dtype", "bf16"], 64, "leave out --optimizer-dtype")
    return f"{len(ways)} ways, codes within {worst:.4f} of PyTorch's moments; the same bits after a full checkpoint; {wide}"


if __name__ == "__main__":
    main(check, ("--case", {"required": True}))
