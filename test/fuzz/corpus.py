#!/usr/bin/env python3
"""Writes the seeds of the fuzz targets: a model of one block, its module after each stage, and command lines.

usage: corpus.py --build DIR    (writes test/fuzz/corpus)
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "lib" / "Frontend" / "ONNX"))
from onnx_writer import floats, graph, ints, model, node, tensor, value  # noqa: E402

WIDTH = 4


def block():
    """A linear layer, LayerNorm written out, a GELU, a lookup and a loss."""
    weights = [floats(name, shape, [0.01 * (i % 7) for i in range(shape[0] * (shape[1] if len(shape) > 1 else 1))])
               for name, shape in (("h.0.fc.weight", [WIDTH, WIDTH]), ("h.0.fc.bias", [WIDTH]), ("ln.weight", [WIDTH]),
                                   ("ln.bias", [WIDTH]), ("wte.weight", [8, WIDTH]), ("head.weight", [WIDTH, 8]))]
    nodes = [node("Gather", ["wte.weight", "tokens"], ["e"], name="/wte/Gather"),
             node("LayerNormalization", ["e", "ln.weight", "ln.bias"], ["n"], name="/ln/Norm", axis=-1),
             node("MatMul", ["n", "h.0.fc.weight"], ["m"], name="/h.0/fc/MatMul"),
             node("Add", ["m", "h.0.fc.bias"], ["a"], name="/h.0/fc/Add"),
             node("Relu", ["a"], ["r"], name="/h.0/act/Relu"),
             node("Add", ["r", "e"], ["s"], name="/h.0/Add"),
             node("MatMul", ["s", "head.weight"], ["logits"], name="/head/MatMul"),
             node("Transpose", ["logits"], ["classes"], name="/Transpose", perm=[0, 2, 1]),
             node("SoftmaxCrossEntropyLoss", ["classes", "labels"], ["loss"], name="/loss/Loss", reduction="mean")]
    return model(graph(nodes, [value("tokens", ["batch", 4], 7), value("labels", ["batch", 4], 7)], [value("loss", [])], weights))


def small():
    """Shapes that are computed, constants, a branch and external data."""
    nodes = [node("Shape", ["x"], ["shape"]), node("Gather", ["shape", "zero"], ["rows"]), node("Unsqueeze", ["rows", "axes"], ["list"]),
             node("Concat", ["list", "rest"], ["to"], axis=0), node("Reshape", ["x", "to"], ["y"]),
             node("Transpose", ["y"], ["t"], perm=[0, 2, 1]), node("ReduceMean", ["t", "axes"], ["z"], keepdims=0),
             node("Gemm", ["z", "w", "b"], ["g"], alpha=1.0, transB=1), node("Softmax", ["g"], ["p"], axis=-1), node("ReduceMean", ["p"], ["loss"], keepdims=0)]
    weights = [ints("zero", [], [0]), ints("axes", [1], [0]), ints("rest", [2], [2, 2]), floats("w", [2, 2], [1, 2, 3, 4]),
               tensor("b", [2], external={"location": "data.bin", "offset": 0, "length": 8})]
    return model(graph(nodes, [value("x", ["batch", 4])], [value("loss", [])], weights))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    shalec = parser.parse_args().build.resolve() / "bin" / "shalec"
    out = HERE / "corpus"
    shutil.rmtree(out, ignore_errors=True)
    for name in ("onnx", "ir", "external", "flags"):
        (out / name).mkdir(parents=True)
    (out / "onnx" / "block").write_bytes(block())
    (out / "onnx" / "small").write_bytes(small())
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "m.onnx")
        file.write_bytes(block())
        flags = ["--dim", "batch=2", "--mesh", "fsdp=2", "--shard", "full", "--target", "cpu:x86-64-v3"]
        subprocess.run([shalec, file, *flags, "--optimizer", "momentum", "--save-temps", f"{folder}/stages", "-o", f"{folder}/train"], check=True,
                       stdout=subprocess.DEVNULL)
        for dump in sorted(pathlib.Path(folder, "stages").glob("*.mlir")):
            text = re.sub(r"^//.*\n", "", dump.read_text().replace(folder, "/tmp"), flags=re.M)
            if "codegen" not in dump.name:
                (out / "ir" / dump.stem).write_text(text)
    for name, text in (("inside", "data.bin\n0\n8\n12345678"), ("offset", "data.bin\n4\n8\n123456789012"), ("link", "link.bin\n0\n8\n123456789012"),
                       ("outside", "../outside.bin\n0\n8\n123456789012"), ("absolute", "/etc/passwd\n0\n8\n123456789012")):
        (out / "external" / name).write_text(text)
    for name, words in (("plain", ["m.onnx", "-o", "p"]), ("mesh", ["m.onnx", "--mesh=hosts:replica=2,gpus:shard=4", "--shard=hybrid"]),
                        ("plan", ["m.onnx", "--plan-only", "--memory-limit=device=1GiB,host=2GiB", "--compare=shard,recompute=none|block"]),
                        ("types", ["m.onnx", "--param-dtype=bf16", "--offload=params,grads:0.5", "--recompute=block:0.5", "--unit=size:100M"]),
                        ("model", ["m.onnx", "--dim", "batch=2/rank", "--loss=mse:y,t", "--bind=x=tokens+1", "--report=memory=r.json"])):
        (out / "flags" / name).write_text("\n".join(words))


if __name__ == "__main__":
    main()
