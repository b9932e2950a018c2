"""Writes models with folded values and the exporter's list of what they were folded from: make_origins.py CASE FILE."""
import os
import sys
from onnx_writer import *

from make_folded import VALUES, build, fx

FOLDED = "pkg.onnxscript.optimizer.folded_from"
ONES = [1.0] * 4


def folded(name, dims, values, origins):
    return floats(name, dims, values), value(name, dims, meta={FOLDED: str(origins)})


def scaled(parameter, name, dims, values, origins, buffers=()):
    """y = x times a folded value."""
    constant, info = folded(name, dims, values, origins)
    meta = fx("y", "aten.mul.Tensor", f"%x, %{name}", source="return scan(x, self.a)")
    return lambda f: build([parameter], [constant], [node("Mul", ["x", name], ["y"], "scale", meta=meta)], values=[info], buffers=list(buffers))


def twins():
    """Two layers scale by D of ones: the exporter merged the values. The second name has no list."""
    constant, info = folded("unsqueeze", [1, 4], ONES, ["layers.0.D", "val_1"])
    first = fx("mul", "aten.mul.Tensor", "%x, %unsqueeze", "layers.0", "return scan(x)")
    second = fx("y", "aten.mul.Tensor", "%mul, %unsqueeze_1", "layers.1", "return scan(x)")
    nodes = [node("Mul", ["x", "unsqueeze"], ["mul"], "first", meta=first),
             node("Mul", ["mul", "unsqueeze"], ["y"], "second", meta=second)]
    return lambda f: build(["layers.0.D", "layers.1.D"], [constant], nodes, values=[info])


def equal(names):
    """x times -exp(a), then times a value that was merged with it, under another name and from another line: the file does not say of which parameter it is."""
    constant, info = folded("neg", [4], [-1.0, -2.0, -3.0, -4.0], [names[0], "exp"])
    nodes = [node("Mul", ["x", "neg"], ["mul"], "first", meta=fx("mul", "aten.mul.Tensor", "%x, %neg", source="y = x * decay")),
             node("Mul", ["mul", "neg"], ["y"], "second", meta=fx("y", "aten.mul.Tensor", "%mul, %neg_1", source="return y * back"))]
    return lambda f: build(names, [constant], nodes, values=[info])


def equal_used(f):
    """x a + b for a and b of equal values, times the first two elements of each on a line that names neither: the two parts were merged."""
    names = ["a", "b"]
    constant, info = folded("slice_1", [4, 1], [0.1, -0.4, 0.7, 0.25], ["a", "val_1"])
    nodes = [node("Mul", ["x", "a"], ["mul"], "own", meta=fx("mul", "aten.mul.Tensor", "%x, %p_a")),
             node("Add", ["mul", "a"], ["add"], "shift", meta=fx("add", "aten.add.Tensor", "%mul, %p_b")),
             node("MatMul", ["add", "slice_1"], ["mm"], "first", meta=fx("mm", "aten.mm.default", "%add, %slice_1", source="y @ s")),
             node("MatMul", ["x", "slice_1"], ["mm_1"], "second", meta=fx("mm_1", "aten.mm.default", "%x, %slice_2", source="x @ t")),
             node("Add", ["mm", "mm_1"], ["y"], "sum", meta=fx("y", "aten.add.Tensor", "%mm, %mm_1"))]
    return build(names, [floats("a", [4], VALUES), constant], nodes, values=[info])


def sibling(f):
    """m.a.weight scales x, twice; the two products were merged. m.b.weight was folded into another constant, so it is in neither."""
    constant, info = folded("unsqueeze", [1, 4], VALUES, ["m.b.weight", "val_1"])
    nodes = [node("Mul", ["x", "m.a.weight"], ["mul_1"], "scale", meta=fx("mul_1", "aten.mul.Tensor", "%x, %p_m_a_weight", "m", "h = scan(x)")),
             node("Tanh", ["mul_1"], ["tanh"], "tanh", meta=fx("tanh", "aten.tanh.default", "%mul_1", "m", "h = scan(x)")),
             node("Sigmoid", ["mul_1"], ["sigmoid"], "sigmoid", meta=fx("sigmoid", "aten.sigmoid.default", "%mul_2", "m", "h = scan(x)")),
             node("Add", ["tanh", "sigmoid"], ["add"], "add", meta=fx("add", "aten.add.Tensor", "%tanh, %sigmoid")),
             node("Mul", ["add", "unsqueeze"], ["y"], "last", meta=fx("y", "aten.mul.Tensor", "%add, %unsqueeze", "m", "h = scan(x)"))]
    return build(["m.a.weight", "m.b.weight"], [floats("m.a.weight", [4], VALUES), constant], nodes, values=[info])


def of_buffer(origins):
    """y = x p rows, where rows is a part of the buffer table. No node reads the parameter scale."""
    constant, info = folded("slice_1", [4], VALUES[::-1], origins)
    nodes = [node("Mul", ["x", "p"], ["mul"], "own", meta=fx("mul", "aten.mul.Tensor", "%x, %p_p")),
             node("Mul", ["mul", "slice_1"], ["y"], "scale", meta=fx("y", "aten.mul.Tensor", "%mul, %slice_1", source="return x * rows"))]
    return lambda f: build(["p", "scale"], [floats("p", [4], VALUES), constant], nodes, values=[info], buffers=["table"])


def equal_columns(origins):
    """y = x m, where m is a part of w with equal columns."""
    constant, info = folded("slice_1", [4, 2], [v for v in VALUES for _ in range(2)], origins)
    nodes = [node("MatMul", ["x", "slice_1"], ["y"], "product", meta=fx("y", "aten.matmul.default", "%x, %slice_1", source="return x @ m"))]
    return lambda f: build(["w"], [constant], nodes, values=[info])


def called_twice(names, values):
    """x times rows of a table, twice: the exporter merged the two lookups. The second name has no list."""
    constant, info = folded("embedding", [3, 4], values, ["arange", "wpe.weight"])
    nodes = [node("Mul", ["x", "embedding"], ["mul"], "first", meta=fx("mul", "aten.mul.Tensor", "%x, %embedding")),
             node("Mul", ["mul", "embedding"], ["y"], "second", meta=fx("y", "aten.mul.Tensor", "%mul, %embedding_1"))]
    return lambda f: build(names, [constant], nodes, values=[info])


def square(second):
    """F.linear(F.linear(x, w), w.t()) for a square w: each linear has a constant of its own, w turned once and twice. `second`: the elements of that."""
    turned, own = [float(4 * c + r) for r in range(4) for c in range(4)], [float(v) for v in range(16)]
    once, info = folded("val_2", [4, 4], turned, ["w"])
    twice, other = folded("val_3", [4, 4], own if second else turned, ["w", "t"])
    nodes = [node("MatMul", ["x", "val_2"], ["linear"], "first", meta=fx("linear", "aten.linear.default", "%x, %p_w")),
             node("MatMul", ["linear", "val_3"], ["y"], "second", meta=fx("y", "aten.linear.default", "%linear, %t"))]
    return lambda f: build(["w"], [once, twice], nodes, values=[info, other])


def two_parts(f):
    """x times the first and the second half of pos: each constant has a part only."""
    (first, one), (second, other) = folded("slice_1", [4], VALUES, ["pos", "val_1"]), folded("slice_2", [4], VALUES[::-1], ["pos", "val_2"])
    nodes = [node("Mul", ["x", "slice_1"], ["mul"], "first", meta=fx("mul", "aten.mul.Tensor", "%x, %slice_1")),
             node("Mul", ["mul", "slice_2"], ["y"], "second", meta=fx("y", "aten.mul.Tensor", "%mul, %slice_2"))]
    return build(["pos"], [first, second], nodes, values=[one, other])


def difference(values):
    """x p + (number - p), where the file has p and the second constant, which the exporter computed."""
    def write(f):
        constant, info = folded("sub", [4], values, ["p", "scalar_tensor_default"])
        nodes = [node("Mul", ["x", "p"], ["mul"], "own", meta=fx("mul", "aten.mul.Tensor", "%x, %p_p")),
                 node("Add", ["mul", "sub"], ["y"], "shift", meta=fx("y", "aten.add.Tensor", "%mul, %sub"))]
        return build(["p"], [floats("p", [4], VALUES), constant], nodes, values=[info])
    return write


ROWS = [0.5, 0.25, 1.5, 2.0, -1.0, 0.125, 3.0, 0.75]
CASES = {
    "rows": scaled("wpe.weight", "embedding", [2, 4], ROWS, ["arange", "wpe.weight", "val_1"]),
    "rows-of-buffer": scaled("wpe.weight", "embedding", [1, 2, 4], ROWS, ["ids", "wpe.weight"], buffers=["ids"]),
    "rows-twice": scaled("wpe.weight", "embedding", [2, 4], ROWS[:4] * 2, ["arange", "wpe.weight"]),
    "rows-computed": scaled("wpe.weight", "embedding", [2, 4], ROWS, ["arange", "tanh", "wpe.weight"]),
    "called-twice": called_twice(["wpe.weight"], ROWS + VALUES),
    "another-table": called_twice(["wpe.weight", "wpe_2.weight"], ROWS + VALUES),
    "square": square(True),
    "square-other": square(False),
    "two-parts": two_parts,
    "whole": scaled("D", "unsqueeze", [1, 4], ONES, ["D", "val_1"]),
    "twins": twins(),
    "function": scaled("a", "exp", [4], [1.0, 0.5, 0.25, 0.125], ["a"]),
    "function-beyond": scaled("a", "exp", [4], [1.0, -0.5, 0.25, 0.125], ["a"]),
    "exp-negative": scaled("a", "exp", [4], [1.0, 0.5, 0.25, 0.125], ["a", "neg"]),
    "expanded": scaled("a", "expand", [3, 4], VALUES * 3, ["a", "val_1"]),
    # A parameter of [1, 2, 4] or one of [3, 1, 4].
    "expanded-twice": scaled("a", "expand", [3, 2, 4], VALUES * 6, ["a", "val_1"]),
    "difference": difference([1 - v for v in VALUES]),
    "difference-other": difference([1 - 2 * v for v in VALUES]),
    "equal": equal(["a"]),
    "equal-used": equal_used,
    "of-buffer": of_buffer(["table", "val_1"]),
    "of-parameter": of_buffer(["scale", "val_1"]),
    "equal-columns": equal_columns(["w", "val_1"]),
    "sibling": sibling,
}

if __name__ == "__main__":
    case, path = sys.argv[1:]
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as out:
        out.write(CASES[case](path))
