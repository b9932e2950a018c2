#!/usr/bin/env python3
"""Two ranks give the same bits with every launcher.

usage: e2e launch --build DIR --case test/models/gpt2

The launchers are --nproc, the variables of torchrun and of Slurm, mpirun, and two hosts, which are network namespaces
if the system permits them. Each rank uses half of the cores that it may run on.
"""
import os
import re
import shutil
import subprocess

from hosts import Hosts, bare, free_port
from runner import Case, Deviates, main, run, same_bits

TOKEN = "of these two hosts"


def start(command, environments):
    """Runs one process per environment. Returns the output of rank 0."""
    children = [subprocess.Popen([str(word) for word in command], env={**bare(), **extra}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                for extra in environments]
    texts = [child.communicate(timeout=300)[0] for child in children]
    for rank, (child, text) in enumerate(zip(children, texts)):
        if child.returncode:
            raise Deviates(f"rank {rank} ended with {child.returncode}: {text[-600:]}")
    return texts[0]


def threads(text):
    found = re.search(r"(\d+) threads? per rank", text)
    if not found:
        raise Deviates(f"the program does not print its number of threads: {text[:400]}")
    return int(found.group(1))


def on_two_hosts(command):
    """Returns the output of rank 0, or None if namespaces are not permitted."""
    hosts = Hosts()
    try:
        with hosts:
            children = [subprocess.Popen([str(word) for word in ("ip", "netns", "exec", name, *command)], text=True, stdout=subprocess.PIPE,
                                         stderr=subprocess.STDOUT,
                                         env={**bare(), "RANK": str(r), "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
                                              "MASTER_ADDR": "10.77.13.1", "MASTER_PORT": "29500", "SHALE_TOKEN": TOKEN}) for r, name in enumerate(hosts.names)]
            texts = [child.communicate(timeout=300)[0] for child in children]
    except (OSError, subprocess.CalledProcessError):
        hosts.__exit__()
        return None
    for rank, (child, text) in enumerate(zip(children, texts)):
        if child.returncode:
            raise Deviates(f"rank {rank} on its own host ended with {child.returncode}: {text[-600:]}")
    return texts[0]


def check(a, work):
    case = Case(a.build, a.case)
    program = work / "train"
    case.shalec(program, "full", 2)

    def command(name):
        return [program, "--data", case.batches, "--steps", 4, *case.hyper_flags(), "--out", work / name]

    texts = {"nproc": run([*command("nproc"), "--nproc", 2], "--nproc", bare()).stdout}
    port = free_port()
    texts["torchrun"] = start(command("torchrun"), [
        {"RANK": str(r), "WORLD_SIZE": "2", "LOCAL_RANK": str(r), "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        for r in range(2)])
    port = free_port()
    texts["slurm"] = start(command("slurm"), [
        {"SLURM_PROCID": str(r), "SLURM_NTASKS": "2", "SLURM_LOCALID": str(r), "SLURM_JOB_ID": "17", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_NODES": "1",
         "SLURM_STEP_NODELIST": "localhost", "SHALE_PORT": str(port)} for r in range(2)])
    texts["mpirun"] = run(["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np", 2, *command("mpirun")], "mpirun", bare()).stdout
    hosts = on_two_hosts(command("hosts"))
    if hosts is not None:
        texts["hosts"] = hosts
    share = max(1, len(os.sched_getaffinity(0)) // 2)
    for name, text in texts.items():
        if threads(text) != share:
            raise Deviates(f"{name}: {threads(text)} threads per rank; half of the cores are {share}")
        same_bits(work / "nproc", work / name, f"--nproc and {name}")
    # OMP_NUM_THREADS is respected and changes no bits.
    two = run([*command("two"), "--nproc", 2], "two threads", {**bare(), "OMP_NUM_THREADS": "3"}).stdout
    if threads(two) != 3:
        raise Deviates(f"OMP_NUM_THREADS=3 gave {threads(two)} threads")
    same_bits(work / "nproc", work / "two", "other numbers of threads")
    # Two ranks that a launcher binds to one core have one thread each.
    if len(os.sched_getaffinity(0)) > 1 and shutil.which("taskset"):
        port = free_port()
        core = str(min(os.sched_getaffinity(0)))
        bound = start(["taskset", "-c", core, *command("bound")], [
            {"RANK": str(r), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)} for r in range(2)])
        if threads(bound) != 1:
            raise Deviates(f"two ranks on one core have {threads(bound)} threads each")
        same_bits(work / "nproc", work / "bound", "ranks bound to one core")
    return f"{', '.join(texts)}: the same bits, {share} thread(s) per rank"


if __name__ == "__main__":
    main(check, ("--case", {"required": True}))
