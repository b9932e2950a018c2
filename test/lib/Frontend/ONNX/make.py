"""Writes one of the small models below: make.py CASE FILE. A case may write further files to the same folder."""
import os
import sys
from onnx_writer import *

X = value("x", ["batch", 4])
LOSS = value("loss", [])
W = floats("w", [4, 2], [0.5] * 7 + [0.25])


def linear(initializers=(W,), nodes=(), **kw):
    """loss = mean((x w)^2), plus the additions of a case."""
    body = list(nodes) or [node("MatMul", ["x", "w"], ["y"], "product")]
    body += [node("Mul", ["y", "y"], ["z"], "square"), node("ReduceMean", ["z"], ["loss"], "mean", keepdims=0)]
    return model(graph(body, [X], [LOSS], initializers), **kw)


def external(**kw):
    return lambda f: linear([tensor("w", [4, 2], external=kw)])


def beside(name, data):
    def write(f):
        with open(os.path.join(os.path.dirname(f), name), "wb") as out:
            out.write(data)
    return write


def outside_link(f):
    d = os.path.dirname(f)
    os.makedirs(d + "/outside", exist_ok=True)
    os.makedirs(d + "/inside", exist_ok=True)
    with open(d + "/outside/secret", "wb") as out:
        out.write(b"\0" * 32)
    link = d + "/inside/data"
    if not os.path.islink(link):
        os.symlink("../outside/secret", link)
    return linear([tensor("w", [4, 2], external={"location": "data"})])


def inside_link(f):
    d = os.path.dirname(f)
    with open(d + "/blob", "wb") as out:
        out.write(b"\0" * 32)
    if not os.path.islink(d + "/link"):
        os.symlink("blob", d + "/link")
    return linear([tensor("w", [4, 2], external={"location": "link"})])


def fifo(f):
    p = os.path.dirname(f) + "/pipe"
    if not os.path.exists(p):
        os.mkfifo(p)
    return linear([tensor("w", [4, 2], external={"location": "pipe"})])


def short_file(f):
    beside("short.bin", b"\0" * 16)(f)
    return linear([tensor("w", [4, 2], external={"location": "short.bin", "offset": 0, "length": 32})])


def good_external(f):
    beside("data.bin", b"\0" * 8 + struct.pack("<8f", *range(8)))(f)
    return linear([tensor("w", [4, 2], external={"location": "data.bin", "offset": 8, "length": 32})])


def const(name, values):
    return node("Constant", [], [name], "const_" + name, value=ints("", [len(values)], values))


def expand_bomb(f):
    big = [const("s", [1 << 20, 1 << 20]), node("Expand", ["one", "s"], ["e"], "bomb"), node("ReduceSum", ["e"], ["r"], "sum", keepdims=0),
           node("MatMul", ["x", "w"], ["y0"], "product"), node("Add", ["y0", "r"], ["y"], "add")]
    return linear([W, floats("one", [1], [1.0])], big)


def many_folds(f):
    """No single value is too large, but all of them together are."""
    body = [node("Range", ["zero", "many", "one"], ["f0"], "range")]
    for i in range(100):
        body.append(node("Mul", [f"f{i}", f"f{i}"], [f"f{i + 1}"], f"fold{i}"))
    body += [node("ReduceSum", ["f100"], ["r"], "sum", keepdims=0), node("MatMul", ["x", "w"], ["y0"], "product"),
             node("Cast", ["r"], ["rf"], "cast", to=FLOAT), node("Add", ["y0", "rf"], ["y"], "add")]
    return linear([W, ints("zero", [], [0]), ints("many", [], [1 << 22]), ints("one", [], [1])], body)


def chain(count, biased):
    """Elementwise ops in a chain; every fourth adds a value before, or a parameter."""

    def write(f):
        weights, body = [W], [node("MatMul", ["x", "w"], ["a0"], "product")]
        for i in range(count):
            op = ["Tanh", "Sigmoid", "Neg", "Add"][i % 4]
            operands = [f"a{i}"]
            if op == "Add":
                operands.append(f"bias{i}" if biased else f"a{i - 3}")
                if biased:
                    weights.append(floats(f"bias{i}", [2], [0.1, 0.2]))
            body.append(node(op, operands, ["y" if i + 1 == count else f"a{i + 1}"], f"link{i}"))
        return linear(weights, body)

    return write


def doubling(f):
    """Each function calls the next one twice: 2^40 nodes."""
    functions = [function(f"f{i}", ["a"], ["c"], [node(f"f{i + 1}", ["a"], ["b"], "one", "local"), node(f"f{i + 1}", ["b"], ["c"], "two", "local")]) for i in range(40)]
    functions.append(function("f40", ["a"], ["c"], [node("Identity", ["a"], ["c"], "leaf")]))
    return linear([W], [node("MatMul", ["x", "w"], ["y0"], "product"), node("f0", ["y0"], ["y"], "call", "local")], functions=functions, opsets=(("", 18), ("local", 1)))


def unsupported(f):
    body = [node("MatMul", ["x", "w"], ["a"], "product"), node("Conv3", ["a"], ["b"], "first_conv"), node("Conv3", ["b"], ["c"], "second_conv"),
            node("Magic", ["c"], ["d"], "wand", "com.acme"), node("Swish", ["d"], ["y"], "late")]
    return linear([W], body, opsets=(("", 18), ("com.acme", 3)))


def dropout(training, ratio):
    return lambda f: linear([W, floats("p", [], [ratio]), tensor("t", [], BOOL, bytes([training]))],
                            [node("MatMul", ["x", "w"], ["a"], "product"), node("Dropout", ["a", "p", "t"], ["y"], "drop")])


def logits(nodes=(), outputs=("scores",)):
    body = [node("Gather", ["table", "ids"], ["h"], "embed"), node("MatMul", ["h", "head"], ["scores"], "head")] + list(nodes)
    table = floats("table", [8, 4], [i / 32 for i in range(32)])
    head = floats("head", [4, 8], [i / 16 for i in range(32)])
    return model(graph(body, [value("ids", ["batch", 6], INT64)], [value(o, ["batch", 6, 8]) for o in outputs], [table, head]))


def cut(source, result, start, end=100, axis=1):
    return [const(f"{result}_{key}", [v]) for key, v in (("from", start), ("to", end), ("axis", axis))] + [
        node("Slice", [source, f"{result}_from", f"{result}_to", f"{result}_axis"], [result], f"cut_{result}")]


def language_model(nodes=(), seen="ids", labels="targets", scores="scores", shape=("batch", 6), label_shape=None, more=(), weights=(), meta={}):
    """The loss of a head over an embedding of `seen`, with nodes before the model and after its scores."""
    body = [node("Gather", ["table", seen], ["h"], "embed"), node("MatMul", ["h", "head"], ["scores"], "head")]
    last = [const("rows", [-1, 8]), const("all", [-1]), node("Reshape", [scores, "rows"], ["l"], "logit_rows"),
            node("Reshape", [labels, "all"], ["t"], "label_rows"), node("SoftmaxCrossEntropyLoss", ["l", "t"], ["loss"], "cross")]
    early = [n for n in nodes if b"scores" not in n]
    body = early + body + [n for n in nodes if b"scores" in n] + last
    names = [("ids", shape), ("targets", label_shape or shape), *more]
    weights = [*weights, floats("table", [8, 4], [i / 32 for i in range(32)]), floats("head", [4, 8], [i * i % 17 / 16 for i in range(32)]),
               ints("bos", [3, 1], [7] * 3), ints("one", [1], [1])]
    return lambda f: model(graph(body, [value(name, dims, INT64) for name, dims in names], [LOSS], weights, meta))


def likelihood(axis):
    """The loss of log-probabilities over dimension `axis` of scores [batch, 6, 8], whose rows of 8 are classes."""
    body = [node("Gather", ["table", "ids"], ["h"], "embed"), node("MatMul", ["h", "head"], ["scores"], "head"),
            node("LogSoftmax", ["scores"], ["logp"], "log_softmax", axis=axis), const("rows", [-1, 8]), const("all", [-1]),
            node("Reshape", ["logp", "rows"], ["l"], "rows_of_classes"), node("Reshape", ["targets", "all"], ["t"], "label_rows"),
            node("NegativeLogLikelihoodLoss", ["l", "t"], ["loss"], "likelihood")]
    weights = [floats("table", [8, 4], [i / 32 for i in range(32)]), floats("head", [4, 8], [i * i % 17 / 16 for i in range(32)])]
    return lambda f: model(graph(body, [value(name, ("batch", 6), INT64) for name in ("ids", "targets")], [LOSS], weights))


EXTRA = [node("Cast", ["extra"], ["bias"], "cast_extra", to=FLOAT), node("Add", ["scores", "bias"], ["scores_more"], "add_extra")]


def attended(bias=None):
    """Each position reads the `scores` of all positions. With a bias, the softmax is also squared, so that it is not recovered as attention."""
    if bias:
        plain = attended()
        return plain[:3] + [node("Add", ["scores_alike", bias], ["scores_biased"], "bias"), node("Softmax", ["scores_biased"], ["scores_first"], "softmax", axis=-1),
                            node("Mul", ["scores_first", "scores_first"], ["scores_weights"], "scores_square")] + plain[4:]
    return [node("Unsqueeze", ["scores", "one"], ["scores_heads"], "heads"), node("Transpose", ["scores_heads"], ["scores_keys"], "turn", perm=[0, 1, 3, 2]),
            node("MatMul", ["scores_heads", "scores_keys"], ["scores_alike"], "alike"), node("Softmax", ["scores_alike"], ["scores_weights"], "softmax", axis=-1),
            node("MatMul", ["scores_weights", "scores_heads"], ["scores_mixed"], "mix"), node("Squeeze", ["scores_mixed", "one"], ["scores_seen"], "one_head")]


def decoded():
    """The model reads the labels, moved by one position, and the encoded ids."""
    return cut("targets", "kept", 0, 5) + [
        node("Concat", ["bos", "kept"], ["pushed"], "push", axis=1), node("Gather", ["table", "ids"], ["other"], "encode"),
        node("MatMul", ["other", "head"], ["scores_other"], "encoded"), node("Add", ["scores", "scores_other"], ["scores_both"], "both")]


def shape_only(f):
    """The graph reads only the shape of attention_mask."""
    body = [node("Shape", ["attention_mask"], ["s"], "shape"), node("Reshape", ["ids", "s"], ["i"], "reshape"),
            node("Gather", ["table", "i"], ["h"], "embed"), node("MatMul", ["h", "head"], ["scores"], "head")]
    weights = [floats("table", [8, 4], [i / 32 for i in range(32)]), floats("head", [4, 8], [i / 16 for i in range(32)])]
    return model(graph(body, [value("attention_mask", ["batch", 6], INT64), value("ids", ["batch", 6], INT64)], [value("scores", ["batch", 6, 8])], weights))


TABLE = [floats("table", [8, 4], [i / 32 for i in range(32)]), floats("head", [4, 8], [i / 16 for i in range(32)])]


def picks(nodes, output, shape, initializers=()):
    """Scores [batch, 6, 8] of ids, a mask of the same shape, and nodes that read them."""
    body = [node("Gather", ["table", "ids"], ["h"], "embed"), node("MatMul", ["h", "head"], ["scores"], "head")] + nodes
    return model(graph(body, [value("ids", ["batch", 6], INT64), value("attention_mask", ["batch", 6], INT64)], [value(output, shape)], TABLE + list(initializers)))


def mask_grid(swapped):
    """The mask at positions [b, 5 - 2s] or [b, 2s], as exporters read a padding mask: by tuples of all positions."""
    at = [v for b in range(2) for s in range(3) for v in (b, 5 - 2 * s if swapped else 2 * s)]
    return lambda f: picks([node("Cast", ["attention_mask"], ["m"], "truth", to=BOOL), node("GatherND", ["m", "at"], ["g"], "grid"),
                            node("Cast", ["g"], ["weights"], "numbers", to=FLOAT), node("Slice", ["scores", "zero", "one", "last"], ["s"], "cut"), node("Squeeze", ["s", "last"], ["s2"], "flat"),
                            node("Slice", ["s2", "zero", "three", "middle"], ["s3"], "cut2"), node("Unsqueeze", ["s3", "middle"], ["s4"], "open"), node("Mul", ["weights", "s4"], ["y"], "times")],
                           "y", ["batch", 1, 3], [ints("at", [2, 1, 3, 2], at), ints("zero", [1], [0]), ints("one", [1], [1]), ints("last", [1], [2]), ints("three", [1], [3]), ints("middle", [1], [1])])


def elements(indices, kind="GatherElements", axis=2, shape=("batch", 6, 1)):
    """The scores of the ids, or of the result of `indices`."""
    return lambda f: picks(indices + [node(kind, ["scores", "at"], ["y"], "pick", axis=axis)], "y", shape, [ints("last", [1], [2]), ints("minus", [1], [-1]), ints("far", [2, 6, 1], [8] * 12), ints("flat", [3], [0, 1, 2])])


def placed(f):
    """An operator that does not exist, from a line of Python in a module."""
    meta = {"pkg.torch.onnx.name_scopes": "['', 'm', 'm.block', 'conv3']", "pkg.torch.onnx.stack_trace": 'File "/home/me/run.py", line 3, in forward\n    y = self.m(x)\n  File "/home/me/model.py", line 42, in forward\n    return conv3(x)'}
    return linear([W], [node("MatMul", ["x", "w"], ["a"], "product"), node("Conv3", ["a"], ["y"], "conv", meta=meta)])


def merged_by_rule(f):
    """Without metadata: two norms of two modules read one initializer of ones."""
    body = [node("LayerNormalization", ["x", "a.0.weight"], ["n"], "/a.0/norm"), node("LayerNormalization", ["n", "a.0.weight"], ["y"], "/a.1/norm")]
    return linear([floats("a.0.weight", [4], [1.0] * 4)], body)


def slices(f):
    """A slice that runs backwards, and bounds beyond the ends."""
    body = [const("s", [-1]), const("e", [-100]), const("a", [1]), const("st", [-1]), node("Slice", ["x", "s", "e", "a", "st"], ["back"], "backwards"), node("MatMul", ["back", "w"], ["y"], "product")]
    return linear([W], body)


def optional_input(f):
    """The call of a function leaves out its last input, which is the upper bound of a Clip; a second call leaves out both."""
    bounded = function("bounded", ["a", "low", "high"], ["b"], [node("Clip", ["a", "low", "high"], ["b"], "clip")])
    return linear([W], [node("Constant", [], ["zero"], "zero", value=floats("", [], [0.0])), node("MatMul", ["x", "w"], ["y0"], "product"), node("bounded", ["y0", "zero"], ["y1"], "call", "local"),
                        node("bounded", ["y1", "", ""], ["y"], "open", "local")], functions=[bounded], opsets=(("", 18), ("local", 1)))


def functions(f):
    scaled = function("scaled", ["a"], ["b"], [node("Constant", [], ["two"], "two", value=floats("", [], [2.0])), node("Mul", ["a", "two"], ["b"], "times")])
    return linear([W], [node("MatMul", ["x", "w"], ["y0"], "product"), node("scaled", ["y0"], ["y"], "call", "local")], functions=[scaled], opsets=(("", 18), ("local", 1)))


GIVEN = {"shale.batch": "given"}
CASES = {
    "good": lambda f: linear(),
    "likelihood-last": likelihood(2),
    "likelihood-middle": likelihood(1),
    "external": good_external,
    "inside-link": inside_link,
    "truncated": lambda f: linear()[:-9],
    "random": lambda f: bytes((i * 73 + 11) % 251 for i in range(400)),
    "empty": lambda f: b"",
    "lfs": lambda f: b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3\n",
    "html": lambda f: b"<!DOCTYPE html><html></html>",
    "no-graph": lambda f: field(1, 8),
    "no-ir": lambda f: linear(ir=0),
    "no-opset": lambda f: linear(opsets=()),
    "new-opset": lambda f: linear(opsets=(("", 99),)),
    "negative-opset": lambda f: linear(opsets=(("", -1),)),
    "two-opsets": lambda f: linear(opsets=(("", 7), ("", 18))),
    "deep": lambda f: model(nest(300)),
    "two-places": lambda f: linear([tensor("w", [4, 2], raw=b"\0" * 32, extra=field(9, b"\0" * 32))]),
    "no-location": external(offset=0),
    "traversal": external(location="../secret"),
    "hidden-traversal": external(location="a/../../secret"),
    "absolute": external(location="/etc/passwd"),
    "memory": external(location="*/_ORT_MEM_ADDR_/*", offset=0, length=32),
    "missing-file": external(location="nothing.bin"),
    "folder": external(location="."),
    "fifo": fifo,
    "outside-link": outside_link,
    "short-file": short_file,
    "negative-offset": external(location="short.bin", offset=-4),
    "text-length": external(location="short.bin", length="many"),
    "wrong-length": external(location="short.bin", length=16),
    "negative-dim": lambda f: linear([tensor("w", [4, -2], raw=b"\0" * 32)]),
    "overflow": lambda f: linear([tensor("w", [1 << 31, 1 << 31, 4], raw=b"\0" * 32)]),
    "short-data": lambda f: linear([tensor("w", [4, 2], raw=b"\0" * 28)]),
    "long-data": lambda f: linear([tensor("w", [4, 2], raw=b"\0" * 36)]),
    "string-tensor": lambda f: linear([tensor("w", [4, 2], 8, raw=b"\0" * 32)]),
    "twice": lambda f: linear([W, W]),
    "cycle": lambda f: linear([W], [node("Add", ["x", "b"], ["a"], "one"), node("Add", ["a", "x"], ["b"], "two"), node("MatMul", ["b", "w"], ["y"], "product")]),
    "redefined": lambda f: linear([W], [node("MatMul", ["x", "w"], ["y"], "product"), node("Identity", ["x"], ["y"], "again")]),
    "undefined": lambda f: linear([W], [node("MatMul", ["nothing", "w"], ["y"], "product")]),
    "no-multiply": lambda f: linear([floats("w", [3, 2], [0.0] * 6)]),
    "bad-axis": lambda f: linear([W], [node("MatMul", ["x", "w"], ["a"], "product"), node("Softmax", ["a"], ["y"], "soft", axis=7)]),
    "bad-perm": lambda f: linear([W], [node("MatMul", ["x", "w"], ["a"], "product"), node("Transpose", ["a"], ["y"], "turn", perm=[0, 0])]),
    "bad-attribute": lambda f: linear([W], [node("MatMul", ["x", "w"], ["a"], "product"), node("Softmax", ["a"], ["y"], "soft", axis="last")]),
    "missing-operand": lambda f: linear([W], [node("MatMul", ["x", ""], ["y"], "product")]),
    "two-open-sizes": lambda f: linear([W], [const("s", [-1, -1]), node("MatMul", ["x", "w"], ["a"], "product"), node("Reshape", ["a", "s"], ["y"], "shape")]),
    "zero-step": lambda f: linear([W], [const("s", [0]), const("e", [2]), node("Slice", ["x", "s", "e", "s", "s"], ["b"], "cut"), node("MatMul", ["b", "w"], ["y"], "product")]),
    "dynamic-shape": lambda f: linear([W], [node("Cast", ["x"], ["i"], "cast", to=INT64), node("Reshape", ["x", "i"], ["b"], "shape"), node("MatMul", ["b", "w"], ["y"], "product")]),
    "expand-bomb": expand_bomb,
    "many-folds": many_folds,
    "long-chain": chain(4000, False),
    "biased-chain": chain(300, True),
    "range-bomb": lambda f: linear([W, ints("zero", [], [0]), ints("huge", [], [1 << 60]), ints("one", [], [1])], [node("Range", ["zero", "huge", "one"], ["r"], "range"), node("ReduceSum", ["r"], ["s"], "sum", keepdims=0), node("Cast", ["s"], ["f"], "cast", to=FLOAT), node("MatMul", ["x", "w"], ["y0"], "product"), node("Add", ["y0", "f"], ["y"], "add")]),
    "recursion": lambda f: linear([W], [node("MatMul", ["x", "w"], ["y0"], "product"), node("f", ["y0"], ["y"], "call", "local")], functions=[function("f", ["a"], ["b"], [node("f", ["a"], ["b"], "self", "local")])], opsets=(("", 18), ("local", 1))),
    "doubling": doubling,
    "unsupported": unsupported,
    "dropout": dropout(1, 1.0),
    "dropout-on": dropout(1, 0.25),
    "dropout-off": dropout(0, 0.5),
    "dropout-zero": dropout(1, 0.0),
    "logits": lambda f: logits(),
    "shape-only": shape_only,
    # Labels: the graph shifts the labels, or the scores, or neither.
    "labels": language_model(),
    "labels-read": language_model(seen="targets"),
    "labels-read-given": language_model(seen="targets", meta=GIVEN),
    "labels-by-two-given": language_model(cut("targets", "wanted", 2) + cut("scores", "scores_cut", 0, 4), labels="wanted", scores="scores_cut", meta=GIVEN),
    "labels-by-two-other": language_model(cut("targets", "wanted", 2) + cut("scores", "scores_cut", 0, 4), labels="wanted", scores="scores_cut", meta={"shale.batch": "random"}),
    "labels-shifted": language_model(cut("ids", "next", 1) + cut("scores", "scores_cut", 0, 5), labels="next", scores="scores_cut"),
    "labels-pushed": language_model([node("Concat", ["bos", "ids"], ["long"], "push", axis=1)] + cut("long", "seen", 0, 6), seen="seen"),
    "labels-decoded": language_model(decoded(), seen="pushed", scores="scores_both"),
    "labels-by-two": language_model(cut("targets", "wanted", 2) + cut("scores", "scores_cut", 0, 4), labels="wanted", scores="scores_cut"),
    "labels-cut-late": language_model(cut("targets", "wanted", 0, 5) + cut("scores", "scores_cut", 1), labels="wanted", scores="scores_cut"),
    "labels-computed": language_model([node("Add", ["targets", "one"], ["wanted"], "plus")], labels="wanted"),
    "labels-by-rows": language_model(cut("targets", "wanted", 1, axis=0) + cut("scores", "scores_cut", 0, 2, axis=0), labels="wanted", scores="scores_cut"),
    "labels-of-last-rows": language_model(cut("scores", "scores_cut", 5, 6), scores="scores_cut", label_shape=("batch",)),
    "labels-of-rows": language_model(cut("scores", "scores_cut", 0, 1), scores="scores_cut", label_shape=("batch",)),
    # An encoder: each position also reads the next tokens.
    "labels-seen": language_model(attended(), scores="scores_seen"),
    # The same with a softmax that is not recovered as attention, with a bias for each position, and with a causal mask in place of that.
    "labels-seen-biased": language_model(attended("pairs"), scores="scores_seen", weights=[floats("pairs", [6], [0.0] * 6)]),
    "labels-in-window": language_model([node("Transpose", ["scores"], ["scores_turned"], "turn", perm=[0, 2, 1]), node("Conv", ["scores_turned", "taps"], ["scores_conv"], "conv", pads=[1, 1], group=8),
                                        node("Transpose", ["scores_conv"], ["scores_seen"], "back", perm=[0, 2, 1])], scores="scores_seen", weights=[floats("taps", [8, 1, 3], [0.1] * 24)]),
    "labels-before-window": language_model([node("Transpose", ["scores"], ["scores_turned"], "turn", perm=[0, 2, 1]), node("Conv", ["scores_turned", "taps"], ["scores_conv"], "conv", pads=[2, 0], group=8),
                                            node("Transpose", ["scores_conv"], ["scores_seen"], "back", perm=[0, 2, 1])], scores="scores_seen", weights=[floats("taps", [8, 1, 3], [0.1] * 24)]),
    "labels-hidden": language_model(attended("pairs"), scores="scores_seen",
                                    weights=[floats("pairs", [1, 1, 6, 6], [0.0 if j <= i else -1e9 for i in range(6) for j in range(6)])]),
    "mask-long": language_model([const("square", [2048, 2048]), node("Expand", ["minus", "square"], ["full"], "full"), node("Trilu", ["full", "one"], ["later"], "later", upper=1)]
                                + attended("later")[:3] + [node("Add", ["scores_alike", "later"], ["scores_hidden"], "hide"), node("Softmax", ["scores_hidden"], ["scores_weights"], "softmax", axis=-1)]
                                + attended()[4:], scores="scores_seen", shape=("batch", 2048), weights=[floats("minus", [], [-1e9])]),
    # More positions than the model has: counted by the runtime, sliced from a parameter.
    "positions-counted": language_model([node("Gather", ["places", "position_ids"], ["place"], "positions"), node("MatMul", ["place", "head"], ["shift"], "shift"),
                                         node("Add", ["scores", "shift"], ["scores_more"], "add")], scores="scores_more", shape=("batch", "length"),
                                        more=[("position_ids", (1, "length"))], weights=[floats("places", [6, 4], [0.25] * 24)]),
    "positions-added": language_model(cut("places", "place", 0, 1 << 40, axis=0) + [node("Add", ["scores", "place"], ["scores_more"], "add")], scores="scores_more",
                                      shape=("batch", "length"), weights=[floats("places", [6, 8], [0.25] * 48)]),
    # A batch dimension that is not named batch.
    "fixed": language_model(shape=(4, 6)),
    "fixed-flat": language_model(shape=(4, 6), label_shape=(24,)),
    "fixed-square": language_model(EXTRA, scores="scores_more", shape=(6, 6), more=[("extra", (6, 1, 1))]),
    "fixed-extra": language_model(EXTRA, scores="scores_more", shape=(4, 6), more=[("extra", (4, 1, 1))]),
    "free": language_model(shape=("rows", "length")),
    "two-outputs": lambda f: logits([node("Identity", ["scores"], ["other"], "copy")], ("scores", "other")),
    "merged-by-rule": merged_by_rule,
    "mask-grid": mask_grid(False),
    "mask-turned": mask_grid(True),
    "elements": elements([node("Unsqueeze", ["ids", "last"], ["at"], "open")]),
    "elements-computed": elements([node("Unsqueeze", ["ids", "last"], ["i"], "open"), node("Add", ["i", "minus"], ["at"], "before")]),
    "elements-far": elements([node("Identity", ["far"], ["at"], "same")]),
    "elements-rank": elements([node("Identity", ["flat"], ["at"], "same")]),
    "elements-floats": elements([node("Identity", ["scores"], ["at"], "same")]),
    "placed": placed,
    "slices": slices,
    "functions": functions,
    "optional-input": optional_input,
    "bad-names": lambda f: linear([tensor(b"w\xff\n\"", [4, 2], raw=b"\0" * 32)], [node("MatMul", ["x", b"w\xff\n\""], ["y"], "pro\"duct")]),
}


def nest(depth):
    """Subgraphs in subgraphs."""
    inner = graph([], [], [])
    for _ in range(depth):
        inner = graph([field(4, "If") + field(5, field(1, "then_branch") + field(6, inner))], [], [])
    return inner


case, path = sys.argv[1:]
os.makedirs(os.path.dirname(path), exist_ok=True)
data = CASES[case](path)
with open(path, "wb") as out:
    out.write(data)
