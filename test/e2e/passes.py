#!/usr/bin/env python3
"""Every pass from recover to plan computes what was computed before it: the program of a fixture, in the interpreter,
before and after each single pass on 1, 2 and 4 ranks (plain: 1, 2, 3), every strategy and
kind of recomputation among them.

usage: passes.py --build DIR --case test/models/gpt2

Up to fusion in f64 within 1e-12 relative (autodiff: the results that both programs have); schedule and plan, as
declared, in identical bits.
"""
from concurrent.futures import ThreadPoolExecutor

from runner import Case, Deviates, main, run, stage_files

EXACT = ("plan",)  # stages that move values but compute none
MOST = None  # 4, or 3
RUNS = [(1, "full", []), (2, "none", ["--recompute", "block", "--offload", "activations:0.5"]), (2, "full", []),
        (MOST, "optimizer", ["--offload", "grads,optimizer"]), (MOST, "grad", ["--recompute", "selective"]),
        (MOST, "full", ["--recompute", "block", "--prefetch", "2", "--max-gathers-in-flight", "3", "--offload", "all"])]


def compare(case, before, after, flags):
    run([case.bin / "shale-run", before, f"--compare={after}", *flags], f"{before.name} and {after.name}")


def chain(case, folder, shard, ranks, flags):
    """Pairs of neighbours that differ, with the flags of their comparison."""
    files = list(stage_files(case, folder, "rt", shard, ranks, ["--save-temps-passes", *flags], {"sequence": 8}).items())
    pairs = []
    for (_, before), (name, after) in zip(files, files[1:]):
        if before.read_bytes() == after.read_bytes():
            continue  # a verifier, or nothing to do
        stage = name.split("-")[0]
        how = ["--exact"] if stage in EXACT else ["--as=f64"]
        whole = [] if "dist.mesh" in before.read_text() else [f"--ranks={ranks}"]
        pairs.append((before, after, how + whole))
    return pairs


def check(a, work):
    count, passes = 0, set()
    with ThreadPoolExecutor(2) as pool:
        for model in ("model.onnx", "model-default-export.onnx"):
            case = Case(a.build, a.case, model=model)
            for ranks, shard, flags in RUNS if model == "model.onnx" else RUNS[:1]:  # the other export differs up to recover only
                ranks = ranks or case.most_ranks
                pairs = chain(case, work / f"{model}-{shard}-{ranks}", shard, ranks, flags)
                list(pool.map(lambda pair: compare(case, *pair), pairs))
                count += len(pairs)
                passes |= {after.stem.split("-", 1)[1] for _, after, _ in pairs}
    if len(passes) < 10:
        raise Deviates(f"only {sorted(passes)} changed anything")
    return f"{count} pairs around {len(passes)} passes"


if __name__ == "__main__":
    main(check, ("--case", {"required": True}), success="equal:")
