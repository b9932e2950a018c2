"""Writes small language models with losses that are written out, and with several losses: make_terms.py CASE FILE."""
import os
import sys

from onnx_writer import FLOAT, INT64, floats, graph, ints, model, node, value

HEAD = [node("Gather", ["table", "ids"], ["h"], "embed"), node("MatMul", ["h", "head"], ["scores"], "head")]
WEIGHTS = [floats("table", [8, 4], [i / 32 for i in range(32)]), floats("head", [4, 8], [i * i % 17 / 16 for i in range(32)]),
           ints("last", [1], [2]), ints("ignored", [], [-100]), ints("zero", [], [0]), ints("eight", [1], [8]), floats("half", [], [0.5]),
           ints("rows", [2], [-1, 8]), ints("all", [1], [-1])]


def language_model(nodes, outputs=("loss",), more=()):
    inputs = [value("ids", ["batch", 6], INT64), value("targets", ["batch", 6], INT64), *more]
    return lambda: model(graph(HEAD + nodes, inputs, [value(name, []) for name in outputs], WEIGHTS))


def mean_under(mask, rows="nll"):
    return [node("Mul", [rows, mask], ["kept"], "keep"), node("ReduceSum", ["kept"], ["sum"], "sum", keepdims=0),
            node("ReduceSum", [mask], ["count"], "count", keepdims=0), node("Div", ["sum", "count"], ["loss"], "mean")]


PICK = [node("LogSoftmax", ["scores"], ["logp"], "log_softmax", axis=2), node("Max", ["targets", "zero"], ["classes"], "clamp"),
        node("Unsqueeze", ["classes", "last"], ["at"], "open"), node("GatherElements", ["logp", "at"], ["picked"], "pick", axis=2),
        node("Squeeze", ["picked", "last"], ["score"], "close"), node("Neg", ["score"], ["nll"], "minus")]
MASK = [node("Equal", ["targets", "ignored"], ["skipped"], "skipped"), node("Not", ["skipped"], ["counted"], "counted"),
        node("Cast", ["counted"], ["mask"], "numbers", to=FLOAT)]
ONE_HOT = [node("LogSoftmax", ["scores"], ["logp"], "log_softmax", axis=2), node("Constant", [], ["off_on"], "values", value=floats("", [2], [0.0, 1.0])), node("OneHot", ["targets", "eight", "off_on"], ["hot"], "one_hot"),
           node("Mul", ["hot", "logp"], ["products"], "products"), node("ReduceSum", ["products", "last"], ["score"], "score", keepdims=0),
           node("Neg", ["score"], ["nll"], "minus")]
CROSS = [node("Reshape", ["scores", "rows"], ["l"], "logit_rows"), node("Reshape", ["targets", "all"], ["t"], "label_rows"),
         node("SoftmaxCrossEntropyLoss", ["l", "t"], ["lm"], "cross", ignore_index=-100)]
SQUARES = [node("Mul", ["scores", "scores"], ["squares"], "squares"), node("ReduceMean", ["squares"], ["aux"], "aux", keepdims=0)]

CASES = {
    "gather": language_model(PICK + MASK + mean_under("mask")),
    "one-hot": language_model(ONE_HOT + mean_under("mask"), more=[value("mask", ["batch", 6])]),
    "scaled": language_model(PICK + MASK + mean_under("mask")[:-1] + [node("Div", ["sum", "count"], ["mean"], "mean"), node("Mul", ["mean", "half"], ["loss"], "half")]),
    "plain-mean": language_model(PICK + [node("ReduceMean", ["nll"], ["loss"], "mean", keepdims=0)]),
    # The divisor depends on parameters: no count.
    "normalized": language_model(PICK + [node("ReduceSum", ["nll"], ["sum"], "sum", keepdims=0), node("ReduceSum", ["scores"], ["norm"], "norm", keepdims=0),
                                         node("Div", ["sum", "norm"], ["loss"], "mean")]),
    "terms": language_model(CROSS + SQUARES, ("lm", "aux")),
    # A position picked by an input is no label.
    "picked-position": language_model([node("Unsqueeze", ["targets", "last"], ["at"], "open"), node("GatherND", ["scores", "at"], ["rows_at"], "positions", batch_dims=1),
                                       node("ReduceMean", ["rows_at"], ["loss"], "mean", keepdims=0)]),
}

case, path = sys.argv[1:]
os.makedirs(os.path.dirname(path), exist_ok=True)
with open(path, "wb") as out:
    out.write(CASES[case]())
