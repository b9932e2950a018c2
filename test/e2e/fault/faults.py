#!/usr/bin/env python3
"""Faults of one rank or its host while a program trains.

usage: e2e faults --build DIR --case test/models/gpt2 [--all]

A rank is killed, is stopped, is slow, waits for its storage, runs out of memory or of file descriptors; a host is gone, or its link loses packets. Where the run cannot
go on, the other ranks end with 76 within 10 s (a stopped rank: within --comm-timeout, here 3 s, and 10 s), and one of them names the rank
and its process. Where it can go on, it has the bits of a run without the fault. Every failed run is then resumed to these bits.
Ranks are those of --nproc, and processes with the variables of torchrun. --all: also on 4 ranks, and on two hosts, which are network namespaces.
"""
import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import time

import numpy as np

from hosts import Hosts, bare, free_port
from runner import Case, Deviates, main, run, same_bits

STEPS, FAULT_AFTER = 400, 5
TIMEOUT, BOUND, SILENCE, LOSS = 3, 10, 90, 0.05


def command(program, tokens, out, *flags):
    return [str(word) for word in (program, "--data", tokens, "--out", out, "--steps", STEPS, "--lr", "1e-3", *flags)]


def steps_done(out):
    path = out / "metrics.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    try:
        return json.loads(lines[-1])["step"] + 1 if lines else 0
    except ValueError:  # a line that is being written
        return len(lines) - 1


def rank_of(pid):
    try:
        words = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        found = [word for word in words if word.startswith((b"SHALE_RANK=", b"RANK="))]
        return int(found[0].split(b"=")[1]) if found else None
    except (OSError, ValueError):
        return None


class Run:
    """A run whose ranks are processes. `how`: "nproc" or "torchrun"."""

    def __init__(self, words, out, ranks, how):
        self.out, self.ranks, self.begin = out, ranks, None
        base = {**bare(), "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
        if how == "nproc":
            environments = [base]
        else:
            port = str(free_port())
            environments = [{**base, "RANK": str(r), "LOCAL_RANK": str(r), "WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks),
                             "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port} for r in range(ranks)]
        self.logs = [open(f"{out}-{i}.log", "w+") for i in range(len(environments))]
        self.processes = [subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT, env=env)
                          for log, env in zip(self.logs, environments)]

    def wait_for_steps(self, count):
        limit = time.monotonic() + 120
        while steps_done(self.out) < count:
            if time.monotonic() > limit or any(process.poll() for process in self.processes):
                raise Deviates(f"no step {count}: {self.text()[-600:]}")
            time.sleep(0.02)

    def pids(self, all_there=True):
        """Process of each rank."""
        found = {}
        for process in self.processes:
            children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
            for pid in [process.pid, *map(int, children.read_text().split() if children.exists() else [])]:
                if (rank := rank_of(pid)) is not None:
                    found[rank] = pid
        if all_there and len(found) != self.ranks:
            raise Deviates(f"found the processes of {len(found)} ranks of {self.ranks}")
        return found

    def text(self):
        return "".join(pathlib.Path(log.name).read_text() for log in self.logs)

    def codes(self, limit, without=()):
        """Exit codes of the processes that are not left out; each must end within `limit` seconds."""
        end = time.monotonic() + limit
        codes = []
        for i, process in enumerate(self.processes):
            if i in without:
                continue
            try:
                codes.append(process.wait(max(0.1, end - time.monotonic())))
            except subprocess.TimeoutExpired:
                raise Deviates(f"the others run on {limit} s after the fault: {self.text()[-600:]}") from None
        return codes

    def codes_at_end(self):
        """Exit codes of all processes. They may take as long as steps are done, however slow the disk is, and then SILENCE seconds."""
        last, heard = -1, time.monotonic()
        while any(process.poll() is None for process in self.processes):
            if (done := steps_done(self.out)) != last:
                last, heard = done, time.monotonic()
            if time.monotonic() > heard + SILENCE:
                raise Deviates(f"no step and no end in {SILENCE} s after step {last}: {self.waits()}: {self.text()[-600:]}")
            time.sleep(0.05)
        return [process.returncode for process in self.processes]

    def waits(self):
        """What each thread of each rank waits for, for messages."""
        found = []
        for rank, pid in sorted(self.pids(all_there=False).items()):
            for thread in sorted(pathlib.Path(f"/proc/{pid}/task").iterdir()):
                try:
                    found.append(f"rank {rank} thread {thread.name} in {(thread / 'wchan').read_text()}, "
                                 f"call {(thread / 'syscall').read_text().split()[0]}")
                except (OSError, IndexError):
                    continue
        return ", ".join(found) or "no rank runs"

    def close(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()


def lose(fault, words, out, ranks, how):
    """A fault that ends the run. The last rank has it."""
    victim = ranks - 1
    these = Run(words, out, ranks, how)
    try:
        these.wait_for_steps(FAULT_AFTER)
        pid = these.pids()[victim]
        if fault == "killed":
            os.kill(pid, signal.SIGKILL)
        else:
            os.kill(pid, signal.SIGSTOP)
        codes = these.codes(BOUND + (TIMEOUT if fault == "stopped" else 0), [victim] if how == "torchrun" else [])
        text = these.text()
        if codes != [76] * len(codes):
            raise Deviates(f"{fault}, {how}: codes {codes}: {text[-600:]}")
        if not re.search(rf"rank {victim}\b.*\b{pid}\b", text):
            raise Deviates(f"{fault}, {how}: no message names rank {victim} and process {pid}: {text[-900:]}")
        if "terminate called" in text:
            raise Deviates(f"{fault}, {how}: an exception was not caught: {text[-600:]}")
    finally:
        these.close()


def starve(words, out, ranks, how):
    """The last rank gets no memory from the system any more. A step needs none, so the run goes on until something does: then that rank
    ends with 78, or crashes in a library with 70, and the others with 76."""
    victim = ranks - 1
    these = Run(words, out, ranks, how)
    try:
        these.wait_for_steps(FAULT_AFTER)
        resource.prlimit(these.pids()[victim], resource.RLIMIT_AS, (1 << 20, resource.RLIM_INFINITY))
        codes, text = these.codes_at_end(), these.text()
        allowed = ([0] * len(codes), [78], [70], [76] * (len(codes) - 1) + [78], [76] * (len(codes) - 1) + [70])
        if codes not in allowed or "terminate called" in text:
            raise Deviates(f"no memory, {how}: codes {codes}: {text[-600:]}")
    finally:
        these.close()


def endure(fault, words, out, ranks, how):
    """A fault with which the run goes on."""
    these = Run(words, out, ranks, how)
    try:
        these.wait_for_steps(FAULT_AFTER)
        pid = these.pids()[ranks - 1]
        if fault == "slow":
            for _ in range(3):
                os.kill(pid, signal.SIGSTOP)
                time.sleep(0.6)
                os.kill(pid, signal.SIGCONT)
                time.sleep(0.2)
        else:  # "no descriptors": no file can be opened
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, 4096))
            time.sleep(0.5)
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (4096, 4096))
        codes = these.codes_at_end()
        if codes != [0] * len(codes):
            raise Deviates(f"{fault}, {how}: codes {codes}: {these.text()[-600:]}")
    finally:
        these.close()


def stall(shim, words, out, ranks, asynchronous):
    """The storage of the last rank does not answer for longer than --comm-timeout with each sync. The others wait for it, and name it."""
    words = [*words, "--comm-timeout", TIMEOUT, "--save-every", STEPS // 2, "--async-save", asynchronous]
    slow = {"LD_PRELOAD": str(shim), "FAULT_RANK": str(ranks - 1), "FAULT_SLOW_SYNC": str(2000 * TIMEOUT)}
    result = subprocess.run([str(word) for word in words], capture_output=True, text=True, env={**bare(), "OMP_NUM_THREADS": "1", **slow}, timeout=300)
    text = result.stdout + result.stderr
    if result.returncode:
        raise Deviates(f"a slow storage ends the run with {result.returncode}: {text[-600:]}")
    if not re.search(rf"the save of step \d+ waits for the storage of rank {ranks - 1} \(host \S+, pid \d+\) since \d\d:", text):
        raise Deviates(f"no message names the rank whose storage a save waits for: {text[-900:]}")


def on_two_hosts(words, out, fault):
    """The host of rank 1 is gone, or its link loses packets and delays them."""
    with Hosts(lossy=LOSS if fault == "lossy" else None) as hosts:
        logs = [open(f"{out}-{r}.log", "w+") for r in (0, 1)]
        ranks = [subprocess.Popen(["ip", "netns", "exec", name, *words], stdout=log, stderr=subprocess.STDOUT,
                                  env={**bare(), "OMP_NUM_THREADS": "1", "RANK": str(r), "WORLD_SIZE": "2", "LOCAL_RANK": "0",
                                       "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "10.77.13.1", "MASTER_PORT": "29500",
                                       "SHALE_TOKEN": "a secret of this run, long enough to be one"})
                 for r, (name, log) in enumerate(zip(hosts.names, logs))]
        text = lambda: "".join(pathlib.Path(log.name).read_text() for log in logs)
        try:
            limit = time.monotonic() + 120
            while steps_done(out) < FAULT_AFTER:
                if time.monotonic() > limit or ranks[0].poll():
                    raise Deviates(f"two hosts, {fault}: no step {FAULT_AFTER}: {text()[-600:]}")
                time.sleep(0.02)
            if fault == "gone":
                subprocess.run(["ip", "-n", hosts.names[1], "link", "set", hosts.names[1], "down"], check=True)
                try:
                    code = ranks[0].wait(2 * BOUND)
                except subprocess.TimeoutExpired:
                    raise Deviates(f"rank 0 runs on {2 * BOUND} s after the other host is gone: {text()[-600:]}") from None
                if code != 76 or not re.search(r"rank 1\b", text()):
                    raise Deviates(f"the other host is gone: code {code}: {text()[-600:]}")
            else:
                hosts.lose()
                if any(rank.wait(300) for rank in ranks):
                    raise Deviates(f"a link that loses {LOSS:.0%} ends the run: {text()[-600:]}")
                lost = hosts.dropped()
                if lost < 20:
                    raise Deviates(f"the link lost {lost} packets only")
                return f"lossy ({lost} packets)"
        finally:
            for rank in ranks:
                if rank.poll() is None:
                    rank.kill()
                rank.wait()
    return fault


def check(a, work):
    case = Case(a.build, a.case)
    tokens = work / "tokens.bin"
    np.random.default_rng(1).integers(0, 64, 20000, dtype=np.uint16).tofile(tokens)
    done = []
    for ranks in (2, 4) if a.all else (2,):
        program = work / f"train{ranks}"
        case.shalec(program, "full", ranks)
        whole = work / f"whole{ranks}"
        run(command(program, tokens, whole), "a run without a fault")
        def resumed(out):
            run(command(program, tokens, out), "a resumed run")
            same_bits(whole, out, "a run without a fault and one with it")
        for how in ("nproc", "torchrun"):
            for fault in ("killed", "stopped", "no memory"):
                out = work / f"{fault.replace(' ', '-')}-{how}-{ranks}"
                # A run that goes on to its end waits for the disk with each save.
                every = 20 if fault == "no memory" else 3
                words = command(program, tokens, out, "--comm-timeout", TIMEOUT, "--save-every", every)
                if fault == "no memory":
                    starve(words, out, ranks, how)
                else:
                    lose(fault, words, out, ranks, how)
                resumed(out)
                done.append(f"{fault} ({how}, {ranks})")
        for asynchronous in ("true", "false") if a.all else ("true",):
            out = work / f"storage-{asynchronous}-{ranks}"
            stall(case.bin.parent / "lib/libshale_faults.so", command(program, tokens, out), out, ranks, asynchronous)
            same_bits(whole, out, "a run without a fault and one with it")
            done.append(f"storage (--async-save {asynchronous}, {ranks})")
        for fault in ("slow", "no descriptors"):
            out = work / f"{fault.replace(' ', '-')}-{ranks}"
            endure(fault, command(program, tokens, out), out, ranks, "nproc")
            same_bits(whole, out, "a run without a fault and one with it")
            done.append(f"{fault} ({ranks})")
        if ranks == 2 and a.all:
            for fault in ("gone", "lossy"):
                out = work / f"host-{fault}"
                done.append("host or link " + on_two_hosts(command(program, tokens, out, "--save-every", 3), out, fault))
                resumed(out)
    return ", ".join(done)


if __name__ == "__main__":
    main(check, ("--case", {"required": True}), ("--all", {"action": "store_true"}), success="withstands:")
