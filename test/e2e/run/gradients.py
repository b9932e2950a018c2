#!/usr/bin/env python3
"""Compares the gradient errors of the first step in 16-bit floats with those of PyTorch. Both errors are relative to f64.

usage: e2e gradients --build DIR --case test/models/gpt2 [--flags "--param-dtype bf16"] [--factor 1.25] [--mutants]

One step of SGD without decay and clipping stores each gradient in the velocity, to the bit, and a full checkpoint holds the velocity by name.
In f32 the gradient must be within 3e-6 of the f64 gradient, relative. In bf16 the norm of the error must be at most `factor` times that of
PyTorch's bf16 step (FOLDER/gradients.json, written by test/models/gradients.py).

--mutants checks that the bound finds a softmax or a sum that is computed in bf16. It replaces the softmaxes of all blocks, or the sum
over rows for one bias gradient, in the program after the precision stage. Each step of the replacement rounds to bf16 and adds numbers one
by one. The program compiled from there must exceed the bound, and the program without the change must not. The model is imported
without recovery, so that it contains softmax ops.
"""
import json

import numpy as np

from runner import Case, Deviates, main, read_program, read_safetensors, run, stage_files

EXACT = 3e-6
MESHES = [("none", 1), ("full", 2)]


def velocities(case, work, shard, ranks, flags):
    name = f"{shard}-{ranks}-{len(flags)}"
    case.shalec(work / name, shard, ranks, ["--optimizer", "sgd", *flags])
    return velocities_of(case, work, name)


def velocities_of(case, work, name):
    """The gradients of the first step of a compiled program."""
    case.train(work / name, work / f"run-{name}", 1, ["--schedule", "constant", "--weight-decay", 0, "--clip-grad-norm", 0, "--momentum", 0.9,
                                                      "--checkpoint", "full", "--save-every", 1])
    found = read_safetensors(next((work / f"run-{name}" / "checkpoints").glob("step-*/optimizer.safetensors")))
    return {name.split("/", 1)[1]: value.astype(np.float64) for name, value in found.items()}


def errors(found, exact, what):
    """The norm of the error of each gradient."""
    if set(found) != set(exact):
        raise Deviates(f"{what}: gradients of {sorted(set(found) ^ set(exact))} on one side only")
    for name, value in exact.items():
        if found[name].shape != value.shape:
            raise Deviates(f"{what}: {name} has shape {found[name].shape}, not {value.shape}")
    return {name: float(np.linalg.norm(found[name] - value)) for name, value in exact.items()}


class Rewriter:
    """Replaces an op of the IR, on the line `line`, by ops that round each result to bf16. They have the op's attributes in braces."""
    count = 0  # of all rewriters, so that names of values are unique

    def __init__(self, line):
        self.attributes, self.lines = line[line.index("{"):line.rindex("}") + 1], []

    def make(self, op, types, into=None):
        name = into or f"%mutant_{Rewriter.count}"
        Rewriter.count += 1
        self.lines.append(f"    {name} = nn.{op} {self.attributes} : {types}")
        return name

    def cast(self, value, shape, source, target, into=None):
        return self.make(f"cast {value}", f"tensor<{shape}x{source}> -> tensor<{shape}x{target}>", into)

    def rounded(self, op, shape, *values):
        """An elementwise op on bf16 values, rounded to bf16."""
        wide = [self.cast(value, shape, "bf16", "f32") for value in values]
        return self.cast(self.make(f"{op} {', '.join(wide)}", f"tensor<{shape}xf32>"), shape, "f32", "bf16")

    def sum(self, value, dims, dim):
        """Sums over a dimension, one element at a time. The dimension keeps size 1."""
        one = [1 if at == dim else size for at, size in enumerate(dims)]
        total, shape = None, "x".join(map(str, one))
        for at in range(dims[dim]):
            starts, limits = [0] * len(dims), list(dims)
            starts[dim], limits[dim] = at, at + 1
            part = self.make(f"slice {value} starts = {starts} limits = {limits} strides = {[1] * len(dims)}",
                             f"tensor<{'x'.join(map(str, dims))}xbf16> -> tensor<{shape}xbf16>")
            total = self.rounded("add", shape, total, part) if total else part
        return total, shape


def softmax_in_bf16(op, line):
    ir, into, value, dims = Rewriter(line), op.results[0].name, op.operands[0].name, op.results[0].shape
    shape = "x".join(map(str, dims))
    rows, outer = "x".join(map(str, dims[:-1])), list(range(len(dims) - 1))
    spread = f"dims = {outer}", f"tensor<{rows}xbf16> -> tensor<{shape}xbf16>"
    most = ir.make(f"reduce max {ir.cast(value, shape, 'bf16', 'f32')} dims = [{len(outer)}]", f"tensor<{shape}xf32> -> tensor<{rows}xf32>")
    most = ir.make(f"broadcast {ir.cast(most, rows, 'f32', 'bf16')} {spread[0]}", spread[1])
    powers = ir.rounded("exp", shape, ir.rounded("sub", shape, value, most))
    total, kept = ir.sum(powers, dims, len(outer))
    total = ir.make(f"reshape {total}", f"tensor<{kept}xbf16> -> tensor<{rows}xbf16>")
    result = ir.rounded("div", shape, powers, ir.make(f"broadcast {total} {spread[0]}", spread[1]))
    ir.make(f"reshape {result}", f"tensor<{shape}xbf16> -> tensor<{shape}xbf16>", into)
    return ir.lines


def reduction_in_bf16(op, line):
    ir, [rows, columns] = Rewriter(line), op.operands[0].shape
    total, kept = ir.sum(op.operands[0].name, [rows, columns], 0)
    ir.cast(ir.make(f"reshape {total}", f"tensor<{kept}xbf16> -> tensor<{columns}xbf16>"), columns, "bf16", "f32", op.results[0].name)
    return ir.lines


def is_softmax(op):
    return op.name == "nn.softmax"


def sums_rows(op):
    return op.name == "nn.reduce" and op.word("kind") == "sum" and op.attributes["dims"] == [0] and \
        len(op.results[0].shape) == 1 and op.results[0].element == "f32"


# What is replaced in @step and @evaluate, and the largest number of replacements.
MUTANTS = {"softmax": (is_softmax, softmax_in_bf16, 99), "reduction": (sums_rows, reduction_in_bf16, 1)}


def check_mutants(a, case, work, exact, recorded):
    files = stage_files(case, work / "ir", "dist", "none", 1, ["--optimizer", "sgd", "--no-recover", *a.flags.split()])
    program, found = read_program(case.bin, files["precision"]), []
    for name, (wanted, rewrite, most) in {"none": (lambda op: False, None, 0), **MUTANTS}.items():
        ops = [op for op in program.walk() if wanted(op)][:most]
        if bool(ops) != bool(most):
            raise Deviates(f"the program has no {name} to replace")
        (work / f"{name}.mlir").write_text(program.with_lines({op: "\n".join(rewrite(op, program.line(op))) for op in ops}))
        run([case.bin / "shalec", "--compile-from=precision", work / f"{name}.mlir", "-o", work / name], f"compiling with {name} in bf16")
        half = errors(velocities_of(case, work, name), exact, name)
        factors = {one: error / recorded[one]["bf16_error"] for one, error in half.items()}
        worst = max(factors, key=factors.get)
        found.append(f"{name} in bf16: {factors[worst]:.2f} times ({worst})")
        if (factors[worst] > a.factor) != bool(most):
            raise Deviates(f"{found[-1]}; the bound is {a.factor}")
    return found


def check(a, work):
    case = Case(a.build, a.case)
    case.hyper_flags = lambda: ["--lr", 1e-3]
    recorded = json.loads((case.folder / "gradients.json").read_text())["gradients"]
    exact = {name: value.astype(np.float64) for name, value in read_safetensors(case.folder / "gradients.safetensors").items()}
    single = errors(velocities(case, work, "none", 1, []), exact, "f32")
    for name, error in single.items():
        if not error <= EXACT * recorded[name]["norm"]:
            raise Deviates(f"f32: {name} is off by {error / recorded[name]['norm']:.1e}")
    said = [f"f32 within {max(error / recorded[name]['norm'] for name, error in single.items()):.1e} of f64"]
    over = []
    for shard, ranks in MESHES:
        half = errors(velocities(case, work, shard, ranks, a.flags.split()), exact, f"{shard} on {ranks}")
        factors = {name: error / recorded[name]["bf16_error"] for name, error in half.items()}
        if a.table:
            print("\n".join(f"{shard} {ranks} {factor:5.2f} of {recorded[name]['bf16_error'] / recorded[name]['norm']:.4f} {name}" for name, factor in factors.items()))
        if min(half[name] / recorded[name]["norm"] for name in half) < 1e-4:
            raise Deviates(f"{shard} on {ranks}: the error of a gradient is smaller than bf16 allows; check that {a.flags} took effect")
        worst = max(factors, key=factors.get)
        said.append(f"{shard} on {ranks}: error up to {factors[worst]:.2f} times PyTorch's ({worst}), {np.median(list(factors.values())):.2f} in the middle")
        over += [f"{shard} on {ranks}: {name} {factor:.2f}" for name, factor in factors.items() if not factor <= a.factor]
    if over:
        raise Deviates(f"errors above {a.factor} times PyTorch's: " + "; ".join(over))
    if a.mutants:
        said += check_mutants(a, case, work, exact, recorded)
    return "; ".join(said)


if __name__ == "__main__":
    main(check, ("--case", {"required": True}), ("--flags", {"default": "--param-dtype bf16"}), ("--factor", {"type": float, "default": 1.25}),
         ("--table", {"action": "store_true"}), ("--mutants", {"action": "store_true"}))
