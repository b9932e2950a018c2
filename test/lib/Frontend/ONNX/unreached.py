"""Writes reached.onnx, in which a gradient reaches one of four initializers of floats, and alone.onnx, in which it reaches none: unreached.py FOLDER."""
import pathlib
import sys

import numpy as np

from onnx_writer import *

folder = pathlib.Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
weights = [tensor(name, [3], FLOAT, np.arange(1, 4, dtype=np.float32).tobytes()) for name in ("w", "limits", "idle", "signs")]
compared = [node("Greater", ["x", "limits"], ["above"], "compare"), node("Cast", ["above"], ["mask"], "mask", to=FLOAT)]
unused = [node("Sigmoid", ["idle"], ["lost"], "unused")]
product = [node("Sign", ["signs"], ["sign"], "sign"), node("Mul", ["mask", "sign"], ["signed"], "signed"), node("Mul", ["signed", "w"], ["y"], "product"), node("ReduceMean", ["y"], ["loss"], "mean", keepdims=0)]
alone = [node("ReduceMean", ["mask"], ["loss"], "mean", keepdims=0)]
for name, nodes in (("reached", compared + unused + product), ("alone", compared + alone)):
    (folder / f"{name}.onnx").write_bytes(model(graph(nodes, [value("x", ["batch", 3])], [value("loss", [])], weights)))
