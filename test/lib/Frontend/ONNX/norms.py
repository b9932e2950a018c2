"""Normalizations of ONNX and of com.microsoft, and FusedMatMul, by their definitions: norms.py FOLDER."""
import sys

from definition import *

random = np.random.default_rng(0)
it = Definition(sys.argv[1], opsets=(("", 23), ("com.microsoft", 1)))
ms = {"domain": "com.microsoft"}


def normal(*shape):
    return random.standard_normal(shape).astype(np.float32)


def normalized(x, axes, epsilon=1e-5):
    x = x.astype(np.float64)
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)


def channels(v, rank):
    return v.reshape(1, -1, *[1] * (rank - 2))


x, scale, bias = normal(2, 6, 3, 4), normal(6), normal(6)
OPERANDS = [("x", x), ("s", scale), ("b", bias)]
grouped = normalized(x.reshape(2, 3, -1), 2).reshape(x.shape)
it.right("GroupNormalization", "GroupNormalization", OPERANDS, grouped * channels(scale, 4) + channels(bias, 4), {"num_groups": 3})
it.right("GroupNormalization, one group", "GroupNormalization", OPERANDS, normalized(x.reshape(2, 1, -1), 2).reshape(x.shape) * channels(scale, 4) + channels(bias, 4), {"num_groups": 1})
it.right("GroupNormalization 18, epsilon", "GroupNormalization", [("x", x), ("s", scale[:3]), ("b", bias[:3])],
         normalized(x.reshape(2, 3, -1), 2, 0.01).reshape(x.shape) * channels(np.repeat(scale[:3], 2), 4) + channels(np.repeat(bias[:3], 2), 4), {"num_groups": 3, "epsilon": 0.01}, opsets=(("", 18),))
it.right("InstanceNormalization", "InstanceNormalization", OPERANDS, normalized(x, (2, 3)) * channels(scale, 4) + channels(bias, 4))
mean, variance = normal(6), np.abs(normal(6))
batch = (x - channels(mean, 4)) / np.sqrt(channels(variance, 4).astype(np.float64) + 0.001) * channels(scale, 4) + channels(bias, 4)
STATISTICS = [("m", mean), ("v", variance)]
it.right("BatchNormalization", "BatchNormalization", OPERANDS + STATISTICS, batch, {"epsilon": 0.001}, constants=("m", "v"))
it.right("BatchNormalization in training", "BatchNormalization", OPERANDS + STATISTICS, normalized(x, (0, 2, 3)) * channels(scale, 4) + channels(bias, 4), {"training_mode": 1})
y = normal(3, 4)
for p in (1, 2):
    it.right(f"LpNormalization, {p}", "LpNormalization", [("x", y)], y / np.linalg.norm(y.astype(np.float64), p, 0, keepdims=True), {"p": p, "axis": 0})
zeros = np.float32([[0, 0], [3, 4]])
it.right("LpNormalization of zeros", "LpNormalization", [("x", zeros)], np.array([[0, 0], [0.6, 0.8]]), {"axis": 1}, inputs=("x",), differentiable=False)

for name in ("GroupNormalization", "InstanceNormalization"):
    it.refused(name, OPERANDS[:2] + [("b", (5,))], "operand 2 is tensor<5xf32> for the 6 channels", {"num_groups": 3})
    it.refused(name, OPERANDS, "epsilon must be finite", {"num_groups": 3, "epsilon": float("nan")})
    it.refused(name, OPERANDS[:2], "operand 2 is missing", {"num_groups": 3})
it.refused("GroupNormalization", OPERANDS, "6 channels do not split into 4 groups", {"num_groups": 4})
it.refused("GroupNormalization", OPERANDS, "6 channels do not split into 0 groups")
it.refused("GroupNormalization", OPERANDS, "operand 1 is tensor<6xf32> for 3 groups", {"num_groups": 3}, opsets=(("", 18),))
it.refused("InstanceNormalization", [("x", (6,)), *OPERANDS[1:]], "operand 0 must have 3 or more dimensions, but is tensor<6xf32>")
it.refused("BatchNormalization", [("x", x[:1, :, :1, :1]), *OPERANDS[1:]] + STATISTICS, "statistics of the batch need more than one value per channel", {"training_mode": 1})
it.refused("BatchNormalization", OPERANDS + STATISTICS, "the momentum must be in [0, 1]", {"training_mode": 1, "momentum": 1.5})
it.refused("BatchNormalization", OPERANDS + [("m", (5,)), ("v", (6,))], "operand 3 is tensor<5xf32> for the 6 channels", {"training_mode": 1})
it.refused("BatchNormalization", OPERANDS + [("m", (6,)), ("v", (6,))], "operand 3, a running statistic, is not a buffer of the model", {"training_mode": 1}, inputs=("m", "v"))
it.refused("BatchNormalization", OPERANDS + STATISTICS, "output 1, a statistic, is read", results=3)
for mode in (2, -1):
    it.refused("BatchNormalization", OPERANDS + STATISTICS, f"attribute 'training_mode' is {mode}, and must be 0 or 1", {"training_mode": mode})
it.refused("BatchNormalization", OPERANDS + STATISTICS, "5 outputs are more than it has",
           nodes=[node("BatchNormalization", [name for name, _ in OPERANDS + STATISTICS], ["y0", "r1", "r2", "r3", "r4"], "it")])
it.refused("BatchNormalization", OPERANDS + [("m", (5,)), ("v", (6,))], "operand 3 is tensor<5xf32> for the 6 channels")
it.refused("LpNormalization", [("x", y)], "p must be 1 or 2", {"p": 3})

# ---- over the last dimensions

z, skip, gamma, beta, shift = normal(2, 3, 5), normal(2, 3, 5), normal(5), normal(5), normal(5)
deviation = 1 / np.sqrt(z.astype(np.float64).var((1, 2), keepdims=True) + 1e-5)
wide = [("x", z), ("s", normal(3, 5)), ("b", normal(3, 5))]
it.right("LayerNormalization, statistics", "LayerNormalization", wide, [normalized(z, (1, 2)) * wide[1][1] + wide[2][1], z.mean((1, 2), keepdims=True, dtype=np.float64), deviation], {"axis": 1})
# stash_type: the type in which the statistics are computed. In f32 the elements of a line are equal, in f64 they are not.
close = np.float32([[1, 2, 3, 4], [8, 6, 4, 2]])
big = close.astype(np.float64) + 2.0 ** 31
DOUBLES = [("x", close), ("s", normal(4)), ("b", normal(4))]


def doubles(op, operands, results=("y0",), **attributes):
    """Nodes that add 2^31 to x and apply the operator, all in doubles."""
    cast = [node("Cast", [name], [f"{name}64"], to=DOUBLE) for name, _ in operands]
    big = [node("Constant", [], ["shift"], value=tensor("", [1], DOUBLE, np.float64([2.0 ** 31]).tobytes())), node("Add", ["x64", "shift"], ["xb"], "add")]
    return cast + big + [node(op, ["xb", *(f"{name}64" for name, _ in operands[1:])], results, "it", **attributes)]


for op, operands in (("LayerNormalization", DOUBLES), ("RMSNormalization", DOUBLES[:2])):
    scale4, bias4 = operands[1][1], operands[2][1] if len(operands) > 2 else 0
    for stash, at in ((1, big.astype(np.float32).astype(np.float64)), (11, big)):
        expected = (normalized(at, -1) if len(operands) > 2 else at / np.sqrt((at ** 2).mean(-1, keepdims=True) + 1e-5)) * scale4 + bias4
        it.right(f"{op} of doubles, stash_type {stash}", op, operands, expected, nodes=doubles(op, operands, stash_type=stash), inputs=("x", "s", "b"), differentiable=False, wide=False)
    it.right(f"{op} of doubles, default stash_type, gradient", op, operands, (normalized(close, -1) if len(operands) > 2 else close / np.sqrt((close.astype(np.float64) ** 2).mean(-1, keepdims=True) + 1e-5)) * scale4 + bias4,
             nodes=[node("Cast", [name], [f"{name}64"], to=DOUBLE) for name, _ in operands] + [node(op, [f"{name}64" for name, _ in operands], ["y0"], "it")])
    it.refused(op, operands, "stash_type is 7; it must be 1 (float)", {"stash_type": 7})
    it.refused(op, operands, "stash_type is 4294967297; it must be 1 (float)", {"stash_type": (1 << 32) + 1})
    it.refused(op, operands, "attribute 'stash_type' must be an integer", {"stash_type": "float"})
channel = [("x", close.reshape(1, 4, 2)), ("s", normal(4)), ("b", normal(4))]
for stash, at in ((1, big.astype(np.float32).astype(np.float64)), (11, big)):
    expected = normalized(at.reshape(1, 2, -1), 2).reshape(1, 4, 2) * channels(channel[1][1], 3) + channels(channel[2][1], 3)
    it.right(f"GroupNormalization of doubles, stash_type {stash}", "GroupNormalization", channel, expected, nodes=doubles("GroupNormalization", channel, stash_type=stash, num_groups=2),
             inputs=("x", "s", "b"), differentiable=False, wide=False)
it.refused("GroupNormalization", OPERANDS, "stash_type is 9; it must be 1 (float)", {"num_groups": 3, "stash_type": 9})
square = 1 / np.sqrt((z.astype(np.float64) ** 2).mean(-1, keepdims=True) + 1e-5)
it.right("RMSNormalization", "RMSNormalization", [("x", z), ("s", gamma)], z * square * gamma)
it.right("SimplifiedLayerNormalization, statistics", "SimplifiedLayerNormalization", [("x", z), ("s", gamma)], [z * square * gamma, square], **ms)
it.right("SimplifiedLayerNormalization of ONNX Runtime's optimizer", "SimplifiedLayerNormalization", [("x", z), ("s", gamma)], z * square * gamma)
words, places, kinds = normal(9, 5), normal(4, 5), normal(2, 5)
ids, segments = np.array([[1, 8, 0], [3, 3, 5]], np.int32), np.array([[0, 1, 1], [0, 0, 1]], np.int32)
TABLES = [("ids", ids), ("segments", segments), ("words", words), ("places", places), ("kinds", kinds), ("s", gamma), ("b", beta)]
embedded = words[ids] + places[:3] + kinds[segments]
it.right("EmbedLayerNormalization", "EmbedLayerNormalization", TABLES, [normalized(embedded, -1, 0.01) * gamma + beta, None, embedded], {"epsilon": 0.01}, **ms)
it.right("EmbedLayerNormalization, positions", "EmbedLayerNormalization", [TABLES[0], ("segments", None), *TABLES[2:4], ("kinds", None), *TABLES[5:], ("mask", None), ("at", ids % 4)],
         normalized(words[ids] + places[ids % 4], -1, 0.01) * gamma + beta, {"epsilon": 0.01}, **ms)
it.refused("EmbedLayerNormalization", TABLES[:6], "operand 6 is missing", **ms)
it.refused("EmbedLayerNormalization", TABLES[:3] + [("places", places[:2]), *TABLES[4:]], "the table of positions has 2 rows for 3 positions", **ms)
it.refused("EmbedLayerNormalization", [TABLES[0], ("segments", None), *TABLES[2:]], "operand 1, the segments, is missing", **ms)
it.refused("EmbedLayerNormalization", TABLES, "its result of lengths is not supported", results=2, **ms)
it.refused("EmbedLayerNormalization", TABLES[:5] + [("s", (4,)), TABLES[6]], "scale and bias must be tensor<5xf32>", **ms)
it.refused("EmbedLayerNormalization", [("ids", normal(2, 3)), *TABLES[1:]], "indices must be integers", inputs=("ids",), **ms)
total = z + skip + shift
it.right("SkipLayerNormalization", "SkipLayerNormalization", [("x", z), ("skip", skip), ("s", gamma), ("b", beta), ("shift", shift)],
         [normalized(total, -1, 0.01) * gamma + beta, None, None, total], {"epsilon": 0.01}, **ms)
it.right("SkipLayerNormalization, without bias", "SkipLayerNormalization", [("x", z), ("skip", skip[:1]), ("s", gamma)], normalized(z + skip[:1], -1, 1e-12) * gamma, **ms)
simple = total / np.sqrt((total.astype(np.float64) ** 2).mean(-1, keepdims=True) + 0.01) * gamma
it.right("SkipSimplifiedLayerNormalization", "SkipSimplifiedLayerNormalization", [("x", z), ("skip", skip), ("s", gamma), ("shift", shift)], [simple, None, None, total], {"epsilon": 0.01}, **ms)
for name in ("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"):
    it.refused(name, [("x", z), ("skip", (2, 3, 4)), ("s", gamma)], "shapes do not broadcast", **ms)
    it.refused(name, [("x", z), ("skip", (4, 2, 3, 5)), ("s", gamma)], "skip tensor<4x2x3x5xf32> and the bias do not fit tensor<2x3x5xf32>", **ms)
    it.refused(name, [("x", z), ("skip", skip), ("s", (4,))], "scale and bias must be tensor<5xf32>", **ms)
    it.refused(name, [("x", z), ("skip", skip), ("s", gamma)], "its results 1 and 2, statistics, are not supported", results=2, **ms)
    it.refused(name, [("x", z), ("skip", skip), ("s", gamma)], "epsilon must be finite", {"epsilon": -1.0}, **ms)

# ---- products

a, b = normal(2, 3, 5), normal(2, 3, 4)
it.right("FusedMatMul, transposed", "FusedMatMul", [("a", a), ("b", b)], 0.5 * np.einsum("nki,nkj->nij", a, b), {"transA": 1, "alpha": 0.5}, **ms)
c, d = normal(3, 2, 5), normal(2, 4, 5)
it.right("FusedMatMul, batch of A transposed", "FusedMatMul", [("a", c), ("b", d)], np.einsum("mnk,njk->nmj", c, d), {"transBatchA": 1, "transB": 1}, **ms)
it.right("TransposeMatMul", "TransposeMatMul", [("a", a[0]), ("b", b[0])], a[0].T @ b[0], {"transA": 1}, **ms)
it.refused("FusedMatMul", [("a", a), ("b", b)], "matrices tensor<2x3x5xf32> and tensor<2x3x4xf32> do not multiply", **ms)
it.refused("FusedMatMul", [("a", a)], "operand 1 is missing", **ms)
it.refused("FusedMatMul", [("a", ()), ("b", b)], "cannot multiply scalars", **ms)
it.finish()
