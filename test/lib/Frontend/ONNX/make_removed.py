"""Writes files from which PyTorch's exporter removed what their metadata names: make_removed.py CASE FILE."""
import os
import sys
from make_folded import VALUES, build, fx
from onnx_writer import *

P = floats("p", [4], VALUES)


def rows(reader, target, source, more=None, of="sum_1"):
    """y = x p * reader(sum((x p)^2) + constant): the reader's metadata names the sum, `%add`. With `more` (operator, target), that
    operation reads the reader's result first. `of`: the name of what the constant is added to."""
    nodes = [node("Mul", ["x", "p"], ["mul"], "mul", meta=fx("mul", "aten.mul.Tensor", "%x, %p_p")),
             node("Mul", ["mul", "mul"], ["pow_1"], "pow", meta=fx("pow_1", "aten.pow.Tensor_Scalar", "%mul, 2")),
             node("ReduceSum", ["pow_1", "last"], [of], "sum", meta=fx(of, "aten.sum.dim_IntList", "%pow_1, [-1], True"), keepdims=1),
             node(reader, [of], ["read"], "reader", meta=fx("read", target, "%add", source=source))]
    if more:
        nodes.append(node(more[0], ["read"], ["after"], "after", meta=fx("after", more[1], "%read", source="r = after(r)")))
    nodes.append(node("Mul", ["mul", "after" if more else "read"], ["y"], "last", meta=fx("y", "aten.mul.Tensor", "%mul, %" + ("after" if more else "read"))))
    return build(["p"], [P, ints("last", [1], [-1])], nodes)


def group_norm(epsilon=1e-5):
    """Four channels in two groups: the InstanceNormalization reads ones and zeros of the exporter."""
    meta = fx("group_norm", "aten.group_norm.default", "%mul, 2, %p_norm_weight, %p_norm_bias, 1e-05, False", "norm")
    nodes = [node("Mul", ["x", "p"], ["mul"], "mul", meta=fx("mul", "aten.mul.Tensor", "%x, %p_p")),
             node("Reshape", ["mul", "split"], ["val_1"], "split", meta=meta),
             node("InstanceNormalization", ["val_1", "val_2", "val_3"], ["val_4"], "norm", meta=meta, epsilon=epsilon),
             node("Reshape", ["val_4", "whole"], ["val_5"], "whole", meta=meta),
             node("Mul", ["val_5", "val_6"], ["val_7"], "weight", meta=meta),
             node("Add", ["val_7", "val_8"], ["y"], "bias", meta=meta)]
    return build(["p", "norm.weight", "norm.bias"], [P, ints("split", [3], [0, 2, -1]), ints("whole", [2], [-1, 4]), floats("val_2", [2], [1.0] * 2),
                 floats("val_3", [2], [0.0] * 2), floats("val_6", [4], [1.0] * 4), floats("val_8", [4], [0.0] * 4)], nodes)


def silu(inner="mul", outer="mul", axis=-1, columns=4):
    """An operation of two nodes, a softmax, and a view of it."""
    meta = fx("silu", "aten.silu.default", "%mul")
    nodes = [node("Mul", ["x", "p"], ["mul"], "mul", meta=fx("mul", "aten.mul.Tensor", "%x, %p_p")),
             node("Sigmoid", [inner], ["val_1"], "sigmoid", meta=meta), node("Mul", [outer, "val_1"], ["silu"], "silu", meta=meta),
             node("Softmax", ["silu"], ["softmax"], "softmax", meta=fx("softmax", "aten.softmax.int", "%silu, -1"), axis=axis),
             node("Reshape", ["softmax", "shape"], ["view"], "view", meta=fx("view", "aten.view.default", "%softmax, [-1, 4]")),
             node("Tanh", ["view"], ["y"], "tanh", meta=fx("y", "aten.tanh.default", "%view"))]
    return build(["p"], [P, ints("shape", [2], [-1, columns])], nodes)


def cycle():
    """A cast of a softmax that reads its own result."""
    meta = fx("y", "aten.softmax.int", "%mul, -1")
    nodes = [node("Mul", ["x", "p"], ["mul"], "mul", meta=fx("mul", "aten.mul.Tensor", "%x, %p_p")),
             node("Cast", ["val_0"], ["val_0"], "cast", meta=meta, to=1), node("Softmax", ["val_0"], ["y"], "softmax", meta=meta, axis=-1)]
    return build(["p"], [P], nodes)


def wide():
    """A shape that is a Concat of Concats, seven levels of 40 operands each."""
    meta = fx("y", "aten.view.default", "%mul, [-1, 4]")
    nodes = [node("Mul", ["x", "p"], ["mul"], "mul", meta=fx("mul", "aten.mul.Tensor", "%x, %p_p"))]
    for i in range(7):
        nodes.append(node("Concat", [f"val_{i}" if i else "none"] * 40, [f"val_{i + 1}"], f"concat_{i}", meta=meta, axis=0))
    nodes += [node("Concat", ["val_7", "shape"], ["sizes"], "sizes", meta=meta, axis=0), node("Reshape", ["mul", "sizes"], ["y"], "view", meta=meta)]
    return build(["p"], [P, ints("none", [0], []), ints("shape", [2], [-1, 4])], nodes)


def batch_norm(target, training=""):
    """A new BatchNorm, whose statistics have the values of its weights: the exporter merged them."""
    meta = fx("getitem", target, f"%mul, %p_norm_weight, %p_norm_bias, %b_norm_running_mean, %b_norm_running_var, {training}0.1, 1e-05", "norm")
    nodes = [node("Mul", ["x", "p"], ["mul"], "mul", meta=fx("mul", "aten.mul.Tensor", "%x, %p_p")),
             node("BatchNormalization", ["mul", "norm.weight", "norm.bias", "norm.bias", "norm.weight"], ["y"], "norm", meta=meta, epsilon=1e-5, momentum=0.9)]
    return build(["p", "norm.weight", "norm.bias"], [P, floats("norm.weight", [4], [1.0] * 4), floats("norm.bias", [4], [0.0] * 4)], nodes,
                 buffers=["norm.running_mean", "norm.running_var"])


def instance_norm(training):
    """An InstanceNorm that keeps statistics, of x p as [3, 4, 1]. In evaluation it is a batch normalization of 12 channels, and the export folded what repeats
    the weights."""
    meta = fx("instance_norm", "aten.instance_norm.default", f"%view, %p_norm_weight, %p_norm_bias, %b_norm_running_mean, %b_norm_running_var, {training}, 0.1, 1e-05, False", "norm")
    n = 4 if training else 12
    read = ["ones", "zeros"] if training else ["ones", "zeros", "zeros", "ones"]
    nodes = [node("Mul", ["x", "p"], ["mul"], "mul", meta=fx("mul", "aten.mul.Tensor", "%x, %p_p")),
             node("Reshape", ["mul", "wide"], ["view"], "view", meta=fx("view", "aten.view.default", "%mul, [3, 4, 1]" if training else "%mul, [1, 12, 1]")),
             node("InstanceNormalization" if training else "BatchNormalization", ["view", *read], ["y"], "norm", meta=meta)]
    folded = [value(name, [n], meta={"pkg.onnxscript.optimizer.folded_from": f"['{kind}', 'val_0']"}) for name, kind in (("ones", "norm.weight"), ("zeros", "norm.bias"))]
    return build(["p", "norm.weight", "norm.bias"], [P, ints("wide", [3], [3, 4, 1] if training else [1, 12, 1]), floats("ones", [n], [1.0] * n), floats("zeros", [n], [0.0] * n)],
                 nodes, values=() if training else folded, buffers=["norm.running_mean", "norm.running_var"])


def computed_statistic(stop=()):
    """A batch normalization by the squares of p."""
    meta = fx("getitem", "aten._native_batch_norm_legit_no_training.default", f"%mul, None, None, %zero, %{'detach' if stop else 'mul_1'}, 0.1, 1e-05", "norm")
    nodes = [node("Mul", ["x", "p"], ["mul"], "mul", meta=fx("mul", "aten.mul.Tensor", "%x, %p_p")), node("Mul", ["p", "p"], ["mul_1"], "square", meta=fx("mul_1", "aten.mul.Tensor", "%p_p, %p_p")),
             *stop, node("BatchNormalization", ["mul", "one", "zero", "zero", "detach" if stop else "mul_1"], ["y"], "norm", meta=meta)]
    return build(["p"], [P, floats("one", [4], [1.0] * 4), floats("zero", [4], [0.0] * 4)], nodes)


def changed(read, values=()):
    """y = x p - center, a buffer that the module changes after its read."""
    nodes = [node("Mul", ["x", "p"], ["mul"], "mul", meta=fx("mul", "aten.mul.Tensor", "%x, %p_p")),
             node("Sub", ["mul", read], ["y"], "minus", meta=fx("y", "aten.sub.Tensor", "%mul, %b_head_center" if read == "head.center" else "%mul, %exp", "head"))]
    return build(["p"], [P, floats(read, [4], VALUES)], nodes, values=values, buffers=["head.center"], outputs=["add: BUFFER_MUTATION target='head.center'"])


def counter():
    """y = x p * float(steps), an integer that the module counts up first: the reader's metadata names the new value."""
    nodes = [node("Mul", ["x", "p"], ["mul"], "mul", meta=fx("mul", "aten.mul.Tensor", "%x, %p_p")),
             node("Cast", ["steps"], ["f"], "cast", to=FLOAT, meta=fx("_to_copy", "aten._to_copy.default", "%add")),
             node("Mul", ["mul", "f"], ["y"], "times", meta=fx("y", "aten.mul.Tensor", "%mul, %_to_copy"))]
    return build(["p"], [P, ints("steps", [], [1])], nodes, buffers=["steps"], outputs=["add: BUFFER_MUTATION target='steps'"])


def neutral(reader="%mul", original="mean", split=False):
    """y = tanh(x p), and a buffer that the module changes. `reader`: what the tanh reads in the record."""
    nodes = [node("Mul", ["x", "p"], ["mul"], "mul", meta=fx("mul", "aten.mul.Tensor", "%x, %p_p")),
             *([node("Split", ["mul"], ["read", "rest"], "split", axis=1, num_outputs=2)] if split else []),
             node("Tanh", ["read" if split else "mul"], ["y"], "tanh", meta=fx("y", "aten.tanh.default", reader))]
    return build(["p"], [P], nodes, buffers=["norm.scale"], outputs=["mul_1: BUFFER_MUTATION target='norm.scale'"], original=original)


def merged_losses():
    """The sum of two cross-entropies that differ in their label smoothing: one node."""
    nodes = [node("Mul", ["x", "p"], ["mul"], "mul", meta=fx("mul", "aten.mul.Tensor", "%x, %p_p")),
             node("SoftmaxCrossEntropyLoss", ["mul", "labels"], ["l"], "loss", meta=fx("cross_entropy_loss", "aten.cross_entropy_loss.default", "%mul, %labels")),
             node("Add", ["l", "l"], ["y"], "sum", meta=fx("y", "aten.add.Tensor", "%cross_entropy_loss, %cross_entropy_loss_1"))]
    return build(["p"], [P, ints("labels", [3], [0, 1, 2])], nodes)


def merged_behind(target="aten.tanh.default", **more):
    """Two losses, each of twice a cross-entropy: the product is merged, too. Else of a tanh, which is detached for one of them."""
    of = more.get("of", "SoftmaxCrossEntropyLoss")
    line = more.get("line", "")
    nodes = [node("Mul", ["x", "p"], ["mul"], "mul", meta=fx("mul", "aten.mul.Tensor", "%x, %p_p")),
             node(of, ["mul", "labels"][:1 + (of != "Tanh")], ["l"], "first", meta=fx("l", target, "%mul, %labels", source=line)),
             node("Mul", ["l", "two"], ["mul_1"], "twice", meta=fx("mul_1", "aten.mul.Tensor", "%l, 2", source=line)),
             node("Add", ["mul_1", "mul_1"], ["y"], "sum", meta=fx("y", "aten.add.Tensor", "%mul_1, %mul_2", source=more.get("sum", line)))]
    return build(["p"], [P, ints("labels", [3], [0, 1, 2]), floats("two", [], [2.0])], nodes)


def pooled(first="return F.adaptive_avg_pool2d(x, (7, 5))", second=""):
    """Two elements of a row. The record has that each is of a selection of its own, of which one was merged with the other. `first`, `second`: lines of source."""
    def select(name, of, record, index, source):
        return node("Gather", [of, f"at_{index}"], [name], name, meta=fx(name, "aten.select.int", f"%{record}, 0, {index}", source=source), axis=0)
    nodes = [node("Mul", ["x", "p"], ["mul"], "mul", meta=fx("mul", "aten.mul.Tensor", "%x, %p_p", source="h = x * self.p")),
             select("select", "mul", "mul", 0, first), select("select_1", "select", "select", 0, first), select("select_3", "select", "select_2", 1, second or first),
             node("Add", ["select_1", "select_3"], ["y"], "add", meta=fx("y", "aten.add.Tensor", "%select_1, %select_3", source=second or first))]
    return build(["p"], [P, ints("at_0", [], [0]), ints("at_1", [], [1])], nodes)


def sliced(kept):
    """h[:, 1:][:, :2], whose last slice reads `%slice_3` of a whole dimension, which the export removed. `kept`: the dimension of the first
    slice; of a slice of the same expression that was merged with it, it would be the lower one."""
    nodes = [node("Mul", ["x", "p"], ["mul"], "mul", meta=fx("mul", "aten.mul.Tensor", "%x, %p_p")),
             node("Slice", ["mul", "one", "four", "one" if kept else "zero"], ["slice_2"], "first", meta=fx("slice_2", "aten.slice.Tensor", f"%mul, {kept}, 1, 4")),
             node("Slice", ["slice_2", "zero", "two", "one"], ["slice_4"], "last", meta=fx("slice_4", "aten.slice.Tensor", "%slice_3, 1, 0, 2")),
             node("Concat", ["slice_4", "slice_4"], ["y"], "twice", axis=1, meta=fx("y", "aten.cat.default", "[%slice_4, %slice_4], 1"))]
    return build(["p"], [P, *(ints(name, [1], [number]) for name, number in (("zero", 0), ("one", 1), ("two", 2), ("four", 4)))], nodes)


def merged_parts(stop):
    """mse_loss(h, q.detach()) and l1_loss(h, q), in either order: one subtraction. `stop`: the loss that the detached value is for."""
    first, second = ("%mul, %detach", "%mul, %tanh") if stop == 0 else ("%mul, %tanh", "%mul, %detach")
    of = fx("mse_loss", "aten.mse_loss.default", first)
    l1 = fx("l1_loss", "aten.l1_loss.default", second)
    nodes = [node("Mul", ["x", "p"], ["mul"], "mul", meta=fx("mul", "aten.mul.Tensor", "%x, %p_p")), node("Tanh", ["mul"], ["tanh"], "tanh", meta=fx("tanh", "aten.tanh.default", "%mul")),
             node("Sub", ["mul", "tanh"], ["val_0"], "minus", meta=of), node("Mul", ["val_0", "val_0"], ["val_1"], "square", meta=of), node("ReduceMean", ["val_1"], ["mse_loss"], "mse", keepdims=0, meta=of),
             node("Abs", ["val_0"], ["val_2"], "abs", meta=l1), node("ReduceMean", ["val_2"], ["l1_loss"], "l1", keepdims=0, meta=l1),
             node("Add", ["mse_loss", "l1_loss"], ["y"], "sum", meta=fx("y", "aten.add.Tensor", "%mse_loss, %l1_loss"))]
    return build(["p"], [P], nodes)


def merged_squares(f):
    """mse_loss(h, q.detach()) + mse_loss(h, q, reduction="sum"): one subtraction and one square."""
    of, total = fx("mse_loss", "aten.mse_loss.default", "%mul, %detach"), fx("mse_loss_1", "aten.mse_loss.default", "%mul, %tanh, 2")
    nodes = [node("Mul", ["x", "p"], ["mul"], "mul", meta=fx("mul", "aten.mul.Tensor", "%x, %p_p")), node("Tanh", ["mul"], ["tanh"], "tanh", meta=fx("tanh", "aten.tanh.default", "%mul")),
             node("Sub", ["mul", "tanh"], ["val_0"], "minus", meta=of), node("Mul", ["val_0", "val_0"], ["val_1"], "square", meta=of), node("ReduceMean", ["val_1"], ["mse_loss"], "mse", keepdims=0, meta=of),
             node("ReduceSum", ["val_1"], ["mse_loss_1"], "total", keepdims=0, meta=total),
             node("Add", ["mse_loss", "mse_loss_1"], ["y"], "sum", meta=fx("y", "aten.add.Tensor", "%mse_loss, %mse_loss_1"))]
    return build(["p"], [P], nodes)


def stopped_values(names):
    """tanh(h) with rows of sin(h) put into it, of which one or both are detached. The form of index_put shows the first only."""
    nodes = [node("Mul", ["x", "p"], ["mul"], "mul", meta=fx("mul", "aten.mul.Tensor", "%x, %p_p")), node("Tanh", ["mul"], ["tanh"], "tanh", meta=fx("tanh", "aten.tanh.default", "%mul")),
             node("Sin", ["mul"], ["sin"], "sin", meta=fx("sin", "aten.sin.default", "%mul")),
             node("ScatterND", ["tanh", "rows", "sin"], ["y"], "put", meta=fx("y", "aten.index_put.default", f"{names[0]}, [%i], {names[1]}"))]
    return build(["p"], [P, ints("rows", [3, 1], [2, 1, 0])], nodes)


def altered(read="mul", number=2.0, source="g", kept="mul"):
    """y = 2 * softplus(x g) + sin(tanh(x g)), in which a node reads other than its record has: the product, the tanh, or a part of the softplus."""
    soft = fx("softplus", "aten.softplus.default", "%mul")
    nodes = [node("Mul", ["x", source], ["mul"], "mul", meta=fx("mul", "aten.mul.Tensor", "%x, %p_g")),
             node("Tanh", [read], ["tanh"], "tanh", meta=fx("tanh", "aten.tanh.default", "%mul")), node("Sin", ["tanh"], ["sin"], "sin", meta=fx("sin", "aten.sin.default", "%tanh")),
             node("Exp", ["mul"], ["val_0"], "exp", meta=soft), node("Mul", ["val_0", kept], ["softplus"], "last", meta=soft),
             node("Mul", ["softplus", "two"], ["mul_1"], "twice", meta=fx("mul_1", "aten.mul.Tensor", "%softplus, 2")),
             node("Add", ["mul_1", "sin"], ["y"], "sum", meta=fx("y", "aten.add.Tensor", "%mul_1, %sin"))]
    return build(["g", "h"], [floats("g", [4], VALUES), floats("h", [4], [v + 1 for v in VALUES]), floats("two", [], [number])], nodes, values=[value("sin", ["batch", 4])])


def shared_transpose():
    """Two products with one weight: the export merged the transposes that both begin with."""
    first, second = (fx(name, "aten.linear.default", f"%{read}, %p_w") for name, read in (("linear", "x"), ("linear_1", "linear")))
    nodes = [node("Transpose", ["w"], ["val_0"], "turn", perm=[1, 0], meta=first), node("MatMul", ["x", "val_0"], ["linear"], "first", meta=first),
             node("MatMul", ["linear", "val_0"], ["y"], "second", meta=second)]
    return build(["w"], [floats("w", [4, 4], [0.1 * i for i in range(16)])], nodes)


def merged_norm():
    """A Gemm that has the record of the batch normalization behind it."""
    meta = fx("norm", "aten._native_batch_norm_legit_no_training.default", "%linear, %p_n, %p_n, %b_m, %b_m, 0.1, 1e-05", "norm")
    nodes = [node("Mul", ["x", "p"], ["mul"], "mul", meta=fx("mul", "aten.mul.Tensor", "%x, %p_p")), node("Gemm", ["mul", "w"], ["y"], "norm", meta=meta)]
    return build(["p", "w", "n"], [P, floats("w", [4, 4], [0.1 * i for i in range(16)])], nodes, buffers=["m"])


def merged_dropouts():
    """The difference of two dropouts of one value: one node."""
    nodes = [node("Mul", ["x", "p"], ["mul"], "mul", meta=fx("mul", "aten.mul.Tensor", "%x, %p_p")),
             node("Dropout", ["mul", "ratio", "training"], ["dropout"], "drop", meta=fx("dropout", "aten.dropout.default", "%mul, 0.5, True")),
             node("Sub", ["dropout", "dropout"], ["y"], "minus", meta=fx("y", "aten.sub.Tensor", "%dropout, %dropout_1"))]
    return build(["p"], [P, floats("ratio", [], [0.5]), tensor("training", [], 9, b"\1")], nodes)


def constant_weights():
    """A batch normalization without weights: the constants in their place have its record."""
    meta = fx("getitem", "aten._native_batch_norm_legit_functional.default", "%mul, None, None, %b_norm_running_mean, %b_norm_running_var, True, 0.1, 1e-05", "norm")
    nodes = [node("Mul", ["x", "p"], ["mul"], "mul", meta=fx("mul", "aten.mul.Tensor", "%x, %p_p")),
             node("Identity", ["one"], ["ones"], "ones", meta=meta), node("Identity", ["zero"], ["zeros"], "zeros", meta=meta),
             node("BatchNormalization", ["mul", "ones", "zeros", "norm.running_mean", "norm.running_var"], ["y"], "norm", meta=meta, epsilon=1e-5, momentum=0.9)]
    return build(["p"], [P, floats("norm.running_mean", [4], VALUES), floats("norm.running_var", [4], VALUES), floats("one", [4], [1.0] * 4),
                        floats("zero", [4], [0.0] * 4)], nodes, buffers=["norm.running_mean", "norm.running_var"],
                 outputs=["getitem_3: BUFFER_MUTATION target='norm.running_mean'", "getitem_4: BUFFER_MUTATION target='norm.running_var'"])


def layers(line):
    """Layers a and b of equal values read `mul`, and one of them once more: its tanh names linear_2, which was merged with linear_1."""
    names = ["a.weight", "a.bias", "b.weight", "b.bias"]

    def linear(name, layer, read):
        meta = fx(name, "aten.linear.default", f"%{read}, %p_{layer}_weight, %p_{layer}_bias", layer, line)
        return node("Gemm", [read, "w", "c"], [name], name, meta=meta, transB=1)
    nodes = [node("Mul", ["x", "p"], ["mul"], "mul", meta=fx("mul", "aten.mul.Tensor", "%x, %p_p")),
             linear("linear", "a", "x"), linear("linear_1", "b", "mul"),
             node("Sigmoid", ["linear_1"], ["sigmoid"], "sigmoid", meta=fx("sigmoid", "aten.sigmoid.default", "%linear_1")),
             node("Tanh", ["linear_1"], ["tanh"], "tanh", meta=fx("tanh", "aten.tanh.default", "%linear_2", source=line)),
             node("Mul", ["sigmoid", "tanh"], ["both"], "both", meta=fx("both", "aten.mul.Tensor", "%sigmoid, %tanh")),
             node("Add", ["both", "linear"], ["y"], "add", meta=fx("y", "aten.add.Tensor", "%both, %linear"))]
    return build(["p"] + names, [P, floats("w", [4, 4], [0.1 * i for i in range(16)]), floats("c", [4], VALUES)], nodes)


def custom(line):
    nodes = [node("Mul", ["x", "p"], ["mul"], "mul", meta=fx("mul", "aten.mul.Tensor", "%x, %p_p")),
             node("Tanh", ["mul"], ["y"], "tanh", meta=fx("y", "aten.tanh.default", "%mul", source=line))]
    return build(["p"], [P], nodes)


CASES = {
    "root": lambda f: rows("Sqrt", "aten.sqrt.default", "r = (h.pow(2).sum(-1, keepdim=True) + 1e-12).sqrt()"),
    "moved": lambda f: rows("Identity", "aten.view.default", "r = (q + self.eps).view(3, 1)", more=("Sqrt", "aten.sqrt.default")),
    "unknown": lambda f: rows("Log", "aten.log.default", "r = (h.pow(2).sum(-1, keepdim=True) + self.eps).log()"),
    "smooth": lambda f: rows("Tanh", "aten.tanh.default", "r = (q + self.zero).tanh()"),
    "group-norm": lambda f: group_norm(),
    "cycle": lambda f: cycle(),
    "wide": lambda f: wide(),
    "altered-epsilon": lambda f: group_norm(epsilon=1e-4),
    "silu": lambda f: silu(),
    "altered-inside": lambda f: silu(inner="x"),
    "altered-order": lambda f: silu(outer="val_1"),
    "altered-axis": lambda f: silu(axis=-2),
    "altered-shape": lambda f: silu(columns=2),
    "batch-norm": lambda f: batch_norm("aten._native_batch_norm_legit_no_training.default"),
    "batch-norm-training": lambda f: batch_norm("aten._native_batch_norm_legit_functional.default", "True, "),
    "batch-norm-record": lambda f: batch_norm("aten._native_batch_norm_legit_functional.default", "False, "),
    "instance-norm": lambda f: instance_norm(True),
    "instance-norm-evaluation": lambda f: instance_norm(False),
    "computed-statistic": lambda f: computed_statistic(),
    "detached-statistic": lambda f: computed_statistic([node("Identity", ["mul_1"], ["detach"], "detach", meta=fx("detach", "aten.detach.default", "%mul_1"))]),
    "changed-buffer": lambda f: changed("head.center"),
    "changed-counter": lambda f: counter(),
    "neutral": lambda f: neutral("%div"),
    "neutral-output": lambda f: neutral(original="div"),
    "neutral-split": lambda f: neutral("%getitem", split=True),
    "unread": lambda f: neutral(),
    "merged-dropouts": lambda f: merged_dropouts(),
    "merged-norm": lambda f: merged_norm(),
    "constant-weights": lambda f: constant_weights(),
    "shared-transpose": lambda f: shared_transpose(),
    "altered-none": lambda f: altered(),
    "altered-edge": lambda f: altered(read="x"),
    "altered-number": lambda f: altered(number=2.5),
    "altered-parameter": lambda f: altered(source="h"),
    "altered-part": lambda f: altered(kept="sin"),
    "merged-losses": lambda f: merged_losses(),
    "merged-behind": lambda f: merged_behind("aten.cross_entropy_loss.default"),
    "merged-lines": lambda f: merged_behind(of="Tanh", line="a = 2 * h.tanh()", sum="return a + 2 * g.tanh()"),
    "merged-equal": lambda f: merged_behind(of="Tanh", line="a = 2 * h.tanh()", sum="return a + 2 * h.tanh()"),
    "merged-line": lambda f: merged_behind(of="Tanh", line="return 2 * h.tanh() + 2 * h.tanh()"),
    "merged-loop": lambda f: merged_behind(of="Tanh", line="y = y + 2 * h.tanh()"),
    "pooled": lambda f: pooled(),
    "whole-slice": lambda f: sliced(1),
    "merged-slice": lambda f: sliced(0),
    "stopped-part": lambda f: merged_parts(0),
    "stopped-rest": lambda f: merged_parts(1),
    "stopped-square": merged_squares,
    "stopped-first": lambda f: stopped_values(["%detach", "%sin"]),
    "stopped-values": lambda f: stopped_values(["%detach", "%detach_1"]),
    "changed-folded": lambda f: changed("val_1", [value("val_1", [4], meta={"pkg.onnxscript.optimizer.folded_from": "['exp', 'head.center']"})]),
    "layer-a": lambda f: layers("return torch.sigmoid(self.b(g)) * torch.tanh(self.a(g)) + self.a(x)"),
    "layer-method": lambda f: layers("return torch.sigmoid(self.b(g)) * torch.tanh(self.b(x)) * self.a(g).tanh()"),
    "function": lambda f: custom("return Clip.apply(x * self.p)"),
    "initializer": lambda f: custom("self.apply(self.reset)"),
}

if __name__ == "__main__":
    case, path = sys.argv[1:]
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(CASES[case](path))
