#!/usr/bin/env python3
"""A step in 16-bit floats against one in f32, alternating, on this machine.

usage: dtypes.py --build build --model model.onnx [--rounds 4] [--steps 6] [--batch 4 --sequence 256] [--types f32,bf16]
The model is one that torch_gpt2.py --export wrote. Prints the best step of each type over all rounds and what a rank's plan says
that it takes; the first two steps of a round are left out.
"""
import argparse
import json
import pathlib
import re
import subprocess
import tempfile

import numpy as np


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--build", default="build")
    p.add_argument("--model", required=True)
    p.add_argument("--types", default="f32,bf16")
    for name, value in (("rounds", 4), ("steps", 6), ("batch", 4), ("sequence", 256)):
        p.add_argument("--" + name, type=int, default=value)
    a = p.parse_args()
    types = a.types.split(",")
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        np.random.default_rng(0).integers(0, 50257, 1 << 20, dtype=np.uint16).tofile(work / "data.bin")
        best, peak = dict.fromkeys(types, float("inf")), {}
        for kind in types:
            said = subprocess.run([f"{a.build}/bin/shalec", a.model, "-o", work / kind, "--dim", f"batch={a.batch}", "--dim",
                                   f"sequence={a.sequence}", "--param-dtype", kind], check=True, capture_output=True, text=True)
            peak[kind] = int(re.search(r"peak +(\d+)", said.stdout + said.stderr)[1])
        for number in range(a.rounds):
            for kind in types:
                out = work / f"run-{kind}-{number}"
                subprocess.run([work / kind, "--data", work / "data.bin", "--token-dtype", "uint16", "--steps", str(a.steps), "--lr", "3e-4",
                                "--clip-grad-norm", "1", "--out", out], check=True, stdout=subprocess.DEVNULL)
                lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
                best[kind] = min(best[kind], *(line["tokens"] / line["tokens_per_s"] for line in lines[2:]))
    for kind in types:
        print(f"{kind}: best step {best[kind] * 1000:.1f} ms, {best[kind] / best[types[0]]:.2f} of {types[0]}; planned peak {peak[kind]} bytes")


if __name__ == "__main__":
    main()
