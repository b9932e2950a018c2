"""Integers of 8, 16 and 32 bits that values do not have, by numpy's arithmetic of these types: narrow.py FOLDER."""
import sys

from definition import *

random = np.random.default_rng(0)
it = Definition(sys.argv[1])
CODES = {np.uint8: 2, np.int8: 3, np.uint16: 4, np.int16: 5, np.uint32: 12}


def cast(name, to, result):
    return node("Cast", [name], [result], to=to)


def check(what, op, kind, arrays, expected, attributes={}):
    """The operands are int64 and cast to the type, the result is cast back. The result is compared element by element, as the sums of a loss are rounded."""
    names = [f"x{i}" for i in range(len(arrays))]
    nodes = [cast(name, CODES[kind], f"{name}n") for name in names] + [node(op, [f"{name}n" for name in names], ["r"], "it", **attributes), cast("r", INT64, "wide"), node("Equal", ["wide", "e"], ["y0"])]
    it.right(f"{kind.__name__}: {what}", op, list(zip(names, [array.astype(np.int64) for array in arrays])) + [("e", expected.astype(np.int64))], np.ones(expected.shape), nodes=nodes, differentiable=False)


for kind in CODES:
    low, high = int(np.iinfo(kind).min), int(np.iinfo(kind).max)
    a = np.array([low, high, high - 1, 3, 7, low + 1]).astype(kind)
    b = np.array([high, high, 2, 5, low, 1]).astype(kind)
    with np.errstate(all="ignore"):
        for op, function in (("Add", np.add), ("Sub", np.subtract), ("Mul", np.multiply)):
            check(op, op, kind, [a, b], function(a, b))
        check("Sum", "Sum", kind, [a, b, a], a + b + a)
        check("Max", "Max", kind, [a, b], np.maximum(a, b))
        check("ReduceSum", "ReduceSum", kind, [a], a.sum(keepdims=True, dtype=kind))
        # A type that the cast makes narrower, and one through a function of shapes alone.
        wide = np.array([-1, 256, 65536, 1 << 33, -129, 70000], np.int64)
        it.right(f"{kind.__name__}: Cast of larger numbers", "Cast", [("x", wide), ("e", wide.astype(kind).astype(np.int64))], np.ones(6), differentiable=False,
                 nodes=[cast("x", CODES[kind], "n"), cast("n", INT64, "w"), node("Equal", ["w", "e"], ["y0"])])
        # Constants of the type, in its own bytes, and what follows from one.
        stored = node("Constant", [], ["k"], value=tensor("", [6], CODES[kind], a.tobytes()))
        it.right(f"{kind.__name__}: a constant", "Add", [("e", (a + a).astype(np.int64))], np.ones(6), differentiable=False,
                 nodes=[stored, node("Transpose", ["k"], ["t"]), node("Add", ["t", "k"], ["s"], "it"), cast("s", INT64, "w"), node("Equal", ["w", "e"], ["y0"])])
    check("a comparison", "Less", kind, [a, b], a < b)
    # 32-bit integers after such a type are not reduced.
    it.right(f"{kind.__name__}: a cast to int32 ends it", "Add", [("x", np.array([100, 100])), ("e", np.array([200, 200], np.int64) * 100000)], np.ones(2), differentiable=False,
             nodes=[cast("x", CODES[kind], "n"), cast("n", INT32, "i"), node("Constant", [], ["f"], value=tensor("", [], INT32, np.int32(200000).tobytes())), node("Mul", ["i", "f"], ["m"], "it"),
                    cast("m", INT64, "w"), node("Equal", ["w", "e"], ["y0"])])
seven = np.array([3, 7])
body = Graph(graph([node("Add", ["h", "h"], ["h1"]), node("Identity", ["c"], ["c1"])], [value(name, []) for name in ("i", "c", "h")], [value(name, []) for name in ("c1", "h1")]))
it.right("uint8: carried by a loop", "Loop", [("n", np.array(6)), ("x", seven), ("e", (seven * 64) % 256)], np.ones(2), constants=("n",), differentiable=False,
         nodes=[cast("x", 2, "b"), node("Loop", ["n", "", "b"], ["l"], "it", body=body), cast("l", INT64, "w"), node("Equal", ["w", "e"], ["y0"])])

collected = Graph(graph([node("Identity", ["h"], ["h1"]), node("Identity", ["c"], ["c1"])], [value(name, []) for name in ("i", "c", "h")], [value(name, []) for name in ("c1", "h1", "h1")]))
it.refused("Loop", [("n", np.array(2)), ("x", seven)], "integers other than int32 and int64 cannot be collected", constants=("n",), results=1,
           nodes=[cast("x", 2, "b"), node("Loop", ["n", "", "b"], ["l", "y0"], "it", body=collected)])
it.refused("SplitToSequence", [("x", seven)], "a sequence of integers other than int32 and int64 is not supported",
           nodes=[cast("x", 2, "b"), node("SplitToSequence", ["b"], ["q"], "it"), node("SequenceAt", ["q", "q"], ["y0"])])
it.refused("Cast", [("x", seven)], "attribute 'to': element type 13 is not supported", nodes=[node("Cast", ["x"], ["y0"], "it", to=13)])
it.refused("Constant", [("x", seven)], "attribute 'value': it has 3 bytes, but its shape needs 4", nodes=[node("Constant", [], ["y0"], "it", value=tensor("", [2], 4, b"abc"))])
it.finish()
