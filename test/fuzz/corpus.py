#!/usr/bin/env python3
"""Writes the seeds of the fuzz targets: a model of one block, its module after each stage, command lines, files of a run, and messages.

usage: corpus.py --build DIR    (writes test/fuzz/corpus)
"""
import argparse
import json
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "lib" / "Frontend" / "ONNX"))
from run import TARGETS  # noqa: E402
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


def of_compiler(shalec, out):
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



def of_runtime(out):
    tensors = {"__metadata__": {"format": "pt"}, "wte.weight": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
               "mask": {"dtype": "BOOL", "shape": [4], "data_offsets": [24, 28]}, "scale": {"dtype": "BF16", "shape": [], "data_offsets": [28, 30]},
               "none": {"dtype": "I64", "shape": [0, 7], "data_offsets": [30, 30]}}
    (out / "safetensors" / "four").write_text(json.dumps(tensors) + "\n" + "v" * 30)
    (out / "safetensors" / "empty").write_text("{}\n")
    digits, file = "0123456789abcdef", "rank00000.safetensors"
    old = {"parameter": "wte.weight", "role": "param", "dtype": "F32", "begin": 0, "end": 6, "file": file, "offset": 72, "xxh3": digits}
    # Two chunks of 64 and 16 bytes, each with the checksums of two parts of its rows.
    piece = {**old, "end": 20, "offset": 16, "xxh3": digits * 4, "parts": {"row": 4, "count": 2},
             "box": {"shape": [5, 8], "start": [0, 4], "size": [5, 4]}}
    sums = {"header_bytes": 0, "header": "2d06800538d394c2", "whole": digits}  # XXH3 of nothing
    body = {"format": "shale-checkpoint", "version": 3, "chunk_bytes": 64, "step": 3, "updates": 2, "data_row": 12, "seed": 7, "model": "m.onnx", "strategy": "full",
            "optimizer": "adamw", "world_size": 2, "flags": {"lr": "0.1"},
            "data": [{"name": "d.bin", "bytes": 96, "rows": 3, "hash": digits}], "norms": {"count": 3, "mean": 0.5, "skipped": 1},
            "axes": [{"name": "fsdp", "size": 2}], "parameters": [{"name": "wte.weight", "dtype": "F32", "shape": [5, 8]}],
            "files": {file: 96, "rank00001.safetensors": 96}, "checksums": {file: sums, "rank00001.safetensors": sums},
            "pieces": [piece, {**piece, "role": "exp_avg", "file": "rank00001.safetensors"}]}
    (out / "manifest" / "new").write_text(json.dumps(body))
    kept = {key: value for key, value in body.items() if key not in ("checksums", "updates", "norms", "chunk_bytes", "data")}
    (out / "manifest" / "old").write_text(json.dumps({**kept, "version": 1, "pieces": [old]}))
    (out / "manifest" / "share").write_text(json.dumps({"chunk_bytes": 64, "pieces": [piece], "files": [[file, 96, 16, 1, 2]]}))
    dictionary = "{'descr': '<u2', 'fortran_order': False, 'shape': (4,), }"
    (out / "tokens" / "npy").write_text(f".npy uint16 0\n{dictionary}\n12345678")
    (out / "tokens" / "npy2").write_text(f".npy 2 300\n{dictionary.replace('<u2', '|u1')}\n1234")
    (out / "tokens" / "bin").write_text(".bin uint16 50257\n" + "ab" * 80)
    (out / "tokens" / "wide").write_bytes(b".bin uint16 50257\n" + b"a\0\0\0b\0\0\0" * 40)
    (out / "tokens" / "bytes").write_text(".txt uint8 256\nhello")
    header = struct.pack("<256i", 20240520, 1, 6, *[0] * 253)
    (out / "tokens" / "llmc").write_bytes(b".bin uint16 50257\n" + header + b"123456789012")
    for kind in "ad":
        (out / "peers" / kind).write_text(kind)
    sizes = (0, 1, 24, 4096, 10000)
    ready = b"".join(struct.pack("<IIQQ", 1, 1, i, size) for i, size in enumerate(sizes))
    data = b"".join(struct.pack("<IIQQ", 2, 0, i, size) + b"d" * size for i, size in enumerate(sizes))
    text = b"rank 1 (host other, pid 7) failed"
    (out / "peers" / "frames").write_bytes(b"f" + ready + data + struct.pack("<IIQQ", 6, 0, 0, 0))
    (out / "peers" / "failure").write_bytes(b"f" + struct.pack("<IIQQ", 3, 0, 0, 0) + struct.pack("<IIQQ", 5, 0, 0, len(text)) + text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    shalec = parser.parse_args().build.resolve() / "bin" / "shalec"
    out = HERE / "corpus"
    shutil.rmtree(out, ignore_errors=True)
    for name in TARGETS:
        (out / name).mkdir(parents=True)
    of_compiler(shalec, out)
    of_runtime(out)


if __name__ == "__main__":
    main()
