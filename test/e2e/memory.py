#!/usr/bin/env python3
"""A running program takes the memory that the compiler states, and takes it once.

usage: memory.py --build DIR

A GPT of 5 M parameters on 1 rank of 2 threads and on 2 ranks of 1. With a library preloaded that notes who allocates
(test/shim): from the second step to the last, Shale's own code asks for nothing (oneDNN, Gloo, libgomp and the C library are
told apart by return address), and what libraries hold at once is within the lines of the plan. Without it: the
resident set of rank 0 is within 5 % of the stated total.
"""
import importlib.util
import os
import re

import numpy as np

from runner import MODELS, Deviates, main, metrics, run

STEPS, ROWS, BAR = 5, 8, 0.05


def write_model(folder):
    spec = importlib.util.spec_from_file_location("export", MODELS / "gpt" / "export.py")
    export = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(export)
    export.write(folder)
    for name in ("data.bin", "eval.bin"):
        np.random.default_rng(1).integers(0, 8192, 1 << 16, np.uint16).tofile(folder / name)


def train(work, program, out, threads, environment):
    run([program, "--data", work / "data.bin", "--eval-data", work / "eval.bin", "--eval-every", 1, "--eval-batches", 1, "--steps", STEPS,
         "--save-every", 0, "--out", work / out], out, {**os.environ, "OMP_NUM_THREADS": str(threads), **environment})
    return metrics(work / out)


def lines_of(said):
    """The plan's lines: {what: bytes}."""
    return {what.strip(): int(size) for size, what in re.findall(r"^  \w+ +(\d+)  (.*)$", said, re.M)}


def check_allocations(a, work, program, ranks, threads, lines):
    # A program reads its data once an input and row: two inputs.
    marks = 2 * ROWS // ranks
    shim = {"LD_PRELOAD": f"{a.build}/lib/libshale_allocations.so", "SHALE_SHIM_OUT": str(work / "asked"), "SHALE_SHIM_MARK": "data.bin",
            "SHALE_SHIM_FROM": str(marks + 4), "SHALE_SHIM_TO": str(marks * STEPS)}
    train(work, program, f"watched{ranks}", threads, shim)
    watched = 0
    for report in work.glob("asked.*"):
        rows = [line.split() for line in report.read_text().splitlines()]
        report.unlink()
        if int(next(row[1] for row in rows if row[0] == "marks")) < marks * STEPS:
            continue  # the launcher
        watched += 1
        own = [row[1:] for row in rows if row[0] == "caller" and row[1] == "program"]
        if own:
            raise Deviates(f"{ranks} rank(s): Shale's code allocates after the first step: {own}")
        if not any(row[0] == "caller" and row[1].startswith("libdnnl") for row in rows):
            raise Deviates("the shim saw no product of oneDNN: it watches nothing")
        peaks = {row[1]: int(row[2]) for row in rows if row[0] == "module"}
        products = next(size for what, size in lines.items() if what.startswith("panels of products"))
        # What oneDNN compiles is in the process line; it is at most 6 MB of addresses.
        held = sum(size for name, size in peaks.items() if name.startswith("libdnnl"))
        if held > products + (6 << 20):
            raise Deviates(f"{ranks} rank(s): oneDNN holds {held} bytes at once, the plan says {products}")
        gloo = sum(size for name, size in peaks.items() if name.startswith("libgloo"))
        if gloo > lines.get("Gloo's buffers, bounded", 0):
            raise Deviates(f"{ranks} rank(s): Gloo holds {gloo} bytes at once")
    if watched != ranks:
        raise Deviates(f"{watched} rank(s) reported, not {ranks}")


def check(a, work):
    write_model(work)
    found = []
    for ranks, threads in ((1, 2), (2, 1)):
        program = work / f"train{ranks}"
        said = run([f"{a.build}/bin/shalec", work / "model.onnx", "-o", program, "--dim", f"batch={ROWS}", "--loss", "next-token:logits",
                    "--mesh", f"fsdp={ranks}", "--shard", "full", "--threads", threads], "shalec").stdout
        lines = lines_of(said)
        stated = int(re.search(r"^  peak +(\d+)", said, re.M).group(1))
        check_allocations(a, work, program, ranks, threads, lines)
        resident = max(line["memory_bytes"] for line in train(work, program, f"run{ranks}", threads, {}))
        found.append(f"{ranks} rank(s) take {resident / 1e6:.1f} MB of {stated / 1e6:.1f} stated")
        if abs(resident / stated - 1) > BAR:
            raise Deviates(found[-1])
    return "; ".join(found) + "; nothing is allocated after the first step"


if __name__ == "__main__":
    main(check, success="memory:")
