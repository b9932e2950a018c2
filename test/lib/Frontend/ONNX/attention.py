"""Attention and RotaryEmbedding of ONNX and of com.microsoft, by their definitions: attention.py FOLDER."""
import sys

from definition import *

random = np.random.default_rng(0)
it = Definition(sys.argv[1], opsets=(("", 25), ("com.microsoft", 1)))


def normal(*shape):
    return random.standard_normal(shape).astype(np.float32)


def softmax(x):
    with np.errstate(invalid="ignore"):
        e = np.exp(x - x.max(-1, keepdims=True))
        return np.nan_to_num(e / e.sum(-1, keepdims=True))


def attend(q, k, v, mask=None, causal=False, scale=None, softcap=0, offset=0, before=-1, after=-1):
    """[B, H, T, D], [B, G, S, D], [B, G, S, E]; the mask is added, or true where seen. Returns the result and the steps of the scores."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], 1) for x in (k, v))
    product = np.einsum("bhtd,bhsd->bhts", q, k) * (scale or q.shape[-1] ** -0.5)
    capped = softcap * np.tanh(product / softcap) if softcap else product
    masked = capped + (0 if mask is None else np.where(mask, 0, -np.inf) if mask.dtype == bool else mask)
    t, s = np.arange(q.shape[2])[:, None] + np.asarray(offset).reshape(-1, 1, 1, 1), np.arange(k.shape[2])
    hidden = (s > t) & causal | ((t - s > before) if before >= 0 else False) | ((s - t > after) if after >= 0 else False)
    masked = np.where(hidden, -np.inf, masked)
    weights = softmax(masked)
    return weights @ v, product, capped, masked, weights


def operands(q, k, v, **more):
    return [("q", q), ("k", k), ("v", v)] + list(more.items())


def joined(x):
    return x.swapaxes(1, 2).reshape(x.shape[0], x.shape[2], -1)


q, k, v = normal(2, 4, 3, 6), normal(2, 4, 5, 6), normal(2, 4, 5, 2)
g, w, self_k = normal(2, 2, 5, 6), normal(2, 2, 5, 2), normal(2, 4, 3, 6)
it.right("plain", "Attention", operands(q, k, v), attend(q, k, v)[0])
it.right("causal, square", "Attention", operands(q, self_k, self_k), attend(q, self_k, self_k, causal=True)[0], {"is_causal": 1})
it.right("causal, more keys", "Attention", operands(q, k, v), attend(q, k, v, causal=True)[0], {"is_causal": 1})
it.right("grouped heads", "Attention", operands(q, g, w), attend(q, g, w)[0])
it.right("grouped heads, causal", "Attention", operands(q, g[:, :, :3], w[:, :, :3]), attend(q, g[:, :, :3], w[:, :, :3], causal=True)[0], {"is_causal": 1})
it.right("scale", "Attention", operands(q, k, v), attend(q, k, v, scale=0.25)[0], {"scale": 0.25})
it.right("softcap", "Attention", operands(q, k, v), attend(q, k, v, softcap=2.0)[0], {"softcap": 2.0})
it.right("softcap, causal", "Attention", operands(q, self_k, self_k), attend(q, self_k, self_k, softcap=1.5, causal=True)[0], {"softcap": 1.5, "is_causal": 1})
it.right("3-D", "Attention", operands(joined(q), joined(g), joined(w)), joined(attend(q, g, w)[0]), {"q_num_heads": 4, "kv_num_heads": 2})
it.right("3-D, causal", "Attention", operands(joined(q), joined(self_k), joined(self_k)), joined(attend(q, self_k, self_k, causal=True)[0]), {"q_num_heads": 4, "kv_num_heads": 4, "is_causal": 1})
added = normal(4, 3, 5)
it.right("mask of floats with a gradient", "Attention", operands(q, k, v, m=added), attend(q, k, v, added)[0])
it.right("mask of floats", "Attention", operands(q, k, v, m=added), attend(q, k, v, added)[0], inputs=("m",))
padding = np.array([1, 1, 1, 1, 0, 1, 1, 0, 0, 0], bool).reshape(2, 1, 1, 5)
it.right("padding", "Attention", operands(q, k, v, m=padding), attend(q, k, v, padding)[0])
it.right("padding, causal, square", "Attention", operands(q, self_k, self_k, m=padding[..., :3]), attend(q, self_k, self_k, padding[..., :3], causal=True)[0], {"is_causal": 1})
empty = np.array([[1, 1, 0, 0, 1], [0, 0, 0, 0, 0], [0, 1, 0, 1, 1]], bool)
it.right("a row that sees nothing", "Attention", operands(q, k, v, m=empty), attend(q, k, v, empty)[0])
it.right("a constant mask", "Attention", operands(q, k, v, m=empty), attend(q, k, v, empty)[0], constants=("m",))
triangle = np.tril(np.ones((3, 3), bool))
it.right("a constant causal mask", "Attention", operands(q, self_k, self_k, m=triangle), attend(q, self_k, self_k, causal=True)[0], constants=("m",))
# Hidden rows that stay products: their result is 0, and so is their gradient.
infinite = np.where(empty, added, np.float32(-np.inf))
it.right("a row that sees nothing, softcap", "Attention", operands(q, k, v, m=empty), attend(q, k, v, empty, softcap=1.5)[0], {"softcap": 1.5})
it.right("a row that sees nothing, softcap, a constant mask", "Attention", operands(q, k, v, m=empty), attend(q, k, v, empty, softcap=1.5)[0], {"softcap": 1.5}, constants=("m",))
it.right("a row that sees nothing, mask of floats", "Attention", operands(q, k, v, m=infinite), attend(q, k, v, infinite)[0], inputs=("m",))
it.right("a row that sees nothing, mask of floats, softcap, scores", "Attention", operands(q, k, v, m=infinite), [attend(q, k, v, infinite, softcap=1.5)[0], None, None, attend(q, k, v, infinite, softcap=1.5)[4]], {"softcap": 1.5, "qk_matmul_output_mode": 3}, inputs=("m",))
# The gradient of a mask of finite numbers plus one that hides a row.
it.right("a row that sees nothing, mask with a gradient", "Attention", operands(q, k, v, e=empty, a=added, no=np.float32([-np.inf])), attend(q, k, v, infinite)[0],
         nodes=[node("Where", ["e", "a", "no"], ["m"], "where"), node("Attention", ["q", "k", "v", "m"], ["y0"], "it")], inputs=("no",))
it.right("a mask of fewer keys", "Attention", operands(q, k, v, m=empty[:, :4]), attend(q, k, v, np.pad(empty[:, :4], ((0, 0), (0, 1))))[0])
# Operator set 24 pads a mask of one key; 23 broadcasts it, and has no shorter masks.
single = np.array([[True], [False], [True]])
only = np.pad(single, ((0, 0), (0, 4)))
old = {"opsets": (("", 23),)}
it.right("a mask of one key", "Attention", operands(q, k, v, m=single), attend(q, k, v, only)[0])
it.right("a mask of one key, floats", "Attention", operands(q, k, v, m=added[0, :, :1]), attend(q, k, v, np.pad(added[0, :, :1], ((0, 0), (0, 4)), constant_values=-np.inf))[0])
it.right("a mask of one key, opset 23", "Attention", operands(q, k, v, m=single), attend(q, k, v, np.tile(single, 5))[0], **old)
it.right("a mask of one key, floats, opset 23", "Attention", operands(q, k, v, m=added[0, :, :1]), attend(q, k, v, added[0, :, :1])[0], **old)
it.refused("Attention", operands(q, k, v, m=empty[:, :4]), "the mask tensor<3x4xi1> is for fewer than the 5 keys, which operator set 24 allows: this file uses 23", **old)
it.right("window", "Attention", operands(q, k, v), attend(q, k, v, before=1, after=1)[0], {"left_window_size": 1, "right_window_size": 1})
it.right("window of all positions", "Attention", operands(q, k, v), attend(q, k, v)[0], {"left_window_size": (1 << 63) - 1, "right_window_size": (1 << 63) - 1})
it.right("window, causal, padding", "Attention", operands(q, k, v, m=padding), attend(q, k, v, padding, causal=True, before=1)[0], {"left_window_size": 1, "right_window_size": 1, "is_causal": 1})
past, past_v = normal(2, 4, 2, 6), normal(2, 4, 2, 2)
long_k, long_v = np.concatenate([past, self_k], 2), np.concatenate([past_v, v[:, :, :3]], 2)
it.right("past", "Attention", operands(q, self_k, v[:, :, :3], m=None, past=past, past_v=past_v), [attend(q, long_k, long_v, causal=True, offset=2)[0], long_k, long_v], {"is_causal": 1})
lengths = np.array([4, 2])
it.right("lengths", "Attention", operands(q, k, v, m=None, past=None, past_v=None, n=lengths), attend(q, k, v, np.arange(5) < lengths.reshape(2, 1, 1, 1))[0])
it.right("lengths, causal, window", "Attention", operands(q, k, v, m=None, past=None, past_v=None, n=lengths), attend(q, k, v, np.arange(5) < lengths.reshape(2, 1, 1, 1), causal=True, offset=lengths - 3, before=1)[0], {"is_causal": 1, "left_window_size": 1})
for mode in range(4):
    full = attend(q, k, v, added, softcap=2.0)
    it.right(f"scores, mode {mode}", "Attention", operands(q, k, v, m=added), [full[0], None, None, full[1 + mode]], {"softcap": 2.0, "qk_matmul_output_mode": mode})

BAD = {"queries tensor": [(normal(2, 4, 3, 6), normal(2, 3, 5, 6), normal(2, 3, 5, 2), {}), (q, normal(2, 4, 5, 7), v, {}), (q, k, normal(2, 4, 6, 2), {})],
       "query, key and value must all have": [(normal(2, 3), k, v, {}), (joined(q), k, v, {"q_num_heads": 4, "kv_num_heads": 4})],
       "cannot split tensor<2x3x24xf32> into 0 heads": [(joined(q), joined(k), joined(v), {})],
       "cannot split tensor<2x3x24xf32> into 5 heads": [(joined(q), joined(k), joined(v), {"q_num_heads": 5, "kv_num_heads": 4})],
       "operand 1 has 4 heads, not 2": [(q, k, v, {"kv_num_heads": 2})],
       "scale and softcap must be finite": [(q, k, v, {"softcap": -1.0}), (q, k, v, {"scale": float("nan")})],
       "a window size is below -1": [(q, k, v, {"left_window_size": -2}), (q, k, v, {"qk_matmul_output_mode": 4})],
       "attribute 'scale' must be a number": [(q, k, v, {"scale": "one"})]}
for message, cases in BAD.items():
    for a, b, c, attributes in cases:
        it.refused("Attention", operands(a, b, c), message, attributes)
it.refused("Attention", operands(q, k, v, m=normal(2, 3, 5)), "the mask tensor<2x3x5xf32> does not broadcast to the scores [2, 4, 3, 5]")
it.refused("Attention", operands(q, k, v, m=np.ones((3, 5), np.int64)), "the mask must be of floats or truth values")
it.refused("Attention", operands(q, k, v, m=None, past=past), "past_key and past_value must be given together")
it.refused("Attention", operands(q, k, v, m=None, past=normal(2, 4, 2, 5), past_v=past_v), "past tensor<2x4x2x5xf32> does not fit tensor<2x4x5x6xf32>")
it.refused("Attention", operands(q, k, v, m=None, past=None, past_v=None, n=np.array([1, 2, 3])), "nonpad_kv_seqlen must have one integer for each of 2 sequences")
it.refused("Attention", operands(q, k, None), "operand 2 is missing")

# ---- rotary positions


def rotate(x, cosines, sines, interleaved=False):
    """[B, H, T, D]; [B or 1, T, R / 2]"""
    x, c, s = (each.astype(np.float64) for each in (x, cosines[:, None], sines[:, None]))
    half, y = c.shape[-1], x.copy()
    first, second = (slice(0, 2 * half, 2), slice(1, 2 * half, 2)) if interleaved else (slice(0, half), slice(half, 2 * half))
    a, b = x[..., first], x[..., second]
    y[..., first], y[..., second] = a * c - b * s, b * c + a * s
    return y


x, table = normal(2, 4, 3, 8), normal(6, 4)
angles = np.arange(6)[:, None] / np.arange(1, 5)
cosines, sines = (np.asarray(f(angles), np.float32) for f in (np.cos, np.sin))
ids = np.array([[0, 1, 2], [3, 5, 1]])
same = np.array([[0, 1, 2], [0, 1, 2]])
for flag in (0, 1):
    at = {"interleaved": flag}
    it.right(f"rotary, interleaved {flag}", "RotaryEmbedding", [("x", x), ("c", cosines), ("s", sines), ("p", ids)], rotate(x, cosines[ids], sines[ids], flag), at, inputs=("c", "s"))
    it.right(f"rotary, constant positions, interleaved {flag}", "RotaryEmbedding", [("x", x), ("c", cosines), ("s", sines), ("p", same)], rotate(x, cosines[same], sines[same], flag), at, constants=("c", "s", "p"))
    it.right(f"rotary, part of the features, interleaved {flag}", "RotaryEmbedding", [("x", x), ("c", cosines[:, :2]), ("s", sines[:, :2]), ("p", ids)], rotate(x, cosines[ids][..., :2], sines[ids][..., :2], flag), at | {"rotary_embedding_dim": 4}, constants=("c", "s"))
it.right("rotary, 3-D, rows of the batch", "RotaryEmbedding", [("x", joined(x)), ("c", cosines[ids]), ("s", sines[ids])], joined(rotate(x, cosines[ids], sines[ids])), {"num_heads": 4}, inputs=("c", "s"))
it.refused("RotaryEmbedding", [("x", (2, 8)), ("c", (6, 4)), ("s", (6, 4))], "the operand must have 3 or 4 dimensions")
it.refused("RotaryEmbedding", [("x", (2, 3, 8)), ("c", (2, 3, 4)), ("s", (2, 3, 4))], "cannot split tensor<2x3x8xf32> into 0 heads")
it.refused("RotaryEmbedding", [("x", x), ("c", (2, 3, 4)), ("s", (2, 3, 3))], "cosines tensor<2x3x4xf32> and sines tensor<2x3x3xf32> do not fit")
it.refused("RotaryEmbedding", [("x", x), ("c", (2, 3, 4)), ("s", (2, 3, 4))], "rotary_embedding_dim is 6, but the tables have 4 pairs", {"rotary_embedding_dim": 6})
it.refused("RotaryEmbedding", [("x", x), ("c", (6, 4)), ("s", (6, 4)), ("p", np.zeros((2, 4), np.int64))], "positions tensor<2x4xi64> do not fit 2 sequences of 3")
it.refused("RotaryEmbedding", [("x", x), ("c", (6, 4)), ("s", (6, 4)), ("p", np.full((2, 3), 9))], "index 9 is out of a dimension of size 6", constants=("p",))

# ---- com.microsoft

ms = {"domain": "com.microsoft"}
for flag in (0, 1):
    it.right(f"com.microsoft rotary, interleaved {flag}", "RotaryEmbedding", [("x", x), ("p", same), ("c", cosines), ("s", sines)], rotate(x, cosines[same], sines[same], flag), {"interleaved": flag}, constants=("c", "s", "p"), **ms)
it.right("com.microsoft rotary, one position, 3-D", "RotaryEmbedding", [("x", joined(x)), ("p", np.array([2])), ("c", cosines), ("s", sines)], joined(rotate(x, cosines[None, 2:5], sines[None, 2:5])), constants=("c", "s", "p"), **ms)
it.refused("RotaryEmbedding", [("x", (2, 3, 10)), ("p", np.array([0])), ("c", cosines), ("s", sines)], "needs the attribute num_heads", **ms)
it.refused("RotaryEmbedding", [("x", x), ("p", np.array([0])), ("c", cosines), ("s", sines)], "packed batches and a scale are not supported", {"scale": 0.5}, **ms)

q, k, v = normal(2, 4, 3, 6), normal(2, 4, 5, 6), normal(2, 4, 5, 2)
bias = normal(24 + 24 + 8)
biased = [split + bias[at].reshape(4, 1, -1) for split, at in ((q, slice(0, 24)), (k, slice(24, 48)), (v, slice(48, 56)))]
H = {"num_heads": 4}
def heads_operands(q, k, v, **more):
    return [("q", joined(q)), ("k", joined(k)), ("v", joined(v))] + list(more.items())
name = "MultiHeadAttention"
it.right(name, name, heads_operands(q, k, v), joined(attend(q, k, v)[0]), H, **ms)
it.right(f"{name}, bias", name, heads_operands(q, k, v, b=bias), joined(attend(*biased)[0]), H, **ms)
keys = np.array([[1, 1, 1, 0, 0], [1, 0, 1, 1, 1]], np.int32)
far = np.where(keys.reshape(2, 1, 1, 5), 0, -10000.0)
it.right(f"{name}, padding", name, heads_operands(q, k, v, b=None, m=keys), joined(attend(q, k, v, far)[0]), H, **ms)
it.right(f"{name}, lengths", name, heads_operands(q, k, v, b=None, m=np.array([3, 4], np.int32)), joined(attend(q, k, v, np.where(np.arange(5) < np.array([3, 4]).reshape(2, 1, 1, 1), 0, -10000.0))[0]), H, **ms)
it.right(f"{name}, pairs", name, heads_operands(q, k, v, b=None, m=np.tile(keys[:, None], (1, 3, 1))), joined(attend(q, k, v, far)[0]), H, **ms)
it.right(f"{name}, bias of scores", name, heads_operands(q, k, v, b=None, m=None, a=added[None]), joined(attend(q, k, v, added)[0]), H, **ms)
it.right(f"{name}, causal, scale", name, heads_operands(q, self_k, self_k), joined(attend(q, self_k, self_k, causal=True, scale=0.3)[0]), H | {"unidirectional": 1, "scale": 0.3}, **ms)
it.right(f"{name}, causal, padding", name, heads_operands(q, self_k, self_k, b=None, m=keys[:, :3]), joined(attend(q, self_k, self_k, far[..., :3], causal=True)[0]), H | {"unidirectional": 1}, **ms)
it.right(f"{name}, keys in heads", name, [("q", joined(q)), ("k", k), ("v", v)], joined(attend(q, k, v)[0]), H, **ms)
qkv = np.stack([x.swapaxes(1, 2) for x in (q, self_k, normal(2, 4, 3, 6))], 3)
it.right(f"{name}, packed", name, [("q", qkv)], joined(attend(*(qkv[:, :, :, i].swapaxes(1, 2) for i in range(3)))[0]), H, **ms)
kv = np.stack([x.swapaxes(1, 2) for x in (k, normal(2, 4, 5, 6))], 3)
it.right(f"{name}, keys and values packed", name, [("q", joined(q)), ("k", kv)], joined(attend(q, *(kv[:, :, :, i].swapaxes(1, 2) for i in range(2)))[0]), H, **ms)
it.refused(name, heads_operands(q, k, v), "cannot split tensor<2x3x24xf32> into 0 heads", **ms)
it.refused(name, [("q", ()), ("k", joined(k)), ("v", joined(v))], "queries must be [batch, positions, features]", H, **ms)
it.refused(name, [("q", joined(q)), ("k", ()), ("v", joined(v))], "keys and values must have 3 or 4 dimensions, not 0", H, **ms)
it.refused(name, heads_operands(q, k, v, b=normal(7)), "the bias is tensor<7xf32> for 56 features", H, **ms)
it.refused(name, heads_operands(q, k, v, b=None, m=np.ones((7,), np.int32)), "a mask tensor<7xi32> is not supported", H, **ms)
it.refused(name, heads_operands(q, k, v, b=None, m=normal(2, 5)), "the mask must be of integers", H, **ms)
it.refused(name, heads_operands(q, k, v, b=None, m=None, a=None, pk=k, pv=v), "operands or results of earlier positions", H, **ms)
it.refused(name, [("q", qkv[:, :, :, :2])], "packed operands must be [batch, positions, heads, 2 or 3, features]", H, **ms)
it.refused(name, [("q", joined(q)), ("k", joined(k))], "operand 2 is missing", H, **ms)

tokens, weight, wide = normal(2, 5, 7), normal(7, 24 + 24 + 8), normal(7, 72)


def packed(x, weight, bias, sizes, mask=None, causal=False):
    parts = np.split(x @ weight + bias, np.cumsum(sizes)[:2], -1)
    split = [p.reshape(2, 5, 4, -1).swapaxes(1, 2) for p in parts]
    return joined(attend(*split, mask, causal)[0])


even = normal(72)
name = "Attention"
it.right(f"com.microsoft {name}", name, [("x", tokens), ("w", wide), ("b", even)], packed(tokens, wide, even, (24, 24, 24)), H, **ms)
it.right(f"com.microsoft {name}, sizes, padding", name, [("x", tokens), ("w", weight), ("b", bias), ("m", keys)], packed(tokens, weight, bias, (24, 24, 8), far), H | {"qkv_hidden_sizes": [24, 24, 8]}, **ms)
it.right(f"com.microsoft {name}, causal", name, [("x", tokens), ("w", wide)], packed(tokens, wide, 0, (24, 24, 24), causal=True), H | {"unidirectional": 1}, **ms)
it.refused(name, [("x", tokens), ("w", (6, 72))], "input tensor<2x5x7xf32> and weight tensor<6x72xf32> do not fit", H, **ms)
it.refused(name, [("x", tokens), ("w", wide), ("b", (3,))], "the bias is tensor<3xf32> for 72 results", H, **ms)
it.refused(name, [("x", tokens), ("w", wide)], "the weight has 72 results, which are not those of queries", H | {"qkv_hidden_sizes": [24, 24]}, **ms)
it.refused(name, [("x", tokens), ("w", wide)], "do_rotary is not supported", H | {"do_rotary": 1}, **ms)
it.refused(name, [("x", tokens), ("w", wide)], "operands or results of earlier positions", H, results=2, **ms)

name = "GroupQueryAttention"
q, g, w = normal(2, 4, 5, 8), normal(2, 2, 5, 8), normal(2, 2, 5, 8)
G = H | {"kv_num_heads": 2}
rest = {"pk": None, "pv": None, "n": np.array([4, 4], np.int32), "total": np.array(5, np.int32)}
it.right(name, name, heads_operands(q, g, w, **rest), joined(attend(q, g, w, causal=True)[0]), G, **ms)
it.right(f"{name}, packed", name, [("q", np.concatenate([joined(q), joined(g), joined(w)], -1)), ("k", None), ("v", None), *rest.items()], joined(attend(q, g, w, causal=True)[0]), G, **ms)
c, s = cosines[None, :5], sines[None, :5]
it.right(f"{name}, rotary", name, heads_operands(q, g, w, **rest, c=cosines, s=sines), joined(attend(rotate(q, c, s), rotate(g, c, s), w, causal=True)[0]), G | {"do_rotary": 1}, constants=("c", "s"), **ms)
it.right(f"{name}, window, softcap", name, heads_operands(q, g, w, **rest), joined(attend(q, g, w, causal=True, softcap=2.0, before=1)[0]), G | {"local_window_size": 2, "softcap": 2.0}, **ms)
it.right(f"{name}, results that nothing reads", name, heads_operands(q, g, w, **rest), joined(attend(q, g, w, causal=True)[0]), G,
         nodes=[node(name, ["" if array is None else one for one, array in heads_operands(q, g, w, **rest)], ["y0", "present_key", "present_value"], "it", "com.microsoft", **G)], **ms)
it.refused(name, heads_operands(q, g, w, **rest), "local_window_size must be -1 or positive", G | {"local_window_size": 0}, **ms)
it.refused(name, heads_operands(q, g, w, **rest), "4 heads of queries and 3 of keys do not fit", H | {"kv_num_heads": 3}, **ms)
it.refused(name, heads_operands(q, g, w, **rest), "smooth_softmax is not supported", G | {"smooth_softmax": 1}, **ms)
it.refused(name, heads_operands(q, g, w, **rest), "do_rotary needs the operands cos_cache and sin_cache", G | {"do_rotary": 1}, **ms)
it.refused(name, heads_operands(q, g, w, **rest, c=cosines[:3], s=sines[:3]), "the table of cosines or sines has 3 positions, fewer than the 5", G | {"do_rotary": 1}, constants=("c", "s"), **ms)
it.refused(name, heads_operands(q, g, w, pk=g, pv=w), "keys and values of earlier positions are not supported", G, **ms)
it.refused(name, heads_operands(q, g[:, :, :3], w[:, :, :3]), "queries and keys have 5 and 3 positions", G, **ms)
it.finish()
