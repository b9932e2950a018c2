"""Writes models whose conditions and indices the exporter computed: make_chosen.py CASE FILE.

h = x + gate, and the loss is the mean of the squares of what the case makes of h. gate is a parameter of [4], fix a buffer.
"""
import os
import sys
from onnx_writer import *

from make_folded import VALUES, build, fx
from make_origins import FOLDED

GATE = [v > 0 for v in VALUES]


def bools(name, dims, values):
    return tensor(name, dims, BOOL, bytes(values))


def origin(name, dims, data_type, names):
    return value(name, dims, data_type, {FOLDED: str(names)})


def shift(scope="", last="x", out="add"):
    gate = f"{scope}.gate" if scope else "gate"
    return node("Add", [last, gate], [out], f"node_{out}", meta=fx(out, "aten.add.Tensor", f"%{last}, %p_{gate.replace('.', '_')}", scope))


def choice(name, constant, last="add", out="y", scope="", line="return torch.where(choice, h, other)"):
    """where(constant, h, sigmoid(h)), where the model calls the condition `name`."""
    low = f"low_{out}"
    return [node("Sigmoid", [last], [low], f"node_{low}", meta=fx(low, "aten.sigmoid.default", f"%{last}", scope)),
            node("Where", [constant, last, low], [out], f"node_{out}", meta=fx(out, "aten.where.self", f"%{name}, %{last}, %{low}", scope, line))]


def condition(names, dims=(4,), values=GATE, read=True, name="gt"):
    """A condition that was computed from `names`. Without `read`, nothing else reads gate."""
    last = "add" if read else "x"
    nodes = ([shift()] if read else []) + choice(name, name, last)
    gate = [floats("gate", [4], VALUES)] if read else []
    return lambda f: build(["gate"], gate + [bools(name, dims, values)], nodes, values=[origin(name, dims, BOOL, names)], buffers=["fix"])


def index(name, names, dims=(), values=(1,)):
    """h[:, index]"""
    nodes = [shift(), node("Gather", ["add", name], ["y"], "node_y", meta=fx("y", "aten.select.int", f"%add, 1, %{name}"), axis=1)]
    return lambda f: build(["gate"], [floats("gate", [4], VALUES), ints(name, dims, values)], nodes, values=[origin(name, dims, INT64, names)], buffers=["fix"])


def sizes(names, name="val_3"):
    """A shape for a view of h."""
    nodes = [shift(), node("Reshape", ["add", name], ["y"], "node_y", meta=fx("y", "aten.view.default", "%add, [12]"))]
    return lambda f: build(["gate"], [floats("gate", [4], VALUES), ints(name, [1], [12])], nodes, values=[origin(name, [1], INT64, names)])


def merged(dims=(4,), twin=False):
    """A condition of fix, and one of equal elements of which the file has the name only. `twin`: of another layer, by the same code."""
    scopes, line = ("layers.0", "layers.1") if twin else ("", ""), "return torch.where(choice, h, other)"
    gates = [f"{scope}.gate" if scope else "gate" for scope in scopes]
    parameters = list(dict.fromkeys(gates))
    nodes = [shift(scopes[0])] + choice("gt", "gt", "add", "where", scopes[0], line)
    nodes += [shift(scopes[1], "where", "add_1")] + choice("gt_1", "gt", "add_1", "y", scopes[1], line if twin else "return torch.where(other, h, low)")
    count = 1
    for size in dims:
        count *= size
    constant = bools("gt", dims, GATE * (count // 4))
    weights = [floats(p, [4], [v + k for v in VALUES]) for k, p in enumerate(parameters)]
    return lambda f: build(parameters, weights + [constant], nodes, values=[origin("gt", dims, BOOL, ["fix", "val_0"])], buffers=["fix"])


def branch(names, name="node_cond__0_node_sigmoid"):
    """The branch of torch.cond that the exporter took: sigmoid(h)."""
    nodes = [shift(), node("Sigmoid", ["add"], ["getitem"], name, meta=fx("sigmoid", "aten.sigmoid.default", "%add")),
             node("Tanh", ["getitem"], ["y"], "node_tanh", meta=fx("y", "aten.tanh.default", "%getitem"))]
    return lambda f: build(["gate"], [floats("gate", [4], VALUES)], nodes, values=[origin("getitem", ["batch", 4], FLOAT, names)], buffers=["fix"])


def unchanged(f):
    """The same, of a branch that returns h."""
    return build(["gate"], [floats("gate", [4], VALUES)], [shift(), node("Tanh", ["add"], ["y"], "node_tanh", meta=fx("y", "aten.tanh.default", "%getitem"))])


def converted(f):
    """The exporter rewrote CastLike(h, gate), and lists both."""
    nodes = [shift(), node("Cast", ["add"], ["val_2"], "node_cast", meta=fx("y", "aten.tanh.default", "%add"), to=FLOAT),
             node("Tanh", ["val_2"], ["y"], "node_tanh", meta=fx("y", "aten.tanh.default", "%add"))]
    return build(["gate"], [floats("gate", [4], VALUES)], nodes, values=[origin("val_2", ["batch", 4], FLOAT, ["add", "gate"])])


CASES = {
    "condition": condition(["gate", "val_0"]),
    "of-buffer": condition(["fix", "val_0"]),
    "of-both": condition(["fix", "gate", "val_0"]),
    "unread": condition(["gate", "val_0"], read=False),
    # A cast to bool inside of logical_and, and what no version of the exporter writes.
    "inner": condition(["gate"], name="val_2"),
    "unknown-kind": index("val_4", ["frobnicate_1", "gate"]),
    "ones": condition(["gate", "val_0"], values=[True] * 4, name="ones_like"),
    "index": index("argmin", ["gate", "val_2"]),
    "index-of-buffer": index("argmin", ["fix", "val_2"]),
    "indices": index("val_9", ["argmin", "gate", "val_2"], [1], [1]),
    "converted": index("_to_copy", ["gate"]),
    "sizes": sizes(["gate", "val_2"]),
    "sizes-of-computed": sizes(["exp", "gate", "unsqueeze"]),
    "merged": merged(),
    "merged-other-size": merged((3, 4)),
    "merged-twin": merged(twin=True),
    "merged-broken": lambda f: merged((4,))(f).replace(b"%gt_1", b"%gt_9"),
    "branch": branch(["gate", "lt", "min_1", "val_0"]),
    "branch-rewritten": branch(["gate", "lt", "min_1", "val_0"], "node_Sigmoid_12"),
    "branch-of-buffer": branch(["fix", "lt", "min_1", "val_0"]),
    "branch-unchanged": unchanged,
    "cast": converted,
}

if __name__ == "__main__":
    case, path = sys.argv[1:]
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as out:
        out.write(CASES[case](path))
