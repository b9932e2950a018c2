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

from runner import MODELS, Case, Deviates, expect_deviation, main, read_program, run, same_bits

STEPS, LAYERS, WIDTH = 4, 2, 192
FLAGS = ["--param-dtype=bf16", "--target=cuda:emulated"]


def activates(kernel):
    """Whether a kernel computes the activation between gate and up."""
    values = [*kernel.arguments, *(result for op in kernel.body for result in op.results)]
    return any(op.name == "nn.silu" for op in kernel.body) and any(WIDTH in value.shape[1:] for value in values)


def joins(kernel):
    """Whether a kernel joins values and stores another one, too."""
    return any(op.name == "nn.concat" for op in kernel.body) and len(kernel.body[-1].operands) > 1


def check_kernels(program, recomputes):
    """Checks which kernels of the backward pass compute the activation. Returns the name of the one that joins gradients."""
    kernels = program.symbols("rt.kernel")
    launched = [op.symbol("kernel") for op in program.symbols("rt.func")["step"].body if op.name == "rt.launch" and op.word("nn.phase") == "backward"]
    again = [name for name in launched if activates(kernels[name])]
    joined = [name for name in again if joins(kernels[name])]
    wanted = LAYERS if recomputes else 0
    if len(joined) != wanted or (recomputes and again != joined):
        raise Deviates(f"{len(joined)} of {len(again)} launches of the backward pass that compute the activation also join gradients, not {wanted}")
    return joined[0] if joined else None


def spoil(name, program):
    """The text of the program in which the first matmul of that kernel, the activation, is a sum."""
    matmul = next(op for op in program.symbols("rt.kernel")[name].body if op.name == "nn.mul")
    return program.with_lines({matmul: program.line(matmul).replace("nn.mul", "nn.add")})


class Programs:
    def __init__(self, a, work):
        self.case, self.work, self.stubs = Case(a.build, MODELS / "llama"), work, a.stubs
        self.model = work / "wide.onnx"
        run([sys.executable, MODELS / "scale.py", "llama-wide", self.model, "--random-weights"], "scale.py")

    def compile(self, name, flags):
        """Compiles a program, whose plan it returns."""
        command = [self.case.bin / "shalec", self.model, *self.case.quiet, *self.case.model_flags(), *FLAGS, *flags]
        self.peak = int(re.search(r"peak (\d+)", run([*command, "--plan-only"], "shalec").stdout)[1])
        run([*command, "-o", self.work / name, "--save-temps", self.work / f"{name}-ir"], "shalec")
        return read_program(self.case.bin, next((self.work / f"{name}-ir").glob("*-plan.mlir")))

    def check_why(self, program, joined, flags):
        """--why states that a kernel computes a node again beside others, and that the matmuls of gate and up are kept."""
        again = [(op, op.attributes["mem.recomputes"]) for op in program.walk() if "mem.recomputes" in op.attributes]
        alone = [nodes[0] for _, nodes in again if len(nodes) == 1]
        beside = next(nodes for op, nodes in again if op.name == "rt.launch" and op.symbol("kernel") == joined)
        kept = [node for node in beside if node.startswith("node_linear")]
        if not alone or len(kept) != 2:
            raise Deviates(f"kernels compute {alone} alone again, and {beside} in {joined}")
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
        program = programs.compile(name, flags)
        joined = check_kernels(program, recomputes=True)
        if name == "selective":
            programs.check_why(program, joined, flags)
        same_bits(plain, programs.train(name), f"--recompute none and {name}")
    changed = work / "changed.mlir"
    changed.write_text(spoil(joined, program))
    run([programs.case.bin / "shalec", "--compile-from=plan", changed, "-o", work / "spoiled"], "compiling a changed plan")
    expect_deviation(lambda: same_bits(plain, programs.train("spoiled"), "--recompute none and a changed program"), "another activation", "differ")
    return f"4 programs of {LAYERS} layers have the same bits after {STEPS} steps"


if __name__ == "__main__":
    main(check, ("--stubs", {"required": True}), success="siblings:")
