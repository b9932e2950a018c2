#!/usr/bin/env python3
"""Stops a run and resumes it: at the same world size the bits are those of a run at once; over 2 -> 4 -> 1 ranks the
run stays on PyTorch's trajectory.

usage: resume.py --build DIR --case test/models/gpt2
"""
import argparse
import json
import pathlib
import sys
import tempfile

import follow


def compile_for(a, work, case, batches, trajectory, ranks):
    a.ranks, a.shard, a.flags = ranks, "full" if ranks > 1 else "none", ""
    program = work / f"train{ranks}"
    follow.run([f"{a.build}/bin/shalec", str(case / "model.onnx"), "-o", str(program),
                *follow.compile_flags(case, trajectory, follow.read_safetensors(batches), a)], "shalec")
    return program


def series(out):
    return [(line["step"], line["loss"], line["grad_norm"]) for line in map(json.loads, (out / "metrics.jsonl").open())]


def same_world_size(program, flags, work):
    """20 steps at once, and 10, then 10 resumed, on a cosine schedule."""
    cosine = [*flags, "--schedule", "cosine", "--warmup", "3", "--min-lr", "1e-4"]
    follow.run([str(program), *cosine, "--out", str(work / "whole")], "the whole run")
    follow.run([str(program), *cosine, "--out", str(work / "parts"), "--stop-after", "10"], "the first part")
    follow.run([str(program), *cosine, "--out", str(work / "parts"), "--resume", "must"], "the second part")
    if series(work / "whole") != series(work / "parts"):
        raise follow.Deviates("loss or grad_norm of the resumed run differ from those of the run at once")
    if (work / "whole" / "model.safetensors").read_bytes() != (work / "parts" / "model.safetensors").read_bytes():
        raise follow.Deviates("final weights of the resumed run differ from those of the run at once")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--build", required=True)
    p.add_argument("--case", required=True)
    a = p.parse_args()
    case = pathlib.Path(a.case)
    trajectory = json.loads((case / "trajectory.json").read_text())
    batches = case / "batches.safetensors"
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        try:
            programs = {ranks: compile_for(a, work, case, batches, trajectory, ranks) for ranks in (1, 2, 4)}

            def flags(ranks):
                words = follow.run_flags(trajectory, batches, 20, work / "moved", ranks)
                return words[:words.index("--schedule")] + ["--nproc", str(ranks)] + words[words.index("--nproc") + 2:]

            same_world_size(programs[2], flags(2), work)
            constant = ["--schedule", "constant", "--out", str(work / "moved")]
            follow.run([str(programs[2]), *flags(2), *constant, "--stop-after", "7"], "2 ranks")
            follow.run([str(programs[4]), *flags(4), *constant, "--stop-after", "14", "--resume", "must"], "4 ranks")
            follow.run([str(programs[1]), *flags(1), *constant, "--resume", "must"], "1 rank")
            follow.check_metrics(work / "moved", trajectory)
            follow.check_weights(work / "moved", case)
            print("resumes: the same bits on 2 ranks; on the trajectory over 2 -> 4 -> 1")
            return 0
        except follow.Deviates as error:
            print("deviates:", error)
            return 1


if __name__ == "__main__":
    sys.exit(main())
