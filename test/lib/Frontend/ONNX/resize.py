"""Resize against PyTorch's interpolation, whose results are recorded here, and against its definition: resize.py FOLDER."""
import sys

from definition import *

it = Definition(sys.argv[1], opsets=(("", 19),))
OLD, NEWEST = (("", 13),), (("", 28),)

IMAGE = np.array([[0, -1, 0, 2, 0], [0, 1, -2, -3, 4], [0, -2, 4, -1, -4], [1, 2, -2, 2, 2]], np.float32)[None, None]
# torch.nn.functional.interpolate(IMAGE, ..) in 64 bits, rounded to 9 digits: torch 2.15
BICUBIC = [[-0.444315844, 0.173611111, 0.653935185], [0.190972222, -1.5625, 1.716435185], [0.30471965, -1.208333333, 1.002872085],
           [-0.95788323, 3.625, -3.070001715], [0.15162037, 1.5625, -1.03125], [1.754050926, -2.520833333, 2.704475309]]
BILINEAR = [[0.0, -0.4375, -0.9375, -0.3125, 0.625, 1.875, 0.875, 0.0], [0.0, -0.125, -0.3125, -0.580357143, -0.424107143, 0.15625, 0.897321429, 1.428571429],
            [0.0, 0.375, 0.6875, -1.008928571, -2.102678571, -2.59375, 0.933035714, 3.714285714], [0.0, -0.21875, -0.40625, 0.53125, 0.0625, -1.8125, -0.875, 0.0],
            [0.071428571, -0.709821429, -1.383928571, 1.919642857, 2.209821429, -0.513392857, -2.352678571, -3.571428571],
            [0.642857143, 0.611607143, 0.544642857, 0.276785714, 0.388392857, 0.879464286, 0.325892857, -0.142857143], [1.0, 1.4375, 1.75, -0.75, -0.75, 1.75, 2.0, 2.0]]
CORNERS = [[0.0, -0.571428571, -0.857142857, -0.285714286, 0.571428571, 1.714285714, 1.142857143, 0.0], [0.0, 0.0, -0.142857143, -0.714285714, -0.857142857, -0.571428571, 0.571428571, 2.0],
           [0.0, 0.571428571, 0.571428571, -1.142857143, -2.285714286, -2.857142857, 0.0, 4.0], [0.0, -0.285714286, -0.285714286, 0.571428571, 0.142857143, -1.571428571, -1.142857143, 0.0],
           [0.0, -1.142857143, -1.142857143, 2.285714286, 2.571428571, -0.285714286, -2.285714286, -4.0],
           [0.5, 0.214285714, 0.142857143, 0.714285714, 0.857142857, 0.571428571, -0.142857143, -1.0], [1.0, 1.571428571, 1.428571429, -0.857142857, -0.857142857, 1.428571429, 2.0, 2.0]]
SMOOTH = [[-0.141767324, -0.496059965, 0.467260013], [0.337444374, 0.438054968, -0.249841068]]
NEAREST = [[0.0, -1.0, 2.0], [0.0, -1.0, 2.0], [0.0, 1.0, -3.0], [0.0, 1.0, -3.0], [0.0, -2.0, -1.0], [0.0, -2.0, -1.0], [1.0, 2.0, 2.0]]


def operands(x, sizes=None, scales=None):
    return [("x", x), ("roi", None), ("scales", None if scales is None else np.array(scales, np.float32)), ("sizes", None if sizes is None else np.array(sizes))]


def right(what, wanted, attributes, x=IMAGE, sizes=None, scales=None, opsets=None):
    it.right(what, "Resize", operands(x, sizes, scales), np.asarray(wanted, np.float64).reshape(x.shape[:2] + np.shape(wanted)[-2:]), attributes, constants=("scales", "sizes"), opsets=opsets)


CUBIC, LINEAR = {"mode": "cubic", "cubic_coeff_a": -0.75}, {"mode": "linear"}
right("cubic", BICUBIC, CUBIC | {"coordinate_transformation_mode": "pytorch_half_pixel", "nearest_mode": "floor"}, sizes=[1, 1, 6, 3])
right("cubic, axes", BICUBIC, CUBIC | {"axes": [-1, 2]}, sizes=[3, 6], opsets=NEWEST)
right("linear", BILINEAR, LINEAR, sizes=[1, 1, 7, 8], opsets=OLD)
right("linear, corners", CORNERS, LINEAR | {"coordinate_transformation_mode": "align_corners"}, sizes=[1, 1, 7, 8])
right("cubic, antialias", SMOOTH, {"mode": "cubic", "cubic_coeff_a": -0.5, "antialias": 1, "exclude_outside": 1}, sizes=[1, 1, 2, 3])
right("nearest", NEAREST, {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}, sizes=[1, 1, 7, 3])
right("nearest, the default", np.repeat(np.repeat(IMAGE, 2, 2), 3, 3)[0, 0], {}, scales=[1, 1, 2, 3])
right("the same size", IMAGE[0, 0], CUBIC, scales=[1, 1, 1, 1])
line = np.arange(1, 6, dtype=np.float32).reshape(1, 1, 1, 5)
# Places of a scale of 0.7, where 3.5 elements become 3: (x + 0.5) / 0.7 - 0.5; symmetric ones are shifted by 2.5 (1 - 3 / 3.5).
place = (np.arange(3) + 0.5) / float(np.float32(0.7)) - 0.5
right("linear, scale", 1 + place[None], LINEAR, line, scales=[1, 1, 1, 0.7])
right("linear, symmetric", 1 + place[None] + 2.5 * (1 - 3 / (5 * float(np.float32(0.7)))), LINEAR | {"coordinate_transformation_mode": "half_pixel_symmetric"}, line, scales=[1, 1, 1, 0.7])
# 10 places 0, 0.5, 1, ..: ties by nearest_mode, the last one beyond the end.
for mode, indices in {"floor": [0, 0, 1, 1, 2, 2, 3, 3, 4, 4], "ceil": [0, 1, 1, 2, 2, 3, 3, 4, 4, 4], "round_prefer_floor": [0, 0, 1, 1, 2, 2, 3, 3, 4, 4], "round_prefer_ceil": [0, 1, 1, 2, 2, 3, 3, 4, 4, 4]}.items():
    right(f"ties, {mode}", line[0, 0][:, indices], {"nearest_mode": mode, "coordinate_transformation_mode": "asymmetric"}, line, scales=[1, 1, 1, 2])
it.right("integers", "Resize", operands(np.arange(3), [6]), np.repeat(np.arange(3), 2), inputs=("x",), constants=("sizes",), differentiable=False)


def refused(message, attributes={}, x=IMAGE, sizes=(1, 1, 2, 2), scales=None, opsets=None):
    it.refused("Resize", operands(x, sizes, scales), message, attributes, constants=("scales", "sizes"), opsets=opsets)


refused("mode 'lanczos' is not one of nearest, linear, cubic", {"mode": "lanczos"})
refused("coordinate_transformation_mode 'tf_crop_and_resize' is not one of half_pixel", {"coordinate_transformation_mode": "tf_crop_and_resize"})
refused("nearest_mode 'up' is not one of round_prefer_floor", {"nearest_mode": "up"})
refused("keep_aspect_ratio_policy 'not_larger' is not supported: give the sizes of the result", {"keep_aspect_ratio_policy": "not_larger"})
refused("cubic_coeff_a is not finite", {"cubic_coeff_a": float("nan")})
refused("antialias needs mode linear or cubic", {"antialias": 1})
refused("attribute 'antialias' is not one of operator set 13", {"antialias": 0}, opsets=OLD)
refused("needs 4 scales or as many sizes, not 0 scales and 3 sizes", sizes=[1, 2, 2])
refused("needs 4 scales or as many sizes, not 4 scales and 4 sizes", scales=[1, 1, 2, 2])
refused("needs 4 scales or as many sizes, not 0 scales and 0 sizes", sizes=None)
refused("an axis is given twice", {"axes": [2, -2]}, sizes=[2, 2])
refused("axis 4 is out of range", {"axes": [4]}, sizes=[2])
for bad in (0, -3, 1 << 40):
    refused("cannot resize 5 elements to", sizes=[1, 1, 4, bad])
for bad in (0.0, -1.0, float("nan"), float("inf"), 1e30, 0.1):
    refused("cannot resize 5 elements to", sizes=None, scales=[1, 1, 1, bad])
refused("resizing 5 elements to 4000000 needs too many weights", sizes=[1, 1, 4, 4000000])
it.refused("Resize", operands(np.arange(3), [6]), "mode 'linear' needs floats", {"mode": "linear"}, inputs=("x",), constants=("sizes",))
it.refused("Resize", operands(IMAGE, [1, 1, 2, 2]), "operand 3 ('sizes') must be known at compile time", inputs=("sizes",))
it.refused("Resize", operands(IMAGE, None, [1, 1, 2, 2]), "the scales must be floats that are known at compile time", inputs=("scales",))
it.finish()
