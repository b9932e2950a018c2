"""Imports each convolution and pool below as a graph with one node, runs it and compares it with explicit sums: conv.py FOLDER.

The loss is a weighted sum of the result, so every element counts. Convolutions have small integers, so sums are exact in any
order. Gradients are compared with central differences.
"""
import itertools
import pathlib
import sys

import numpy as np

from definition import expect_refusal, run
from onnx_writer import *

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "e2e" / "lib"))
from runner import read_safetensors, save_safetensors  # noqa: E402

CASES = [  # name, shapes of input and weight, attributes, bias
    ("patches", (2, 3, 6, 8), (5, 3, 2, 4), {"strides": [2, 4]}, True),
    ("patches with a rest", (2, 3, 7, 9), (5, 3, 3, 3), {"strides": [3, 3]}, False),
    ("patches in groups", (2, 4, 6, 4), (6, 2, 2, 2), {"strides": [2, 2], "group": 2}, True),
    ("1x1", (2, 3, 4, 5), (6, 3, 1, 1), {}, True),
    ("1x1, stride 2", (2, 3, 5, 5), (6, 3, 1, 1), {"strides": [2, 2]}, False),
    ("3x3, same size", (2, 3, 5, 4), (4, 3, 3, 3), {"pads": [1, 1, 1, 1]}, True),
    ("kernel of the input's size", (2, 3, 3, 4), (4, 3, 3, 4), {}, True),
    ("stride, uneven padding, dilation", (2, 2, 9, 8), (3, 2, 3, 2), {"strides": [2, 1], "pads": [0, 2, 1, 0], "dilations": [2, 3]}, True),
    ("SAME_UPPER", (1, 2, 5, 6), (3, 2, 2, 4), {"auto_pad": "SAME_UPPER", "strides": [2, 1]}, False),
    ("SAME_LOWER", (1, 2, 5, 6), (3, 2, 2, 4), {"auto_pad": "SAME_LOWER", "strides": [2, 1]}, False),
    ("VALID", (1, 2, 5, 6), (3, 2, 2, 4), {"auto_pad": "VALID", "kernel_shape": [2, 4]}, False),
    ("groups", (2, 6, 5, 4), (4, 3, 3, 2), {"group": 2, "pads": [1, 0, 1, 1]}, True),
    ("depthwise", (2, 4, 5, 5), (4, 1, 3, 3), {"group": 4, "pads": [1, 1, 1, 1], "strides": [2, 2]}, True),
    ("depthwise, two results a channel", (2, 3, 5, 4), (6, 1, 2, 3), {"group": 3}, True),
    ("1-D, same size", (2, 3, 7), (4, 3, 3), {"pads": [1, 1]}, True),
    ("1-D, stride 2", (2, 3, 8), (4, 3, 3), {"pads": [1, 1], "strides": [2]}, True),
    ("1-D, causal, depthwise", (2, 5, 7), (5, 1, 4), {"pads": [3, 0], "group": 5}, True),
    ("1-D, causal, depthwise, dilated", (2, 5, 9), (5, 1, 3), {"pads": [4, 0], "group": 5, "dilations": [2]}, False),
    ("1-D, one channel", (2, 1, 7), (4, 1, 3), {"pads": [1, 1]}, True),
]
X, W = (2, 4, 5, 6), (6, 4, 3, 3)
BAD = [  # shapes of input and weight, attributes, shape of the bias, part of the error
    ((2, 4, 5, 6, 7), (6, 4, 3, 3, 3), {}, None, "convolutions of one and two dimensions are supported"),
    ((2, 4), (6, 4), {}, None, "convolutions of one and two dimensions are supported"),
    ((2, 4, 5), W, {}, None, "convolutions of one and two dimensions are supported"),
    (X, (6, 3, 3, 3), {}, None, "1 groups of input tensor<2x4x5x6xf32> and weight tensor<6x3x3x3xf32> do not fit"),
    (X, W, {"group": 3}, None, "3 groups of input"),
    (X, W, {"group": 0}, None, "0 groups of input"),
    (X, W, {"group": -1}, None, "-1 groups of input"),
    (X, W, {"kernel_shape": [2, 3]}, None, "kernel_shape is not that of the weight"),
    (X, W, {"strides": [0, 1]}, None, "strides has the value 0"),
    (X, W, {"strides": [1]}, None, "strides has 1 values for 2 spatial dimensions"),
    (X, W, {"dilations": [1, 1 << 40]}, None, "dilations has the value 1099511627776"),
    (X, W, {"dilations": [3, 1]}, None, "the kernel spans 7 elements of a dimension that has 5 with its padding"),
    (X, W, {"pads": [1, 1]}, None, "pads has 2 values for 2 spatial dimensions"),
    (X, W, {"pads": [-1, 0, 0, 0]}, None, "pads are negative or too large"),
    (X, W, {"pads": [0, 1 << 62, 0, 0]}, None, "pads are negative or too large"),
    (X, W, {"pads": [(1 << 31) - 1] * 4}, None, "the result's size overflows 64 bits"),
    (X, W, {"auto_pad": "EVEN"}, None, "auto_pad 'EVEN' is not one of"),
    (X, W, {"auto_pad": 3}, None, "attribute 'auto_pad' must be a string"),
    (X, W, {}, (5,), "the bias is tensor<5xf32> for 6 channels"),
    (X, W, {}, (6, 1), "the bias is tensor<6x1xf32> for 6 channels"),
    ((1, 1, 40, 40), (1, 1, 17, 17), {}, None, "a kernel of 289 elements whose windows overlap"),
]


def convolve(x, w, bias, attributes):
    """The operator by its definition, one result element at a time."""
    spatial = x.ndim - 2
    groups, strides = attributes.get("group", 1), attributes.get("strides", [1] * spatial)
    dilations, pads = attributes.get("dilations", [1] * spatial), attributes.get("pads", [0] * 2 * spatial)
    extents = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilations)]
    if attributes.get("auto_pad", "").startswith("SAME"):
        sums = [max(0, (-(-n // s) - 1) * s + e - n) for n, s, e in zip(x.shape[2:], strides, extents)]
        less, more = [p // 2 for p in sums], [p - p // 2 for p in sums]
        pads = less + more if attributes["auto_pad"] == "SAME_UPPER" else more + less
    x = np.pad(x, [(0, 0), (0, 0), *zip(pads[:spatial], pads[spatial:])])
    places = [(n - e) // s + 1 for n, e, s in zip(x.shape[2:], extents, strides)]
    y = np.zeros((x.shape[0], w.shape[0], *places))
    per_group = w.shape[0] // groups
    for n, m, *at in itertools.product(*map(range, y.shape)):
        first = m // per_group * w.shape[1]
        for c, *k in itertools.product(*map(range, w.shape[1:])):
            y[(n, m, *at)] += w[(m, c, *k)] * x[(n, first + c, *(a * s + i * d for a, s, i, d in zip(at, strides, k, dilations)))]
    return y + (0 if bias is None else bias.reshape(-1, *[1] * spatial))


def loss_of(folder, op, arrays, expected, attributes):
    """Returns Shale's sum of result * weight and the expected sum. Also checks the gradients."""
    names = list(arrays)
    random = np.random.default_rng(expected.size)
    arrays["weight"] = random.integers(-9, 10, expected.shape).astype(np.float32)
    body = [node(op, names, ["y"], "it", **attributes), node("Mul", ["y", "weight"], ["z"]), node("ReduceSum", ["z"], ["loss"], keepdims=0)]
    weights = [floats(name, list(array.shape), array.flatten()) for name, array in arrays.items() if name != "weight"]
    (folder / "model.onnx").write_bytes(model(graph(body, [value("weight", list(expected.shape))], [value("loss", [])], weights)))
    save_safetensors(folder / "inputs.safetensors", arrays)
    text = run("shale-translate", "--import-onnx", folder / "model.onnx")
    (folder / "model.mlir").write_text(text)
    run("shale-run", "--check-gradient", f"--inputs={folder}/inputs.safetensors", f"--out={folder}/out.safetensors", folder / "model.mlir")
    ops = sorted({line.split("nn.")[1].split()[0] for line in text.splitlines() if " = nn." in line} - {"constant"})
    return read_safetensors(folder / "out.safetensors")["loss"], (expected * arrays["weight"]).sum(), " ".join(ops)


def check(folder, what, shape, kernel, attributes, biased):
    random = np.random.default_rng(len(what))
    arrays = {"x": random.integers(-9, 10, shape).astype(np.float32), "w": random.integers(-9, 10, kernel).astype(np.float32)}
    if biased:
        arrays["b"] = random.integers(-9, 10, kernel[0]).astype(np.float32)
    loss, wanted, ops = loss_of(folder, "Conv", dict(arrays), convolve(arrays["x"], arrays["w"], arrays.get("b"), attributes), attributes)
    if loss != wanted:
        sys.exit(f"{what}: {loss}, not {wanted}")
    print(f"{what}: right, by {ops}")


def check_pool(folder):
    x = np.random.default_rng(0).standard_normal((2, 3, 4, 5)).astype(np.float32)
    loss, wanted, ops = loss_of(folder, "GlobalAveragePool", {"x": x}, x.mean((2, 3), keepdims=True, dtype=np.float64), {})
    if abs(loss - wanted) > 1e-6 * abs(x).sum():
        sys.exit(f"pool: {loss}, not {wanted}")
    print(f"pool: right, by {ops}")


def refuse(folder, op, shapes, attributes, message):
    names = [name for name, shape in shapes.items() if shape is not None]
    body = [node(op, names, ["y"], "it", **attributes), node("ReduceSum", ["y"], ["loss"], keepdims=0)]
    (folder / "model.onnx").write_bytes(model(graph(body, [value(name, list(shapes[name])) for name in names], [value("loss", [])])))
    expect_refusal(folder / "model.onnx", f"node 'it' ({op}): {message}", f"{shapes} {attributes}")


folder = pathlib.Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
for case in CASES:
    check(folder, *case)
check_pool(folder)
for x, w, attributes, bias, message in BAD:
    refuse(folder, "Conv", {"x": x, "w": w, "b": bias}, attributes, message)
refuse(folder, "GlobalAveragePool", {"x": (3, 4)}, {}, "operand 0 must have 3 or more dimensions, but is tensor<3x4xf32>")
print(f"{len(CASES) + 1} right, {len(BAD) + 1} refused")
