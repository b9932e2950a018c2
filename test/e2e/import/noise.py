#!/usr/bin/env python3
"""Random numbers in the graph are the same for every number of ranks and strategy, and those of the definition.

usage: e2e noise --build DIR [--stubs DIR]

The model is y = (x w + 0.5 n + u) b, loss mse(y, target), with normal n and uniform u for each element and a Bernoulli b for each row. numpy
trains it by Philox-4x32-10 (Salmon et al., SC 2011) and the method of Box and Muller. Losses, weights and the loss of an evaluation, which
draws the numbers of seed, step and micro-batch 0, must be numpy's. A resumed run must have the bits of one that was not. The numbers
themselves must have the mean, deviation and range of their distributions.

--stubs: programs for GPUs, with the stand-ins for NVIDIA's libraries in DIR.
"""

import numpy as np

from onnx_writer import floats, graph, model, node, value
from runner import Deviates, largest, main, save_safetensors, train_against

ROWS, WIDTH, STEPS, RATE, SEED = 8, 5, 4, 0.1, 12345678901
LOW, HIGH, SCALE, KEEP = -0.25, 0.75, 0.5, 0.6


def philox(elements, seed, step, microbatch, number):
    """Word 0 for each element; (element, micro-batch << 16, step, number) is the counter, the seed the key."""
    words = [np.asarray(elements, np.uint64), np.full(elements.shape, microbatch << 16, np.uint64), np.full(elements.shape, step, np.uint64),
             np.full(elements.shape, number, np.uint64)]
    low, key = np.uint64(0xFFFFFFFF), [np.uint64(seed & 0xFFFFFFFF), np.uint64(seed >> 32)]
    for _ in range(10):
        first, second = np.uint64(0xD2511F53) * words[0], np.uint64(0xCD9E8D57) * words[2]
        words = [(second >> np.uint64(32)) ^ words[1] ^ key[0], second & low, (first >> np.uint64(32)) ^ words[3] ^ key[1], first & low]
        key = [(key[0] + np.uint64(0x9E3779B9)) & low, (key[1] + np.uint64(0xBB67AE85)) & low]
    return words[0]


def draw(shape, seed, step, microbatch, number):
    return (philox(np.arange(np.prod(shape)).reshape(shape), seed, step, microbatch, number) >> np.uint64(8)).astype(np.float64) / 2**24


def numbers(seed, step, microbatch):
    """Normal, uniform and Bernoulli numbers, in the order in which the graph has them."""
    place = (seed, step, microbatch)
    normal = np.sqrt(-2 * np.log(1 - draw((ROWS, WIDTH), *place, 0))) * np.cos(2 * np.pi * draw((ROWS, WIDTH), *place, 1))
    return normal, LOW + (HIGH - LOW) * draw((ROWS, WIDTH), *place, 2), (draw((ROWS, 1), *place, 3) < KEEP).astype(np.float64)


def write_model(path, weight):
    body = [node("MatMul", ["x", "w"], ["p"]), node("RandomNormalLike", ["p"], ["n"], "normal", scale=SCALE),
            node("RandomUniformLike", ["p"], ["u"], "uniform", low=LOW, high=HIGH), node("ReduceSum", ["x", "last"], ["sums"], keepdims=1),
            node("Mul", ["sums", "zero"], ["nothing"]), node("Add", ["nothing", "keep"], ["chance"]), node("Bernoulli", ["chance"], ["b"], "depth"),
            node("Add", ["p", "n"], ["q"]), node("Add", ["q", "u"], ["r"]), node("Mul", ["r", "b"], ["y"])]
    weights = [floats("w", [WIDTH, WIDTH], weight.ravel().tolist()), floats("zero", [], [0.0]), floats("keep", [], [KEEP])]
    path.write_bytes(model(graph([node("Constant", [], ["last"], value_ints=[1])] + body, [value("x", ["batch", WIDTH])], [value("y", ["batch", WIDTH])], weights)))


def outputs(x, w, place):
    normal, uniform, kept = numbers(*place)
    return (x @ w + SCALE * normal + uniform) * kept, kept


def descend(weight, x, target, microbatches):
    w, losses = weight.astype(np.float64), []
    for step in range(STEPS):
        total, gradient = 0, 0
        for k in range(microbatches):
            rows = x[step * microbatches + k]
            y, kept = outputs(rows, w, (SEED, step, k))
            error = y - target[step * microbatches + k]
            total += np.mean(error**2) / microbatches
            gradient = gradient + rows.T @ (2 * error / error.size / microbatches * kept)
        losses.append(total)
        w = w - RATE * gradient
    return losses, w


def check(a, work):
    many = draw((200000,), SEED, 3, 1, 2), draw((200000,), SEED, 3, 1, 4)
    normal = np.sqrt(-2 * np.log(1 - many[0])) * np.cos(2 * np.pi * many[1])
    for what, found, wanted in (("mean", many[0].mean(), 0.5), ("deviation", many[0].std(), 12**-0.5), ("mean of normals", normal.mean(), 0),
                                ("deviation of normals", normal.std(), 1), ("their kurtosis", (normal**4).mean(), 3)):
        if not abs(found - wanted) < 0.05:
            raise Deviates(f"the {what} of numpy's numbers is {found}, not {wanted}")
    worst = 0
    rng = np.random.default_rng(1)
    weight = (rng.standard_normal((WIDTH, WIDTH)) / WIDTH**0.5).astype(np.float32)
    x, target = (rng.standard_normal((2 * STEPS, ROWS, WIDTH)).astype(np.float32) for _ in range(2))
    write_model(work / "model.onnx", weight)
    for microbatches, mesh, flags in ((1, "fsdp=1", []), (1, "fsdp=2", ["--shard", "full"]), (2, "fsdp=2", ["--shard", "grad"]),
                                      (1, "replica=2,fsdp=2", ["--shard", "full", "--recompute", "selective"])):
        batches = {"x": x[:microbatches * STEPS], "target": target[:microbatches * STEPS]}
        save_safetensors(work / "batches.safetensors", batches)
        losses, w = descend(weight, batches["x"].astype(np.float64), batches["target"], microbatches)
        evaluated = np.mean([(outputs(rows, w, (0, 0, 0))[0] - wanted) ** 2 for rows, wanted in zip(batches["x"].astype(np.float64), batches["target"])])
        off = train_against(a, work, f"{microbatches}-{mesh}", ["--mesh", mesh, "--accumulate", microbatches, *flags], ["--seed", SEED, "--no-shuffle"], STEPS,
                            RATE, ROWS, (losses, {"w": w}, evaluated), a.stubs)
        worst = largest([worst, off])
    return f"off by at most {worst:.1e}"


main(check, ("--stubs", {}))
