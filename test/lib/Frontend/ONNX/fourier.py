"""DFT beside numpy.fft: fourier.py FOLDER."""
import sys

from definition import *

random = np.random.default_rng(0)
it = Definition(sys.argv[1], opsets=(("", 20),))


def pairs(z):
    return np.stack([z.real, z.imag], -1)


def given(shape):
    return random.standard_normal(shape).astype(np.float32)


def integer(name, number):
    return name, np.array(number, np.int64)


real, both = given((3, 4, 6, 1)), given((3, 4, 6, 2))
numbers = both[..., 0].astype(np.float64) + 1j * both[..., 1]
for axis in (0, 1, 2, -2, -3):
    place = axis if axis >= 0 else axis + 1
    it.right(f"real, axis {axis}", "DFT", [("x", real), ("", None), integer("axis", axis)], pairs(np.fft.fft(real[..., 0], axis=place)), constants=("axis",))
    it.right(f"complex, axis {axis}", "DFT", [("x", both), ("", None), integer("axis", axis)], pairs(np.fft.fft(numbers, axis=place)), constants=("axis",))
    it.right(f"inverse, axis {axis}", "DFT", [("x", both), ("", None), integer("axis", axis)], pairs(np.fft.ifft(numbers, axis=place)), {"inverse": 1}, constants=("axis",))
    it.right(f"onesided, axis {axis}", "DFT", [("x", real), ("", None), integer("axis", axis)], pairs(np.fft.rfft(real[..., 0], axis=place)), {"onesided": 1}, constants=("axis",))
for length in (1, 4, 6, 9):
    it.right(f"length {length}", "DFT", [("x", both), integer("n", length)], pairs(np.fft.fft(numbers, length)), constants=("n",))
    it.right(f"onesided, length {length}", "DFT", [("x", real), integer("n", length)], pairs(np.fft.rfft(real[..., 0], length)), {"onesided": 1}, constants=("n",))
for length, given_length in ((10, False), (10, True), (11, True), (5, True), (14, True)):
    wanted = np.fft.irfft(numbers, length)[..., None]
    it.right(f"inverse of a half, {length} {given_length}", "DFT", [("x", both)] + [integer("n", length)] * given_length, wanted, {"onesided": 1, "inverse": 1}, constants=("n",))
it.right("version 17", "DFT", [("x", real)], pairs(np.fft.fft(real[..., 0], axis=1)), opsets=(("", 17),))
it.right("version 17, axis", "DFT", [("x", real)], pairs(np.fft.fft(real[..., 0], axis=2)), {"axis": 2}, opsets=(("", 17),))
long = given((2, 1000, 1))
it.right("1000 numbers", "DFT", [("x", long)], pairs(np.fft.fft(long[..., 0])), bar=1e-4, differentiable=False)
# The imaginary part of a half turn is 0, also in f32: the sine of the nearest angle is -8.7e-8.
it.right("half a turn", "DFT", [("x", np.float32([[[3e4], [5e5]]])), integer("one", 1)], np.zeros((1, 2)), constants=("one",), bar=1e-6, wide=False, differentiable=False,
         nodes=[node("DFT", ["x"], ["t"], "it"), node("Gather", ["t", "one"], ["y0"], "imaginary", axis=2)])

it.refused("DFT", [("x", (3, 4, 3))], "the operand must be [.., 1] or [.., 2]; it is tensor<3x4x3xf32>")
it.refused("DFT", [("x", (1,))], "the operand must be [.., 1] or [.., 2]")
it.refused("DFT", [("x", (3, 4, 2)), ("", None), integer("axis", 2)], "the last dimension holds real and imaginary parts", constants=("axis",))
it.refused("DFT", [("x", (3, 4, 2)), ("", None), integer("axis", 3)], "axis 3 is out of range", constants=("axis",))
it.refused("DFT", [("x", (3, 4, 2))], "onesided is defined for the transform of real numbers only", {"onesided": 1})
it.refused("DFT", [("x", (3, 4, 1))], "the inverse of a half (onesided) reads complex numbers", {"onesided": 1, "inverse": 1})
it.refused("DFT", [("x", (3, 4, 1)), integer("n", 0)], "a transform of 0 numbers is not supported", constants=("n",))
it.refused("DFT", [("x", (3, 4, 1)), integer("n", 1 << 40)], "a transform of 1099511627776 numbers is not supported", constants=("n",))
it.refused("DFT", [("x", (3, 4, 1)), integer("n", [4, 5])], "operand 1, the length, must be one constant", constants=("n",))
it.finish()
