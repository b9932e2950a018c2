"""Trains a model with a slice without elements, which is transposed and scattered, as rotary positions of whole heads are: empty.py FOLDER.

The scatter changes nothing, so the losses are those of the model without it, by numpy.
"""
import json
import pathlib
import subprocess
import sys

import numpy as np

from onnx_writer import *

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "e2e" / "lib"))
from runner import save_safetensors  # noqa: E402

ROWS, WIDTH, STEPS, RATE = 4, 8, 3, 0.1
folder = pathlib.Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
random = np.random.default_rng(0)
w, data = random.standard_normal((WIDTH, WIDTH)), random.standard_normal((STEPS, ROWS, WIDTH))
nodes = [node("MatMul", ["x", "w"], ["h"]), node("Slice", ["h", "eight", "more", "one"], ["none"]), node("Transpose", ["none"], ["turned"], perm=[1, 0]),
         node("ScatterND", ["zeros", "places", "turned"], ["s"]), node("Transpose", ["s"], ["st"], perm=[1, 0]), node("Add", ["h", "st"], ["y"]),
         node("Mul", ["y", "y"], ["square"]), node("ReduceMean", ["square"], ["loss"], keepdims=0)]
constants = [floats("w", [WIDTH, WIDTH], w.ravel().tolist()), floats("zeros", [WIDTH, ROWS], [0] * (WIDTH * ROWS)), ints("eight", [1], [WIDTH]),
             ints("more", [1], [WIDTH + 5]), ints("one", [1], [1]), ints("places", [0, 1], [])]
(folder / "model.onnx").write_bytes(model(graph(nodes, [value("x", [ROWS, WIDTH])], [value("loss", [])], constants)))
save_safetensors(folder / "x.safetensors", {"x": data.astype(np.float32)})
subprocess.run(["shalec", folder / "model.onnx", "-o", folder / "train", "--optimizer", "sgd", "--freeze", "zeros", "--batch-dim", "x:0", "--no-advice"],
               check=True, stdout=subprocess.DEVNULL, timeout=300)
subprocess.run([folder / "train", "--data", folder / "x.safetensors", "--steps", str(STEPS), "--lr", str(RATE), "--momentum", "0", "--weight-decay", "0",
                "--clip-grad-norm", "0", "--no-shuffle", "--schedule", "constant", "--out", folder / "run"], check=True, stdout=subprocess.DEVNULL, timeout=300)
for step, line in enumerate((folder / "run" / "metrics.jsonl").read_text().splitlines()):
    y = data[step] @ w
    if not abs(json.loads(line)["loss"] - np.mean(y * y)) <= 1e-5:
        sys.exit(f"step {step}: {line}, not {np.mean(y * y)}")
    w = w - RATE * 2 / y.size * data[step].T @ y
print(f"{STEPS} losses right")
