"""Runs the parts of the GPU benchmark on a machine with a GPU."""
import itertools
import json
import math
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

import numpy as np

from notes import LeftOut, Notes, describe, execute
from parts import CASES, HERE, LIBRARIES, MODELS, SIZES, alone, archive, fixtures, optimizers, program_name, shared, tensor, trajectory_of
from runner import Case, Deviates, metrics

SECONDS = 90  # that a program may take if it is not measured
PAGE = 2 << 20  # what the driver allocates at least
WARMUP = 6  # steps that do not count


class Runner:
    """What the lines of a part share."""

    def __init__(self, a, notes, work):
        self.a, self.notes, self.work = a, notes, work
        self.place = unpacked(a, work)
        paths = [os.environ.get("LD_LIBRARY_PATH"), str((a.folder / LIBRARIES).resolve())]
        self.environment = {**os.environ, "LD_LIBRARY_PATH": ":".join(path for path in paths if path)}
        self.folder = a.libraries or linked_libraries(a.torch or "python3", work / "cuda")  # of NVIDIA's libraries
        self.libraries = ["--cuda-libraries", self.folder] if self.folder else []

    def cases(self):
        return json.loads((self.place / CASES).read_text())

    def follow(self, name, case, dtype, flags, more=None, trajectory="trajectory.json"):
        """Follows PyTorch's trajectory. Returns the largest difference of the loss: in f32 within 1e-4, since GPUs sum in another
        order."""
        fixture, out = Case(HERE, MODELS / case, trajectory), self.work / name
        shutil.rmtree(out, ignore_errors=True)
        execute([self.place / name, "--data", fixture.batches, "--steps", fixture.steps, *fixture.hyper_flags(), "--out", out, "--schedule",
                 "constant", *flags, *self.libraries], name, SECONDS, {**self.environment, **(more or {})})
        return fixture.check_metrics(out, 0.02 if dtype == "bf16" else 1e-4)[0]

    def staged(self):
        """One rank, and several over Gloo."""
        for case, ranks, _, flags, dtype in fixtures(self.cases()):
            name = program_name(case, ranks, dtype)
            with self.notes.trial(name) as found:
                found.update(loss=self.follow(name, case, dtype, flags), dtype=dtype)

    def one_rank(self):
        """One rank over NCCL, whose log must have the collectives: those of the first step and of the captured one."""
        for case, dtype in alone(self.cases()):
            name = program_name(case, "alone", dtype)
            log = self.work / f"{name}.log"
            with self.notes.trial(name) as found:
                more = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "COLL", "NCCL_DEBUG_FILE": str(log)}
                found.update(loss=self.follow(name, case, dtype, [], more), dtype=dtype)
                # As NCCL 2.28 to 2.30 write it: "HOST:PID:THREAD [GPU] NCCL INFO AllGather: opCount 0 sendbuff ..", once for each call.
                kinds = re.findall(r"NCCL INFO (AllGather|ReduceScatter|AllReduce|Send|Recv): opCount", log.read_text() if log.exists() else "")
                found.update(collectives=len(kinds))
                # A reduction of 16-bit floats is an exchange.
                missing = {"AllGather", "ReduceScatter" if dtype == "f32" else "Send"} - set(kinds)
                if missing:
                    raise Deviates(f"{name} made no call of {' and '.join(sorted(missing))} of NCCL")

    def one_gpu(self):
        """Two and four ranks on this GPU over NCCL, which allows it from 2.30 on, with and without CUDA graphs."""
        more = {"CUDA_VISIBLE_DEVICES": "0", "NCCL_MULTI_RANK_GPU_ENABLE": "1"}
        for (case, mesh, dtype), flags in itertools.product(shared(self.cases()), ([], ["--no-graph"])):
            name = program_name(case, mesh, dtype)
            with self.notes.trial(" ".join([name, *flags])) as found:
                try:
                    found.update(loss=self.follow(name, case, dtype, flags, more), dtype=dtype)
                except Deviates as deviation:
                    if "ranks 0 and 1 use one GPU" not in str(deviation):
                        raise
                    raise LeftOut("NCCL 2.30 allows several ranks on one GPU, this one does not") from deviation

    def optimizers(self):
        """Other optimizers than AdamW, one rank and two over Gloo."""
        for optimizer, ranks in optimizers(self.cases()):
            name = program_name(f"gpt2-{optimizer}", ranks, "f32")
            with self.notes.trial(name) as found:
                flags = ["--comm", "staged"] if ranks > 1 else []
                found.update(loss=self.follow(name, "gpt2", "f32", flags, trajectory=trajectory_of(optimizer)), dtype="f32")

    def tensor(self):
        """Tensor and sequence parallelism over Gloo."""
        for case, mesh, dtype in tensor(self.cases()):
            name = program_name(f"{case}-tp", mesh, dtype)
            with self.notes.trial(name) as found:
                found.update(loss=self.follow(name, case, dtype, ["--comm", "staged"]), dtype=dtype)

    def record(self, name, tool=()):
        """Runs the recorded kernels of a program, under a tool if one is given. A process of its own, since an error of the driver stays."""
        more = ["--libraries", self.folder] if self.folder else []
        text = execute([*tool, sys.executable, HERE / "kernels.py", self.place / f"{name}.kernels", *more], name, SECONDS, codes=(0, 1))
        found = json.loads(next(line for line in text.splitlines() if line.startswith("{")))
        if found["error"]:
            raise Deviates(found["error"])
        if found["differ"]:
            raise Deviates("; ".join(say_difference(one) for one in found["differ"]))
        return found

    def recorded(self):
        return sorted(code.name[:-len(".kernels.code")] for code in self.place.glob("*.kernels.code"))

    def bits(self):
        for name in self.recorded():
            with self.notes.trial(name) as found:
                found.update(self.record(name))

    def sanitizer(self):
        """Each kernel by itself: whole programs do not start within minutes under compute-sanitizer, which instruments cuBLASLt."""
        tool = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
        if not pathlib.Path(tool).exists():
            raise LeftOut("no compute-sanitizer")
        for name in self.recorded():
            for check in ("memcheck", "racecheck"):
                with self.notes.trial(f"{check} of {name}") as found:
                    found.update(self.record(name, [tool, "--tool", check, "--error-exitcode", 9, "--print-limit", 5]))

    def our_side(self, facts, found):
        """Notes the milliseconds of each step after warm-up. The program ends when it has trained: it would save tens of gigabytes."""
        part, out, device = self.a.part, self.work / "ours", self.work / "device.json"
        shutil.rmtree(out, ignore_errors=True)
        device.unlink(missing_ok=True)
        tokens, kind = self.work / "tokens.bin", "uint16" if facts["vocabulary"] <= 65536 else "uint32"
        if not tokens.exists():
            count = 64 * (facts["batch"] * facts["length"] + 1)
            np.random.default_rng(0).integers(0, facts["vocabulary"], count).astype(kind).tofile(tokens)
        text = execute([self.place / part, "--describe"], part, SECONDS, self.environment)
        found["parameters"] = int(text.split("parameters: ")[1].split(" with ")[1].split()[0])
        steps = self.a.steps + WARMUP
        execute([self.place / part, "--data", tokens, "--token-dtype", kind, "--init", "random:1", "--steps", steps, "--out", out,
                 "--save-every", 0, "--report-device", device, *self.libraries], part, SIZES[part]["seconds"], self.environment, until=device)
        lines = metrics(out)
        shutil.rmtree(out, ignore_errors=True)
        found["device"] = json.loads(device.read_text())[0]
        found["step_ms"] = [1e3 * line["tokens"] / line["tokens_per_s"] for line in lines][WARMUP:]
        found["median_ms"], found["first_loss"] = statistics.median(found["step_ms"]), lines[0]["loss"]
        expected = math.log(facts["vocabulary"])
        if not abs(found["first_loss"] - expected) <= 1:
            raise Deviates(f"the first loss is {found['first_loss']:.3f}, but that of random weights is about {expected:.3f}")
        if len(lines) != steps:
            raise Deviates(f"{part} made {len(lines)} steps, not {steps}")

    def model(self):
        """Both sides in turn. A side that fails has no second round. Then the memory of Shale's."""
        part, notes = self.a.part, self.notes
        facts = json.loads((self.place / f"{part}.json").read_text())
        notes.now["facts"] = {key: facts[key] for key in ("batch", "length", "layers", "width")} | {"lookup": facts.get("lookup", 0)}
        all_bytes, others = graphics_memory("total"), graphics_memory("used")
        if all_bytes and facts["planned"] > all_bytes - others:
            raise LeftOut(f"needs a GPU with {math.ceil((facts['planned'] + others) / (1 << 30))} GiB, this one has {all_bytes >> 30}")
        for number in range(1, SIZES[part]["rounds"] + 1):
            if not failed(notes, "shale"):
                with notes.trial(f"shale, round {number}") as found:
                    self.our_side(facts, found)
            if self.a.torch and not failed(notes, "torch"):
                with notes.trial(f"torch, round {number}") as found:
                    text = execute([self.a.torch, HERE / "torch_side.py", "--model", facts["torch"], "--steps", self.a.steps], "torch_side.py",
                                   SIZES[part]["seconds"])
                    found.update(json.loads(text.splitlines()[-1]))
        reports = [found["device"] for found in notes.now["programs"].values() if "device" in found]
        if reports:
            with notes.trial("memory") as found:
                device_memory(facts, reports[-1], others, found)


def failed(notes, side):
    return any(name.startswith(side) for name in notes.now["errors"])


def unpacked(a, work):
    """The folder with the programs of the part."""
    folder, path = a.folder / a.part, archive(a.folder, a.part)
    if folder.is_dir():
        return folder
    if not path.exists():
        raise Deviates(f"there is no {path}: compile it with --part {a.part}")
    shutil.unpack_archive(path, work / a.part)
    return work / a.part


def linked_libraries(python, folder):
    """Makes a folder of links to NVIDIA's libraries among the packages of a Python. Returns None if it has none."""
    try:
        text = subprocess.run([python, "-c", "import nvidia; print(*nvidia.__path__, sep='\\n')"], capture_output=True, text=True,
                              timeout=SECONDS).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    for path in (path for root in text.splitlines() for path in sorted(pathlib.Path(root).glob("*/lib/*.so*"))):
        folder.mkdir(exist_ok=True)
        if not (folder / path.name).exists():
            (folder / path.name).symlink_to(path.resolve())
    return folder if folder.exists() else None


def say_difference(one):
    return f"kernel {one['kernel']}: buffer {one['buffer']} ({one['type']}) differs in {one['count']} of {one['of']} {one['unit']}, the first is {one['first']}"


def graphics_memory(what):
    """Bytes of the first GPU, "total" or "used"; 0 if nvidia-smi does not tell."""
    try:
        text = subprocess.run(["nvidia-smi", f"--query-gpu=memory.{what}", "--format=csv,noheader,nounits"], capture_output=True, text=True,
                              timeout=20).stdout
    except (OSError, subprocess.SubprocessError):
        return 0
    return next((int(line) << 20 for line in text.split() if line.isdigit()), 0)


def device_memory(facts, report, others, found):
    """Compares the program's blocks with the plan and with the driver's count, which grows by pages of 2 MiB. Raises Deviates."""
    found.update(planned=facts["planned"], used=report["used"] - others, exact=0)
    for what, planned in facts["blocks"].items():
        block = next((one for one in report["blocks"] if one["what"] == what), {"bytes": 0, "counted": 0})
        if block["bytes"] != planned or not 0 <= block["counted"] - planned < PAGE:
            raise Deviates(f"{what} has {planned} bytes by plan, {block['bytes']} in the program, {block['counted']} by the driver")
        found["exact"] += 1


# What a part shows: its lines of the table.
LINES = {"kernels": {"bits": Runner.bits, "sanitizer": Runner.sanitizer},
         "fixtures": {"staged": Runner.staged, "one_rank": Runner.one_rank, "one_gpu": Runner.one_gpu, "optimizers": Runner.optimizers, "tensor": Runner.tensor}}


def run_part(a):
    lines = LINES.get(a.part, {a.part: Runner.model})
    if a.line and a.line not in lines:
        raise Deviates(f"there is no line {a.line}, but {', '.join(lines)}")
    notes, failures = Notes(a.results / f"{a.part}.json"), []
    with tempfile.TemporaryDirectory() as work:
        runner = Runner(a, notes, pathlib.Path(work))
        a.results.mkdir(parents=True, exist_ok=True)
        for line in [a.line] if a.line else lines:
            notes.begin(line)
            try:
                lines[line](runner)
            except LeftOut as reason:
                notes.now["left_out"] = str(reason)
                print(f"{line}: left out: {reason}", flush=True)
            except Exception as error:  # of the line itself: the others run
                notes.now["errors"][line] = describe(error)
            notes.end()
            failures += [f"{line}: {name}: {error}" for name, error in notes.now["errors"].items()]
    print(f"results: {notes.path}", flush=True)
    if failures:
        raise Deviates("\n".join(failures))
