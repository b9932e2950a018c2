#!/usr/bin/env python3
"""With sequence parallelism each rank keeps 1/tp of the activations for the backward pass.

usage: e2e sequence --build DIR

The activations that live from the forward pass into the backward pass, by the memory report of the plan: each that belongs to a norm, a residual
sum, a dropout, a matmul or attention has exactly 1/tp of its bytes on one rank, on 2 and 4 tensor ranks, for GPT-2, Llama and a model
with dropout. Without sequence parallelism those of norms are not split. What belongs to labels and positions has the size of the data.
"""
import json
from collections import Counter

from runner import MODELS, Deviates, main, run

# Flags of each model, what the names of kept values of its norms contain, and numbers of ranks: the two key heads of Llama divide over two.
CASES = {"gpt2": (["--dim", "batch=4", "--dim", "sequence=64"], "ln_", (2, 4)),
         "llama": (["--dim", "batch=4", "--dim", "sequence=64"], "norm", (2,)),
         "dropout": (["--bind", "ids=tokens", "--bind", "labels=tokens+1", "--dim", "batch=8"], "ln_", (2, 4))}
LEAST = 256  # bytes; smaller ones are counts and coordinates


def kept(a, work, model, ranks, how):
    """[(name, node, bytes)] of the activations that live when the backward pass begins."""
    report = work / f"{model}-{ranks}-{how}.json"
    run([f"{a.build}/bin/shalec", MODELS / model / "model.onnx", *CASES[model][0], "--mesh", f"tp={ranks}", "--sequence-parallel", how, "--plan-only",
         "--no-advice", "--report", f"memory={report}"], f"shalec {model} tp={ranks}")
    step = json.loads(report.read_text())["functions"][0]
    begin = next(phase["begin"] for phase in step["phases"] if phase["name"] == "backward")
    return [(t["name"], t["node"], t["bytes"]) for t in step["tensors"]
            if t["category"] == "activations" and t["begin"] < begin <= t["end"] and t["bytes"] * ranks >= LEAST]


def check(a, work):
    said = []
    for model, (_, norm, numbers) in CASES.items():
        whole = kept(a, work, model, 1, "auto")
        of_data = [t for t in whole if "pad" in t[1] or "loss" in t[1] or "." not in t[0]]
        sizes = Counter(size for name, node, size in whole if (name, node, size) not in of_data)
        norms = sum(size for name, _, size in whole if norm in name)
        if not norms:
            raise Deviates(f"{model}: no kept activation of a norm: {whole}")
        for ranks in numbers:
            parts = Counter(size * ranks for _, _, size in kept(a, work, model, ranks, "true"))
            if missing := sizes - parts:
                raise Deviates(f"{model}, tp={ranks}: no part of 1/{ranks} of the kept activations {dict(missing)}: {dict(parts)}")
            if (most := max(parts)) > max(size for _, _, size in whole):
                raise Deviates(f"{model}, tp={ranks}: an activation of {most // ranks} bytes is kept")
        gathered = sum(size for name, _, size in kept(a, work, model, 2, "false") if norm in name)
        if gathered < 0.8 * norms:  # names of residual sums differ
            raise Deviates(f"{model}: norms keep {gathered} bytes without sequence parallelism, of {norms} on one rank")
        said.append(f"{model}: {len(whole) - len(of_data)} activations of {sum(sizes.elements())} bytes, {norms} of norms, on {' and '.join(map(str, numbers))} ranks")
    return "; ".join(said) + ": 1/tp of each"


if __name__ == "__main__":
    main(check)
