"""Compares the work of two imports of one size: scripted_work.py FOLDER.

Each file of TorchScript's exporter has as many matmuls as the other, whose weights have one initializer. In the first, they read it by one name.
In the second, an Identity gives it a name for each call of a module, and the importer must tell for each whether the weight is one that has a
name: it looks up the first such weight, names of the module, and what its scope reads. Processor times are compared with each other, so that the
machine does not count, each the smaller of two.
"""
import os
import pathlib
import resource
import subprocess
import sys

from onnx_writer import *

COUNT, MOST = 32000, 3


def write(path, has_names):
    nodes = [node("Identity", ["onnx::MatMul_0"], [f"onnx::MatMul_{i}"], f"Identity_{i}") for i in range(1, COUNT)] if has_names else []
    for i in range(COUNT):
        weight = f"onnx::MatMul_{i if has_names else 0}"
        nodes += [node("MatMul", [f"h{i}", weight], [f"p{i}"], f"/m/a_{i}/MatMul"), node("Add", ["m.a.bias", f"p{i}"], [f"h{i + 1}"], f"/m/a_{i}/Add")]
    nodes += [node("Mul", [f"h{COUNT}", f"h{COUNT}"], ["sq"], "/m/Mul"), node("ReduceMean", ["sq"], ["loss"], "/m/ReduceMean", keepdims=0)]
    weights = [floats("m.a.bias", [2], [0.5, 0.25]), floats("onnx::MatMul_0", [2, 2], [0.5, 0.0, 0.25, 0.5])]
    path.write_bytes(model(graph(nodes, [value("h0", ["batch", 2])], [value("loss", [])], weights), extra=field(2, b"pytorch")))


def work(path):
    """The processor time of an import, and its number of states. The tool itself is started: a copy of a server is no child of this process."""
    environment = {name: text for name, text in os.environ.items() if name != "SHALE_STARTS"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    run = subprocess.run(["shale-translate", "--import-onnx", path, "--dim", "batch=1"], capture_output=True, text=True, timeout=600, env=environment)
    assert run.returncode == 0, run.stderr
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before, run.stdout.count("nn.state @")


folder = pathlib.Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
least = {}
for has_names in [False, True]:
    write(folder / f"{has_names}.onnx", has_names)
for has_names in [False, True] * 2:
    spent, states = work(folder / f"{has_names}.onnx")
    assert states == 2, f"{states} parameters, not the weight and its bias"
    least[has_names] = min(spent, least.get(has_names, spent))
ratio = least[True] / least[False]
print(f"{least[True]:.2f} and {least[False]:.2f} seconds: {ratio:.2f}", file=sys.stderr)
print("linear" if ratio < MOST else f"{ratio:.1f} times the work of a file without names")
