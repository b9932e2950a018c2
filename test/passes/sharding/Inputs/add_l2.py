"""Adds the output `l2` to a model: the sum of squares of some of its parameters.

usage: add_l2.py MODEL OUT NAME...

A name is that of an initializer. The file is appended to: in Protocol Buffers that adds nodes and an output to the graph.
"""
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[3] / "lib/Frontend/ONNX"))
from onnx_writer import field, node, value  # noqa: E402

model, out, *names = sys.argv[1:]
nodes, total = [], None
for i, name in enumerate(names):
    nodes += [node("Mul", [name, name], [f"l2.square{i}"], f"l2.square{i}"), node("ReduceSum", [f"l2.square{i}"], [f"l2.sum{i}"], f"l2.sum{i}", keepdims=0)]
    if total:
        nodes.append(node("Add", [total, f"l2.sum{i}"], [f"l2.total{i}"], f"l2.total{i}"))
    total = f"l2.total{i}" if total else f"l2.sum{i}"
nodes.append(node("Identity", [total], ["l2"], "l2"))
more = b"".join(field(1, each) for each in nodes) + field(12, value("l2", []))
pathlib.Path(out).write_bytes(pathlib.Path(model).read_bytes() + field(7, more))
