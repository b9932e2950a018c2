"""Writes one of the small models below in the form that PyTorch's exporter leaves: make_folded.py CASE FILE.

The metadata of the graph lists every parameter. Values that the exporter computed from parameters alone are initializers.
"""
import math
import os
import sys
from onnx_writer import *

SIGNATURE = "pkg.torch.export.ExportedProgram.graph_signature"
VALUES = [0.1, -0.4, 0.7, 0.25]


def fx(name, target, args, scope="", source="", file="model.py"):
    """The metadata of a node that was made from the operation `name`. `source`: its lines of source, that of the innermost call last."""
    scopes = [""] + ([scope] if scope else [])
    return {"pkg.torch.onnx.fx_node": f"%{name} : [num_users=1] = call_function[target=torch.ops.{target}](args = ({args}), kwargs = {{}})",
            "pkg.torch.onnx.name_scopes": str(scopes + [name]),
            "pkg.torch.onnx.stack_trace": "\n".join(f'File "{file}", line {i + 1}, in forward\n    {line}' for i, line in enumerate(source.splitlines()))}


def build(parameters, initializers, nodes, last="y", values=(), buffers=(), meta=(), outputs=(), original="mean", data=FLOAT, source=("", "model.py")):
    """loss = mean(last^2); x is [3, 4], of the type `data`. `original`: the name of the loss in the exported program. `source`: the line and file of the loss."""
    lines = ["# inputs"] + [f"p_{p.replace('.', '_')}: PARAMETER target='{p}'" for p in parameters]
    lines += [f"b_{b.replace('.', '_')}: BUFFER target='{b}' persistent=True" for b in buffers] + ["x: USER_INPUT", "", "# outputs", *outputs, f"{original}: USER_OUTPUT"]
    body = nodes + [node("Mul", [last, last], ["sq"], "square", meta=fx("square", "aten.mul.Tensor", f"%{last}, %{last}", "", *source)),
                    node("ReduceMean", ["sq"], ["loss"], "mean", meta=fx("mean", "aten.mean.default", "%square", "", *source), keepdims=0)]
    return model(graph(body, [value("x", ["batch", 4], data)], [value("loss", [], meta={"pkg.torch.onnx.original_node_name": original})], initializers, {SIGNATURE: "\n".join(lines), **dict(meta)}, values))


def times(constant, values, name, source, scope="", target="w", parameters=None, more=(), dims=None, op="aten.mul.Tensor"):
    """y = (x * p) * constant, where the exporter computed the constant."""
    given = floats("p", [4], VALUES)
    nodes = [node("Mul", ["x", "p"], ["mul"], "mul", meta=fx("mul", "aten.mul.Tensor", "%x, %p_p")),
             node("Mul", ["mul", constant], ["y"], "scale", meta=fx("y", op, f"%mul, %{name}", scope, source))]
    return build(parameters or ["p", target], [given] + ([floats(constant, [len(values)] if dims is None else dims, values)] if values else []) + list(more), nodes)


def recorded_sum(number=1.0, name="add_1"):
    """The product by 1 + n.weight. The list of the sum has the weight and val_0, and val_1 is val_0 in another type."""
    nodes = [node("Mul", ["x", "add_1"], ["y"], "scale", meta=fx("y", "aten.mul.Tensor", f"%x, %{name}", "n"))]
    folded = [value(constant, [4] if constant == "add_1" else [], meta={"pkg.onnxscript.optimizer.folded_from": names})
              for constant, names in (("add_1", "['n.weight', 'val_0']"), ("val_1", "['val_0']"))]
    return build(["n.weight"], [floats("add_1", [4], [1.5, 1.0, 0.5, 2.0])] + ([floats("val_1", [], [number])] if number else []), nodes, values=folded)


LIBRARY = ["lib/transformers/models/neox/modeling.py", "lib/torch/nn/modules/normalization.py"]


def norms(files, owner="transformers.models.neox.modeling.Layer"):
    """Two norms of x with equal weights, in the forward of a module of class `owner`, which calls go to from these files. The exporter kept one node."""
    def of(*arguments):
        meta = fx(*arguments)
        scopes = meta["pkg.torch.onnx.name_scopes"].count(",") + 1
        trace = "\n".join(f'File "{file}", line 1, in forward\n    x = f(x)' for file in files)
        return {**meta, "pkg.torch.onnx.class_hierarchy": str(["model.Model", owner, "aten"][:scopes - 1] + ["aten"]), "pkg.torch.onnx.stack_trace": trace}
    weights = [floats("b.ln_1.weight", [4], [1.0] * 4), floats("b.ln_1.bias", [4], [0.0] * 4)]
    nodes = [node("LayerNormalization", ["x", "b.ln_1.weight", "b.ln_1.bias"], ["layer_norm"], "norm",
                  meta=of("layer_norm", "aten.layer_norm.default", "%x, [4], %p_b_ln_1_weight, %p_b_ln_1_bias, 1e-05", "b.ln_1")),
             node("Tanh", ["layer_norm"], ["tanh"], "tanh", meta=of("tanh", "aten.tanh.default", "%layer_norm", "b")),
             node("Sigmoid", ["layer_norm"], ["sigmoid"], "sigmoid", meta=of("sigmoid", "aten.sigmoid.default", "%layer_norm_1", "b")),
             node("Add", ["tanh", "sigmoid"], ["y"], "add", meta=of("y", "aten.add.Tensor", "%tanh, %sigmoid"))]
    return build(["b.ln_1.weight", "b.ln_1.bias", "b.ln_2.weight", "b.ln_2.bias"], weights, nodes)


def regularizer(f):
    """y = x p + 0.5 sum |p|: the metadata of the sum names p."""
    values = [value("mul_1", [], meta={"pkg.onnxscript.optimizer.folded_from": "['abs_1', 'p', 'sum_1', 'val_3']"})]
    nodes = [node("Mul", ["x", "p"], ["mul"], "mul", meta=fx("mul", "aten.mul.Tensor", "%x, %p_p")),
             node("Add", ["mul", "mul_1"], ["y"], "add", meta=fx("y", "aten.add.Tensor", "%mul, %mul_1"))]
    return build(["p"], [floats("p", [4], VALUES), floats("mul_1", [], [0.725])], nodes, values=values)


def wrapped(meta):
    """A module with a parameter of its own, cls, and one of a part, inside of another module."""
    names = ["model.cls", "model.net.weight"]
    nodes = [node("Mul", ["x", names[0]], ["mul"], "mul", meta=fx("mul", "aten.mul.Tensor", "%x, %p_model_cls")),
             node("Add", ["mul", names[1]], ["y"], "add", meta=fx("y", "aten.add.Tensor", "%mul, %p_model_net_weight"))]
    return lambda f: build(names, [floats(names[0], [4], VALUES), floats(names[1], [4], VALUES[::-1])], nodes, meta=meta)


def same_name(f):
    """y = x p for a parameter that is called x, too."""
    return build(["x"], [floats("x", [4], VALUES)], [node("Mul", ["x", "x"], ["y"], "mul", meta=fx("y", "aten.mul.Tensor", "%x, %p_x"))])


def unused(f):
    return build(["p", "head.bias"], [floats("p", [4], VALUES)], [node("Mul", ["x", "p"], ["y"], "mul", meta=fx("y", "aten.mul.Tensor", "%x, %p_p"))])


def pieces(f):
    """Two parts of a parameter. The file does not have the whole parameter."""
    nodes = [node("Mul", ["x", "getitem"], ["mul"], "first", meta=fx("mul", "aten.mul.Tensor", "%x, %getitem")),
             node("Mul", ["mul", "getitem_1"], ["y"], "second", meta=fx("y", "aten.mul.Tensor", "%mul, %getitem_1"))]
    return build(["w"], [floats("getitem", [4], VALUES), floats("getitem_1", [4], VALUES[::-1])], nodes)


def removed(f):
    """y = tanh(x p w[0]): the product by w[0], which is 1, was left out."""
    nodes = [node("Mul", ["x", "p"], ["mul"], "mul", meta=fx("mul", "aten.mul.Tensor", "%x, %p_p")),
             node("Tanh", ["mul"], ["y"], "tanh", meta=fx("y", "aten.tanh.default", "%mul_1"))]
    return build(["p", "w"], [floats("p", [4], VALUES)], nodes)


def scaled(line, parameters, product="mul_1", folded="", reader=("Tanh", "aten.tanh.default"), first="Add"):
    """y = tanh((x + p) 1): the product by a parameter of 1 was left out. With `folded`, y = x + p + folded x, of a value of 0.25; `first`
    is the operation of x and p."""
    nodes = [node(first, ["x", "p"], ["mul"], "first", meta=fx(first.lower(), f"aten.{first.lower()}.Tensor", "%x, %p_p"))]
    if folded:
        nodes += [node("Mul", [folded, "x"], ["mul_2"], "scale", meta=fx("mul_2", "aten.mul.Tensor", f"%{folded}, %x", source=line)),
                  node("Add", ["mul", "mul_2"], ["y"], "add", meta=fx("y", "aten.add.Tensor", f"%{product}, %mul_2", source=line))]
    else:
        nodes.append(node(reader[0], ["mul"], ["y"], "reader", meta=fx("y", reader[1], f"%{product}", source=line)))
    return build(["p"] + parameters, [floats("p", [4], VALUES)] + ([floats(folded, [], [0.25])] if folded else []), nodes)


def chain(values, lines, parameters, extra=(), op="exp", dims=(4,)):
    """y = x p c, and (x p) d for a second line: constants c and d of these lines have the same value, under two names."""
    nodes = [node("Mul", ["x", "p"], ["mul"], "mul", meta=fx("mul", "aten.mul.Tensor", "%x, %p_p"))]
    for i, line in enumerate(lines):
        nodes.append(node("Mul", [f"mul_{i}" if i else "mul", op], [f"mul_{i + 1}"], f"scale{i}",
                          meta=fx(f"mul_{i + 1}", "aten.mul.Tensor", f"%{f'mul_{i}' if i else 'mul'}, %{op}{f'_{i}' if i else ''}", source=line)))
    return build(["p"] + parameters, [floats("p", [4], VALUES), floats(op, list(dims), values)] + list(extra), nodes, last=f"mul_{len(lines)}")


def renamed(f):
    """p is read again through an operation without effect."""
    nodes = [node("Mul", ["x", "p"], ["y"], "mul", meta=fx("y", "aten.mul.Tensor", "%x, %_to_copy"))]
    return build(["p"], [floats("p", [4], VALUES)], nodes)


def slices(f):
    """q is [2, 4], and its second row is read by itself."""
    rows = VALUES + [0.5, 0.6, -0.2, 0.9]
    nodes = [node("MatMul", ["x", "q"], ["h"], "product", meta=fx("h", "aten.matmul.default", "%x, %p_q")),
             node("Mul", ["x", "select"], ["m"], "scale", meta=fx("m", "aten.mul.Tensor", "%x, %select")),
             node("MatMul", ["m", "t"], ["g"], "turned", meta=fx("g", "aten.matmul.default", "%m, %t")),
             node("Add", ["h", "g"], ["y"], "add", meta=fx("y", "aten.add.Tensor", "%h, %g"))]
    weights = [floats("q", [4, 2], rows), floats("select", [4], [rows[i] for i in (1, 3, 5, 7)]), floats("t", [4, 2], [0.125 * i * i for i in range(8)])]
    return build(["q", "v"], weights, nodes)


def lerp(f):
    """y = lerp(x, p x, sigmoid(w)); only the source shows the role of w, and a conversion of x without effect is gone."""
    weight = [1 / (1 + math.exp(-v)) for v in VALUES]
    meta = fx("y", "aten.lerp.Tensor", "%type_as, %mul, %sigmoid", "mix", "return torch.lerp(x, before, torch.sigmoid(self.w))")
    nodes = [node("Mul", ["x", "p"], ["mul"], "mul", meta=fx("mul", "aten.mul.Tensor", "%x, %p_p")),
             node("Tanh", ["x"], ["tanh"], "tanh", meta=fx("tanh", "aten.tanh.default", "%x")),
             node("Sub", ["mul", "tanh"], ["diff"], "n1", meta=meta), node("Mul", ["weight_0", "diff"], ["tmp_1"], "n2", meta=meta),
             node("Add", ["tanh", "tmp_1"], ["tmp_2"], "n3", meta=meta), node("Mul", ["diff", "tmp_4"], ["tmp_5"], "n4", meta=meta),
             node("Sub", ["mul", "tmp_5"], ["tmp_6"], "n5", meta=meta), node("Greater", ["x", "zero"], ["tmp"], "n0", meta=meta),
             node("Where", ["tmp", "tmp_2", "tmp_6"], ["y"], "n6", meta=meta)]
    return build(["p", "mix.w"], [floats("p", [4], VALUES), floats("weight_0", [4], weight), floats("tmp_4", [4], [1 - w for w in weight]), floats("zero", [], [0.0])], nodes)


def alpha(f):
    """y = x p + 0.5 w: the exporter computed 0.5 w, and names w itself."""
    meta = fx("y", "aten.add.Tensor", "%mul, %p_w").copy()
    meta["pkg.torch.onnx.fx_node"] = meta["pkg.torch.onnx.fx_node"].replace("kwargs = {}", "kwargs = {alpha: 0.5}")
    nodes = [node("Mul", ["x", "p"], ["mul"], "mul", meta=fx("mul", "aten.mul.Tensor", "%x, %p_p")), node("Add", ["mul", "val_1"], ["y"], "add", meta=meta)]
    return build(["p", "w"], [floats("p", [4], VALUES), floats("val_1", [4], [0.5, 0.25, 0.3, 0.2])], nodes)


def query(f):
    """Attention whose learned queries were scaled by the exporter."""
    meta = fx("y", "aten.scaled_dot_product_attention.default", "%p_q, %mul, %mul")
    nodes = [node("Mul", ["x", "p"], ["mul"], "mul", meta=fx("mul", "aten.mul.Tensor", "%x, %p_p")),
             node("Transpose", ["mul"], ["t"], "keys", meta=meta, perm=[1, 0]), node("MatMul", ["val_1", "t"], ["s"], "scores", meta=meta),
             node("Softmax", ["s"], ["w"], "weights", meta=meta, axis=1), node("MatMul", ["w", "mul"], ["y"], "mix", meta=meta)]
    return build(["p", "q"], [floats("p", [4], VALUES), floats("val_1", [3, 4], [0.125 * i * i for i in range(12)])], nodes)


def own_name(f):
    """A node reads the initializer p, and its metadata does not name it."""
    nodes = [node("Mul", ["x", "p"], ["y"], "mul", meta=fx("y", "aten.mul.Tensor", "%x, 2"))]
    return build(["p"], [floats("p", [4], VALUES)], nodes)


def literal(f):
    """A number from the model's code, and a number that is a parameter and not in the file."""
    return times("clone", [-1e4], "clone", "x = torch.where(seen, x, fill)", dims=[], target="scale")


def conversions(split):
    """rms norms of x, multiplied by ones and converted: the exporter kept one of two, or the model has only one."""
    def rms(n, name):
        suffix = f"_{n}" if n else ""
        scope = f"b.{name}"
        return [node("Mul", ["x", "x"], [f"mul{suffix}"], f"square{n}", meta=fx(f"mul{suffix}", "aten.mul.Tensor", "%x, %x", scope)),
                node("Mul", [f"mul{suffix}", f"b.{name}.weight"], [f"mul_{n + 1}"], f"scale{n}", meta=fx(f"mul_{n + 1}", "aten.mul.Tensor", f"%mul{suffix}, %p_b_{name}_weight", scope))]
    nodes = rms(0, "ln_1") + [node("Tanh", ["mul_1"], ["tanh"], "tanh", meta=fx("tanh", "aten.tanh.default", "%type_as", "b")),
                              node("Sigmoid", ["mul_1"], ["sigmoid"], "sigmoid", meta=fx("sigmoid", "aten.sigmoid.default", "%type_as_1", "b")),
                              node("Mul", ["tanh", "sigmoid"], ["y"], "last", meta=fx("mul_4" if split else "mul_2", "aten.mul.Tensor", "%tanh, %sigmoid"))]
    return build(["b.ln_1.weight", "b.ln_2.weight"], [floats("b.ln_1.weight", [4], [1.0] * 4)], nodes)


def detached(f):
    """y = tanh(x p).detach() * p: the file has the tanh itself."""
    nodes = [node("Mul", ["x", "p"], ["mul"], "mul", meta=fx("mul", "aten.mul.Tensor", "%x, %p_p")),
             node("Tanh", ["mul"], ["tanh"], "tanh", meta=fx("tanh", "aten.tanh.default", "%mul")),
             node("Mul", ["tanh", "p"], ["y"], "product", meta=fx("y", "aten.mul.Tensor", "%detach, %p_p"))]
    return build(["p"], [floats("p", [4], VALUES)], nodes)


def head_bias(tied):
    """y = (x emb.weight) emb.weight + head.bias: the head's weight is the table's, and `bias` is another name of its bias, if the weight is tied."""
    table = "%p_emb_weight" if tied else "%p_head_weight"
    nodes = [node("Mul", ["x", "emb.weight"], ["mul"], "mul", meta=fx("mul", "aten.mul.Tensor", "%x, %p_emb_weight", "emb")),
             node("Mul", ["mul", "emb.weight" if tied else "head.weight"], ["mul_1"], "mul_1", meta=fx("mul_1", "aten.mul.Tensor", f"%mul, {table}", "head")),
             node("Add", ["mul_1", "head.bias"], ["y"], "add", meta=fx("y", "aten.add.Tensor", "%mul_1, %p_head_bias", "head"))]
    weights = [floats("emb.weight", [4], VALUES), floats("head.bias", [4], VALUES[::-1])] + ([] if tied else [floats("head.weight", [4], [v + 1 for v in VALUES])])
    return build(["emb.weight", "bias", "head.weight", "head.bias"], weights, nodes)


def context(operand, *source):
    """y = tanh(x), tanh of `operand` in generated code (torch.no_grad(), torch.autocast() or a reentrant checkpoint), times p. `source`: the line and file of the loss."""
    inside = fx("tanh", "aten.tanh.default", f"%{operand}", source=f"tanh = torch.ops.aten.tanh.default({operand})", file="<eval_with_key>.42")
    nodes = [node("Mul", ["x", "p"], ["mul"], "mul", meta=fx("mul", "aten.mul.Tensor", "%x, %p_p")),
             node("Tanh", [operand], ["tanh"], "tanh", meta=inside),
             node("Mul", ["tanh", "mul"], ["y"], "product", meta=fx("y", "aten.mul.Tensor", "%tanh, %mul"))]
    return build(["p"], [floats("p", [4], VALUES)], nodes, **({"source": source} if source else {}))


def detach_loss(target):
    """y = loss(x p, tanh(x p).detach()) in two nodes, where `view`, a copy of x p, was left out, too."""
    meta = fx("y", f"aten.{target}.default", "%view, %detach")
    nodes = [node("Mul", ["x", "p"], ["mul"], "mul", meta=fx("mul", "aten.mul.Tensor", "%x, %p_p")),
             node("Tanh", ["mul"], ["tanh"], "tanh", meta=fx("tanh", "aten.tanh.default", "%mul")),
             node("Sub", ["mul", "tanh"], ["val_1"], "first", meta=meta),
             node("Abs", ["val_1"], ["y"], "second", meta=meta)]
    return build(["p"], [floats("p", [4], VALUES)], nodes)


def detach_reversed():
    """y = (1 - tanh(x p).detach()) * p: the operands of the subtraction are in another order than the arguments."""
    nodes = [node("Mul", ["x", "p"], ["mul"], "mul", meta=fx("mul", "aten.mul.Tensor", "%x, %p_p")),
             node("Tanh", ["mul"], ["tanh"], "tanh", meta=fx("tanh", "aten.tanh.default", "%mul")),
             node("Sub", ["one", "tanh"], ["rsub"], "rest", meta=fx("rsub", "aten.rsub.Scalar", "%detach, 1")),
             node("Mul", ["rsub", "p"], ["y"], "product", meta=fx("y", "aten.mul.Tensor", "%rsub, %p_p"))]
    return build(["p"], [floats("p", [4], VALUES), floats("one", [], [1.0])], nodes)


def detach_twice():
    """y = (x p) - (x p).detach(): both operands are one value."""
    nodes = [node("Mul", ["x", "p"], ["mul"], "mul", meta=fx("mul", "aten.mul.Tensor", "%x, %p_p")),
             node("Sub", ["mul", "mul"], ["y"], "difference", meta=fx("y", "aten.sub.Tensor", "%mul, %detach"))]
    return build(["p"], [floats("p", [4], VALUES)], nodes)


def cloned(source="", turn=False):
    """y = tanh(clone(linear(x p)))."""
    nodes = [node("Mul", ["x", "p"], ["mul"], "mul", meta=fx("mul", "aten.mul.Tensor", "%x, %p_p")),
             node("Gemm", ["mul", "w"], ["linear"], "linear", meta=fx("linear", "aten.linear.default", "%mul, %p_w"))]
    if turn:
        nodes.append(node("Transpose", ["linear"], ["transpose"], "turn", meta=fx("transpose", "aten.transpose.int", "%linear, 0, 1"), perm=[1, 0]))
    nodes.append(node("Tanh", ["transpose" if turn else "linear"], ["y"], "tanh", meta=fx("y", "aten.tanh.default", "%clone", source=source)))
    return build(["p", "w"], [floats("p", [4], VALUES), floats("w", [4, 4], [0.1 * i for i in range(16)])], nodes)


def detach_node(f):
    """y = p.detach() * (x p), exported with optimize=False."""
    nodes = [node("Mul", ["x", "p"], ["mul"], "mul", meta=fx("mul", "aten.mul.Tensor", "%x, %p_p")),
             node("Identity", ["p"], ["detach"], "detach", meta=fx("detach", "aten.detach.default", "%p_p")),
             node("Mul", ["mul", "detach"], ["y"], "product", meta=fx("y", "aten.mul.Tensor", "%mul, %detach"))]
    return build(["p"], [floats("p", [4], VALUES)], nodes)


def detach_copy(f):
    """y = (x p) + (x p).clone().detach_(): the copy is left out."""
    nodes = [node("Mul", ["x", "p"], ["mul"], "mul", meta=fx("mul", "aten.mul.Tensor", "%x, %p_p")),
             node("Add", ["mul", "mul"], ["y"], "sum", meta=fx("y", "aten.add.Tensor", "%mul, %clone", source="y = mul + mul.clone().detach_()"))]
    return build(["p"], [floats("p", [4], VALUES)], nodes)


def detach_folded(folded_from, name="permute"):
    """t = w.detach() on a line of its own, then y = (x p) @ t.T: the exporter folded the transpose and kept the names it read."""
    nodes = [node("Mul", ["x", "p"], ["mul"], "mul", meta=fx("mul", "aten.mul.Tensor", "%x, %p_p")),
             node("MatMul", ["mul", name], ["y"], "product", meta=fx("y", "aten.matmul.default", f"%mul, %{name}", source="return (x * self.p) @ t.T"))]
    values = [0.5, -0.25, 1.5, 2.0, 0.125, -1.0, 0.75, 3.0]
    folded = value(name, [4, 2], meta={"pkg.onnxscript.optimizer.folded_from": folded_from})
    return build(["p", "w"], [floats("p", [4], VALUES), floats(name, [4, 2], values)], nodes, values=[folded])


def layers(shared):
    """Layers 0 and 1 add halves of their own w, which have equal elements: the file has one Split. Shared: layer 1 also reads
    what layer 0 computed of x and w, which is the same."""
    nodes = [node("Mul", ["x", "p"], ["mul"], "mul", meta=fx("mul", "aten.mul.Tensor", "%x, %p_p")),
             node("Split", ["layers.0.attn.w"], ["part_0", "part_1"], "split", num_outputs=2),
             node("Add", ["mul", "part_0"], ["add"], "add0", meta=fx("add", "aten.add.Tensor", "%mul, %getitem", "layers.0.attn")),
             node("Tanh", ["add"], ["tanh"], "tanh", meta=fx("tanh", "aten.tanh.default", "%add", "layers.0.attn")),
             node("Add", ["mul" if not shared else "add", "part_1"], ["add_1"], "add1",
                  meta=fx("add_1", "aten.add.Tensor", "%mul, %getitem_3" if not shared else "%add_9, %getitem_3", "layers.1.attn")),
             node("Mul", ["tanh", "add_1"], ["y"], "product", meta=fx("y", "aten.mul.Tensor", "%tanh, %add_1"))]
    return build(["p", "layers.0.attn.w", "layers.1.attn.w"], [floats("p", [4], VALUES), floats("layers.0.attn.w", [8], VALUES * 2)], nodes)


def layers_behind(f):
    """The same, but both layers read the second half behind a node without a record."""
    nodes = [node("Mul", ["x", "p"], ["mul"], "mul", meta=fx("mul", "aten.mul.Tensor", "%x, %p_p")),
             node("Split", ["layers.0.attn.w"], ["part_0", "part_1"], "split", num_outputs=2), node("Neg", ["part_1"], ["neg"], "neg"),
             node("Add", ["mul", "part_0"], ["add"], "add0", meta=fx("add", "aten.add.Tensor", "%mul, %getitem", "layers.0.attn")),
             node("Add", ["add", "neg"], ["add_1"], "neg0", meta=fx("add_1", "aten.add.Tensor", "%add, %getitem_1", "layers.0.attn")),
             node("Add", ["add_1", "part_0"], ["add_2"], "add1", meta=fx("add_2", "aten.add.Tensor", "%add_1, %getitem_2", "layers.1.attn")),
             node("Mul", ["add_2", "neg"], ["y"], "product", meta=fx("y", "aten.mul.Tensor", "%add_2, %getitem_3", "layers.1.attn"))]
    return build(["p", "layers.0.attn.w", "layers.1.attn.w"], [floats("p", [4], VALUES), floats("layers.0.attn.w", [8], VALUES * 2)], nodes)


def shared_table(names):
    """Two tables that are looked up, and a head, read one tensor. An operation without effect is gone."""
    nodes = [node("Mul", ["x", "head.weight"], ["embedding"], "source", meta=fx("embedding", "aten.embedding.default", "%x, %p_head_weight", "m.encoder.table")),
             node("Mul", ["embedding", "head.weight"], ["embedding_1"], "target",
                  meta=fx("embedding_1", "aten.embedding.default", "%embedding, %p_head_weight", "m.decoder.table")),
             node("Mul", ["embedding_1", "head.weight"], ["y"], "head", meta=fx("y", "aten.mul.Tensor", "%mul, %p_head_weight", "head"))]
    return build(names, [floats("head.weight", [4], VALUES)], nodes)


BOTH = "y = torch.tanh(self.ln_1(x)) * torch.sigmoid(self.ln_2(x))"


def merged_scales(line=BOTH, converts=False):
    """Two modules scale x by 1 + weight, of zeros: the export folded the sums and kept one product. `line`: that of the model, as the second call has it.
    With `converts`, both modules convert the product to its own type, which the export left out."""
    first, second = ("type_as", "type_as_1") if converts else ("mul", "mul_1")
    own = fx("mul", "aten.mul.Tensor", "%x, %add", "b.ln_1", f"{BOTH}\nreturn {'(x * (1 + self.weight)).type_as(x)' if converts else 'x * (1 + self.weight)'}")
    nodes = [node("Mul", ["x", "add"], ["mul"], "scale", meta=own), *apart("mul", first, second, line)]
    folded = value("add", [4], meta={"pkg.onnxscript.optimizer.folded_from": "['b.ln_1.weight', 'val_0']"})
    return build(["b.ln_1.weight", "b.ln_2.weight"], [floats("add", [4], [1.0] * 4)], nodes, values=[folded])


def apart(read, first, second, line=BOTH):
    """y = tanh(first) * sigmoid(second), both of which are `read` in the file."""
    return [node("Tanh", [read], ["tanh"], "tanh", meta=fx("tanh", "aten.tanh.default", f"%{first}", "b", BOTH)),
            node("Sigmoid", [read], ["sigmoid"], "sigmoid", meta=fx("sigmoid", "aten.sigmoid.default", f"%{second}", "b", line)),
            node("Mul", ["tanh", "sigmoid"], ["y"], "both", meta=fx("mul_2", "aten.mul.Tensor", "%tanh, %sigmoid", "b", BOTH))]


def merged_gains(f):
    """Two modules compute x (weight gain) + gain of equal values: the export folded the products of parameters, and kept one sum."""
    names = [f"b.ln_{i}.{last}" for i in (1, 2) for last in ("weight", "gain")]
    lines = f"{BOTH}\nreturn x * (self.weight * self.gain) + self.gain"
    nodes = [node("Mul", ["x", "mul"], ["mul_1"], "scale", meta=fx("mul_1", "aten.mul.Tensor", "%x, %mul", "b.ln_1", lines)),
             node("Add", ["mul_1", names[1]], ["add"], "shift", meta=fx("add", "aten.add.Tensor", "%mul_1, %p_b_ln_1_gain", "b.ln_1", lines)),
             *apart("add", "add", "add_1")]
    folded = value("mul", [4], meta={"pkg.onnxscript.optimizer.folded_from": str(names[:2])})
    return build(names, [floats("mul", [4], [2 * v for v in VALUES]), floats(names[1], [4], [2.0] * 4)], nodes, values=[folded])


def shared_layer(trained):
    """Layers 0 and 1 read what the export computed for layer 0, of a table alone, or of a parameter, too."""
    other = "layers.0.attn.w" if trained else "table"
    nodes = [node("Mul", ["x", "p"], ["mul"], "mul", meta=fx("mul", "aten.mul.Tensor", "%x, %p_p")),
             node("Mul", ["x", other], ["gather"], "looked", meta=fx("gather", "aten.gather.default", f"%x, %p_{other.replace('.', '_')}" if trained else "%x, %table", "layers.0.attn")),
             node("Tanh", ["gather"], ["part"], "plain"), node("Sin", ["part"], ["sin"], "sin", meta=fx("sin", "aten.sin.default", "%tanh", "layers.0.attn")),
             node("Mul", ["mul", "layers.0.attn.w"], ["mul_1"], "scale0", meta=fx("mul_1", "aten.mul.Tensor", "%mul, %p_layers_0_attn_w", "layers.0.attn")),
             node("Add", ["mul_1", "sin"], ["add"], "add0", meta=fx("add", "aten.add.Tensor", "%mul_1, %sin", "layers.0.attn")),
             node("Mul", ["add", "layers.1.attn.w"], ["mul_2"], "scale1", meta=fx("mul_2", "aten.mul.Tensor", "%add, %p_layers_1_attn_w", "layers.1.attn")),
             node("Add", ["mul_2", "sin"], ["y"], "add1", meta=fx("y", "aten.add.Tensor", "%mul_2, %sin_1", "layers.1.attn"))]
    weights = [floats("p", [4], VALUES), floats("layers.0.attn.w", [4], VALUES), floats("layers.1.attn.w", [4], VALUES[::-1]), floats("table", [3, 4], [0.125 * i * i for i in range(12)])]
    return build(["p", "layers.0.attn.w", "layers.1.attn.w"], weights, nodes)


NEGATED = [1 - v for v in VALUES]


def shown(origins):
    """y = (x m) c, where c is [0, 1], and no node reads the parameter w. `origins`: what the exporter lists as that from which it folded c."""
    values = [value("slice_1", [2], meta={"pkg.onnxscript.optimizer.folded_from": str(origins)})] if origins else []
    nodes = [node("MatMul", ["x", "m"], ["mm"], "product", meta=fx("mm", "aten.matmul.default", "%x, %p_m")),
             node("Mul", ["mm", "slice_1"], ["y"], "hide", meta=fx("y", "aten.mul.Tensor", "%mm, %slice_1", source="return h * c"))]
    return lambda f: build(["m", "w"], [floats("m", [4, 2], VALUES + [0.5, 0.6, -0.2, 0.9]), floats("slice_1", [2], [0.0, 1.0])], nodes, values=values)


CASES = {
    "shown": shown([]),
    "shown-parameter": shown(["w", "val_1"]),
    "projection": lambda f: times("val_1", VALUES, "p", "", parameters=["p", "l.weight_hr_l0"]),
    "one-minus": lambda f: times("sub", NEGATED, "sub", "", parameters=["p"]),
    "negative-exp": lambda f: times("neg", [-math.exp(v) for v in VALUES], "neg", "", parameters=["p"]),
    "source": lambda f: times("add_1", [1.5, 1.0, 0.5, 2.0], "add_1", "y = y * (1.0 + self.weight.float())", "n", "n.weight"),
    "recorded-sum": lambda f: recorded_sum(),
    "unrecorded-sum": lambda f: recorded_sum(None),
    "source-half": lambda f: times("div", [1.5, 1.25, 0.5, 2.0], "div", "x = x * (self.w / 2)"),
    "source-other": lambda f: times("add_1", [1.5, 1.0, 0.5, 2.0], "add_1", "return x * (1 + self.other)"),
    "embedding": lambda f: times("embedding_1", [math.sin(i * i) for i in range(12)], "embedding_1", "h = x + position_embeds", target="wpe.weight", dims=[3, 4]),
    "looked-up-twice": lambda f: times("embedding_1", VALUES[::-1] + [1.0, 2.0, 3.0, 4.5] + VALUES[::-1], "embedding_1", "", target="wpe.weight", dims=[3, 4]),
    "regularizer": regularizer,
    "unknown": lambda f: times("tanh", [math.tanh(v * 3) for v in VALUES], "tanh", "", parameters=["p"]),
    "constant-parameter": lambda f: times("p", [], "sub", "y = x * mixed", parameters=["p"]),
    "lost": lambda f: times("tanh", [0.5, 0.25, 0.3, 0.2], "tanh", ""),
    "norms": lambda f: norms(["model.py", *LIBRARY]),
    "norms-own": lambda f: norms(["model.py", *LIBRARY], "model.Block"),
    "norms-replaced": lambda f: norms([*LIBRARY, "model.py"]),
    "norms-untraced": lambda f: norms([]),
    "lerp": lerp,
    "layers": lambda f: layers(False),
    "layers-behind": layers_behind,
    "layers-shared": lambda f: layers(True),
    "layers-of-table": lambda f: shared_layer(False),
    "layers-of-parameter": lambda f: shared_layer(True),
    "shared-table": lambda f: shared_table(["m.table.weight", "m.encoder.table.weight", "m.decoder.table.weight", "head.weight"]),
    "shared-table-last": lambda f: shared_table(["m.encoder.table.weight", "m.decoder.table.weight", "m.table.weight", "head.weight"]),
    "shared-table-elsewhere": lambda f: shared_table(["n.table.weight", "m.encoder.table.weight", "m.decoder.table.weight", "head.weight"]),
    "merged-scales": lambda f: merged_scales(),
    "merged-conversions": lambda f: merged_scales(converts=True),
    "merged-gains": merged_gains,
    "detached": detached,
    "head-bias": lambda f: head_bias(True),
    "own-bias": lambda f: head_bias(False),
    "context": lambda f: context("mul"),
    "context-of-loss": lambda f: context("mul", "mean = torch.ops.aten.mean.default(square)", "<eval_with_key>.43"),
    "context-of-input": lambda f: context("x"),
    "detach-node": detach_node,
    "detach-reversed": lambda f: detach_reversed(),
    "detach-twice": lambda f: detach_twice(),
    "detach-loss": lambda f: detach_loss("l1_loss"),
    "detach-unknown": lambda f: detach_loss("my_loss"),
    "clone": lambda f: cloned("y = h.tanh()"),
    "clone-shown": lambda f: cloned("y = h.clone().tanh()"),
    "clone-of-transpose": lambda f: cloned("y = h.tanh()", turn=True),
    "detach-copy": detach_copy,
    "detach-folded": lambda f: detach_folded("['detach_1', 'w']"),
    "detach-hostile": lambda f: detach_folded("['detach', 'w"),
    "not-detached": lambda f: detach_folded("['w']"),
    "alpha": alpha,
    "query": query,
    "own-name": own_name,
    "literal": literal,
    "conversions": lambda f: conversions(True),
    "one-conversion": lambda f: conversions(False),
    "same-name": same_name,
    "unused": unused,
    "wrapped": wrapped({"shale.wrapper": "model"}),
    "wrapped-otherwise": wrapped({"shale.wrapper": "mod"}),
    "unrecorded": wrapped({}),
    "frozen": wrapped({"shale.wrapper": "model", "shale.frozen": "old.name\tnet.weight"}),
    "frozen-all": wrapped({"shale.wrapper": "model", "shale.frozen": "cls\nnet.weight\n"}),
    "frozen-unknown": wrapped({"shale.wrapper": "model", "shale.frozen": "cls\nnet.bias"}),
    "pieces": pieces,
    "removed": removed,
    "clamped": lambda f: chain([math.exp(v) for v in VALUES], ["y = x * torch.clamp(self.w, max=4.6).exp()"], ["w"]),
    "two-parameters": lambda f: chain([math.exp(v * v) for v in VALUES], ["y = x * torch.exp(self.p * self.w)"], ["w"]),
    "skip": lambda f: scaled("y = torch.tanh(self.w * h)", ["w"]),
    "gates": lambda f: scaled("h = self.w[0] * h + self.w[1] * x", ["w"], folded="select_1"),
    "renamed": renamed,
    "slices": slices,
}

if __name__ == "__main__":
    case, path = sys.argv[1:]
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as out:
        out.write(CASES[case](path))
