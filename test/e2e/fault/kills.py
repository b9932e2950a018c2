#!/usr/bin/env python3
"""Kills a run, cuts its power and flips bytes of its checkpoints. Whatever was done to it, the run must resume to the bits of an
undisturbed one.

usage: e2e kills --build DIR [--parts kills,cuts,random,flips,replaced] [--all] [--every N]

The program is the hand-written one of test/unit/runtime, whose runs take a fraction of a second.

kills   One process is killed in place of the N-th call that opens, changes, syncs, renames or removes a file or connects ranks
        (test/shim/Faults.cpp), for every N: in the launcher and in each rank, while a run starts, saves, exports and resumes.
cuts    The changes of all processes of a run are recorded. For each prefix of the record, the folder is made as a power cut leaves it:
        with all changes (keep), without what was not synced (lose: data and names; names: only data), and the run goes on in it.
random  Random processes are killed at random moments, until the run is done.
flips   One bit of each byte of the manifest and the headers, and of 2,000 other bytes, is flipped. --verify-checkpoint must name the
        file each time.
replaced  A step is saved a second time, since its checkpoint is damaged, where names cannot be exchanged. Rank 0 is killed in place of
        each rename.

Without --all a few points of each, spread evenly. --all --every N takes every N-th point. The summary counts the points.
"""
import errno
import hashlib
import json
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import time

import numpy as np

from runner import Deviates, expect_deviation, main, save_safetensors

VOCAB = 33
FULL = ["--checkpoint", "full", "--file-size", "6KB", "--tensorboard"]


class Runs:
    """Runs of one program with the same flags, in folders of its own."""

    def __init__(self, build, work, program, flags, steps=2):
        self.program = build / "test/unit/runtime" / program
        self.shim = build / "lib/libshale_faults.so"
        self.work = work / f"{program}-{len(list(work.iterdir()))}"
        self.command = [self.program, "--data", "data.txt", "--lr", "0.05", "--steps", str(steps), "--save-every", "1", "--keep", "1",
                        "--init", "given", *flags]
        self.temporary = self.work / "tmp"
        for folder in (self.temporary, self.work / "given", self.work / "runs"):
            folder.mkdir(parents=True)
        (self.work / "data.txt").write_bytes(bytes((i * i // 3 + i % 5) % VOCAB for i in range(2000)))
        values = np.arange(VOCAB * VOCAB, dtype=np.float32).reshape(VOCAB, VOCAB)
        save_safetensors(self.work / "given/model.safetensors",
                         {"emb.weight": np.sin(values) / 10, "bias": values[0] / 100, "frozen.scale": np.full(7, 0.5, np.float32),
                          "mask": values[:2, :3].copy()})
        (self.work / "given/config.json").write_text("{}\n")
        (self.work / "bigram-weights.bin").write_bytes(bytes(64 + 4 * VOCAB * VOCAB))
        self.environment = {**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(self.temporary)}
        self.want = self.result(self.finish("want"))

    def path(self, out):
        return self.work / "runs" / out

    def start(self, out, flags=(), **environment):
        preload = {"LD_PRELOAD": str(self.shim)} if environment else {}
        return subprocess.Popen([*map(str, self.command), "--out", f"runs/{out}", *flags], cwd=self.work, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, start_new_session=True,
                                env={**self.environment, **preload, **{k: str(v) for k, v in environment.items()}})

    def run(self, out, flags=(), **environment):
        process = self.start(out, flags, **environment)
        text = process.communicate(timeout=120)[0]
        return process.returncode, text

    def finish(self, out, what="a run"):
        """Runs until the end. The ranks of a killed launcher may hold the lock for a moment."""
        for attempt in range(50):
            code, text = self.run(out)
            if code != 64 or "another run is using" not in text:
                break
            time.sleep(0.1)
        if code != 0:
            raise Deviates(f"{what}: the run that resumes ends with {code}: {text[-800:]}")
        return out

    def result(self, out):
        """What a finished run has left: its files by name, those that must be equal with their bytes. A kill after the last save leaves
        the checkpoint before it, which only the next save would remove."""
        folder = self.path(out)
        newest = max((folder / "checkpoints").iterdir())
        steps = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        files = {}
        for path in sorted(folder.rglob("*")):
            name = str(path.relative_to(folder))
            older = newest.parent in path.parents and path != newest and newest not in path.parents
            if path.name.startswith("events.out") or (older and "." not in path.relative_to(newest.parent).parts[0]):
                continue  # one per start; see above
            same = path.is_file() and path.suffix in (".safetensors", ".json")
            files[name] = hashlib.sha256(path.read_bytes()).hexdigest() if same else ""
        return files, [(step["step"], step["loss"], step["grad_norm"]) for step in steps]

    def check(self, out, what):
        files, steps = self.result(self.finish(out, what))
        if steps != self.want[1]:
            raise Deviates(f"{what}: other metrics: {steps}")
        if files != self.want[0]:
            names = [name for name in {**files, **self.want[0]} if files.get(name) != self.want[0].get(name)]
            raise Deviates(f"{what}: other files: {names}")
        left = list(self.temporary.iterdir())
        if left:
            raise Deviates(f"{what}: {left} are left")
        shutil.rmtree(self.path(out))

    def prepare(self, out, start):
        """Copies the folder of an earlier run, to resume in it."""
        if start:
            shutil.copytree(self.path(start), self.path(out))


def kills(runs, start, stride, **faults):
    """Kills at every `stride`-th call of each process. Returns the number of kills and that of calls."""
    counts = runs.work / "counts"
    counts.unlink(missing_ok=True)
    runs.prepare("count", start)
    runs.run("count", FAULT_COUNT=counts, **faults)
    shutil.rmtree(runs.path("count"))
    most = {}
    for line in counts.read_text().splitlines():
        rank, number = map(int, line.split())
        most[rank] = max(number, most.get(rank, 0))
    if not most:
        raise Deviates("the shim counts no calls")
    points = 0
    for rank, number in sorted(most.items()):
        for at in range(1 + rank % stride, number + 1, stride):
            runs.prepare("run", start)
            code, text = runs.run("run", FAULT_AT=at, FAULT_RANK=rank, **faults)
            if code not in (0, 76, -signal.SIGKILL):
                raise Deviates(f"rank {rank} killed at call {at}: the run ends with {code}: {text[-500:]}")
            runs.check("run", f"rank {rank} killed at call {at} of {number}")
            points += 1
    return np.array([points, sum(most.values())])


class Node:
    """A file or a folder, with what is on disk of it."""

    def __init__(self, folder):
        self.folder = folder
        self.now, self.disk = ({}, {}) if folder else (b"", b"")

    def write(self, path, mode):
        if self.folder:
            path.mkdir(exist_ok=True)
            for name, node in (self.disk if mode == "lose" else self.now).items():
                node.write(path / name, mode)
        else:
            path.write_bytes(self.now if mode == "keep" else self.disk)

    def digest(self, mode):
        if not self.folder:
            return hashlib.sha256(self.now if mode == "keep" else self.disk).hexdigest()
        entries = self.disk if mode == "lose" else self.now
        return "{" + ",".join(name + ":" + node.digest(mode) for name, node in sorted(entries.items())) + "}"


class Disk:
    """Replays a record of changes. `root` is on disk from the beginning."""

    def __init__(self, root):
        self.root, self.top = root, Node(True)

    def place(self, path):
        """The folder and the name of a path, or None if it is not there."""
        parts = pathlib.PurePath(path).relative_to(self.root).parts
        node = self.top
        for part in parts[:-1]:
            node = node.now.get(part)
            if node is None:
                return None, ""
        return node.now, parts[-1]

    def apply(self, kind, path, other, offset, data):
        entries, name = self.place(path) if path != str(self.root) else (None, "")
        node = self.top if path == str(self.root) else entries.get(name) if entries is not None else None
        if kind == "D":
            entries[name] = Node(True)
        elif kind in "CT":
            if node is None:
                node = entries[name] = Node(False)
            if kind == "T":
                node.now = b""
        elif kind in "RX":
            target, new = self.place(other)
            entries[name], old = target.get(new), entries[name]
            target[new] = old
            if kind == "R":
                del entries[name]
        elif kind == "U":
            entries.pop(name, None)
        elif node is None:
            return  # of a file that was removed while it was open
        elif kind == "W":
            node.now = node.now[:offset].ljust(offset, b"\0") + data + node.now[offset + len(data):]
        elif kind == "S":
            node.now = node.now[:offset].ljust(offset, b"\0")
        elif kind == "F":
            node.disk = dict(node.now) if node.folder else node.now


def recorded(path):
    data, at = path.read_bytes(), 0
    while at < len(data):
        kind, first, second, offset, size = struct.unpack_from("<5q", data, at)
        at += 40
        yield chr(kind), data[at:at + first].decode(), data[at + first:at + first + second].decode(), offset, \
            data[at + first + second:at + first + second + size]
        at += first + second + size


def after_end(runs, root, changes, end):
    """After a run that has ended with 0, a power cut loses nothing but a folder that the next start removes."""
    disk = Disk(root)
    for change in changes:
        disk.apply(*change)
    if "run" not in disk.top.disk:
        raise Deviates("a power cut after the end of the run loses all of it")
    disk.top.disk["run"].write(runs.path("run"), "lose")
    try:
        left = runs.result("run")
    except (OSError, ValueError):
        left = {}, []
    shutil.rmtree(runs.path("run"))
    lost = [name for name in {**left[0], **end[0]} if left[0].get(name) != end[0].get(name) and ".tmp-" not in name]
    if lost or left[1] != end[1]:
        raise Deviates(f"a power cut after the end of the run loses {lost}, and {len(end[1]) - len(left[1])} steps of metrics")


def cuts(runs, stride):
    """Cuts the power after each change. Returns the numbers of changes, of different folders that are left, and of those tried."""
    journal = runs.work / "journal"
    journal.unlink(missing_ok=True)
    root = runs.work / "runs"
    code, text = runs.run("run", FAULT_JOURNAL=journal, FAULT_ROOT=root)
    if code:
        raise Deviates(f"the recorded run ends with {code}: {text}")
    end = runs.result("run")
    shutil.rmtree(runs.path("run"))
    changes = list(recorded(journal))
    disk, seen, states = Disk(root), set(), []
    for number in range(len(changes) + 1):
        for mode in ("keep", "lose", "names"):
            run = disk.top.disk if mode == "lose" else disk.top.now
            digest = run["run"].digest(mode) if "run" in run else ""
            if (digest, mode == "lose") not in seen:
                seen.add((digest, mode == "lose"))
                states.append((number, mode, digest))
        if number < len(changes):
            disk.apply(*changes[number])
    after_end(runs, root, changes, end)
    # The same without the syncs of some files or folders is noticed.
    for what in ("runs", "run", "checkpoints", "manifest.json", "metrics.jsonl", ".safetensors"):
        names = [pathlib.PurePath(path).name for _, path, *_ in changes]
        fewer = [change for name, change in zip(names, changes)
                 if change[0] != "F" or (what not in name if what.startswith(".") else what != name)]
        expect_deviation(lambda fewer=fewer: after_end(runs, root, fewer, end), f"that {what} is not synced", "a power cut after the end")
    chosen = {(number, mode) for number, mode, _ in states[::stride]}
    disk = Disk(root)
    for number in range(len(changes) + 1):
        for mode in ("keep", "lose", "names"):
            if (number, mode) in chosen:
                entries = disk.top.disk if mode == "lose" else disk.top.now
                if "run" in entries:
                    entries["run"].write(runs.path("run"), mode)
                runs.check("run", f"a power cut after change {number} of {len(changes)} ({mode})")
        if number < len(changes):
            disk.apply(*changes[number])
    return len(changes), len(states), len(chosen)


def descendants(pid):
    try:
        children = [int(word) for word in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
    return children


def random_kills(runs, count, seed):
    """Kills until `count` processes were killed and the run then in progress is done."""
    draw = random.Random(seed)
    begin = time.time()
    runs.finish("timed")
    took = time.time() - begin
    shutil.rmtree(runs.path("timed"))
    killed = 0
    while killed < count:
        for _ in range(20):  # then it may finish
            if killed == count:
                break
            process = runs.start("run")
            time.sleep(draw.uniform(0, took))
            chosen = draw.choice([process.pid, *descendants(process.pid)])
            if process.poll() is None:
                try:
                    os.kill(chosen, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            process.communicate(timeout=120)
            if process.returncode == 0:
                break
            if process.returncode not in (76, -signal.SIGKILL, 64):  # 64: ranks of the one before hold the lock
                raise Deviates(f"after a random kill the run ends with {process.returncode}")
            killed += process.returncode != 64
        runs.check("run", f"{killed} random kills")
    return killed


def replaced(runs):
    """Kills rank 0 at each rename of a run that saves its last step again. Returns the number of kills."""
    checkpoints = runs.path("damaged") / "checkpoints"
    runs.run("damaged", ["--stop-after", "1"])
    shutil.copytree(checkpoints, runs.work / "first")
    runs.finish("damaged")
    newest = max(checkpoints.iterdir())
    for first in (runs.work / "first").iterdir():
        first.rename(checkpoints / first.name)
    shard = min(newest.glob("*.safetensors"))
    shard.write_bytes(shard.read_bytes()[:-1] + b"\1")
    runs.prepare("run", "damaged")
    code, text = runs.run("run", FAULT_NO_EXCHANGE=errno.EINVAL)
    if code != 0 or "trying the checkpoint before it" not in text:
        raise Deviates(f"a step that is saved again ends with {code}: {text}")
    runs.check("run", "a step that was saved again")
    points = kills(runs, "damaged", 1, FAULT_NO_EXCHANGE=errno.ENOSYS, FAULT_RENAMES=1)
    if points[0] < 4:
        raise Deviates(f"only {points[0]} renames")
    return points[0]


def flips(runs, most):
    """Flips bytes of a checkpoint: all of the manifest and of the headers, and `most` others; a part of them if `most` is small."""
    draw = random.Random(3)
    runs.finish("run")
    folder = max((runs.path("run") / "checkpoints").iterdir())
    sums = json.loads((folder / "manifest.json").read_text())["body"]["checksums"]
    points = [("manifest.json", at) for at in range((folder / "manifest.json").stat().st_size)]
    others = []
    for name, entry in sums.items():
        points += [(name, at) for at in range(entry["header_bytes"])]
        others += [(name, at) for at in range(entry["header_bytes"], (folder / name).stat().st_size)]
    if most < 2000:
        points = draw.sample(points, most)
    points += draw.sample(others, min(most, len(others)))
    for name, at in points:
        data = bytearray((folder / name).read_bytes())
        data[at] ^= 1 << draw.randrange(8)
        good = (folder / name).read_bytes()
        (folder / name).write_bytes(data)
        done = subprocess.run([runs.program, "--verify-checkpoint", folder], capture_output=True, text=True)
        if done.returncode != 65 or str(folder / name) not in done.stderr:
            raise Deviates(f"byte {at} of {name} was changed: {done.returncode} {done.stdout}{done.stderr}")
        (folder / name).write_bytes(good)
    done = subprocess.run([runs.program, "--verify-checkpoint", runs.path("run")], capture_output=True, text=True)
    if done.returncode:
        raise Deviates(f"a whole checkpoint: {done.stderr}")
    shutil.rmtree(runs.path("run"))
    return len(points)


def check(a, work):
    build = pathlib.Path(a.build).resolve()
    parts = a.parts.split(",")
    summary = []
    programs = [("bigram-2-full", []), ("bigram-2-full", FULL)]
    if a.all:
        programs += [("bigram-1", FULL), ("bigram-4-hybrid", []), ("bigram-4-full", ["--checkpoint", "both"])]
    text = subprocess.run([build / "test/unit/runtime/bigram-1", "--help"], capture_output=True, text=True).stdout
    if "--async-save" in text:
        programs.append(("bigram-2-full", ["--async-save", "true"]))
    every = int(a.every)
    for number, (program, flags) in enumerate(programs):
        runs = Runs(build, work, program, flags)
        said = []
        if "kills" in parts:
            # Also in a run that resumes: one that ends after the first step, and is to go on.
            runs.run("begun", ["--stop-after", "1"])
            points = kills(runs, None, every if a.all else 61)
            points += kills(runs, "begun", every if a.all else 67)
            said.append(f"{points[0]} kills at {points[1]} calls")
        if "cuts" in parts:
            changes, folders, tried = cuts(runs, every if a.all else 29)
            said.append(f"{tried} of {folders} folders that power cuts leave after {changes} changes")
        if "flips" in parts:
            said.append(f"{flips(runs, 2000 // every if a.all else 10)} flipped bytes")
        if "random" in parts and (a.all or number == 0):
            longer = Runs(build, work, program, [*flags, "--save-every", "5"], steps=60 if a.all else 30)
            said.append(f"{random_kills(longer, 40 if a.all else 2, number)} random kills")
        if "replaced" in parts and (a.all or number == 0):
            said.append(f"{replaced(runs)} kills at renames of a step that is saved again")
        summary.append(f"{' '.join([program, *flags])}: {', '.join(said)}")
        print(summary[-1], flush=True)
    return "; ".join(summary)


if __name__ == "__main__":
    main(check, ("--parts", {"default": "kills,cuts,random,flips,replaced"}), ("--all", {"action": "store_true"}),
         ("--every", {"default": "1"}), success="the same bits after all:")
