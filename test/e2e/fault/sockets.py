#!/usr/bin/env python3
"""A rank is connected with rank 0 and with the ranks along the axes of the mesh, and with no other.

usage: e2e sockets --build DIR --case test/models/gpt2

Eight ranks of replica=2,fsdp=2,tp=2 train while the sockets of their processes are counted: rank 0 has seven, a rank that differs from it in
one coordinate three, another one four. The run follows PyTorch.
"""
import os
import pathlib

from faults import Run
from runner import LOSS, Case, Deviates, largest, main, metrics

MESH, RANKS = ["--mesh", "replica=2,fsdp=2,tp=2"], 8


def sockets(pid):
    folder = pathlib.Path(f"/proc/{pid}/fd")
    return sum(os.readlink(entry).startswith("socket:") for entry in folder.iterdir())


def expected(rank):
    near = {rank ^ bit for bit in (1, 2, 4)} | {0} if rank else set(range(RANKS))
    return len(near - {rank})


def check(a, work):
    case = Case(a.build, a.case)
    case.shalec(work / "train", "full", 1, MESH)
    words = [work / "train", "--data", case.batches, "--steps", case.steps, *case.hyper_flags(), "--schedule", "constant", "--out", work / "run"]
    run = Run([str(word) for word in words], work / "run", RANKS, "nproc")
    run.wait_for_steps(1)
    counts = {rank: sockets(pid) for rank, pid in run.pids().items()}
    if codes := [code for code in run.codes(300) if code]:
        raise Deviates(f"the run ended with {codes}: {run.text()[-600:]}")
    wanted = {rank: expected(rank) for rank in range(RANKS)}
    if counts != wanted:
        raise Deviates(f"ranks have {counts} sockets, not {wanted}")
    off = largest(abs(line["loss"] - step["loss"]) for line, step in zip(metrics(work / "run"), case.trajectory["steps"]))
    if off > LOSS:
        raise Deviates(f"the loss is off by {off:.1e}")
    return f"{sum(counts.values()) // 2} connections of 8 ranks, where all pairs would be 28; loss within {off:.1e}"


if __name__ == "__main__":
    main(check, ("--case", {"required": True}))
