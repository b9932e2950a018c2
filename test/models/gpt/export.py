#!/usr/bin/env python3
"""Writes a GPT of any size with random weights, for measurements: tokens [batch, length] to logits, tied embedding,
learned positions, pre-norm blocks, GELU.

usage: export.py FOLDER [--layers 4 --width 256 --heads 4 --vocabulary 8192 --length 128]

Writes FOLDER/model.onnx and FOLDER/weights.bin. Compile the model with --loss next-token:logits.
"""
import argparse
import pathlib
import sys

import numpy as np

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "lib" / "Frontend" / "ONNX"))
from onnx_writer import INT64, floats, graph, ints, model, node, tensor, value  # noqa: E402


class Writer:
    """Nodes and parameters of the current module scope."""

    def __init__(self, out):
        self.out, self.offset, self.rng = out, 0, np.random.default_rng(0)
        self.nodes, self.tensors, self.scope = [], [], ""

    def parameter(self, name, shape, scale):
        if scale:
            values = self.rng.standard_normal(shape, np.float32) * np.float32(scale)
        else:
            values = np.full(shape, 1 if name.endswith("weight") else 0, np.float32)
        self.out.write(values.tobytes())
        name = ".".join(filter(None, (self.scope, name)))
        self.tensors.append(tensor(name, shape, external={"location": "weights.bin", "offset": self.offset, "length": values.nbytes}))
        self.offset += values.nbytes
        return name

    def constant(self, name, encoded):
        """A Constant node, since the importer would treat a float initializer as a parameter."""
        self.nodes.append(node("Constant", [], [name], "/" + name, value=encoded))

    def op(self, kind, *inputs, outputs=1, **attributes):
        name = f"/{self.scope.replace('.', '/') or 'top'}/{kind}_{len(self.nodes)}"
        names = [f"{name}_output_{i}" for i in range(outputs)]
        self.nodes.append(node(kind, inputs, names, name, **attributes))
        return names[0] if outputs == 1 else names

    def norm(self, name, x, width):
        return self.op("LayerNormalization", x, self.parameter(name + ".weight", [width], 0), self.parameter(name + ".bias", [width], 0), axis=-1)

    def linear(self, name, x, rows, columns):
        product = self.op("MatMul", x, self.parameter(name + ".weight", [rows, columns], 0.02))
        return self.op("Add", product, self.parameter(name + ".bias", [columns], 0))


def block(w, x, index, width, heads, length):
    w.scope = f"h.{index}"
    parts = w.op("Split", w.linear("attn.qkv", w.norm("ln_1", x, width), width, 3 * width), "thirds", outputs=3, axis=-1)
    q, k, v = (w.op("Transpose", w.op("Reshape", part, "split_heads"), perm=[0, 2, 1, 3]) for part in parts)
    scores = w.op("Mul", w.op("MatMul", q, w.op("Transpose", k, perm=[0, 1, 3, 2])), "scale")
    mixed = w.op("MatMul", w.op("Softmax", w.op("Add", scores, "causal"), axis=-1), v)
    mixed = w.op("Reshape", w.op("Transpose", mixed, perm=[0, 2, 1, 3]), "join_heads")
    x = w.op("Add", x, w.linear("attn.proj", mixed, width, width))
    hidden = w.op("Gelu", w.linear("mlp.up", w.norm("ln_2", x, width), width, 4 * width))
    return w.op("Add", x, w.linear("mlp.down", hidden, 4 * width, width))


def write(folder, layers=4, width=256, heads=4, vocabulary=8192, length=128):
    with open(folder / "weights.bin", "wb") as out:
        w = Writer(out)
        mask = np.triu(np.full((length, length), -np.inf, np.float32), 1)
        w.constant("causal", tensor("", [length, length], raw=mask.tobytes()))
        w.constant("scale", floats("", [], [(width // heads) ** -0.5]))
        w.constant("thirds", ints("", [3], [width] * 3))
        w.constant("split_heads", ints("", [4], [0, length, heads, width // heads]))
        w.constant("join_heads", ints("", [3], [0, length, width]))
        wte = w.parameter("wte.weight", [vocabulary, width], 0.02)
        x = w.op("Add", w.op("Gather", wte, "tokens"), w.parameter("wpe.weight", [length, width], 0.02))
        for index in range(layers):
            x = block(w, x, index, width, heads, length)
        w.scope = ""
        x = w.norm("ln_f", x, width)
        w.nodes.append(node("MatMul", [x, w.op("Transpose", wte, perm=[1, 0])], ["logits"], "/head/MatMul"))
    (folder / "model.onnx").write_bytes(model(graph(w.nodes, [value("tokens", ["batch", length], INT64)],
                                                    [value("logits", ["batch", length, vocabulary])], w.tensors), opsets=(("", 20),)))


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("folder", type=pathlib.Path)
    for name, default in (("layers", 4), ("width", 256), ("heads", 4), ("vocabulary", 8192), ("length", 128)):
        p.add_argument("--" + name, type=int, default=default)
    a = vars(p.parse_args())
    folder = a.pop("folder")
    folder.mkdir(parents=True, exist_ok=True)
    write(folder, **a)
