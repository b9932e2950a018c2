#!/usr/bin/env python3
"""Trains a batch normalization on one and two ranks, and compares it with gradient descent in numpy.

usage: e2e batchnorm --build DIR [--stubs DIR]

The model is y = BatchNormalization(tanh(x w)) in training mode, its loss mse(y, target). A step has one to three micro-batches; each has
statistics of its own, over the rows of all ranks, and changes the running ones. Losses, trained weights, running statistics and the loss of
an evaluation, which reads the running ones, must be numpy's. A run that is resumed must have the bits of one that was not. Half of the
files are PyTorch's, whose running variance is unbiased.

--stubs: programs for GPUs, with the stand-ins for NVIDIA's libraries in DIR.
"""

import numpy as np

from onnx_writer import field, floats, graph, model, node, value
from runner import largest, main, save_safetensors, train_against

ROWS, WIDTH, STEPS, RATE, EPSILON, MOMENTUM = 8, 3, 4, 0.2, 1e-3, 0.3


def write_model(path, start, pytorch):
    body = [node("MatMul", ["x", "w"], ["p"]), node("Tanh", ["p"], ["h"]),
            node("BatchNormalization", ["h", "scale", "bias", "mean", "var"], ["y", "mean_1", "var_1"], "norm", epsilon=EPSILON,
                 momentum=1 - MOMENTUM, training_mode=1)]
    weights = [floats(name, list(start[name].shape), start[name].ravel().tolist()) for name in start]
    producer = field(2, "pytorch" if pytorch else "another")
    path.write_bytes(model(graph(body, [value("x", ["batch", WIDTH])], [value("y", ["batch", WIDTH])], weights), extra=producer))


def normalized(h, mean, var, p):
    return (h - mean) / np.sqrt(var + EPSILON) * p["scale"] + p["bias"]


def descend(start, x, target, microbatches, pytorch):
    """The losses, and all values after the steps."""
    p, losses = {name: v.astype(np.float64) for name, v in start.items()}, []
    for step in range(STEPS):
        total, gradients = 0, {name: 0 for name in ("w", "scale", "bias")}
        for k in range(microbatches):
            rows, wanted = x[step * microbatches + k], target[step * microbatches + k]
            h = np.tanh(rows @ p["w"])
            mean, var = h.mean(0), h.var(0)
            unit = (h - mean) / np.sqrt(var + EPSILON)
            error = unit * p["scale"] + p["bias"] - wanted
            total += np.mean(error**2) / microbatches
            dy = 2 * error / error.size / microbatches
            du = dy * p["scale"]
            dh = (du - du.mean(0) - unit * (du * unit).mean(0)) / np.sqrt(var + EPSILON)
            gradients["w"] = gradients["w"] + rows.T @ (dh * (1 - h**2))
            gradients["scale"] = gradients["scale"] + (dy * unit).sum(0)
            gradients["bias"] = gradients["bias"] + dy.sum(0)
            kept = var * ROWS / (ROWS - 1) if pytorch else var
            p["mean"], p["var"] = ((1 - MOMENTUM) * p[name] + MOMENTUM * new for name, new in (("mean", mean), ("var", kept)))
        losses.append(total)
        for name, g in gradients.items():
            p[name] = p[name] - RATE * g
    return losses, p


def check(a, work):
    worst = 0
    rng = np.random.default_rng(1)
    start = {"w": rng.standard_normal((WIDTH, WIDTH)), "scale": rng.uniform(0.5, 2, WIDTH), "bias": rng.standard_normal(WIDTH),
             "mean": rng.standard_normal(WIDTH), "var": rng.uniform(0.5, 2, WIDTH)}
    start = {name: v.astype(np.float32) for name, v in start.items()}
    x, target = (rng.standard_normal((2 * STEPS, ROWS, WIDTH)).astype(np.float32) for _ in range(2))
    for microbatches, ranks, flags, pytorch in ((1, 1, [], False), (1, 2, ["--shard", "full"], True), (2, 2, ["--shard", "grad"], False),
                                                (3, 1, ["--recompute", "selective"], True)):
        batches = {"x": np.resize(x, (microbatches * STEPS, ROWS, WIDTH)), "target": np.resize(target, (microbatches * STEPS, ROWS, WIDTH))}
        save_safetensors(work / "batches.safetensors", batches)
        write_model(work / "model.onnx", start, pytorch)
        losses, p = descend(start, batches["x"], batches["target"], microbatches, pytorch)
        evaluated = np.mean((normalized(np.tanh(batches["x"] @ p["w"]), p["mean"], p["var"], p) - batches["target"]) ** 2)
        # The running statistics are in the checkpoint.
        off = train_against(a, work, f"run{microbatches}{ranks}", ["--mesh", f"fsdp={ranks}", "--accumulate", microbatches, *flags], [], STEPS, RATE, ROWS,
                            (losses, p, evaluated), a.stubs)
        worst = largest([worst, off])
    return f"off by at most {worst:.1e}"


main(check, ("--stubs", {}))
