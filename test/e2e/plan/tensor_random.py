#!/usr/bin/env python3
"""Random meshes with a tensor axis in the f64 interpreter: one rank's program must compute what the whole one computes.

usage: e2e tensor_random --build DIR [--count 40] [--seed 1]

A case is a model (GPT-2 with tied tables, Llama, a hand-written one, one with dropout), a mesh of up to four axes in any order, a
strategy, and at random a typed plan for some parameters, sequence parallelism, micro-batches, frozen parameters, recomputation and loss
chunks. The program before partition runs whole, and the one after recomputation is explicit runs on all ranks; the step's and the
evaluation's results must agree within 1e-12 (relative). Cases whose sizes do not divide are refused with exit code 64 and do not count.
"""
import collections
import random
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor

from runner import MODELS, Deviates, main

MODEL = {
    "gpt2": (["--dim", "sequence=8"], ["c_attn", "attn.c_proj", "c_fc", "mlp.c_proj", "wte", "wpe"], "wte|ln_"),
    "llama": (["--dim", "sequence=8"], ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "embed_tokens", "lm_head"], "embed|norm"),
    "plain": (["--loss", "next-token:scores"], ["[.]q[.]", "[.]k[.]", "[.]v[.]", "[.]o[.]", "up", "down"], "tok|n1"),
    "dropout": ([], [], "norm|bias"),
}
BAR = 1e-12


def draw(number):
    """The words of a case: model, flags."""
    draws = random.Random(number)
    name = draws.choice(["gpt2", "gpt2", "llama", "llama", "plain", "dropout"])
    flags, parameters, frozen = MODEL[name]
    axes = [f"tp={draws.choice([2, 2, 4])}"] + [f"{axis}=2" for axis in ("fsdp", "replica", "tq:tensor") if draws.random() < 0.4]
    draws.shuffle(axes)
    shard = draws.choice(["none", "optimizer", "grad", "full"]) if any("fsdp" in axis for axis in axes) else "none"
    words = [*flags, "--dim", f"batch={draws.choice([4, 6, 8, 12])}", "--mesh", ",".join(axes), "--shard", shard]
    words += ["--sequence-parallel", draws.choice(["auto", "auto", "false"])]
    typed = draws.sample(parameters, draws.randint(0, min(3, len(parameters))))
    if typed:
        words += ["--tensor", ",".join(f"{one}={draws.choice(['column', 'row', 'whole'])}" for one in typed)]
    for chance, extra in ((0.3, ["--accumulate", draws.choice(["2", "3"])]), (0.2, ["--sync-every-microbatch=false"]), (0.25, ["--freeze", frozen]),
                          (0.5, ["--recompute", draws.choice(["block", "selective", "block:0.5"])]), (0.4, ["--loss-chunk", "8"]),
                          (0.2, ["--reshard-after-forward=false"])):
        if draws.random() < chance:
            words += extra
    return name, words


def compare(a, work, number):
    name, words = draw(number)
    folder = work / str(number)
    done = subprocess.run([f"{a.build}/bin/shalec", MODELS / name / "model.onnx", *words, "--emit", "dist", "-o", "/dev/null", "--save-temps", folder],
                          capture_output=True, text=True, timeout=120)
    what = f"case {number}: {name} {' '.join(words)}"
    if done.returncode == 64:
        return "refused"
    if done.returncode:
        raise Deviates(f"{what}: shalec ended with {done.returncode}: {done.stderr[-300:]}")
    stages = {path.stem.split("-", 1)[1]: path for path in folder.glob("*.mlir")}
    ran = subprocess.run([f"{a.build}/bin/shale-run", "--as=f64", "--floor=0.01", stages["precision"], f"--compare={stages['memory']}"], capture_output=True, text=True, timeout=300)
    # Gradients of key biases are zero but for rounding, hence the floor.
    differences = [float(text) for text in re.findall(r"largest relative difference (\S+)", ran.stdout)]
    if not differences or not max(differences) <= BAR:
        raise Deviates(f"{what}: {(ran.stdout + ran.stderr)[-300:]}")
    return "equal"


def check(a, work):
    with ThreadPoolExecutor(2) as pool:
        found = collections.Counter(pool.map(lambda number: compare(a, work, a.seed * 100000 + number), range(a.count)))
    if found["equal"] * 2 < a.count:
        raise Deviates(f"{found['refused']} of {a.count} cases are refused")
    return f"{found['equal']} cases within {BAR}, {found['refused']} refused for their sizes"


if __name__ == "__main__":
    main(check, ("--count", {"type": int, "default": 40}), ("--seed", {"type": int, "default": 1}), success="equal:")
