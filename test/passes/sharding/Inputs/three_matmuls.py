"""Writes a model of three matmuls, y = x w1 w2 w3, with weights of 8 x 16, 16 x 8 and 8 x 8. usage: three_matmuls.py FILE"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "lib" / "Frontend" / "ONNX"))
from onnx_writer import floats, graph, model, node, value  # noqa: E402

shapes = {"w1": (8, 16), "w2": (16, 8), "w3": (8, 8)}
body = [node("MatMul", ["x", "w1"], ["a"]), node("MatMul", ["a", "w2"], ["b"]), node("MatMul", ["b", "w3"], ["y"])]
weights = [floats(name, shape, [0.1] * (shape[0] * shape[1])) for name, shape in shapes.items()]
pathlib.Path(sys.argv[1]).write_bytes(model(graph(body, [value("x", ["batch", 8])], [value("y", ["batch", 8])], weights)))
