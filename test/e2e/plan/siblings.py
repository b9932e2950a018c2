#!/usr/bin/env python3
"""Activations that the kernel of the gradients of gate and up recomputes, on the emulated GPU.

usage: e2e siblings --build DIR --stubs DIR

The model is the llama fixture with wider gates (test/models/scale.py llama-wide) in bf16, trained on the fixture's batches with --recompute none,
selective, block, and auto within less memory than none takes.

- The planned program has a kernel that joins the gradients of gate and up and stores the activation, too, for each layer's step, and no other kernel of
  the backward pass that computes the activation; without recomputation it has none.
- --why states what selective keeps and what a kernel computes again beside other values.
- All runs have the same losses, norms and weights, to the bit.
- A program in which that kernel stores another activation has other weights.
"""
import re
import sys

from runner import MODELS, Case, Deviates, expect_deviation, main, run, same_bits

STEPS, LAYERS, WIDTH = 4, 2, 192
FLAGS = ["--param-dtype=bf16", "--target=cuda:emulated"]


def kernels_of(text):
    """The bodies of kernels by name."""
    return {name: body for name, body in re.findall(r"rt\.kernel @(\S+?)(\(.*?\n  \})", text, re.DOTALL)}


def check_kernels(text, recomputes):
    """Checks which kernels of the backward pass compute the activation. Returns the name of the one that joins gradients."""
    kernels = kernels_of(text)
    step = text[text.index("rt.func @step"):text.index("rt.func @evaluate")]
    again = [name for name, rest in re.findall(r"rt\.launch @(\S+?)\((.*)", step) if "#backward" in rest and f"x{WIDTH}x" in kernels[name] and "nn.silu" in kernels[name]]
    joined = [name for name in again if "nn.concat" in kernels[name] and re.search(r"rt\.yield %\S+, %", kernels[name])]
    wanted = LAYERS if recomputes else 0
    if len(joined) != wanted or (recomputes and again != joined):
        raise Deviates(f"{len(joined)} of {len(again)} launches of the backward pass that compute the activation also join gradients, not {wanted}")
    return joined[0] if joined else None


def spoil(name, text):
    """The program in which the first product of that kernel, the activation, is a sum."""
    start = text.index(f"rt.kernel @{name}(")
    end = text.index("rt.yield", start)
    body = text[start:end]
    mul = re.search(r"nn\.mul (%\S+), (%\S+) : tensor<\S+>", body)
    return text[:start] + body.replace(mul[0], mul[0].replace("nn.mul", "nn.add"), 1) + text[end:]


class Programs:
    def __init__(self, a, work):
        self.case, self.work, self.stubs = Case(a.build, MODELS / "llama"), work, a.stubs
        self.model = work / "wide.onnx"
        run([sys.executable, MODELS / "scale.py", "llama-wide", self.model, "--random-weights"], "scale.py")

    def compile(self, name, flags):
        """Compiles a program, whose plan it returns as text."""
        command = [self.case.bin / "shalec", self.model, *self.case.quiet, *self.case.model_flags(), *FLAGS, *flags]
        self.peak = int(re.search(r"peak (\d+)", run([*command, "--plan-only"], "shalec").stdout)[1])
        run([*command, "-o", self.work / name, "--save-temps", self.work / f"{name}-ir"], "shalec")
        return next((self.work / f"{name}-ir").glob("*-plan.mlir")).read_text()

    def check_why(self, text, joined, flags):
        """--why states that a kernel computes a node again beside others, and that the products of gate and up are kept."""
        alone = re.findall(r'{mem\.recomputes = \["([^"]*)"\]', text)
        launch = re.search(rf"rt\.launch @{re.escape(joined)}\(.*mem\.recomputes = \[(.*?)\]", text)[1]
        kept = re.findall(r'"(node_linear\w*)"', launch)
        if not alone or len(kept) != 2:
            raise Deviates(f"kernels compute {alone} alone again, and {launch} in {joined}")
        for node, wanted in [(alone[0], "yes, for the backward pass, in a kernel that computes other values, too"), *((node, "no, --recompute selective keeps it") for node in kept)]:
            printed = run([self.case.bin / "shalec", self.model, *self.case.quiet, *self.case.model_flags(), *FLAGS, *flags, "--why", node], "shalec --why").stdout
            if f"recomputed    {wanted}" not in printed:
                raise Deviates(f"--why {node} does not print '{wanted}': {printed}")

    def train(self, name):
        self.case.train(self.work / name, self.work / f"{name}-run", STEPS, ["--schedule", "constant", "--cuda-libraries", self.stubs])
        return self.work / f"{name}-run"


def check(a, work):
    programs = Programs(a, work)
    check_kernels(programs.compile("none", ["--recompute", "none"]), recomputes=False)
    kept, plain = programs.peak, programs.train("none")
    for name, flags in {"selective": ["--recompute", "selective"], "block": ["--recompute", "block"],
                        "auto": ["--recompute", "auto", "--memory-limit", kept - 1]}.items():
        text = programs.compile(name, flags)
        joined = check_kernels(text, recomputes=True)
        if name == "selective":
            programs.check_why(text, joined, flags)
        same_bits(plain, programs.train(name), f"--recompute none and {name}")
    changed = work / "changed.mlir"
    changed.write_text(spoil(joined, text))
    run([programs.case.bin / "shalec", "--compile-from=plan", changed, "-o", work / "spoiled"], "compiling a changed plan")
    expect_deviation(lambda: same_bits(plain, programs.train("spoiled"), "--recompute none and a changed program"), "another activation", "differ")
    return f"4 programs of {LAYERS} layers have the same bits after {STEPS} steps"


if __name__ == "__main__":
    main(check, ("--stubs", {"required": True}), success="siblings:")
