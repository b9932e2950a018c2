#!/usr/bin/env python3
"""Measures time and memory that shalec takes to plan Llama 3 70B on 256 ranks and Llama 3.1 405B on 1024, and the memory per rank
of known recipes.

usage: plans.py --build build [--record [PAGE]]

The models are those of test/models/scale.py, without weights. Fails if a figure exceeds its bar: 30 s and 1 GiB for one plan, 5 minutes
and 2 GiB for 24 plans. Fully sharded bf16 training with recomputed blocks must plan at least 30 % less device memory than
replicated f32 training.
"""
import pathlib
import re
import shlex
import subprocess
import sys

import record
from record import fail, timed

SCALE = pathlib.Path(__file__).resolve().parents[1] / "models" / "scale.py"
GIB = float(1 << 30)
ONE = ["--shard", "full", "--plan-only"]
TIMED = [  # model, mesh, sequence, flags, plans, seconds and GiB allowed
    ("llama-70b", "fsdp=256", 4096, ONE, 1, 30, 1),
    ("llama-70b", "fsdp=256", 8192, ONE, 1, 30, 1),
    ("llama-70b", "fsdp=256", 32768, ONE, 1, 30, 1),
    ("llama-405b", "fsdp=1024", 8192, ONE, 1, 30, 1),
    ("llama-405b", "tp=8", 8192, ["--plan-only"], 1, 30, 1),
    ("llama-405b", "fsdp=64,tp=8", 8192, ONE, 1, 30, 1),
    ("llama-70b", "fsdp=256", 4096, ["--compare", "shard=grad|full,recompute=none|block,offload=none|optimizer|all,param-dtype", "--plan-only"], 24, 300, 2),
]
RECIPES = [("gpt2-124m", 1024), ("llama-1b", 2048)]  # model, sequence
FLAGS = ["--dim", "batch=1/rank", "--mesh", "fsdp=4", "--compare", "shard=none|full,recompute=none|block,param-dtype=f32|bf16", "--plan-only"]
PLAIN, RECIPE = "--shard none --recompute none --param-dtype f32", "--shard full --recompute block --param-dtype bf16"


def table(output):
    """Device bytes by flags, from the rows of --compare."""
    return {flags: int(device) for device, flags in re.findall(r"^ *(\d+) +\d+ +\d+ +\S+ +\S+ +(--.*?) *$", output, re.M)}


def large(a, work):
    for name in dict.fromkeys(row[0] for row in TIMED):
        subprocess.run([sys.executable, SCALE, name, work / f"{name}.onnx"], check=True)
    for name, mesh, sequence, flags, plans, allowed, gib in TIMED:
        words = ["--dim", "batch=1/rank", "--dim", f"sequence={sequence}", "--mesh", mesh, *flags]
        output, seconds, cpu, memory = timed([f"{a.build}/bin/shalec", work / f"{name}.onnx", *words])
        command = shlex.join(["shalec", f"{name}.onnx", *words])
        found = len(table(output)) or output.count("\nverdict ")
        if found != plans:
            fail(f"{found} plans, not {plans}, of {command}:\n{output[-2000:]}")
        if seconds > allowed or memory > gib * GIB:
            fail(f"{seconds:.0f} s and {memory / GIB:.2f} GiB, where {allowed} s and {gib} GiB are allowed: {command}")
        print(f"{name}, {plans} plans: {seconds:.1f} s ({cpu:.1f} s of CPU), {memory / GIB:.2f} GiB", flush=True)
        yield command, [plans, f"{seconds:.1f} s ({cpu:.1f} s of CPU)", f"{memory / GIB:.2f} GiB", f"{allowed} s, {gib} GiB"]


def recipes(a, work):
    for name, sequence in RECIPES:
        model = work / f"{name}.onnx"
        subprocess.run([sys.executable, SCALE, name, model], check=True)
        words = ["--dim", f"sequence={sequence}", *FLAGS]
        plans = table(timed([f"{a.build}/bin/shalec", model, *words])[0])
        if PLAIN not in plans or RECIPE not in plans:
            fail(f"--compare printed no row with '{PLAIN}' or '{RECIPE}', but {sorted(plans)}")
        less = 1 - plans[RECIPE] / plans[PLAIN]
        if less < 0.3:
            fail(f"the recipe takes {100 * less:.0f} % less for {name}, where at least 30 % are required")
        print(f"{name}: {plans[PLAIN]} and {plans[RECIPE]} bytes, {100 * less:.0f} % less", flush=True)
        yield shlex.join(["shalec", model.name, *words]), [f"{name}, sequence {sequence}", plans[PLAIN], plans[RECIPE], f"{100 * less:.0f} %"]


if __name__ == "__main__":
    record.main({"plans": large, "recipes": recipes})
