"""Col2Im by its definition, one element at a time: col2im.py FOLDER."""
import itertools
import sys

from definition import *

it = Definition(sys.argv[1], opsets=(("", 22),))
random = np.random.default_rng(0)


def places(image, block, pads=None, strides=None, dilations=None):
    n = len(image)
    pads, strides, dilations = pads or [0] * 2 * n, strides or [1] * n, dilations or [1] * n
    return [(image[i] + pads[i] + pads[n + i] - (block[i] - 1) * dilations[i] - 1) // strides[i] + 1 for i in range(n)]


def fold(x, image, block, pads=None, strides=None, dilations=None):
    n, elements = len(image), int(np.prod(block))
    before, strides, dilations = (pads or [0] * 2 * n)[:n], strides or [1] * n, dilations or [1] * n
    y = np.zeros((x.shape[0], x.shape[1] // elements, *image))
    counts = places(image, block, pads, strides, dilations)
    for b, c in itertools.product(*map(range, y.shape[:2])):
        for e, k in enumerate(itertools.product(*map(range, block))):
            for place, at in enumerate(itertools.product(*map(range, counts))):
                where = [a * s + i * d - p for a, s, i, d, p in zip(at, strides, k, dilations, before)]
                if all(0 <= w < size for w, size in zip(where, image)):
                    y[(b, c, *where)] += x[b, c * elements + e, place]
    return y


CASES = [  # name, batch and channels, image, block, attributes
    ("tiles", (2, 3), [4, 6], [2, 3], {"strides": [2, 3]}),
    ("tiles, cut", (1, 2), [3, 5], [2, 2], {"strides": [2, 2], "pads": [1, 0, 0, 1]}),
    ("overlap", (2, 2), [4, 5], [2, 2], {}),
    ("overlap, stride 2", (1, 2), [5, 5], [3, 3], {"strides": [2, 2]}),
    ("padding", (1, 2), [4, 4], [3, 3], {"pads": [1, 1, 1, 1]}),
    ("uneven padding, dilation", (1, 1), [5, 4], [2, 2], {"pads": [0, 2, 1, 0], "dilations": [3, 2]}),
    ("elements beyond the blocks", (1, 2), [5, 7], [2, 2], {"strides": [2, 3]}),
    ("gaps between blocks", (1, 2), [7, 5], [2, 1], {"strides": [4, 3]}),
    ("1-D", (2, 3), [7], [3], {"strides": [2]}),
    ("3-D", (1, 2), [3, 4, 3], [2, 2, 2], {"strides": [1, 2, 1]}),
]
for what, (batch, channels), image, block, attributes in CASES:
    x = random.standard_normal((batch, channels * int(np.prod(block)), int(np.prod(places(image, block, **attributes))))).astype(np.float32)
    it.right(what, "Col2Im", [("x", x), ("image", np.array(image)), ("block", np.array(block))], fold(x, image, block, **attributes), attributes, constants=("image", "block"))

X = (2, 12, 6)
for shape, image, block, attributes, message in (
        ((2, 12), [3, 4], [2, 2], {}, "blocks of one to three dimensions are supported"),
        (X, [3, 4], [2], {}, "blocks of one to three dimensions are supported, as [N, C * elements, places]; the operand is tensor<2x12x6xf32>, and image_shape and block_shape have 2 and 1 values"),
        (X, [3, 4, 1, 1], [2, 2, 1, 1], {}, "blocks of one to three dimensions are supported, as [N, C * elements, places]; the operand is tensor<2x12x6xf32>, and image_shape and block_shape have 4 and 4 values"),
        (X, [0, 4], [2, 2], {}, "image_shape and block_shape must be positive"), (X, [3, 4], [2, 1 << 40], {}, "image_shape and block_shape must be positive"),
        (X, [3, 4], [4, 2], {}, "a block spans 4 elements of a dimension that has 3 with its padding"),
        (X, [3, 4], [2, 2], {"strides": [0, 1]}, "strides has the value 0"), (X, [3, 4], [2, 2], {"dilations": [1]}, "dilations has 1 values for 2 spatial dimensions"),
        (X, [3, 4], [2, 2], {"pads": [1, 1]}, "pads has 2 values for 2 spatial dimensions"), (X, [3, 4], [2, 2], {"pads": [-1, 0, 0, 0]}, "pads are negative or too large"),
        (X, [4, 4], [2, 2], {}, "the operand is tensor<2x12x6xf32> for 9 blocks of 4 elements"), (X, [3, 3], [2, 5], {"pads": [0, 2, 0, 2]}, "the operand is tensor<2x12x6xf32> for 6 blocks of 10 elements"),
        ((1, 1, 1), [(1 << 31) - 1] * 3, [1, 1, 1], {"strides": [(1 << 31) - 1] * 3}, "the image is too large"),
        ((1, 289, 9), [19, 19], [17, 17], {}, "blocks of 289 elements that overlap are too large: at most 256 are supported")):
    it.refused("Col2Im", [("x", shape), ("image", np.array(image)), ("block", np.array(block))], message, attributes, constants=("image", "block"))
it.refused("Col2Im", [("x", X), ("image", np.array([3, 4])), ("block", np.array([2, 2]))], "operand 1 ('image') must be known at compile time")
it.finish()
