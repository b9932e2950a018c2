"""The initial value of a weight in a 16-bit type is that of the file, to the bit. A model with an f64 weight is refused before it is
planned or described.

usage: half.py FOLDER. The weight holds every sign and exponent, including zeros and the smallest numbers, but no infinities.
"""
import pathlib
import subprocess
import sys

import numpy as np

from onnx_writer import *

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "e2e" / "lib"))
from runner import read_safetensors, save_safetensors  # noqa: E402

BF16, F16, F64 = 16, 10, 11
ROWS, COLUMNS = 64, 8


def run(*command):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120)
    if result.returncode:
        sys.exit(f"{' '.join(map(str, command))}: {result.returncode}\n{result.stdout}{result.stderr}")
    return result


def write_model(folder, kind, data):
    folder.mkdir(parents=True, exist_ok=True)
    body = [node("MatMul", ["x", "w"], ["y"], "product"), node("Tanh", ["y"], ["t"], "tanh"), node("ReduceMean", ["t"], ["loss"], "mean", keepdims=0)]
    weight = tensor("w", [ROWS, COLUMNS], kind, data)
    (folder / "model.onnx").write_bytes(model(graph(body, [value("x", ["batch", ROWS], kind)], [value("loss", [], kind)], [weight])))


def check(folder, name, kind, flags, said):
    folder /= name
    bits = (np.arange(ROWS * COLUMNS) * 127).astype(np.uint16)
    exponent = 0x7F80 if kind == BF16 else 0x7C00
    bits[(bits & exponent) == exponent] = 0
    wanted = (bits.astype(np.uint32) << 16).view(np.float32) if kind == BF16 else bits.view(np.float16).astype(np.float32)
    write_model(folder, kind, bits.tobytes())
    compiled = run("shalec", folder / "model.onnx", "--dim", "batch=2", "-o", folder / "train", *flags)
    if ("note: the model is in" in compiled.stderr) != bool(said) or said not in compiled.stderr:
        sys.exit(f"{name}: shalec said {compiled.stderr}")
    save_safetensors(folder / "x.safetensors", {"x": np.zeros((1, 2, ROWS), np.float32)})
    subprocess.run(["rm", "-rf", folder / "run"], check=True)
    run(folder / "train", "--data", folder / "x.safetensors", "--steps", 0, "--out", folder / "run")
    got = read_safetensors(folder / "run" / "model.safetensors")["w"]
    if got.dtype != np.float32 or not np.array_equal(got.flatten().view(np.uint32), wanted.view(np.uint32)):
        sys.exit(f"{name}: begins with {got.flatten()[:9]}, not {wanted[:9]}")
    print(f"{name}: begins with the file's values")


folder = pathlib.Path(sys.argv[1])
check(folder, "bf16", BF16, [], "note: the model is in bf16: --param-dtype bf16, parameters at rest in f32; --param-dtype f32 trains it in f32")
check(folder, "f16", F16, [], "note: the model is in f16: --param-dtype f16, parameters at rest in f32; --param-dtype f32 trains it in f32")
check(folder, "bf16 in f32", BF16, ["--param-dtype", "f32"], "")
check(folder, "bf16 in f16", BF16, ["--param-dtype", "f16"], "")
check(folder, "f16 in bf16", F16, ["--param-dtype", "bf16"], "")

write_model(folder / "f64", F64, np.zeros(ROWS * COLUMNS).tobytes())
for flags in (["--describe"], ["--plan-only"], ["-o", folder / "f64" / "train"]):
    refused = subprocess.run(["shalec", str(folder / "f64" / "model.onnx"), "--dim", "batch=2", *map(str, flags)], capture_output=True, text=True, timeout=120)
    if refused.returncode != 65 or refused.stderr.count("error: ") != 1:
        sys.exit(f"f64: {refused.returncode}\n{refused.stderr}")
    print(f"f64 {flags[0]}: {refused.stderr[refused.stderr.index('shalec: error: '):]}", end="")
