"""Imports each form of the loss operators, runs it and compares it with numpy: losses.py FOLDER.

Forms: logits or log-probabilities, 0 to 2 dimensions after the classes, every reduction, class weights, ignored labels, and the
second result. Where there are several values, the loss is their sum with weights, so every element counts. Gradients are compared
with central differences.
"""
import itertools
import pathlib
import sys

import numpy as np

from definition import expect_refusal, run
from onnx_writer import *

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "e2e" / "lib"))
from runner import read_safetensors, save_safetensors  # noqa: E402

CLASSES = 5
BAD = [  # shapes of scores, labels and weights, attributes, part of the error
    ((4, 5), (3,), None, {}, "scores tensor<4x5xf32> and labels tensor<3xi64> do not fit"),
    ((4, 5, 3), (3, 4), None, {}, "scores tensor<4x5x3xf32> and labels tensor<3x4xi64> do not fit"),
    ((4,), (4,), None, {}, "scores tensor<4xf32> have no batch: pass those of one example as [1, classes]"),
    ((4, 5), (4,), (4,), {}, "weights tensor<4xf32> do not fit the 5 classes of tensor<4x5xf32>"),
    ((4, 5), (4,), (5, 1), {}, "weights tensor<5x1xf32> do not fit the 5 classes"),
    ((4, 5), (4,), None, {"reduction": "median"}, "reduction 'median' is not one of mean, none, sum"),
    ((4, 5), (4,), None, {"reduction": 3}, "attribute 'reduction' must be a string"),
]


def reference(logits, labels, weights, reduction, ignored, is_log, smoothing):
    """Returns the loss and the log-probabilities, in f64. The smoothed loss is torch.nn.functional.cross_entropy's, with label_smoothing."""
    logits = np.moveaxis(logits.astype(np.float64), 1, -1)
    logp = logits if is_log else logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    kept = labels != ignored if ignored is not None else np.ones(labels.shape, bool)
    picked = np.take_along_axis(logp, np.where(kept, labels, 0)[..., None], -1)[..., 0]
    factor = kept * (weights.astype(np.float64)[np.where(kept, labels, 0)] if weights is not None else 1.0)
    losses = -picked * factor
    if smoothing:
        classes = np.ones(CLASSES) if weights is None else weights.astype(np.float64)
        losses = (1 - smoothing) * losses - kept * smoothing * (logp * classes).mean(-1)
    loss = losses if reduction == "none" else losses.sum() if reduction == "sum" else losses.sum() / factor.sum()
    return loss, np.moveaxis(logp, -1, 1)


def check(folder, op, dims, reduction, weighted, ignored, second, smoothing=0.0):
    random = np.random.default_rng(len(dims) * 7 + len(reduction))
    shape = (4, CLASSES, *dims)
    arrays = {"logits": random.normal(size=shape).astype(np.float32),
              "labels": random.integers(0, CLASSES, (4, *dims))}
    if ignored is not None:
        arrays["labels"][random.random((4, *dims)) < 0.4] = ignored
    inputs, names = [value("labels", [4, *dims], INT64)], ["logits", "labels"]
    if weighted:
        arrays["class_weights"] = (random.random(CLASSES) * 0.3).astype(np.float32)
        inputs.append(value("class_weights", [CLASSES]))
        names.append("class_weights")
    attributes = {"reduction": reduction, **({"ignore_index": ignored} if ignored is not None else {})}
    results = ["y", "logp"] if second else ["y"]
    call = f"args = (%a, %b, None, 1, -100, {smoothing}), kwargs = {{}})" if second else f"args = (%a, %b), kwargs = {{label_smoothing: {smoothing}}})"
    meta = {"pkg.torch.onnx.fx_node": f"%loss : [num_users=1] = call_function[target=torch.ops.aten.cross_entropy_loss.default]({call}"} if smoothing else {}
    body, terms = [node(op, names, results, "loss_node", meta=meta, **attributes)], []
    expected, logp = reference(arrays["logits"], arrays["labels"], arrays.get("class_weights"), reduction, ignored, op[0] == "N", smoothing)
    wanted = 0.0
    for name, result in [("y", expected)] + ([("logp", logp)] if second else []):
        arrays[f"{name}_factor"] = random.normal(size=result.shape).astype(np.float32) if result.ndim else np.float32(1)
        if result.ndim:
            inputs.append(value(f"{name}_factor", list(result.shape)))
            body += [node("Mul", [name, f"{name}_factor"], [f"{name}_all"]), node("ReduceSum", [f"{name}_all"], [f"{name}_sum"], keepdims=0)]
        terms.append(f"{name}_sum" if result.ndim else name)
        wanted += (result * arrays[f"{name}_factor"]).sum()
    body.append(node("Sum", terms, ["loss"]))
    weights = [floats("logits", list(shape), arrays["logits"].flatten())]
    (folder / "model.onnx").write_bytes(model(graph(body, inputs, [value("loss", [])], weights)))
    save_safetensors(folder / "inputs.safetensors", {key: np.asarray(array) for key, array in arrays.items()})
    (folder / "model.mlir").write_text(run("shale-translate", "--quiet", "--import-onnx", folder / "model.onnx", "--bind", "labels=file"))
    run("shale-run", "--check-gradient", f"--inputs={folder}/inputs.safetensors", f"--out={folder}/out.safetensors", folder / "model.mlir")
    loss = read_safetensors(folder / "out.safetensors")["loss"]
    if not abs(loss - wanted) <= 1e-5 * max(1, abs(wanted)):
        sys.exit(f"{op} {dims} {reduction} weights {weighted} ignored {ignored} second {second} smoothing {smoothing}: {loss}, numpy says {wanted}")


def check_probabilities(folder, dims, reduction, weighted, smoothing):
    """torch.nn.functional.cross_entropy of probabilities: the exporter writes it as the operator for labels."""
    random = np.random.default_rng(len(dims) * 7 + len(reduction))
    shape, weights = (4, CLASSES, *dims), (random.random(CLASSES) + 0.1).astype(np.float32)
    logits, targets = random.normal(size=shape).astype(np.float32), random.random(shape).astype(np.float32)
    targets /= targets.sum(1, keepdims=True)
    each = weights.astype(np.float64).reshape(-1, *[1] * len(dims)) if weighted else 1.0
    logp = logits - np.log(np.exp(logits.astype(np.float64)).sum(1, keepdims=True))
    losses = -(each * ((1 - smoothing) * targets + smoothing / CLASSES) * logp).sum(1)
    wanted = losses.mean() if reduction == "mean" else losses.sum()
    number = {"none": 0, "mean": 1, "sum": 2}[reduction]
    call = f"(args = (%a, %b, {'%w' if weighted else None}, {number}, -100, {smoothing}), kwargs = {{}})"
    meta = {"pkg.torch.onnx.fx_node": f"%loss : [num_users=1] = call_function[target=torch.ops.aten.cross_entropy_loss.default]{call}"}
    body = [node("SoftmaxCrossEntropyLoss", ["logits", "targets"] + ["weights"] * weighted, ["y"], "loss_node", meta=meta, reduction=reduction, ignore_index=-100),
            node("ReduceSum", ["y"], ["loss"], keepdims=0)]
    inputs = [value("targets", list(shape))] + [value("weights", [CLASSES])] * weighted
    (folder / "model.onnx").write_bytes(model(graph(body, inputs, [value("loss", [])], [floats("logits", list(shape), logits.flatten())])))
    save_safetensors(folder / "inputs.safetensors", {"logits": logits, "targets": targets, **({"weights": weights} if weighted else {})})
    (folder / "model.mlir").write_text(run("shale-translate", "--quiet", "--import-onnx", folder / "model.onnx"))
    run("shale-run", "--check-gradient", f"--inputs={folder}/inputs.safetensors", f"--out={folder}/out.safetensors", folder / "model.mlir")
    loss = read_safetensors(folder / "out.safetensors")["loss"]
    if not abs(loss - wanted) <= 1e-5 * max(1, abs(wanted)):
        sys.exit(f"probabilities {dims} {reduction} weights {weighted} smoothing {smoothing}: {loss}, numpy says {wanted}")


def refuse(folder, op, shapes, attributes, message):
    scores, labels, weights = shapes
    body = [node(op, ["scores", "labels"] + (["weights"] if weights else []), ["y"], "loss_node", **attributes), node("ReduceSum", ["y"], ["loss"], keepdims=0)]
    inputs = [value("scores", list(scores)), value("labels", list(labels), INT64)] + ([value("weights", list(weights))] if weights else [])
    (folder / "model.onnx").write_bytes(model(graph(body, inputs, [value("loss", [])])))
    expect_refusal(folder / "model.onnx", f"node 'loss_node' ({op}): {message}", f"{op} {shapes}")


folder = pathlib.Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
count = 0
for op, dims, reduction, weighted, ignored in itertools.product(("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"), ((), (3,), (2, 3)),
                                                                ("none", "sum", "mean"), (False, True), (None, -100, 2)):
    for second in (False, True) if op[0] == "S" else (False,):
        check(folder, op, dims, reduction, weighted, ignored, second)
        count += 1
# The exporter leaves out label_smoothing; it stays in the metadata of the node.
for dims, reduction, weighted, ignored in itertools.product(((), (3,)), ("none", "sum", "mean"), (False, True), (None, 2)):
    check(folder, "SoftmaxCrossEntropyLoss", dims, reduction, weighted, ignored, weighted, smoothing=0.2)
    count += 1
for dims, reduction, weighted, smoothing in itertools.product(((), (3,), (2, 3)), ("none", "sum", "mean"), (False, True), (0.0, 0.2)):
    check_probabilities(folder, dims, reduction, weighted, smoothing)
    count += 1
for op in ("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"):
    for *shapes, attributes, message in BAD:
        refuse(folder, op, shapes, attributes, message)
print(f"{count} losses as numpy, {2 * len(BAD)} refused")
