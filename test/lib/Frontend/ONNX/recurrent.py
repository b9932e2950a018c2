"""RNN, GRU and LSTM by their definitions, one step at a time: recurrent.py FOLDER."""
import sys

from definition import *

random = np.random.default_rng(0)
it = Definition(sys.argv[1], opsets=(("", 22),))
T, B, I, H = 4, 2, 3, 5
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def steps(op, x, w, r, b, h, c, reverse, late, relu):
    """All h of one direction, [T, B, H], and the last h and c."""
    wb, rb = np.split(b, 2)
    out = [None] * len(x)
    for t in range(len(x))[::-1 if reverse else 1]:
        if op == "RNN":
            h = x[t] @ w.T + wb + h @ r.T + rb
            h = np.maximum(h, 0) if relu else np.tanh(h)
        elif op == "LSTM":
            i, o, f, g = np.split(x[t] @ w.T + wb + h @ r.T + rb, 4, 1)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
        else:
            (wz, wr, wh), (rz, rr, rh), (bz, br, bh), (sz, sr, sh) = (np.split(one, 3) for one in (w, r, wb, rb))
            z, k = sigmoid(x[t] @ wz.T + h @ rz.T + bz + sz), sigmoid(x[t] @ wr.T + h @ rr.T + br + sr)
            g = np.tanh(x[t] @ wh.T + bh + (k * (h @ rh.T + sh) if late else (k * h) @ rh.T + sh))
            h = (1 - z) * g + z * h
        out[t] = h
    return np.stack(out), h, c


def check(op, direction="forward", bias=True, start=True, layout=0, late=0, relu=False, outputs=3, batch=B):
    gates, d = GATES[op], 2 if direction == "bidirectional" else 1
    x, w, r, b, h, c = (random.standard_normal(shape).astype(np.float32) for shape in
                        ((T, batch, I), (d, gates * H, I), (d, gates * H, H), (d, 2 * gates * H), (d, batch, H), (d, batch, H)))
    found = [steps(op, x.astype(np.float64), w[k], r[k], b[k] if bias else 0 * b[k], h[k] if start else 0 * h[k], c[k] if start else 0 * c[k],
                   direction == "reverse" or k == 1, late, relu) for k in range(d)]
    y, last, cell = np.stack([one[0] for one in found], 1), np.stack([one[1] for one in found]), np.stack([one[2] for one in found])
    if layout:
        x, h, c, y, last, cell = x.swapaxes(0, 1), h.swapaxes(0, 1), c.swapaxes(0, 1), y.transpose(2, 0, 1, 3), last.swapaxes(0, 1), cell.swapaxes(0, 1)
    operands = [("x", x), ("w", w), ("r", r), ("b", b) if bias else ("", None), ("", None)] + [("h", h)] * start + [("c", c)] * (start and op == "LSTM")
    attributes = {"hidden_size": H, "direction": direction, "layout": layout, **({"linear_before_reset": late} if op == "GRU" else {}),
                  **({"activations": ["Relu"] * d} if relu else {})}
    expected = ([y, last] + [cell] * (op == "LSTM"))[:outputs]
    it.right(f"{op} {direction} {bias} {start} {layout} {late} {relu}", op, operands, expected, attributes)


for op in GATES:
    for direction in ("forward", "reverse", "bidirectional"):
        check(op, direction)
        check(op, direction, layout=1)
    check(op, bias=False)
    check(op, start=False, outputs=1)
for direction in ("forward", "bidirectional"):
    check("GRU", direction, late=1)
    check("GRU", direction, late=1, bias=False)
check("RNN", "bidirectional", relu=True)
check("LSTM", batch=1)

for op, gates in GATES.items():
    good = [("x", (T, B, I)), ("w", (1, gates * H, I)), ("r", (1, gates * H, H))]
    size = {"hidden_size": H}
    it.refused(op, good, "direction 'backward' is not one of", {**size, "direction": "backward"})
    it.refused(op, good, "attribute 'clip' is not supported", {**size, "clip": 1.0})
    it.refused(op, good, "activation 'Softsign' is not supported here", {**size, "activations": ["Softsign"] * 3})
    it.refused(op, good, "hidden_size must be positive")
    it.refused(op, good, "attribute 'layout' is 2, and must be 0 or 1", {**size, "layout": 2})
    names = ["Sigmoid", "Tanh", "Tanh"] if op == "LSTM" else ["Sigmoid", "Tanh"] if op == "GRU" else ["Tanh"]
    it.refused(op, good, f"{2 * len(names)} activations are given for {len(names)}", {**size, "activations": names * 2})
    it.refused(op, good, f"{2 + (op == 'LSTM') + 1} outputs are more than it has", size,
               nodes=[node(op, ["x", "w", "r"], ["y0", "h", *["c"] * (op == "LSTM"), "more"], "it", **size)])
    it.refused(op, [("x", (T, B)), *good[1:]], "the operand must be [steps, batch, inputs]; it is tensor<4x2xf32>", size)
    it.refused(op, [("x", (513, B, I)), *good[1:]], "a sequence of 513 steps is not supported: 1 to 512 are unrolled", size)
    it.refused(op, [good[0], ("w", (1, gates * H, I + 1)), good[2]], f"operand 1 is tensor<1x{gates * H}x4xf32>, not tensor<1x{gates * H}x3xf32>", size)
    it.refused(op, [*good, ("b", (1, 7))], "operand 3 is tensor<1x7xf32>, not", size)
    it.refused(op, [*good, ("", None), ("", None), ("h", (2, B, H))], "operand 5 is tensor<2x2x5xf32>, not", size)
    it.refused(op, [*good, ("", None), ("lengths", np.array([T, T], np.int32))], "operand 4, lengths of sequences, is not supported", size)
it.refused("RNN", [("x", (T, B, I)), ("w", (2, H, I)), ("r", (2, H, H))], "activation 'Relu' is not supported here", {**size, "direction": "bidirectional", "activations": ["Tanh", "Relu"]})
it.refused("LSTM", good, "input_forget is not supported", {**size, "input_forget": 1})
it.refused("LSTM", [*good, *[("", None)] * 4, ("p", (1, 3 * H))], "operand 7, peepholes, is not supported", size)
it.finish()
