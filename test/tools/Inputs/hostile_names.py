"""usage: hostile_names.py DIR: writes models whose names hold escape sequences of terminals, or have 10 MB."""
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "lib" / "Frontend" / "ONNX"))
from onnx_writer import floats, graph, model, node, value  # noqa: E402

ESCAPE = "\x1b]0;owned\x07\x9b31m\u202e"


def write(name, operator, weight, label):
    nodes = [node("MatMul", ["x", weight], ["y"]), node(operator, ["y"], ["z"], name=label)]
    made = model(graph(nodes, [value("x", ["batch", 4])], [value("z", ["batch", 4])], [floats(weight, [4, 4], [0.5] * 16)]))
    (pathlib.Path(sys.argv[1]) / name).write_bytes(made)


write("escapes.onnx", "Relu", f"{ESCAPE}weight", f"{ESCAPE}relu")
write("unknown.onnx", "Unknown", "weight", f"{ESCAPE}node")
write("long.onnx", "Unknown", "w" * 10000000, "n" * 10000000)
write("long-weight.onnx", "Relu", "w" * 10000000, "relu")
