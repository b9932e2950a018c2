#!/usr/bin/env python3
"""Compares memory per rank with PyTorch FSDP2: GPT-2 124M on two fully sharded ranks, blocks recomputed, with and without offload.

usage: memory.py --build build [--torch-python PYTHON] [--model model.onnx] [--batch 4] [--sequence 512] [--steps 3] [--record [PAGE]]

Without --model the model is gpt2-124m of test/models/scale.py. PYTHON is an interpreter with torch and transformers, which
trains the same shape with FSDP2 and activation checkpointing (torch_gpt2.py --fsdp).
PyTorch's figure is the peak of resident memory minus resident memory before the model is made. Shale's are resident memory of
rank 0 minus that of a program with a tiny model, and with `--offload all` the planned device memory: state and arena.
Checks that both of Shale's runs have the same losses and gradient norms.
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

HERE = pathlib.Path(__file__).resolve().parent
MODELS = HERE.parent / "models"
GIB = float(1 << 30)


def run(a, work, name, model, sizes, flags, vocabulary):
    """Resident memory of rank 0, planned device memory, and the loss and gradient norm of each step."""
    program, out = work / name, work / (name + ".run")
    output = subprocess.run([f"{a.build}/bin/shalec", str(model), "-o", str(program), "--mesh", "fsdp=2", "--shard", "full", *sizes, *flags],
                            check=True, capture_output=True, text=True).stdout
    data = work / f"{vocabulary}.bin"
    np.random.default_rng(0).integers(0, vocabulary, 1 << 17, dtype=np.uint16).tofile(data)
    subprocess.run([str(program), "--data", str(data), "--token-dtype", "uint16", "--steps", str(a.steps), "--lr", "3e-4",
                    "--clip-grad-norm", "1", "--out", str(out), "--nproc", "2"], check=True, stdout=subprocess.DEVNULL)
    lines = [json.loads(line) for line in (out / "metrics.jsonl").open()]
    rest = r"(?:parameters at rest|optimizer state|alignment of state|.* at the arena's peak|gaps of the arena)"
    device = output.split("host memory")[0]
    planned = sum(int(size) for size in re.findall(r"^  \w+ +(\d+)  " + rest + "$", device, re.M))
    return max(line["memory_bytes"] for line in lines), planned, [(line["loss"], line["grad_norm"]) for line in lines]


def fsdp(a):
    """Bytes of PyTorch's rank 0 above those before the model is made."""
    words = [a.torch_python, "-m", "torch.distributed.run", "--nproc-per-node", "2", HERE / "torch_gpt2.py", "--fsdp", "--threads", "1"]
    for name, value in (("layers", 12), ("width", 768), ("heads", 12), ("batch", a.batch), ("sequence", a.sequence), ("steps", a.steps)):
        words += ["--" + name, value]
    output = subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True).stdout
    result = json.loads(output.splitlines()[-1])
    return (result["peak_rss_mib"] - result["before_mib"]) * 2**20


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--build", default="build")
    p.add_argument("--model")
    p.add_argument("--torch-python")
    for name, value in (("batch", 4), ("sequence", 512), ("steps", 3)):
        p.add_argument("--" + name, type=int, default=value)
    record.add_flag(p)
    a = p.parse_args()
    sizes = ["--dim", f"batch={a.batch}", "--dim", f"sequence={a.sequence}"]
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        model = a.model or work / "model.onnx"
        if not a.model:
            subprocess.run([sys.executable, MODELS / "scale.py", "gpt2-124m", model, "--random-weights"], check=True)
        empty, _, _ = run(a, work, "empty", MODELS / "gpt2" / "model.onnx", ["--dim", "batch=2", "--dim", "sequence=8"], [], 256)
        kept = run(a, work, "recomputed", model, sizes, ["--recompute", "block"], 50257)
        moved = run(a, work, "offloaded", model, sizes, ["--recompute", "block", "--offload", "all"], 50257)
    torch = fsdp(a) if a.torch_python else None

    def figure(size):
        return f"{size / GIB:.2f} GiB" + (f" ({size / torch:.2f} of PyTorch's)" if torch else "")

    above = kept[0] - empty
    if torch:
        print(f"PyTorch FSDP2: {torch / GIB:.2f} GiB above the process without a model")
    print(f"--recompute block: {figure(above)} resident above a program with a tiny model (bar 0.6)")
    print(f"--recompute block --offload all: {figure(moved[1])} of device memory planned (bar 0.3)")
    if kept[2] != moved[2]:
        sys.exit(f"memory.py: losses and norms differ between the runs: {kept[2]} and {moved[2]}")
    print("losses and norms of both runs are the same")
    if a.record:
        record.write(a.record, "memory", a, [[f"{torch / GIB:.2f} GiB" if torch else "not run", figure(above), figure(moved[1])]])


if __name__ == "__main__":
    main()
