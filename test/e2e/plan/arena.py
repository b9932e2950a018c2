#!/usr/bin/env python3
"""The arenas of device and host have at most 1.05 times as many bytes as are live at once.

usage: e2e arena --build DIR

The programs are every fixture with each strategy, with and without recomputation, with each kind of offload, with micro-batches and with
16-bit floats; and a model with dropout.
"""
import re

from runner import MODELS, Case, Deviates, main, run

BAR = 1.05
PLACES = "at the arena's peak"


MORE = [["--offload", "all"], ["--offload", "optimizer"], ["--offload", "activations", "--recompute", "selective"],
        ["--accumulate", 2], ["--accumulate", 2, "--offload", "all", "--recompute", "block"], ["--param-dtype", "bf16"],
        ["--param-dtype", "bf16", "--offload", "all"], ["--optimizer", "adafactor"]]
DROPOUT = ["--dim", "batch=4", "--mesh", "fsdp=2", "--shard", "full", "--bind", "ids=tokens", "--bind", "labels=tokens+1"]


def ratios(said):
    """For each memory with an arena: the size of the arena divided by the bytes live at its peak."""
    for memory in said.split("host memory"):
        lines = re.findall(r"^  \w+ +(\d+)  (.*)$", memory, re.M)
        live = sum(int(size) for size, what in lines if PLACES in what)
        gaps = sum(int(size) for size, what in lines if what == "gaps of the arena")
        if live:
            yield (live + gaps) / live


def check(a, work):
    worst, planned, arenas = (1, ""), 0, 0

    def look(name, said):
        nonlocal worst, planned, arenas
        found = list(ratios(said))
        if not found:
            raise Deviates("the summary has no line of the arena")
        worst = max(worst, (max(found), name))
        planned += 1
        arenas += len(found)

    for name, most in (("gpt2", 4), ("llama", 4), ("plain", 3)):
        case = Case(a.build, MODELS / name)
        for shard, ranks in (("none", 1), ("optimizer", 2), ("grad", 2), ("full", 2), ("full", most)):
            for recompute in ("none", "selective", "block"):
                said = case.shalec(work / "program", shard, ranks, ["--plan-only", "--recompute", recompute])
                look(f"{name} {shard} {ranks} ranks, recompute {recompute}", said)
        for flags in MORE:
            look(f"{name} full 2 ranks, {flags}", case.shalec(work / "program", "full", 2, ["--plan-only", *flags]))
    for flags in ([], ["--offload", "all"]):
        said = run([f"{a.build}/bin/shalec", MODELS / "dropout/model.onnx", "--plan-only", *DROPOUT, *flags], "shalec").stdout
        look(f"dropout, {flags}", said)
    if worst[0] > BAR:
        raise Deviates(f"the arena of {worst[1]} is {worst[0]:.3f} times the live bytes")
    return f"{planned} programs, {arenas} arenas; at most {worst[0]:.4f} times what is live ({worst[1]})"


if __name__ == "__main__":
    main(check, success="arena:")
