#!/usr/bin/env python3
"""Runs the GPU benchmark's script with small programs and the stand-ins of NVIDIA's libraries: it compiles, runs and prints its table.

usage: gpubench.py --build DIR
"""
import os
import pathlib
import re
import subprocess
import sys

from runner import MODELS, Deviates, main

BENCH = MODELS.parent / "bench" / "cuda" / "bench.py"


def bench(*words, environment=None):
    return subprocess.run([sys.executable, BENCH, *map(str, words)], capture_output=True, text=True, timeout=600,
                          env={**os.environ, **(environment or {})})


def need(result, what):
    if result.returncode:
        raise Deviates(f"{what} ended with {result.returncode}: {result.stderr[-600:]}")
    return result.stdout


def refuse(result, code, message):
    if result.returncode != code or message not in result.stderr or "Traceback" in result.stderr:
        raise Deviates(f"expected exit code {code} and '{message}', got {result.returncode}: {result.stderr[-600:]}")


def check(a, work):
    folder, stubs = work / "programs", pathlib.Path(a.build) / "stubs"
    refuse(bench("run", "gpt2-124m", folder), 2, f"there is no folder {folder}")
    need(bench("compile", folder, "--build", a.build, "--target", "cuda:emulated", "--small", "--part", "fixtures", "--part", "gpt2-124m"), "compile")
    refuse(bench("compile", folder, "--build", a.build, "--target", "cuda:sm_1", "--small", "--part", "gpt2-124m"), 1, "unknown GPU architecture 'sm_1'")
    refuse(bench("run", "gpt2-124m", folder, "--libraries", stubs, environment={"SHALE_STUB_FAIL": "cuLaunchKernel=CUDA_ERROR_LAUNCH_FAILED"}), 1,
           "error: the GPU cannot launch a kernel: unspecified launch failure")
    for part in ("fixtures", "gpt2-124m"):
        need(bench("run", part, folder, "--libraries", stubs, "--steps", 2), part)
    text = need(bench("table", folder), "table")
    for row in (r"\| fixtures \| loss 1e-4, bf16 0.02 \| 12 programs, loss \d\.\de-\d\d, bf16 \d\.\de-\d\d \|",
                r"\| gpt2-124m \| 40%, 1.1 × torch \| 0\.0%, torch not run, [\d.]+ ms, \d+ tokens/s; \d+ bytes planned, .+ \|",
                r"\| llama-8b \| \| not run \|"):
        if not re.search(row, text):
            raise Deviates(f"the table has no row {row}: {text}")
    return "12 fixtures and a model ran"


if __name__ == "__main__":
    main(check, success="the GPU benchmark:")
