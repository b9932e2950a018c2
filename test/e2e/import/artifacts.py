#!/usr/bin/env python3
"""Compiles a folder of ONNX Runtime's training artifacts, trains it, and compares the run with ONNX Runtime's own training.

usage: e2e artifacts --build DIR --case test/models/artifacts --optimizer NAME [--shard none] [--ranks 1]

The bars are those of follow.py. Frozen parameters keep their bits.
"""
import shutil

import numpy as np

from runner import Case, Deviates, main, read_safetensors, run


class Folder(Case):
    """The shared files of a case with one of its optimizers, in a folder as ONNX Runtime writes it."""

    def __init__(self, build, case, optimizer, work):
        super().__init__(build, case, f"trajectory-{optimizer}.json")
        self.final = f"final-{optimizer}.safetensors"
        work.mkdir()
        for name in ("training_model.onnx", "eval_model.onnx", "checkpoint"):
            shutil.copy(self.folder / name, work)
        shutil.copy(self.folder / f"optimizer-{optimizer}.onnx", work / "optimizer_model.onnx")
        self.artifacts = work

    def compile(self, output, shard, ranks):
        batches = read_safetensors(self.batches)
        rows, labels = batches["ids"].shape[1], batches["labels"].shape[1]
        return run([self.bin / "shalec", self.artifacts, "-o", output, "--dim", f"batch={rows}", "--dim", f"rows={labels}", "--batch-dim", "labels:0",
                    "--mesh", f"fsdp={ranks}", "--shard", shard], "shalec").stdout

    def hyper_flags(self):
        return ["--lr", self.trajectory["optimizer"]["flags"]["lr"]]


def follow(a, work):
    case = Folder(a.build, a.case, a.optimizer, work / "artifacts")
    case.compile(work / "train", a.shard, a.ranks)
    case.train(work / "train", work / "run")
    loss, norm = case.check_metrics(work / "run")
    weights = case.check_weights(work / "run")
    case.train(work / "train", work / "start", steps=0)
    first, last = (read_safetensors(work / name / "model.safetensors") for name in ("start", "run"))
    for name in first:
        if np.array_equal(first[name], last[name]) != name.startswith("wpe"):
            raise Deviates(f"{name} is {'trained' if name.startswith('wpe') else 'not trained'}")
    return f"loss {loss:.1e}, norm {norm:.1e}, weights {weights:.1e}"


if __name__ == "__main__":
    main(follow, ("--case", {"required": True}), ("--optimizer", {"required": True}), ("--shard", {"default": "none"}),
         ("--ranks", {"type": int, "default": 1}), success="follows:")
