"""A reference of ONNX's training form in numpy: evaluates a file with `training_info` step by step, in f64.

Every node is computed as ONNX's operator pages define it (ai.onnx, ai.onnx.preview.training 1), in the file's order: the graph, then the
algorithm. `Gradient` is computed backwards over the nodes that were evaluated, by a rule per operator. It shares nothing with Shale.
"""
import numpy as np
from onnx import numpy_helper


def attributes(node):
    import onnx
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


def unbroadcast(gradient, shape):
    while gradient.ndim > len(shape):
        gradient = gradient.sum(0)
    for axis, size in enumerate(shape):
        if size == 1 and gradient.shape[axis] != 1:
            gradient = gradient.sum(axis, keepdims=True)
    return gradient


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def cross_entropy(logits, labels):
    return np.mean(-np.log(softmax(logits)[np.arange(len(labels)), labels]))


def cross_entropy_gradient(dy, logits, labels):
    one_hot = np.eye(logits.shape[-1])[labels]
    return dy * (softmax(logits) - one_hot) / len(labels)


FORWARD = {
    "Identity": lambda x: x,
    "MatMul": lambda a, b: a @ b,
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mul": lambda a, b: a * b,
    "Tanh": np.tanh,
    "SoftmaxCrossEntropyLoss": cross_entropy,
}
# Gradients of the operands from that of the result: function of (dy, y, operands...).
BACKWARD = {
    "MatMul": lambda dy, y, a, b: (dy @ b.T, a.T @ dy),
    "Add": lambda dy, y, a, b: (unbroadcast(dy, a.shape), unbroadcast(dy, b.shape)),
    "Mul": lambda dy, y, a, b: (unbroadcast(dy * b, a.shape), unbroadcast(dy * a, b.shape)),
    "Tanh": lambda dy, y, x: (dy * (1 - y * y),),
    "SoftmaxCrossEntropyLoss": lambda dy, y, x, labels: (cross_entropy_gradient(dy, x, labels), None),
}


def gradient(nodes, values, y, xs):
    """Derivatives of the scalar y by each of xs, over the nodes before the Gradient."""
    grads = {y: np.ones_like(values[y])}
    for node in reversed(nodes):
        if node.domain or node.output[0] not in grads:
            continue
        parts = BACKWARD[node.op_type](grads[node.output[0]], values[node.output[0]], *(values[i] for i in node.input))
        for name, part in zip(node.input, parts):
            if part is not None:
                grads[name] = grads.get(name, 0) + part
    return [grads[x] for x in xs]


def adam(a, r, t, count, x, g, v, h):
    alpha, beta = a.get("alpha", np.float32(0.9)), a.get("beta", np.float32(0.999))
    g = a.get("norm_coefficient", 0.0) * x + g
    v = alpha * v + (1 - alpha) * g
    h = beta * h + (1 - beta) * g * g
    rate = r * np.sqrt(1 - beta ** t) / (1 - alpha ** t) if t > 0 else r
    x = x - rate * v / (np.sqrt(h) + a.get("epsilon", np.float32(1e-6)))
    return (1 - a.get("norm_coefficient_post", 0.0)) * x, v, h


def adagrad(a, r, t, count, x, g, h):
    rate = r / (1 + t * a.get("decay_factor", 0.0))
    g = a.get("norm_coefficient", 0.0) * x + g
    h = h + g * g
    return x - rate * g / (np.sqrt(h) + a.get("epsilon", np.float32(1e-6))), h


def momentum(a, r, t, count, x, g, v):
    g = a["norm_coefficient"] * x + g
    v = a["alpha"] * v + (a["beta"] if t > 0 else 1) * g
    return x - r * (g + a["alpha"] * v if a["mode"] == b"nesterov" else v), v


OPTIMIZERS = {"Adam": (adam, 4), "Adagrad": (adagrad, 3), "Momentum": (momentum, 3)}


def wide(value):
    return value.astype(np.float64) if value.dtype == np.float32 else value


def evaluate(nodes, values):
    """Computes the nodes in order; adds their results to `values`."""
    for number, node in enumerate(nodes):
        a = attributes(node)
        if node.op_type == "Constant":
            results = [wide(numpy_helper.to_array(a["value"]))]
        elif node.op_type == "ConstantOfShape":
            results = [np.full(values[node.input[0]], wide(numpy_helper.to_array(a["value"]))[0])]
        elif node.op_type == "Gradient":
            assert list(node.input) == [n.decode() for n in a["xs"] + a.get("zs", [])]
            results = gradient(nodes[:number], values, a["y"].decode(), [n.decode() for n in a["xs"]])
        elif node.op_type in OPTIMIZERS:
            function, lists = OPTIMIZERS[node.op_type]
            r, t, *rest = (values[name] for name in node.input)
            count = len(rest) // lists
            done = [function(a, r, t, count, *rest[i::count]) for i in range(count)]
            results = [one[k] for k in range(lists - 1) for one in done]
        else:
            results = [FORWARD[node.op_type](*(values[name] for name in node.input))]
        values.update(zip(node.output, results))


def start(model):
    """The mutable and the other initializers before the first step."""
    info = model.training_info[0]
    state = {t.name: wide(numpy_helper.to_array(t)) for graph in (model.graph, info.algorithm) for t in graph.initializer}
    values = {t.name: wide(numpy_helper.to_array(t)) for t in info.initialization.initializer}
    evaluate(info.initialization.node, values)
    state.update({entry.key: values[entry.value] for entry in info.initialization_binding})
    return state


def train(model, batches):
    """Runs one step per batch. Returns (loss, gradient norm) of each, and the final state."""
    info = model.training_info[0]
    state, steps = start(model), []
    nodes = list(model.graph.node) + list(info.algorithm.node)
    grads = [name for node in nodes if node.op_type == "Gradient" for name in node.output]
    y = next(attributes(node)["y"].decode() for node in nodes if node.op_type == "Gradient")
    for step in range(len(next(iter(batches.values())))):
        values = dict(state, **{name: wide(rows[step]) for name, rows in batches.items()})
        evaluate(nodes, values)
        steps.append((float(values[y]), float(np.sqrt(sum(np.sum(values[g] ** 2) for g in grads)))))
        state.update({entry.key: values[entry.value] for entry in info.update_binding})
    return steps, state


def check_gradient(model, batches):
    """Compares the first step's gradients with central differences. Returns the largest difference."""
    info = model.training_info[0]
    nodes = list(model.graph.node) + list(info.algorithm.node)
    at = dict(start(model), **{name: wide(rows[0]) for name, rows in batches.items()})
    full = dict(at)
    evaluate(nodes, full)
    worst, plain = 0.0, [node for node in nodes if not node.domain]
    plain = plain[:max(i for i, node in enumerate(plain) if node.op_type == "SoftmaxCrossEntropyLoss") + 1]
    for node in (node for node in nodes if node.op_type == "Gradient"):
        a = attributes(node)
        for x, name in zip(a["xs"], node.output):
            for index in np.ndindex(full[name].shape):
                sides = []
                for sign in (1, -1):
                    moved = {k: np.array(v) for k, v in at.items()}
                    moved[x.decode()][index] += sign * 1e-5
                    evaluate(plain, moved)
                    sides.append(moved[a["y"].decode()])
                worst = np.maximum(worst, abs((sides[0] - sides[1]) / 2e-5 - full[name][index]))  # NaN stays
    return worst
