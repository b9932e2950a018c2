"""Compares the gradients of activations at and near their kinks with PyTorch's: ties.py FOLDER.

The expected numbers are from torch 2.15, for the sum of the result of the named functions.
"""
import pathlib
import subprocess
import sys

import numpy as np

from onnx_writer import *

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "e2e" / "lib"))
from runner import read_safetensors, save_safetensors  # noqa: E402

NAN = float("nan")
X = [-3, -1, 0, 0.5, 1, 3, 6]
CASES = [  # PyTorch's name, operator, attributes, further operands, gradient at each of X
    ("relu", "Relu", {}, [], [0, 0, 0, 1, 1, 1, 1]),
    ("clamp(min=0)", "Clip", {}, [0], [0, 0, 0, 1, 1, 1, 1]),
    ("clamp(0, 1)", "Clip", {}, [0, 1], [0, 0, 0, 1, 0, 0, 0]),
    ("clamp(max=1)", "Clip", {}, [None, 1], [1, 1, 1, 1, 0, 0, 0]),
    ("relu6", "Clip", {}, [0, 6], [0, 0, 0, 1, 1, 1, 0]),
    ("leaky_relu(0.125)", "LeakyRelu", {"alpha": 0.125}, [], [0.125, 0.125, 0.125, 1, 1, 1, 1]),
    ("elu", "Elu", {}, [], [0.049787, 0.367879, 1, 1, 1, 1, 1]),
    ("celu(2)", "Celu", {"alpha": 2.0}, [], [0.22313, 0.606531, 1, 1, 1, 1, 1]),
    ("selu", "Selu", {}, [], [0.087531, 0.646769, 1.758099, 1.050701, 1.050701, 1.050701, 1.050701]),
    ("prelu(0.25)", "PRelu", {}, [0.25], [0.25, 0.25, 0.25, 1, 1, 1, 1]),
    ("hardsigmoid", "HardSigmoid", {"alpha": 1 / 6, "beta": 0.5}, [], [0, 1 / 6, 1 / 6, 1 / 6, 1 / 6, 0, 0]),
    ("hardswish", "HardSwish", {}, [], [0, 1 / 6, 0.5, 2 / 3, 5 / 6, 1, 1]),
    ("threshold(1, 0)", "ThresholdedRelu", {"alpha": 1.0}, [], [0, 0, 0, 0, 0, 1, 1]),
    ("softplus", "Softplus", {}, [], [0.047426, 0.268941, 0.5, 0.622459, 0.731059, 0.952574, 0.997527]),
    ("abs", "Abs", {}, [], [-1, -1, 0, 1, 1, 1, 1]),
    ("maximum(x, 1)", "Max", {}, [1], [0, 0, 0, 0, 0.5, 1, 1]),
    ("minimum(x, 1)", "Min", {}, [1], [1, 1, 1, 1, 0.5, 0, 0]),
]

# The same operators as PyTorch's exporter writes them: its record tells which operation they stand for.
Y = [0, 2, 2, 1, 2, -1, 0]
TRACED = [  # PyTorch's name, operator, attributes, further operands, x, gradient, traced operation and its arguments, line of source
    ("clamp(min=0)", "Max", {}, [0], X, [0, 0, 0, 1, 1, 1, 1], "aten.clamp.default", ""),
    ("clamp(max=1)", "Min", {}, [1], X, [1, 1, 1, 1, 0, 0, 0], "aten.clamp_max.default", ""),
    ("clamp(min=0) of tensors", "Max", {}, [0], X, [0, 0, 0, 1, 1, 1, 1], "aten.clamp.Tensor %moved, %scalar_tensor_default", ""),
    ("clamp(min=tensor(0))", "Max", {}, [0], X, [0, 0, 0.5, 1, 1, 1, 1], "aten.clamp.Tensor", ""),
    ("clamp(max=tensor(1))", "Min", {}, [1], X, [1, 1, 1, 1, 0.5, 0, 0], "aten.clamp_max.Tensor", ""),
    ("maximum(x, 1)", "Max", {}, [1], X, [0, 0, 0, 0, 0.5, 1, 1], "aten.maximum.default", ""),
    ("amax()", "ReduceMax", {}, [], Y, [0, 1 / 3, 1 / 3, 0, 1 / 3, 0, 0], "aten.amax.default", ""),
    ("max(0)", "ReduceMax", {}, [], Y, [0, 1, 0, 0, 0, 0, 0], "aten.max.dim", ""),
    ("max(0, keepdim=True)", "ReduceMax", {"keepdims": 1}, [], Y, [0, 1, 0, 0, 0, 0, 0], "aten.max.dim", ""),
    ("min(0)", "ReduceMin", {}, [], [-y for y in Y], [0, 1, 0, 0, 0, 0, 0], "aten.min.dim", ""),
    # The result is NaN, so that the step is left out: x keeps its elements.
    ("max(0) of NaN", "ReduceMax", {}, [], [NAN, 2, 2, 1, 2, -1, 0], [NAN, 0, 0, 0, 0, 0, 0], "aten.max.dim", ""),
    ("linalg.vector_norm()", "ReduceL2", {}, [], [0] * 7, [0] * 7, "aten.linalg_vector_norm.default", ""),
    ("linalg.vector_norm()", "ReduceL2", {}, [], [0, 3, 0, 4, 0, 0, 0], [0, 0.6, 0, 0.8, 0, 0, 0], "aten.linalg_vector_norm.default", ""),
    # The record tells a deviation, whatever its line of source is: that of a function that calls the model's, or one with another sqrt().
    ("std(), the root of the variance", "Sqrt", {}, [], [0, 1, 4, 0.25, 16, 0, 1], [0, 0.5, 0.25, 1, 0.125, 0, 0.5], "aten.sqrt.default %var_3",
     "return spread(h) + h.mean().sqrt()"),
    ("sqrt()", "Sqrt", {}, [], [1, 1, 4, 0.25, 16, 1, 1], [0.5, 0.5, 0.25, 1, 0.125, 0.5, 0.5], "aten.sqrt.default %sqrt", "h = h.std(-1).sqrt()"),
    ("sqrt() of no deviation", "Sqrt", {}, [], [0, 4], [0, 0], "aten.sqrt.default %add", "h = h.std(-1)"),
]

# Operations that the exporter writes as several nodes, of which the last one's result is read: by their record, and by their form in files
# without one. A node is an operator and its operands: "x", a number, or the number of a node before it as a string.
LOG, FAR = ("Log", "0"), [-1000, -300, -100, 0, 100, 300]
CHAINS = [  # PyTorch's name, nodes, x, gradient, traced operation; empty: no record
    (name, nodes, x, wanted, traced) for name, nodes, x, wanted, operation in [
        ("logsigmoid", [("Sigmoid", "x"), LOG], FAR, [1, 1, 1, 0.5, 0, 0], "log_sigmoid"),
        ("logaddexp(x, 2x)", [("Exp", "x"), ("Mul", "x", 2), ("Exp", "1"), ("Add", "0", "2"), ("Log", "3")], FAR, [1, 1, 1, 1.5, 2, 2], "logaddexp"),
        # The gradient of log(f(x)) near 0 needs the digits of f(x).
        ("log(log1p())", [("Add", "x", 1), ("Log", "0"), ("Log", "1")], [1e-9, 1e-4, 1], [1e9, 1e4 - 0.5, 0.5 / np.log(2)], "log1p"),
        ("log(expm1())", [("Exp", "x"), ("Sub", "0", 1), ("Log", "1")], [1e-9, 1e-4, 1], [1e9, 1e4 + 0.5, 1.5819767], "expm1"),
        ("log(erfcx())", [("Mul", "x", "x"), ("Exp", "0"), ("Erf", "x"), ("Sub", 1, "2"), ("Mul", "1", "3"), ("Log", "4")], [-9, 0, 1, 3],
         [-18.0, -1.128379, -0.6389675, -0.3037537], "special_erfcx"),
        ("log(erfc())", [("Erf", "x"), ("Sub", 1, "0"), ("Log", "1")], [0, 5, 9], [-1.1283792, -10.1927001, -18.1097799], "erfc"),
    ] for traced in (f"aten.{operation}.default", "")] + [
    ("special.log_ndtr()", [
        ("Mul", "x", 0.5**0.5), ("Less", "x", 1), ("Neg", "0"), ("Mul", "2", "2"), ("Exp", "3"), ("Erf", "2"), ("Sub", 1, "5"), ("Mul", "4", "6"),
        ("Div", "7", 2), ("Log", "8"), ("Mul", "0", "0"), ("Sub", "9", "10"), ("Erf", "0"), ("Sub", 1, "12"), ("Neg", "13"), ("Div", "14", 2), ("Add", "15", 1),
        ("Log", "16"), ("Where", "1", "11", "17")], [-50, -13, -1, 0, 3, 20],
        [50.019984, 13.0760386, 1.52513528, 0.79788456, 0.00443783904, 0], ""),
    ("log(1 - sigmoid())", [("Sigmoid", "x"), ("Sub", 1, "0"), ("Log", "1")], FAR, [0, 0, 0, -0.5, -1, -1], ""),
    ("log(log(1 - x))", [("Sub", 1, "x"), ("Log", "0"), ("Neg", "1"), ("Log", "2")], [1e-9, 1e-4], [1e9, 1e4 + 0.5], ""),
    # What the user wrote himself stays what PyTorch computes: a gradient that is not finite, with which x keeps its elements.
    ("log(log(1 + x))", [("Add", "x", 1), ("Log", "0"), ("Log", "1")], [1e-9, 1], [0, 0], "aten.log.default"),
    ("log(sigmoid())", [("Sigmoid", "x"), LOG], [-1000, 0], [0, 0], "aten.log.default"),
    ("xlogy(x, 4)", [("Equal", "x", 0), ("Mul", "x", np.log(4)), ("Where", "0", "x", "1")], [0, 1, -1], [np.log(4)] * 3, "aten.xlogy.Tensor"),
    ("xlogy(x, x)", [("IsNaN", "x"), ("Equal", "x", 0), ("Log", "x"), ("Mul", "x", "2"), ("Where", "0", "x", "3"), ("Where", "1", "x", "4")], [1, 0.5, 2],
     [1, 1 + np.log(0.5), 1 + np.log(2)], "aten.xlogy.Tensor"),
    ("sinc()", [("Mul", "x", np.pi), ("Equal", "x", 0), ("Sin", "0"), ("Div", "2", "0"), ("Where", "1", 1, "3")], [0, 1, 0.5], [0, -1, -4 / np.pi],
     "aten.sinc.default"),
    ("remainder(x, 3)", [("Div", "x", 3), ("Floor", "0"), ("Mul", "1", 3), ("Sub", "x", "2")], [-4, 0, 7], [1, 1, 1], "aten.remainder.Scalar"),
]


# Windows over [1, 1, sizes]: of equal elements the first has the gradient, as in PyTorch's max_pool1d, max_pool2d and adaptive_max_pool2d.
POOLS = [  # operator, attributes, x, gradient
    ("MaxPool", {"kernel_shape": [4], "strides": [4]}, [[1, 2, 2, 0, 1, 1, 1, 1]], [0, 1, 0, 0, 1, 0, 0, 0]),
    ("MaxPool", {"kernel_shape": [3], "strides": [1], "pads": [1, 1]}, [[1, 2, 2, 0, 0]], [0, 3, 1, 1, 0]),
    ("MaxPool", {"kernel_shape": [2, 2], "strides": [1, 1]}, [[[1, 1, 3], [1, 3, 3]]], [0, 0, 1, 0, 1, 0]),
    ("MaxPool", {"kernel_shape": [3], "strides": [1]}, [[NAN, 1, 2, 2, 2]], [NAN, 0, 0, 0, 0]),
    ("MaxPool", {"kernel_shape": [2], "strides": [1]}, [[1, NAN, 2]], [0, NAN, 0]),
    ("GlobalMaxPool", {}, [[[1, 3], [3, 3]]], [0, 1, 0, 0]),
]


def gradient(folder, op, attributes, operands, x=X, meta={}):  # noqa: B006
    names = ["x"] + ["" if operand is None else f"c{i}" for i, operand in enumerate(operands)]
    constants = [floats(f"c{i}", [], [operand]) for i, operand in enumerate(operands) if operand is not None]
    body = [node("Add", ["x", "zero"], ["moved"]), node(op, ["moved", *names[1:]], ["y"], meta=meta, **attributes),
            node("ReduceSum", ["y"], ["loss"], keepdims=0)]
    return trained(folder, body, x, constants)


def trained(folder, body, x, constants):
    """The gradient of `loss`, which `body` computes of `moved`, the sum of the parameter x and an input of zeros."""
    (folder / "model.onnx").write_bytes(model(graph(body, [value("zero", [len(x)])], [value("loss", [])], [floats("x", [len(x)], x), *constants])))

    def run(*command):
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)

    save_safetensors(folder / "batches.safetensors", {"zero": np.zeros((1, len(x)), np.float32)})
    run("shale-translate", "--import-onnx", folder / "model.onnx", "--quiet", "-o", folder / "forward.mlir")
    run("shale-opt", folder / "forward.mlir", "--shale-autodiff=optimizer=sgd", "-o", folder / "step.mlir")
    run("shale-run", folder / "step.mlir", "--steps=1", "--lr=1", "--momentum=0", "--weight-decay=0", f"--batches={folder}/batches.safetensors",
        f"--model-dir={folder}", f"--out={folder}/out.safetensors")
    return x - read_safetensors(folder / "out.safetensors")["x"].astype(np.float64)


def record(target, args="%moved,", line=""):
    return {"pkg.torch.onnx.fx_node": f"%y : [num_users=1] = call_function[target=torch.ops.{target}](args = ({args}), kwargs = {{}})",
            "pkg.torch.onnx.stack_trace": f'File "model.py", line 1, in forward\n    {line}'}


def chained(folder, nodes, x, traced):
    """The gradient of what a list of nodes computes."""
    body, constants = [node("Add", ["x", "zero"], ["moved"])], []
    for i, (op, *operands) in enumerate(nodes):
        names = ["moved" if operand == "x" else f"n{operand}" if isinstance(operand, str) else f"c{i}{k}" for k, operand in enumerate(operands)]
        constants += [floats(name, [], [operand]) for name, operand in zip(names, operands) if not isinstance(operand, str)]
        body.append(node(op, names, [f"n{i}"], meta=record(traced) if traced else {}))
    body.append(node("ReduceSum", [f"n{len(nodes) - 1}"], ["loss"], keepdims=0))
    return trained(folder, body, x, constants)


def pooled(folder, op, attributes, x):
    x = np.array(x)
    body = [node("Add", ["x", "zero"], ["moved"]), node("Reshape", ["moved", "shape"], ["image"]), node(op, ["image"], ["y"], **attributes),
            node("ReduceSum", ["y"], ["loss"], keepdims=0)]
    return trained(folder, body, x.flatten(), [ints("shape", [x.ndim + 1], [1, *x.shape])])


def clamped_log(folder, x):
    """max(log(x), -100) as in F.binary_cross_entropy."""
    meta = {"pkg.torch.onnx.fx_node": "%y : [num_users=1] = call_function[target=torch.ops.aten.maximum.default](args = (%log, %new_full), kwargs = {})"}
    body = [node("Add", ["x", "zero"], ["moved"]), node("Log", ["moved"], ["log"]), node("Max", ["log", "least"], ["y"], meta=meta),
            node("ReduceSum", ["y"], ["loss"], keepdims=0)]
    return trained(folder, body, x, [floats("least", [], [-100.0])])


def check(what, found, wanted, relative=0):
    if not np.allclose(found, wanted, rtol=relative, atol=2e-6, equal_nan=True):
        sys.exit(f"{what}: {found.round(6).tolist()}, not {wanted}")


folder = pathlib.Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
for what, op, attributes, operands, wanted in CASES:
    check(what, gradient(folder, op, attributes, operands), wanted)
for what, op, attributes, operands, x, wanted, traced, line in TRACED:
    target, _, args = traced.partition(" ")
    check(f"{what} as exported", gradient(folder, op, attributes, operands, x, record(target, args or "%moved,", line)), wanted)
for what, nodes, x, wanted, traced in CHAINS:
    check(f"{what} {'as exported' if traced else 'without a record'}", chained(folder, nodes, x, traced), wanted, relative=1e-6)
for op, attributes, x, wanted in POOLS:
    check(f"{op} of {x}", pooled(folder, op, attributes, x), wanted)
check("binary_cross_entropy", clamped_log(folder, np.float32([0, 1e-30, 0.25, 0.5, 1])), [1e12, 1e12, 4, 2, 0], relative=1e-6)
print(f"{len(CASES) + len(TRACED) + len(CHAINS) + len(POOLS) + 1} right")
