#!/usr/bin/env python3
"""A running program takes the memory that the compiler states, and allocates it once.

usage: e2e memory --build DIR

A preloaded library (test/shim) records each allocation. The return address shows whether Shale's code, oneDNN, Gloo, libgomp or the C
library asked for it. The programs are a GPT of 5 M parameters on 1 rank of 2 threads and on 2 ranks of 1 thread; a small GPT with each kind of
offload, micro-batches and 16-bit floats; and a model with dropout.

- From the second step to the last, Shale's own code allocates nothing.
- The bytes that a library holds at once are within its lines of the plan. The bytes that Shale's code holds at once, during saves too,
  match the other lines except for small containers.
- Without the preloaded library, the resident memory of rank 0 of the 5 M model is at most the stated total, and within 5 % of it, also on two
  tensor ranks with sequence parallelism.
  On a CPU without AVX-512 the line of oneDNN's panels is an upper bound, so the lower limit does not count it.
"""
import os
import re
from collections import Counter

import numpy as np

from gpt import SMALL, write_model, write_tokens
from runner import MODELS, Deviates, main, metrics, run

STEPS, ROWS, BAR = 5, 8, 0.05
# Lines for libraries and for memory outside the blocks, and the part of the heap line that a program's tables take.
OTHERS, TABLES = ("panels of matmuls", "connections", "heap and stacks", "process"), 48 << 10
LOSS = ["--loss", "next-token:logits"]
# Flags of the small model, and of the one with dropout.
WATCHED = [("small", 2, ["--shard", "full", "--offload", "all", "--recompute", "block"]),
           ("small", 2, ["--shard", "none", "--offload", "optimizer"]),
           ("small", 1, ["--offload", "activations"]),
           ("small", 2, ["--shard", "grad", "--accumulate", 2]),
           ("small", 2, ["--shard", "full", "--accumulate", 2, "--offload", "all"]),
           ("small", 2, ["--shard", "full", "--param-dtype", "bf16"]),
           ("small", 2, ["--shard", "full", "--wire-dtype", "gather=int8,reduce=int8"]),
           ("small", 2, ["--shard", "none", "--wire-dtype", "reduce=int8"]),
           ("dropout", 2, ["--shard", "full", "--recompute", "block"])]


def train(work, program, out, threads, environment):
    run([work / program, "--data", work / "data.bin", "--eval-data", work / "eval.bin", "--eval-every", 1, "--eval-batches", 1, "--steps", STEPS,
         "--save-every", 0, "--out", work / out], out, {**os.environ, "OMP_NUM_THREADS": str(threads), **environment})
    return metrics(work / out)


def lines_of(said):
    """The lines of the plan, for both memories: {what: bytes}."""
    lines = Counter()
    for category, size, what in re.findall(r"^  (\w+) +(\d+)  (.*)$", said, re.M):
        if category != "peak":
            lines[what] += int(size)
    return lines


def row_bytes(work, program):
    """The bytes of a row of tokens in the file."""
    said = run([work / program, "--describe"], program).stdout
    return int(re.search(r"^input: .* \[\d+, (\d+)\] per rank, from tokens$", said, re.M).group(1)) * np.dtype(np.uint16).itemsize


def check_allocations(a, work, program, ranks, threads, lines, batches=1):
    # A program reads its data once per input and row, and there are two inputs. The reads of a row tell the steps apart: what it reads
    # when it opens the file has other sizes, and may change.
    marks = 2 * ROWS // ranks * batches
    shim = {"LD_PRELOAD": f"{a.build}/lib/libshale_allocations.so", "SHALE_SHIM_OUT": str(work / "asked"), "SHALE_SHIM_MARK": "data.bin",
            "SHALE_SHIM_MARK_BYTES": str(row_bytes(work, program)), "SHALE_SHIM_FROM": str(marks + 1), "SHALE_SHIM_TO": str(marks * STEPS)}
    train(work, program, f"watched-{program}", threads, shim)
    watched = 0
    for report in work.glob("asked.*"):
        rows = [line.split() for line in report.read_text().splitlines()]
        report.unlink()
        seen = int(next(row[1] for row in rows if row[0] == "marks"))
        if seen == 0:
            continue  # the launcher
        if seen != marks * STEPS:
            raise Deviates(f"{ranks} rank(s): a rank read {seen} rows, not {marks * STEPS}: the steps cannot be told apart")
        watched += 1
        own = [row[1:] for row in rows if row[0] == "caller" and row[1] == "program"]
        if own:
            raise Deviates(f"{ranks} rank(s): Shale's code allocates after the first step: {own}")
        if not any(row[0] == "caller" and row[1].startswith("libdnnl") for row in rows):
            raise Deviates("the preloaded library recorded no matmul of oneDNN")
        peaks = {row[1]: int(row[2]) for row in rows if row[0] == "module"}
        matmuls = next(size for what, size in lines.items() if what.startswith("panels of matmuls"))
        # The process line includes the code that oneDNN compiles, which has at most 6 MB of addresses.
        held = sum(size for name, size in peaks.items() if name.startswith("libdnnl"))
        if held > matmuls + (6 << 20):
            raise Deviates(f"{ranks} rank(s): oneDNN holds {held} bytes at once, but the plan has {matmuls}")
        blocks = sum(size for what, size in lines.items() if not what.startswith(OTHERS))
        connections = lines.get("connections, bounded", 0)  # with those of Gloo's contexts
        if not 0 <= peaks["program"] - blocks <= TABLES + connections:
            raise Deviates(f"{ranks} rank(s): Shale's code holds {peaks['program']} bytes at once, but the plan has {blocks}")
        gloo = sum(size for name, size in peaks.items() if name.startswith("libgloo"))
        if gloo > connections:
            raise Deviates(f"{ranks} rank(s): Gloo holds {gloo} bytes at once")
    if watched != ranks:
        raise Deviates(f"{watched} rank(s) reported, not {ranks}")


def compile_program(a, model, program, ranks, threads, flags, axis="fsdp"):
    """The lines of the plan and its stated total."""
    said = run([f"{a.build}/bin/shalec", model, "-o", program, "--dim", f"batch={ROWS}", "--mesh", f"{axis}={ranks}", "--threads", threads, *flags],
               "shalec").stdout
    return lines_of(said), sum(map(int, re.findall(r"^  peak +(\d+)", said, re.M)))


def check_watched(a, work):
    write_model(work / "small", **SMALL)
    (work / "dropout").mkdir()
    write_tokens(work / "dropout", 64)
    for number, (model, ranks, flags) in enumerate(WATCHED):
        path, of = (MODELS / "dropout/model.onnx", ["--bind", "ids=tokens", "--bind", "labels=tokens+1"]) if model == "dropout" else \
            (work / model / "model.onnx", LOSS)
        name, program = f"{model} {' '.join(map(str, flags))}", f"train{number}"
        lines, _ = compile_program(a, path, work / model / program, ranks, 1, [*of, *flags])
        try:
            check_allocations(a, work / model, program, ranks, 1, lines, 2 if "--accumulate" in flags else 1)
        except Deviates as error:
            raise Deviates(f"{name}: {error}") from None


def has_avx512():
    return " avx512f " in open("/proc/cpuinfo", encoding="utf-8").read().replace("\n", " ")


def check(a, work):
    folder = work / "5M"
    write_model(folder)
    found = []
    for axis, ranks, threads, flags in (("fsdp", 1, 2, ["--shard", "full"]), ("fsdp", 2, 1, ["--shard", "full"]),
                                        ("tp", 2, 1, ["--sequence-parallel", "true"])):
        program = f"train-{axis}{ranks}"
        lines, stated = compile_program(a, folder / "model.onnx", folder / program, ranks, threads, [*LOSS, *flags], axis)
        if axis == "fsdp":
            check_allocations(a, folder, program, ranks, threads, lines)
        resident = max(line["memory_bytes"] for line in train(folder, program, f"run-{program}", threads, {}))
        found.append(f"{ranks} rank(s) of {axis} take {resident / 1e6:.1f} MB of {stated / 1e6:.1f} stated")
        # The plan assumes oneDNN's AVX-512 kernels. Kernels for other CPUs pack less or nothing.
        least = stated if has_avx512() else stated - sum(size for what, size in lines.items() if what.startswith("panels of matmuls"))
        if not least * (1 - BAR) <= resident <= stated:
            raise Deviates(found[-1])
    check_watched(a, work)
    return "; ".join(found) + f"; nothing is allocated after the first step, nor by {len(WATCHED)} programs more"


if __name__ == "__main__":
    main(check, success="memory:")
