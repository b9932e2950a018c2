#!/usr/bin/env python3
"""Writes a model of equal blocks with random weights, for measurements of memory: x = x + tanh(x W_i).

usage: export.py FOLDER [--blocks 25] [--width 1000]

FOLDER/model.onnx has the input x [batch, width], the output y and parameters blocks.N.weight of width^2 floats each
(default: 25 of 4 MB, 100 MB in all). FOLDER/weights.bin has the values. Compile the model with --loss mse:y,target.
"""
import argparse
import pathlib
import sys

import numpy as np

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "lib" / "Frontend" / "ONNX"))
from onnx_writer import graph, model, node, tensor, value  # noqa: E402


def write(folder, blocks=25, width=1000):
    rng = np.random.default_rng(0)
    size = width * width * 4
    with open(folder / "weights.bin", "wb") as out:
        for _ in range(blocks):
            out.write((rng.standard_normal(width * width, np.float32) * np.float32(0.5 / width**0.5)).tobytes())
    weights = [tensor(f"blocks.{i}.weight", [width, width], external={"location": "weights.bin", "offset": i * size, "length": size})
               for i in range(blocks)]
    nodes, x = [], "x"
    for i in range(blocks):
        y = "y" if i == blocks - 1 else f"x{i + 1}"
        nodes += [node("MatMul", [x, f"blocks.{i}.weight"], [f"p{i}"], f"/blocks.{i}/MatMul"), node("Tanh", [f"p{i}"], [f"t{i}"], f"/blocks.{i}/Tanh"),
                  node("Add", [x, f"t{i}"], [y], f"/blocks.{i}/Add")]
        x = y
    shape = ["batch", width]
    (folder / "model.onnx").write_bytes(model(graph(nodes, [value("x", shape)], [value("y", shape)], weights)))


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("folder", type=pathlib.Path)
    p.add_argument("--blocks", type=int, default=25)
    p.add_argument("--width", type=int, default=1000)
    a = p.parse_args()
    a.folder.mkdir(parents=True, exist_ok=True)
    write(a.folder, a.blocks, a.width)
