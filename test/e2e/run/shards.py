#!/usr/bin/env python3
"""State that is split over two axes at once.

usage: e2e shards --build DIR --case FOLDER

Programs of a mesh with two axes of kind shard follow PyTorch with each strategy, hold and send as many bytes as those of one axis with as many
ranks, without the process and the metrics, and read their checkpoints.
"""
import json
import re

from runner import Case, Deviates, main, run

TWO, ONE = "rows:shard=2,columns:shard=2", "fsdp=4"


def planned(case, shard, mesh, flags, report):
    """The rows of the memory plan but those of the process, whose program has more axes, and those that a rank sends of parameters and gradients."""
    said = run([case.bin / "shalec", case.folder / case.model, *case.model_flags(), *case.policy_flags(), "--mesh", mesh, "--shard", shard, *flags,
                "--plan-only", "--report", f"comm={report}"], "shalec").stdout
    sent = {}
    for one in json.loads(report.read_text()):
        sent[one["kind"]] = sent.get(one["kind"], 0) + one["sent_bytes"]
    held = [row for row in re.findall(r"^  (\w+) +(\d+)  (.*)", said, re.M) if row[0] not in ("fixed", "peak")]
    if not {"parameters", "optimizer", "activations"} <= {name for name, *_ in held}:
        raise Deviates(f"the plan has {held}")
    return held, {kind: count for kind, count in sent.items() if kind != "all-reduce"}


def check(a, work):
    case, count = Case(a.build, a.case), 0
    for shard, flags in (("optimizer", []), ("grad", []), ("full", []), ("full", ["--recompute", "block"]), ("full", ["--wire-dtype", "gather=int8,reduce=int8"])):
        folder = work / str(count)
        folder.mkdir()
        two, one = (planned(case, shard, mesh, flags, folder / "comm.json") for mesh in (TWO, ONE))
        if two != one:
            raise Deviates(f"{shard} {flags}: {two} over two axes, {one} over one")
        case.shalec(folder / "two", shard, 4, ["--mesh", TWO, *flags])
        case.train(folder / "two", folder / "run")
        exact = "--wire-dtype" not in flags
        case.check_metrics(folder / "run", None if exact else 0.05)
        if exact:
            case.check_weights(folder / "run")
        count += 1
    # A checkpoint of two axes goes on with one, and the other way around.
    half = case.steps // 2
    for first, second in ((TWO, ONE), (ONE, TWO)):
        folder = work / f"resumed-{first[:4]}"
        folder.mkdir()
        for name, mesh in (("first", first), ("second", second)):
            case.shalec(folder / name, "full", 4, ["--mesh", mesh])
        case.train(folder / "first", folder / "run", half)
        case.train(folder / "second", folder / "run", flags=["--schedule", "constant", "--resume", "must"])
        case.check_metrics(folder / "run")
        case.check_weights(folder / "run")
    return f"{count} programs over {TWO}, and checkpoints of both meshes"


if __name__ == "__main__":
    main(check, ("--case", {"required": True}), success="state over two axes:")
