#!/usr/bin/env python3
"""Runs the GPU benchmark's script with small programs and the stand-ins of NVIDIA's libraries: it compiles, runs and prints its table.

usage: gpubench.py --build DIR
"""
import json
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


def need_rows(text, rows):
    for what, row in rows.items():
        if not re.search(rf"^\| {re.escape(what)} \| {row} \|$", text, re.M):
            raise Deviates(f"the table has no row {what}: {row}: {text}")


def damage(path):
    """Flips a bit of the results of the last kernel."""
    data = bytearray(path.read_bytes())
    data[-2] ^= 1
    path.write_bytes(data)


def check(a, work):
    folder, stubs = work / "programs", pathlib.Path(a.build) / "stubs"
    libraries = ["--libraries", stubs]
    refuse(bench("run", "gpt2-124m", folder), 2, f"there is no folder {folder}")
    need(bench("compile", folder, "--build", a.build, "--target", "cuda:emulated", "--small", "--part", "fixtures", "--part", "kernels", "--part",
               "gpt2-124m"), "compile")
    refuse(bench("compile", folder, "--build", a.build, "--target", "cuda:sm_1", "--small", "--part", "gpt2-124m"), 1, "unknown GPU architecture 'sm_1'")
    refuse(bench("run", "gpt2-124m", folder, *libraries, environment={"SHALE_STUB_FAIL": "cuLaunchKernel=CUDA_ERROR_LAUNCH_FAILED"}), 1,
           "error: the GPU cannot launch a kernel: unspecified launch failure")
    rows = {"kernels, same bits as emulated": r"equal \| [1-9]\d* kernels, [1-9]\d* bytes equal",
            "memcheck and racecheck": r"clean \| (not run: no compute-sanitizer|2 runs clean)",
            "fixtures, one rank and staged": r"loss 1e-4, bf16 0.02 \| 4 programs, loss \d\.\de-\d\d, bf16 \d\.\de-\d\d",
            "fixtures, NCCL with one rank":
                r"loss 1e-4, bf16 0.02 \| 2 programs, [1-9]\d* calls of NCCL, loss \d\.\de-\d\d, bf16 \d\.\de-\d\d",
            "fixtures, two ranks of NCCL on one GPU": r"loss 1e-4 \| not run: NCCL 2.30 allows two ranks on one GPU, this one does not",
            "gpt2-124m": r"40%, 1.1 × torch \| 0\.0%, does not hold; torch not run; [\d.]+ ms, \d+ tokens/s",
            "gpt2-124m, memory": r"blocks exact, total within 2 % or 512 MiB \| 3 blocks exact; \d+ bytes planned, \d+ used, [\d.]+% off, .*hold.*",
            "llama-8b": r"40%, 1.05 × torch \| not run"}
    one_gpu = {"SHALE_STUB_DEVICES": "1"}
    for part in ("kernels", "fixtures", "gpt2-124m"):
        need(bench("run", part, folder, *libraries, "--steps", 2, environment=one_gpu), part)
    need_rows(need(bench("table", folder), "table"), rows)
    need(bench("run", "fixtures", folder, "--line", "two_ranks", *libraries, environment={**one_gpu, "SHALE_STUB_NCCL_VERSION": "23007"}), "fixtures with NCCL 2.30")
    need_rows(need(bench("table", folder), "table"), {"fixtures, two ranks of NCCL on one GPU": r"loss 1e-4 \| 1 programs, loss \d\.\de-\d\d"})
    damage(folder / "plain-3-f32.kernels.bytes")
    refuse(bench("run", "kernels", folder, *libraries), 1, "has other bits from element")
    need_rows(need(bench("table", folder), "table"), {"kernels, same bits as emulated": r"equal \| not run"})
    refuse(bench("run", "kernels", folder, "--line", "staged", *libraries), 1, "there is no line staged, but bits, sanitizer")
    facts = json.loads((folder / "gpt2-124m.json").read_text())
    facts["blocks"]["the arena"] += 64
    (folder / "gpt2-124m.json").write_text(json.dumps(facts))
    refuse(bench("run", "gpt2-124m", folder, *libraries, "--steps", 2), 1, "the arena has")
    return "4 programs of a fixture, their kernels and a model ran"


if __name__ == "__main__":
    main(check, success="the GPU benchmark:")
