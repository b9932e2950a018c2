"""Writes models with folded values and the exporter's list of what they were folded from: make_origins.py CASE FILE."""
import math
import os
import sys
from onnx_writer import *

from make_folded import VALUES, build, fx

FOLDED = "pkg.onnxscript.optimizer.folded_from"
ONES = [1.0] * 4


def folded(name, dims, values, origins):
    return floats(name, dims, values), value(name, dims, meta={FOLDED: str(origins)})


def scaled(parameter, name, dims, values, origins, source="return scan(x, self.a)"):
    """y = x times a folded value."""
    constant, info = folded(name, dims, values, origins)
    meta = fx("y", "aten.mul.Tensor", f"%x, %{name}", source=source)
    return lambda f: build([parameter], [constant], [node("Mul", ["x", name], ["y"], "scale", meta=meta)], values=[info])


def twins(line="return scan(x)", place=1):
    """Two layers scale by D of ones: the exporter merged the values. The second name has no list. `line`, `place`: of the second layer."""
    constant, info = folded("unsqueeze", [1, 4], ONES, ["layers.0.D", "val_1"])
    first = fx("mul", "aten.mul.Tensor", "%x, %unsqueeze", "layers.0", "return scan(x)")
    second = fx("y", "aten.mul.Tensor", "%mul, %unsqueeze_1" if place else "%unsqueeze_1, %mul", "layers.1", line)
    nodes = [node("Mul", ["x", "unsqueeze"], ["mul"], "first", meta=first),
             node("Mul", ["mul", "unsqueeze"] if place else ["unsqueeze", "mul"], ["y"], "second", meta=second)]
    return lambda f: build(["layers.0.D", "layers.1.D"], [constant], nodes, values=[info])


def gates(second):
    """Two layers compute x sigmoid(a) + (1 - sigmoid(a)): the exporter merged the values of equal parameters. `second`: the source of the second layer."""
    names = ["layers.0.a", "layers.1.a"]
    low, low_info = folded("sigmoid", [4], [0.5, 0.25, 0.75, 0.125], [names[0]])
    high, high_info = folded("sub", [4], [0.5, 0.75, 0.25, 0.875], [names[0], "sigmoid"])
    nodes, last = [], "x"
    for i, (of, to, line) in enumerate((("", "add", "x * low + high"), ("_1", "y", second))):
        scope = f"layers.{i}"
        nodes += [node("Mul", [last, "sigmoid"], [f"mul{of}"], f"mul{of}", meta=fx(f"mul{of}", "aten.mul.Tensor", f"%{last}, %sigmoid{of}", scope, line)),
                  node("Add", [f"mul{of}", "sub"], [to], f"add{of}", meta=fx(to, "aten.add.Tensor", f"%mul{of}, %sub{of}", scope, line))]
        last = to
    return lambda f: build(names, [low, high], nodes, values=[low_info, high_info])


def classes(second, calls=1):
    """Two modules, fwd and bwd, scale by -exp(a) of equal values, so often. `second`: the class of bwd."""
    constant, info = folded("neg", [4], [-1.0, -2.0, -3.0, -4.0], ["fwd.a", "exp"])
    nodes, last = [], "x"
    for k in range(2 * calls):
        scope, name, of, to = *(("bwd", second) if k % 2 else ("fwd", "Decay")), f"_{k}" if k else "", "y" if k == 2 * calls - 1 else f"mul{k}"
        meta = {**fx(to, "aten.mul.Tensor", f"%{last}, %neg{of}", scope, "return scan(x)"), "pkg.torch.onnx.class_hierarchy": str(["Model", name, "aten.mul.Tensor"])}
        nodes.append(node("Mul", [last, "neg"], [to], to, meta=meta))
        last = to
    return lambda f: build(["fwd.a", "bwd.a"], [constant], nodes, values=[info])


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


LOGS = [0.0, math.log(2), math.log(3), math.log(4)]
CASES = {
    "whole": scaled("D", "unsqueeze", [1, 4], ONES, ["D", "val_1"]),
    "whole-twice": scaled("D", "unsqueeze_2", [1, 1, 4], ONES, ["D", "unsqueeze_1", "val_1"]),
    # Which of two dimensions of one element was added is not known, nor whether the value was repeated.
    "ambiguous": scaled("D", "unsqueeze", [1, 1, 4], ONES, ["D", "val_1"]),
    "repeated": scaled("D", "unsqueeze", [1, 4], ONES, ["D", "expand", "val_1"]),
    "twins": twins(),
    "twins-line": twins(line="return self.D.mean() * x"),
    "twins-place": twins(place=0),
    "negative-exp": scaled("a", "unsqueeze", [1, 4], [-1.0, -2.0, -3.0, -4.0], ["a", "exp", "neg", "val_1"]),
    "exp-negative": scaled("a", "exp", [4], [1.0, 0.5, 0.25, 0.125], ["a", "neg"]),
    "three": scaled("a", "exp_1", [4], [math.exp(-x) for x in (1, 2, 3, 4)], ["a", "exp", "neg"]),
    # log(sqrt(p)) and sqrt(log(p)) both have these values.
    "orders": scaled("a", "unsqueeze", [1, 4], [0.5, 0.25, 1.5, 2.0], ["a", "sqrt", "log", "val_1"]),
    "expanded": scaled("a", "expand", [3, 4], [-1.0, -2.0, -3.0, -4.0] * 3, ["a", "exp", "neg", "unsqueeze", "val_1"]),
    # A parameter of [4] or one of [1, 4].
    "expanded-more": scaled("a", "expand", [1, 3, 4], [-1.0, -2.0, -3.0, -4.0] * 3, ["a", "exp", "neg", "unsqueeze", "val_1"]),
    "gates": gates("x * low + high"),
    "gates-line": gates("high + x * low"),
    "classes": classes("Decay"),
    "classes-other": classes("Gate"),
    "classes-twice": classes("Decay", calls=2),
    "equal": equal(["a"]),
    "equal-used": equal_used,
    "equal-missing": equal(["a", "b"]),
    "of-buffer": of_buffer(["table", "val_1"]),
    "of-parameter": of_buffer(["scale", "val_1"]),
    "equal-columns": equal_columns(["w", "val_1"]),
    "expanded-columns": equal_columns(["w", "expand", "val_1"]),
    "computed": scaled("a", "unsqueeze", [1, 4], [0.5, 0.25, 1.5, -2.0], ["a", "mul", "exp", "tanh", "val_1"]),
    "sibling": sibling,
}

if __name__ == "__main__":
    case, path = sys.argv[1:]
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as out:
        out.write(CASES[case](path))
