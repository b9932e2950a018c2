#!/usr/bin/env python3
"""A program gives the same bits with one, two and three threads per rank.

usage: e2e threads --build DIR

Compares loss and gradient norm of each step and the final weights of the three fixtures, with 16-bit floats, recomputation, updates on the
host and two ranks; and of a GPT so wide that its matmuls are cut into pieces and its kernels into several blocks per thread. The programs print
their number of threads, so the test also works on a machine with one core. A mutant whose matmuls depend on the number of threads
(test/shim/Matmuls.cpp) is noticed.
"""
import os
import re

from gpt import write_model
from runner import MODELS, Case, Deviates, expect_deviation, main, run, same_bits

COUNTS = (1, 2, 3)
PROGRAMS = [("gpt2", 1, "none", []), ("gpt2", 2, "full", ["--recompute", "block", "--offload", "all"]), ("llama", 1, "none", ["--param-dtype", "bf16"]),
            ("plain", 1, "none", ["--no-recover"])]
WIDE = {"layers": 2, "width": 256, "vocabulary": 1024, "length": 128}


def environment(threads):
    return {**os.environ, "OMP_NUM_THREADS": str(threads), "OMP_DYNAMIC": "false"}


def check_same(what, folder, train):
    for threads in COUNTS:
        said = train(folder / f"run{threads}", environment(threads)).stdout
        if f", {threads} thread" not in said:
            raise Deviates(f"{what} does not run {threads} thread(s) per rank: {re.search('.*thread.*', said)}")
        same_bits(folder / f"run{COUNTS[0]}", folder / f"run{threads}", f"{what}, {COUNTS[0]} and {threads} threads,")


def check_mutant(case, folder, program, matmuls):
    """A run whose matmuls are sums of as many parts as there are threads must not pass for one with equal bits."""
    expect_deviation(lambda: check_same("the mutant", folder, lambda out, env: case.train(program, out, 4, environment={**env, "LD_PRELOAD": str(matmuls)})),
                     "that matmuls depend on the number of threads", "and 2 threads")


def check(a, work):
    for number, (name, ranks, shard, flags) in enumerate(PROGRAMS):
        case, folder = Case(a.build, MODELS / name), work / str(number)
        folder.mkdir()
        case.shalec(folder / "train", shard, ranks, flags)
        check_same(f"{name} {shard} {' '.join(flags)}", folder, lambda out, env: case.train(folder / "train", out, 4, environment=env))
        if number == 0:
            (folder / "mutant").mkdir()
            check_mutant(case, folder / "mutant", folder / "train", f"{a.build}/lib/libshale_split_matmuls.so")
    wide = work / "wide"
    write_model(wide, **WIDE)
    run([f"{a.build}/bin/shalec", wide / "model.onnx", "-o", wide / "train", "--dim", "batch=4", "--loss", "next-token:logits"], "shalec")
    check_same("the wide model", wide, lambda out, env: run([wide / "train", "--data", wide / "data.bin", "--steps", 3, "--save-every", 0, "--out", out],
                                                            "the wide model", env))
    return f"{len(PROGRAMS) + 1} programs have the bits of one thread with {' and '.join(map(str, COUNTS[1:]))}"


if __name__ == "__main__":
    main(check, success="same bits:")
