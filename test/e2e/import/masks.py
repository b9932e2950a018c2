#!/usr/bin/env python3
"""Finite masks that 16-bit floats cannot hold, in softmaxes that are not attention, against numpy.

usage: e2e masks --build DIR [--stubs DIR]

The model is a pooling: s = x w + mask, p = softmax(s), y = head (sum of p x), its loss mse(y, target). A mask is 0 or a finite number that is
-infinity in f16 or bf16, and one row of each batch has nothing else: with -infinity the softmax is NaN, with a finite number it is that of equal scores.

- Losses of STEPS steps of gradient descent are those of numpy in f64 (the mask is added in f32), within BAR, for masks that are added and for masks that are selected, in f32, bf16
  and f16; f16 leaves out at most two, because the first loss scale is too large for their gradients.
- A model whose loss overflows f16 in every step leaves out every step: the run ends with 93, and says that no parameter has changed, and why; so does
  the same run started again. With gradients that overflow at the first loss scale only, a longer run goes on to train.

--stubs: programs for GPUs, with the stand-ins for NVIDIA's libraries in DIR.
"""
import pathlib
import subprocess

import numpy as np

from onnx_writer import floats, graph, ints, model, node, value
from runner import Deviates, largest, main, metrics, run, save_safetensors

ROWS, TOKENS, WIDTH, OUT, STEPS, RATE = 4, 6, 8, 4, 8, 0.125
LEAST = -float(np.finfo(np.float32).max)
BAR = {"f32": 1e-5, "bf16": 2e-2, "f16": 2e-3}  # relative
HYPER = ["--lr", RATE, "--momentum", 0, "--weight-decay", 0, "--clip-grad-norm", 0, "--schedule", "constant"]
# the type, the number, and whether it is added
CASES = [("f32", -1e9, True), ("bf16", LEAST, True), ("bf16", LEAST, False), ("f16", -1e9, True), ("f16", -1e9, False), ("f16", LEAST, False)]


def pooling(number, added, weights):
    """The model's file. `keep` is 1 or 0."""
    if added:
        masked = [node("Sub", ["one", "keep"], ["gone"]), node("Mul", ["gone", "number"], ["fill"]), node("Add", ["s", "fill"], ["masked"])]
    else:
        masked = [node("Greater", ["keep", "half"], ["kept"]), node("Where", ["kept", "s", "number"], ["masked"])]
    body = [node("MatMul", ["x", "w"], ["column"]), node("Squeeze", ["column", "last"], ["s"]), *masked, node("Softmax", ["masked"], ["p"], axis=-1),
            node("Unsqueeze", ["p", "last"], ["share"]), node("Mul", ["share", "x"], ["parts"]), node("ReduceSum", ["parts", "tokens"], ["pooled"], keepdims=0),
            node("MatMul", ["pooled", "head"], ["y"])]
    constants = [floats("one", [], [1.0]), floats("half", [], [0.5]), floats("number", [], [number]), ints("last", [1], [2]), ints("tokens", [1], [1])]
    parameters = [floats(name, value.shape, value.ravel().tolist()) for name, value in weights.items()]
    return model(graph(body, [value("x", ["batch", TOKENS, WIDTH]), value("keep", ["batch", TOKENS])], [value("y", ["batch", OUT])], constants + parameters))


def descend(number, added, weights, data, skipped):
    """The losses of numpy, in f64, with the updates of steps that are not skipped."""
    w, head = (np.array(value, np.float64) for value in weights.values())
    losses = []
    for skips, x, keep, target in zip(skipped, *(data[name].astype(np.float64) for name in ("x", "keep", "target"))):
        s = (x @ w)[..., 0]
        # In f32 the sum of a score and such a number is the number.
        s = (s.astype(np.float32) + ((1 - keep) * number).astype(np.float32)).astype(np.float64) if added else np.where(keep > 0.5, s, number)
        p = np.exp(s - s.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        pooled = (p[..., None] * x).sum(1)
        error = pooled @ head - target
        losses.append(np.square(error).mean())
        if skips:
            continue
        dy = 2 * error / error.size
        dp = x @ (dy @ head.T)[..., None]
        ds = p * (dp[..., 0] - (p * dp[..., 0]).sum(-1, keepdims=True))
        ds = ds if added else ds * (keep > 0.5)
        head = head - RATE * pooled.T @ dy
        w = w - RATE * np.einsum("btw,bt->w", x, ds)[:, None]
    return losses


class Programs:
    def __init__(self, a, work):
        self.shalec, self.work = pathlib.Path(a.build) / "bin/shalec", work
        self.target = ["--target", "cuda:emulated"] if a.stubs else []
        self.libraries = ["--cuda-libraries", a.stubs] if a.stubs else []

    def compile(self, file, kind):
        (self.work / "model.onnx").write_bytes(file)
        run([self.shalec, self.work / "model.onnx", "-o", self.work / "train", "--loss", "mse:y,target", "--optimizer", "sgd", "--dim", f"batch={ROWS}", "--param-dtype",
             kind, *self.target, "--no-advice"], "shalec")

    def train(self, out, data, steps):
        save_safetensors(self.work / "batches.safetensors", data)
        command = [self.work / "train", "--data", self.work / "batches.safetensors", *HYPER, "--steps", steps, "--out", self.work / out, *self.libraries]
        return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300)


def check_case(programs, kind, number, added):
    rng = np.random.default_rng(5)
    weights = {"w": rng.standard_normal((WIDTH, 1)).astype(np.float32), "head": (0.5 * rng.standard_normal((WIDTH, OUT))).astype(np.float32)}
    keep = (rng.random((STEPS, ROWS, TOKENS)) < 0.7).astype(np.float32)
    keep[:, 0] = 0
    data = {"x": rng.standard_normal((STEPS, ROWS, TOKENS, WIDTH)).astype(np.float32), "keep": keep,
            "target": rng.standard_normal((STEPS, ROWS, OUT)).astype(np.float32)}
    programs.compile(pooling(number, added, weights), kind)
    out = f"{kind}-{number:.0e}-{added}"
    done = programs.train(out, data, STEPS)
    if done.returncode:
        raise Deviates(f"{out} ends with {done.returncode}: {done.stderr[-500:]}")
    lines = metrics(programs.work / out)
    skipped = [line.get("skipped", False) for line in lines]
    off = largest(abs(line["loss"] - loss) / loss for line, loss in zip(lines, descend(number, added, weights, data, skipped)))
    if sum(skipped) > (2 if kind == "f16" else 0) or len(lines) != STEPS or not off <= BAR[kind]:
        raise Deviates(f"{out}: losses are off by {off:.1e} (bar {BAR[kind]}), {sum(skipped)} steps are left out")
    return off


def check_left_out(programs):
    weights = {"w": np.ones((WIDTH, 1), np.float32), "head": np.full((WIDTH, OUT), 1e3, np.float32)}
    data = {"x": np.full((STEPS, ROWS, TOKENS, WIDTH), 1e3, np.float32), "keep": np.ones((STEPS, ROWS, TOKENS), np.float32),
            "target": np.zeros((STEPS, ROWS, OUT), np.float32)}  # y is 8e6
    programs.compile(pooling(-1e9, True, weights), "f16")
    for what in ("run", "same run again"):
        done = programs.train("left-out", data, 3)
        if done.returncode != 93 or "all 3 steps were left out, and no parameter has changed" not in done.stderr or "--param-dtype bf16" not in done.stderr:
            raise Deviates(f"a {what} that leaves out every step ends with {done.returncode}: {done.stderr[-500:]}")
        if what == "run" and ("the loss itself" not in done.stderr or "The first value that is not finite" not in done.stderr):
            raise Deviates(f"the value that is not finite is not named: {done.stderr[-500:]}")
    weights["head"][:], data["x"][:], data["target"][:] = 1.0, 1.0, 8.0  # y is 8: the error is 0, but for the rows of large targets
    data["target"][:, 0] = 72.0
    programs.compile(pooling(-1e9, True, weights), "f16")
    short, long = programs.train("short", data, 1), programs.train("long", data, STEPS)
    skipped = [line["skipped"] for line in metrics(programs.work / "long")]
    if short.returncode != 93 or "more steps may reach one that fits" not in short.stderr:
        raise Deviates(f"one step whose gradients overflow ends the run with {short.returncode}: {short.stderr[-500:]}")
    if long.returncode or not skipped[0] or all(skipped):
        raise Deviates(f"a run that leaves out its first steps, {skipped}, ends with {long.returncode}: {long.stderr[-500:]}")


def check(a, work):
    programs = Programs(a, work)
    worst = {}
    for kind, number, added in CASES:
        worst[kind] = max(worst.get(kind, 0), check_case(programs, kind, number, added))
    check_left_out(programs)
    return "losses are numpy's within " + ", ".join(f"{off:.1e} in {kind}" for kind, off in worst.items()) + "; runs without an update end with 93"


if __name__ == "__main__":
    main(check, ("--stubs", {}), success="holds:")
