#!/usr/bin/env python3
"""Programs compiled under a memory limit follow PyTorch's run and stay within the limit.

usage: e2e limit --build DIR [--all]

Compiles the fixtures on one rank and fully sharded on two. The limits are the smallest that shalec reports, and the middle between it and
the memory of the fastest program. Under each limit the compiler has to choose flags. The program must follow the trajectory of 20
steps including its final weights. The largest resident memory of every rank (VmHWM) must be within the limit, with every buffer touched
(--report-buffers). A limit one byte below the smallest is an error. ctest runs one limit per fixture, with some flags set; --all runs all.

In the fixtures the process takes most of the memory, so a larger GPT is tested as well, with activations as its main part. Compiled without a
limit it takes more than the smallest limit. Compiled under that limit it stays within it and gives the same bits.
"""
import json
import os
import re
import subprocess

from gpt import write_model
from runner import MODELS, Case, Deviates, main, run, same_bits

PROGRAMS = [("gpt2", "full", 2), ("gpt2", "none", 1), ("llama", "full", 2), ("plain", "none", 1)]
LARGE, ROWS = {"layers": 2, "width": 64, "vocabulary": 2048, "length": 64}, 64
QUIET = {**os.environ, "OMP_NUM_THREADS": "1"}


# Flags that ctest's share sets, so that the search makes about ten plans and not 1548.
TYPED = ["--prefetch", 1, "--max-gathers-in-flight", 2, "--order", "overlap", "--reshard-after-forward=true"]


def compile_under(command, program, limit):
    """Returns the compiler's output, and the smallest possible limit if it refuses the given one."""
    done = subprocess.run([str(word) for word in (*command, "-o", program, "--threads", 1, "--memory-limit", limit)], capture_output=True, text=True, timeout=300)
    smallest = re.search(r"smallest limit that can be met: --memory-limit (\d+)", done.stdout + done.stderr)
    if done.returncode != (78 if smallest else 0):
        raise Deviates(f"shalec ended with {done.returncode}: {done.stderr[-600:]}")
    return done.stdout, int(smallest.group(1)) if smallest else None


def limits(what, command, program):
    """Compiles the fastest program. Returns the smallest limit and the bytes of that program."""
    free = sum(int(size) for size in re.findall(r"^  peak +(\d+)", compile_under(command, program, "1TiB")[0], re.M))
    smallest = compile_under(command, program, 1)[1]
    if compile_under(command, program, smallest - 1)[1] != smallest:
        raise Deviates(f"{what}: a limit of {smallest - 1} bytes is not refused")
    if not smallest < free:
        raise Deviates(f"{what}: the fastest program takes {free} bytes, the smallest {smallest}: no limit requires other flags")
    return smallest, free


def compile_chosen(what, command, program, limit):
    """Returns the flags that the compiler chose."""
    said, refused = compile_under(command, program, limit)
    chosen = re.search("that fits, (.*)", said)
    if refused or not chosen or "--" not in chosen.group(1):
        raise Deviates(f"{what}: under {limit} bytes the compiler chose no flags: {said}")
    return chosen.group(1)


def resident(report):
    """The largest resident memory of all ranks."""
    return max(rank["resident_peak"] for rank in json.loads(report.read_text()))


def check_fixture(a, work, number, name, shard, ranks):
    case, what = Case(a.build, MODELS / name), f"{name} {shard} on {ranks}"
    command = [case.bin / "shalec", case.folder / case.model, *case.model_flags(), *case.policy_flags(), "--mesh", f"fsdp={ranks}", "--shard", shard,
               *([] if a.all else TYPED)]
    smallest, free = limits(what, command, work / "free")
    found = []
    both = [smallest, (smallest + free) // 2]
    for limit in both if a.all else both[number % 2:number % 2 + 1]:
        program, out, report = work / f"under-{limit}", work / f"run-{limit}", work / f"{limit}.json"
        chosen = compile_chosen(what, command, program, limit)
        case.train(program, out, flags=["--schedule", "constant", "--report-buffers", report], environment=QUIET)
        loss, norm = case.check_metrics(out)
        found.append(f"{resident(report)} bytes under {limit} with {chosen}: loss {loss:.1e}, norm {norm:.1e}, weights {case.check_weights(out):.1e}")
        if resident(report) > limit:
            raise Deviates(f"{what}: " + "; ".join(found))
    return f"{what}: " + "; ".join(found)


def check_large(a, work):
    write_model(work / "large", **LARGE)
    command = [f"{a.build}/bin/shalec", work / "large/model.onnx", "--loss", "next-token:logits", "--dim", f"batch={ROWS}"]
    smallest, _ = limits("the large model", command, work / "free")
    chosen, taken = compile_chosen("the large model", command, work / "under", smallest), {}
    for program in ("free", "under"):
        report = work / f"{program}.json"
        run([work / program, "--data", work / "large/data.bin", "--steps", 3, "--save-every", 0, "--out", work / f"run-{program}", "--report-buffers", report], program, QUIET)
        taken[program] = resident(report)
    same_bits(work / "run-free", work / "run-under", "programs with and without a limit")
    said = f"the large model: {taken['under']} bytes under {smallest} with {chosen}, {taken['free']} without a limit"
    if not taken["under"] <= smallest < taken["free"]:
        raise Deviates(said)
    return said


def check(a, work):
    found = []
    for number, program in enumerate(PROGRAMS if a.all else PROGRAMS[:2]):
        (work / str(number)).mkdir()
        found.append(check_fixture(a, work / str(number), number, *program))
    return "\n  ".join(["within their limits", *found, check_large(a, work)])


if __name__ == "__main__":
    main(check, ("--all", {"action": "store_true"}), success="limits:")
