#!/usr/bin/env python3
"""Measures time and memory of the import of large files: Llama 2 7B with its weights beside it, and chains of elementwise ops.

usage: imports.py --build build [--record [PAGE]]

`shale-translate --import-onnx` reads each file. The weights of the 7B model are 27 GB of external data, a sparse file of zeros, which the
importer refers to and does not read. Fails if a figure exceeds its bar: 2 s and 300 MiB for the 7B model, 10 s for 100,000 nodes. Twice
the nodes may take 2.6 times as long; the better of two runs counts.
"""
import subprocess
import sys

import record
from plans import SCALE
from record import fail, timed

sys.path[:0] = [str(SCALE.parent), str(SCALE.parents[1] / "lib" / "Frontend" / "ONNX")]
from onnx_writer import floats, graph, model, node, value  # noqa: E402
from scale import decode  # noqa: E402

MIB = float(1 << 20)
CHAINS = [50_000, 100_000]


def chain(count):
    """`count` nodes: a matmul, elementwise ops of which every fourth reads a parameter of its own, and the loss."""
    weights, nodes = [floats("w", [4, 2], [0.1] * 8)], [node("MatMul", ["x", "w"], ["a0"], "matmul")]
    links = count - 3
    for i in range(links):
        op, operands = ["Tanh", "Sigmoid", "Neg", "Add"][i % 4], [f"a{i}"]
        if op == "Add":
            operands.append(f"bias{i}")
            weights.append(floats(f"bias{i}", [2], [0.1, 0.2]))
        nodes.append(node(op, operands, [f"a{i + 1}"], f"link{i}"))
    nodes += [node("Mul", [f"a{links}", f"a{links}"], ["z"], "square"), node("ReduceMean", ["z"], ["loss"], "mean", keepdims=0)]
    return model(graph(nodes, [value("x", ["batch", 4])], [value("loss", [])], weights))


def measure(a, file, dims, nodes, allowed, mib):
    flags = [*(word for dim in dims for word in ("--dim", dim)), "--quiet", "-o", "/dev/null"]
    results = [timed([f"{a.build}/bin/shale-translate", "--import-onnx", file, *flags]) for _ in range(2)]
    _, seconds, cpu, memory = min(results, key=lambda result: result[1])
    command = f"shale-translate --import-onnx {file.name} {' '.join(flags)}"
    if seconds > allowed or (mib and memory > mib * MIB):
        fail(f"{seconds:.1f} s and {memory / MIB:.0f} MiB, where {allowed} s and {mib or 'any'} MiB are allowed: {command}")
    print(f"{file.name}, {nodes} nodes: {seconds:.2f} s ({cpu:.2f} s of CPU), {memory / MIB:.0f} MiB", flush=True)
    return seconds, (command, [nodes, f"{seconds:.2f} s ({cpu:.2f} s of CPU)", f"{memory / MIB:.0f} MiB", f"{allowed} s, {mib} MiB" if mib else f"{allowed} s"])


def rows(a, work):
    file = work / "llama-7b.onnx"
    subprocess.run([sys.executable, SCALE, "llama-7b", file], check=True)
    with open(work / "llama-7b.data", "wb") as data:
        data.truncate(1 << 36)
    graph_bytes = next(v for number, v in decode(file.read_bytes()) if number == 7)
    nodes = sum(number == 1 for number, _ in decode(graph_bytes))
    yield measure(a, file, ["batch=1", "sequence=4096"], nodes, 2, 300)[1]
    taken = []
    for count in CHAINS:
        file = work / f"chain-{count}.onnx"
        file.write_bytes(chain(count))
        seconds, row = measure(a, file, ["batch=3"], count, 10, None)
        taken.append(seconds)
        yield row
    if taken[1] > 2.6 * taken[0]:
        fail(f"{CHAINS[1]} nodes take {taken[1] / taken[0]:.1f} times as long as {CHAINS[0]}")


if __name__ == "__main__":
    record.main({"imports": rows})
