#!/usr/bin/env python3
"""Compares a training step of a Mixtral of 95 M parameters, 16 experts of which each token chooses 2, with PyTorch, eager and
compiled, on one rank. The three sides run in turn.

usage: experts.py --build build --torch-python PYTHON [--rounds 3] [--steps 8] [--batch 2] [--sequence 512] [--threads 2] [--record [PAGE]]

PYTHON is an interpreter with torch, transformers and onnxscript. Prints the fastest step of each side over all rounds, the peak of
resident memory, and the ratios to Shale. The first two steps of each round do not count.
"""
import argparse
import json
import os
import pathlib
import subprocess
import tempfile

import numpy as np

import record

HERE = pathlib.Path(__file__).resolve().parent
CONFIG = {"model_type": "mixtral", "vocab_size": 8192, "hidden_size": 384, "intermediate_size": 768, "num_hidden_layers": 6,
          "num_attention_heads": 6, "num_key_value_heads": 6, "num_local_experts": 16, "num_experts_per_tok": 2,
          "max_position_embeddings": 512}


def torch_step(a, config, *flags):
    words = [a.torch_python, str(HERE / "torch_experts.py"), "--config", str(config), *flags]
    words += [word for name in ("batch", "sequence", "steps", "threads") for word in (f"--{name}", str(getattr(a, name)))]
    line = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
    return min(line["step_s"][2:]), line["peak"]


def shale_step(a, work, number):
    run = work / f"run{number}"
    subprocess.run([str(work / "train"), "--data", str(work / "data.bin"), "--token-dtype", "uint16", "--steps", str(a.steps), "--lr", "3e-4",
                    "--clip-grad-norm", "1", "--out", str(run)], check=True, stdout=subprocess.DEVNULL,
                   env={**os.environ, "OMP_NUM_THREADS": str(a.threads)})
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()][2:]
    return min(line["tokens"] / line["tokens_per_s"] for line in lines), max(line["memory_bytes"] for line in lines)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--build", default="build")
    p.add_argument("--torch-python", required=True)
    for name, value in (("rounds", 3), ("steps", 8), ("batch", 2), ("sequence", 512), ("threads", 2)):
        p.add_argument("--" + name, type=int, default=value)
    record.add_flag(p)
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        config = work / "config.json"
        config.write_text(json.dumps(CONFIG))
        subprocess.run([a.torch_python, str(HERE.parents[1] / "tools/export/export.py"), "--config", str(config), "--no-check", "-o",
                        str(work / "model.onnx")], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([f"{a.build}/bin/shalec", str(work / "model.onnx"), "-o", str(work / "train"), "--dim", f"batch={a.batch}",
                        "--dim", f"sequence={a.sequence}", "--no-advice"], check=True, stdout=subprocess.DEVNULL)
        np.random.default_rng(0).integers(0, CONFIG["vocab_size"], 1 << 20, dtype=np.uint16).tofile(work / "data.bin")
        found = {"shale": [], "eager": [], "compile": []}
        for number in range(a.rounds):
            found["eager"].append(torch_step(a, config))
            found["shale"].append(shale_step(a, work, number))
            found["compile"].append(torch_step(a, config, "--compile"))
    tokens, cells, best = a.batch * a.sequence, [], {}
    for side, runs in found.items():
        best[side] = min(seconds for seconds, _ in runs), max(peak for _, peak in runs)
        seconds, peak = best[side]
        cells.append(f"{seconds * 1000:.0f} ms ({tokens / seconds:.0f} tokens/s), {peak / 2**20:.0f} MiB")
        print(f"{side}: best step {cells[-1]}")
    ratios = [f"{best[side][0] / best['shale'][0]:.2f} and {best['shale'][1] / best[side][1]:.2f}" for side in ("eager", "compile")]
    print("tokens/s and memory, Shale / PyTorch: eager {}, compile {}".format(*ratios))
    if a.record:
        record.write(a.record, "experts", a, [[*cells, *ratios]])


if __name__ == "__main__":
    main()
