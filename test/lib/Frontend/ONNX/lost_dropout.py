"""Writes an attention of PyTorch whose dropout the exporter made inactive, or left out: lost_dropout.py CASE FILE.

bare: the Dropout is there, without training_mode. removed: only the metadata of the nodes has dropout_p. eval: dropout_p is 0.
flash: an operation of a graph of forward and backward. foreign: the same as bare, by another exporter.
"""
import sys

from onnx_writer import *


def build(case):
    operation = "_scaled_dot_product_flash_attention_for_cpu" if case == "flash" else "scaled_dot_product_attention"
    ratio = 0.0 if case == "eval" else 0.25
    args = f"%q, %k, %v, {ratio}, True" if case == "flash" else f"%q, %k, %v, None, {ratio}, True"
    meta = {"pkg.torch.onnx.fx_node": f"%attention : [num_users=1] = call_function[target=torch.ops.aten.{operation}.default](args = ({args}), kwargs = {{}})"}
    if case == "foreign":
        meta = {}
    bare = case in ("bare", "foreign")
    nodes = [node("MatMul", ["q", "k"], ["scores"], "scores", meta=meta), node("Softmax", ["scores"], ["p"], "softmax", meta=meta, axis=-1)]
    nodes += [node("Dropout", ["p", "ratio"], ["dropped"], "dropout", meta=meta)] if bare else []
    nodes += [node("MatMul", ["dropped" if bare else "p", "v"], ["y"], "product", meta=meta), node("ReduceSum", ["y"], ["loss"], keepdims=0)]
    inputs = [value("q", [1, 2, 4, 8]), value("k", [1, 2, 8, 4])]
    weights = [floats("v", [1, 2, 4, 8], [0.1 * i for i in range(64)]), floats("ratio", [], [0.25])]
    return model(graph(nodes, inputs, [value("loss", [])], weights), extra=field(2, b"another" if case == "foreign" else b"pytorch"))


with open(sys.argv[2], "wb") as file:
    file.write(build(sys.argv[1]))
