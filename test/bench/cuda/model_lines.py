"""Lines of the GPU benchmark that measure the speed and the memory of a model."""
import csv
import json
import math
import pathlib
import re
import shutil
import statistics
import subprocess

import numpy as np

from kernel_times import CUDA, LIBRARY, OURS, profile
from lines import SECONDS, Lines
from notes import LeftOut, execute
from parts import HERE, SIZES
from runner import Deviates, metrics

PAGE = 2 << 20  # what the driver allocates at least
WARMUP = 6  # steps that do not count
PROFILE, PROFILED = "by kernel", 4  # name of the trial, and its steps
COUNTED = 5  # kernels whose counters are read
# What a kernel belongs to, by a part of its name: the first that has one.
KINDS = {"updates": f"^{OURS}adamw", "other kernels": f"^{OURS}", "attention": "cudnn|fmha|flash", "matmuls": "nvjet|gemm|cutlass|xmma|splitK|cublas", "the rest": ""}
# Counters of ncu: of the GPU's time, of bytes between it and its memory, and the share of the memory's rate.
COUNTERS = {"gpu__time_duration.sum": "time", "dram__bytes.sum": "bytes", "dram__throughput.avg.pct_of_peak_sustained_elapsed": "percent"}


class ModelLines(Lines):
    def facts(self):
        facts = json.loads((self.place / f"{self.part}.json").read_text())
        self.notes.now["facts"] = {key: facts[key] for key in ("batch", "length", "layers", "width")} | {"lookup": facts.get("lookup", 0)}
        return facts

    def need_memory(self, facts):
        """Returns the bytes of the GPU that others use. Leaves the line out if the program would not fit."""
        all_bytes, others = graphics_memory("total"), graphics_memory("used")
        if all_bytes and facts["planned"] > all_bytes - others:
            raise LeftOut(f"needs a GPU with {math.ceil((facts['planned'] + others) / (1 << 30))} GiB, this one has {all_bytes >> 30}")
        return others

    def command(self, facts, steps):
        """Returns a command that trains from random weights, and the file that it writes after its last step, before it saves its state."""
        out, device, tokens = self.work / "ours", self.work / "device.json", self.work / "tokens.bin"
        shutil.rmtree(out, ignore_errors=True)
        device.unlink(missing_ok=True)
        kind = "uint16" if facts["vocabulary"] <= 65536 else "uint32"
        if not tokens.exists():
            count = 64 * (facts["batch"] * facts["length"] + 1)
            np.random.default_rng(0).integers(0, facts["vocabulary"], count).astype(kind).tofile(tokens)
        return [self.place / self.part, "--data", tokens, "--token-dtype", kind, "--init", "random:1", "--steps", steps, "--out", out,
                "--save-every", 0, "--report-device", device, *self.libraries], device

    def our_side(self, facts, found):
        """Notes the milliseconds of each step after warm-up. The program ends when it has trained: it would save tens of gigabytes."""
        part, out, steps = self.part, self.work / "ours", self.a.steps + WARMUP
        text = execute([self.place / part, "--describe"], part, SECONDS, self.environment)
        found["parameters"] = int(text.split("parameters: ")[1].split(" with ")[1].split()[0])
        command, device = self.command(facts, steps)
        execute(command, part, SIZES[part]["seconds"], self.environment, until=device)
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
        part, notes, facts = self.part, self.notes, self.facts()
        others = self.need_memory(facts)
        for number in range(1, SIZES[part]["rounds"] + 1):
            if not failed(notes, "shale"):
                with notes.trial(f"shale, round {number}") as found:
                    self.our_side(facts, found)
            if self.a.torch and facts["torch"] and not failed(notes, "torch"):
                with notes.trial(f"torch, round {number}") as found:
                    text = execute([self.a.torch, HERE / "torch_side.py", "--model", facts["torch"], "--steps", self.a.steps], "torch_side.py",
                                   SIZES[part]["seconds"])
                    found.update(json.loads(text.splitlines()[-1]))
        reports = [found["device"] for found in notes.now["programs"].values() if "device" in found]
        if reports:
            with notes.trial("memory") as found:
                device_memory(facts, reports[-1], others, found)

    def profile(self):
        """Where the time of a step goes, by kernel, also in CUDA graphs."""
        facts = self.facts()
        self.need_memory(facts)
        with self.notes.trial(PROFILE) as found:
            command, device = self.command(facts, WARMUP + PROFILED)
            library = self.place / LIBRARY
            found.update(profile(command, self.part, self.work, PROFILED, SIZES[self.part]["seconds"], self.environment, device,
                                 library=library if library.exists() else None))
            found["kinds"] = {kind: sum(one["ms"] for one in found["kernels"] if kind_of(one["name"]) == kind) for kind in KINDS}

    def counters(self):
        """The rate of the memory in Shale's longest kernels, by the counters of the GPU."""
        tool = shutil.which("ncu") or CUDA / "bin" / "ncu"
        if not pathlib.Path(tool).exists():
            raise LeftOut("no ncu")
        found = self.notes.lines.get("profile", {}).get("programs", {}).get(PROFILE, {"kernels": []})
        longest = [one["name"] for one in found["kernels"] if one["name"].startswith(OURS)][:COUNTED]
        if not longest:
            raise LeftOut("needs the line profile, which names the longest kernels")
        facts = self.facts()
        self.need_memory(facts)
        for name in longest:
            with self.notes.trial(name) as found:
                command, _ = self.command(facts, 2)
                try:
                    text = execute([tool, "--csv", "--kill", "yes", "--target-processes", "all", "--kernel-name", name, "--launch-count", 1, "--metrics",
                                    ",".join(COUNTERS), *command, "--no-graph"], name, SIZES[self.part]["seconds"], self.environment)
                except Deviates as deviation:
                    if "ERR_NVGPUCTRPERM" not in str(deviation):
                        raise
                    raise LeftOut("ncu has no permission to read the counters") from deviation
                found.update(counted(text))


def kind_of(name):
    return next(kind for kind, words in KINDS.items() if re.search(words, name))


def counted(text):
    """The counters in the CSV that ncu prints after the program's output. Raises Deviates if one lacks."""
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    rows = [] if start is None else list(csv.DictReader(lines[start:]))
    found = {COUNTERS[row["Metric Name"]]: float(row["Metric Value"].replace(",", "")) for row in rows if row["Metric Name"] in COUNTERS}
    if len(found) != len(COUNTERS):
        raise Deviates(f"ncu counts {', '.join(found) or 'nothing'}, not {', '.join(COUNTERS.values())}")
    return found


def failed(notes, side):
    return any(name.startswith(side) for name in notes.now["errors"])


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
