"""If, Loop and Scan, whose bodies are imported as often as they run: control.py FOLDER."""
import sys

from definition import *

random = np.random.default_rng(0)
it = Definition(sys.argv[1])


def normal(*shape):
    return random.standard_normal(shape).astype(np.float32)


def branch(nodes, outputs, inputs=(), initializers=()):
    return Graph(graph(nodes, [value(name, []) for name in inputs], [value(name, []) for name in outputs], initializers))


x, w = normal(2, 3), normal(3, 3)
then, other = branch([node("MatMul", ["x", "w"], ["r"])], ["r"]), branch([node("Neg", ["x"], ["r"])], ["r"])
OPERANDS = [("c", np.array(True)), ("x", x), ("w", w)]


def if_case(what, condition, expected, **more):
    """The condition is the node's operand; x and w are read by the branches alone."""
    it.extra = [("x", x), ("w", w)]
    it.right(what, "If", [("c", np.array(condition))], expected, {"then_branch": then, "else_branch": other}, constants=("c",), **more)


if_case("If true", True, x @ w)
if_case("If false", False, -x)
# A body that reads the weight of the outer graph: h = tanh(h w), and collects h + i.
step = branch([node("MatMul", ["h", "w"], ["p"]), node("Tanh", ["p"], ["h1"]), node("Cast", ["i"], ["f"], to=FLOAT), node("Add", ["h1", "f"], ["seen"]),
               node("Identity", ["c"], ["c1"])], ["c1", "h1", "seen"], ["i", "c", "h"])
h, states = x.astype(np.float64), []
for i in range(4):
    h = np.tanh(h @ w)
    states.append(h + i)
it.extra = [("w", w)]
it.right("Loop, four times", "Loop", [("n", np.array(4)), ("c", None), ("h", x)], [h, np.stack(states)], {"body": step}, constants=("n",))
it.right("Loop, once", "Loop", [("n", np.array(1)), ("c", np.array(True)), ("h", x)], [np.tanh(x.astype(np.float64) @ w), None], {"body": step}, constants=("n", "c"))
it.right("Loop, never", "Loop", [("n", np.array(0)), ("c", None), ("h", x)], [x], {"body": step}, constants=("n",))
it.right("Loop, condition false", "Loop", [("n", np.array(4)), ("c", np.array(False)), ("h", x)], [x], {"body": step}, constants=("n", "c"))
until = branch([node("Add", ["h", "h"], ["h1"]), node("Constant", [], ["two"], value=ints("", [], [2])), node("Less", ["i", "two"], ["c1"])], ["c1", "h1"], ["i", "c", "h"])
it.extra = []
it.right("Loop until a condition", "Loop", [("n", None), ("c", None), ("h", x)], [8 * x], {"body": until})
# A recurrence h = a h + x over time, as in state-space models; the second result is h of each time.
recurrence = branch([node("Mul", ["h", "w"], ["a"]), node("Add", ["a", "e"], ["h1"]), node("Identity", ["h1"], ["out"])], ["h1", "out"], ["h", "e"])
first, times, decay = normal(3), normal(5, 3), normal(3)
it.extra = [("w", decay)]
for what, attributes, order in (("Scan", {}, range(5)), ("Scan backwards", {"scan_input_directions": [1], "scan_output_directions": [1]}, range(4, -1, -1))):
    h, outs = first.astype(np.float64), {}
    for i in order:
        h = h * decay + times[i]
        outs[i] = h
    it.right(what, "Scan", [("h", first), ("e", times)], [h, np.stack([outs[i] for i in range(5)])], {"body": recurrence, "num_scan_inputs": 1} | attributes)
h, outs = first.astype(np.float64), []
for i in range(5):
    h = h * decay + times[i]
    outs.append(h)
it.right("Scan, last dimensions", "Scan", [("h", first), ("e", times.T.copy())], [h, np.stack(outs, -1)], {"body": recurrence, "num_scan_inputs": 1, "scan_input_axes": [1], "scan_output_axes": [-1]})

it.extra = [("x", x), ("w", w)]
BOTH = {"then_branch": then, "else_branch": other}
it.refused("If", [("c", np.array(True))], "the condition must be known at compile time", BOTH)
it.refused("If", [("c", np.array([True, False]))], "the condition must be known at compile time", BOTH, constants=("c",))
it.refused("If", [("c", np.array(True))], "attribute 'else_branch' must be a graph", {"then_branch": then}, constants=("c",))
it.refused("If", [("c", np.array(True))], "attribute 'then_branch' must be a graph", {"then_branch": 3, "else_branch": other}, constants=("c",))
it.refused("If", [("c", np.array(True))], "the branch has 1 outputs, not 2", BOTH, constants=("c",), results=2)
it.refused("If", [("c", np.array(True))], "its then_branch does not define its output 'nothing'", BOTH | {"then_branch": branch([], ["nothing"])}, constants=("c",))
it.refused("If", [("c", np.array(True))], "its then_branch has 1 inputs, not 0", BOTH | {"then_branch": branch([], ["x"], ["y"])}, constants=("c",))
it.extra = [("w", w)]
LOOP = [("n", np.array(3)), ("c", None), ("h", x)]
it.refused("Loop", LOOP, "operand 0 ('n') must be known at compile time", {"body": step})
it.refused("Loop", LOOP, "attribute 'body' must be a graph", constants=("n",))
it.refused("Loop", LOOP, "its body has 0 outputs for a condition and 1 carried values", {"body": branch([], [], ["i", "c", "h"])}, constants=("n",))
it.refused("Loop", LOOP, "its body has 2 inputs, not 3", {"body": branch([], ["c", "h"], ["c", "h"])}, constants=("n",))
it.refused("Loop", LOOP, "the loop has 3 results, its body makes 2", {"body": step}, constants=("n",), results=3)
it.refused("Loop", [("n", np.array(0)), ("c", None), ("h", x)], "result 1 has no elements, as the body never runs", {"body": step}, constants=("n",), results=2)
forever = branch([node("Identity", ["h"], ["h1"]), node("Identity", ["c"], ["c1"])], ["c1", "h1"], ["i", "c", "h"])
it.refused("Loop", [("n", np.array(1 << 40)), ("c", None), ("h", x)], "the loop runs more than 10000 times", {"body": forever}, constants=("n",))
decided = branch([node("ReduceSum", ["h"], ["s"], keepdims=0), node("Constant", [], ["z"], value=floats("", [], [0.0])), node("Less", ["s", "z"], ["c1"]), node("Identity", ["h"], ["h1"])], ["c1", "h1"], ["i", "c", "h"])
it.refused("Loop", LOOP, "the condition of the loop must be known at compile time", {"body": decided}, constants=("n",))
# Loops without nodes count as well: 10000 times 200 loops of 10000 empty iterations each.
empty = branch([], ["c", "h"], ["i", "c", "h"])
nested = branch([node("Loop", ["n", "", "h"], [f"h{i}"], "it", body=empty) for i in range(200)], ["c", "h199"], ["i", "c", "h"])
it.refused("Loop", [("n", np.array(10000)), ("h", x)], "with its functions and loops unrolled, the graph has more than 1000000 nodes", constants=("n",),
           nodes=[node("Loop", ["n", "", "h"], ["y0"], "outer", body=nested)])
SCAN = [("h", first), ("e", times)]
it.refused("Scan", SCAN, "num_scan_inputs is 0 of 2 operands", {"body": recurrence})
it.refused("Scan", SCAN, "num_scan_inputs is 3 of 2 operands", {"body": recurrence, "num_scan_inputs": 3})
it.refused("Scan", SCAN, "axis 2 is out of range", {"body": recurrence, "num_scan_inputs": 1, "scan_input_axes": [2]})
it.refused("Scan", SCAN, "scan_output_axes has 2 values, not 1", {"body": recurrence, "num_scan_inputs": 1, "scan_output_axes": [0, 1]})
it.refused("Scan", [("h", (5, 3)), ("e", (4, 3))], "scanned operands have 5 and 4 slices", {"body": branch([node("Add", ["h", "e"], ["s"])], ["s"], ["h", "e"]), "num_scan_inputs": 2})
it.refused("Scan", [("e", (20000, 3))], "the scan runs more than 10000 times", {"body": branch([], ["e"], ["e"]), "num_scan_inputs": 1})
it.finish()
