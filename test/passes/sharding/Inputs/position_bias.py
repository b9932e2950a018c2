"""Writes an ONNX model with two blocks, whose norms follow the residuals, as BERT's do. Both read one learned bias of positions, as T5's do.

usage: position_bias.py MODEL.onnx
"""
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "lib" / "Frontend" / "ONNX"))
from onnx_writer import INT64, floats, graph, ints, model, node, value  # noqa: E402

VOCABULARY, WIDTH, HEADS, HEAD, FFN, LENGTH, BUCKETS = 12, 8, 4, 2, 16, 4, 3
rng = np.random.default_rng(1)
nodes, weights = [], [ints("rows", [2], [-1, VOCABULARY]), ints("all", [1], [-1]), ints("first", [1], [0]),
                      ints("split", [4], [0, 0, HEADS, HEAD]), ints("joined", [3], [0, 0, WIDTH]), floats("scale", [], [HEAD ** -0.5])]


def parameter(name, *dims):
    weights.append(floats(name, dims, rng.normal(0, 0.3, dims).reshape(-1).tolist()))
    return name


class Scope:
    """Nodes of a module, whose names TorchScript's exporter writes like this."""

    def __init__(self, path):
        self.path = path

    def __call__(self, op, *inputs, **attributes):
        name = f"/{self.path}/{op}_{len(nodes)}"
        nodes.append(node(op, list(inputs), [name], name, **attributes))
        return name

    def linear(self, x, name, rows, columns):
        y = self("MatMul", x, parameter(f"{self.path}.{name}.weight", rows, columns))
        return self("Add", y, parameter(f"{self.path}.{name}.bias", columns))

    def norm(self, x, name):
        return self("LayerNormalization", x, parameter(f"{self.path}.{name}.weight", WIDTH), parameter(f"{self.path}.{name}.bias", WIDTH), epsilon=1e-5)

    def heads(self, x):
        return self("Transpose", self("Reshape", x, "split"), perm=[0, 2, 1, 3])


root, x, bias = Scope("model"), None, None
x = root("Gather", parameter("model.embed.weight", VOCABULARY, WIDTH), "input_ids")
for number in range(2):
    b = Scope(f"layers.{number}")
    if bias is None:
        buckets = [min(abs(i - j), BUCKETS - 1) for i in range(LENGTH) for j in range(LENGTH)]
        weights.append(ints("buckets", [LENGTH, LENGTH], buckets))
        bias = b("Transpose", b("Gather", parameter(f"{b.path}.bias.weight", BUCKETS, HEADS), "buckets"), perm=[2, 0, 1])
        bias = b("Unsqueeze", bias, "first")
    q, k, v = (b.heads(b.linear(x, name, WIDTH, WIDTH)) for name in ("query", "key", "value"))
    scores = b("Add", b("Mul", b("MatMul", q, b("Transpose", k, perm=[0, 1, 3, 2])), "scale"), bias)
    seen = b("Transpose", b("MatMul", b("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
    x = b.norm(b("Add", b.linear(b("Reshape", seen, "joined"), "out", WIDTH, WIDTH), x), "norm1")
    h = b("Relu", b.linear(x, "up", WIDTH, FFN))
    x = b.norm(b("Add", b.linear(h, "down", FFN, WIDTH), x), "norm2")
logits = root("MatMul", x, parameter("model.head.weight", WIDTH, VOCABULARY))
nodes.append(node("SoftmaxCrossEntropyLoss", [root("Reshape", logits, "rows"), root("Reshape", "labels", "all")], ["loss"], "loss", reduction="mean"))
inputs = [value(name, ["batch", LENGTH], INT64) for name in ("input_ids", "labels")]
pathlib.Path(sys.argv[1]).write_bytes(model(graph(nodes, inputs, [value("loss", [])], weights), opsets=(("", 18),)))
