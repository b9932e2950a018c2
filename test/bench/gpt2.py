#!/usr/bin/env python3
"""Compares the time of a training step with PyTorch eager, for one GPT-2 on one rank. The two sides run in turn.

usage: gpt2.py --build build --torch-python PYTHON [--rounds 4] [--steps 8] [--layers 6 --width 384 --heads 6 --batch 4 --sequence 256]
               [--record [PAGE]]

PYTHON is an interpreter with torch, transformers and onnxscript. Prints the fastest step of each side over all rounds, its
tokens per second, and the ratio Shale / PyTorch. The first two steps of each round do not count.
"""
import argparse
import json
import pathlib
import subprocess
import tempfile

import numpy as np

import record

SHAPE = ("layers", "width", "heads", "batch", "sequence")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--build", default="build")
    p.add_argument("--torch-python", required=True)
    p.add_argument("--rounds", type=int, default=4)
    p.add_argument("--steps", type=int, default=8)
    for name, value in zip(SHAPE, (6, 384, 6, 4, 256)):
        p.add_argument("--" + name, type=int, default=value)
    record.add_flag(p)
    a = p.parse_args()
    torch_side = [a.torch_python, str(pathlib.Path(__file__).with_name("torch_gpt2.py"))]
    torch_side += [word for name in SHAPE for word in ("--" + name, str(getattr(a, name)))]
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        subprocess.run(torch_side + ["--export", folder], check=True, capture_output=True)
        subprocess.run([f"{a.build}/bin/shalec", folder + "/model.onnx", "-o", folder + "/train", "--dim", f"batch={a.batch}",
                        "--dim", f"sequence={a.sequence}"], check=True, stdout=subprocess.DEVNULL)
        np.random.default_rng(0).integers(0, 50257, 1 << 20, dtype=np.uint16).tofile(work / "data.bin")
        best = {"torch": float("inf"), "shale": float("inf")}
        for number in range(a.rounds):
            out = subprocess.run(torch_side + ["--steps", str(a.steps)], check=True, capture_output=True, text=True).stdout
            best["torch"] = min(best["torch"], *json.loads(out.splitlines()[-1])["step_s"][2:])
            run = work / f"run{number}"
            subprocess.run([folder + "/train", "--data", folder + "/data.bin", "--token-dtype", "uint16", "--steps", str(a.steps),
                            "--lr", "3e-4", "--clip-grad-norm", "1", "--out", str(run)], check=True, stdout=subprocess.DEVNULL)
            lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
            best["shale"] = min(best["shale"], *(line["tokens"] / line["tokens_per_s"] for line in lines[2:]))
    tokens = a.batch * a.sequence
    figures = {side: f"{seconds * 1000:.1f} ms ({tokens / seconds:.0f} tokens/s)" for side, seconds in best.items()}
    ratio = f"{best['torch'] / best['shale']:.2f}"
    for side, figure in figures.items():
        print(f"{side}: best step {figure}")
    print(f"shale / torch: {ratio}")
    if a.record:
        record.write(a.record, "gpt2", a, [[figures["shale"], figures["torch"], ratio]])


if __name__ == "__main__":
    main()
