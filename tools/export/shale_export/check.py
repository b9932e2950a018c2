"""Compares the file with the module: runs one batch in PyTorch and in ONNX Runtime."""
import pathlib
import subprocess

import torch

from .batch import WithoutDropout, loss_of
from .cli import DATA, Failure, brief, libraries, note

BAR = 1e-4      # relative, for f32: the order of sums may differ
LARGE = 1 << 31  # bytes: the largest model that is serialized in memory


def compare(a, built, path, total, batches):
    with libraries():
        import onnx
        import onnxruntime
    values, _ = batches.other()
    half = a.dtype == "bf16"
    changed = half or built.has_dropout
    if changed and total * (2 if half else 1) > LARGE:
        note("the file is not compared: ONNX Runtime would need it changed, and it is larger than 2 GiB")
        return
    model = onnx.load(str(path)) if changed else None
    if half:
        widen(onnx, model)
        values = {name: value.float() if value.is_floating_point() else value for name, value in values.items()}
    if built.has_dropout:
        keep_all(model)
    wanted = reference(built, values, half)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString() if changed else str(path), options, providers=["CPUExecutionProvider"])
        found = session.run(None, {one.name: values[one.name].numpy() for one in session.get_inputs()})[0]
    except Exception as error:  # any exception of the library
        raise Failure(DATA, f"ONNX Runtime refuses the exported file: {brief(error)}\n  --no-check writes it all the same") from error
    off = abs(float(found) - wanted)
    said = f"loss {wanted:.6f} in PyTorch, {float(found):.6f} in ONNX Runtime, deviation {off:.1e}"
    if half:
        said += " (both computed in f32 on the bf16 weights)"
    if not off <= BAR * max(1.0, abs(wanted)):
        raise Failure(DATA, f"the exported file is not the module: {said}\n  nothing is written; --no-check writes it all the same")
    print(f"check       {said}", flush=True)


def reference(built, values, half):
    """PyTorch's loss, without dropout, in f32."""
    kinds = [(one, one.dtype) for one in [*built.module.parameters(), *built.module.buffers()]]
    try:
        if half:
            for one, kind in kinds:
                one.data = one.data.float() if kind == torch.bfloat16 else one.data
        with WithoutDropout():
            return loss_of(built.module, values, built.values).item()
    finally:
        for one, kind in kinds:
            one.data = one.data.to(kind)


def graphs(graph):
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from graphs(attribute.g)


def widen(onnx, model):
    """Replaces bf16 by f32 everywhere, since ONNX Runtime has few bf16 kernels on CPUs."""
    from onnx import numpy_helper
    half, wide = onnx.TensorProto.BFLOAT16, onnx.TensorProto.FLOAT

    def tensor(one):
        if one.data_type == half:
            values = numpy_helper.to_array(one).astype("float32")
            one.CopyFrom(numpy_helper.from_array(values, one.name))

    for part in [*graphs(model.graph), *model.functions]:
        for one in getattr(part, "initializer", []):
            tensor(one)
        for kind in ("input", "output", "value_info"):
            for one in getattr(part, kind):
                if hasattr(one, "type") and one.type.tensor_type.elem_type == half:
                    one.type.tensor_type.elem_type = wide
        for node in part.node:
            for attribute in node.attribute:
                if attribute.HasField("t"):
                    tensor(attribute.t)
                if attribute.name in ("to", "dtype") and attribute.i == half:
                    attribute.i = wide


def keep_all(model):
    """Disables Dropout nodes."""
    for part in [*graphs(model.graph), *model.functions]:
        for node in part.node:
            if node.op_type == "Dropout" and len(node.input) > 2:
                node.input[2] = ""


def describe(shalec, path, positions, shapes_only):
    """Prints the commands that shalec proposes."""
    if shapes_only:
        print("to plan it, with sizes and a mesh of your choice:\n"
              f"  shalec {path} --dim batch=8 --dim sequence={min(1024, positions or 1024)} --mesh fsdp=8 --plan-only")
        return
    if not shalec:
        print(f"shalec {path} --describe says what it is, and prints the commands that compile and train it")
        return
    done = subprocess.run([shalec, str(path), "--describe"], capture_output=True, text=True, errors="replace")
    if done.returncode:
        raise Failure(DATA, f"the file is written, but shalec refuses it:\n{done.stderr.strip()[-1500:]}")
    lines = done.stdout.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith("to compile and train it")), len(lines))
    print("\n".join(lines[start:]))
    if "tokens.bin" in done.stdout:
        print(f"  # {pathlib.Path(__file__).resolve().parents[1] / 'tokens.py'} makes tokens.bin of a text")
