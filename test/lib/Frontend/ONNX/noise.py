"""Operators that draw random numbers: noise.py FOLDER. Prints what each becomes. The numbers are compared in test/e2e/import/noise.py."""
import re
import sys

from definition import *

it = Definition(sys.argv[1], opsets=(("", 22),))
x = np.ones((3, 4), np.float32)


def becomes(op, operands, attributes):
    names = [name for name, _ in operands]
    body = [node(op, names, ["r"], "it", **attributes), node("Cast", ["r"], ["f"], to=FLOAT), node("Mul", ["f", "p"], ["m"]),
            node("ReduceSum", ["m"], ["loss"], keepdims=0)]
    weights = [tensor(name, list(array.shape), FLOAT, array.tobytes()) for name, array in operands + [("p", x)]]
    (it.folder / "model.onnx").write_bytes(model(graph(body, [value("unread", ["batch"])], [value("loss", [])], weights), opsets=it.opsets))
    text = run("shale-translate", "--quiet", "--import-onnx", it.folder / "model.onnx", "--dim", "batch=1")
    print(op, attributes, "becomes", *[name for name in re.findall(r"= nn\.(\w+)", text) if name != "constant"])


like = [("x", x)]
becomes("RandomUniformLike", like, {})
becomes("RandomUniformLike", like, {"low": -1.0, "high": 3.0, "dtype": 10})
becomes("RandomNormalLike", like, {"mean": 1.0, "scale": 2.0})
becomes("RandomUniform", [], {"shape": [3, 4]})
becomes("RandomNormal", [], {"shape": [3, 4], "dtype": 1})
becomes("Bernoulli", like, {})
becomes("Bernoulli", like, {"dtype": 9})
for op, operands in (("RandomUniform", []), ("RandomUniformLike", like), ("RandomNormalLike", like), ("Bernoulli", like)):
    shape = {} if operands else {"shape": [3, 4]}
    it.refused(op, operands, "a seed in the file is not supported: --seed of the program decides", {"seed": 1.0, **shape})
it.refused("RandomUniform", [], "attribute 'shape' is missing")
it.refused("RandomUniform", [], "attribute 'shape' must not be negative", {"shape": [3, -4]})
it.refused("RandomUniformLike", like, "high must not be below low", {"high": -1.0})
for bounds in ({"low": -3e38, "high": 3e38}, {"high": 1e5, "dtype": 10}):
    it.refused("RandomUniformLike", like, "low, high and their difference must be finite in f", bounds)
it.refused("RandomNormalLike", like, "scale must not be negative", {"scale": -1.0})
it.refused("RandomNormalLike", like, "mean and scale must be finite", {"scale": float("inf")})
it.refused("RandomNormalLike", like, "draws floats only", {"dtype": 7})
it.refused("RandomUniformLike", like, "attribute 'dtype': ", {"dtype": 99})
it.refused("RandomUniformLike", like, "attribute 'high' must be a number", {"high": 3})
it.finish()
