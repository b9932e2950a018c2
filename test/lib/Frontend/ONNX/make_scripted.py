"""Writes one of the small models below in the form that PyTorch's TorchScript exporter leaves: make_scripted.py CASE FILE.

No signature lists the parameters. Transposed weights have names such as onnx::MatMul_1, and an Identity node has the name of a parameter
whose elements another one has, too. x is [batch, 4].
"""
import os
import sys
from onnx_writer import *

SQUARE = [0.125 * i * i % 1.7 - 0.5 for i in range(16)]
TABLE = [0.125 * i * i % 2.3 - 0.5 for i in range(32)]
LOSS = [node("Mul", ["y", "y"], ["sq"], "/m/Mul_9"), node("ReduceMean", ["sq"], ["loss"], "/m/ReduceMean", keepdims=0)]


def build(nodes, initializers, producer=b"pytorch", inputs=(("x", ["batch", 4], FLOAT),)):
    body = graph(nodes + LOSS, [value(*one) for one in inputs], [value("loss", [])], initializers)
    return model(body, extra=field(2, producer))


def layer(module, weight, bias, x, y):
    return [node("MatMul", [x, weight], [f"{y}_product"], f"/m/{module}/MatMul"), node("Add", [bias, f"{y}_product"], [y], f"/m/{module}/Add")]


def merged(second="b", producer=b"pytorch", last="onnx::MatMul_1"):
    """Two layers of equal elements. `second`: b, or a_1 for the second call of a."""
    again = second == "a_1"
    nodes = [node("Identity", [last], ["onnx::MatMul_2"], "Identity_1")] + ([] if again else [node("Identity", ["m.a.bias"], ["m.b.bias"], "Identity_2")])
    nodes += layer("a", "onnx::MatMul_1", "m.a.bias", "x", "h") + layer(second, "onnx::MatMul_2", "m.a.bias" if again else "m.b.bias", "h", "y")
    return build(nodes, [floats("m.a.bias", [4], [0.0] * 4), floats("onnx::MatMul_1", [4, 4], SQUARE)], producer)


def optimized(producer, opsets=(("", 18),), name="m.a.bias"):
    """ONNX Runtime removed the Identity of the second bias, and fused its addition to a node without a path."""
    weights = [floats(name, [4], [0.0] * 4), floats("onnx::MatMul_1", [4, 4], SQUARE), floats("onnx::MatMul_2", [4, 4], SQUARE[::-1])]
    second = [node("MatMul", ["h", "onnx::MatMul_2"], ["y_product"], "/m/b/MatMul"), node("Add", ["y_product", name], ["/m/b/Add_output_0"], "FusedAdd"),
              node("Tanh", ["/m/b/Add_output_0"], ["y"], "/m/Tanh")]
    body = graph(layer("a", "onnx::MatMul_1", name, "x", "h") + second + LOSS, [value("x", ["batch", 4])], [value("loss", [])], weights)
    return model(body, opsets=opsets, extra=field(2, producer))


def head(elements, rows=8, table=TABLE):
    """A table of tokens, and a head with the transposed elements, or others."""
    turned = [elements[r * 4 + c] for c in range(4) for r in range(rows)]
    nodes = [node("Gather", ["m.table.weight", "ids"], ["h"], "/m/table/Gather"), node("MatMul", ["h", "onnx::MatMul_1"], ["y"], "/m/head/MatMul")]
    return build(nodes, [floats("m.table.weight", [rows, 4], table[:rows * 4]), floats("onnx::MatMul_1", [4, rows], turned)], inputs=(("ids", ["batch", 4], INT64),))


def scaled(name, dims, values):
    nodes = layer("a", "onnx::MatMul_1", "m.a.bias", "x", "h") + [node("Mul", ["h", name], ["y"], "/m/Mul")]
    return build(nodes, [floats("m.a.bias", [4], SQUARE[:4]), floats("onnx::MatMul_1", [4, 4], SQUARE), floats(name, dims, values)])


def broken(identities, weight=floats("onnx::MatMul_1", [4, 4], SQUARE)):
    return build(identities + layer("a", "onnx::MatMul_1", "m.a.bias", "x", "y"), [floats("m.a.bias", [4], SQUARE[:4]), weight])


def twice(scope, biases=None):
    """Two products with equal weights, in the modules a and `scope`. `biases`: those of a and of `scope`, which are merged if they are equal."""
    nodes = [node("Identity", ["onnx::MatMul_1"], ["onnx::MatMul_2"], "Identity_1")]
    weights = [floats("onnx::MatMul_1", [4, 4], SQUARE)]
    if not biases:
        nodes += [node("MatMul", ["x", "onnx::MatMul_1"], ["h"], "/m/a/MatMul"), node("Tanh", ["h"], ["t"], "/m/Tanh"), node("MatMul", ["t", "onnx::MatMul_2"], ["y"], f"/m/{scope}/MatMul")]
        return build(nodes, weights)
    equal = biases[0] == biases[1]
    nodes += [node("Identity", ["m.a.bias"], [f"m.{scope}.bias"], "Identity_2")] if equal else []
    weights += [floats("m.a.bias", [4], biases[0])] + ([] if equal else [floats(f"m.{scope}.bias", [4], biases[1])])
    return build(nodes + layer("a", "onnx::MatMul_1", "m.a.bias", "x", "h") + layer(scope, "onnx::MatMul_2", f"m.{scope}.bias", "h", "y"), weights)


def unnamed():
    """F.linear(tanh(F.linear(x, self.w)), self.v) in one module."""
    nodes = [node("MatMul", ["x", "onnx::MatMul_1"], ["h"], "/m/a/MatMul"), node("Tanh", ["h"], ["t"], "/m/a/Tanh"), node("MatMul", ["t", "onnx::MatMul_2"], ["y"], "/m/a/MatMul_1")]
    return build(nodes, [floats("onnx::MatMul_1", [4, 4], SQUARE), floats("onnx::MatMul_2", [4, 4], SQUARE[::-1])])


def projection():
    nodes = layer("a", "onnx::MatMul_1", "m.a.in_proj_bias", "x", "y")
    return build(nodes, [floats("m.a.in_proj_bias", [4], SQUARE[:4]), floats("onnx::MatMul_1", [4, 4], SQUARE)])


CASES = {
    "named-twice": lambda: twice("a_1", ([0.5] * 4, [0.5] * 4)),
    "bare": lambda: twice("b"),
    "bare-twice": lambda: twice("a_1"),
    "other-biases": lambda: twice("b", ([0.5] * 4, [0.25] * 4)),
    "projection": projection,
    "unnamed": unnamed,
    "merged": lambda: merged(),
    "called-twice": lambda: merged("a_1"),
    "optimized": lambda: optimized(b"onnxruntime.transformers"),
    "saved": lambda: optimized(b"pytorch", (("", 18), ("com.microsoft", 1))),
    "shared": lambda: optimized(b"pytorch"),
    "other-producer": lambda: merged(producer=b"somebody"),
    "tied": lambda: head(TABLE),
    "not-tied": lambda: head(TABLE[::-1]),
    "padding": lambda: head(TABLE[::-1], table=TABLE[:20] + [0.0] * 4 + TABLE[24:]),
    "zero-rows": lambda: head(TABLE[::-1], table=TABLE[:16] + [0.0] * 8 + TABLE[24:]),
    "scalar": lambda: scaled("m.scale", [], [0.5]),
    "fold": lambda: scaled("onnx::Mul_2", [4], [1.0, 0.5, 0.25, 2.0]),
    "number": lambda: scaled("onnx::Mul_2", [], [0.5]),
    "no-operand": lambda: broken([node("Identity", [], ["m.b.bias"], "Identity_1")]),
    "twice": lambda: broken([node("Identity", ["m.a.bias"], ["m.b.bias"], "Identity_1"), node("Identity", ["m.a.bias"], ["m.b.bias"], "Identity_2")]),
    "itself": lambda: broken([node("Identity", ["m.b.bias"], ["m.b.bias"], "Identity_1")]),
    "short": lambda: broken([], tensor("onnx::MatMul_1", [4, 4], raw=b"1234")),
    "empty-table": lambda: head([], 0),
}

case, path = sys.argv[1:]
os.makedirs(os.path.dirname(path), exist_ok=True)
with open(path, "wb") as out:
    out.write(CASES[case]())
