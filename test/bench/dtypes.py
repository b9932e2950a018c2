#!/usr/bin/env python3
"""Compares the time of a training step between types of parameters. The programs run in turn.

usage: dtypes.py --build build [--model model.onnx] [--rounds 4] [--steps 6] [--batch 4 --sequence 256] [--types f32,bf16]
                 [--record [PAGE]]

Without --model the model is gpt2-30m of test/models/scale.py. Prints for each type the fastest step over all rounds, its ratio
to the first type, and the planned peak per rank. The first two steps of each round do not count.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np

import record

SCALE = pathlib.Path(__file__).resolve().parents[1] / "models" / "scale.py"


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--build", default="build")
    p.add_argument("--model")
    p.add_argument("--types", default="f32,bf16")
    for name, value in (("rounds", 4), ("steps", 6), ("batch", 4), ("sequence", 256)):
        p.add_argument("--" + name, type=int, default=value)
    record.add_flag(p)
    a = p.parse_args()
    types = a.types.split(",")
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        model = a.model or work / "model.onnx"
        if not a.model:
            subprocess.run([sys.executable, SCALE, "gpt2-30m", model, "--random-weights"], check=True)
        np.random.default_rng(0).integers(0, 50257, 1 << 20, dtype=np.uint16).tofile(work / "data.bin")
        best, peak = dict.fromkeys(types, float("inf")), {}
        for kind in types:
            output = subprocess.run([f"{a.build}/bin/shalec", model, "-o", work / kind, "--dim", f"batch={a.batch}", "--dim",
                                     f"sequence={a.sequence}", "--param-dtype", kind], check=True, capture_output=True, text=True)
            peak[kind] = int(re.search(r"peak +(\d+)", output.stdout + output.stderr)[1])
        for number in range(a.rounds):
            for kind in types:
                out = work / f"run-{kind}-{number}"
                subprocess.run([work / kind, "--data", work / "data.bin", "--token-dtype", "uint16", "--steps", str(a.steps), "--lr", "3e-4",
                                "--clip-grad-norm", "1", "--out", out], check=True, stdout=subprocess.DEVNULL)
                lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
                best[kind] = min(best[kind], *(line["tokens"] / line["tokens_per_s"] for line in lines[2:]))
    for kind in types:
        print(f"{kind}: best step {best[kind] * 1000:.1f} ms, {best[kind] / best[types[0]]:.2f} of {types[0]}; planned peak {peak[kind]} bytes")
    if a.record:
        rows = [[kind, f"{best[kind] * 1000:.1f} ms", f"{best[kind] / best[types[0]]:.2f}", peak[kind]] for kind in types]
        record.write(a.record, "dtypes", a, rows)


if __name__ == "__main__":
    main()
