"""Compiles the programs of the GPU benchmark into one archive for each part, with their libraries in a folder beside it."""
import contextlib
import json
import lzma
import pathlib
import shlex
import shutil
import sys
import tarfile
import tempfile

from parts import ALL_BF16, BF16, CASES, LIBRARIES, MODELS, OPTIMIZERS, PARTS, SIZES, SMALL, alone, archive, fixtures, offloaded, optimizers, program_name, shared, tensor, trajectory_of
from kernel_times import build
from kernels import shrink
from notes import LeftOut
from runner import Case, Deviates, run

sys.path.insert(0, str(MODELS))
from scale import Scaler  # noqa: E402


class Maker:
    """Compiles the programs of one part into a folder."""

    def __init__(self, a, part, place):
        self.a, self.part, self.place, self.work = a, part, place, place.parent
        self.bundled = False  # whether the libraries of a program were kept

    def compile(self, model, name, flags):
        """Compiles a program and strips it."""
        program = self.place / name
        run([self.a.build / "bin" / "shalec", model, "-o", program, "--target", self.a.target, *([] if self.bundled else ["--bundle"]), *flags],
            "shalec")
        if not self.bundled:
            kept = self.a.folder / LIBRARIES
            shutil.rmtree(kept, ignore_errors=True)
            shutil.move(f"{program}.libs", kept)
            self.bundled = True
        if shutil.which("strip"):
            run(["strip", program], "strip")

    def record(self, model, name, flags, needs=""):
        """Records the kernels of a program with what the emulator computes. The planned program must have the text `needs`."""
        plan, prefix = self.work / "plan.mlir", self.place / f"{name}.kernels"
        run([self.a.build / "bin" / "shalec", model, "-o", plan, "--target", self.a.target, "--emit", "rt", *flags], "shalec")
        if needs not in plan.read_text():
            raise Deviates(f"the plan of {name} has no {needs}")
        run([self.a.build / "test" / "unit" / "codegen" / "record-kernels", plan, prefix], "record-kernels")
        shrink(prefix)

    def case_flags(self, case, shard, mesh, more, axes=("replica", "fsdp"), trajectory="trajectory.json"):
        fixture = Case(self.a.build, MODELS / case, trajectory)
        sizes = [f"{name}={size}" for name, size in zip(axes[-len(mesh):], mesh)]
        return [*fixture.model_flags(), *fixture.policy_flags(), "--mesh", ",".join(sizes), "--shard", shard, *more]

    def cases(self):
        """The fixtures, which are also listed beside the programs."""
        cases = ["plain"] if self.a.small else ["gpt2", "llama", "plain"]
        (self.place / CASES).write_text(json.dumps(cases))
        return cases

    def make_fixtures(self):
        cases = self.cases()
        for case, ranks, shard, _, dtype in fixtures(cases):
            flags = self.case_flags(case, shard, [ranks], BF16 if dtype == "bf16" else [])
            self.compile(MODELS / case / "model.onnx", program_name(case, ranks, dtype), flags)
        for case, dtype in alone(cases):
            more = ["--keep-single-rank-collectives=true", *(ALL_BF16 if dtype == "bf16" else [])]
            self.compile(MODELS / case / "model.onnx", program_name(case, "alone", dtype), self.case_flags(case, "full", [1], more))
        for case, mesh, dtype in shared(cases):
            name, flags = program_name(case, mesh, dtype), self.case_flags(case, "full", mesh, ALL_BF16 if dtype == "bf16" else [])
            if not (self.place / name).exists():
                self.compile(MODELS / case / "model.onnx", name, flags)
        for name, ranks in optimizers(cases):
            flags = self.case_flags("gpt2", "full", [ranks], [], trajectory=trajectory_of(name))
            self.compile(MODELS / "gpt2" / "model.onnx", program_name(f"gpt2-{name}", ranks, "f32"), flags)
        for case, dtype in offloaded(cases):
            more = ["--offload", "all", *(BF16 if dtype == "bf16" else [])]
            self.compile(MODELS / case / "model.onnx", program_name(case, "offload", dtype), self.case_flags(case, "none", [1], more))
        for case, mesh, dtype in tensor(cases):
            flags = self.case_flags(case, "full", mesh, BF16 if dtype == "bf16" else [], ("fsdp", "tp"))
            self.compile(MODELS / case / "model.onnx", program_name(f"{case}-tp", mesh, dtype), flags)

    def make_kernels(self):
        cases = self.cases()
        for case, ranks, shard, _, dtype in fixtures(cases):
            flags = self.case_flags(case, shard, [ranks], BF16 if dtype == "bf16" else [])
            self.record(MODELS / case / "model.onnx", program_name(case, ranks, dtype), flags)
        self.record_more()

    def record_more(self):
        """Kernels that programs of the fixtures lack: embedding gradients of sorted tokens (4096), Adafactor, and a loss over many
        columns (32768); and other optimizers."""
        rows, columns = (16, 1024) if self.a.small else (64, 32768)
        model = MODELS / "gpt2" / "model.onnx"
        self.record(model, "sorted", shlex.split(f"--dim batch={rows} --dim sequence=64"), needs="nn.argsort")
        for name in ("adafactor",) if self.a.small else OPTIMIZERS:
            self.record(model, name, shlex.split(f"--dim batch=4 --dim sequence=16 --optimizer {name}"))
        wide = self.work / "wide.onnx"  # the fixture with more columns, without weights
        wide.write_bytes(Scaler(dict(family="gpt2", layers=2, width=16, heads=4, kv=4, ffn=64, vocab=columns, positions=64)).run("wide.data"))
        self.record(wide, "columns", shlex.split("--dim batch=2 --dim sequence=8 --optimizer sgd"), needs=f"x{columns}x")

    def make_model(self):
        size = {**SIZES[self.part], **(SMALL if self.a.small else {})}
        model, report = MODELS / "gpt2" / "model.onnx", self.work / "memory.json"
        if not self.a.small:
            model = self.work / "model.onnx"
            run([sys.executable, MODELS / "scale.py", size["scale"], model, "--random-weights"], "scale.py")
        self.compile(model, self.part, ["--dim", f"batch={size['batch']}", "--dim", f"sequence={size['length']}", *size["flags"],
                                        "--report", f"memory={report}"])
        memory = json.loads(report.read_text())
        workspace = next(line["bytes"] for line in memory["lines"] if line["what"] == "workspace of cuBLASLt")
        facts = dict(size, planned=memory["device_peak_bytes"],
                     blocks={"the arena": memory["arena_bytes"], "state": memory["state_bytes"], "cuBLASLt's workspace": workspace})
        (self.place / f"{self.part}.json").write_text(json.dumps(facts))
        with contextlib.suppress(LeftOut):  # built where the programs run, if that machine has the toolkit
            build(self.place)

    def make(self):
        {"kernels": self.make_kernels, "fixtures": self.make_fixtures}.get(self.part, self.make_model)()


def pack(place, path, preset):
    """Programs have most of their bytes in common, and records begin with the same operands: a large window finds both."""
    partial = path.with_name(path.name + ".partial")
    filters = [{"id": lzma.FILTER_LZMA2, "preset": preset, "dict_size": 128 << 20}]
    with lzma.open(partial, "wb", filters=filters) as file, tarfile.open(fileobj=file, mode="w") as tar:
        for made in sorted(place.iterdir()):
            tar.add(made, made.name)
    partial.replace(path)


def size_of(path):
    return sum(file.stat().st_size for file in (path.rglob("*") if path.is_dir() else [path]))


def compile_all(a):
    a.folder.mkdir(parents=True, exist_ok=True)
    made = [archive(a.folder, part) for part in a.parts or PARTS]
    for part, path in zip(a.parts or PARTS, made):
        with tempfile.TemporaryDirectory() as work:
            place = pathlib.Path(work) / part
            place.mkdir()
            Maker(a, part, place).make()
            pack(place, path, 0 if a.small else 3)
        shutil.rmtree(a.folder / part, ignore_errors=True)  # an older one, unpacked
    for path in [*made, a.folder / LIBRARIES]:
        print(f"{path}: {size_of(path) / (1 << 20):.1f} MiB")
