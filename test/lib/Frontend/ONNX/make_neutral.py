"""Writes files from which PyTorch's exporter removed a product with 1 or a sum with 0: make_neutral.py CASE FILE."""
import os
import sys
from make_folded import VALUES, build, fx
from onnx_writer import *

ONES, ZEROS = [1.0] * 4, [0.0] * 4


def of(meta, classes=None, users=1):
    """`classes`: those of the modules around a node. `users`: the operations that read its result in the exported program."""
    record = meta["pkg.torch.onnx.fx_node"].replace("num_users=1", f"num_users={users}")
    return {**meta, "pkg.torch.onnx.fx_node": record} | ({"pkg.torch.onnx.class_hierarchy": str([*classes, "aten"])} if classes else {})


def removed(values=ONES, name="mul_1", scope="", classes=None, users=1, reader="%mul_1"):
    """y = tanh(exp(x p)), where the record of the tanh names `reader`."""
    p = f"{scope}.p" if scope else "p"
    nodes = [node("Mul", ["x", p], ["mul"], "mul", meta=of(fx("mul", "aten.mul.Tensor", "%x, %p_" + p.replace(".", "_"), scope, "h = x * self.p"), classes)),
             node("Exp", ["mul"], ["exp"], "exp", meta=of(fx("exp", "aten.exp.default", "%mul", scope, "h = h.exp()"), classes, users)),
             node("Tanh", ["exp"], ["y"], "tanh", meta=of(fx("y", "aten.tanh.default", reader.replace("mul_1", name), scope, "return torch.tanh(h * a)"), classes))]
    return build([p], [floats(p, [4], values)], nodes)


def output():
    """The loss is an output under the name of a product."""
    nodes = [node("Mul", ["x", "p"], ["y"], "mul", meta=fx("y", "aten.mul.Tensor", "%x, %p_p"))]
    return build(["p"], [floats("p", [4], ONES)], nodes, original="mul_1")


def passed(shape=(4,), scopes=("layer", "layer"), steps=("h = x.exp()", "return torch.tanh(h * a)")):
    """The module `layer` computes tanh(exp(x) * a) without the product. The model has p, and y = tanh(..) p."""
    nodes = [node("Exp", ["x"], ["exp"], "exp", meta=fx("exp", "aten.exp.default", "%x", scopes[0], steps[0])),
             node("Tanh", ["exp"], ["tanh"], "tanh", meta=fx("tanh", "aten.tanh.default", "%mul", scopes[1], steps[1])),
             node("Mul", ["tanh", "p"], ["y"], "mul", meta=fx("y", "aten.mul.Tensor", "%tanh, %p_p"))]
    return build(["p"], [floats("p", list(shape), ONES)], nodes)


def norms(third):
    """Three norms a, b and c of one class, which compute exp(x) w, one after the other. What b reads, in the record, was removed; `third`: what c reads."""
    def norm(name, read, value, result):
        classes = ["Model", "Norm"]
        return [node("Exp", [value], [f"{name}_exp"], f"{name}_exp", meta=of(fx(f"exp_{name}", "aten.exp.default", read, name, "y = x.exp()"), classes)),
                node("Mul", [f"{name}_exp", f"{name}.w"], [result], f"{name}_mul", meta=of(fx(result, "aten.times.Tensor", f"%exp_{name}, %p_{name}_w", name, "return y * self.w"), classes))]
    nodes = [*norm("a", "%x", "x", "times_a"), *norm("b", "%mul", "times_a", "times_b"), *norm("c", third, "times_b", "y")]
    return build(["a.w", "b.w", "c.w"], [floats(f"{name}.w", [4], values) for name, values in (("a", ONES), ("b", [1.0, 1.0, 1.0, 0.5]), ("c", VALUES))], nodes)


CASES = {
    "product": lambda f: removed(),
    "quotient": lambda f: removed(name="div"),
    "sum": lambda f: removed(ZEROS, name="add"),
    "difference": lambda f: removed(ZEROS, name="sub"),
    "element": lambda f: removed([0.1, 1.0, 0.7, 0.25]),
    "total": lambda f: removed([0.1, 0.2, 0.3, 0.4]),
    "other-values": lambda f: removed(VALUES),
    "own-class": lambda f: removed(scope="norm", classes=["Model", "model.Norm"]),
    "shipped-class": lambda f: removed(scope="norm", classes=["Model", "torch.nn.modules.normalization.RMSNorm"]),
    "output": lambda f: output(),
    "passed": lambda f: passed(),
    "matrix": lambda f: passed((1, 4)),
    "caller": lambda f: passed((1, 4), ("layer", "")),
    "norms": lambda f: norms("%times_b"),
    "all-norms": lambda f: norms("%mul_1"),
}

if __name__ == "__main__":
    case, path = sys.argv[1:]
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(CASES[case](path))
