#!/usr/bin/env python3
"""Runs the GPU benchmark's script with small programs and the stand-ins of NVIDIA's libraries: it compiles, runs and prints its table.

usage: e2e gpubench --build DIR
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

from runner import MODELS, Deviates, main

BENCH = MODELS.parent / "bench" / "cuda" / "bench.py"
TIMES = BENCH.with_name("kernel_times.py")
ONE_GPU = {"SHALE_STUB_DEVICES": "1"}


def command(words):
    return [sys.executable, BENCH, *map(str, words)]


def bench(*words, environment=None):
    return subprocess.run(command(words), capture_output=True, text=True, timeout=600, env={**os.environ, **(environment or {})})


def need(result, what):
    if result.returncode:
        raise Deviates(f"{what} ended with {result.returncode}: {result.stderr[-600:]}")
    return result.stdout


def refuse(result, code, *messages):
    lacking = [message for message in messages if message not in result.stderr]
    if result.returncode != code or lacking or result.stderr.startswith("Traceback"):
        raise Deviates(f"expected exit code {code} and '{messages}', got {result.returncode}: {result.stderr[-600:]}")


def need_rows(folder, results, rows):
    text = need(bench("table", folder, *results), "table")
    for what, row in rows.items():
        if not re.search(rf"^\| {re.escape(what)} \| {row} \|$", text, re.M):
            raise Deviates(f"the table has no row {what}: {row}: {text}")


def need_files(folder, names):
    found = sorted(path.name for path in folder.iterdir())
    if found != sorted(names):
        raise Deviates(f"{folder} has {', '.join(found)}, not {', '.join(sorted(names))}")


def damage(path):
    """Flips a bit of the last results."""
    data = bytearray(path.read_bytes())
    data[-2] ^= 1
    path.write_bytes(data)


def replace(program, text):
    """Makes a program a script."""
    program.unlink(missing_ok=True)
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)


def check_kill(folder, libraries):
    """A program that fails does not stop the others, and a kill loses the running one only."""
    replace(folder / "fixtures" / "plain-1-f32", "echo broken >&2; exit 3")
    replace(folder / "fixtures" / "plain-2-f32", "exec sleep 20")
    with subprocess.Popen(command(["run", "fixtures", folder, "--line", "staged", *libraries]), stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if line.startswith("plain-1-bf16: "):
                break
        process.kill()
    need_rows(folder, [], {"fixtures, one rank and staged": r"loss 1e-4, bf16 0\.02 \| 1 programs, bf16 \d\.\de-\d\d; 1 failed, plain-1-f32: "
                                                            r"plain-1-f32 ended with 3 stderr: broken; stopped before its end"})


def check_profile(folder, libraries, work):
    """The time of a program's steps by kernel, and counters of the longest, from a program and an ncu that are scripts."""
    program, steps = folder / "gpt2-124m" / "gpt2-124m", 10
    times = [f"{at} {at + 400} 7 nvjet_tst_1\n{at + 400} {at + 500} 7 cudnn_sm90_flash\n{at + 500} {at + 700} 7 kernel_ln_1_reduce_3\n"
             f"{at + 700} {at + 800} 7 kernel_adamw_4\n{at + 850} {at + 900} 7 [memset]" for at in range(0, 1000 * steps, 1000)]
    (work / "times").write_text("\n".join(times) + "\n")
    kept, library = program.read_bytes(), program.with_name("activity.so")
    script = ('while [ "$1" ]; do [ "$1" = --report-device ] && file=$2; shift; done\n'
              'case "$CUDA_INJECTION64_PATH" in */activity.so) cp {} "$SHALE_ACTIVITY";; esac\necho "[]" > "$file"')
    library.write_bytes(b"")
    replace(program, script.format(work / "none"))
    words = ["run", "gpt2-124m", folder, *libraries, "--line"]
    refuse(bench(*words, "profile"), 1, "wrote no list of activities: the driver did not load activity.so")
    need(bench(*words, "counters"), "counters")
    counters = "gpt2-124m, rate of the memory in the longest kernels"
    need_rows(folder, [], {counters: "none \\| not run: (no ncu|needs the line profile, which names the longest kernels)"})
    replace(program, script.format(work / "times"))
    need(bench(*words, "profile"), "profile")
    tools = work / "tools"
    tools.mkdir()
    header, row = '"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"', '"0","k","{}","","{}"'
    rows = [header, row.format("gpu__time_duration.sum", "1,200"), row.format("dram__bytes.sum", "3.5e6"),
            row.format("dram__throughput.avg.pct_of_peak_sustained_elapsed", "81.6")]
    environment = {"PATH": f"{tools}:{os.environ['PATH']}"}
    replace(tools / "ncu", "echo ==PROF== Connected; echo 'ERR_NVGPUCTRPERM: no permission' >&2; exit 1")
    need(bench(*words, "counters", environment=environment), "counters without permission")
    need_rows(folder, [], {counters: r"none \| not run: ncu has no permission to read the counters"})
    replace(tools / "ncu", f"cat <<'E'\nstep 1\n{rows[0]}\n{rows[1]}\nE")
    refuse(bench(*words, "counters", environment=environment), 1, "kernel_ln_1_reduce_3: ncu counts time, not time, bytes, percent")
    replace(tools / "ncu", "cat <<'E'\nstep 1\n" + "\n".join(rows) + "\nE")
    need(bench(*words, "counters", environment=environment), "counters")
    need_rows(folder, [], {
        "gpt2-124m, by kernel": r"none \| 0\.0 ms: updates 0\.0, other kernels 0\.0, attention 0\.0, matmuls 0\.0, the rest 0\.0, nothing 0\.0; 5 launches",
        counters: r"none \| kernel_ln_1_reduce_3 82 %, kernel_adamw_4 82 %"})
    found = json.loads((folder / "results" / "gpt2-124m.json").read_text())["profile"]["programs"]["by kernel"]
    expected = {"updates": 1e-4, "other kernels": 2e-4, "attention": 1e-4, "matmuls": 4e-4, "the rest": 5e-5}
    if any(abs(found["kinds"][kind] - ms) > 1e-9 for kind, ms in expected.items()) or abs(found["idle_ms"] - 1.5e-4) > 1e-9:
        raise Deviates(f"the profile has {found['kinds']} and {found['idle_ms']} ms of nothing, not {expected}")
    program.write_bytes(kept)


def check_times(work):
    """kernel_times.py counts whole steps of a list of activities, whose last line is cut as in a killed program."""
    steps = [f"{start} {start + 100} 7 once\n{start + 100} {start + 400} 7 mul add\n{start + 300} {start + 500} 8 copy"
             for start in range(0, 6000, 1000)]
    (work / "activity").write_text("\n".join(["5 6 7 tune", *steps, "6000 61"]))
    text = need(subprocess.run([sys.executable, TIMES, "--steps", "2", "--raw", work / "activity", "--read"], capture_output=True, text=True,
                               timeout=60), "kernel_times.py")
    if [line.split() for line in text.splitlines()] != [
            "0.00 ms per step, 0.00 of them idle, 3 launches".split(), "0.000 ms 1 x mul add".split(), "0.000 ms 1 x copy".split(),
            "0.000 ms 1 x once".split()]:
        raise Deviates(f"kernel_times.py prints: {text}")
    for once, message in (([], "no kernel ran often enough: 6 steps need 7 launches; the launches: copy 6, mul add 6, once 6, tune 1"),
                          (["--once", "tune"], "tune ran 1 times: 6 steps need 7 launches")):
        refuse(subprocess.run([sys.executable, TIMES, "--steps", "6", *once, "--raw", work / "activity", "--read"], capture_output=True, text=True,
                              timeout=60), 1, message)


def check(a, work):
    check_times(work)
    folder, stubs = work / "programs", pathlib.Path(a.build) / "stubs"
    libraries, elsewhere = ["--libraries", stubs], ["--results", work / "results"]
    refuse(bench("run", "gpt2-124m", folder), 2, f"there is no folder {folder}")
    compiled = need(bench("compile", folder, "--build", a.build, "--target", "cuda:emulated", "--small", "--part", "fixtures", "--part", "kernels",
                          "--part", "gpt2-124m"), "compile")
    archives = ["fixtures.tar.xz", "kernels.tar.xz", "gpt2-124m.tar.xz"]
    need_files(folder, [*archives, "libs"])
    for name in [*archives, "libs"]:
        if not re.search(rf"/{re.escape(name)}: [\d.]+ MiB$", compiled, re.M):
            raise Deviates(f"compile does not say the size of {name}: {compiled}")
    if not list((folder / "libs").glob("libgloo.so*")):
        raise Deviates("the folder of libraries has no libgloo.so")
    refuse(bench("compile", folder, "--build", a.build, "--target", "cuda:sm_1", "--small", "--part", "gpt2-124m"), 1, "unknown GPU architecture 'sm_1'")
    refuse(bench("run", "llama-8b", folder), 1, "llama-8b.tar.xz: compile it with --part llama-8b")
    refuse(bench("run", "all", work), 1, f"{work} has no part: make them with compile")
    refuse(bench("run", "all", folder, "--line", "bits"), 2, "--line is of one part")
    need_files(folder, [*archives, "libs"])

    # The programs of the archives. Kernels and fixtures find the libraries among the packages of a Python.
    (work / "site" / "nvidia" / "all").mkdir(parents=True)
    (work / "site" / "nvidia" / "all" / "lib").symlink_to(stubs.resolve())
    packages = {**ONE_GPU, "PYTHONPATH": str(work / "site")}
    need(bench("run", "kernels", folder, "--torch", sys.executable, *elsewhere, environment=packages), "kernels")
    need(bench("run", "fixtures", folder, "--torch", sys.executable, *elsewhere, environment=packages), "fixtures")
    need(bench("run", "gpt2-124m", folder, "--line", "gpt2-124m", *libraries, *elsewhere, "--steps", 2, environment=ONE_GPU), "gpt2-124m")
    need_files(folder, [*archives, "libs"])
    need_rows(folder, elsewhere, {
        "kernels, same bits as emulated": r"equal \| [1-9]\d* kernels, [1-9]\d* bytes equal",
        "memcheck and racecheck": r"clean \| (not run: no compute-sanitizer|[1-9]\d* launches clean)",
        "fixtures, one rank and staged": r"loss 1e-4, bf16 0\.02 \| 4 programs, loss \d\.\de-\d\d, bf16 \d\.\de-\d\d",
        "fixtures, NCCL with one rank": r"loss 1e-4, bf16 0\.02 \| 2 programs, [1-9]\d* calls of NCCL, loss \d\.\de-\d\d, bf16 \d\.\de-\d\d",
        "fixtures, 2 and 4 ranks of NCCL on one GPU": r"loss 1e-4, bf16 0\.02 \| not run: NCCL 2\.30 allows several ranks on one GPU, this one does not",
        "state and activations on the host": r"loss 1e-4, bf16 0\.02 \| 4 programs, loss \d\.\de-\d\d, bf16 \d\.\de-\d\d",
        "other optimizers, one and two ranks": r"loss 1e-4 \| 1 programs, loss \d\.\de-\d\d",
        "tensor parallelism, staged": r"loss 1e-4, bf16 0\.02 \| 1 programs, loss \d\.\de-\d\d",
        "gpt2-124m": r"40%, 1\.1 × torch \| 0\.0%, does not hold; torch not run; [\d.]+ ms, \d+ tokens/s",
        "gpt2-124m, memory": r"blocks exact, total within 2 % or 512 MiB \| 3 blocks exact; \d+ bytes planned, \d+ used, [\d.]+% off, .*hold",
        "llama-8b": r"40%, 1\.05 × torch \| not run",
        "llama-8b-block": r"none \| not run",
        "gpt2-124m, by kernel": r"none \| not run"})
    newer = {**ONE_GPU, "SHALE_STUB_NCCL_VERSION": "23007"}
    need(bench("run", "fixtures", folder, "--line", "one_gpu", *libraries, *elsewhere, environment=newer), "fixtures with NCCL 2.30")
    need_rows(folder, elsewhere, {"fixtures, 2 and 4 ranks of NCCL on one GPU": r"loss 1e-4, bf16 0\.02 \| 4 programs, loss \d\.\de-\d\d, bf16 \d\.\de-\d\d"})

    # Programs in folders, of which some are damaged.
    for part, path in zip(("fixtures", "kernels", "gpt2-124m"), archives):
        shutil.unpack_archive(folder / path, folder / part)
        (folder / path).unlink()
    refuse(bench("run", "kernels", folder, "--line", "staged", *libraries), 1, "there is no line staged, but bits, sanitizer")
    damage(folder / "kernels" / "plain-3-f32.kernels.bytes")
    refuse(bench("run", "kernels", folder, "--line", "bits", *libraries), 1, "bits: plain-3-f32: kernel ", "differs in 1 of ")
    need_rows(folder, [], {"kernels, same bits as emulated": r"equal \| [1-9]\d* kernels, [1-9]\d* bytes equal; 1 failed, plain-3-f32: .*"})
    if {"plain-1-f32", "sorted", "adafactor", "columns"} - set(json.loads((folder / "results" / "kernels.json").read_text())["bits"]["programs"]):
        raise Deviates("kernels of programs are missing in the results")
    check_kill(folder, libraries)
    check_profile(folder, libraries, work)
    model = ["run", "gpt2-124m", folder, "--line", "gpt2-124m", *libraries, "--steps", 2]
    refuse(bench(*model, environment={"SHALE_STUB_FAIL": "cuLaunchKernel=CUDA_ERROR_LAUNCH_FAILED"}), 1,
           "error: the GPU cannot launch a kernel: unspecified launch failure")
    facts = json.loads((folder / "gpt2-124m" / "gpt2-124m.json").read_text())
    facts["blocks"]["the arena"] += 64
    facts["vocabulary"] = 16
    (folder / "gpt2-124m" / "gpt2-124m.json").write_text(json.dumps(facts))
    replace(folder / "torch", "echo CUDA out of memory >&2; exit 1")
    refuse(bench(*model, "--torch", folder / "torch"), 1, "memory: the arena has", "shale, round 1: the first loss is", "CUDA out of memory")
    need_rows(folder, [], {"gpt2-124m": r"40%, 1\.1 × torch \| 0\.0%, does not hold; torch not run; [\d.]+ ms, \d+ tokens/s; 3 failed, .*"})
    # All parts, of which the damaged ones fail and the others run.
    found = bench("run", "all", folder, *libraries, "--steps", 2, environment=ONE_GPU)
    refuse(found, 1, "kernels: bits: plain-3-f32: kernel ", "fixtures: staged: plain-1-f32: ", "gpt2-124m: profile: by kernel: gpt2-124m wrote no list of activities")
    return "4 programs of a fixture, kernels and a model ran"


if __name__ == "__main__":
    main(check, success="the GPU benchmark:")
