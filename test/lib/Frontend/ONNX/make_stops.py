"""Writes models in which PyTorch stops gradients, or computes them in another way: make_stops.py CASE FILE."""
import os
import sys
from onnx_writer import *

from make_folded import VALUES, build, fx

P = floats("p", [4], VALUES)
HEAD = node("Mul", ["x", "p"], ["mul"], "mul", meta=fx("mul", "aten.mul.Tensor", "%x, %p_p"))


def traced(name, target, args, *frames):
    """The metadata of a node with a stack trace of functions called forward: (file, line of source), the innermost last."""
    trace = "\n".join(f'File "{file}", line 1, in forward\n    {line}' for file, line in frames)
    return {**fx(name, target, args), "pkg.torch.onnx.stack_trace": trace}


def masked(f):
    """Under no_grad: which elements are far from the row's largest. y = x p where they are not, else 0."""
    inside = [("<eval_with_key>.42", "max_1 = torch.ops.aten.max.dim(mul, -1)")]
    nodes = [HEAD, node("ReduceMax", ["mul", "last"], ["amax"], "amax", meta=traced("amax", "aten.amax.default", "%mul, [-1], True", *inside), keepdims=1),
             node("Sub", ["amax", "mul"], ["sub"], "sub", meta=traced("sub", "aten.sub.Tensor", "%amax, %mul", *inside)),
             node("Greater", ["sub", "some"], ["gt"], "gt", meta=traced("gt", "aten.gt.Scalar", "%sub, 0.5", *inside)),
             node("Where", ["gt", "none", "mul"], ["y"], "where", meta=fx("y", "aten.where.self", "%gt, 0, %mul"))]
    return build(["p"], [P, ints("last", [1], [-1]), floats("some", [], [0.5]), floats("none", [], [0.0])], nodes)


def blocked(word):
    """y = x p + tanh(x p), whose tanh is under autocast or no_grad. `word`: which of them the file records."""
    inside = [("<eval_with_key>.42", "tanh = torch.ops.aten.tanh.default(mul)")]
    nodes = [HEAD, node("Tanh", ["mul"], ["tanh"], "tanh", meta=traced("tanh", "aten.tanh.default", "%mul", *inside)),
             node("Add", ["mul", "tanh"], ["y"], "add", meta=fx("y", "aten.add.Tensor", "%mul, %tanh"))]
    return lambda f: build(["p"], [P], nodes, meta={"shale.blocks": word} if word else {})


def stepped(*frames):
    """y = x p + step(x p)."""
    meta = lambda name, target, args: traced(name, target, args, *frames)
    nodes = [HEAD, node("Greater", ["mul", "none"], ["gt"], "gt", meta=meta("gt", "aten.gt.Scalar", "%mul, 0")),
             node("Cast", ["gt"], ["step"], "cast", meta=meta("step", "aten._to_copy.default", "%gt"), to=FLOAT),
             node("Add", ["mul", "step"], ["y"], "add", meta=fx("y", "aten.add.Tensor", "%mul, %step"))]
    return lambda f: build(["p"], [P, floats("none", [], [0.0])], nodes)


def max_norm(f):
    """x is scaled by row i of the table, whose rows the model shortens to 0.5 in place."""
    renorm = fx("embedding_renorm", "aten.embedding_renorm.default", "%detach, %i, 0.5, 2.0", "e", "return F.embedding(")
    nodes = [node("Unique", ["i"], ["val_0"], "rows", meta=renorm, sorted=1), node("Gather", ["e.weight", "val_0"], ["val_4"], "chosen", meta=renorm, axis=0),
             node("ScatterND", ["e.weight", "i", "val_4"], ["embedding_renorm"], "changed", meta=renorm),
             node("Gather", ["embedding_renorm", "i"], ["embedding"], "lookup", meta=fx("embedding", "aten.embedding.default", "%embedding_renorm, %i", "e"), axis=0),
             node("Mul", ["x", "embedding"], ["y"], "scale", meta=fx("y", "aten.mul.Tensor", "%x, %embedding"))]
    return build(["e.weight"], [floats("e.weight", [2, 4], VALUES * 2), ints("i", [1, 1], [1])], nodes)


def left_out(target, args, kwargs="{}"):
    """y = a (x p), where the exporter writes the operation `a` as an Abs and does not read one of its arguments."""
    meta = fx("y", target, args)
    meta["pkg.torch.onnx.fx_node"] = meta["pkg.torch.onnx.fx_node"].replace("kwargs = {}", f"kwargs = {kwargs}")
    return lambda f: build(["p"], [P], [HEAD, node("Abs", ["mul"], ["y"], "abs", meta=meta)])


STEP = ("model.py", "return (x > 0).float()")
CASES = {
    "masked": masked,
    "block": blocked(""), "block-autocast": blocked("autocast"), "block-other": blocked("autocast,no_grad"),
    "max-norm": max_norm,
    "frequency": left_out("aten.embedding_bag.padding_idx", "%mul, %i, %o, True, 0, False, None, False, None"),
    "no-frequency": left_out("aten.embedding_bag.padding_idx", "%mul, %i, %o, False, 0, False, None, False, None"),
    "divisor": left_out("aten.avg_pool2d.default", "%mul, [2, 2], [2, 2], [0, 0], False, True, 3"),
    "divisor-named": left_out("aten.avg_pool2d.default", "%mul, [2, 2]", "{divisor_override: 3}"),
    "no-divisor": left_out("aten.avg_pool2d.default", "%mul, [2, 2], [2, 2], [0, 0], False, True, None"),
    "mean": left_out("aten.scatter_reduce.two", "%zeros, 0, %i, %mul, mean", "{include_self: False}"),
    "sum": left_out("aten.scatter_reduce.two", "%zeros, 0, %i, %mul, sum"),
    "function": stepped(("model.py", "q = Step.apply(h)"), STEP),
    "alias": stepped(("model.py", "q = step(h)"), STEP),
    "inline": stepped(("model.py", "def forward(self, h): return step(h)"), STEP),
    "checkpoint": stepped(("/site-packages/torch/utils/checkpoint.py", "outputs = run_function(*args)"), STEP),
    "base": stepped(("model.py", "q = super().forward(h)"), STEP),
    "method": stepped(("model.py", "q = loss(h)"), ("model.py", "return (x > self.zero).float()")),
    "library": stepped(("model.py", "q = loss(h)"), ("/site-packages/torch/nn/modules/loss.py", "return F.hinge_loss(")),
    "own": stepped(STEP),
}

if __name__ == "__main__":
    case, path = sys.argv[1:]
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as out:
        out.write(CASES[case](path))
