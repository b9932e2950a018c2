"""If, Loop and Scan, whose bodies are imported as often as they run: control.py FOLDER."""
import subprocess
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
it.right("Loop until a condition", "Loop", [("n", None), ("c", np.array(True)), ("h", x)], [8 * x], {"body": until}, constants=("c",))
it.right("Loop until a condition or a count", "Loop", [("n", np.array(2)), ("c", np.array(True)), ("h", x)], [4 * x], {"body": until}, constants=("n", "c"))
# Without a condition operand ONNX ignores the body's condition.
it.right("Loop, condition ignored", "Loop", [("n", np.array(5)), ("c", None), ("h", x)], [32 * x], {"body": until}, constants=("n",))
said = subprocess.run(["shale-translate", "--import-onnx", it.folder / "model.onnx"], capture_output=True, text=True).stderr
if said.count("(Loop)") != 1 or "note: node 'it' (Loop): the body's condition is false after 3 iterations. The loop continues" not in said:
    sys.exit(f"Loop, condition ignored: {said}")
decided = branch([node("ReduceSum", ["h"], ["s"], keepdims=0), node("Constant", [], ["z"], value=floats("", [], [0.0])), node("Less", ["s", "z"], ["c1"]), node("Add", ["h", "h"], ["h1"])], ["c1", "h1"], ["i", "c", "h"])
it.right("Loop, unknown condition ignored", "Loop", [("n", np.array(3)), ("c", None), ("h", x)], [8 * x], {"body": decided}, constants=("n",))
it.refused("Loop", [("n", None), ("c", None), ("h", x)], "it has neither a trip count nor a condition", {"body": until})
# Weights of a body are parameters, one for all iterations. Those of the two branches have one name.
inner = normal(3, 3)
stored = branch([node("MatMul", ["h", "u"], ["p"]), node("Tanh", ["p"], ["h1"]), node("Identity", ["c"], ["c1"])], ["c1", "h1"], ["i", "c", "h"], [tensor("u", [3, 3], FLOAT, inner.tobytes())])
h = x.astype(np.float64)
for i in range(3):
    h = np.tanh(h @ inner)
it.stored = [("u", inner)]
it.right("Loop with a weight", "Loop", [("n", np.array(3)), ("c", None), ("h", x)], [h], {"body": stored}, constants=("n",))


def expect_states(*names):
    text = (it.folder / "model.mlir").read_text()
    states = [line.split("@")[1].split(" ")[0] for line in text.splitlines() if "nn.state @" in line]
    if sorted(states) != sorted(names):
        sys.exit(f"parameters are {states}, not {names}")


expect_states("h", "u")
table = branch([node("Mul", ["h", "inv_freq"], ["h1"]), node("Identity", ["c"], ["c1"])], ["c1", "h1"], ["i", "c", "h"], [tensor("inv_freq", [3], FLOAT, inner[0].tobytes())])
it.stored = []
it.right("Loop with a table", "Loop", [("n", np.array(2)), ("c", None), ("h", x)], [x * inner[0] * inner[0]], {"body": table}, constants=("n",))
expect_states("h")
said = subprocess.run(["shale-translate", "--import-onnx", it.folder / "model.onnx"], capture_output=True, text=True).stderr
if said.count("remark: ") != 1 or "initializer 'inv_freq' of the body is a constant: it is no parameter of the file" not in said:
    sys.exit(f"Loop with a table: {said}")
branches = [branch([node(op, ["x", "u"], ["r"])], ["r"], initializers=[tensor("u", [3, 3] if op == "MatMul" else [3], FLOAT, (inner if op == "MatMul" else inner[0]).tobytes())]) for op in ("MatMul", "Add")]
it.extra, it.stored = [("x", x)], [("u", inner), ("it.else_branch.u", inner[0])]
it.right("If with weights", "If", [("c", np.array(False))], x + inner[0], {"then_branch": branches[0], "else_branch": branches[1]}, constants=("c",))
expect_states("x", "it.else_branch.u", "u")
it.extra = it.stored = []
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
it.refused("Loop", LOOP, "it has 3 results, and its body makes 2", {"body": step}, constants=("n",), results=3)
it.refused("Loop", [("n", np.array(0)), ("c", None), ("h", x)], "result 1 has no elements, as the body never runs", {"body": step}, constants=("n",), results=2)
forever = branch([node("Identity", ["h"], ["h1"]), node("Identity", ["c"], ["c1"])], ["c1", "h1"], ["i", "c", "h"])
it.refused("Loop", [("n", np.array(1 << 40)), ("c", None), ("h", x)], "the loop runs more than 10000 times", {"body": forever}, constants=("n",))
it.refused("Loop", [("n", np.array(3)), ("c", np.array(True)), ("h", x)], "the condition of the loop must be known at compile time", {"body": decided}, constants=("n", "c"))
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
