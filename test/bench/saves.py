#!/usr/bin/env python3
"""Compares the time of a step with asynchronous saves, with saves that training waits for, and without saves: GPT-2 124M on two ranks.

usage: saves.py --build build [--rounds 2] [--steps 31] [--every 10] [--batch 2] [--sequence 128] [--shard full] [--record [PAGE]]

The model is gpt2-124m of test/models/scale.py with random weights. Each round runs the three in turn, in folders of their own. The time
is wall clock from the end of the first step to the end of the last one, per step: what a save adds between two steps counts. The last
checkpoint, for which all runs wait, does not. Prints the least time of all rounds, and the median of the rounds' ratios to no saves.
"""
import argparse
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

import record

MODELS = pathlib.Path(__file__).resolve().parents[1] / "models"
SIDES = {"none": [], "async": ["--async-save", "true"], "waiting": ["--async-save", "false"]}


def seconds(a, work, side):
    """Seconds per step of a run, and what the program says of its saves."""
    out = work / "run"
    words = [work / "train", "--data", work / "data.bin", "--token-dtype", "uint16", "--steps", a.steps, "--lr", "3e-4", "--out", out, "--keep", 1]
    words += SIDES[side] + (["--save-every", a.every] if SIDES[side] else [])
    process = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, text=True)
    ends, said = [], ""
    for line in process.stdout:
        if line.startswith("step "):
            ends.append(time.monotonic())
        elif line.startswith("saves: "):
            said = line.strip()
    if process.wait() or len(ends) != a.steps:
        record.fail(f"{side}: ended with {process.returncode} after {len(ends)} steps")
    shutil.rmtree(out)
    return (ends[-1] - ends[0]) / (a.steps - 1), said


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--build", default="build")
    for name, value in (("rounds", 2), ("steps", 31), ("every", 10), ("batch", 2), ("sequence", 128)):
        p.add_argument("--" + name, type=int, default=value)
    p.add_argument("--shard", default="full")
    record.add_flag(p)
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        subprocess.run([sys.executable, MODELS / "scale.py", "gpt2-124m", work / "model.onnx", "--random-weights"], check=True)
        said = subprocess.run([f"{a.build}/bin/shalec", work / "model.onnx", "-o", work / "train", "--mesh", "fsdp=2", "--shard", a.shard,
                               "--dim", f"batch={a.batch}", "--dim", f"sequence={a.sequence}"], check=True, capture_output=True, text=True).stdout
        copy = int(re.search(r"^saves +\+ (\d+) bytes", said, re.M).group(1))
        np.random.default_rng(0).integers(0, 50257, 1 << 17, dtype=np.uint16).tofile(work / "data.bin")
        times = {side: [] for side in SIDES}
        for number in range(a.rounds):
            for side in SIDES:
                took, what = seconds(a, work, side)
                times[side].append(took)
                print(f"round {number + 1}, {side}: {took:.3f} s per step {what}", flush=True)
    ratio = {side: statistics.median(took / none for took, none in zip(found, times["none"])) for side, found in times.items()}
    figures = [f"{min(found):.3f} s" + ("" if side == "none" else f" ({ratio[side]:.3f})") for side, found in times.items()]
    print("; ".join(f"{side}: {figure}" for side, figure in zip(SIDES, figures)), f"; copy: {copy / 2**20:.0f} MiB per rank")
    if a.record:
        record.write(a.record, "saves", a, [[*figures, f"{copy / 2**20:.0f} MiB"]])


if __name__ == "__main__":
    main()
