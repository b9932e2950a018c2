"""Writes a small graph of forward and backward in one: make_joint.py CASE FILE."""
import os
import sys

from onnx_writer import FLOAT, INT64, entry, field, floats, graph, ints, model, node, value  # noqa: F401

WEIGHTS = [floats("w", [4, 2], [i / 8 for i in range(8)]), floats("b", [2], [0.5, -0.5])]
LOSS = value("loss", [])


def nodes(weight="grad.w", bias="grad.b", seed=None):
    """loss = mean((x w + b)^2) over x [batch, 4], and the gradients of w and b. `seed`: the initializer that the gradients begin with."""
    if seed:
        begin = [node("Identity", [seed], ["start"], "seed", meta={"shale.seed": "loss"}), node("Mul", ["plain", "start"], ["dy"], "times")]
        return [one.replace(field(2, "dy"), field(2, "plain")) for one in nodes(weight, bias)[:8]] + begin + nodes(weight, bias)[8:]
    return [node("MatMul", ["x", "w"], ["p"], "product"), node("Add", ["p", "b"], ["y"], "add"), node("Mul", ["y", "y"], ["s"], "square"),
            node("ReduceMean", ["s"], ["loss"], "mean", keepdims=0),
            node("Size", ["y"], ["n"], "size"), node("Cast", ["n"], ["nf"], "cast", to=FLOAT), node("Add", ["y", "y"], ["twice"], "twice"),
            node("Div", ["twice", "nf"], ["dy"], "dy"), node("Transpose", ["x"], ["xt"], "turn", perm=[1, 0]),
            node("MatMul", ["xt", "dy"], [weight], "dw"), node("ReduceSum", ["dy", "first"], [bias], "db", keepdims=0)]


def joint(weight="grad.w", bias="grad.b", outputs=None, more=(), weights=(), meta={}, original={}, seed=None):
    outputs = outputs or [(weight, [4, 2]), (bias, [2])]
    outs = [LOSS] + [value(name, dims, meta={"pkg.torch.onnx.original_node_name": original[name]} if name in original else {}) for name, dims in outputs]
    return lambda: model(graph(nodes(weight, bias, seed) + list(more), [value("x", ["batch", 4])], outs, [*WEIGHTS, ints("first", [1], [0]), *weights], meta=meta))


SIGNATURE = {"pkg.torch.export.ExportedProgram.graph_signature":
             "\n# inputs\np_w: PARAMETER target='w'\np_b: PARAMETER target='b'\nx: USER_INPUT\n\n# outputs\nmean: LOSS_OUTPUT\n"
             "mm: GRADIENT_TO_PARAMETER target='w'\nsum_1: GRADIENT_TO_PARAMETER target='b'\n"}



def changed(record, target="c", made=("next.c", [2])):
    """The same with a buffer c, whose value after a step is half of it. `record`: the lines of shale.buffers."""
    listed = SIGNATURE["pkg.torch.export.ExportedProgram.graph_signature"].replace("x: USER_INPUT", f"b_c: BUFFER target='{target}' persistent=True\nx: USER_INPUT")
    more = [node("Mul", ["c", "half"], ["halved"], "half"), node("Reshape", ["halved", "dims"], [made[0]], "shaped")]
    return joint(outputs=[("grad.w", [4, 2]), ("grad.b", [2]), made], more=more,
                 weights=[floats("c", [2], [4, 2]), floats("half", [], [0.5]), ints("dims", [len(made[1])], made[1])],
                 meta={"pkg.torch.export.ExportedProgram.graph_signature": listed, "shale.buffers": record})


CASES = {
    "buffer": changed("c\tnext.c"),
    "buffer-unknown": changed("c\tnext"),
    "buffer-twice": changed("c\tnext.c\nc\tnext.c"),
    "buffer-line": changed("c next.c"),
    "buffer-shape": changed("c\tnext.c", made=("next.c", [2, 1])),
    "good": joint(),
    "after": joint("w.grad", "b_grad"),
    "named": joint("first_gradient", "second_gradient"),
    "signature": joint("out1", "out2", meta=SIGNATURE, original={"out1": "mm", "out2": "sum_1"}),
    "missing": joint(outputs=[("grad.w", [4, 2])]),
    "shape": joint(outputs=[("grad.w", [2, 4]), ("grad.b", [2])], weight="dw", more=[node("Transpose", ["dw"], ["grad.w"], "turned", perm=[1, 0])]),
    "twice": joint(outputs=[("grad.w", [4, 2]), ("grad.b", [2]), ("b.grad", [2])], more=[node("Identity", ["grad.b"], ["b.grad"], "again")]),
    "unknown": joint(outputs=[("grad.w", [4, 2]), ("grad.b", [2]), ("grad.c", [2])], more=[node("Identity", ["grad.b"], ["grad.c"], "again")]),
    "of-input": joint(outputs=[("grad.w", [4, 2]), ("grad.b", [2]), ("grad.x", ["batch", 4]), ("grad_norm", [])],
                      more=[node("Transpose", ["w"], ["wt"], "wt", perm=[1, 0]), node("MatMul", ["dy", "wt"], ["grad.x"], "dx"),
                            node("ReduceL2", ["grad.w"], ["grad_norm"], "norm", keepdims=0)]),
    "undefined": joint(outputs=[("grad.w", [4, 2]), ("grad.b", [2])], bias="other"),
    "seed": joint(seed="one", weights=[floats("one", [], [1])]),
    "seed-two": joint(seed="two", weights=[floats("two", [], [2])]),
    "seed-row": joint(seed="row", weights=[floats("row", [1], [1])]),
    "seed-trained": joint(seed="b"),
    "integer": joint(outputs=[("grad.w", [4, 2]), ("grad.b", [2])], bias="db", more=[node("Cast", ["db"], ["grad.b"], "cast_db", to=INT64)]),
}

case, path = sys.argv[1:]
os.makedirs(os.path.dirname(path), exist_ok=True)
with open(path, "wb") as out:
    out.write(CASES[case]())
