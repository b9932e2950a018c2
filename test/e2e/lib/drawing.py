"""Draws ONNX graphs for graphs.py: `drawn(seed)` returns a Draw, `joined(draws)` a model of them."""
import math

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

LARGE, MOST = 200.0, 4096  # of values, of elements
OPSETS = (13, 17, 18, 20, 21, 23)
FLOAT, INT, BOOL = np.float32, np.int64, np.bool_
KINDS = {np.dtype(FLOAT): TensorProto.FLOAT, np.dtype(INT): TensorProto.INT64, np.dtype(np.int32): TensorProto.INT32, np.dtype(BOOL): TensorProto.BOOL}
# What may change a little: all values alike, or each by its last bit, so that equal values stay equal and nearly equal ones change places.
NOISES = (lambda value: value * FLOAT(1 + 1e-4) + FLOAT(1e-5), lambda value: value * np.where(value.view(np.int32) & 1, FLOAT(1 + 1e-4), FLOAT(1 - 1e-4)))


class Skip(Exception):
    """The operator does not apply to the values that there are."""


class Draw:
    """A graph while it is drawn. Values are known by name. All names begin with `prefix`."""

    def __init__(self, seed, prefix=""):
        self.random, self.prefix = np.random.default_rng(seed), prefix
        self.opset = int(self.random.choice(OPSETS))
        self.values, self.inputs, self.initializers, self.nodes, self.used = {}, {}, {}, [], set()
        for i in range(int(self.random.integers(2, 5))):
            self.add_input(self.random.standard_normal(self.shape()).astype(FLOAT))
        self.add_input(self.random.integers(0, 4, self.shape()).astype(INT))

    def integer(self, low, high):
        """From low to high, both included."""
        if high < low:
            raise Skip
        return int(self.random.integers(low, high + 1))

    def shape(self, rank=None):
        return tuple(self.integer(1, 6) for _ in range(self.integer(1, 4) if rank is None else rank))

    def add_input(self, value):
        name = f"{self.prefix}x{len(self.inputs)}"
        self.inputs[name] = self.values[name] = value
        return name

    def constant(self, values, kind=INT):
        """Operands such as shapes: an initializer, or a node."""
        name = f"{self.prefix}c{len(self.initializers) + len(self.nodes)}_{len(self.values)}"
        value = np.asarray(values, kind)
        self.values[name] = value
        self.initializers[name] = value
        return name

    def pick(self, kind=FLOAT, rank=None, test=lambda value: True):
        """The name of a value; a later one is more likely."""
        names = [name for name, value in self.values.items() if name not in self.initializers and value.dtype == kind and value.size > 0
                 and (rank is None or value.ndim in (rank if isinstance(rank, tuple) else (rank,))) and test(value)]
        if not names:
            raise Skip
        return names[int(len(names) * self.random.random() ** 0.6)]

    def weights(self, *shape, scale=1.0):
        """A new input of floats."""
        return self.add_input((self.random.standard_normal(shape) * scale).astype(FLOAT))

    def axis(self, name, low=0):
        rank = self.values[name].ndim
        if rank <= low:
            raise Skip
        at = self.integer(low, rank - 1)
        return at - rank if self.random.random() < 0.3 else at

    def emit(self, op, inputs, outputs=1, domain="", **attributes):
        """Adds the node if its values are well behaved. Returns the names of its results."""
        names = [f"{self.prefix}v{len(self.nodes)}_{i}" for i in range(outputs)]
        node = helper.make_node(op, inputs, names, name=f"{self.prefix}n{len(self.nodes)}", domain=domain, **attributes)
        operands = {name: self.values[name] for name in inputs if name}
        for graph in (attribute.g for attribute in node.attribute if attribute.HasField("g")):
            operands |= {name: self.values[name] for inner in graph.node for name in inner.input if name in self.values}
        session = evaluator(self, node, operands)
        results = session.run(names, operands)
        for noise in NOISES:
            moved = {name: noise(value) if value.dtype == FLOAT and name not in self.initializers else value for name, value in operands.items()}
            for one, other in zip(results, session.run(names, moved)):
                if one.dtype not in KINDS or one.size > MOST or one.size == 0:
                    raise Skip
                if one.dtype == FLOAT:
                    if not np.isfinite(one).all() or not np.isfinite(other).all() or np.abs(one).max() > LARGE or (np.abs(one - other) > 3e-3 * (1 + np.abs(one))).any():
                        raise Skip
                elif (one != other).any() or (one.dtype != BOOL and np.abs(one).max() > 1 << 20):
                    raise Skip
        self.nodes.append(node)
        self.used.update(operands)
        self.values.update(zip(names, results))
        return names

    def parts(self):
        """The nodes, the operands in use and the results that no node reads."""
        made = {name: self.values[name] for node in self.nodes for name in node.output if name}
        ends = [name for name in made if name not in self.used]
        inputs = {name: value for name, value in self.inputs.items() if name in self.used}
        return self.nodes, inputs, {name: value for name, value in self.initializers.items() if name in self.used}, {name: made[name] for name in ends}



def joined(draws):
    """One model of the graphs, which have the same operator set and different prefixes, its inputs and the names of its outputs."""
    nodes, inputs, initializers, ends = [], {}, {}, {}
    for draw in draws:
        own = draw.parts()
        nodes += own[0]
        for all_of_them, more in zip((inputs, initializers, ends), own[1:]):
            all_of_them.update(more)
    graph = helper.make_graph(nodes, "random", [info(name, value) for name, value in inputs.items()], [info(name, value) for name, value in ends.items()],
                              [numpy_helper.from_array(value, name) for name, value in initializers.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", draws[0].opset), helper.make_opsetid("com.microsoft", 1)], ir_version=8)
    onnx.checker.check_model(model)
    return model, inputs, list(ends)


def info(name, value):
    return helper.make_tensor_value_info(name, KINDS[value.dtype], value.shape)


def open_session(model):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def evaluator(draw, node, operands):
    """A session of one node."""
    graph = helper.make_graph([node], "one", [info(name, value) for name, value in operands.items() if name not in draw.initializers],
                              [onnx.ValueInfoProto(name=name) for name in node.output],
                              [numpy_helper.from_array(value, name) for name, value in operands.items() if name in draw.initializers])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", draw.opset), helper.make_opsetid("com.microsoft", 1)], ir_version=8)
    try:
        session = open_session(model)
    except Exception:
        raise Skip from None  # ONNX Runtime does not have the operator in this operator set

    class Session:
        def run(self, names, values):
            try:
                return session.run(names, {name: value for name, value in values.items() if name not in draw.initializers})
            except Exception:
                raise Skip from None
    return Session()


# ---- operators. Each function adds one, or raises Skip.

UNARY = ["Abs", "Neg", "Exp", "Sqrt", "Tanh", "Sigmoid", "Erf", "Sin", "Cos", "Relu", "Softplus", "Softsign", "Reciprocal", "Log", "Sign", "Floor", "Ceil", "Round",
         "Identity", "HardSwish", "Mish", "Gelu", "Elu", "Selu", "Celu", "LeakyRelu", "HardSigmoid", "ThresholdedRelu", "Swish"]
RECENT = {"HardSwish": 14, "Mish": 18, "Gelu": 20, "Swish": 24}


def unary(d):
    op = str(d.random.choice([op for op in UNARY if d.opset >= RECENT.get(op, 0)]))
    x = d.pick()
    if op in ("Sqrt", "Log"):
        x = d.emit("Abs", [x])[0]
    extra = {"alpha": round(d.random.uniform(0.1, 1.5), 2)} if op in ("Elu", "Celu", "LeakyRelu", "ThresholdedRelu") else {}
    extra |= {"approximate": "tanh"} if op == "Gelu" and d.random.random() < 0.5 else {}
    d.emit(op, [x], **extra)


def partner(d, name, kind=FLOAT):
    """A value that broadcasts with the first: there already, or a new input."""
    shape = d.values[name].shape

    def fits(value):
        try:
            return np.prod(np.broadcast_shapes(shape, value.shape)) <= MOST
        except ValueError:
            return False

    if d.random.random() < 0.5:
        return d.pick(kind, test=fits)
    some = [size if d.random.random() < 0.7 else 1 for size in shape[d.integer(0, len(shape)):]]
    if kind == BOOL:
        return d.add_input(d.random.random(some) < 0.5)
    return d.weights(*some) if kind == FLOAT else d.add_input(np.asarray(d.random.integers(0, 4, some), INT))


def binary(d):
    op, kind = str(d.random.choice(["Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "Mod", "PRelu"])), FLOAT
    if d.random.random() < 0.2 and op in ("Add", "Sub", "Mul", "Max", "Min", "Mod"):
        kind = INT
    a = d.pick(kind)
    b = partner(d, a, kind)
    if op == "Pow":
        a, b = d.emit("Abs", [a])[0], d.constant(d.random.choice([2, 3, 0.5, -1, 1.5, 0]), FLOAT)
    if op == "Mod":
        if kind == FLOAT:
            d.emit("Mod", [a, d.constant(1.75, FLOAT)], fmod=1)
        else:
            d.emit("Mod", [a, d.constant(d.integer(1, 5))], fmod=d.integer(0, 1))
        return
    if op == "PRelu" and np.broadcast_shapes(d.values[a].shape, d.values[b].shape) != d.values[a].shape:
        raise Skip
    d.emit(op, [a, b] if d.random.random() < 0.7 or op == "PRelu" else [b, a])


def variadic(d):
    names = [d.pick()]
    for _ in range(d.integer(0, 2)):
        names.append(partner(d, names[0]))
    d.emit(str(d.random.choice(["Sum", "Mean", "Max", "Min"])), names)


def compare(d):
    kind = FLOAT if d.random.random() < 0.6 else INT
    a = d.pick(kind)
    d.emit(str(d.random.choice(["Greater", "Less", "GreaterOrEqual", "LessOrEqual", "Equal"])), [a, partner(d, a, kind)])


def logic(d):
    a = d.pick(BOOL)
    op = str(d.random.choice(["And", "Or", "Xor", "Not"]))
    d.emit(op, [a] if op == "Not" else [a, partner(d, a, BOOL)])


def where(d):
    kind = FLOAT if d.random.random() < 0.8 else INT
    a = d.pick(kind)
    d.emit("Where", [partner(d, a, BOOL), a, partner(d, a, kind)])


def convert(d):
    to = d.random.choice([FLOAT, INT, np.int32, BOOL])
    x = d.pick(d.random.choice([FLOAT, INT, BOOL]))
    if d.values[x].dtype == FLOAT and to != FLOAT:
        x = d.emit("Floor", [x])[0]
    d.emit("Cast", [x], to=KINDS[np.dtype(to)])


def clip(d):
    low, high = sorted(d.random.uniform(-2, 2, 2).round(2))
    x = d.pick()
    d.emit("Clip", [x, d.constant(low, FLOAT), d.constant(high, FLOAT)] if d.random.random() < 0.7 else [x, "", d.constant(high, FLOAT)])


def classify(d):
    d.emit(str(d.random.choice(["IsNaN", "IsInf"])), [d.pick()])


def reduction(d):
    op = str(d.random.choice(["Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSumExp", "SumSquare", "LogSum"]))
    x = d.pick()
    if op == "LogSum":
        x = d.emit("Abs", [x])[0]
    axes = sorted({d.axis(x) % d.values[x].ndim for _ in range(d.integer(1, 2))})
    keep = {"keepdims": d.integer(0, 1)}
    if d.random.random() < 0.15:
        d.emit("Reduce" + op, [x], **keep)
    elif d.opset >= (13 if op == "Sum" else 18):
        d.emit("Reduce" + op, [x, d.constant(axes)], **keep)
    else:
        d.emit("Reduce" + op, [x], axes=axes, **keep)


def softmax(d):
    x = d.pick()
    d.emit(str(d.random.choice(["Softmax", "LogSoftmax", "Hardmax"])), [x], axis=d.axis(x))


def matmul(d):
    a = d.pick(rank=(1, 2, 3, 4))
    shape = d.values[a].shape
    k, n = shape[-1], d.integer(1, 6)
    if len(shape) == 1:
        b = d.weights(k, n)
    else:
        batch = [size if d.random.random() < 0.7 else 1 for size in shape[:-2]][d.integer(0, len(shape) - 2):]
        b = d.weights(*batch, k, *([n] if d.random.random() < 0.9 or batch else []))
    d.emit("MatMul", [a, b])


def gemm(d):
    a = d.pick(rank=2)
    trans, turned = d.integer(0, 1), d.integer(0, 1)
    m, k = d.values[a].shape if not trans else d.values[a].shape[::-1]
    n = d.integer(1, 6)
    c = [[d.weights(n)], [d.weights(m, 1)], [d.weights(m, n)], [d.weights()], []][d.integer(0, 4)]
    d.emit("Gemm", [a, d.weights(*((n, k) if turned else (k, n))), *c], transA=trans, transB=turned, alpha=0.5, beta=1.5)


def fused_matmul(d):
    a = d.pick(rank=(2, 3))
    trans = d.integer(0, 1)
    shape = d.values[a].shape
    k = shape[-2] if trans else shape[-1]
    d.emit("FusedMatMul", [a, d.weights(*shape[:-2], d.integer(1, 5), k)], domain="com.microsoft", transA=trans, transB=1, alpha=0.75)


def einsum(d):
    equation, a, b = [("ij,jk->ik", 2, 2), ("bij,bjk->bik", 3, 3), ("bij,kj->bik", 3, 2), ("bhqd,bhkd->bhqk", 4, 4), ("ij,ij->i", 2, 2), ("...i,i->...", 3, 1)][d.integer(0, 5)]
    x = d.pick(rank=a)
    sizes = dict(zip(equation.split(",")[0], d.values[x].shape)) if "." not in equation else {"i": d.values[x].shape[-1]}
    second = equation.split(",")[1].split("->")[0]
    d.emit("Einsum", [x, d.weights(*(sizes.setdefault(letter, d.integer(1, 5)) for letter in second))], equation=equation)


def transpose(d):
    x = d.pick(d.random.choice([FLOAT, INT]), rank=(1, 2, 3, 4, 5))
    d.emit("Transpose", [x], perm=[int(i) for i in d.random.permutation(d.values[x].ndim)])


def reshape(d):
    x = d.pick(d.random.choice([FLOAT, INT, BOOL]))
    rest, shape = d.values[x].size, []
    while rest > 1 and len(shape) < 4:
        size = d.random.choice([n for n in range(1, rest + 1) if rest % n == 0])
        shape.append(int(size))
        rest //= size
    shape.append(int(rest))
    if d.random.random() < 0.4:
        shape[d.integer(0, len(shape) - 1)] = -1
    d.emit("Reshape", [x, d.constant(shape)])


def small_shapes(d):
    op = str(d.random.choice(["Flatten", "Squeeze", "Unsqueeze", "Expand", "Tile", "Shape", "Size"]))
    x = d.pick()
    value = d.values[x]
    if op == "Flatten":
        d.emit(op, [x], axis=d.integer(0, value.ndim))
    elif op == "Squeeze":
        ones = [i for i, size in enumerate(value.shape) if size == 1]
        if not ones:
            raise Skip
        d.emit(op, [x, d.constant(ones[:1])] if d.random.random() < 0.6 else [x])
    elif op == "Unsqueeze":
        d.emit(op, [x, d.constant([d.integer(0, value.ndim)])])
    elif op == "Expand":
        d.emit(op, [x, d.constant([d.integer(1, 3)] * d.integer(0, 1) + [size if size > 1 else d.integer(1, 4) for size in value.shape])])
    elif op == "Tile":
        d.emit(op, [x, d.constant([d.integer(1, 2) for _ in value.shape])])
    else:
        d.emit(op, [x])


def slice_it(d):
    x = d.pick(d.random.choice([FLOAT, INT]))
    axis = d.axis(x)
    size, step = d.values[x].shape[axis], int(d.random.choice([1, 1, 2, -1, -2]))
    a, b = d.integer(-size, size - 1), d.integer(-size - 1, size + 2)
    d.emit("Slice", [x, d.constant([a]), d.constant([b]), d.constant([axis]), d.constant([step])])


def concat(d):
    x = d.pick()
    axis = d.axis(x)
    more = list(d.values[x].shape)
    more[axis] = d.integer(1, 4)
    d.emit("Concat", [x, d.weights(*more), x][:d.integer(2, 3)], axis=axis)


def split(d):
    x = d.pick()
    axis = d.axis(x)
    size = d.values[x].shape[axis]
    if size < 2:
        raise Skip
    first = d.integer(1, size - 1)
    d.emit("Split", [x, d.constant([first, size - first])], outputs=2, axis=axis)


def pad(d):
    x = d.pick()
    rank = d.values[x].ndim
    d.emit("Pad", [x, d.constant([d.integer(0, 2) for _ in range(2 * rank)]), d.constant(0.5, FLOAT)])


def indices(d, shape, size):
    """Indices in [0, size), half of them known, and then also negative."""
    if d.random.random() < 0.5:
        return d.constant(d.random.integers(-size, size, shape))
    return d.add_input(np.asarray(d.random.integers(0, size, shape), INT))


def gather(d):
    x = d.pick(d.random.choice([FLOAT, FLOAT, INT]))
    axis = d.axis(x)
    d.emit("Gather", [x, indices(d, d.shape(d.integer(0, 2)), d.values[x].shape[axis])], axis=axis)


def gather_elements(d):
    x = d.pick()
    axis = d.axis(x)
    shape = list(d.values[x].shape)
    shape[axis] = d.integer(1, 4)
    d.emit("GatherElements", [x, indices(d, shape, d.values[x].shape[axis])], axis=axis)


def gather_nd(d):
    x = d.pick()
    length = d.integer(1, d.values[x].ndim)
    least = min(d.values[x].shape[:length])
    d.emit("GatherND", [x, indices(d, (*d.shape(1), length), least)])


def scatter_elements(d):
    x = d.pick()
    axis = d.axis(x)
    shape = list(d.values[x].shape)
    size = shape[axis]
    shape[axis] = d.integer(1, size)
    lines = np.moveaxis(np.zeros(shape, INT), axis, -1)
    for place in np.ndindex(lines.shape[:-1]):  # no index is twice: ONNX leaves open which update wins
        lines[place] = d.random.permutation(size)[:shape[axis]]
    at = np.moveaxis(lines, -1, axis)
    how = str(d.random.choice(["none", "add", "mul", "max", "min"])) if d.opset >= 18 else "none"
    name = d.constant(at) if d.random.random() < 0.5 else d.add_input(np.ascontiguousarray(at))
    d.emit("ScatterElements", [x, name, d.weights(*shape)], axis=axis, **({"reduction": how} if how != "none" else {}))


def scatter_nd(d):
    x = d.pick()
    shape = d.values[x].shape
    length = d.integer(1, len(shape))
    count = math.prod(shape[:length])
    places = d.random.permutation(count)[:d.integer(1, min(count, 5))]
    at = np.stack(np.unravel_index(places, shape[:length]), -1).astype(INT)
    how = str(d.random.choice(["none", "add", "mul", "max", "min"])) if d.opset >= 18 else "none"
    name = d.constant(at) if d.random.random() < 0.5 else d.add_input(at)
    d.emit("ScatterND", [x, name, d.weights(len(places), *shape[length:])], **({"reduction": how} if how != "none" else {}))


def top_k(d):
    x = d.pick()
    axis = d.axis(x)
    d.emit("TopK", [x, d.constant([d.integer(1, d.values[x].shape[axis])])], outputs=2, axis=axis, largest=d.integer(0, 1))


def arg_extreme(d):
    x = d.pick()
    d.emit(str(d.random.choice(["ArgMax", "ArgMin"])), [x], axis=d.axis(x), keepdims=d.integer(0, 1), select_last_index=d.integer(0, 1))


def one_hot(d):
    x = d.pick(INT, test=lambda value: value.min() >= 0 and value.max() < 8)
    d.emit("OneHot", [x, d.constant(8), d.constant([0.25, 1.5], FLOAT)], axis=d.integer(0, d.values[x].ndim))


def cumsum(d):
    x = d.pick()
    d.emit("CumSum", [x, d.constant(d.axis(x))], exclusive=d.integer(0, 1), reverse=d.integer(0, 1))


def trilu(d):
    x = d.pick(rank=(2, 3))
    d.emit("Trilu", [x, d.constant(d.integer(-2, 2))] if d.opset >= 14 else [x], upper=d.integer(0, 1))


def constants(d):
    op = d.integer(0, 2)
    if op == 0:
        d.emit("ConstantOfShape", [d.constant(d.shape())], value=numpy_helper.from_array(np.array([1.5], FLOAT)))
    elif op == 1:
        d.emit("Range", [d.constant(d.integer(-3, 3)), d.constant(d.integer(4, 9)), d.constant(d.integer(1, 2))])
    else:
        d.emit("EyeLike", [d.pick(rank=2)], k=d.integer(-1, 1))


def layer_norm(d):
    x = d.pick(test=lambda value: value.shape[-1] > 1 if value.ndim else False)
    n, kind = d.values[x].shape[-1], d.integer(0, 4)
    if kind == 0 and d.opset >= 17:
        d.emit("LayerNormalization", [x, d.weights(n), d.weights(n)], axis=-1, epsilon=0.01)
    elif kind == 1 and d.opset >= 23:
        d.emit("RMSNormalization", [x, d.weights(n)], epsilon=0.01)
    elif kind == 2:
        d.emit("LpNormalization", [x], axis=-1, p=d.integer(1, 2))
    elif kind == 3 and d.values[x].ndim == 3:
        d.emit("SkipLayerNormalization", [x, d.weights(*d.values[x].shape), d.weights(n), d.weights(n)], domain="com.microsoft", epsilon=0.01)
    elif d.values[x].ndim == 3:
        d.emit("SkipSimplifiedLayerNormalization", [x, d.weights(*d.values[x].shape), d.weights(n)], domain="com.microsoft", epsilon=0.01)
    else:
        raise Skip


def channel_norm(d):
    x = d.pick(rank=(3, 4), test=lambda value: math.prod(value.shape[2:]) > 1)
    c, kind = d.values[x].shape[1], d.integer(0, 2)
    if kind == 0:
        d.emit("InstanceNormalization", [x, d.weights(c), d.weights(c)], epsilon=0.01)
    elif kind == 1 and d.opset >= 21:
        d.emit("GroupNormalization", [x, d.weights(c), d.weights(c)], num_groups=int(d.random.choice([g for g in range(1, c + 1) if c % g == 0])), epsilon=0.01)
    else:
        d.emit("BatchNormalization", [x, d.weights(c), d.weights(c), d.weights(c), d.add_input(np.abs(d.random.standard_normal(c)).astype(FLOAT) + 0.5)])


def windows(d, shape):
    """Attributes of kernels that fit."""
    kernel = [d.integer(1, min(size, 3)) for size in shape]
    attributes = {"kernel_shape": kernel, "strides": [d.integer(1, 2) for _ in kernel]}
    if d.random.random() < 0.6:
        attributes["pads"] = [d.integer(0, k - 1) for k in kernel + kernel]
    return attributes


def pool(d):
    x = d.pick(rank=(3, 4))
    op, attributes = str(d.random.choice(["AveragePool", "MaxPool"])), windows(d, d.values[x].shape[2:])
    attributes["ceil_mode"] = d.integer(0, 1)
    if op == "AveragePool":
        attributes["count_include_pad"] = d.integer(0, 1)
    d.emit(op, [x], **attributes) if d.random.random() < 0.8 else d.emit(str(d.random.choice(["GlobalAveragePool", "GlobalMaxPool"])), [x])


def resize(d):
    x = d.pick(rank=(4,))
    sizes = [*d.values[x].shape[:2], d.integer(1, 7), d.integer(1, 7)]
    places = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"]
    d.emit("Resize", [x, "", "", d.constant(sizes)], mode=str(d.random.choice(["nearest", "linear", "cubic"])), coordinate_transformation_mode=str(d.random.choice(places)))


def conv(d):
    x = d.pick(rank=(3, 4))
    channels, spatial = d.values[x].shape[1], d.values[x].shape[2:]
    group = int(d.random.choice([1, channels]))
    attributes, results = windows(d, spatial), group * d.integer(1, 3)
    weight = d.weights(results, channels // group, *attributes["kernel_shape"], scale=0.5)
    d.emit("Conv", [x, weight] + ([d.weights(results)] if d.random.random() < 0.5 else []), group=group, **attributes)


def attention(d):
    b, h, t, n, s = d.integer(1, 2), d.integer(1, 3), d.integer(1, 5), d.integer(1, 4) * 2, d.integer(1, 5)
    kind = d.integer(0, 4)
    if kind == 0 and d.opset >= 23:
        group = int(d.random.choice([g for g in range(1, h + 1) if h % g == 0]))
        causal = d.integer(0, 1)
        s = t if causal else s
        mask = [[], [d.weights(t, s)], [d.add_input(np.concatenate([np.ones((t, 1), bool), d.random.random((t, s - 1)) < 0.6], 1))]][d.integer(0, 2)]
        d.emit("Attention", [d.weights(b, h, t, n), d.weights(b, group, s, n), d.weights(b, group, s, n), *mask], is_causal=causal, softcap=float(d.integer(0, 1) * 2))
    elif kind == 1 and d.opset >= 23:
        at = d.add_input(np.asarray(d.random.integers(0, 6, (b, t)), INT))
        d.emit("RotaryEmbedding", [d.weights(b, h, t, n), d.weights(6, n // 2), d.weights(6, n // 2), at], interleaved=d.integer(0, 1))
    elif kind == 2:
        d.emit("MultiHeadAttention", [d.weights(b, t, h * n), d.weights(b, s, h * n), d.weights(b, s, h * n), d.weights(3 * h * n) if d.random.random() < 0.5 else ""], domain="com.microsoft", num_heads=h)
    elif kind == 3:
        at = d.add_input(np.asarray(d.random.integers(0, 6, (b, t)), INT))
        d.emit("RotaryEmbedding", [d.weights(b, t, h * n), at, d.weights(6, n // 2), d.weights(6, n // 2)], domain="com.microsoft", interleaved=d.integer(0, 1), num_heads=h)
    else:
        group = int(d.random.choice([g for g in range(1, h + 1) if h % g == 0]))
        total = [d.constant([t - 1] * b, np.int32), d.constant(t, np.int32)]
        n *= 4  # ONNX Runtime needs multiples of 8
        d.emit("GroupQueryAttention", [d.weights(b, t, h * n), d.weights(b, t, group * n), d.weights(b, t, group * n), "", "", *total], domain="com.microsoft",
               num_heads=h, kv_num_heads=group, local_window_size=int(d.random.choice([-1, 2])))


def activation(d):
    x = d.pick(test=lambda value: value.ndim > 0)
    op = str(d.random.choice(["FastGelu", "BiasGelu", "QuickGelu", "Gelu"]))
    d.emit(op, [x] + ([d.weights(d.values[x].shape[-1])] if op in ("FastGelu", "BiasGelu") else []), domain="com.microsoft")


def control(d):
    x = d.pick()
    kind = d.integer(0, 2)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    if kind == 0:
        branch = [helper.make_graph([helper.make_node(op, [x], ["y"])], "branch", [], [y]) for op in ("Tanh", "Neg")]
        d.emit("If", [d.constant(bool(d.integer(0, 1)), BOOL)], then_branch=branch[0], else_branch=branch[1])
    elif kind == 1:
        scalar = [helper.make_tensor_value_info("i", TensorProto.INT64, []), helper.make_tensor_value_info("c", TensorProto.BOOL, [])]
        state = helper.make_tensor_value_info("h", TensorProto.FLOAT, d.values[x].shape)
        nodes = [helper.make_node("Tanh", ["h"], ["g"]), helper.make_node("Add", ["g", x], ["y"]), helper.make_node("Identity", ["c"], ["more"])]
        more = helper.make_tensor_value_info("more", TensorProto.BOOL, [])
        d.emit("Loop", [d.constant(d.integer(1, 4)), "", x], body=helper.make_graph(nodes, "body", scalar + [state], [more, y]))
    else:
        if d.values[x].ndim < 2:
            raise Skip
        inner = d.values[x].shape[1:]
        state, each = (helper.make_tensor_value_info(name, TensorProto.FLOAT, inner) for name in ("h", "e"))
        nodes = [helper.make_node("Mul", ["h", "e"], ["g"]), helper.make_node("Tanh", ["g"], ["y"]), helper.make_node("Identity", ["y"], ["z"])]
        z = helper.make_tensor_value_info("z", TensorProto.FLOAT, None)
        d.emit("Scan", [d.weights(*inner), x], outputs=2, body=helper.make_graph(nodes, "body", [state, each], [y, z]), num_scan_inputs=1)


OPERATORS = [unary] * 5 + [binary] * 5 + [variadic, compare, logic, where, convert, clip, classify, reduction, reduction, softmax, matmul, matmul, gemm, fused_matmul,
             einsum, transpose, reshape, reshape, small_shapes, small_shapes, slice_it, slice_it, concat, split, pad, gather, gather, gather_elements, gather_nd,
             scatter_elements, scatter_nd, top_k, arg_extreme, one_hot, cumsum, trilu, constants, layer_norm, layer_norm, channel_norm, pool, resize, conv, attention, attention,
             activation, control]


def drawn(seed, prefix=""):
    d = Draw(seed, prefix)
    wanted, tries = d.integer(5, 30), 0
    while len(d.nodes) < wanted and tries < 20 * wanted:
        tries += 1
        try:
            OPERATORS[d.integer(0, len(OPERATORS) - 1)](d)
        except Skip:
            pass
    return d
