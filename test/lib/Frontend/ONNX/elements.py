"""Operators of single elements, reductions, movements and sequences, by their definitions: elements.py FOLDER."""
import math
import sys

from definition import *

random = np.random.default_rng(0)
it = Definition(sys.argv[1], opsets=(("", 20), ("com.microsoft", 1)))
ms = {"domain": "com.microsoft"}


def normal(*shape):
    return random.standard_normal(shape).astype(np.float32)


x, y = normal(3, 4), normal(4)
whole = random.integers(-9, 10, (3, 4))
erf = np.vectorize(math.erf)


def gelu(x):
    return x * (1 + erf(x / math.sqrt(2))) / 2


def fast_gelu(x):
    return x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3))) / 2


wide = x.astype(np.float64)
for op, expected in {"Exp": np.exp(wide), "Erf": erf(wide), "Sin": np.sin(wide), "Cos": np.cos(wide),
                     "Softsign": wide / (1 + np.abs(wide)), "Mish": wide * np.tanh(np.log1p(np.exp(wide))), "Gelu": gelu(wide), "Abs": np.abs(wide), "Neg": -wide,
                     "Tanh": np.tanh(wide), "Sigmoid": 1 / (1 + np.exp(-wide)), "Softplus": np.log1p(np.exp(wide)), "Relu": np.maximum(wide, 0)}.items():
    it.right(op, op, [("x", x)], expected)
    if op not in ("Abs", "Neg", "Relu"):
        it.refused(op, [("x", whole)], "")


# Arguments between -1 and 1, and beyond; the gradient of an arc is checked where it is finite.
it.right("Atan", "Atan", [("x", 3 * x)], np.arctan(3 * wide))
far = np.float32([0, 1, -1, 1e-30, 3e38, -np.inf, 1e6, -1.5])
it.right("Atan, far", "Atan", [("x", far)], np.arctan(far.astype(np.float64)), differentiable=False, inputs=("x",))
small = np.tanh(wide)
for op, f in {"Asin": np.arcsin, "Acos": np.arccos}.items():
    it.right(op, op, [("x", x)], f(small), nodes=[node("Tanh", ["x"], ["t"]), node(op, ["t"], ["y0"], "it")])
    ends = np.float32([1, -1, 0, 0.99999])
    it.right(f"{op}, ends", op, [("x", ends)], f(ends.astype(np.float64)), differentiable=False, inputs=("x",))
it.right("Tan", "Tan", [("x", x)], np.tan(small), nodes=[node("Tanh", ["x"], ["t"]), node("Tan", ["t"], ["y0"], "it")])
large = np.float32([0, 1e-20, -1e-3, 86, -86, 0.5, 20, -3])
for op, f in {"Sinh": np.sinh, "Cosh": np.cosh}.items():
    it.right(op, op, [("x", x)], f(wide))
    for number in large:
        it.right(f"{op}, {number}", op, [("x", number[None])], f(np.float64([number])), differentiable=False, inputs=("x",), wide=False)
for op in ("Atan", "Asin", "Acos", "Tan", "Sinh", "Cosh"):
    it.refused(op, [("x", whole)], "operand 0 must have floats, but is tensor<3x4xi64>: cast it first")


def of_positive(what, op, operands, expected, positive="x", **more):
    """The operator reads the exponential of an operand: the check of gradients draws numbers of both signs."""
    names = ["e" if name == positive else name for name, _ in operands]
    it.right(what, op, operands, expected, nodes=[node("Exp", [positive], ["e"]), node(op, names, ["y0"], "it")], **more)


for op, f in {"Sqrt": np.sqrt, "Log": np.log, "Reciprocal": np.reciprocal}.items():
    of_positive(op, op, [("x", x)], f(np.exp(wide)))
    it.refused(op, [("x", whole)], "")
for op, expected in {"Floor": np.floor(wide), "Ceil": np.ceil(wide), "Sign": np.sign(wide)}.items():
    it.right(op, op, [("x", x)], expected, differentiable=False)
    it.refused(op, [("x", np.ones(3, bool))], "")
it.right("Sign of whole numbers", "Sign", [("x", whole)], np.sign(whole), differentiable=False)
it.right("IsNaN", "IsNaN", [("x", np.float32([1, np.nan, np.inf]))], np.array([False, True, False]), inputs=("x",), differentiable=False)
it.refused("IsNaN", [("x", whole)], "operand 0 must have floats, but is tensor<3x4xi64>: cast it first")
shift = normal(4)
for op, expected in {"FastGelu": fast_gelu(wide + shift), "BiasGelu": gelu(wide + shift)}.items():
    it.right(f"com.microsoft {op}", op, [("x", x), ("b", shift)], expected, **ms)
    it.refused(op, [("x", x), ("b", (3,))], "shapes do not broadcast", **ms)
it.right("com.microsoft Gelu", "Gelu", [("x", x)], gelu(wide), **ms)
it.right("com.microsoft QuickGelu", "QuickGelu", [("x", x)], wide / (1 + np.exp(-1.5 * wide)), {"alpha": 1.5}, **ms)
for op in ("Gelu", "QuickGelu"):
    it.refused(op, [("x", whole)], "operand 0 must have floats, but is tensor<3x4xi64>: cast it first", **ms)

for op, f in {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Max": np.maximum, "Min": np.minimum, "Div": np.divide}.items():
    if op == "Div":
        of_positive("Div, broadcast", op, [("a", x), ("b", y)], wide / np.exp(y.astype(np.float64)), positive="b")
    else:
        it.right(f"{op}, broadcast", op, [("a", x), ("b", y)], f(wide, y))
    it.refused(op, [("a", x), ("b", (5,))], "shapes do not broadcast: sizes 4 and 5 meet")
    it.refused(op, [("a", x), ("b", np.arange(4))], "operands have element types f32 and i64")
it.right("Div of whole numbers", "Div", [("a", whole), ("b", np.array(4))], np.trunc(whole / 4), differentiable=False, inputs=("a", "b"))
of_positive("Pow", "Pow", [("x", x), ("b", y)], np.exp(wide) ** y)
for power in (2, 3, 4, 0.5, -0.5, -1, 1, 1.7):
    of_positive(f"Pow {power}", "Pow", [("x", x), ("b", np.float32(power))], np.exp(wide) ** np.float64(np.float32(power)), constants=("b",))
it.refused("Pow", [("a", x), ("b", (5,))], "shapes do not broadcast")
for fmod, f in ((0, np.mod), (1, np.fmod)):
    it.right(f"Mod, fmod {fmod}", "Mod", [("a", whole), ("b", np.array([4, -3, 5, -7]))], f(whole, [4, -3, 5, -7]), {"fmod": fmod}, differentiable=False)
it.refused("Mod", [("a", whole), ("b", np.arange(5))], "shapes do not broadcast")
third = normal(3, 1)
it.right("Mean", "Mean", [("a", x), ("b", y), ("c", third)], (wide + y + third) / 3)
it.right("Sum", "Sum", [("a", x), ("b", y), ("c", third)], wide + y + third)
p, q = x > 0, y > 0
for op, f in {"And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor}.items():
    it.right(op, op, [("a", p), ("b", q)], f(p, q), differentiable=False)
    it.refused(op, [("a", x), ("b", y)], "operand 0 must have truth values, but is tensor<3x4xf32>: cast it first")
it.right("Not", "Not", [("a", p)], ~p, differentiable=False)
it.refused("Not", [("a", x)], "operand 0 must have truth values, but is tensor<3x4xf32>: cast it first")
for op, f in {"Equal": np.equal, "Greater": np.greater, "Less": np.less, "GreaterOrEqual": np.greater_equal, "LessOrEqual": np.less_equal}.items():
    it.right(op, op, [("a", whole), ("b", whole[:1])], f(whole, whole[:1]), differentiable=False)
    it.refused(op, [("a", x), ("b", whole)], "operands have element types")
it.right("CastLike", "CastLike", [("a", x), ("b", whole)], np.trunc(x), differentiable=False)
it.refused("CastLike", [("a", x)], "operand 1 is missing")

# ---- reductions

z = normal(2, 3, 4)
deep = z.astype(np.float64)
for op, f in {"ReduceSum": np.sum, "ReduceMean": np.mean, "ReduceMax": np.max, "ReduceMin": np.min, "ReduceProd": np.prod, "ReduceL1": lambda v, axis, keepdims: np.abs(v).sum(axis, keepdims=keepdims),
              "ReduceL2": lambda v, axis, keepdims: np.sqrt((v * v).sum(axis, keepdims=keepdims)), "ReduceSumSquare": lambda v, axis, keepdims: (v * v).sum(axis, keepdims=keepdims),
              "ReduceLogSumExp": lambda v, axis, keepdims: np.log(np.exp(v).sum(axis, keepdims=keepdims))}.items():
    it.right(op, op, [("x", z), ("axes", np.array([-1, 0]))], f(deep, axis=(0, 2), keepdims=True), constants=("axes",))
    it.right(f"{op}, all", op, [("x", z)], f(deep, axis=(0, 1, 2), keepdims=False), {"keepdims": 0})
    it.right(f"{op}, none", op, [("x", z)], deep, {"noop_with_empty_axes": 1})
    it.refused(op, [("x", z), ("axes", np.array([3]))], "axis 3 is out of range", constants=("axes",))
    it.refused(op, [("x", z), ("axes", np.array([1, 1]))], "an axis is given twice", constants=("axes",))
of_positive("ReduceLogSum", "ReduceLogSum", [("x", z), ("axes", np.array([1]))], np.log(np.exp(deep).sum(1, keepdims=True)), constants=("axes",))
it.refused("ReduceLogSum", [("x", z), ("axes", np.array([1]))], "operand 1 ('axes') must be known at compile time")
it.right("ReduceSum, attribute", "ReduceMax", [("x", z)], deep.max(1, keepdims=True), {"axes": [1]}, opsets=(("", 13),))
for op, f in {"ReduceMax": np.any, "ReduceMin": np.all}.items():
    it.right(f"{op} of truth values", op, [("x", p), ("axes", np.array([1]))], f(p, axis=1, keepdims=True), constants=("axes",), differentiable=False)
it.refused("ReduceSum", [("x", p)], "cannot reduce bools")

# ---- movements and numbers

it.right("Flatten", "Flatten", [("x", z)], deep.reshape(6, 4), {"axis": 2})
it.refused("Flatten", [("x", z)], "", {"axis": 5})
it.right("Tile", "Tile", [("x", x), ("r", np.array([2, 3]))], np.tile(wide, (2, 3)), constants=("r",))
it.refused("Tile", [("x", x), ("r", np.array([2]))], "", constants=("r",))
it.right("Pad", "Pad", [("x", x), ("p", np.array([0, 1, 2, 0])), ("v", np.float32(1.5))], np.pad(wide, ((0, 2), (1, 0)), constant_values=1.5), constants=("p", "v"))
it.refused("Pad", [("x", x), ("p", np.array([0, 1, 2]))], "", constants=("p",))
for mode in ("edge", "reflect", "wrap"):
    it.right(f"Pad, {mode}", "Pad", [("x", x), ("p", np.array([2, 1, 1, 3]))], np.pad(wide, ((2, 1), (1, 3)), mode), {"mode": mode}, constants=("p",))
    it.refused("Pad", [("x", x), ("p", np.array([-1, 0, 0, 0]))], f"mode '{mode}' with pads -1 and 0 of a dimension of 3", {"mode": mode}, constants=("p",))
it.right("Pad, edge, one axis", "Pad", [("x", x), ("p", np.array([1, 1])), ("v", None), ("axes", np.array([-1]))], np.pad(wide, ((0, 0), (1, 1)), "edge"), {"mode": "edge"}, constants=("p", "axes"))
it.refused("Pad", [("x", x), ("p", np.array([1, 0, 0, 0]))], "mode 'mirror' is not one of constant, edge, reflect, wrap", {"mode": "mirror"}, constants=("p",))
image = normal(1, 8, 2, 3)
blocks = image.astype(np.float64).reshape(1, 2, 2, 2, 2, 3)
it.right("DepthToSpace", "DepthToSpace", [("x", image)], blocks.transpose(0, 3, 4, 1, 5, 2).reshape(1, 2, 4, 6), {"blocksize": 2})
it.right("DepthToSpace, CRD", "DepthToSpace", [("x", image)], blocks.transpose(0, 1, 4, 2, 5, 3).reshape(1, 2, 4, 6), {"blocksize": 2, "mode": "CRD"})
square = normal(1, 2, 4, 6)
it.right("SpaceToDepth", "SpaceToDepth", [("x", square)], square.astype(np.float64).reshape(1, 2, 2, 2, 3, 2).transpose(0, 3, 5, 1, 2, 4).reshape(1, 8, 2, 3), {"blocksize": 2})
it.right("SpaceToDepth, CRD", "SpaceToDepth", [("x", square)], square.astype(np.float64).reshape(1, 2, 2, 2, 3, 2).transpose(0, 1, 3, 5, 2, 4).reshape(1, 8, 2, 3), {"blocksize": 2, "mode": "CRD"}, opsets=(("", 28),))
it.refused("SpaceToDepth", [("x", square)], "attribute 'mode' is not one of operator set 20", {"blocksize": 2, "mode": "CRD"})
for op in ("DepthToSpace", "SpaceToDepth"):
    it.refused(op, [("x", image)], "needs [batch, channels, height, width], a blocksize and a mode of DCR or CRD", {"blocksize": 1, "mode": "RCD"})
    it.refused(op, [("x", image)], "needs [batch, channels, height, width], a blocksize")
    it.refused(op, [("x", image)], "blocks of 5 do not fit tensor<1x8x2x3xf32>", {"blocksize": 5})
b, c = normal(5, 4), normal(5)
it.right("Gemm", "Gemm", [("a", x), ("b", b), ("c", c)], 0.5 * wide @ b.T + 2 * c, {"transB": 1, "alpha": 0.5, "beta": 2.0})
it.refused("Gemm", [("a", z), ("b", b)], "operands must be matrices")
it.refused("Gemm", [("a", x), ("b", b), ("c", (3, 3, 4))], "", {"transB": 1})
for upper, f in ((0, np.tril), (1, np.triu)):
    it.right(f"Trilu, upper {upper}", "Trilu", [("x", z), ("k", np.array(1))], f(deep, 1), {"upper": upper}, constants=("k",))
it.refused("Trilu", [("x", y)], "")
it.right("CumSum", "CumSum", [("x", x), ("axis", np.array(1))], np.cumsum(wide, 1), constants=("axis",))
it.right("CumSum, exclusive, reverse", "CumSum", [("x", x), ("axis", np.array(0))], np.cumsum(wide[::-1], 0)[::-1] - wide, {"exclusive": 1, "reverse": 1}, constants=("axis",))
it.refused("CumSum", [("x", x), ("axis", np.array(2))], "axis 2 is out of range", constants=("axis",))
ids = np.array([[0, 2], [-1, 5]])
hot = np.where(np.arange(4) == np.where(ids < 0, ids + 4, ids)[..., None], 3.0, 1.0)
for kind, depth in (("whole", np.array(4)), ("float", np.float32(4))):
    it.right(f"OneHot, {kind} depth", "OneHot", [("x", ids), ("d", depth), ("v", np.float32([1, 3]))], hot, constants=("d",))
it.right("OneHot of floats, first axis", "OneHot", [("x", ids.astype(np.float32)), ("d", np.array(4)), ("v", np.float32([1, 3]))], np.moveaxis(hot, -1, 0), {"axis": 0}, inputs=("x",), constants=("d",))
it.refused("OneHot", [("x", ids), ("d", np.array(4)), ("v", np.float32([1, 3]))], "operand 1, the depth, must be known at compile time")
it.refused("OneHot", [("x", ids), ("d", np.array(0)), ("v", np.float32([1, 3]))], "operand 1, the depth, must be one number from 1 to 2^31", constants=("d",))
it.right("ConstantOfShape", "ConstantOfShape", [("s", np.array([2, 3]))], np.full((2, 3), 1.5), {"value": floats("", [1], [1.5])}, constants=("s",), differentiable=False)
it.refused("ConstantOfShape", [("s", np.array([2, -3]))], "a size is negative", constants=("s",))
it.refused("ConstantOfShape", [("s", np.array([2, 3]))], "attribute 'value' must have one element", {"value": floats("", [2], [1.5, 2])}, constants=("s",))
it.right("Size", "Size", [("x", z)], np.array(24), differentiable=False)
it.refused("Size", [("x", None)], "operand 0 is missing")
at = np.array([[1, 0, 2, 2]])
put = wide.copy()
np.put_along_axis(put, at, np.arange(4.0)[None], 0)
it.right("Scatter", "Scatter", [("x", x), ("at", at), ("u", np.arange(4, dtype=np.float32)[None])], put, opsets=(("", 11),))  # until operator set 11

# ---- sequences

SPLIT = node("SplitToSequence", ["x", "two"], ["s"], "split", axis=1)
TWO = ("two", np.array(2))
one = ("one", np.array(1))
it.right("SplitToSequence, SequenceAt", "", [("x", x), TWO, one], wide[:, 2:], nodes=[SPLIT, node("SequenceAt", ["s", "one"], ["y0"])], constants=("two", "one"))
it.right("SequenceInsert, SequenceLength", "", [("x", x), TWO, one], [wide[:, :2], np.array(3)], constants=("two", "one"),
         nodes=[SPLIT, node("SequenceAt", ["s", "one"], ["last"]), node("SequenceInsert", ["s", "last", "one"], ["t"]), node("Constant", [], ["first"], value=ints("", [], [-3])),
                node("SequenceAt", ["t", "first"], ["y0"]), node("SequenceLength", ["t"], ["y1"])])
it.right("SequenceEmpty, SequenceInsert", "", [("x", x)], np.concatenate([wide, wide]), nodes=[node("SequenceEmpty", [], ["e"]), node("SequenceInsert", ["e", "x"], ["f"]), node("SequenceInsert", ["f", "x"], ["g"]), node("ConcatFromSequence", ["g"], ["y0"], axis=0)])
w = normal(3, 4)
it.right("SequenceConstruct, stacked", "", [("x", x), ("w", w)], np.stack([x, w], 1), nodes=[node("SequenceConstruct", ["x", "w"], ["s"]), node("ConcatFromSequence", ["s"], ["y0"], axis=1, new_axis=1)])
it.refused("SplitToSequence", [("x", x), ("n", np.array(0))], "cannot split 4 into parts of 0", nodes=[node("SplitToSequence", ["x", "n"], ["s"], "it", axis=1), node("ConcatFromSequence", ["s"], ["y0"], axis=0)], constants=("n",))
it.refused("SequenceAt", [("x", x), ("n", np.array(0))], "operand 0 is not a sequence", nodes=[node("SequenceAt", ["x", "n"], ["y0"], "it")], constants=("n",))
it.refused("SequenceAt", [("x", x), TWO, ("n", np.array(2))], "position 2 is out of a sequence of 2", nodes=[SPLIT, node("SequenceAt", ["s", "n"], ["y0"], "it")], constants=("two", "n"))
it.refused("SequenceInsert", [("x", x), TWO, ("n", np.array(-3))], "position -3 is out of a sequence of 2", nodes=[SPLIT, node("SequenceInsert", ["s", "x", "n"], ["t"], "it"), node("SequenceLength", ["t"], ["y0"])], constants=("two", "n"))
it.refused("SequenceInsert", [("x", x)], "operand 0 is not a sequence", nodes=[node("SequenceInsert", ["x", "x"], ["t"], "it"), node("SequenceLength", ["t"], ["y0"])])
it.refused("SequenceLength", [("x", x)], "operand 0 is not a sequence", nodes=[node("SequenceLength", ["x"], ["y0"], "it")])
it.refused("ConcatFromSequence", [], "operand 0 is an empty sequence", nodes=[node("SequenceEmpty", [], ["s"]), node("ConcatFromSequence", ["s"], ["y0"], "it", axis=0)])
it.refused("Gemm", [("w", w), ("v", normal(4, 3))], "operand 2 is a sequence, not a tensor", nodes=[node("SequenceConstruct", ["w"], ["s"]), node("Gemm", ["w", "v", "s"], ["y0"], "it")])
it.refused("SequenceConstruct", [("x", x)], "operand 1 is missing", nodes=[node("SequenceConstruct", ["x", ""], ["s"], "it"), node("ConcatFromSequence", ["s"], ["y0"], axis=0)])
it.finish()
