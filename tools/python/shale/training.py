"""Runs training programs, and follows their metrics."""
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time

from .errors import MissingInput, error_of
from .flags import flags_of

SWITCHES = {"--no-shuffle", "--eval-only", "--save-on-failure", "--tensorboard", "--insecure"}
INTERVAL = 0.05    # seconds between two looks at metrics.jsonl
PATIENCE = 600     # seconds that a stopped program has to save its state
TAIL = 1 << 16     # bytes of a program's messages that an exception shows


def train(program, data, out="run", **flags):
    """Starts the training program on this host. Returns a Run, which yields the metrics of each step.

    The keywords are flags of the program, for example steps=100, lr=3e-4, schedule="cosine", warmup=10, nproc=2, save_every=50,
    resume="must". `data` is a file or a list of files. The run is over when the Run is exhausted; an error of the program is then
    raised as shale.Error. A run on several hosts is started by torchrun, mpirun or srun instead.
    """
    return Run(program, data, out, flags)


class Run:
    """A run in progress. Yields a dict per step, as in metrics.jsonl: step, loss, grad_norm, lr and more; a resumed run first yields
    the steps before it. Leaving the loop early leaves the run going; stop(), or the end of a `with` block, stops it after it saved its
    state."""

    def __init__(self, program, data, out, flags):
        path = pathlib.Path(program)
        if not path.is_file():
            raise MissingInput(f"there is no program '{path}': shale.compile() makes one")
        self.out = pathlib.Path(out)
        self.metrics = self.out / "metrics.jsonl"
        self.before = self._identity()
        data = ",".join(map(os.fspath, data)) if isinstance(data, (list, tuple)) else os.fspath(data)
        self.messages = tempfile.TemporaryFile()
        words = [os.path.abspath(path), f"--data={data}", f"--out={self.out}", *flags_of(flags, SWITCHES)]
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self.messages)
        self.file, self.partial, self.last = None, b"", -1
        self.steps = self._follow()

    def __iter__(self):
        return self

    def __next__(self):
        return next(self.steps)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.stop()

    @property
    def weights(self):
        """The file of trained weights, under PyTorch's names: safetensors.torch.load_file(run.weights)."""
        return self.out / "model.safetensors"

    def wait(self):
        """Waits for the end of the run. Returns the metrics of the last step, or None."""
        last = None
        for last in self:
            pass
        return last

    def stop(self):
        """Stops the program after the current step. It saves its state; train(.., resume="must") continues."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._close()

    def _identity(self):
        try:
            found = os.stat(self.metrics)
            return found.st_dev, found.st_ino
        except OSError:
            return None

    def _reopen(self):
        """Opens metrics.jsonl if it is another file than the one that is open. A program that starts replaces the file."""
        identity = self._identity()
        if identity in (None, self.before):
            return
        if self.file:
            self.file.close()
        self.file, self.partial, self.before = open(self.metrics, "rb"), b"", identity

    def _read(self):
        """Yields the steps that were written since the last call."""
        if not self.file:
            return
        *lines, self.partial = (self.partial + self.file.read()).split(b"\n")
        for line in lines:
            step = json.loads(line)
            if step["step"] > self.last:  # ranks that start again repeat steps
                self.last = step["step"]
                yield step

    def _follow(self):
        try:
            while True:
                ended = self.process.poll() is not None  # before the read: nothing is written after it
                yield from self._read()
                self._reopen()
                yield from self._read()
                if ended:
                    break
                time.sleep(INTERVAL)
        except KeyboardInterrupt:
            self.process.send_signal(signal.SIGINT)
            self.process.wait()
            raise
        code, text = self.process.returncode, self._text()
        self._close()
        if code:
            raise error_of(code, text, "the program")

    def _text(self):
        if self.messages.closed:
            return ""
        size = self.messages.seek(0, os.SEEK_END)
        self.messages.seek(max(0, size - TAIL))
        return self.messages.read().decode(errors="replace")

    def _close(self):
        self.messages.close()
        if self.file:
            self.file.close()
            self.file = None
