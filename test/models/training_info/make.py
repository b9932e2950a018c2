#!/usr/bin/env python3
"""Writes models in ONNX's own training form (`training_info`), one per optimizer, and the runs of evaluate.py that programs must follow.

Needs onnx and numpy from PyPI; the files are in the repository, so the tests need neither.

usage: make.py

Writes NAME.onnx, trajectory-NAME.json and final-NAME.safetensors for each case, and batches.safetensors.
"""
import json
import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper

import evaluate

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "e2e" / "lib"))
from runner import save_safetensors

TRAINING = "ai.onnx.preview.training"
STEPS, ROWS, WIDTH, HIDDEN, CLASSES = 20, 6, 8, 12, 5
random = np.random.default_rng(7)
WEIGHTS = {"w1": random.normal(0, 0.5, (WIDTH, HIDDEN)), "b1": random.normal(0, 0.1, HIDDEN),
           "w2": random.normal(0, 0.5, (HIDDEN, CLASSES)), "b2": random.normal(0, 0.1, CLASSES)}
BATCHES = {"x": random.normal(0, 1, (STEPS, ROWS, WIDTH)).astype(np.float32),
           "labels": random.integers(0, CLASSES, (STEPS, ROWS)).astype(np.int64)}
# Learnable: the class depends on the first inputs.
BATCHES["labels"] = (np.abs(BATCHES["x"][..., :2]).sum(-1) * 2).astype(np.int64) % CLASSES


def tensor(name, value, kind=np.float32):
    return numpy_helper.from_array(np.asarray(value, kind), name)


def info(name, shape, kind=T.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def gradient(names, given=("x", "labels")):
    zs = {"zs": list(given)} if given else {}
    return helper.make_node("Gradient", [*names, *given], ["d" + n for n in names], "gradient", domain=TRAINING, xs=list(names), y="loss", **zs)


def graph():
    """The inference graph: logits of a perceptron of two layers."""
    nodes = [helper.make_node("MatMul", ["x", "w1"], ["h1"], "first"), helper.make_node("Add", ["h1", "b1"], ["h2"], "bias1"),
             helper.make_node("Tanh", ["h2"], ["h3"], "tanh"),
             helper.make_node("MatMul", ["h3", "w2"], ["h4"], "second"), helper.make_node("Add", ["h4", "b2"], ["logits"], "bias2")]
    return helper.make_graph(nodes, "classifier", [info("x", ["batch", WIDTH])], [info("logits", ["batch", CLASSES])],
                             [tensor(name, value) for name, value in WEIGHTS.items()])


def optimizer(kind, states, attributes, names=tuple(WEIGHTS), t="t", r="r", name="update"):
    operands = [r, t, *names, *("d" + n for n in names), *(n + "_" + s for s in states for n in names)]
    results = [n + "_new" for n in names] + [n + "_" + s + "_new" for s in states for n in names]
    return helper.make_node(kind, operands, results, name, domain=TRAINING, **attributes)


def step_model(nodes, initializers, bindings, start=None, start_bindings=()):
    """A model whose algorithm is the loss, its gradients and `nodes`."""
    loss = helper.make_node("SoftmaxCrossEntropyLoss", ["logits", "labels"], ["loss"], "loss")
    known = {t.name: t for t in initializers} | {t.name: t for t in graph().initializer}
    outputs = [info("loss", [])] + [info(value, list(known[key].dims), known[key].data_type) for key, value in bindings]
    algorithm = helper.make_graph([loss, *nodes], "step", [info("labels", ["batch"], T.INT64)], outputs, initializers)
    model = helper.make_model(graph(), opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid(TRAINING, 1)], ir_version=8,
                              producer_name="make.py")
    model.training_info.append(helper.make_training_info(algorithm, list(bindings), start, list(start_bindings) if start else None))
    return model


def states(names):
    return [tensor(n + "_" + s, np.zeros(WEIGHTS[n].shape)) for s in names for n in WEIGHTS]


def updated(names, *more):
    return [(n, n + "_new") for n in WEIGHTS] + [(n + "_" + s, n + "_" + s + "_new") for s in names for n in WEIGHTS] + list(more)


def count(result="t_new", by="one"):
    return helper.make_node("Add", ["t", by], [result], "count")


def adam(first=0, ahead=False):
    """T is 0 in the first step, without bias correction then; or, with `ahead`, counted before the update."""
    nodes = [gradient(WEIGHTS), count(), optimizer("Adam", "vh", {"alpha": 0.8, "beta": 0.95, "epsilon": 1e-3, "norm_coefficient": 0.02,
                                                                  "norm_coefficient_post": 0.001}, t="t_new" if ahead else "t")]
    return step_model(nodes, [tensor("r", 0.02), tensor("t", first, np.int64), tensor("one", 1, np.int64), *states("vh")],
                      updated("vh", ("t", "t_new")))


def adam_defaults():
    """All attributes are missing; T stays 0, so that there is no correction."""
    nodes = [gradient(WEIGHTS), optimizer("Adam", "vh", {})]
    return step_model(nodes, [tensor("r", 0.01), tensor("t", 0, np.int64), *states("vh")], updated("vh"))


def adagrad():
    """Two nodes of one optimizer; initialization sets the weights (the initializers are 0) and T, which advances by 2."""
    one = {"epsilon": 1e-4, "decay_factor": 0.05, "norm_coefficient": 0.01}
    names = list(WEIGHTS)
    nodes = [gradient(names[:2]), gradient(names[2:], ()), helper.make_node("Constant", [], ["two"], "two", value=tensor("", 2, np.int64)),
             count(by="two"), optimizer("Adagrad", "h", one, names[:2], name="update1"), optimizer("Adagrad", "h", one, names[2:], name="update2")]
    nodes[1].name = "gradient2"
    model = step_model(nodes, [tensor("r", 0.1), tensor("t", 0, np.int64), *states("h")], updated("h", ("t", "t_new")))
    values = {"w1": WEIGHTS["w1"], "w2": WEIGHTS["w2"]}
    start = [helper.make_node("Constant", [], ["start_" + n], value=tensor("", v)) for n, v in values.items()]
    start += [helper.make_node("Constant", [], ["half"], value=tensor("", [0.5])), helper.make_node("Constant", [], ["size"], value=tensor("", [HIDDEN], np.int64)),
              helper.make_node("ConstantOfShape", ["size"], ["start_b1"], value=tensor("", [0.25])),
              helper.make_node("Constant", [], ["start_t"], value=tensor("", 3, np.int64))]
    kinds = {"w1": ([WIDTH, HIDDEN], T.FLOAT), "w2": ([HIDDEN, CLASSES], T.FLOAT), "b1": ([HIDDEN], T.FLOAT), "t": ([], T.INT64)}
    model.training_info[0].initialization.CopyFrom(helper.make_graph(start, "start", [], [info("start_" + n, *k) for n, k in kinds.items()]))
    for n in kinds:
        model.training_info[0].initialization_binding.add(key=n, value="start_" + n)
    for t in model.graph.initializer:
        if t.name in ("w1", "w2"):
            t.CopyFrom(tensor(t.name, np.zeros(WEIGHTS[t.name].shape)))
    return model


def momentum(mode):
    nodes = [gradient(WEIGHTS), count(), optimizer("Momentum", "v", {"alpha": 0.9, "beta": 0.7, "norm_coefficient": 0.01, "mode": mode})]
    return step_model(nodes, [tensor("r", 0.05), tensor("t", 0, np.int64), tensor("one", 1, np.int64), *states("v")],
                      updated("v", ("t", "t_new")))


def sgd():
    """The update is written out, w - r * gradient, and leaves b1 as it is."""
    names = [n for n in WEIGHTS if n != "b1"]
    nodes = [gradient(names)]
    for n in names:
        nodes += [helper.make_node("Mul", ["r", "d" + n] if n == "w1" else ["d" + n, "r"], ["r_d" + n], "scale_" + n),
                  helper.make_node("Sub", [n, "r_d" + n], [n + "_new"], "update_" + n)]
    return step_model(nodes, [tensor("r", 0.2)], [(n, n + "_new") for n in names])


CASES = {"adam": adam(), "adam-ahead": adam(first=4, ahead=True), "adam-defaults": adam_defaults(), "adagrad": adagrad(), "momentum": momentum("standard"),
         "nesterov": momentum("nesterov"), "sgd": sgd()}


def check_optimizers():
    """Compares the reference's optimizers with those of the onnx package, for T of 0 and above."""
    from onnx.reference import ReferenceEvaluator
    constants = {"Adam": {"alpha": 0.8, "beta": 0.95, "epsilon": 1e-3, "norm_coefficient": 0.02, "norm_coefficient_post": 0.001},
                 "Adagrad": {"epsilon": 1e-4, "decay_factor": 0.05, "norm_coefficient": 0.01},
                 "Momentum": {"alpha": 0.9, "beta": 0.7, "norm_coefficient": 0.01, "mode": "nesterov"}}
    for kind, attributes in constants.items():
        function, lists = evaluate.OPTIMIZERS[kind]
        operands, results = ["r", "t", *"xgvh"[:lists]], ["x_new", *(s + "_new" for s in "vh"[:lists - 2])]
        node = helper.make_node(kind, operands, results, domain=TRAINING, **attributes)
        inputs = [info("r", []), info("t", [], T.INT64), *(info(n, [7]) for n in operands[2:])]
        one = helper.make_model(helper.make_graph([node], "one", inputs, [info(n, [7]) for n in results]),
                                opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid(TRAINING, 1)])
        for t in (0, 1, 6):
            given = [np.float32(0.3), np.int64(t), *(random.uniform(0.1, 1, 7).astype(np.float32) for _ in operands[2:])]
            want = ReferenceEvaluator(one).run(None, dict(zip(operands, given)))
            got = function(evaluate.attributes(node), *given[:2], 1, *(v.astype(np.float64) for v in given[2:]))
            for a, b in zip(got, want):
                assert np.allclose(a, b, rtol=1e-5, atol=1e-6), f"{kind}, T = {t}: {a} and {b}"


def write():
    check_optimizers()
    save_safetensors(HERE / "batches.safetensors", BATCHES)
    for name, model in CASES.items():
        onnx.checker.check_model(model)
        (HERE / f"{name}.onnx").write_bytes(model.SerializeToString())
        difference = evaluate.check_gradient(model, BATCHES)
        assert difference < 1e-8, f"{name}: gradients are off by {difference}"
        steps, state = evaluate.train(model, BATCHES)
        save_safetensors(HERE / f"final-{name}.safetensors", {n: state[n].astype(np.float32) for n in WEIGHTS})
        said = {"onnx": onnx.__version__, "optimizer": {"name": "of the file"}, "clip_grad_norm": 0, "batches": "batches.safetensors",
                "final": f"final-{name}.safetensors", "steps": [{"step": i, "loss": l, "grad_norm": n} for i, (l, n) in enumerate(steps)]}
        (HERE / f"trajectory-{name}.json").write_text(json.dumps(said, indent=1) + "\n")
        print(name, steps[0][0], "->", steps[-1][0])


write()
