"""Writes small models with training_info: make_training.py CASE FILE."""
import os
import sys
from onnx_writer import *

TRAINING = "ai.onnx.preview.training"
X = value("x", ["batch", 4])
W, V, H = ([1.0, 2.0] * 4), [0.0] * 8, [0.0] * 8
STATES = [floats("v", [4, 2], V), floats("h", [4, 2], H)]
SCALARS = [floats("r", [], [0.25]), ints("t", [], [0]), ints("one", [], [1])]
COUNT = node("Add", ["t", "one"], ["t_new"], "count")
KEYS = [("w", "w_new"), ("v", "v_new"), ("h", "h_new"), ("t", "t_new")]
SHAPES = {"w_new": [4, 2], "v_new": [4, 2], "h_new": [4, 2], "r_new": [], "s_new": []}


def strings(name, values):
    """An attribute that is a list of strings."""
    return field(5, field(1, name) + b"".join(field(9, v) for v in values) + field(20, 8))


def gradient(xs=("w",), zs=("x",), y="loss", operands=None, results=("dw",), extra=b""):
    return (node("Gradient", operands or [*xs, *zs], results, "gradient", TRAINING) + strings("xs", xs) + (strings("zs", zs) if zs else b"")
            + (field(5, attribute("y", y)) if y else b"") + extra)


def adam(operands=("r", "t", "w", "dw", "v", "h"), results=("w_new", "v_new", "h_new"), name="adam", **attributes):
    return node("Adam", operands, results, name, TRAINING, **attributes)


def momentum(operands=("r", "t", "w", "dw", "v"), **attributes):
    return node("Momentum", operands, ["w_new", "v_new"], "momentum", TRAINING, **attributes)


def pairs(number, entries):
    return b"".join(field(number, entry(k, v)) for k, v in entries)


def outputs(names):
    return [value(n, [] if n == "t_new" else SHAPES.get(n, [4, 2]), INT64 if n == "t_new" else FLOAT) for n in names]


def forward(more=(), initializers=()):
    """loss = mean((x w)^2)."""
    nodes = [*more, node("MatMul", ["x", "w"], ["y"], "product"), node("Mul", ["y", "y"], ["z"], "square"),
             node("ReduceMean", ["z"], ["loss"], "mean", keepdims=0)]
    return graph(nodes, [X], [value("loss", [])], [floats("w", [4, 2], W), *initializers])


def step(nodes=None, initializers=None, keys=KEYS, out=None, inputs=(), start=b"", start_keys=(), first=None, infos=1, opsets=(("", 18), (TRAINING, 1))):
    algorithm = graph(nodes if nodes is not None else [gradient(), COUNT, adam()], inputs, out if out is not None else outputs(v for _, v in keys),
                      STATES + SCALARS if initializers is None else initializers)
    info = (field(1, start) if start else b"") + field(2, algorithm) + pairs(3, start_keys) + pairs(4, keys)
    return lambda f: model(first or forward(), opsets, extra=field(20, info) * infos)


def updates(*nodes, keys=KEYS, **more):
    """A step with the gradient and these nodes."""
    return step([gradient(), COUNT, *nodes], keys=keys, **more)


def start(nodes, names, keys, **more):
    return step(start=graph(nodes, [], outputs(names)), start_keys=keys, **more)


def constant(name, dims, values):
    return node("Constant", [], [name], "constant", value=floats("", dims, values))


TWO_LAYERS = graph([node("MatMul", ["x", "w"], ["y"], "product"), node("MatMul", ["y", "w2"], ["z"], "product2"),
                    node("Mul", ["z", "z"], ["q"], "square"), node("ReduceMean", ["q"], ["loss"], "mean", keepdims=0)],
                   [X], [value("loss", [])], [floats("w", [4, 2], W), floats("w2", [2, 2], [1.0] * 4)])
SCALED = graph([node("MatMul", ["x", "w"], ["y"], "product"), node("Cast", ["t"], ["tf"], "cast", to=FLOAT), node("Mul", ["y", "tf"], ["z"], "scale"),
                node("ReduceMean", ["z"], ["loss"], "mean", keepdims=0)],
               [X], [value("loss", [])], [floats("w", [4, 2], W), ints("t", [], [0])])
FACTOR = graph([node("MatMul", ["x", "w"], ["y"], "product"), node("Mul", ["y", "alpha"], ["z"], "scale"), node("ReduceMean", ["z"], ["loss"], "mean", keepdims=0)],
               [X], [value("loss", [])], [floats("w", [4, 2], W), floats("alpha", [], [0.0])])
MOMENTUM = dict(alpha=0.5, beta=1.0, norm_coefficient=0.0, mode="standard")
TWO = [("w", "w_new"), ("v", "v_new")]
SGD = [node("Mul", ["r", "dw"], ["p"], "scale"), node("Sub", ["w", "p"], ["w_new"], "sgd")]
ONE = [("w", "w_new")]

CASES = {
    "good": step(),
    "sgd": step([gradient(), *SGD], keys=ONE, initializers=SCALARS[:1]),
    "rate-of-flag": step(inputs=[value("r", [])], initializers=STATES + SCALARS[1:]),
    "copies": step([gradient(), node("Identity", ["dw"], ["g"], "copy"), COUNT, adam(["r", "t", "w", "g", "v", "h"], ["w1", "v_new", "h_new"]),
                    node("Identity", ["w1"], ["w_new"], "copy2")]),
    "counts": step([gradient(), node("Add", ["t", "one"], ["t1"], "count1"), node("Sub", ["t1", "one"], ["t2"], "count2"), node("Add", ["one", "t2"], ["t_new"], "count3"), adam()]),
    "filled": step(start=graph([node("ConstantOfShape", ["size"], ["w0"], "fill", value=floats("", [1], [0.125]))], [], outputs(["w0"]),
                               [ints("size", [2], [4, 2])]), start_keys=[("w", "w0")]),
    "computed": step(start=graph([constant("a", [4, 2], W), node("Add", ["a", "a"], ["w0"], "twice")], [], outputs(["w0"])), start_keys=[("w", "w0")]),
    "random": start([node("RandomNormal", [], ["w0"], "draw", mean=1.0, scale=0.5, shape=[4, 2])], ["w0"], [("w", "w0")]),
    "uniform": start([node("RandomUniform", [], ["w0"], "draw", low=2.0, high=3.0, shape=[4, 2])], ["w0"], [("w", "w0")]),
    "factor": step(start=graph([constant("a0", [], [3.5])], [], [value("a0", [])]), start_keys=[("alpha", "a0")], first=FACTOR),
    # Bindings.
    "two-steps": step(infos=2),
    "no-algorithm": lambda f: model(forward(), extra=field(20, pairs(4, KEYS))),
    "no-binding": step(keys=()),
    "clash-initializer": step(initializers=STATES + SCALARS + [floats("w", [4, 2], W)]),
    "clash-value": step([gradient(), COUNT, adam(), node("Identity", ["x"], ["y"], "again")]),
    "clash-input": step(inputs=[X]),
    "key-unknown": step(keys=KEYS + [("u", "w_new")]),
    "key-value": step(keys=KEYS + [("loss", "w_new")]),
    "key-twice": step(keys=KEYS + [("w", "v_new")]),
    "value-unknown": step(keys=[("w", "nothing")] + KEYS[1:], out=outputs(["w_new"])),
    "value-shape": step(out=[value("w_new", [2, 4]), *outputs(["v_new", "h_new", "t_new"])]),
    "value-type": step(out=[value("w_new", [4, 2], INT64), *outputs(["v_new", "h_new", "t_new"])]),
    "value-of-nothing": step([gradient()], keys=[("w", "x")], out=[value("x", [4, 2])]),
    "value-shared": step(initializers=STATES + SCALARS + [floats("ema", [4, 2], W)], keys=KEYS + [("ema", "w_new")]),
    "handwritten": step([gradient(), node("Add", ["w", "dw"], ["w_new"], "climb")], keys=ONE),
    "no-update": step([gradient(), COUNT], keys=[("t", "t_new")]),
    # Initialization.
    "start-inputs": step(start=graph([node("Identity", ["q"], ["w0"], "copy")], [value("q", [4, 2])], outputs(["w0"])), start_keys=[("w", "w0")]),
    "start-key": start([constant("w0", [4, 2], W)], ["w0"], [("u", "w0")]),
    "start-value": start([constant("w0", [4, 2], W)], [], [("w", "w0")]),
    "start-shape": start([constant("w0", [8], W)], ["w0"], [("w", "w0")]),
    "start-twice": start([constant("w0", [4, 2], W)], ["w0"], [("w", "w0"), ("w", "w0")]),
    "start-huge": start([node("RandomNormal", [], ["w0"], "draw", shape=[1 << 20, 1 << 20])], ["w0"], [("w", "w0")]),
    "start-overflow": start([node("RandomNormal", [], ["w0"], "draw", shape=[1 << 40, 1 << 40])], ["w0"], [("w", "w0")]),
    "start-negative": start([node("RandomNormal", [], ["w0"], "draw", shape=[-4, 2])], ["w0"], [("w", "w0")]),
    "start-dtype": start([node("RandomNormal", [], ["w0"], "draw", shape=[4, 2], dtype=INT64)], ["w0"], [("w", "w0")]),
    "start-unsupported": start([node("Magic", [], ["w0"], "wand")], ["w0"], [("w", "w0")]),
    # Gradient.
    "domain": step(opsets=(("", 18),)),
    "domain-version": step(opsets=(("", 18), (TRAINING, 2))),
    "no-gradient": step([COUNT, adam(["r", "t", "w", "v", "v", "h"])]),
    "xs-unknown": step([gradient(xs=["u"]), COUNT, adam()]),
    "zs-unknown": step([gradient(zs=["u"]), COUNT, adam()]),
    "zs-computed": step([gradient(zs=["y"]), COUNT, adam()]),
    "y-unknown": step([gradient(y="u"), COUNT, adam()]),
    "y-missing": step([gradient(y=""), COUNT, adam()]),
    "xs-integer": step([gradient(xs=["one"]), COUNT, adam()]),
    "xs-between": step([gradient(xs=["y"]), COUNT, adam()]),
    "y-independent": step([gradient(xs=["v"]), COUNT, adam()]),
    "y-cycle": step([node("Mul", ["dw", "dw"], ["far"], "far"), gradient(y="far"), COUNT, adam()]),
    "y-matrix": step([gradient(y="z"), COUNT, adam()]),
    "y-two": step([gradient(), gradient(y="z", results=["dz"]), COUNT, adam()]),
    "gradient-operands": step([gradient(operands=["w"]), COUNT, adam()]),
    "gradient-replaces": step([gradient(operands=["w", "q"]), COUNT, adam()], inputs=[value("q", ["batch", 4])]),
    "gradient-results": step([gradient(results=["dw", "dx"]), COUNT, adam()]),
    "gradient-attribute": step([gradient(extra=field(5, attribute("seed", 1))), COUNT, adam()]),
    # Optimizers.
    "adam-arity": updates(adam(["r", "t", "w", "dw", "v"])),
    "adam-alone": updates(adam(["r", "t"])),
    "adam-none": updates(adam([], ["w_new", "v_new", "h_new"])),
    "adam-results": updates(adam(results=["w_new", "v_new"]), keys=TWO),
    "adagrad-arity": updates(node("Adagrad", ["r", "t", "w", "dw", "v", "h"], ["w_new", "v_new"], "adagrad", TRAINING), keys=TWO),
    "state-shape": updates(adam(), initializers=[floats("v", [8], V), STATES[1], *SCALARS], out=[value("v_new", [8]), *outputs(["w_new", "h_new", "t_new"])]),
    "state-value": updates(adam(["r", "t", "w", "dw", "y", "h"])),
    "state-start": updates(adam(), initializers=[floats("v", [4, 2], [0.0] * 7 + [1.0]), STATES[1], *SCALARS]),
    "state-kept": updates(adam(), keys=[("w", "w_new"), ("h", "h_new"), ("t", "t_new")]),
    "tensor-kept": updates(adam(), keys=KEYS[1:]),
    "tensor-value": updates(adam(["r", "t", "y", "dw", "v", "h"])),
    "gradient-none": updates(adam(["r", "t", "w", "x", "v", "h"])),
    "gradient-scaled": updates(node("Mul", ["dw", "dw"], ["g"], "clip"), adam(["r", "t", "w", "g", "v", "h"])),
    "gradient-other": step([gradient(xs=["w", "w2"], results=["dw", "dw2"]), COUNT, adam(["r", "t", "w", "dw2", "v", "h"])], first=TWO_LAYERS),
    "count-floats": updates(adam(["r", "r", "w", "dw", "v", "h"])),
    "count-vector": updates(adam(), initializers=STATES + [SCALARS[0], ints("t", [2], [0, 0]), SCALARS[2]], out=outputs(["w_new", "v_new", "h_new"]) + [value("t_new", [2], INT64)]),
    "count-doubled": step([gradient(), node("Add", ["t", "t"], ["t_new"], "count"), adam()]),
    "count-negative": updates(adam(), initializers=STATES + [SCALARS[0], ints("t", [], [-1]), SCALARS[2]]),
    "count-input": step([gradient(), adam()], keys=KEYS[:3], inputs=[value("t", [], INT64)], initializers=STATES + SCALARS[:1]),
    "count-read": step(first=SCALED, initializers=STATES + [SCALARS[0], SCALARS[2]]),
    "count-fraction": step([gradient(), constant("c", [], [2.5]), adam(["r", "c", "w", "dw", "v", "h"])], keys=KEYS[:3]),
    "count-computed": updates(node("Mul", ["t", "one"], ["c"], "times"), adam(["r", "c", "w", "dw", "v", "h"])),
    "rate-integer": updates(adam(["one", "t", "w", "dw", "v", "h"])),
    "rate-vector": updates(adam(), initializers=STATES + [floats("r", [2], [1.0, 1.0]), *SCALARS[1:]]),
    "rate-negative": updates(adam(), initializers=STATES + [floats("r", [], [-1.0]), *SCALARS[1:]]),
    "rate-nan": updates(adam(), initializers=STATES + [floats("r", [], [float("nan")]), *SCALARS[1:]]),
    "rate-computed": updates(node("Mul", ["r", "r"], ["r2"], "times"), adam(["r2", "t", "w", "dw", "v", "h"])),
    "rate-changed": updates(node("Mul", ["r", "r"], ["r_new"], "times"), adam(), keys=KEYS + [("r", "r_new")]),
    "alpha-one": updates(adam(alpha=1.0)),
    "epsilon-nan": updates(adam(epsilon=float("nan"))),
    "alpha-integer": updates(adam(alpha=1)),
    "alpha-twice": updates(adam(alpha=0.5) + field(5, attribute("alpha", 0.5))),
    "attribute-unknown": updates(adam(gamma=1.0)),
    "mode-unknown": updates(momentum(**{**MOMENTUM, "mode": "heavy"}), keys=TWO),
    "mode-missing": updates(momentum(alpha=0.5, beta=1.0, norm_coefficient=0.0), keys=TWO),
    "beta-missing": updates(momentum(alpha=0.5, norm_coefficient=0.0, mode="standard"), keys=TWO),
    "two-optimizers": step([gradient(xs=["w", "w2"], results=["dw", "dw2"]), COUNT, adam(), adam(["r", "t", "w2", "dw2", "v2", "h2"], ["w2_new", "v2_new", "h2_new"], "second", alpha=0.5)],
                           keys=KEYS + [(k + "2", k + "2_new") for k in "wvh"],
                           initializers=STATES + SCALARS + [floats(k + "2", [2, 2], [0.0] * 4) for k in "vh"],
                           out=outputs(v for _, v in KEYS) + [value(k + "2_new", [2, 2]) for k in "wvh"],
                           first=TWO_LAYERS),
}

case, path = sys.argv[1:]
os.makedirs(os.path.dirname(path), exist_ok=True)
with open(path, "wb") as out:
    out.write(CASES[case](path))
