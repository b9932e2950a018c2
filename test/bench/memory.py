#!/usr/bin/env python3
"""Memory of a rank: GPT-2 124M, two fully sharded ranks, blocks recomputed, without offload and with all of it, against
PyTorch FSDP2 with activation checkpointing.

usage: memory.py --build build --model model.onnx [--torch-gib 2.76] [--batch 4] [--sequence 512] [--steps 3]
model.onnx: test/bench/torch_gpt2.py --layers 12 --width 768 --heads 12 --export FOLDER. --torch-gib is PyTorch's peak RSS of a
rank less its RSS before the model. Prints RSS of rank 0 less that of a program without a model, the device's planned bytes
(state and arena), and their ratios to PyTorch's; and that both runs have the same losses.
"""
import argparse
import json
import pathlib
import re
import subprocess
import tempfile

import numpy as np

TINY = pathlib.Path(__file__).resolve().parent.parent / "models/gpt2/model.onnx"


def run(a, work, name, model, sizes, flags, vocabulary):
    program, out = work / name, work / (name + ".run")
    said = subprocess.run([f"{a.build}/bin/shalec", str(model), "-o", str(program), "--mesh", "fsdp=2", "--shard", "full", *sizes, *flags],
                          check=True, capture_output=True, text=True).stdout
    data = work / f"{vocabulary}.bin"
    np.random.default_rng(0).integers(0, vocabulary, 1 << 17, dtype=np.uint16).tofile(data)
    subprocess.run([str(program), "--data", str(data), "--token-dtype", "uint16", "--steps", str(a.steps), "--lr", "3e-4",
                    "--clip-grad-norm", "1", "--out", str(out), "--nproc", "2"], check=True, stdout=subprocess.DEVNULL)
    lines = [json.loads(line) for line in (out / "metrics.jsonl").open()]
    rest = r"(?:parameters at rest|optimizer state|alignment of state|.* at the arena's peak|gaps of the arena)"
    device = said.split("host memory")[0]
    planned = sum(int(size) for size in re.findall(r"^  \w+ +(\d+)  " + rest + "$", device, re.M))
    return max(line["memory_bytes"] for line in lines), planned, [(line["loss"], line["grad_norm"]) for line in lines]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--build", default="build")
    p.add_argument("--model", required=True)
    p.add_argument("--torch-gib", type=float, default=2.76)
    for name, value in (("batch", 4), ("sequence", 512), ("steps", 3)):
        p.add_argument("--" + name, type=int, default=value)
    a = p.parse_args()
    sizes = ["--dim", f"batch={a.batch}", "--dim", f"sequence={a.sequence}"]
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        empty, _, _ = run(a, work, "empty", TINY, ["--dim", "batch=2", "--dim", "sequence=8"], [], 256)
        kept = run(a, work, "recomputed", a.model, sizes, ["--recompute", "block"], 50257)
        moved = run(a, work, "offloaded", a.model, sizes, ["--recompute", "block", "--offload", "all"], 50257)
    gib = float(1 << 30)
    above = (kept[0] - empty) / gib
    print(f"recompute block: RSS {kept[0] / gib:.2f} GiB, {above:.2f} above an empty program's; / PyTorch {above / a.torch_gib:.2f} (bar 0.6)")
    print(f"offload all too: device {moved[1] / gib:.2f} GiB planned; / PyTorch {moved[1] / gib / a.torch_gib:.2f} (bar 0.3)")
    print("losses and norms", "are the same" if kept[2] == moved[2] else f"differ: {kept[2]} and {moved[2]}")


if __name__ == "__main__":
    main()
