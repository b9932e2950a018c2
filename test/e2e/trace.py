#!/usr/bin/env python3
"""Traces two steps: every rank has its kernels and its collectives, as many of these as the compiler planned, named by nodes
of the model and by units; the run keeps its bits. A bad --trace is refused.

usage: trace.py --build DIR --case test/models/gpt2
"""
import json
import re
import subprocess

from runner import Case, Deviates, main, same_bits

STEPS, RANKS = 2, 2


def need(condition, message):
    if not condition:
        raise Deviates(message)


def check(a, work):
    case = Case(a.build, a.case)
    program, file = work / "train", work / "trace.json"
    said = case.shalec(program, "full", RANKS, ["--bucket-size", "0"])  # a bucket is one span
    planned = sum(int(count) for count in re.findall(r"^ +(\d+) (?:all-gather|reduce-scatter|all-reduce) over", said, re.M))
    case.train(program, work / "plain", steps=4, what="a run without trace")
    case.train(program, work / "traced", steps=4, flags=["--trace", f"steps:1-{STEPS}", file], what="a traced run")
    same_bits(work / "plain", work / "traced", "runs with and without a trace")
    events = [e for e in json.loads(file.read_text())["traceEvents"] if e["ph"] == "X"]
    nodes = set(re.findall(rb"node_[A-Za-z_0-9]+", (case.folder / case.model).read_bytes()))
    for rank in range(RANKS):
        own = [e for e in events if e["pid"] == rank]
        moved = [e for e in own if e["cat"] == "communication"]
        need(len(moved) == STEPS * planned, f"rank {rank}: {len(moved)} collectives of {STEPS} steps, {planned} planned a step")
        need({"transformer.h.0", "transformer.h.1"} <= {e["name"] for e in moved}, f"rank {rank}: units are not named")
        computed = [e for e in own if e["cat"] == "compute" and e["args"]["what"] != "wait"]
        named = sum(e["name"].encode() in nodes for e in computed)
        need(named >= len(computed) // 2, f"rank {rank}: {named} of {len(computed)} ops are named by nodes of the model")
        need(all(e["dur"] >= 0 and e["ts"] >= 0 for e in own), f"rank {rank}: a span ends before it begins")
        for stream in ("compute", "communication"):
            spans = sorted((e["ts"], e["ts"] + e["dur"]) for e in own if e["cat"] == stream)
            need(all(x[1] <= y[0] + 0.002 for x, y in zip(spans, spans[1:])), f"rank {rank}: spans of {stream} overlap")
    for flags, word in ((["--trace", "10-12", file], "steps:"), (["--trace", "steps:90-91", file], "ends before")):
        run = subprocess.run([program, "--data", case.batches, "--steps", "4", "--out", work / "bad", *flags], capture_output=True, text=True)
        need(run.returncode == 64 and word in run.stderr, f"{flags}: exit code {run.returncode}, {run.stderr}")
    return f"{len(events)} spans of {RANKS} ranks, {planned} collectives a step"


if __name__ == "__main__":
    main(check, ("--case", {"required": True}), success="traces:")
