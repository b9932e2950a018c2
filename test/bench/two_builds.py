#!/usr/bin/env python3
"""Compares the time of a training step of programs that two builds of Shale compile from one model. The two run in turn.

usage: two_builds.py OTHER MODEL [--build build] [--rounds 4] [--steps 8] [--flags '--dim batch=4 --dim sequence=256'] [--vocabulary 50257]

OTHER is a compiled program of the other build, or its shalec. Prints the fastest step of each side over all rounds, the ratio build / other,
and whether both have the same losses and gradient norms. The first two steps of each round do not count.
"""
import argparse
import json
import pathlib
import shlex
import subprocess
import tempfile

import numpy as np


def compiled(shalec, model, flags, program):
    subprocess.run([shalec, model, "-o", program, *flags], check=True, stdout=subprocess.DEVNULL)
    return program


def trained(program, data, steps, out):
    """Returns the seconds of each step, and its loss and gradient norm."""
    subprocess.run([program, "--data", data, "--token-dtype", "uint16", "--steps", str(steps), "--lr", "3e-4", "--clip-grad-norm", "1", "--out", out],
                   check=True, stdout=subprocess.DEVNULL)
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [line["tokens"] / line["tokens_per_s"] for line in lines], [(line["loss"], line["grad_norm"]) for line in lines]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("other", type=pathlib.Path)
    p.add_argument("model", type=pathlib.Path)
    p.add_argument("--build", type=pathlib.Path, default="build")
    p.add_argument("--rounds", type=int, default=4)
    p.add_argument("--steps", type=int, default=8)
    p.add_argument("--flags", default="--dim batch=4 --dim sequence=256")
    p.add_argument("--vocabulary", type=int, default=50257, help="tokens are drawn below it")
    a = p.parse_args()
    flags = shlex.split(a.flags)
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        programs = {"build": compiled(a.build / "bin" / "shalec", a.model, flags, work / "build")}
        programs["other"] = compiled(a.other, a.model, flags, work / "other") if a.other.name == "shalec" else a.other.resolve()
        data = work / "data.bin"
        np.random.default_rng(0).integers(0, a.vocabulary, 1 << 20, dtype=np.uint16).tofile(data)
        best, losses = {}, {}
        for number in range(a.rounds):
            for side, program in programs.items():
                seconds, losses[side] = trained(program, data, a.steps, work / f"{side}{number}")
                best[side] = min(best.get(side, float("inf")), *seconds[2:])
    for side, seconds in best.items():
        print(f"{side}: best step {seconds * 1000:.1f} ms")
    print(f"build / other: {best['build'] / best['other']:.3f}; {'the same' if losses['build'] == losses['other'] else 'other'} losses and norms")


if __name__ == "__main__":
    main()
