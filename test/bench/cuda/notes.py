"""Runs programs of the GPU benchmark, and notes what they gave in a file that survives a kill."""
import contextlib
import json
import os
import signal
import subprocess
import tempfile
import time

from parts import HERE  # noqa: F401  (finds runner)
from runner import Deviates

TAIL = 2000  # characters of each output of a program that failed


class LeftOut(Exception):
    """A line of a part cannot run here; the message says why."""


def tail(file):
    file.seek(0)
    return file.read().strip()[-TAIL:]


def execute(command, what, seconds, environment=None, until=None, codes=(0,)):
    """Runs a command for at most `seconds`, or only until the file `until` exists, and ends what it started. Returns its output.
    Raises Deviates with the ends of both outputs."""
    with tempfile.TemporaryFile("w+", errors="replace") as out, tempfile.TemporaryFile("w+", errors="replace") as err:
        process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=environment,
                                   preexec_fn=os.setpgrp)
        end = time.monotonic() + seconds
        try:
            while process.poll() is None and time.monotonic() < end and not (until and until.exists()):
                time.sleep(0.02)
            code = process.poll()
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        done = until.exists() if until else code in codes
        if not done:
            how = f"did not end within {seconds} s" if code is None else f"ended with {code}"
            outputs = [f"{name}: {text}" for name, text in (("stdout", tail(out)), ("stderr", tail(err))) if text]
            raise Deviates("\n".join([f"{what} {how}", *outputs]))
        out.seek(0)
        return out.read()


def describe(error):
    return str(error) if isinstance(error, Deviates) else f"{type(error).__name__}: {error}"


class Notes:
    """The results of a part, by line. A line has what each program gave, the errors of those that failed, and whether it is complete.
    The file is written anew after each program."""

    def __init__(self, path):
        self.path, self.lines, self.now = path, {}, {}
        with contextlib.suppress(OSError, ValueError):  # none yet, or not readable
            self.lines = json.loads(path.read_text())

    def save(self):
        partial = self.path.with_name(self.path.name + ".partial")
        partial.write_text(json.dumps(self.lines, indent=1))
        partial.replace(self.path)

    def begin(self, line):
        self.now = self.lines[line] = {"programs": {}, "errors": {}, "complete": False}
        self.save()

    def end(self):
        self.now["complete"] = True
        self.save()

    @contextlib.contextmanager
    def trial(self, name):
        """Notes what the body puts into the object that it gets, also if it fails, and prints a line. Any error is noted, and the
        programs after it run."""
        found, started = {}, time.monotonic()
        try:
            yield found
        except LeftOut:
            raise
        except Exception as error:  # whatever it is, the others run
            self.now["errors"][name] = describe(error)
        if found or name not in self.now["errors"]:
            self.now["programs"][name] = found
        self.save()
        said = [f"{key} {value:.6g}" for key, value in found.items() if isinstance(value, (int, float))]
        failed = [f"failed: {self.now['errors'][name]}"] if name in self.now["errors"] else []
        print(f"{name}: " + ", ".join([*said, f"{time.monotonic() - started:.1f} s", *failed]), flush=True)
