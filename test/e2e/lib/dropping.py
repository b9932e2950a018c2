"""Programs and interpreted runs of test/models/dropout."""
import json

import numpy as np

from runner import MODELS, largest, run, save_safetensors

STEPS = 6


def off(got, want):
    """The largest differences of the loss and (relative) of the gradient norm. Both runs must have the same number of steps."""
    return (largest(abs(a["loss"] - b["loss"]) for a, b in zip(got, want, strict=True)),
            largest(abs(a["grad_norm"] - b["grad_norm"]) / b["grad_norm"] for a, b in zip(got, want, strict=True)))


class Dropout:
    def __init__(self, build, work):
        self.bin, self.work, self.data = f"{build}/bin", work, work / "batches.safetensors"
        tokens = np.random.default_rng(0).integers(0, 64, (2 * STEPS, 4, 17))
        save_safetensors(self.data, {"ids": tokens[:, :, :-1], "labels": tokens[:, :, 1:]})

    def compile(self, name, *flags):
        run([f"{self.bin}/shalec", MODELS / "dropout/model.onnx", "-o", self.work / name, "--dim", "batch=4", *flags], "shalec")
        return self.work / name

    def train(self, program, name, *flags, steps=STEPS):
        out = self.work / name
        run([program, "--data", self.data, "--steps", steps, "--lr", "0.01", "--out", out, *flags], "the program")
        return out

    def interpret(self, *flags):
        step = self.compile("step.mlir", "--emit", "nn", *flags)
        text = run([f"{self.bin}/shale-run", step, "--steps", STEPS, "--batches", self.data, "--lr", "0.01", "--beta2", "0.999"], "shale-run").stdout
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]
