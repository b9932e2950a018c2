"""Compares matmuls of 8-bit floats with a computation of their own in NumPy: forward, and both gradients.

usage: quantized.py MODULE

MODULE is quantized.mlir, before or after any passes. Rounding is a search: of all numbers of an 8-bit type, decoded by their definition, the
nearest one, and of two that are equally near the one with an even last bit. The result must be the same to an ulp of bf16; most are
the same in all bits.
"""
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "e2e" / "lib"))
from runner import read_safetensors, save_safetensors  # noqa: E402

FORMATS = {"e4m3": (4, 3, 448.0), "e5m2": (5, 2, 57344.0)}


def numbers(exponent_bits, fraction_bits, largest):
    """All finite numbers from 0 on, in the order of their bits."""
    bias = (1 << (exponent_bits - 1)) - 1
    found = []
    for bits in range(1 << (exponent_bits + fraction_bits)):
        exponent, fraction = bits >> fraction_bits, bits & ((1 << fraction_bits) - 1)
        value = (fraction + (1 << fraction_bits if exponent else 0)) * 2.0 ** (max(exponent, 1) - bias - fraction_bits)
        if value <= largest:
            found.append(value)
    return np.array(found)


def rounded(x, form):
    table = numbers(*FORMATS[form])
    size = np.abs(x).astype(np.float64)
    upper = np.minimum(np.searchsorted(table, size), len(table) - 1)
    lower = np.maximum(upper - 1, 0)
    up, down = np.abs(table[upper] - size), np.abs(size - table[lower])
    best = np.where((up < down) | ((up == down) & (upper % 2 == 0)), upper, lower)
    return np.copysign(table[best], x)


def quantized(x, form):
    """The numbers that stand for x, and their scale."""
    largest = np.maximum(np.abs(x).max(), np.float32(1e-12))
    factor = np.float32(FORMATS[form][2]) / np.float32(largest)
    return rounded(x * factor, form), np.float64(np.float32(1) / factor)


def matmul(x, y, kinds):
    (a, s), (b, t) = quantized(x, kinds[0]), quantized(y, kinds[1])
    return (a @ b.T) * (s * t)


def bf16(x):
    bits = np.asarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


random = np.random.default_rng(5)
# A few large elements: most are then subnormal in e4m3.
x = bf16(random.standard_normal((32, 64)) * np.where(random.random((32, 64)) < 0.01, 3000, 1))
w = bf16(random.standard_normal((48, 64)) * 0.02)
g = bf16(random.standard_normal((32, 48)) * 10.0 ** random.uniform(-8, -2, (32, 48)))


def step(g):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        save_safetensors(folder / "in.safetensors", {"x": x, "w": w, "g": g})
        subprocess.run(["shale-run", sys.argv[1], "--function=step", f"--inputs={folder}/in.safetensors", f"--out={folder}/out.safetensors"],
                       check=True, stdout=subprocess.DEVNULL)
        return [value.copy() for _, value in sorted(read_safetensors(folder / "out.safetensors").items())]


wanted = [matmul(x, w, ("e4m3", "e4m3")), matmul(g, w.T, ("e5m2", "e4m3")), matmul(g.T, x.T, ("e5m2", "e4m3"))]
for name, have, want in zip(("y", "dx", "dw"), step(g), wanted, strict=True):
    error = np.abs(have - want)
    if not (error <= 2.0 ** -8 * np.abs(want)).all():
        sys.exit(f"{name}: off by {error.max():.3e} of {np.abs(want).max():.3e}")
    same = (bf16(want) == have).mean() if name != "dw" else (want.astype(np.float32) == have).mean()
    if same < 0.999:
        sys.exit(f"{name}: only {same:.4f} of the elements have the same bits")
    print(f"{name}: {have.size} elements, {same:.4f} with the same bits")

for bad in (np.inf, np.nan):
    g[3, 5] = bad
    if any(np.isfinite(value).any() for value in step(g)[1:] if bad == np.inf) or any(np.isfinite(value).all() for value in step(g)[1:]):
        sys.exit(f"a gradient of {bad} is hidden")
print("an infinite gradient: no element of dx and dw is finite")
