"""Shared parts of the end-to-end tests: compiles a fixture as a user would, runs its program, reads its output, and has the bars
for PyTorch's runs.

A test calls `main(check, ...)`. `check` is a function of (arguments, folder) that returns a summary, or raises Deviates with one
line that describes the deviation.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np

from ir_program import Program

ROOT = pathlib.Path(__file__).resolve().parents[3]
MODELS = ROOT / "test" / "models"
LOSS, NORM, WEIGHT = 2e-5, 1e-4, 2e-4
TYPES = {"I64": np.int64, "I32": np.int32, "F32": np.float32, "F64": np.float64, "BOOL": np.bool_}


class Deviates(Exception):
    pass


def read_safetensors(path):
    data = pathlib.Path(path).read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    body = memoryview(data)[8 + size:]

    def read(entry):
        part = body[slice(*entry["data_offsets"])]
        if entry["dtype"] == "BF16":  # the upper half of an f32
            return (np.frombuffer(part, np.uint16).astype(np.uint32) << 16).view(np.float32).reshape(entry["shape"])
        return np.frombuffer(part, TYPES[entry["dtype"]]).reshape(entry["shape"])
    return {name: read(entry) for name, entry in header.items() if name != "__metadata__"}


def save_safetensors(path, arrays):
    names = {np.dtype(kind): name for name, kind in TYPES.items()}
    header, blobs, offset = {}, [], 0
    for name, value in arrays.items():
        blob = np.ascontiguousarray(value).tobytes()
        header[name] = {"dtype": names[value.dtype], "shape": list(value.shape), "data_offsets": [offset, offset + len(blob)]}
        offset += len(blob)
        blobs.append(blob)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    pathlib.Path(path).write_bytes(len(text).to_bytes(8, "little") + text + b"".join(blobs))


def run(command, what, environment=None, folder=None, timeout=600):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=timeout, env=environment, cwd=folder)
    if result.returncode:
        raise Deviates(f"{what} ended with {result.returncode}: {(result.stderr or result.stdout)[-600:]}")
    return result


def metrics(out):
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def series(out):
    """The values that two runs with the same bits share."""
    return [(line["step"], line["loss"], line["grad_norm"]) for line in metrics(out)]


def read_program(tools, path):
    """The program in a file of IR, by shale-run of the folder `tools`."""
    path = pathlib.Path(path)
    said = run([pathlib.Path(tools) / "shale-run", "--json", path], f"reading {path.name}").stdout
    return Program(json.loads(said), None if path.suffix == ".mlirbc" else path.read_text())


def longest_chain(program, kind):
    """The longest chain of dependent values of an element type in a function. Each value rounds once."""
    depth = {}
    for op in (op for function in program.ops("func.func") for op in function.walk()):
        here = max((depth.get(operand, 0) for operand in op.operands), default=0)
        here += any(result.element == kind for result in op.results)
        depth.update(dict.fromkeys(op.results, here))
    return max(depth.values(), default=0)


class Case:
    """A model and PyTorch's run of it: test/models/NAME."""

    def __init__(self, build, folder, trajectory="trajectory.json", model="model.onnx"):
        self.bin, self.folder, self.model = pathlib.Path(build) / "bin", pathlib.Path(folder), model
        self.trajectory = json.loads((self.folder / trajectory).read_text())
        self.batches = self.folder / self.trajectory.get("batches", "batches.safetensors")
        self.steps = len(self.trajectory["steps"])
        self.final = self.trajectory.get("final", "final.safetensors")
        self.of_file = self.trajectory["optimizer"]["name"] == "of the file"  # no flags of the optimizer
        self.quiet = ["--no-advice"]
        self.most_ranks = 3 if self.folder.name == "plain" else 4  # plain has six rows per batch

    def model_flags(self, sizes=None):
        """Flags of sizes and loss, if the trajectory does not have them. `sizes` overrides dimensions by name."""
        if "flags" in self.trajectory:
            return self.trajectory["flags"]
        batches = read_safetensors(self.batches)
        if self.folder.name == "plain":
            dims, rest = {"batch": batches["tokens"].shape[1]}, ["--loss", "cross-entropy:scores,targets"]
        else:
            first = batches.get("input_ids", batches.get("pixel_values", batches.get("x")))
            dims, rest = {"batch": first.shape[1]}, []
            if b"sequence" in (self.folder / self.model).read_bytes(): # the export left the length open
                dims["sequence"] = first.shape[2]
        dims.update({name: size for name, size in (sizes or {}).items() if name in dims})
        return [word for name, size in dims.items() for word in ("--dim", f"{name}={size}")] + rest

    def policy_flags(self):
        """Flags for the optimizer, frozen parameters and micro-batches of the trajectory."""
        optimizer = self.trajectory["optimizer"]
        flags = [] if self.of_file else ["--optimizer", optimizer["name"].lower()]
        if "two and more" in optimizer.get("weight_decay_applies_to", ""):
            flags += ["--no-decay", r"(\.ln_|bias$)"]
        if self.trajectory.get("no_decay"):
            flags += ["--no-decay", self.trajectory["no_decay"]]
        if self.trajectory.get("lr_scale"):
            flags += ["--lr-scale", self.trajectory["lr_scale"]]
        if self.trajectory.get("frozen"):
            flags += ["--freeze", self.trajectory["frozen"]]
        if self.trajectory.get("accumulate"):
            flags += ["--accumulate", self.trajectory["accumulate"]]
        return flags

    def shalec(self, output, shard="none", ranks=1, flags=(), sizes=None):
        """Compiles. Returns the output of the compiler."""
        mesh = [] if any(str(flag).startswith("--mesh") for flag in flags) else ["--mesh", f"fsdp={ranks}"]
        policy = self.policy_flags()
        if "--optimizer" in flags:
            del policy[:2]
        return run([self.bin / "shalec", self.folder / self.model, *self.quiet, "-o", output, *self.model_flags(sizes), *policy, *mesh,
                    "--shard", shard, *flags], "shalec").stdout

    def hyper_flags(self):
        optimizer = self.trajectory["optimizer"]
        if self.of_file:
            return []
        clip = ["--clip-grad-norm", self.trajectory["clip_grad_norm"] or 0]
        if "flags" in optimizer:
            return clip + [word for name, value in optimizer["flags"].items() for word in ("--" + name.replace("_", "-"), value)]
        flags = ["--lr", optimizer["lr"], "--weight-decay", optimizer["weight_decay"], *clip]
        if optimizer["name"] == "SGD":
            return flags + ["--momentum", optimizer["momentum"]]
        return flags + ["--beta1", optimizer["betas"][0], "--beta2", optimizer["betas"][1], "--eps", optimizer["eps"]]

    def train(self, program, out, steps=None, flags=("--schedule", "constant"), environment=None, what="the program"):
        return run([program, "--data", self.batches, "--steps", self.steps if steps is None else steps, *self.hyper_flags(), "--out", out, *flags],
                   what, environment)

    def check_metrics(self, out, bar=None):
        """Checks loss and gradient norm of every step against the bars, or only the loss against another bar. Returns the largest
        differences."""
        lines, steps = metrics(out), self.trajectory["steps"]
        if [line["step"] for line in lines] != list(range(len(steps))):
            raise Deviates(f"metrics.jsonl has steps {[line['step'] for line in lines]}")
        loss = largest(abs(got["loss"] - want["loss"]) for got, want in zip(lines, steps))
        norm = largest(abs(got["grad_norm"] - want["grad_norm"]) / want["grad_norm"] for got, want in zip(lines, steps))
        if bar:
            if not loss <= bar:
                raise Deviates(f"loss is off by {loss:.2e} (bar {bar})")
        elif not loss <= LOSS or not norm <= NORM:
            raise Deviates(f"loss is off by {loss:.2e} (bar {LOSS}), gradient norm by {norm:.2e} (bar {NORM})")
        return loss, norm

    def check_weights(self, out):
        """Checks the final weights against the bar. Returns the largest difference."""
        got = read_safetensors(out / "model.safetensors")
        want = {strip(name): value for name, value in read_safetensors(self.folder / self.final).items()}
        worst = 0.0
        for name, value in want.items():
            if name.endswith("k.bias"):
                continue
            if name not in got:
                twins = [other for other in want if other != name and other in got and np.array_equal(value, want[other])]
                if twins:
                    continue
                raise Deviates(f"model.safetensors has no {name}")
            if got[name].shape != value.shape:
                raise Deviates(f"{name} has shape {got[name].shape}, not {value.shape}")
            worst = largest([worst, weight_difference(name, got[name], value)])
        if not worst <= WEIGHT:
            raise Deviates(f"final weights are off by {worst:.2e} (bar {WEIGHT})")
        return worst


def stage_files(case, folder, emit, shard, ranks, flags=(), sizes=None):
    """Compiles as far as `emit`. Returns the IR files by name of the stage, in order."""
    case.shalec("/dev/null", shard, ranks, ["--emit", emit, "--save-temps", folder, *flags], sizes)
    return {path.stem.split("-", 1)[1]: path for path in sorted(folder.glob("*.mlir"))}


def compile_changed(case, folder, program, shard, ranks, flags, change):
    """Compiles the text that `change` makes of the planned program. Returns the output of the compiler."""
    planned = read_program(case.bin, stage_files(case, folder, "rt", shard, ranks, flags)["plan"])
    changed = folder / "changed.mlir"
    changed.write_text(change(planned))
    if changed.read_text() == planned.text:
        raise Deviates("the plan has nothing to change")
    return run([case.bin / "shalec", "--compile-from=plan", changed, "-o", program], "compiling a changed plan").stdout


def expect_deviation(check, what, message=""):
    """Runs `check`, which must raise Deviates with `message` because of a fault that was made on purpose. Returns the whole message."""
    try:
        check()
    except Deviates as error:
        if message not in str(error):
            raise
        return str(error)
    raise Deviates(f"nothing noticed {what}")


def largest(values):
    """The largest value, or NaN if any value is NaN. (max() can miss a NaN.)"""
    return float(np.max(np.fromiter(values, np.float64)))


def weight_difference(name, got, want):
    difference = np.abs(got.astype(np.float64) - want)
    if name.endswith("c_attn.bias"):  # query, key, value: the middle third is of the key
        third = len(difference) // 3
        difference = np.r_[difference[:third], difference[2 * third:]]
    return float(difference.max())


def strip(name):
    """Shale's name of a parameter, which lacks the prefix of the exporting wrapper."""
    return name[2:] if name.startswith("m.") else name


def same_bits(first, second, what):
    """Two output folders must hold the same run."""
    if series(first) != series(second):
        raise Deviates(f"loss or grad_norm of {what} differ")
    if (first / "model.safetensors").read_bytes() != (second / "model.safetensors").read_bytes():
        raise Deviates(f"final weights of {what} differ")


def check_frozen(out, initial, pattern):
    """Parameters that match the pattern must keep their bits."""
    got, first = read_safetensors(out / "model.safetensors"), read_safetensors(initial / "model.safetensors")
    frozen = [name for name in got if re.search(pattern, name)]
    if not frozen:
        raise Deviates(f"no parameter matches {pattern}")
    for name in got:
        same = np.array_equal(got[name].view(np.uint32), first[name].view(np.uint32))
        if same != (name in frozen):
            raise Deviates(f"{name} {'kept' if same else 'changed'} its bits")


def cut(case, path, pieces):
    """Splits each batch of the case into `pieces` micro-batches. Returns the sizes to compile for."""
    batches = read_safetensors(case.batches)
    rows = next(iter(batches.values())).shape[1]
    save_safetensors(path, {name: value.reshape(len(value) * pieces, rows // pieces, *value.shape[2:]) for name, value in batches.items()})
    case.batches = path


def train_against(a, work, name, flags, hyper, steps, rate, rows, want, stubs=None):
    """Trains work/model.onnx on work/batches.safetensors by plain gradient descent on mse(y, target), at once and in two halves, which must
    have the same bits. `want`: the losses, the tensors after the steps and the loss of the evaluation at the end. Returns the largest
    deviation, which is at most 2e-5. `stubs`: the folder of the stand-ins for NVIDIA's libraries, for a program for GPUs."""
    device, libraries = (["--target", "cuda:emulated"], ["--cuda-libraries", stubs]) if stubs else ([], [])
    run([pathlib.Path(a.build) / "bin/shalec", work / "model.onnx", "--loss", "mse:y,target", "--dim", f"batch={rows}", "--optimizer", "sgd", *flags, *device,
         "-o", work / "train"], "shalec")
    data = work / "batches.safetensors"
    train = [work / "train", "--data", data, "--lr", rate, "--momentum", 0, "--weight-decay", 0, "--clip-grad-norm", 0, "--schedule", "constant",
             *libraries, *hyper, "--eval-data", data, "--eval-every", steps, "--steps", steps]
    whole, half = work / name, work / f"{name}-half"
    run([*train, "--out", whole], "the program")
    lines, got = metrics(whole), read_safetensors(whole / "model.safetensors")
    losses, tensors, evaluated = want
    off = largest([*(abs(line["loss"] - loss) for line, loss in zip(lines, losses)), abs(lines[-1]["eval_loss"] - evaluated),
                   *(np.abs(got[one].ravel() - tensors[one].ravel()).max() for one in tensors)])
    if len(lines) != steps or not off <= 2e-5:
        raise Deviates(f"{name} is off by {off}: losses {[line['loss'] for line in lines]}, numpy's {losses}; evaluation {lines[-1]}, {evaluated}")
    run([*train, "--stop-after", steps // 2, "--out", half], "the first half")
    run([*train, "--resume", "must", "--out", half], "the second half")
    same_bits(whole, half, "the resumed run")
    return off


def main(check, *arguments, success="holds:", failure="deviates:"):
    """Runs `check`. `arguments` are (flag, settings of add_argument), in addition to --build."""
    p = argparse.ArgumentParser(prog=f"e2e {pathlib.Path(sys.argv[0]).stem}")
    p.add_argument("--build", required=True)
    for flag, settings in arguments:
        p.add_argument(flag, **settings)
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        try:
            print(success, check(a, pathlib.Path(folder)))
            sys.exit(0)
        except (Deviates, subprocess.TimeoutExpired) as error:
            print(failure, error)
            sys.exit(1)
