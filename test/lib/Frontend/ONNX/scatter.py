"""ScatterND, ScatterElements, and operators that choose elements (TopK, ArgMax, ..), by their definitions: scatter.py FOLDER."""
import sys

from definition import *

random = np.random.default_rng(0)
it = Definition(sys.argv[1])
COMBINE = {"none": lambda a, b: b, "add": lambda a, b: a + b, "mul": lambda a, b: a * b, "max": max, "min": min}


def normal(*shape):
    return random.standard_normal(shape).astype(np.float32)


def scatter_nd(data, at, updates, how="none"):
    result = data.copy()
    for place in np.ndindex(at.shape[:-1]):
        index = tuple(at[place])
        for rest in np.ndindex(result[index].shape):
            result[index + rest] = COMBINE[how](result[index + rest], updates[place + rest])
    return result


def scatter_elements(data, at, updates, axis, how="none"):
    result = data.copy()
    for place in np.ndindex(at.shape):
        index = list(place)
        index[axis] = at[place]
        index = tuple(index)
        result[index] = COMBINE[how](result[index], updates[place])
    return result


def scatter(what, op, data, at, updates, how="none", axis=None, **more):
    expected = scatter_nd(data, at, updates, how) if axis is None else scatter_elements(data, at, updates, axis, how)
    attributes = {} if how == "none" else {"reduction": how}
    if axis is not None:
        attributes["axis"] = axis
    it.right(what, op, [("data", data), ("at", at), ("updates", updates)], expected, attributes, **more)


data, fixed = normal(4, 3, 2), {"constants": ("at",)}
apart, twice = np.array([[3], [0]]), np.array([[1], [3], [1]])
for how in COMBINE:
    for name, at in (("apart", apart), ("twice", twice)):
        scatter(f"slices {name}, {how}, known", "ScatterND", data, at, normal(len(at), 3, 2), how, **fixed)
        if how != "none" or name == "apart":  # of equal indices that are not known, which one wins is open
            scatter(f"slices {name}, {how}", "ScatterND", data, at, normal(len(at), 3, 2), how)
    scatter(f"elements of a line, {how}", "ScatterElements", normal(3, 5), np.array([[1, 3], [4, 0], [2, 1]]), normal(3, 2), how, 1)
    scatter(f"elements, rows twice, {how}", "ScatterElements", normal(4, 3), np.array([[1, 1, 2], [1, 0, 2]]), normal(2, 3), how, 0, **fixed)
for first, count in ((0, 2), (1, 2), (2, 2), (0, 4)):  # an assignment to a slice
    at = np.arange(first, first + count)[:, None]
    scatter(f"rows from {first}, {count} of 4", "ScatterND", data, at, normal(count, 3, 2), **fixed)
    scatter(f"whole rows from {first}, {count} of 4", "ScatterND", np.arange(8).reshape(4, 2), at, np.arange(2 * count).reshape(-1, 2) * 10, differentiable=False, **fixed)
box = np.stack(np.meshgrid(np.arange(1, 3), np.arange(1, 3), indexing="ij"), -1)
scatter("box", "ScatterND", data, box, normal(2, 2, 2), **fixed)
scatter("box, last columns", "ScatterND", data, np.stack(np.meshgrid(np.arange(4), np.arange(1, 3), indexing="ij"), -1), normal(4, 2, 2), **fixed)
scatter("box, whole numbers", "ScatterND", np.arange(12).reshape(4, 3), box, np.array([[20, 30], [40, 50]]), differentiable=False, **fixed)
scatter("box, turned", "ScatterND", data, box.transpose(1, 0, 2), normal(2, 2, 2), **fixed)
scatter("last rows", "ScatterND", data, np.array([[-2], [-1]]), normal(2, 3, 2), **fixed)
scatter("rows backwards", "ScatterND", data, np.array([[2], [1]]), normal(2, 3, 2), **fixed)
scatter("rows, add", "ScatterND", data, np.array([[1], [2]]), normal(2, 3, 2), "add", **fixed)
scatter("tuples of all dimensions", "ScatterND", normal(3, 4), np.array([[[0, 1], [2, 3]], [[1, 1], [2, 0]]]), normal(2, 2))
own, last, twos = np.arange(4)[:, None], np.array([[2], [0], [1], [2]]), normal(4, 2)  # x[arange(4), last]: the rows are a batch
for how in ("none", "add"):
    it.right(f"own places, {how}", "ScatterND", [("data", data), ("own", own), ("last", last), ("updates", twos)], scatter_nd(data, np.concatenate([own, last], 1), twos, how), constants=("own",),
             nodes=[node("Concat", ["own", "last"], ["at"], axis=1), node("ScatterND", ["data", "at", "updates"], ["y0"], "it", **({} if how == "none" else {"reduction": how}))])
scatter("negative, known", "ScatterND", data, np.array([[-1, -3], [0, 1]]), normal(2, 2), **fixed)
scatter("negative axis and indices", "ScatterElements", normal(3, 5), np.array([[-1, 3], [4, -5], [2, 1]]), normal(3, 2), axis=-1, **fixed)
scatter("fewer lines", "ScatterElements", normal(3, 4, 5), np.array([[[1, 3]], [[4, 0]]]), normal(2, 1, 2), axis=2)
scatter("whole numbers", "ScatterElements", np.arange(12).reshape(3, 4), np.array([[1, 0], [2, 3], [0, 1]]), np.arange(6).reshape(3, 2) * 10, "add", 1, differentiable=False)
scatter("whole numbers, twice", "ScatterND", np.arange(5), np.array([[3], [1], [3]]), np.array([7, 8, 9]), "max", differentiable=False)
for kind in (np.int32, np.int64):  # the largest and smallest numbers of the type
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    ends = np.array([low, high, 0, low, high], kind)
    for how in ("max", "min"):
        scatter(f"{kind.__name__}, {how}", "ScatterND", ends, np.array([[0], [1], [2], [2]]), np.array([low, high, low + 1, low + 1] if how == "max" else [high, high, high - 1, high - 1], kind), how, differentiable=False)
        scatter(f"{kind.__name__}, {how}, all lowest", "ScatterElements", np.full((2, 2), low, kind), np.array([[0, 0]]), np.full((1, 2), low, kind), how, 0, differentiable=False)
        scatter(f"{kind.__name__}, {how}, all highest", "ScatterElements", np.full((2, 2), high, kind), np.array([[0, 0]]), np.full((1, 2), high, kind), how, 0, differentiable=False)
truth = np.zeros((3, 4), bool)
scatter("truth values", "ScatterND", truth, np.array([[0, 1], [2, 2]]), np.array([True, True]), differentiable=False)

DATA = [("data", (4, 3)), ("at", np.array([[1], [2]])), ("updates", (2, 3))]
it.refused("ScatterND", DATA[:2] + [("updates", (2, 4))], "updates tensor<2x4xf32> do not fit tensor<4x3xf32> and tensor<2x1xi64>")
it.refused("ScatterND", DATA, "reduction 'mean' is not one of none, add, mul, max, min", {"reduction": "mean"})
it.refused("ScatterND", DATA, "attribute 'reduction' must be a string", {"reduction": 3})
it.refused("ScatterND", [("data", (4,)), ("at", np.array([[1, 1]])), ("updates", (1,))], "index tuples tensor<1x2xi64> do not fit tensor<4xf32>")
it.refused("ScatterND", [("data", (4, 3)), ("at", (2, 1)), ("updates", (2, 3))], "index tuples tensor<2x1xf32> do not fit")
it.refused("ScatterND", [("data", (4, 3)), ("at", np.array([[1], [4]])), ("updates", (2, 3))], "index 4 is out of a dimension of size 4", constants=("at",))
it.refused("ScatterND", [("data", (4, 3)), ("at", np.array([[3], [4]])), ("updates", (2, 3))], "index 4 is out of a dimension of size 4", constants=("at",))
it.refused("ScatterND", [("data", (4, 3)), ("at", box + 1), ("updates", (2, 2))], "index 3 is out of a dimension of size 3", constants=("at",))
it.refused("ScatterND", [("data", (4, 3)), ("at", np.array([[-5], [-4]])), ("updates", (2, 3))], "index -5 is out of a dimension of size 4", constants=("at",))
it.refused("ScatterND", DATA[:2] + [("updates", np.ones((2, 3), np.int64))], "data and updates have element types f32 and i64")
it.refused("ScatterND", DATA[:2], "operand 2 is missing")
it.refused("ScatterND", [("data", truth), ("at", np.array([[0, 1]])), ("updates", np.array([True]))], "cannot combine truth values", {"reduction": "add"})
it.refused("ScatterND", [("data", (40000, 2)), ("at", np.zeros((40000, 1), np.int64)), ("updates", (40000, 2))], "a scatter of tensor<40000x2xf32> by tensor<40000x1xi64> would compare too many", {"reduction": "max"})
it.refused("ScatterElements", [("data", (4, 3)), ("at", np.zeros((5, 3), np.int64)), ("updates", (5, 3))], "indices tensor<5x3xi64> and updates tensor<5x3xf32> do not fit", {"axis": 1})
it.refused("ScatterElements", [("data", (4, 3)), ("at", np.zeros((2, 3), np.int64)), ("updates", (2, 2))], "indices tensor<2x3xi64> and updates tensor<2x2xf32> do not fit")
it.refused("ScatterElements", [("data", (4, 3)), ("at", np.zeros((2, 3), np.int64)), ("updates", (2, 3))], "axis 2 is out of range", {"axis": 2})

# ---- choices


def top(x, k, axis=-1, largest=1):
    order = np.argsort(-x if largest else x, axis, kind="stable").take(range(k), axis)
    return [np.take_along_axis(x, order, axis), order]


x = normal(3, 6)
k = ("k", np.array([3]))
for largest in (0, 1):
    it.right(f"TopK, largest {largest}", "TopK", [("x", x), k], top(x, 3, largest=largest), {"largest": largest}, constants=("k",))
y = normal(5, 3, 2)
it.right("TopK, first axis", "TopK", [("x", y), k], top(y, 3, 0), {"axis": 0}, constants=("k",))
ties = np.array([[1, 3, 3, 2, 3, 1], [0, -np.inf, -np.inf, 5, 5, 0], [2, 2, 2, 2, 2, 2]], np.float32)
it.right("TopK, ties", "TopK", [("x", ties), k], [None, top(ties, 3)[1]], inputs=("x",), constants=("k",), differentiable=False)
whole = np.array([[4, 9, 9, 1], [3, 3, 7, 0]])
it.right("TopK, whole numbers", "TopK", [("x", whole), k], top(whole, 3), constants=("k",), differentiable=False)
# The experts of a token: the weights of the chosen ones.
it.right("TopK, values alone", "TopK", [("x", x), ("k", np.array([2]))], top(x, 2)[:1], constants=("k",))
it.refused("TopK", [("x", x), ("k", np.array([7]))], "the count is 7, not from 0 to 6, the size of dimension 1", constants=("k",))
it.refused("TopK", [("x", x), ("k", np.array([-1]))], "the count is -1, not from 0 to 6, the size of dimension 1", constants=("k",))
it.refused("TopK", [("x", x), k], "operand 1 ('k') must be known at compile time")
it.refused("TopK", [("x", x), k], "axis 2 is out of range", {"axis": 2}, constants=("k",))
line = np.random.default_rng(5).integers(0, 40, 3000).astype(np.int64)
it.right("TopK, a sort", "TopK", [("x", line), ("k", np.array([3000]))], [np.sort(line, kind="stable"), np.argsort(line, kind="stable")], {"largest": 0}, constants=("k",), differentiable=False)

for name, pick in (("ArgMax", np.argmax), ("ArgMin", np.argmin)):
    it.right(name, name, [("x", ties)], np.expand_dims(pick(ties, 1), 1), {"axis": 1}, differentiable=False)
    last = ties.shape[1] - 1 - pick(ties[:, ::-1], 1)
    it.right(f"{name}, last", name, [("x", ties)], last, {"axis": -1, "keepdims": 0, "select_last_index": 1}, differentiable=False)
    it.right(f"{name}, whole numbers", name, [("x", whole)], pick(whole, 0), {"keepdims": 0}, differentiable=False)
    it.refused(name, [("x", x)], "axis 2 is out of range", {"axis": 2})
    it.refused(name, [("x", truth)], "operand 0 must have numbers, but is tensor<3x4xi1>: cast it first")
hard = np.zeros_like(ties)
hard[range(3), np.argmax(ties, 1)] = 1
it.right("Hardmax", "Hardmax", [("x", ties)], hard, inputs=("x",), differentiable=False)
it.right("Hardmax, before opset 13", "Hardmax", [("x", ties[:, :, None])], hard[:, :, None], inputs=("x",), differentiable=False, opsets=(("", 12),))
it.refused("Hardmax", [("x", whole)], "operand 0 must have floats, but is tensor<2x4xi64>: cast it first")

mask = np.array([[True, False, True], [False, False, True]])
it.right("NonZero of a constant", "NonZero", [("x", mask)], np.stack(np.nonzero(mask)), constants=("x",), differentiable=False)
it.refused("NonZero", [("x", mask)], "the size of its result depends on operand 0 ('x'), which is not known at compile time")
it.right("Compress", "Compress", [("x", x), ("c", np.array([False, True, True]))], x[1:], {"axis": 0}, constants=("c",))
it.right("Compress, all elements", "Compress", [("x", x), ("c", np.array([False, True, True, False, True]))], x.ravel()[[1, 2, 4]], constants=("c",))
it.refused("Compress", [("x", x), ("c", np.array([True]))], "the size of its result depends on operand 1 ('c')", {"axis": 0})
it.refused("Compress", [("x", x), ("c", np.array([False] * 3 + [True]))], "the condition is true beyond the 3 slices", {"axis": 0}, constants=("c",))

# ---- elements


odd = np.array([[1.5, -np.inf, np.inf, np.nan], [0.0, -2.5, 3e38, -0.5]], np.float32)
for negative in (0, 1):
    for positive in (0, 1):
        expected = np.isinf(odd) & ((odd < 0) & bool(negative) | (odd > 0) & bool(positive))
        it.right(f"IsInf, {negative}, {positive}", "IsInf", [("x", odd)], expected, {"detect_negative": negative, "detect_positive": positive}, inputs=("x",), differentiable=False)
it.refused("IsInf", [("x", whole)], "operand 0 must have floats, but is tensor<2x4xi64>: cast it first")
values = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 0.49999997, 1.2, -1.7, 8388609.0, 3.0, 0.0], np.float32)
it.right("Round", "Round", [("x", values)], np.round(values.astype(np.float64)), inputs=("x",), differentiable=False)
it.refused("Round", [("x", whole)], "operand 0 must have floats, but is tensor<2x4xi64>: cast it first")
it.right("EyeLike", "EyeLike", [("x", normal(3, 4))], np.eye(3, 4, 1), {"k": 1}, differentiable=False)
it.right("EyeLike, below, of whole numbers", "EyeLike", [("x", normal(3, 4))], np.eye(3, 4, -1), {"k": -1, "dtype": INT64}, differentiable=False)
it.refused("EyeLike", [("x", (3,))], "operand 0 must have 2 dimensions, but is tensor<3xf32>")
it.refused("EyeLike", [("x", (3, 3))], "attribute 'dtype': element type 8 is not supported", {"dtype": 8})
it.finish()
