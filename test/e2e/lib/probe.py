"""Runs the forward graph of an ONNX model through the interpreter and through compiled kernels, and compares its outputs.

A program trains, and has no output but its weights. So each output is multiplied by a parameter of zeros: the loss is the sum of the
matmuls, the gradient of the parameter is the output, and after one step of SGD with a rate of 1 the parameter is minus the output. This
goes through the whole compiler and the program's kernels, as any training does.
"""
import pathlib
import re
import shutil
import subprocess

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from runner import TYPES, read_safetensors, save_safetensors

RIGHT, REFUSED, WRONG, CRASHED, HUNG, INTERNAL, FAILED = "right", "refused", "WRONG", "crashed", "hung", "exit 70", "failed"
# Two units in the last place, relative to the smallest number of a power of 2: what ONNX's own runner allows for bfloat16. Programs
# compute in 32 bits and round once, the expected values were rounded after each operation.
UNIT = {"float16": 2.0 ** -9, "bfloat16": 2.0 ** -6}
CODES = {"nan": 12345.0, "inf": 23456.0}  # what stands for values that a step with checks for overflow would refuse


class Ended(Exception):
    def __init__(self, kind, said):
        super().__init__(said)
        self.kind, self.said = kind, said


def message(text):
    """The first error, without places that differ from run to run."""
    lines = [line.strip() for line in text.splitlines() if "error" in line.lower()] or [text.strip()[-200:]]
    return re.sub(r"\S*model\.onnx: |^(\S+: )*error: ", "", lines[0])[:800]


def command(words, what, limit=120):
    try:
        result = subprocess.run([str(word) for word in words], capture_output=True, text=True, errors="replace", timeout=limit)
    except subprocess.TimeoutExpired:
        raise Ended(HUNG, f"{what}: no end after {limit} s") from None
    code = result.returncode
    if code:
        kind = CRASHED if code < 0 or code >= 128 else {70: INTERNAL, 64: REFUSED, 65: REFUSED}.get(code, FAILED)
        raise Ended(kind, f"{what}: {message(result.stderr or result.stdout)}" + ("" if kind == REFUSED else f" (exit code {code})"))
    return result.stdout


def codes_of(value):
    """A value as 32-bit floats, with numbers for what is not finite."""
    with np.errstate(over="ignore"):
        value = np.asarray(value).astype(np.float32).ravel()
    value = np.where(np.isnan(value), np.float32(CODES["nan"]), value)
    return np.where(np.isinf(value), np.sign(value) * np.float32(CODES["inf"]), value)


class Probe:
    """`build`: the folder of the build. `folder`: where files are written."""

    def __init__(self, build, folder):
        self.bin, self.folder = pathlib.Path(build) / "bin", pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)

    def write(self, model, arrays, outputs, baked):
        """Writes model.onnx with a loss, and batches.safetensors. `outputs`: expected values by name; inputs in `baked` become initializers."""
        probed = onnx.ModelProto()
        probed.CopyFrom(model)
        graph = probed.graph
        declared = [one for one in graph.input if one.name in arrays and one.name not in baked]
        del graph.input[:], graph.output[:]
        batches = {}
        for info in declared:
            value, kind = arrays[info.name], np.dtype(arrays[info.name].dtype)
            if kind not in map(np.dtype, TYPES.values()):  # data files do not have the type: it is converted in the graph
                wide = np.float32 if kind.kind not in "iu" else np.int64
                graph.node.insert(0, helper.make_node("Cast", [f"probe_{info.name}"], [info.name], name=f"probe_cast_{info.name}",
                                                      to=info.type.tensor_type.elem_type))
                value = value.astype(wide)
                name = f"probe_{info.name}"
            else:
                name = info.name
            graph.input.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape))
            batches[name] = value[None]
        for name in baked:
            # A node, so that it is no parameter.
            tensor = numpy_helper.from_array(arrays[name])
            graph.node.insert(0, helper.make_node("Constant", [], [name], name=f"probe_{name}", value=tensor))
        terms, names = [], iter(f"probe_{i}" for i in range(10 ** 6))

        def add(op, inputs, **attributes):
            graph.node.append(helper.make_node(op, inputs, [next(names)], name=f"probe_{op}", **attributes))
            return graph.node[-1].output[0]

        def constant(value, kind=np.float32):
            return add("Constant", [], value=numpy_helper.from_array(np.asarray(value, kind)))

        scales = []
        for i, (name, value) in enumerate(outputs.items()):
            with np.errstate(over="ignore"):
                plain = np.asarray(value).astype(np.float32)
            flat = add("Reshape", [add("Cast", [name], to=TensorProto.FLOAT), constant([-1], np.int64)])
            if not np.isfinite(plain).all():
                flat = add("Where", [add("IsNaN", [flat]), constant(CODES["nan"]), flat])
                for sign in (1, -1):
                    flat = add("Where", [add("Equal", [flat, constant(sign * np.inf)]), constant(sign * CODES["inf"]), flat])
            # The square of the gradient's norm must not overflow.
            scales.append(np.float32(2.0 ** -60 if plain.size and np.abs(codes_of(value)).max() > 1e15 else 1))
            if scales[-1] != 1:
                flat = add("Mul", [flat, constant(scales[-1])])
            flat = add("Concat", [flat, constant([0.0, 0.0])], axis=0)  # a parameter has more than one element
            graph.initializer.append(numpy_helper.from_array(np.zeros(plain.size + 2, np.float32), f"probe.w{i}"))
            terms.append(add("ReduceSum", [add("Mul", [flat, f"probe.w{i}"])], keepdims=0))
        graph.node.append(helper.make_node("Sum", terms, ["probe_loss"], name="probe_loss"))
        graph.output.append(helper.make_tensor_value_info("probe_loss", TensorProto.FLOAT, []))
        del graph.value_info[:]
        path = self.folder / "model.onnx"
        path.write_bytes(probed.SerializeToString())
        save_safetensors(self.folder / "batches.safetensors", batches)
        return path, scales

    def values(self, path, outputs, scales):
        got = read_safetensors(path)
        return {name: -got[f"probe.w{i}"][:-2] / scale for i, (name, scale) in enumerate(zip(outputs, scales))}

    def interpreted(self, path):
        forward, step, out = self.folder / "forward.mlir", self.folder / "step.mlir", self.folder / "interpreted.safetensors"
        forward.write_text(command([self.bin / "shale-translate", "--import-onnx", path], "import"))
        command([self.bin / "shale-opt", forward, "--shale-stage-recover", "--shale-autodiff=optimizer=sgd", "-o", step], "autodiff")
        command([self.bin / "shale-run", step, "--steps=1", "--lr=1", f"--batches={self.folder}/batches.safetensors", f"--out={out}"], "interpreter")
        return out

    def compiled(self, path):
        program, out = self.folder / "train", self.folder / "out"
        command([self.bin / "shalec", path, "-o", program, "--optimizer", "sgd"], "shalec")
        data = self.folder / "batches.safetensors"
        shutil.rmtree(out, ignore_errors=True)
        command([program, "--data", data, "--steps", 1, "--lr", 1, "--out", out], "program", 60)
        return out / "model.safetensors"

    def run(self, model, arrays, expected, rtol, atol):
        """Compares all outputs. Returns the kind of the result, and what deviates or why it is refused."""
        def numbers(name):
            return arrays[name].dtype.kind in "iub"
        # Operands such as shapes must be known: the whole numbers, or all of them. Programs check indices that they read, and refuse those
        # that count from the end, which constants may.
        empty = [name for name in arrays if arrays[name].size == 0]  # no input of a program is empty
        modes = [empty, [name for name in arrays if numbers(name) or name in empty], list(arrays)]
        for mode, baked in enumerate(modes):
            try:
                path, scales = self.write(model, arrays, expected, baked)
                for how in (self.compiled, self.interpreted):
                    got = self.values(how(path), expected, scales)
                    for name, want in expected.items():
                        self.compare(f"{how.__name__} {name}", got[name], want, rtol, atol)
                return RIGHT, ["", "numbers are constants", "all are constants"][mode]
            except Ended as ended:
                known = ended.kind == REFUSED and re.search(r"known at compile time|must be from", ended.said)
                if not known or mode + 1 == len(modes):
                    return ended.kind, ended.said

    @staticmethod
    def compare(what, got, want, rtol, atol):
        kind = np.asarray(want).dtype
        exact = kind.kind in "iub"
        if kind.name in UNIT:
            rtol = max(rtol, UNIT[kind.name])
        want = codes_of(want).astype(np.float64)
        if got.shape != want.shape:
            raise Ended(WRONG, f"{what} has {got.size} elements, not {want.size}")
        off = np.abs(got.astype(np.float64) - want)
        bad = off > (0 if exact else atol + rtol * np.abs(want))
        if bad.any():
            i = int(np.argmax(np.where(bad, off, -1)))
            raise Ended(WRONG, f"{what}: element {i} is {got[i]}, not {want[i]}; {bad.sum()} of {bad.size} are off")
