#!/usr/bin/env python3
"""Measures how much of a run's communication runs beside compute, from a trace.

usage: overlap.py TRACE.json                              a trace that `./train --trace steps:A-B TRACE.json` wrote
       overlap.py --build build [--model gpt2-124m] [--batch 4] [--sequence 512] [--record [PAGE]]

With --build it compiles the model of test/models/scale.py for two fully sharded ranks of one thread, trains three steps and
traces the last two. Prints one line per rank.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import record

SCALE = pathlib.Path(__file__).resolve().parents[1] / "models" / "scale.py"


def traced(a, work):
    """Compiles and trains the model; returns the path of the trace."""
    subprocess.run([sys.executable, SCALE, a.model, work / "model.onnx", "--random-weights"], check=True)
    subprocess.run([f"{a.build}/bin/shalec", work / "model.onnx", "-o", work / "train", "--dim", f"batch={a.batch}", "--dim",
                    f"sequence={a.sequence}", "--mesh", "fsdp=2", "--shard", "full"], check=True, stdout=subprocess.DEVNULL)
    (work / "tokens.bin").write_bytes(bytes(range(128)) * 8192)
    subprocess.run([work / "train", "--data", work / "tokens.bin", "--steps", "3", "--out", work / "run", "--trace", "steps:1-2",
                    work / "trace.json"], check=True, stdout=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"})
    return work / "trace.json"


def measured(path):
    """For each rank: its number, exchanges, ms of communication, ms of it beside compute, ms of compute, ms of waits."""
    events = [e for e in json.load(open(path))["traceEvents"] if e["ph"] == "X"]
    for rank in sorted({e["pid"] for e in events}):
        def spans(test):
            return sorted((e["ts"], e["ts"] + e["dur"]) for e in events if e["pid"] == rank and test(e))
        moved = spans(lambda e: e["cat"] == "communication")
        busy = spans(lambda e: e["cat"] == "compute" and e["args"]["what"] != "wait")
        waits = spans(lambda e: e["args"]["what"] == "wait")
        both, at = 0.0, 0
        for begin, end in moved:
            while at < len(busy) and busy[at][1] <= begin:
                at += 1
            for b, e in busy[at:]:
                if b >= end:
                    break
                both += min(end, e) - max(begin, b)
        total, compute, waiting = (sum(e - b for b, e in part) / 1e3 for part in (moved, busy, waits))
        yield rank, len(moved), total, both / 1e3, compute, waiting


def main():
    p = argparse.ArgumentParser()
    p.add_argument("trace", nargs="?")
    p.add_argument("--build")
    p.add_argument("--model", default="gpt2-124m")
    p.add_argument("--batch", type=int, default=4)
    p.add_argument("--sequence", type=int, default=512)
    record.add_flag(p)
    a = p.parse_args()
    if bool(a.trace) == bool(a.build):
        p.error("give a trace, or --build to make one")
    with tempfile.TemporaryDirectory() as folder:
        rows = list(measured(a.trace or traced(a, pathlib.Path(folder))))
    print("rank  exchanges  communication ms  beside compute ms      %  compute ms  waiting ms")
    for rank, count, total, both, compute, waiting in rows:
        print(f"{rank:4} {count:10} {total:17.1f} {both:18.1f} {100 * both / max(total, 1e-9):6.1f} {compute:11.1f} {waiting:11.1f}")
    if a.record:
        record.write(a.record, "overlap", a, [[rank, count, f"{total:.0f} ms", f"{both:.0f} ms ({100 * both / max(total, 1e-9):.0f} %)",
                                               f"{waiting:.0f} ms of {compute:.0f} ms"] for rank, count, total, both, compute, waiting in rows])


if __name__ == "__main__":
    main()
