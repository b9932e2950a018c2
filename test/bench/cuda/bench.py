#!/usr/bin/env python3
"""The GPU benchmark: compile programs on any machine, run them on one with a GPU, print a table.

usage: bench.py compile FOLDER [--build build] [--target cuda:sm_90a] [--small] [--part PART]...
       bench.py run PART FOLDER [--line LINE] [--libraries DIR] [--torch PYTHON] [--steps 20] [--results DIR]
       bench.py table FOLDER [--results DIR]

Parts: kernels (bits, and compute-sanitizer), fixtures (over Gloo and over NCCL), gpt2-124m, llama-1b, llama-8b (speed, memory, time by kernel),
llama-8b-block and llama-8b-selective (other recomputation). Each line of a part runs in at most ten minutes, and in about five if nothing is wrong.

`compile` writes FOLDER/PART.tar.xz, which has the programs, data and facts of a part, and FOLDER/libs, which has the shared libraries of all
programs: a part needs these two. Weights do not travel, because programs start from --init random. The models' weights are written
meanwhile: 0.5, 5 and 32 GB. --small compiles the gpt2 fixture instead of each model, and one fixture instead of three, to test this script.
It needs the tests' tools in the build.

`run` needs this repository, Python and numpy. It takes the programs of FOLDER/PART, if that folder exists, or unpacks the archive. --torch
is a Python with torch, for PyTorch's side, which runs in turn with Shale's. --libraries is the programs' --cuda-libraries; without it they get links
to the libraries in the nvidia packages of the Python that is --torch, or python3. `run all` runs every part that FOLDER has: about an hour. --line runs one
line of a part: bits, sanitizer; staged, one_rank, one_gpu, offload, optimizers, tensor; of a model its name, profile, counters (needs ncu).
What each program gave, or its error, is written to --results (FOLDER/results) as soon as it ends, and a line is printed. A program that
fails does not stop the others; `run` ends with 1 then. `table` prints what ran beside its bar, and whether bars of speed and memory hold; what did not run is "not run".
"""
import argparse
import json
import pathlib
import statistics
import sys

from parts import PARTS, SIZES
from run_parts import run_parts
from runner import Deviates, largest

PEAK = 989e12  # dense 16-bit operations per second of an H100 or H200


def compile_parts(a):
    from make_programs import compile_all  # needs more of the repository than `run`
    compile_all(a)


def losses(line):
    """The largest difference of each type."""
    kinds = {kind: [one["loss"] for one in line["programs"].values() if one.get("dtype") == kind] for kind in ("f32", "bf16")}
    return ", ".join(f"{'loss' if kind == 'f32' else kind} {largest(values):.1e}" for kind, values in kinds.items() if values)


def total(line, key):
    return sum(one.get(key, 0) for one in line["programs"].values())


def side(line, name):
    return [found for program, found in line["programs"].items() if program.startswith(name)]


def speed(part, line):
    ours, theirs = [ms for one in side(line, "shale") for ms in one.get("step_ms", [])], [one["tokens_per_s"] for one in side(line, "torch")]
    if not ours:
        return "not run"
    facts, parameters = line["facts"], side(line, "shale")[0]["parameters"]
    milliseconds = statistics.median(ours)
    tokens = facts["batch"] * facts["length"] / milliseconds * 1e3
    operations = 6 * (parameters - facts["lookup"]) + 12 * facts["layers"] * facts["width"] * facts["length"]
    utilization, took = tokens * operations / PEAK, f"{milliseconds:.1f} ms, {tokens:.0f} tokens/s"
    if not SIZES[part]["bars"]:
        return f"{utilization:.1%}; {took}"
    use, ratio = SIZES[part]["bars"]
    beside = "torch not run"
    if theirs:
        beside = f"{tokens / max(theirs):.2f} × torch, {'holds' if tokens / max(theirs) >= ratio else 'does not hold'}"
    return f"{utilization:.1%}, {'holds' if utilization >= use else 'does not hold'}; {beside}; {took}"


def memory(line):
    if "memory" not in line["programs"]:
        return "not run"
    r = line["programs"]["memory"]
    off = abs(r["used"] - r["planned"])
    holds = off <= max(r["planned"] * 0.02, 512 << 20)
    return f"{r['exact']} blocks exact; {r['planned']} bytes planned, {r['used']} used, {off / r['planned']:.1%} off, {'holds' if holds else 'does not hold'}"


def by_kind(line):
    found = next(iter(line["programs"].values()))
    kinds = ", ".join(f"{kind} {ms:.1f}" for kind, ms in found["kinds"].items())
    return f"{found['step_ms']:.1f} ms: {kinds}, nothing {found['idle_ms']:.1f}; {found['launches']:g} launches"


def by_counter(line):
    return ", ".join(f"{name} {one['percent']:.0f} %" for name, one in line["programs"].items())


# Part, line, what it is, bar, and how to say the result.
ROWS = [("kernels", "bits", "kernels, same bits as emulated", "equal", lambda r: f"{total(r, 'kernels')} kernels, {total(r, 'bytes')} bytes equal"),
        ("kernels", "sanitizer", "memcheck and racecheck", "clean", lambda r: f"{total(r, 'kernels')} launches clean"),
        ("fixtures", "staged", "fixtures, one rank and staged", "loss 1e-4, bf16 0.02", lambda r: f"{len(r['programs'])} programs, {losses(r)}"),
        ("fixtures", "one_rank", "fixtures, NCCL with one rank", "loss 1e-4, bf16 0.02",
         lambda r: f"{len(r['programs'])} programs, {total(r, 'collectives')} calls of NCCL, {losses(r)}"),
        ("fixtures", "one_gpu", "fixtures, 2 and 4 ranks of NCCL on one GPU", "loss 1e-4, bf16 0.02",
         lambda r: f"{len(r['programs'])} programs, {losses(r)}"),
        ("fixtures", "offload", "state and activations on the host", "loss 1e-4, bf16 0.02", lambda r: f"{len(r['programs'])} programs, {losses(r)}"),
        ("fixtures", "optimizers", "other optimizers, one and two ranks", "loss 1e-4", lambda r: f"{len(r['programs'])} programs, {losses(r)}"),
        ("fixtures", "tensor", "tensor parallelism, staged", "loss 1e-4, bf16 0.02", lambda r: f"{len(r['programs'])} programs, {losses(r)}"),
        *((part, part, part, "{:.0%}, {} × torch".format(*size["bars"]) if size["bars"] else "none", lambda r, part=part: speed(part, r))
          for part, size in SIZES.items()),
        *((part, part, f"{part}, memory", "blocks exact, total within 2 % or 512 MiB", memory) for part in SIZES),
        *((part, "profile", f"{part}, by kernel", "none", by_kind) for part in SIZES),
        *((part, "counters", f"{part}, rate of the memory in the longest kernels", "none", by_counter) for part in SIZES)]


def shortened(error):
    """An error in a cell of the table."""
    text = " ".join(error.split()).replace("|", "/")
    return text if len(text) <= 240 else f"{text[:80]} .. {text[-160:]}"


def said(line, say):
    if line is None:
        return "not run"
    if "left_out" in line:
        return "not run: " + line["left_out"]
    words = [say(line)] if line["programs"] else []
    if line["errors"]:
        name, error = next(iter(line["errors"].items()))
        words.append(f"{len(line['errors'])} failed, {name}: {shortened(error)}")
    if not line["complete"]:
        words.append("stopped before its end")
    return "; ".join(words)


def table(a):
    print("| what | bar | result |\n|---|---|---|")
    for part, line, what, bar, say in ROWS:
        path = a.results / f"{part}.json"
        result = json.loads(path.read_text()).get(line) if path.exists() else None
        print(f"| {what} | {bar} | {said(result, say)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("compile")
    one.add_argument("folder", type=pathlib.Path)
    one.add_argument("--part", action="append", choices=PARTS, dest="parts", help="default: all")
    one.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    one.add_argument("--target", default="cuda:sm_90a")
    one.add_argument("--small", action="store_true")
    one.set_defaults(do=compile_parts)
    one = commands.add_parser("run")
    one.add_argument("part", choices=["all", *PARTS])
    one.add_argument("folder", type=pathlib.Path)
    one.add_argument("--line")
    one.add_argument("--libraries")
    one.add_argument("--torch")
    one.add_argument("--steps", type=int, default=20)
    one.add_argument("--results", type=pathlib.Path, help="default: FOLDER/results")
    one.set_defaults(do=run_parts)
    one = commands.add_parser("table")
    one.add_argument("folder", type=pathlib.Path)
    one.add_argument("--results", type=pathlib.Path, help="default: FOLDER/results")
    one.set_defaults(do=table)
    a = parser.parse_args()
    if getattr(a, "part", "") == "all" and a.line:
        parser.error("--line is of one part")
    if a.do is not compile_parts and not a.folder.is_dir():
        parser.error(f"there is no folder {a.folder}: make it with compile")
    if a.do is not compile_parts:
        a.results = a.results or a.folder / "results"
    try:
        a.do(a)
    except Deviates as deviation:
        sys.exit(f"{getattr(a, 'part', 'compile')}: {deviation}")


if __name__ == "__main__":
    main()
