#!/usr/bin/env python3
"""Random meshes with a tensor axis, or one of experts, in the f64 interpreter: one rank's program must compute what the whole one computes.

usage: e2e tensor_random --build DIR [--count 40] [--seed 1]

A case is a model (GPT-2 with tied tables, Llama, a hand-written one, one with dropout, two with experts), a mesh of up to four axes in any order, a
strategy, and at random a typed plan for some parameters, sequence parallelism, micro-batches, frozen parameters, recomputation and loss
chunks. The program before partition runs whole, and the one after recomputation is explicit runs on all ranks; the step's and the
evaluation's results must agree within 1e-12 (relative). Cases whose sizes do not divide are refused with exit code 64 and do not count.
At least one of 20 cases must have each of the kinds below: positions that are split in each example, two tensor axes, and both; and an axis of experts.
"""
import collections
import random
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor

from runner import MODELS, Deviates, main, run

MODEL = {
    "gpt2": (["--dim", "sequence=8"], ["c_attn", "attn.c_proj", "c_fc", "mlp.c_proj", "wte", "wpe"], "wte|ln_"),
    "llama": (["--dim", "sequence=8"], ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "embed_tokens", "lm_head"], "embed|norm"),
    "plain": (["--loss", "next-token:scores"], ["[.]q[.]", "[.]k[.]", "[.]v[.]", "[.]o[.]", "up", "down"], "tok|n1"),
    "dropout": ([], [], "norm|bias"),
    "experts/cases/grouped": ([], ["up", "down", "gate", "qkv", "head"], "norm|gate"),
    "experts/cases/gated": ([], ["up", "down", "gate", "qkv", "head"], "norm|bias"),
}
BAR = 1e-12
KINDS = ("split each of several blocks of rows", "have two tensor axes", "send over two tensor axes at once", "split blocks over two tensor axes", "split experts")
LEAST = 20  # one of so many cases has each of these kinds


def draw(number):
    """The words of a case: model, flags."""
    draws = random.Random(number)
    name = draws.choice(["gpt2", "gpt2", "llama", "llama", "plain", "dropout", "experts/cases/grouped", "experts/cases/gated"])
    flags, parameters, frozen = MODEL[name]
    has_experts = name.startswith("experts") and draws.random() < 0.8
    axes = [f"ep={draws.choice([2, 2, 4])}"] if has_experts else []
    axes += [f"tp={draws.choice([2, 2, 4])}"] if not has_experts or draws.random() < 0.4 else []
    axes += [f"{axis}=2" for axis in ("fsdp", "replica", "tq:tensor") if draws.random() < 0.4]
    draws.shuffle(axes)
    shard = draws.choice(["none", "optimizer", "grad", "full"]) if any(axis[0] in "fe" for axis in axes) else "none"
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


def kinds_of(a, words, before, after):
    """What a compiled case has of `KINDS`, by the layouts of the program before partition and the collectives of the one after it."""
    layouts, exchanges = "", after.read_text()
    if words[words.index("--sequence-parallel") + 1] != "false":  # which alone makes blocks
        layouts = run([f"{a.build}/bin/shale-opt", before, "--shale-split-experts", "--shale-group-sums", "--shale-plan-sharding", "--shale-split-sequence", "--shale-propagate"], "shale-opt").stdout
    has = {"split each of several blocks of rows": re.search(r'" in \d', layouts), "have two tensor axes": "tq:tensor" in words[words.index("--mesh") + 1],
           "send over two tensor axes at once": re.search(r'over "t[pq]\+t[pq]"', exchanges),
           "split experts": "ep=" in words[words.index("--mesh") + 1],
           "split blocks over two tensor axes": re.search(r'"t[pq]" in (\d+), "t[pq]" in \1', layouts)}
    return [kind for kind in KINDS if has[kind]]


def compare(a, work, number):
    """The kinds of a case whose programs are equal; None if its sizes are refused."""
    name, words = draw(number)
    folder = work / str(number)
    done = subprocess.run([f"{a.build}/bin/shalec", MODELS / name / "model.onnx", *words, "--emit", "dist", "-o", "/dev/null", "--save-temps", folder],
                          capture_output=True, text=True, timeout=120)
    what = f"case {number}: {name} {' '.join(words)}"
    if done.returncode == 64:
        shutil.rmtree(folder, ignore_errors=True)
        return None
    if done.returncode:
        raise Deviates(f"{what}: shalec ended with {done.returncode}: {done.stderr[-300:]}")
    before, after = (next(folder.glob(f"*-{stage}.mlir")) for stage in ("precision", "memory"))
    ran = subprocess.run([f"{a.build}/bin/shale-run", "--as=f64", "--floor=0.01", before, f"--compare={after}"], capture_output=True, text=True, timeout=300)
    # Gradients of key biases are zero but for rounding, hence the floor.
    differences = [float(text) for text in re.findall(r"largest relative difference (\S+)", ran.stdout)]
    if not differences or not max(differences) <= BAR:
        raise Deviates(f"{what}: {(ran.stdout + ran.stderr)[-300:]}")
    kinds = kinds_of(a, words, before, after)
    shutil.rmtree(folder)
    return kinds


def check(a, work):
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda number: compare(a, work, a.seed * 100000 + number), range(a.count)))
    equal = [kinds for kinds in found if kinds is not None]
    if len(equal) * 2 < a.count:
        raise Deviates(f"{a.count - len(equal)} of {a.count} cases are refused")
    counts = collections.Counter(kind for kinds in equal for kind in kinds)
    if rare := [kind for kind in KINDS if counts[kind] * LEAST < a.count]:
        raise Deviates(f"fewer than one of {LEAST} cases {' or '.join(rare)}: {dict(counts)}")
    return f"{len(equal)} cases within {BAR}, of which {', '.join(f'{counts[kind]} {kind}' for kind in KINDS)}; {a.count - len(equal)} refused for their sizes"


if __name__ == "__main__":
    main(check, ("--count", {"type": int, "default": 40}), ("--seed", {"type": int, "default": 1}), success="equal:")
