"""Lines of the GPU benchmark that run recorded kernels by themselves."""
import json
import pathlib
import shutil
import sys

from lines import SECONDS, Lines
from notes import LeftOut, execute
from parts import HERE
from runner import Deviates


class KernelLines(Lines):
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


def say_difference(one):
    return f"kernel {one['kernel']}: buffer {one['buffer']} ({one['type']}) differs in {one['count']} of {one['of']} {one['unit']}, the first is {one['first']}"
