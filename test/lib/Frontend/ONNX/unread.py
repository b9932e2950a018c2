"""Attributes and operands that a handler does not read are refused, but for those that cannot change the result: unread.py FOLDER."""
import sys

from definition import *

random = np.random.default_rng(0)
it = Definition(sys.argv[1])


def normal(*shape):
    return random.standard_normal(shape).astype(np.float32)


def opset(version):
    return (("", version), ("com.microsoft", 1))


x, w = normal(3, 4), normal(4, 2)
UNKNOWN = "is not supported: the result may depend on it"

# ---- attributes that no operator set has, or not the file's

it.refused("Relu", [("x", x)], f"attribute 'slope' {UNKNOWN}", {"slope": 0.5})
it.refused("Softmax", [("x", x)], f"attribute 'temperature' {UNKNOWN}", {"axis": -1, "temperature": 2.0})
it.refused("Add", [("x", x), ("b", x)], f"attribute 'axis' {UNKNOWN}", {"axis": 0})  # broadcasting of operator sets 1 to 6
it.refused("MatMul", [("x", x), ("w", w)], f"attribute 'bad\ufffdname' {UNKNOWN}", {"bad\ufffdname": 1})
it.refused("Dropout", [("x", x)], f"attribute 'is_test' {UNKNOWN}", {"is_test": 1})
it.refused("SkipLayerNormalization", [("x", x[None]), ("s", x[None]), ("g", x[0])], f"attribute 'simplified' {UNKNOWN}", {"simplified": 1}, "com.microsoft")
for version, op, attribute_, first in ((13, "Reshape", "allowzero", 0), (17, "ReduceMax", "noop_with_empty_axes", 1), (11, "TopK", "mode", 0), (14, "Shape", "start", 1)):
    said = f"attribute '{attribute_}' is not one of operator set {version}" if attribute_ != "mode" else f"attribute 'mode' {UNKNOWN}"
    it.refused(op, [("x", x)] + ([("n", np.array([3, 4]))] if op == "Reshape" else [("n", np.array([2]))] if op == "TopK" else []), said, {attribute_: first}, constants=("n",), opsets=opset(version))
q = normal(1, 2, 3, 4)
it.refused("Attention", [("q", q), ("k", q), ("v", q)], "attribute 'left_window_size' is not one of operator set 24", {"left_window_size": 1}, opsets=opset(24))
it.refused("Constant", [], "attribute 'value_float' is not one of operator set 11", {"value_float": 2.0}, opsets=opset(11))
it.refused("Constant", [], "", nodes=[node("Constant", [], ["y0"], "it", sparse_value=1)])

# ---- values, types, and attributes that are given twice

rows, tables = normal(1, 3, 16), normal(3, 4)
group = {"num_heads": 2, "kv_num_heads": 1}
packed = [("q", rows[..., :8]), ("k", rows[..., 8:12]), ("v", rows[..., 12:])] + [(name, None) for name in ("pk", "pv")]
lengths = [("last", np.array([2], np.int32)), ("total", np.array(3, np.int32))]
for attributes in ({"causal": 0}, {"k_quant_type": "PER_TENSOR"}, {"sliding_window_cache": 1}, {"window": 2}):
    it.refused("GroupQueryAttention", packed + lengths, f"attribute '{next(iter(attributes))}' {UNKNOWN}", {**group, **attributes}, "com.microsoft")
it.refused("Transpose", [("x", x)], "attribute 'perm' must be a list of integers", {"perm": 1})
twice = node("Softmax", ["x"], ["y0"], "it", axis=0) + field(5, attribute("axis", 1))
it.refused("Softmax", [("x", x)], "attribute 'axis' is given twice", nodes=[twice])

# ---- operands

it.refused("Relu", [("x", x), ("w", w)], f"operand 1 ('w') {UNKNOWN}")
it.refused("Add", [("x", x), ("b", x), ("c", None), ("d", x)], f"operand 3 ('d') {UNKNOWN}")
it.refused("Softmax", [("x", x), ("t", np.array([1]))], f"operand 1 ('t') {UNKNOWN}", constants=("t",))
it.refused("GroupQueryAttention", packed + lengths + [(f"none{i}", None) for i in range(7)] + [("norm", x[0])], f"operand 14 ('norm') {UNKNOWN}", group, "com.microsoft")

# ---- functions


def call(attributes, inner, declared):
    """A model of one call of a function, which contains `inner`."""
    body = [node("f", ["x"], ["y"], "call", "local", **attributes), node("ReduceSum", ["y"], ["loss"], keepdims=0)]
    function_ = function("f", ["a"], ["b"], [inner]) + b"".join(field(6, name) for name in declared)
    return model(graph(body, [value("t", [1])], [value("loss", [])], [floats("x", [3, 4], x.ravel())]), opsets=(("", 18), ("local", 1)), functions=[function_])


def refer(op, name, of, kind, **attributes):
    """A node whose attribute `name` is that of the function's call of name `of`."""
    return node(op, ["a"], ["b"], "inner", **attributes) + field(5, field(1, name) + field(21, of) + field(20, kind))


def check_call(message, attributes, inner, declared):
    (it.folder / "call.onnx").write_bytes(call(attributes, inner, declared))
    if message:
        expect_refusal(it.folder / "call.onnx", message, f"call {attributes}")
        it.refused_count += 1
    else:
        run("shale-translate", "--quiet", "--import-onnx", it.folder / "call.onnx")
        it.right_count += 1


relu = node("Relu", ["a"], ["b"], "inner")
check_call("node 'call' (f): function 'f' has no attribute 'scale'", {"scale": 2.0}, relu, ["other"])
check_call(f"node 'inner' (Relu): attribute 'slope' {UNKNOWN}", {"other": 2.0}, refer("Relu", "slope", "other", 1), ["other"])
check_call(None, {}, refer("Relu", "slope", "other", 1), ["other"])  # the call does not give it
check_call(None, {"other": 0}, refer("Cast", "saturate", "other", 2, to=FLOAT), ["other"])

# ---- attributes that cannot change the result

wide = x.astype(np.float64)
it.right("Cast", "Cast", [("x", x)], wide, {"to": FLOAT, "saturate": 0, "round_mode": "down"}, opsets=opset(25))
it.right("Gemm", "Gemm", [("x", x), ("w", w)], wide @ w, {"beta": 3.0})
it.right("Dropout", "Dropout", [("x", x)], wide, {"ratio": 0.5}, opsets=opset(11))
it.right("TopK", "TopK", [("x", x), ("n", np.array([2]))], np.sort(wide, 1)[:, :1:-1], {"sorted": 0}, constants=("n",))
it.right("ReduceMax", "ReduceMax", [("x", x), ("n", np.array([1]))], wide.max(1, keepdims=True), {"noop_with_empty_axes": 1}, constants=("n",))


def softmax(values):
    e = np.exp(values - values.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attend(q, k, v, causal):
    scores = np.einsum("bhtd,bhsd->bhts", q, k).astype(np.float64) / q.shape[-1] ** 0.5
    return softmax(np.where(np.tri(q.shape[2], dtype=bool) | (not causal), scores, -np.inf)) @ v


it.right("Attention", "Attention", [("q", q), ("k", q), ("v", q)], attend(q, q, q, False), {"softmax_precision": 1}, opsets=opset(24))
heads = rows[..., :8].reshape(1, 3, 2, 4).swapaxes(1, 2)
grouped = attend(heads, *(np.repeat(rows[:, None, :, at:at + 4], 2, 1) for at in (8, 12)), True).swapaxes(1, 2).reshape(1, 3, 8)
it.right("GroupQueryAttention", "GroupQueryAttention", packed + lengths, grouped,
         {**group, "causal": 1, "rotary_interleaved": 1, "k_quant_type": "NONE", "v_quant_type": "NONE", "kv_cache_bit_width": 0, "qk_output": 0, "qk_norm_epsilon": 1e-6}, "com.microsoft")
it.finish()
