#!/usr/bin/env python3
"""Compares PyTorch's operations at their special points with PyTorch: test/models/special, which make.py writes.

usage: e2e special --build DIR [--case FOLDER]

The interpreter computes the value and the gradient of each operation at each point: zeros of both signs, infinities, NaN, ties, ends of domains,
small and large numbers. Each value must be PyTorch's. So must each gradient where the value is finite: where it is not, no step is taken, and
there is no model to compare with. Where PyTorch's gradient is infinite, ours must not be finite; where it is NaN, it may be anything.

A compiled program then takes a step at the points where all numbers are finite, and of a size that a step can take. Its rate is 1, so that the
parameters, -0.0 before, are the negative gradients after it.

KNOWN and COMPILED list the deviations with their reasons. The test also fails if a listed operation no longer deviates.
"""
import json
import pathlib
import struct

import numpy as np

from runner import MODELS, Deviates, main, read_safetensors, run, save_safetensors

KNOWN = {
    "value of sign at nan": "0 in PyTorch",
    "value of gelu at inf": "NaN in PyTorch's vector code, as infinity times 0",
    "value of atan2 at inf, nan": "a number",
    "gradient of sinh at -88": "overflows within a factor of 6 of the largest number",
    "gradient of cosh at -88": "overflows within a factor of 6 of the largest number",
    "gradient of expm1 at -50": "exp(x), where PyTorch's is the value plus 1, and 0",
    "gradient of log_ndtr at -1e+10": "0 in PyTorch, of a difference of squares that has no digits left",
    "gradient of erfcx at 10000": "2 x erfcx(x) - 2 / sqrt(pi) is a difference of nearly equal numbers",
    "gradient of prelu at 1e-06, inf": "an infinite slope of the branch that is not taken",
    "gradient of binary_cross_entropy at 0, 0": "of the target, which PyTorch takes of logarithms without their bound",
    "gradient of binary_cross_entropy_with_logits at -100, 1e-06": "1 - y - sigmoid(-x) has lost digits of sigmoid(x) - y",
}
COMPILED = {
    "gradient of tanh at 6": "1 - y^2, in which the last digit of y counts",
    "value of mish at -88": "exp(-88) is 0",
    "gradient of mish at -88": "exp(-88) is 0",
    "value of tanhshrink at 0.01": "x - tanh(x), in which the last digit of tanh(x) counts",
    "value of ndtr at -3": "1 + erf(x), in which the last digit of erf(x) counts",
}
# Kernels give NaN for larger angles.
ANGLES, LARGEST_ANGLE = ("sin", "cos", "tan", "sinc"), 1e15
# Where a group of operations has no special point.
BENIGN = {"one": 0.75, "two": 0.75, "unit": 0.5, "rows": [0.5, 0.25, 0.125, 2]}
LARGEST = 1e15  # the sum of the squares must be finite in f32
SMALLEST = np.finfo(np.float32).tiny  # kernels take smaller numbers for others


def read_case(case):
    path = case / "expected.safetensors"
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    names = {kind.removeprefix("names."): text.split(";") for kind, text in header["__metadata__"].items()}
    return names, {name: np.array(value) for name, value in read_safetensors(path).items()}


def of_lines(kind, array):
    """Whether all numbers at a point hold: of a row, all of its elements; the operands are dimension 1."""
    return np.broadcast_to(array.all(-1, keepdims=True), array.shape) if kind == "rows" else array


def taken(kind, expected):
    """The points [operation, point..] at which a loss may be finite, and no operand is NaN."""
    numbers = ~np.isnan(expected[f"{kind}.grid"]).any(1) & np.isfinite(expected[f"{kind}.by"])
    return of_lines(kind, numbers)


def key_of(kind, what):
    return f"{kind}.{'by' if what == 'value' else 'at'}"


def right(kind, what, expected, found):
    """Whether each number is PyTorch's, as far as it is compared."""
    key = key_of(kind, what)
    got, wanted = found[key], expected[key]
    with np.errstate(all="ignore"):
        same = (np.abs(got.astype(np.float64) - wanted) <= expected[key + ".off"] + 1e-37) | (got == wanted)
    if what == "value":
        return same | (np.isnan(wanted) & np.isnan(got))
    return same | np.isnan(wanted) | (np.isinf(wanted) & ~np.isfinite(got)) | ~taken(kind, expected)[:, None]


def compare(names, expected, found, where=None):
    """Returns a line for each operation that deviates, with the first of its points. `where`: points, by kind."""
    lines = []
    for kind, of_kind in names.items():
        grid = expected[f"{kind}.grid"]
        for what in ("value", "gradient"):
            holds = right(kind, what, expected, found)
            if where:
                holds |= ~(where[kind] if what == "value" else np.broadcast_to(where[kind][:, None], holds.shape))
            for i, name in enumerate(of_kind):
                wrong = np.argwhere(~holds[i])
                if not len(wrong):
                    continue
                at = (i, *wrong[0])
                point = wrong[0] if what == "value" else wrong[0][1:]
                operands = grid[i, 0, point[0]] if kind == "rows" else grid[(i, slice(None), *point)]
                got, wanted = (tensors[key_of(kind, what)][at] for tensors in (found, expected))
                lines.append(f"{what} of {name} at {', '.join(f'{x:g}' for x in operands)}: {got:.8g}, in PyTorch {wanted:.8g} ({len(wrong)} points)")
    return lines


def check_lines(what, lines, known):
    wrong = [line for line in lines if line.split(":")[0] not in known]
    if wrong:
        raise Deviates(f"{what}: {len(wrong)} operations:\n" + "\n".join(wrong))
    right = set(known) - {line.split(":")[0] for line in lines}
    if right:
        raise Deviates(f"{what}: deviates no longer: {', '.join(sorted(right))}")


def interpret(build, folder, case, names, expected):
    """The gradients of a step by the interpreter, which keeps those that are not finite."""
    tools = build / "bin"
    run([tools / "shale-translate", "--import-onnx", case / "model.onnx", "--quiet", "-o", folder / "forward.mlir"], "the import")
    run([tools / "shale-opt", folder / "forward.mlir", "--shale-autodiff=optimizer=sgd accumulate=2", "-o", folder / "step.mlir"], "autodiff")
    arrays = {}
    for kind in names:
        arrays |= {f"{kind}.{name}": expected[f"{kind}.{name}"] for name in ("grid", "factor")}
        arrays |= {f"{kind}.{name}": np.full_like(expected[f"{kind}.{name}"], -0.0) for name in ("at", "by")}
    save_safetensors(folder / "inputs.safetensors", arrays)
    run([tools / "shale-run", folder / "step.mlir", "--function=accumulate_first", f"--inputs={folder}/inputs.safetensors", f"--out={folder}/found.safetensors",
         "--print=0"], "the interpreter")
    found = read_safetensors(folder / "found.safetensors")
    return {key: np.array(found[f"{key}.grad_accumulator"]) for kind in names for key in (f"{kind}.at", f"{kind}.by")}


def step(build, folder, case, names, expected, interpreted):
    """The gradients that a compiled program computes of the points at which the interpreter is right and all is finite, and these points, by kind."""
    arrays, where = {}, {}
    for kind in names:
        gradients, values = expected[f"{kind}.at"], expected[f"{kind}.by"]
        size = np.abs(expected[f"{kind}.grid"])
        with np.errstate(all="ignore"):
            fits = (np.abs(values) < LARGEST) & (np.abs(gradients) < LARGEST).all(1)
        isNormal = ((size >= SMALLEST) | (size == 0)).all(1)
        isKnown = right(kind, "value", expected, interpreted) & right(kind, "gradient", expected, interpreted).all(1)
        isAngle = np.array([name in ANGLES for name in names[kind]]).reshape(-1, *[1] * (fits.ndim - 1))
        isFar = isAngle & (size > LARGEST_ANGLE).any(1)
        where[kind] = of_lines(kind, fits & isNormal & isKnown & ~isFar & taken(kind, expected))
        arrays[f"{kind}.grid"] = np.where(where[kind][:, None], expected[f"{kind}.grid"], np.float32(BENIGN[kind]))
        arrays[f"{kind}.factor"] = expected[f"{kind}.factor"]
    save_safetensors(folder / "batches.safetensors", {name: array[None] for name, array in arrays.items()})
    run([build / "bin" / "shalec", case / "model.onnx", "-o", folder / "train", "--optimizer", "sgd"], "shalec")
    run([folder / "train", "--data", folder / "batches.safetensors", "--steps", 1, "--lr", 1, "--momentum", 0, "--weight-decay", 0,
         "--clip-grad-norm", 0, "--schedule", "constant", "--out", folder / "out"], "the program")
    weights = read_safetensors(folder / "out" / "model.safetensors")
    return {name: -np.array(value) for name, value in weights.items()}, where


def check(a, folder):
    case, build = pathlib.Path(a.case), pathlib.Path(a.build)
    names, expected = read_case(case)
    interpreted = interpret(build, folder, case, names, expected)
    check_lines("the interpreter", compare(names, expected, interpreted), KNOWN)
    found, where = step(build, folder, case, names, expected, interpreted)
    check_lines("the compiled program", compare(names, expected, found, where), COMPILED)
    points = sum(int(one.sum()) for one in where.values())
    return f"{sum(map(len, names.values()))} operations at {sum(expected[kind + '.by'].size for kind in names)} points, compiled at {points}"


if __name__ == "__main__":
    main(check, ("--case", {"default": MODELS / "special"}))
