#!/usr/bin/env python3
"""Stops programs by signals at random moments.

usage: signals.py --build DIR --case test/models/gpt2 [--count N] [--seed N]

Sends SIGTERM, SIGINT, SIGHUP or SIGUSR1 to programs of 1, 2 and 4 ranks with one and two threads per rank, from the first millisecond
on. Each must end with 75, or 130 for SIGINT, and leave nothing half-written; a run that has taken a step must have saved the state of
its last line in metrics.jsonl. Every tenth run is then resumed, and must have the bits of a run at once. A signal during the time in which
the system starts the process ends it without a word, before it has made a file.
"""
import random
import signal
import subprocess
import time

import numpy as np

from runner import Case, Deviates, main, metrics, run, same_bits

SIGNALS = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1]
STEPS = 60


def command(program, tokens, out, steps=STEPS):
    return [program, "--data", tokens, "--out", out, "--steps", steps, "--lr", "1e-3"]


def environment(threads):
    return {"OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "passive"}


def leftovers(out):
    names = [path.name for path in out.rglob("*") if ".tmp" in path.name]
    if names:
        raise Deviates(f"left behind: {', '.join(names)}")


def stop_once(words, out, threads, number, delay):
    """Returns "start" if the process did not run yet, else what was saved: "nothing", "state" or "done"."""
    process = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment(threads))
    time.sleep(delay)
    process.send_signal(number)
    text = process.communicate(timeout=120)[0].decode()
    code = process.returncode
    if code == -number and not text and not out.exists():
        return "start"
    if code not in (0, 130 if number == signal.SIGINT else 75) or "error" in text:
        raise Deviates(f"signal {number} after {delay * 1000:.1f} ms ended the program with {code}: {text[-500:]}")
    leftovers(out)
    if code == 0:
        return "done"
    lines = metrics(out) if (out / "metrics.jsonl").exists() else []
    saved = sorted(path.name for path in (out / "checkpoints").glob("step-*")) if (out / "checkpoints").exists() else []
    want = [f"step-{lines[-1]['step'] + 1:08d}"] if lines else []
    if saved != want:
        raise Deviates(f"signal {number} after {delay * 1000:.1f} ms: checkpoints {saved}, and the last step is in {want}")
    return "state" if saved else "nothing"


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
    if counts["state"] == 0:
        raise Deviates(f"no signal arrived during a step: {counts}")
    return f"{a.count} signals: " + ", ".join(f"{count} {name}" for name, count in counts.items())


if __name__ == "__main__":
    main(check, ("--case", {"required": True}), ("--count", {"type": int, "default": 18}), ("--seed", {"type": int, "default": 1}),
         success="stops:")
