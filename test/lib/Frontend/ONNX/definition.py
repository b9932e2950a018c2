"""Checks operators against their definitions in numpy, for the scripts of this folder.

A graph has one node and the loss is a weighted sum of its results, so every element counts. Float operands are parameters, whose
gradients are compared with central differences; other operands, and those of `inputs`, are inputs of the graph.
"""
import pathlib
import subprocess
import sys

import numpy as np

from onnx_writer import *

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "e2e" / "lib"))
from runner import read_safetensors, save_safetensors  # noqa: E402

DOUBLE = 11
TYPES = {np.dtype(np.float32): FLOAT, np.dtype(np.int32): INT32, np.dtype(np.int64): INT64, np.dtype(np.bool_): BOOL}


def expect_refusal(file, said, what):
    """The import of a file must fail with exit code 65 and one error, which contains `said`."""
    result = subprocess.run(["shale-translate", "--import-onnx", file], capture_output=True, text=True, timeout=600)
    if result.returncode != 65 or result.stderr.count("error: ") != 1 or said not in result.stderr:
        sys.exit(f"{what}: {result.returncode}, not '{said}' but\n{result.stderr}")


def run(*command):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=600)
    if result.returncode:
        sys.exit(f"{' '.join(map(str, command))}: {result.returncode}\n{result.stdout[-2000:]}{result.stderr[-2000:]}")
    return result.stdout


class Definition:
    def __init__(self, folder, opsets=(("", 18), ("com.microsoft", 1))):
        self.folder, self.opsets, self.right_count, self.refused_count = pathlib.Path(folder), opsets, 0, 0
        self.extra = []  # further parameters, (name, array), which subgraphs read
        self.stored = []  # those that subgraphs have as initializers
        self.folder.mkdir(parents=True, exist_ok=True)

    def write(self, op, operands, results, attributes, domain, inputs, opsets, constants=(), nodes=None):
        """Writes model.onnx. `nodes` replace the node of the operator; they make y0, y1, .. `results`: shape and element type of each result, None if the node does not have it."""
        names = ["" if value is None else name for name, value in operands]
        outputs = ["" if result is None else f"y{i}" for i, result in enumerate(results)]
        body, terms = list(nodes or [node(op, names, outputs, "it", domain, **attributes)]), []
        for i, result in enumerate(results):
            if result is not None:
                body += [node("Cast", [f"y{i}"], [f"f{i}"], to=FLOAT), node("Mul", [f"f{i}", f"weight{i}"], [f"z{i}"]),
                         node("ReduceSum", [f"z{i}"], [f"s{i}"], keepdims=0)]
                terms.append(f"s{i}")
        body.append(node("Sum", terms, ["loss"]))
        declared = [value(f"weight{i}", list(result[0])) for i, result in enumerate(results) if result is not None]
        weights = []
        for name, array in operands + self.extra:
            if array is None:
                continue
            if name in constants or (array.dtype == np.float32 and name not in inputs):
                weights.append(tensor(name, list(array.shape), TYPES[array.dtype], np.ascontiguousarray(array).tobytes()))
            else:
                declared.append(value(name, list(array.shape), TYPES[array.dtype]))
        (self.folder / "model.onnx").write_bytes(model(graph(body, declared, [value("loss", [])], weights), opsets=opsets or self.opsets))

    def right(self, what, op, operands, expected, attributes={}, domain="", inputs=(), constants=(), opsets=None, differentiable=True, bar=1e-5, nodes=None, wide=True):
        """With `wide`, all floats are computed in 64 bits. `operands`: list of (name, array or None). `expected`: an array, or a list with None for a result that the node does not have."""
        expected = expected if isinstance(expected, list) else [expected]
        results = [None if value is None else (np.shape(value), None) for value in expected]
        self.write(op, operands, results, attributes, domain, inputs, opsets, constants, nodes)
        random = np.random.default_rng(len(what))
        arrays = {name: value for name, value in operands + self.extra + self.stored if value is not None and name not in constants}
        wanted = scale = 0
        for i, value in enumerate(expected):
            if value is not None:
                weight = random.integers(-9, 10, np.shape(value)).astype(np.float32)
                arrays[f"weight{i}"] = weight
                wanted += (np.asarray(value, np.float64) * weight).sum()
                scale += np.abs(np.asarray(value, np.float64) * weight).sum()
        save_safetensors(self.folder / "inputs.safetensors", arrays)
        text = run("shale-translate", "--import-onnx", self.folder / "model.onnx")
        (self.folder / "model.mlir").write_text(text)
        recovered = run("shale-opt", "--shale-stage-recover", self.folder / "model.mlir")
        (self.folder / "recovered.mlir").write_text(recovered)
        for name in ("model", "recovered"):
            run("shale-run", *(["--as=f64"] if wide else []), *(["--check-gradient"] if differentiable else []),
                f"--inputs={self.folder}/inputs.safetensors", f"--out={self.folder}/out.safetensors", self.folder / f"{name}.mlir")
            loss = read_safetensors(self.folder / "out.safetensors")["loss"]
            if not abs(loss - wanted) <= bar * max(scale, 1e-3):
                sys.exit(f"{what} ({name}.mlir): {loss}, not {wanted} (of {scale})")
        self.right_count += 1
        ops = sorted({line.split(" = nn.")[1].split()[0] for line in recovered.splitlines() if " = nn." in line} - {"constant"})
        print(f"{what}: right, by {' '.join(ops)}")

    def refused(self, op, operands, message, attributes={}, domain="", results=1, inputs=(), constants=(), opsets=None, nodes=None):
        """The import fails with one error at the node. An operand may be a shape, of floats."""
        operands = [(name, np.zeros(value, np.float32) if isinstance(value, tuple) else value) for name, value in operands]
        self.write(op, operands, [((), None)] * results, attributes, domain, inputs, opsets, constants, nodes)
        expect_refusal(self.folder / "model.onnx", f"node 'it' ({op}): {message}", f"{op} {attributes}")
        self.refused_count += 1

    def finish(self):
        print(f"{self.right_count} right, {self.refused_count} refused")
