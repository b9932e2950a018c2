"""ConvTranspose by its definition, one product at a time: conv_transpose.py FOLDER."""
import itertools
import sys

from definition import *

it = Definition(sys.argv[1], opsets=(("", 22),))
random = np.random.default_rng(0)


def transposed(x, w, bias, pads=None, strides=None, dilations=None, output_padding=None, group=1, output_shape=None, auto_pad="NOTSET"):
    spatial = x.ndim - 2
    strides, dilations, extra = (v or [default] * spatial for v, default in ((strides, 1), (dilations, 1), (output_padding, 0)))
    sizes = [(n - 1) * s + (k - 1) * d + 1 + e for n, s, k, d, e in zip(x.shape[2:], strides, w.shape[2:], dilations, extra)]
    pads = list(pads or [0] * 2 * spatial)
    wanted = output_shape or ([n * s for n, s in zip(x.shape[2:], strides)] if auto_pad.startswith("SAME") else None)
    y = np.zeros((x.shape[0], w.shape[1] * group, *(max(a, b) for a, b in zip(sizes, wanted or sizes))))
    inputs = w.shape[0] // group
    for n, c, *at in itertools.product(*map(range, x.shape)):
        first = c // inputs * w.shape[1]
        for m, *k in itertools.product(*map(range, w.shape[1:])):
            y[(n, first + m, *(a * s + i * d for a, s, i, d in zip(at, strides, k, dilations)))] += x[(n, c, *at)] * w[(c, m, *k)]
    if wanted:
        totals = [max(0, size - b) for size, b in zip(sizes, wanted)]
        less, more = [t // 2 for t in totals], [t - t // 2 for t in totals]
        pads = less + more if auto_pad == "SAME_UPPER" else more + less
    y = y[(slice(None), slice(None), *(slice(pads[i], y.shape[2 + i] - pads[spatial + i]) for i in range(spatial)))]
    return y + (0 if bias is None else bias.reshape(-1, *[1] * spatial))


CASES = [  # name, shapes of input and weight, bias, attributes
    ("2x2, stride 2", (2, 3, 4, 5), (3, 4, 2, 2), True, {"strides": [2, 2]}),
    ("2x2, stride 2, cut", (2, 3, 4, 5), (3, 4, 2, 2), False, {"strides": [2, 2], "pads": [1, 0, 0, 1]}),
    ("stride 2 in groups", (2, 4, 3, 3), (4, 3, 2, 2), True, {"strides": [2, 2], "group": 2}),
    ("3x3", (2, 3, 4, 5), (3, 2, 3, 3), True, {}),
    ("3x3, same size", (2, 3, 4, 5), (3, 2, 3, 3), False, {"pads": [1, 1, 1, 1]}),
    ("4x4, stride 2, as in generators", (1, 3, 4, 4), (3, 2, 4, 4), True, {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ("3x3, stride 2, output_padding", (1, 3, 4, 4), (3, 2, 3, 3), True, {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]}),
    ("output_padding beyond the windows", (1, 2, 3, 3), (2, 2, 1, 1), True, {"strides": [3, 2], "output_padding": [2, 1]}),
    ("tiles, output_padding", (1, 2, 3, 3), (2, 2, 2, 2), True, {"strides": [2, 2], "output_padding": [1, 0]}),
    ("dilation, uneven padding", (1, 2, 4, 3), (2, 3, 2, 3), True, {"dilations": [3, 2], "strides": [2, 3], "pads": [0, 2, 1, 0]}),
    ("gaps between windows", (1, 2, 3, 3), (2, 2, 2, 1), False, {"strides": [4, 3]}),
    ("groups, overlapping", (1, 4, 3, 3), (4, 3, 3, 2), True, {"group": 2, "strides": [2, 1]}),
    ("depthwise", (1, 3, 4, 4), (3, 1, 3, 3), True, {"group": 3, "strides": [2, 2]}),
    ("1-D", (2, 3, 5), (3, 2, 4), True, {"strides": [2], "pads": [1, 1]}),
    ("3-D", (1, 2, 3, 2, 2), (2, 2, 2, 3, 2), True, {"strides": [2, 1, 2]}),
    ("output_shape", (1, 2, 3, 3), (2, 2, 3, 3), True, {"strides": [3, 2], "output_shape": [8, 6]}),
    ("output_shape beyond the windows", (1, 2, 3, 3), (2, 2, 3, 3), True, {"strides": [3, 2], "output_shape": [11, 7]}),
    ("SAME_UPPER", (1, 2, 3, 3), (2, 2, 3, 4), True, {"strides": [2, 1], "auto_pad": "SAME_UPPER"}),
    ("SAME_LOWER", (1, 2, 3, 3), (2, 2, 3, 4), True, {"strides": [2, 1], "auto_pad": "SAME_LOWER"}),
    ("VALID", (1, 2, 3, 3), (2, 2, 3, 3), False, {"auto_pad": "VALID", "kernel_shape": [3, 3]}),
]
for what, shape, kernel, biased, attributes in CASES:
    x, w = random.standard_normal(shape).astype(np.float32), random.standard_normal(kernel).astype(np.float32)
    b = random.standard_normal(kernel[1] * attributes.get("group", 1)).astype(np.float32) if biased else None
    given = {key: v for key, v in attributes.items() if key != "kernel_shape"}
    it.right(what, "ConvTranspose", [("x", x), ("w", w)] + [("b", b)] * biased, transposed(x, w, b, **given), attributes)

X, W = (2, 4, 5, 6), (4, 3, 3, 3)
for shapes, attributes, message in (
        (((2, 4), (4, 3)), {}, "transposed convolutions of one to three dimensions are supported"),
        (((2, 4, 5), W), {}, "transposed convolutions of one to three dimensions are supported"),
        ((X, (3, 4, 3, 3)), {}, "1 groups of input tensor<2x4x5x6xf32> and weight tensor<3x4x3x3xf32> do not fit"),
        ((X, W), {"group": 3}, "3 groups of input"), ((X, W), {"group": 0}, "0 groups of input"),
        ((X, W), {"kernel_shape": [2, 3]}, "kernel_shape is not that of the weight"),
        ((X, W), {"strides": [0, 1]}, "strides has the value 0"), ((X, W), {"strides": [1]}, "strides has 1 values for 2 spatial dimensions"),
        ((X, W), {"strides": [(1 << 31) - 1, 1]}, "the result is too large"),
        ((X, W), {"dilations": [1, 1 << 40]}, "dilations has the value 1099511627776"),
        ((X, W), {"output_padding": [-1, 0]}, "output_padding has the value -1"),
        ((X, W), {"pads": [1, 1]}, "pads has 2 values for 2 spatial dimensions"), ((X, W), {"pads": [-1, 0, 0, 0]}, "pads are negative or too large"),
        ((X, W), {"pads": [0, 1 << 62, 0, 0]}, "pads are negative or too large"), ((X, W), {"pads": [7, 0, 0, 0]}, "pads cut off all 7 elements of a dimension"),
        ((X, W), {"output_shape": [3]}, "output_shape has 1 values for 2 spatial dimensions"), ((X, W), {"output_shape": [0, 3]}, "output_shape has the value 0"),
        ((X, W), {"auto_pad": "EVEN"}, "auto_pad 'EVEN' is not one of"), ((X, W, (4,)), {}, "the bias is tensor<4xf32> for 3 channels"),
        (((1, 1, 9, 9), (1, 1, 17, 17)), {}, "a kernel of 289 elements that overlap in the result is too large")):
    it.refused("ConvTranspose", list(zip("xwb", shapes)), message, attributes)
it.finish()
