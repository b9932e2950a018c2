#!/usr/bin/env python3
"""Runs the fuzz targets of the compiler and the runtime on their corpora.

usage: run.py --build DIR [--seconds 60] [--find] [TARGET...]

A target fails if it finds something, or if too few of its inputs get beyond the first check: mutants that a parser refuses prove nothing.
Prints the number of inputs and that share. Inputs that crash stay in the folder that is printed. --find goes on after a finding, and lists
all.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
# The least share of inputs beyond the first check.
TARGETS = {"external": 0.02, "flags": 0.1, "ir": 0.6, "manifest": 0.5, "onnx": 0.4, "peers": 0.3, "safetensors": 0.5, "tokens": 0.5}
# As in the sanitized suite: libMLIR is not instrumented.
ASAN = ("detect_leaks=0:detect_container_overflow=0:detect_odr_violation=0:alloc_dealloc_mismatch=0:allow_user_poisoning=0:"
        "verify_asan_link_order=0:allocator_may_return_null=1")


def fuzz(build, name, seconds, find, work):
    corpus, findings, counts = work / "corpus", work / "findings", work / "counts"
    shutil.copytree(HERE / "corpus" / name, corpus)
    findings.mkdir()
    environment = {**os.environ, "SHALE_FUZZ_COUNTS": str(counts), "ASAN_OPTIONS": ASAN, "TMPDIR": str(work)}
    end = time.monotonic() + seconds
    for seed in range(1, 10000):
        # Seeds stay, whatever they reach: a build without SHALE_SANITIZE reports nothing.
        done = subprocess.run([build / "test" / "fuzz" / f"fuzz-{name}", f"-max_total_time={max(1, round(end - time.monotonic()))}",
                               "-timeout=30", "-rss_limit_mb=4096", "-max_len=65536", "-close_fd_mask=3", "-keep_seed=1", "-mutate_depth=1",
                               f"-artifact_prefix={findings}/", f"-seed={seed}", corpus],
                              capture_output=True, text=True, errors="replace", env=environment)
        if done.returncode == 0 or not find or time.monotonic() > end:
            break
    numbers = re.findall(r"(\d+) inputs, (\d+) beyond the first check, (\d+)", counts.read_text()) if counts.exists() else []
    inputs, beyond, accepted = (sum(int(line[i]) for line in numbers) for i in range(3))
    found = sorted(findings.iterdir())
    shares = [f"{count / max(inputs, 1):.0%}" for count in (beyond, accepted)]
    print(f"{name}: {inputs} inputs, {shares[0]} beyond the first check, {shares[1]} accepted, {len(found)} findings", flush=True)
    for path in found:
        print(f"  {path}")
    if done.returncode or found:
        print("\n".join(done.stderr.splitlines()[-30:]))
        return False
    if beyond < TARGETS[name] * inputs:
        print(f"{name}: at least {TARGETS[name]:.0%} must get beyond the first check")
        return False
    shutil.rmtree(work)
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--find", action="store_true")
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    arguments = parser.parse_args()
    good = [fuzz(arguments.build.resolve(), name, arguments.seconds, arguments.find, pathlib.Path(tempfile.mkdtemp(prefix="shale-fuzz-")))
            for name in arguments.targets or TARGETS]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
