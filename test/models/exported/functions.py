"""Runs the functions that a traced file brings (tools/export/shale_export/translations.py) by ONNX Runtime, beside PyTorch's operators."""
import onnx
import onnxruntime
import torch
from onnx import helper

aten = torch.ops.aten
ATTENTION = "_scaled_dot_product_flash_attention_for_cpu"
BAR = 2e-6  # relative to the largest number of a result


def values(*shape):
    return torch.randn(*shape)


def attention(causal, mask=None, queries=5, keys=5):
    """Both directions: (function, attributes, operands, PyTorch's results)."""
    query, key, value, grad = (values(2, 3, length, 4) for length in (queries, keys, keys, queries))
    settings = {"is_causal": causal, "attn_mask": mask, "scale": 0.3}
    out, lse = aten._scaled_dot_product_flash_attention_for_cpu(query, key, value, 0.0, **settings)
    grads = aten._scaled_dot_product_flash_attention_for_cpu_backward(grad, query, key, value, out, lse, 0.0, causal, attn_mask=mask, scale=0.3)
    attributes, masks = {"is_causal": int(causal), "scale": 0.3}, [] if mask is None else [mask]
    suffix = "" if mask is None else "_masked"
    return [(ATTENTION + suffix, attributes, [query, key, value, *masks], [out, lse]),
            (ATTENTION + "_backward" + suffix, attributes, [grad, query, key, value, out, lse, *masks], grads)]


def hiding(queries, keys):
    """A mask that hides some keys, and all of them from the first query."""
    mask = torch.zeros(2, 1, queries, keys)
    mask[:, :, 2, 1:3] = -torch.inf
    mask[1, :, 0] = -torch.inf
    return mask


def layer_norm(*rows):
    x, weight, grad = values(*rows, 8), values(8), values(*rows, 8)
    _, mean, rstd = aten.native_layer_norm(x, [8], weight, values(8), 1e-5)
    wanted = aten.native_layer_norm_backward(grad, x, [8], mean, rstd, weight, weight, [True] * 3)
    return ("native_layer_norm_backward", {}, [grad, x, mean, rstd, weight], wanted)


def loss(reduction, labels):
    logs, target = values(4, 6).log_softmax(1), torch.tensor(labels)
    result, total = aten.nll_loss_forward(logs, target, None, reduction, -100)
    grad, attributes = torch.tensor(0.7), {"ignore_index": -100, "mean": int(reduction == 1)}
    # PyTorch's total of a sum is 0 on some devices; nothing reads it.
    forward = ("nll_loss_forward", attributes, [logs, target], [result, total if reduction == 1 else torch.tensor(labels).ne(-100).sum().float()])
    wanted = aten.nll_loss_backward(grad, logs, target, None, reduction, -100, total)
    return [forward, ("nll_loss_backward", attributes, [grad, logs, target, forward[3][1]], [wanted])]


def cases():
    grad, rows, logs = values(2, 5, 3), torch.tensor([[0, 6, 2, 2, 1], [6, 6, 0, 3, 2]]), values(2, 3, 6).log_softmax(-1)
    of_logs = values(2, 3, 6)
    return [*attention(False), *attention(True), *attention(False, queries=3, keys=7), *attention(False, values(5, 5)), *attention(True, values(5, 5)), *attention(False, hiding(5, 5)),
            *attention(False, hiding(3, 7), 3, 7), layer_norm(5), layer_norm(2, 5),
            ("embedding_dense_backward", {"num_weights": 9}, [grad, rows], [aten.embedding_dense_backward(grad, rows, 9, -1, False)]),
            *loss(1, [0, 5, 2, 2]), *loss(1, [0, -100, 2, -100]), *loss(2, [0, -100, 2, 5]), *loss(1, [-100] * 4),
            ("_log_softmax_backward_data", {}, [of_logs, logs], [aten._log_softmax_backward_data(of_logs, logs, -1, torch.float32)])]


def run(translations, name, attributes, operands, ranks):
    """The results of a model that calls the function once."""
    inputs, outputs, _, _ = translations.BODIES[name]
    names = inputs.split(", "), outputs.split(", ")
    kinds = {torch.float32: onnx.TensorProto.FLOAT, torch.int64: onnx.TensorProto.INT64}
    given = [helper.make_tensor_value_info(one, kinds[value.dtype], value.shape) for one, value in zip(names[0], operands)]
    made = [helper.make_tensor_value_info(one, onnx.TensorProto.FLOAT, [None] * rank) for one, rank in zip(names[1], ranks)]
    graph = helper.make_graph([helper.make_node(name, *names, domain=translations.DOMAIN, **attributes)], "call", given, made)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(translations.DOMAIN, 1)]
    model = helper.make_model(graph, functions=[translations.proto(name)], opset_imports=opsets, ir_version=10)
    onnx.checker.check_model(model)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {one: value.numpy() for one, value in zip(names[0], operands)})


def check(translations):
    torch.manual_seed(0)
    found, reached = cases(), set()
    for name, attributes, operands, wanted in found:
        reached.add(name)
        results = run(translations, name, attributes, operands, [one.dim() for one in wanted])
        for output, got, want in zip(translations.BODIES[name][1].split(", "), results, wanted, strict=True):
            got, size = torch.as_tensor(got), float(want.nan_to_num(0, 0, 0).abs().max())
            if got.shape != want.shape or not torch.allclose(got, want, rtol=0, atol=BAR * max(size, 1), equal_nan=True):
                raise RuntimeError(f"{name} {attributes}: '{output}' is {got}, in PyTorch {want}")
    if reached != set(translations.BODIES):
        raise RuntimeError(f"no case calls {set(translations.BODIES) - reached}")
    return f"{len(reached)} functions in {len(found)} calls"
