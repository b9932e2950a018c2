"""AveragePool, MaxPool and their global forms, one element at a time: pools.py FOLDER."""
import itertools
import sys

from definition import *

random = np.random.default_rng(0)
it = Definition(sys.argv[1], opsets=(("", 22),))


def pool(x, average, kernel_shape, strides=None, pads=None, dilations=None, ceil_mode=0, count_include_pad=0, auto_pad="NOTSET"):
    spatial = x.ndim - 2
    strides, pads, dilations = strides or [1] * spatial, list(pads or [0] * 2 * spatial), dilations or [1] * spatial
    sizes, extents = x.shape[2:], [(k - 1) * d + 1 for k, d in zip(kernel_shape, dilations)]
    if auto_pad.startswith("SAME"):
        sums = [max(0, (-(-n // s) - 1) * s + e - n) for n, s, e in zip(sizes, strides, extents)]
        less, more = [p // 2 for p in sums], [p - p // 2 for p in sums]
        pads = less + more if auto_pad == "SAME_UPPER" else more + less
    places = []
    for i in range(spatial):
        room = sizes[i] + pads[i] + pads[spatial + i] - extents[i]
        count = (-(-room // strides[i]) if ceil_mode else room // strides[i]) + 1
        places.append(count - (ceil_mode and (count - 1) * strides[i] >= sizes[i] + pads[i]))
    y = np.zeros((*x.shape[:2], *places))
    for n, c, *at in itertools.product(*map(range, y.shape)):
        values, count = [], 0
        for k in itertools.product(*map(range, kernel_shape)):
            where = [a * s - p + i * d for a, s, p, i, d in zip(at, strides, pads, k, dilations)]
            inside = all(0 <= w < size for w, size in zip(where, sizes))
            count += all(-b <= w < size + e for w, size, b, e in zip(where, sizes, pads, pads[spatial:])) if count_include_pad else inside
            if inside:
                values.append(x[(n, c, *where)])
        y[(n, c, *at)] = sum(values, np.float64(0)) / count if average else max(values)
    return y


CASES = {
    "tiles": ((2, 3, 4, 6), {"kernel_shape": [2, 3], "strides": [2, 3]}),
    "a rest": ((2, 2, 5, 7), {"kernel_shape": [2, 2], "strides": [2, 2]}),
    "overlap": ((1, 2, 5, 4), {"kernel_shape": [3, 2]}),
    "padding": ((1, 2, 4, 4), {"kernel_shape": [3, 3], "pads": [1, 0, 1, 2], "strides": [2, 1]}),
    "padding counts": ((1, 2, 4, 4), {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}),
    "ceil": ((1, 1, 6, 5), {"kernel_shape": [3, 2], "strides": [2, 2], "ceil_mode": 1}),
    "ceil, padding counts": ((1, 1, 6, 5), {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1], "ceil_mode": 1, "count_include_pad": 1}),
    "ceil, no window outside": ((1, 1, 3, 3), {"kernel_shape": [1, 1], "strides": [3, 3], "ceil_mode": 1}),
    "dilated": ((1, 2, 7, 7), {"kernel_shape": [2, 3], "dilations": [3, 2]}),
    "SAME_UPPER": ((1, 2, 5, 4), {"kernel_shape": [2, 3], "strides": [2, 1], "auto_pad": "SAME_UPPER"}),
    "SAME_LOWER": ((1, 2, 5, 4), {"kernel_shape": [2, 3], "strides": [2, 1], "auto_pad": "SAME_LOWER"}),
    "1-D": ((2, 3, 7), {"kernel_shape": [3], "strides": [2], "pads": [1, 1]}),
    "3-D": ((1, 2, 3, 4, 4), {"kernel_shape": [2, 2, 2], "strides": [1, 2, 2]}),
}
for what, (shape, attributes) in CASES.items():
    x = random.permutation(np.prod(shape)).reshape(shape).astype(np.float32) / 8  # no two elements are equal
    it.right(f"AveragePool, {what}", "AveragePool", [("x", x)], pool(x, True, **attributes), attributes)
    if "count_include_pad" not in attributes:
        it.right(f"MaxPool, {what}", "MaxPool", [("x", x)], pool(x, False, **attributes), attributes)
whole = random.integers(-9, 0, (1, 1, 4, 4)).astype(np.int32)
it.right("MaxPool, whole numbers", "MaxPool", [("x", whole)], pool(whole, False, [3, 3], pads=[1, 1, 1, 1]), {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}, differentiable=False)
for kind in (np.int32, np.int64):  # padding is never larger than an element
    lowest = np.full((1, 1, 3, 3), np.iinfo(kind).min, kind)
    lowest[0, 0, 2, 2] = -(1 << 30)
    shape = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    it.right(f"MaxPool, lowest {kind.__name__}", "MaxPool", [("x", lowest), ("e", pool(lowest, False, **shape).astype(kind))], np.ones(lowest.shape), differentiable=False,
             nodes=[node("MaxPool", ["x"], ["p"], "it", **shape), node("Equal", ["p", "e"], ["y0"])])
it.refused("MaxPool", [("x", np.ones((1, 1, 3, 3), bool))], "operand 0 must have numbers, but is tensor<1x1x3x3xi1>: cast it first", {"kernel_shape": [2, 2]})
x = random.permutation(24).reshape(2, 3, 4).astype(np.float32)
it.right("GlobalMaxPool", "GlobalMaxPool", [("x", x)], x.max(2, keepdims=True))
it.right("GlobalAveragePool", "GlobalAveragePool", [("x", x)], x.mean(2, keepdims=True))

X = [("x", (1, 2, 5, 4))]
for op in ("AveragePool", "MaxPool"):
    for message, attributes in {
        "needs a kernel_shape for the spatial dimensions": {},
        "strides has 1 values for 2 spatial dimensions": {"kernel_shape": [2, 2], "strides": [1]},
        "strides has the value 0": {"kernel_shape": [2, 2], "strides": [0, 1]},
        "a spatial dimension of input or kernel is empty": {"kernel_shape": [2, 0]},
        "pads are negative or too large": {"kernel_shape": [2, 2], "pads": [-1, 0, 0, 0]},
        "the kernel spans 6 elements of a dimension that has 5": {"kernel_shape": [6, 1]},
        "attribute 'ceil_mode' must be an integer": {"kernel_shape": [2, 2], "ceil_mode": "yes"},
        "auto_pad 'EVEN' is not one of": {"kernel_shape": [2, 2], "auto_pad": "EVEN"}}.items():
        it.refused(op, X, message, attributes)
    it.refused(op, [("x", (2, 3))], "needs a kernel_shape for the spatial dimensions", {"kernel_shape": []})
    it.refused(op, [("x", (1, 1, 40, 40))], "a window of 289 elements that overlaps others", {"kernel_shape": [17, 17]})
it.refused("MaxPool", X, "its result of indices is not supported", {"kernel_shape": [2, 2]}, results=2)
it.refused("AveragePool", [("x", whole)], "operand 0 must have floats, but is tensor<1x1x4x4xi32>: cast it first", {"kernel_shape": [2, 2]})
it.refused("GlobalMaxPool", [("x", (2, 3))], "operand 0 must have 3 or more dimensions, but is tensor<2x3xf32>")
it.finish()
