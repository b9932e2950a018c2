#!/usr/bin/env python3
"""Gradients that are summed as 8-bit integers with error feedback (--wire-dtype reduce=int8) against numpy.

usage: e2e residuals --build DIR [--stubs DIR]

The model is y = w x, with a rank's row of x and targets for each of 1024 weights, its loss mse(y, target), trained by gradient descent. All factors
but the scales of blocks are powers of two, so numpy can follow every rank's gradients, what is sent of them, and what is kept for the next step, to the
bit. One target alternates between 1000 and -1000, and the others of its block are near 1: what a step would send of them is 0.

- Losses and trained weights are numpy's, for each strategy, for replicas, and for micro-batches.
- A run that is resumed has the bits of one that is not, from both forms of checkpoints. On another mesh it begins without what was not sent, and says so.
- Without error feedback (a program in which nothing is kept) the weights are numpy's without it, and beside a large one they end at least 15 times as far from those of exact
  gradients.
- The program's description has the exchanges, and no residual among the parameters.
- A step that is left out (--skip-spikes) changes nothing: the run ends with numpy's weights without it, for each of these settings.
- A gradient that is not finite, of a finite loss, ends the run with 93. What --save-on-failure then writes is, to the bit, what a run that stops before that step
  writes.
- A gradient norm that is infinite only because of what an earlier step did not send is infinite again when the step is repeated: the message names a value, and
  does not suspect the memory.

--stubs: programs for GPUs, with the stand-ins for NVIDIA's libraries in DIR.
"""
import pathlib
import re
import subprocess

import numpy as np
from quantized import quantized

from onnx_writer import floats, graph, model, node, value
from runner import Deviates, largest, main, metrics, read_program, read_safetensors, run, same_bits, save_safetensors

WIDTH, STEPS, RATE = 1024, 64, 16.0
SPIKE, INFINITE = 40, 3  # the number of the step that is left out, and of the one that is not finite
HYPER = ["--lr", RATE, "--momentum", 0, "--weight-decay", 0, "--clip-grad-norm", 0, "--schedule", "constant"]
FLAGS = ["--wire-dtype", "reduce=int8", "--optimizer", "sgd", "--loss", "mse:y,target"]
# replicas, ranks of the shard axis, strategy, micro-batches, flags
SETTINGS = [(1, 2, "full", 1, []), (1, 2, "none", 1, []), (1, 4, "optimizer", 1, []), (2, 2, "full", 1, []), (1, 2, "grad", 2, []),
            (1, 2, "full", 2, ["--sync-every-microbatch=false"])]
BRIEF = [(1, 2, "full", 1, []), (2, 2, "full", 1, [])]


class Sender:
    """A rank, or the ranks that hold slices of one value, and what it has not sent yet."""

    def __init__(self, feedback):
        self.kept, self.feedback = np.zeros(WIDTH, np.float32), feedback

    def send(self, gradient):
        whole = gradient + self.kept
        sent = quantized(whole)
        self.kept = whole - sent if self.feedback else self.kept
        return sent


def total(terms):
    """The sum in the order of the ranks, in f32."""
    result = terms[0]
    for term in terms[1:]:
        result = result + term
    return result


def descend(setting, x, target, feedback=True, exact=False):
    """The losses, and the weights after the steps."""
    replicas, shards, strategy, batches, flags = setting
    ranks, once = replicas * shards, strategy in ("none", "optimizer") or bool(flags)
    first, second, last = ([Sender(feedback) for _ in range(count)] for count in (ranks, replicas, 1))
    w, losses = np.zeros(WIDTH, np.float64 if exact else np.float32), []
    scale = np.float32(2 / (ranks * WIDTH * batches))

    def reduced(gradients):
        if exact:
            return total(gradients)
        sums = [total([first[r * shards + c].send(gradients[r * shards + c]) for c in range(shards)]) for r in range(replicas)]
        if replicas > 1:
            sums = [total([second[r].send(sums[r]) for r in range(replicas)])]
        return last[0].send(sums[0]) if replicas > 1 or strategy == "none" else sums[0]

    for step in range(STEPS):
        rows = [(x[step * batches + k], target[step * batches + k]) for k in range(batches)]
        errors = [[w * a[r] - b[r] for r in range(ranks)] for a, b in rows]
        losses.append(float(np.mean(np.square(np.array(errors, np.float64)))))
        gradients = [[errors[k][r] * rows[k][0][r] * scale for r in range(ranks)] for k in range(batches)]
        if once:
            g = reduced([total([gradients[k][r] for k in range(batches)]) for r in range(ranks)])
        else:
            g = total([reduced(gradients[k]) for k in range(batches)])
        w = w - (RATE if exact else np.float32(RATE)) * g
    return losses, w


def data_of(rows, batches):
    rng = np.random.default_rng(3)
    x = 2.0 ** rng.integers(-1, 2, (STEPS * batches, rows, WIDTH))
    target = x * rng.uniform(0.5, 1.5, WIDTH) + 0.1 * rng.standard_normal(x.shape)
    x[:, :, 0] = 1
    target[:, :, 0] = 1000 * (-1.0) ** (np.arange(STEPS * batches) // batches)[:, None]
    return x.astype(np.float32), target.astype(np.float32)


class Programs:
    def __init__(self, a, work):
        self.shalec, self.work, self.stubs = pathlib.Path(a.build) / "bin/shalec", work, a.stubs
        self.libraries = ["--cuda-libraries", a.stubs] if a.stubs else []
        body = [node("Mul", ["x", "w"], ["y"])]
        self.model = work / "model.onnx"
        self.model.write_bytes(model(graph(body, [value("x", ["batch", WIDTH])], [value("y", ["batch", WIDTH])], [floats("w", [WIDTH], [0.0] * WIDTH)])))

    def flags(self, setting, flags=FLAGS):
        replicas, shards, strategy, batches, more = setting
        mesh = f"replica={replicas},fsdp={shards}" if replicas > 1 else f"fsdp={shards}"
        device = ["--target", "cuda:emulated"] if self.stubs else []
        return [*flags, "--dim", f"batch={replicas * shards}", "--mesh", mesh, "--shard", strategy, "--accumulate", batches, *more, *device, "--no-advice"]

    def compile(self, setting, name, flags=FLAGS):
        run([self.shalec, self.model, "-o", self.work / name, *self.flags(setting, flags)], "shalec")

    def compile_without_feedback(self, setting, name):
        folder = self.work / "ir"
        run([self.shalec, self.model, "-o", "/dev/null", "--emit", "dist", "--save-temps", folder, *self.flags(setting)], "shalec")
        program = read_program(self.shalec.parent, next(folder.glob("*-partition.mlir")))
        kept = [(op, op.results[0]) for op in program.ops("dist.quantization_error")]
        if not kept:
            raise Deviates("nothing is kept")
        (folder / "changed.mlir").write_text(program.with_lines({op: f"{value.name} = nn.constant dense<0.0> : {value.type}" for op, value in kept}))
        run([self.shalec, "--compile-from=partition", folder / "changed.mlir", "-o", self.work / name], "compiling without error feedback")

    def command(self, name, out, more, batches):
        return [str(word) for word in (self.work / name, "--data", self.work / batches, *HYPER, "--steps", STEPS, "--out", self.work / out, *self.libraries, *more)]

    def train(self, name, out, more=(), batches="batches.safetensors"):
        return run(self.command(name, out, more, batches), name)

    def end_of(self, name, out, more, batches):
        """A run that may fail."""
        return subprocess.run(self.command(name, out, more, batches), capture_output=True, text=True, timeout=300)


def compare(programs, name, out, want):
    losses, w = want
    got = read_safetensors(programs.work / out / "model.safetensors")["w"]
    off = largest(abs(line["loss"] - loss) / loss for line, loss in zip(metrics(programs.work / out), losses))
    if not np.array_equal(got, w) or not off <= 2e-6:
        raise Deviates(f"{name}: weights differ from numpy's by up to {np.abs(got - w).max()}, losses by {off:.1e}")


def check_setting(programs, setting):
    replicas, shards, strategy, batches, flags = setting
    name = f"{strategy}-{replicas}-{shards}-{batches}{len(flags)}"
    x, target = data_of(replicas * shards, batches)
    save_safetensors(programs.work / "batches.safetensors", {"x": x, "target": target})
    programs.compile(setting, name)
    described = run([programs.work / name, "--describe"], f"{name} --describe").stdout
    if not re.search(r"all-to-all +fsdp +\d+ .* root", described) or "parameters: 1 with 1024 elements" not in described:
        raise Deviates(f"{name} is described as {described}")
    programs.train(name, f"{name}-run")
    compare(programs, name, f"{name}-run", descend(setting, x, target))
    half = f"{name}-half"
    form = ["--checkpoint", "full" if strategy == "none" else "sharded"]
    programs.train(name, half, ["--stop-after", STEPS // 2, *form])
    programs.train(name, half, ["--resume", "must", *form])
    same_bits(programs.work / f"{name}-run", programs.work / half, f"{name}, resumed,")
    return name


def check_left_out(programs, setting):
    """The run of check_setting(), with a step whose gradients are 1e5 times as large, which --skip-spikes leaves out."""
    replicas, shards, strategy, batches, flags = setting
    name = f"{strategy}-{replicas}-{shards}-{batches}{len(flags)}"
    x, target = data_of(replicas * shards, batches)
    at, out = SPIKE * batches, f"{name}-left-out"
    save_safetensors(programs.work / "spike.safetensors", {"x": np.insert(x, at, x[at:at + batches], axis=0),
                                                           "target": np.insert(target, at, target[at:at + batches] * np.float32(1e5), axis=0)})
    said = programs.train(name, out, ["--skip-spikes", 100, "--steps", STEPS + 1], "spike.safetensors").stdout
    if re.findall(r"step (\d+) skipped: its gradient norm", said) != [str(SPIKE + 1)]:
        raise Deviates(f"{name} leaves out other steps: {said}")
    want = descend(setting, x, target)
    want[0].insert(SPIKE, metrics(programs.work / out)[SPIKE]["loss"])
    compare(programs, f"{name} with a step that is left out", out, want)


def check_feedback(programs):
    setting = SETTINGS[0]
    x, target = data_of(2, 1)
    save_safetensors(programs.work / "batches.safetensors", {"x": x, "target": target})
    programs.compile_without_feedback(setting, "without")
    programs.train("without", "without-run")
    without = descend(setting, x, target, feedback=False)
    compare(programs, "without error feedback", "without-run", without)
    exact = descend(setting, x, target, exact=True)[1]
    off = [float(np.abs(w[1:256] - exact[1:256]).mean()) for w in (descend(setting, x, target)[1], without[1])]
    if not 15 * off[0] <= off[1]:
        raise Deviates(f"weights are off by {off[0]} in the mean with error feedback, and by {off[1]} without")
    return f"weights beside a large gradient are off by {off[0]:.1e} in the mean, without error feedback by {off[1]:.1e}"


def check_other_mesh(programs):
    """Resumes the first setting's run on another mesh, and a run without the flag with it."""
    _, _, strategy, batches, _ = SETTINGS[0]
    x, target = data_of(2, 1)
    save_safetensors(programs.work / "batches.safetensors", {"x": x, "target": target})
    programs.compile(SETTINGS[0], "first")
    programs.compile((2, 1, "none", 1, []), "other")
    programs.compile(SETTINGS[0], "plain", [flag for flag in FLAGS if flag not in ("--wire-dtype", "reduce=int8")])
    for start, then, warns in (("first", "other", True), ("plain", "first", True), ("first", "plain", False), ("first", "first", False)):
        out = f"{start}-{then}"
        programs.train(start, out, ["--stop-after", STEPS // 2])
        said = programs.train(then, out, ["--resume", "must"]).stderr
        if ("have not sent of their gradients begins with zero" in re.sub(r"\s+", " ", said)) != warns:
            raise Deviates(f"a checkpoint of '{start}' is read by '{then}' with: {said}")


def saved(out):
    """The files of the newest checkpoint by name."""
    step = max((out / "checkpoints").glob("step-*"), key=lambda folder: int(folder.name.split("-")[1]))
    return step.name, {path.name: path.read_bytes() for path in step.glob("*.safetensors")}


def check_infinity(programs, settings):
    for setting in settings:
        replicas, shards, strategy, batches, _ = setting
        x, target = data_of(replicas * shards, batches)
        x[INFINITE * batches, 1, 700], target[INFINITE * batches, 1, 700] = 1e30, 1e10
        save_safetensors(programs.work / "large.safetensors", {"x": x, "target": target})
        programs.compile(setting, "infinite")
        failed, stopped = f"infinite-{strategy}-{batches}", f"stopped-{strategy}-{batches}"
        done = programs.end_of("infinite", failed, ["--save-on-failure"], "large.safetensors")
        if done.returncode != 93 or "suspect" in done.stderr:
            raise Deviates(f"a gradient that is not finite ends the run with {done.returncode}, not 93: {done.stderr[-500:]}")
        programs.train("infinite", stopped, ["--stop-after", INFINITE], "large.safetensors")
        got, want = saved(programs.work / failed), saved(programs.work / stopped)
        if got != want or len(want[1]) == 0:
            raise Deviates(f"{strategy}: a failure in step {INFINITE + 1} saves {got[0]} with other bits than a stop: "
                           f"{[name for name in want[1] if want[1][name] != got[1].get(name)]}")


def check_repeated(programs):
    """A step adds 0.4 of a unit of a block's scale to what is sent, another one 0.4 more, which rounds up: only then is the squared norm above the largest f32."""
    unit = np.sqrt(float(np.finfo(np.float32).max) / 4.146e7)
    gradient = np.full(WIDTH, 100.4) * unit
    gradient[::256] = 127 * unit
    x = np.full((2, 2, WIDTH), 2.0**50, np.float32)  # a gradient is the error times x / WIDTH
    target = np.broadcast_to(-gradient / (2.0**50 / WIDTH), x.shape).astype(np.float32)
    save_safetensors(programs.work / "edge.safetensors", {"x": x, "target": target})
    programs.compile(SETTINGS[0], "edge")
    done = programs.end_of("edge", "edge-run", ["--lr", 1e-37, "--steps", 2], "edge.safetensors")
    if done.returncode != 93 or "step 2: " not in done.stderr or "suspect" in done.stderr or "first value that is not finite" not in done.stderr:
        raise Deviates(f"a norm that overflows in step 2 ends the run with {done.returncode}: {done.stderr[-600:]}")


def check(a, work):
    programs = Programs(a, work)
    settings = BRIEF if a.stubs else SETTINGS
    names = [check_setting(programs, setting) for setting in settings]
    for setting in settings:
        check_left_out(programs, setting)
    said = f"{', '.join(names)} are numpy's to the bit, also with a step that is left out"
    check_infinity(programs, settings[:1] if a.stubs else [SETTINGS[0], SETTINGS[1], SETTINGS[4]])
    if a.stubs:
        return said
    said += "\n  " + check_feedback(programs)
    check_other_mesh(programs)
    check_repeated(programs)
    return said


if __name__ == "__main__":
    main(check, ("--stubs", {}), success="holds:")
