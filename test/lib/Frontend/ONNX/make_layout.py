"""Writes models whose parameters the exporter moved before it folded them into constants: make_layout.py CASE FILE."""
import math
import os
import sys
from onnx_writer import *

from make_folded import VALUES, build, fx

NUMBERS = [i / 8 - 1 for i in range(24)]


def scaled(constants, *reads, parameters=("t",)):
    """y = x * r for each result r of a node in `reads`, which are (node, r)."""
    nodes, last = [], "x"
    for i, (made, name) in enumerate(reads):
        nodes += [made, node("Mul", [last, name], [f"m{i}"], f"scale{i}", meta=fx(f"m{i}", "aten.mul.Tensor", f"%{last}, %{name}"))]
        last = f"m{i}"
    return build(list(parameters), list(constants), nodes, last)


def lookup(constant, record, name="index", at=0):
    """A lookup in the dimensions that the record has an index for."""
    made = node("GatherND", [constant, f"at{at}"], [name], name, meta=fx(name, "aten.index.Tensor", record), batch_dims=0)
    return (made, name)


def place(number, at=0):
    return ints(f"at{at}", [1, 1], [number])


def put(f):
    """zeros[i] = t: neither the zeros nor the repeated t is the parameter."""
    record = fx("index_put", "aten.index_put.default", "%zeros, [%i], %p_t")
    made = node("ScatterND", ["val_1", "at0", "val_2"], ["index_put"], "put", meta=record)
    values = [value("val_1", [3, 4], meta={"pkg.onnxscript.optimizer.folded_from": "['zeros']"}),
              value("val_2", [1, 4], meta={"pkg.onnxscript.optimizer.folded_from": "['t', 'val_0']"})]
    nodes = [made, node("MatMul", ["x", "index_put_t"], ["y"], "product", meta=fx("y", "aten.mm.default", "%x, %permute"))]
    nodes.insert(1, node("Transpose", ["index_put"], ["index_put_t"], "turn", meta=fx("permute", "aten.permute.default", "%index_put, [1, 0]"), perm=[1, 0]))
    return build(["t"], [floats("val_1", [3, 4], [0.0] * 12), floats("val_2", [1, 4], VALUES), place(1)], nodes)


def prelu(f):
    meta = fx("y", "aten.prelu.default", "%x, %p_act_weight")
    return build(["act.weight"], [floats("val_0", [1, 4], VALUES)], [node("PRelu", ["x", "val_0"], ["y"], "act", meta=meta)])


def product(folded_from):
    """x @ t.permute(..).view(4, 6): the order of the elements is not known."""
    values = [value("view_1", [4, 6], meta={"pkg.onnxscript.optimizer.folded_from": folded_from})]
    meta = fx("y", "aten.mm.default", "%x, %view_1")
    return lambda f: build(["t"], [floats("view_1", [4, 6], [(i * 7 % 24) / 8 for i in range(24)])], [node("MatMul", ["x", "view_1"], ["y"], "product", meta=meta)], values=values)


def turned(perm):
    """A lookup whose transpose was not folded."""
    record = "%p_t, [None, %i]"
    turn = node("Transpose", ["t"], ["val_0"], "turn", meta=fx("index", "aten.index.Tensor", record), perm=perm)
    made, name = lookup("val_0", record)
    nodes = [turn, made, node("Mul", ["x", name], ["y"], "scale", meta=fx("y", "aten.mul.Tensor", "%x, %index"))]
    return lambda f: build(["t"], [floats("t", [4, 4], NUMBERS[:16]), place(1)], nodes)


def merged_turns(f):
    """The transpose that ends a lookup was merged with the next one, so that the graph has no `index`."""
    made = node("GatherND", ["val_0", "at0"], ["val_7"], "index", meta=fx("index", "aten.index.Tensor", "%p_t, [None, %i]"), batch_dims=0)
    nodes = [made, node("Transpose", ["val_7"], ["permute"], "turn", meta=fx("permute", "aten.permute.default", "%index, [0, 1]"), perm=[1, 0]),
             node("MatMul", ["x", "permute"], ["y"], "product", meta=fx("y", "aten.mm.default", "%x, %permute"))]
    return build(["t"], [floats("val_0", [3, 4], NUMBERS[:12]), place(2)], nodes)


def bilinear(sizes):
    """y = x (t with its first two dimensions exchanged) x, t of [out, 4, 4]: the constant is [4, 4 out]."""
    meta = fx("y", "aten.bilinear.default", "%x, %x, %p_t")
    one = ints("one", [1], [-1])
    nodes = [node("MatMul", ["x", "val_9"], ["val_10"], "first", meta=meta), node("Reshape", ["val_10", "shape"], ["val_12"], "open", meta=meta, allowzero=0),
             node("Unsqueeze", ["x", "one"], ["val_13"], "column", meta=meta), node("MatMul", ["val_12", "val_13"], ["val_14"], "second", meta=meta),
             node("Squeeze", ["val_14", "one"], ["y"], "close", meta=meta)]
    return lambda f: build(["t"], [floats("val_9", sizes, [i / 16 for i in range(sizes[0] * sizes[1])]), one, ints("shape", [3], [3, 2, 4])], nodes)


def repeated(kind, dims, name="val_2", folded_from="['val_1', 't']", record="%p_t, [1, 1]", parameters=("t",), more=()):
    """x * t.repeat(1, 1): the exporter expands t to the number of repeats, also where it has as many dimensions, and folds that."""
    values = [value(name, dims, meta={"pkg.onnxscript.optimizer.folded_from": folded_from})] if folded_from else []
    made = node("Tile", [name, "ones"], ["repeat"], "tile", meta=fx("repeat", f"aten.{kind}.default", record))
    last = node("Mul", ["x", "repeat"], ["y"], "scale", meta=fx("y", "aten.mul.Tensor", "%x, %repeat"))
    constants = [floats(name, dims, NUMBERS[:math.prod(dims)]), ints("ones", [len(dims)], [1] * len(dims)), *more]
    return lambda f: build(list(parameters), constants, [made, last], values=values)


def repeated_value(read):
    """tanh(x t).repeat(1, 1), whose node may read another value than its record has."""
    nodes = [node("Mul", ["x", "t"], ["mul"], "mul", meta=fx("mul", "aten.mul.Tensor", "%x, %p_t")), node("Tanh", ["mul"], ["tanh"], "tanh", meta=fx("tanh", "aten.tanh.default", "%mul")),
             node("Sin", ["mul"], ["sin"], "sin", meta=fx("sin", "aten.sin.default", "%mul")), node("Tile", [read, "ones"], ["repeat"], "tile", meta=fx("repeat", "aten.repeat.default", "%tanh, [1, 1]")),
             node("Add", ["repeat", "sin"], ["add"], "add", meta=fx("add", "aten.add.Tensor", "%repeat, %sin")), node("Add", ["add", "tanh"], ["y"], "last", meta=fx("y", "aten.add.Tensor", "%add, %tanh"))]
    return lambda f: build(["t"], [floats("t", [4], VALUES), ints("ones", [2], [1, 1])], nodes)


def shifted(target, arguments, op="Gemm"):
    """A product of which the exporter dropped the shift of zeros."""
    nodes = [node(op, ["x", "w"], ["y"], "product", meta=fx("y", target, arguments), **({"transB": 1} if op == "Gemm" else {}))]
    return lambda f: build(["w", "shift"], [floats("w", [4, 4], [i / 16 for i in range(16)])], nodes)


def merged_without_form(f):
    """b was merged with a. One operation that reads it has a form, the other one has none."""
    nodes = [node("Mul", ["x", "a"], ["m0"], "first", meta=fx("m0", "aten.mul.Tensor", "%x, %p_a")),
             node("Mul", ["m0", "a"], ["m1"], "second", meta=fx("m1", "aten.mul.Tensor", "%m0, %p_b")),
             node("Mod", ["m1", "a"], ["y"], "third", meta=fx("y", "aten.fmod.Tensor", "%m1, %p_b"), fmod=1)]
    return build(["a", "b"], [floats("a", [4], VALUES)], nodes)


def equal_repeats(f):
    """The exporter merged t, expanded, with a parameter of another shape."""
    more = [node("Add", ["y", "u"], ["z"], "shift", meta=fx("z", "aten.add.Tensor", "%y, %p_u"))]
    made = node("Tile", ["u", "ones"], ["repeat"], "tile", meta=fx("repeat", "aten.repeat.default", "%p_t, [1, 1]"))
    nodes = [made, node("Mul", ["x", "repeat"], ["y"], "scale", meta=fx("y", "aten.mul.Tensor", "%x, %repeat")), *more]
    return build(["t", "u"], [floats("u", [1, 4], VALUES), ints("ones", [2], [1, 1])], nodes, "z")


ZEROS = [0.0] * 12
CASES = {
    "matrix": lambda f: scaled([floats("val_0", [3, 4], NUMBERS[:12]), place(2)], lookup("val_0", "%p_t, [None, %i]")),
    "three": lambda f: scaled([floats("val_0", [3, 1, 4], NUMBERS[:12]), place(2)], lookup("val_0", "%p_t, [None, None, %i]")),
    "as-it-is": lambda f: scaled([floats("t", [3, 4], NUMBERS[:12]), place(2)], lookup("t", "%p_t, [%i]")),
    "linear-shift": shifted("aten.linear.default", "%x, %p_w, %p_shift"),
    "addmm-shift": shifted("aten.addmm.default", "%p_shift, %x, %p_w", "MatMul"),
    "other-shift": shifted("aten.linear.default", "%x, %p_w, None, %p_shift"),
    "biases": lambda f: scaled([floats("val_0", [3, 4], ZEROS), place(2), place(1, 1)], lookup("val_0", "%p_a_bias, [%i]"),
                               lookup("val_0", "%p_b_bias, [%j]", "index_1", 1), parameters=["a.bias", "b.bias"]),
    "merged-without-form": merged_without_form,
    "put": put,
    "prelu": prelu,
    "permuted": product("['permute_1', 't', 'val_5']"),
    "viewed": product("['t', 'val_5']"),
    "turned": turned([1, 0]),
    "turned-otherwise": turned([0, 1]),
    "merged-turns": merged_turns,
    "bilinear": bilinear([4, 8]),
    "bilinear-sizes": bilinear([4, 7]),
    "repeat": repeated("repeat", [1, 4]),
    "repeat-rows": repeated("repeat", [3, 4]),
    "repeat-unsqueezed": repeated("repeat", [3, 1, 4], "val_3", "['unsqueeze', 'val_1', 'val_2', 't']", "%unsqueeze, [1, 1, 1]", ["t", "u"]),
    "repeat-equal": equal_repeats,
    "repeat-value": repeated_value("tanh"),
    "repeat-other": repeated_value("sin"),
    "tile": repeated("tile", [1, 4], "val_4", "['val_1', 'val_2', 'val_3', 't']"),
    "tile-as-it-is": repeated("tile", [1, 4], "t", ""),
    "tile-twice": repeated("tile", [1, 1, 4], "val_4", "['val_1', 'val_2', 'val_3', 't']"),
}

if __name__ == "__main__":
    case, path = sys.argv[1:]
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as out:
        out.write(CASES[case](path))
