"""Writes an ONNX file with one operator on floats. The loss is the sum of its result: one_node.py OPERATOR OPERANDS FILE."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from onnx_writer import graph, model, node, value  # noqa: E402

names = [f"x{i}" for i in range(int(sys.argv[2]))]
body = [node(sys.argv[1], names, ["y"]), node("ReduceSum", ["y"], ["loss"], keepdims=0)]
pathlib.Path(sys.argv[3]).write_bytes(model(graph(body, [value(name, [2, 3]) for name in names], [value("loss", [])])))
