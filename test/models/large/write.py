#!/usr/bin/env python3
"""Writes llama-70b.onnx: the graph of Llama 3 70B with its loss, without weights, for plans.

usage: write.py [FOLDER] [--layers 80]   (needs only Python)

A decoder layer is an ONNX function that is called once per layer, so the file is small. Weights are external data in a file that does
not exist, since plans need only their shapes. Sizes are those of the published configuration.
"""
import argparse
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "lib" / "Frontend" / "ONNX"))
from onnx_writer import FLOAT, INT64, floats, function, graph, ints, model, node, tensor, value  # noqa: E402

VOCABULARY, WIDTH, HEADS, KEY_HEADS, FFN, THETA, EPSILON = 128256, 8192, 64, 8, 28672, 500000.0, 1e-5
HEAD = WIDTH // HEADS
# Weights of a layer, in the order of the function's inputs. ONNX's MatMul takes [in, out].
WEIGHTS = [("input_layernorm.weight", [WIDTH]), ("self_attn.q_proj.weight", [WIDTH, WIDTH]), ("self_attn.k_proj.weight", [WIDTH, KEY_HEADS * HEAD]),
           ("self_attn.v_proj.weight", [WIDTH, KEY_HEADS * HEAD]), ("self_attn.o_proj.weight", [WIDTH, WIDTH]),
           ("post_attention_layernorm.weight", [WIDTH]), ("mlp.gate_proj.weight", [WIDTH, FFN]), ("mlp.up_proj.weight", [WIDTH, FFN]),
           ("mlp.down_proj.weight", [FFN, WIDTH])]


class Body:
    """Nodes of a function or graph, each with one result."""

    def __init__(self):
        self.nodes, self.count = [], 0

    def __call__(self, op, *inputs, out=None, **attributes):
        self.count += 1
        out = out or f"{op.lower()}_{self.count}"
        self.nodes.append(node(op, list(inputs), [out], out, **attributes))
        return out

    def numbers(self, *sizes):
        out = f"sizes_{self.count}"
        self.count += 1
        self.nodes.append(node("Constant", [], [out], out, value_ints=list(sizes)))
        return out

    def number(self, x):
        out = f"number_{self.count}"
        self.count += 1
        self.nodes.append(node("Constant", [], [out], out, value_float=float(x)))
        return out


def rotated(b, x, cos, sin):
    """x * cos + (-second half, first half) * sin"""
    axis, half, zero, end = b.numbers(3), b.numbers(HEAD // 2), b.numbers(0), b.numbers(HEAD)
    turned = b("Concat", b("Neg", b("Slice", x, half, end, axis)), b("Slice", x, zero, half, axis), axis=-1)
    return b("Add", b("Mul", x, cos), b("Mul", turned, sin))


def layer():
    b = Body()
    norm, q, k, v, o, second, gate, up, down = (name for name, _ in WEIGHTS)

    def heads(x, count):
        return b("Transpose", b("Reshape", x, b.numbers(0, 0, count, HEAD)), perm=[0, 2, 1, 3])

    def repeated(x):
        """Repeats each key head for its group of query heads."""
        group = b("Expand", b("Unsqueeze", x, b.numbers(2)), b.numbers(1, 1, HEADS // KEY_HEADS, 1, 1))
        return b("Reshape", group, b("Concat", b.numbers(0), b.numbers(HEADS), b("Shape", x, start=2), axis=0))

    x = b("RMSNormalization", "x", norm, epsilon=EPSILON, axis=-1)
    queries = rotated(b, heads(b("MatMul", x, q), HEADS), "cos", "sin")
    keys = repeated(rotated(b, heads(b("MatMul", x, k), KEY_HEADS), "cos", "sin"))
    values = repeated(heads(b("MatMul", x, v), KEY_HEADS))
    scores = b("Mul", b("MatMul", queries, b("Transpose", keys, perm=[0, 1, 3, 2])), b.number(HEAD ** -0.5))
    probabilities = b("Softmax", b("Where", "mask", scores, b.number(-3e38)), axis=-1)
    seen = b("Transpose", b("MatMul", probabilities, values), perm=[0, 2, 1, 3])
    x = b("Add", "x", b("MatMul", b("Reshape", seen, b.numbers(0, 0, WIDTH)), o))
    y = b("RMSNormalization", x, second, epsilon=EPSILON, axis=-1)
    g = b("MatMul", y, gate)
    y = b("MatMul", b("Mul", b("Mul", g, b("Sigmoid", g)), b("MatMul", y, up)), down)
    b("Add", x, y, out="y")
    return function("LlamaDecoderLayer", ["x", "cos", "sin", "mask", *(name for name, _ in WEIGHTS)], ["y"], b.nodes, opset=23)


class Weights:
    def __init__(self):
        self.offset, self.tensors = 0, []

    def add(self, name, dims):
        count = 4
        for size in dims:
            count *= size
        self.tensors.append(tensor(name, dims, FLOAT, external={"location": "llama-70b.data", "offset": self.offset, "length": count}))
        self.offset += count
        return name


def write(layers):
    b, weights = Body(), Weights()
    length = b("Squeeze", b("Shape", "input_ids", start=1))
    positions = b("Range", "zero", length, "one")
    angles = b("Mul", b("Unsqueeze", b("Cast", positions, to=FLOAT), b.numbers(1)), "inv_freq")
    both = b("Concat", angles, angles, axis=-1)
    cos, sin = b("Cos", both), b("Sin", both)
    mask = b("LessOrEqual", b("Unsqueeze", positions, b.numbers(0)), b("Unsqueeze", positions, b.numbers(1)))
    x = b("Gather", weights.add("model.embed_tokens.weight", [VOCABULARY, WIDTH]), "input_ids")
    for i in range(layers):
        names = [weights.add(f"model.layers.{i}.{name}", dims) for name, dims in WEIGHTS]
        scope = {"pkg.torch.onnx.name_scopes": f"['', 'model', 'model.layers.{i}', 'layer_{i}']",
                 "pkg.torch.onnx.class_hierarchy": "['LlamaForCausalLM', 'LlamaModel', 'LlamaDecoderLayer', 'layer']"}
        b.nodes.append(node("LlamaDecoderLayer", [x, cos, sin, mask, *names], [f"hidden_{i}"], f"layer_{i}", domain="local", meta=scope))
        x = f"hidden_{i}"
    x = b("RMSNormalization", x, weights.add("model.norm.weight", [WIDTH]), epsilon=EPSILON, axis=-1)
    logits = b("MatMul", x, weights.add("lm_head.weight", [WIDTH, VOCABULARY]))
    rows = b("Reshape", logits, b.numbers(-1, VOCABULARY))
    b("SoftmaxCrossEntropyLoss", rows, b("Reshape", "labels", b.numbers(-1)), out="loss", ignore_index=-100, reduction="mean")
    half = HEAD // 2
    small = [ints("zero", [], [0]), ints("one", [], [1]), floats("inv_freq", [half], [THETA ** (-i / half) for i in range(half)])]
    inputs = [value(name, ["batch", "sequence"], INT64) for name in ("input_ids", "labels")]
    return model(graph(b.nodes, inputs, [value("loss", [])], small + weights.tensors), opsets=(("", 23), ("local", 1)), functions=[layer()], ir=10)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder", nargs="?", default=HERE, type=pathlib.Path)
    p.add_argument("--layers", type=int, default=80)
    a = p.parse_args()
    (a.folder / "llama-70b.onnx").write_bytes(write(a.layers))


if __name__ == "__main__":
    main()
