#!/usr/bin/env python3
"""Stops programs by signals at random moments.

usage: e2e signals --build DIR --case test/models/gpt2 [--count N] [--group N] [--mpirun N] [--seed N]

Sends SIGTERM, SIGINT, SIGHUP or SIGUSR1 to programs of 1, 2 and 4 ranks with one and two threads per rank, from the first millisecond
on. Each must end with 75, or 130 for SIGINT, and leave nothing half-written; a run that has taken a step must have saved the state of
its last line in metrics.jsonl. Every tenth run is then resumed, and must have the bits of a run at once. A signal during the time in which
the system starts the process ends it without a word, before it has made a file.

--group: the signal goes to all processes of a run on 2 ranks, as those of systemd, slurmstepd and kill -- -PGID do, in any order, and the
launcher forwards it to the ranks as well: Shale's own, and stand-ins for torchrun, which forwards once, and for slurmstepd and mpirun, which
send a signal twice. It is one request: none may lose its state.

--mpirun: the signal goes to Open MPI's mpirun alone, which forwards SIGUSR1 at once. At SIGTERM it stops reading what the ranks print, sends
SIGTERM after the seconds of odls_base_sigkill_timeout, and SIGKILL after as many again.
"""
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import numpy as np

from hosts import bare, free_port
from runner import Case, Deviates, main, metrics, run, same_bits

SIGNALS = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1]
STEPS = 60
LAUNCHERS = ("nproc", "torchrun", "slurmstepd")

# Starts ranks with the variables of a launcher, and sends them each signal that it gets itself.
STAND_IN = """
import os, signal, subprocess, sys, time
how, port, words = sys.argv[1], sys.argv[2], sys.argv[3:]
got = []
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
    signal.signal(number, lambda n, _: got.append(n))
def variables(rank):
    if how == "slurmstepd":
        return {"SLURM_PROCID": rank, "SLURM_NTASKS": 2, "SLURM_LOCALID": rank, "SLURM_JOB_ID": port, "SLURM_STEP_ID": 0, "SLURM_STEP_NUM_NODES": 1}
    return {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
ranks = [subprocess.Popen(words, env={**os.environ, **{name: str(value) for name, value in variables(r).items()}}) for r in (0, 1)]
while any(rank.poll() is None for rank in ranks):
    while got:
        number = got.pop(0)
        for again in range(2 if how == "slurmstepd" else 1):
            for rank in ranks:
                rank.send_signal(number)
            time.sleep(0.05)
    time.sleep(0.005)
codes = {rank.returncode for rank in ranks if rank.returncode >= 0}
code = 3  # the signal came before they ran
if len(codes) == 1:
    code = codes.pop()
elif codes:
    code = 1
    print(f"the ranks ended with different codes: {codes}", file=sys.stderr, flush=True)
os._exit(code)  # sys.exit restores the handlers of the system: a signal that arrives then would end this process, not the run
"""


def command(program, tokens, out, steps=STEPS):
    return [program, "--data", tokens, "--out", out, "--steps", steps, "--lr", "1e-3"]


def environment(threads):
    return {"OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "passive"}


def leftovers(out):
    # A signal before the first step ends the trial of a save at once; the next run removes its folder.
    names = [path.name for path in out.rglob("*") if ".tmp" in path.name and ".tmp-trial" not in path.name]
    if names:
        raise Deviates(f"left behind: {', '.join(names)}")


def judge(code, text, out, number, what):
    """Returns "start" if the process did not run yet, else what was saved: "nothing", "state" or "done"."""
    if code == -number and not text and not out.exists():
        return "start"
    if code not in (0, 130 if number == signal.SIGINT else 75) or "error" in text:
        raise Deviates(f"{what} ended the program with {code}: {text[-500:]}")
    leftovers(out)
    if code == 0:
        return "done"
    lines = metrics(out) if (out / "metrics.jsonl").exists() else []
    saved = sorted(path.name for path in (out / "checkpoints").glob("step-*") if ".tmp" not in path.name) if (out / "checkpoints").exists() else []
    want = [f"step-{lines[-1]['step'] + 1:08d}"] if lines else []
    if saved != want:
        raise Deviates(f"{what}: checkpoints {saved}, and the last step is in {want}")
    return "state" if saved else "nothing"


def stop_once(words, out, threads, number, delay):
    process = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment(threads))
    time.sleep(delay)
    process.send_signal(number)
    text = process.communicate(timeout=120)[0].decode()
    return judge(process.returncode, text, out, number, f"signal {number} after {delay * 1000:.1f} ms")


def family(pid):
    """A process and all that it has started, also by others."""
    found = [pid]
    for one in found:
        try:
            for task in pathlib.Path(f"/proc/{one}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
        except OSError:  # it has ended
            continue
    return found


def launched(how, words):
    if how == "nproc":
        return words
    return [sys.executable, "-c", STAND_IN, how, free_port(), *words]


def stop_all(how, words, out, number, delay, draw):
    process = subprocess.Popen([str(word) for word in launched(how, words)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               env={**bare(), **environment(1)}, start_new_session=True)
    time.sleep(delay)
    pids = family(process.pid)
    draw.shuffle(pids)
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:  # it has ended
            continue
    text = process.communicate(timeout=120)[0].decode()
    code = process.returncode
    what = f"signal {number} to all processes of {how} after {delay * 1000:.1f} ms"
    # The signal has ended the launcher, or the ranks, before they ran.
    if how != "nproc" and (code == 3 or not out.exists()):
        return "start"
    return judge(code, text, out, number, what)


def stop_mpirun(words, out, number, patience):
    """Signals mpirun once steps run. `patience`: its odls_base_sigkill_timeout in seconds."""
    launcher = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "odls_base_sigkill_timeout", patience, "-np", 2]
    process = subprocess.Popen([str(word) for word in [*launcher, *words]], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               env={**bare(), **environment(1)}, start_new_session=True)
    while process.poll() is None and not (out / "metrics.jsonl").exists():
        time.sleep(0.01)
    begin = time.monotonic()
    process.send_signal(number)
    text = process.communicate(timeout=120)[0].decode()
    seconds = time.monotonic() - begin
    what = f"signal {number} to mpirun with {patience} s"
    # mpirun has a code of its own for a run that it has ended itself.
    code = 75 if number == signal.SIGTERM and process.returncode == 1 else process.returncode
    if judge(code, text, out, number, what) != "state":
        raise Deviates(f"{what}: no state was saved: {text[-500:]}")
    if seconds > 2 * patience + 10:
        raise Deviates(f"{what}: the run ended after {seconds:.1f} s")


def stop_mpiruns(a, program, tokens, work):
    # So many steps that rank 0 prints more than a terminal takes while mpirun does not read.
    for i in range(a.mpirun):
        out = work / f"mpirun{i}"
        number, patience = ((signal.SIGTERM, 3), (signal.SIGUSR1, 3), (signal.SIGTERM, 1))[i % 3]
        stop_mpirun(command(program, tokens, out, 1000000), out, number, patience)
    return f"{a.mpirun} signals to mpirun"


def stop_groups(a, program, tokens, whole, seconds, work, draw):
    counts = {"start": 0, "nothing": 0, "state": 0, "done": 0}
    for i in range(a.group):
        out = work / f"group{i}"
        words = command(program, tokens, out)
        how = LAUNCHERS[i % len(LAUNCHERS)]
        # Python takes this long to start the ranks.
        delay = (0.001 if how == "nproc" else 0.05) + draw.random() * seconds
        counts[stop_all(how, words, out, draw.choice(SIGNALS), delay, draw)] += 1
        if i % 10 == 0:
            run(words, "a resumed run", environment(1))
            same_bits(whole, out, "a run at once and a stopped one")
    if a.group and counts["state"] == 0:
        raise Deviates(f"no signal to all processes arrived during a step: {counts}")
    return f"{a.group} signals to all processes: " + ", ".join(f"{count} {name}" for name, count in counts.items())


def check(a, work):
    case = Case(a.build, a.case)
    draw = random.Random(a.seed)
    tokens = work / "tokens.bin"
    np.random.default_rng(a.seed).integers(0, 64, 20000, dtype=np.uint16).tofile(tokens)
    counts = {"start": 0, "nothing": 0, "state": 0, "done": 0}
    setups = [(ranks, threads) for ranks in (1, 2, 4) for threads in (1, 2)]
    seconds = {}
    for ranks in (1, 2, 4):
        case.shalec(work / f"train{ranks}", "none" if ranks == 1 else "full", ranks)
        begin = time.monotonic()
        run(command(work / f"train{ranks}", tokens, work / f"whole{ranks}"), "a run at once", environment(1))
        seconds[ranks] = time.monotonic() - begin
    for i in range(a.count):
        ranks, threads = setups[i % len(setups)]
        out = work / f"run{i}"
        words = command(work / f"train{ranks}", tokens, out)
        delay = 0.001 + draw.random() ** 2 * seconds[ranks]
        counts[stop_once(words, out, threads, draw.choice(SIGNALS), delay)] += 1
        if i % 10 == 0:
            run(words, "a resumed run", environment(threads))
            same_bits(work / f"whole{ranks}", out, "a run at once and a stopped one")
    if a.count and counts["state"] == 0:
        raise Deviates(f"no signal arrived during a step: {counts}")
    groups = stop_groups(a, work / "train2", tokens, work / "whole2", seconds[2], work, draw)
    groups += "; " + stop_mpiruns(a, work / "train2", tokens, work)
    return f"{a.count} signals: " + ", ".join(f"{count} {name}" for name, count in counts.items()) + f"; {groups}"


if __name__ == "__main__":
    main(check, ("--case", {"required": True}), ("--count", {"type": int, "default": 18}), ("--group", {"type": int, "default": 8}),
         ("--mpirun", {"type": int, "default": 2}), ("--seed", {"type": int, "default": 1}),
         success="stops:")
