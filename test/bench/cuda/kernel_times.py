#!/usr/bin/env python3
"""Profiles a program on a GPU by kernel, also inside CUDA graphs.

usage: kernel_times.py [--steps 4] [--once KERNEL] [--until FILE] [--seconds 120] [--raw FILE] -- COMMAND...

Builds activity.cpp with the CUDA toolkit, lets the driver load it into COMMAND, and prints a table of the last --steps steps: milliseconds
and launches per step by kernel, the longest first, with the time in which the GPU did nothing. A step begins at each start of the kernel
--once, which must run once per step; by default it is the one of Shale's whose last launches are the furthest apart. --until ends COMMAND
when FILE exists, so that a program need not save. --raw keeps the list of activities, and --read prints the table of a list.
"""
import argparse
import collections
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from notes import execute

OURS = "kernel_"  # begins the names of Shale's kernels
CUDA = pathlib.Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))


def build(folder):
    library, places = folder / "activity.so", [path.parent for path in sorted(CUDA.glob("**/libcupti.so*"))]
    if not places:
        sys.exit(f"there is no libcupti.so in {CUDA}")
    headers = [flag for path in sorted(CUDA.glob("**/cupti.h")) for flag in ("-I", path.parent)]
    subprocess.run(["c++", "-O1", "-shared", "-fPIC", pathlib.Path(__file__).with_name("activity.cpp"), "-o", library, "-I", CUDA / "include",
                    *headers, "-L", places[0], f"-Wl,-rpath,{places[0]}", "-lcupti"], check=True)
    return library


def short(name):
    """Without the arguments of C++ templates."""
    name = re.sub(r"^_ZN?\d*", "", name) if name.startswith("_Z") else name
    return name if len(name) <= 90 else name[:60] + ".." + name[-28:]


def read(path):
    found = []
    for line in path.read_text(errors="replace").splitlines():
        words = line.split(" ", 3)
        if len(words) == 4 and words[0].isdigit() and words[1].isdigit():  # the last line of a killed program may be cut
            found.append((int(words[0]), int(words[1]), int(words[2]), words[3]))
    return sorted(found)


def steps_of(found, once, count):
    """The activities of the last `count` whole steps, and the nanoseconds of these."""
    launches = collections.Counter(one[3] for one in found)
    if not once:
        def span(name):
            at = [one[0] for one in found if one[3] == name]
            return at[-1] - at[-count - 1]
        often = [name for name, n in launches.items() if n > count]
        once = max([name for name in often if name.startswith(OURS)] or often, key=span, default=None)
    starts = [i for i, one in enumerate(found) if one[3] == once]
    if len(starts) < count + 1:
        sys.exit(f"{f'{once} ran {len(starts)} times' if once else 'no kernel ran often enough'}: {count} steps need {count + 1} launches; "
                 "the launches: " + ", ".join(f"{name} {n}" for name, n in sorted(launches.items())))
    first, last = starts[-count - 1], starts[-1]
    return found[first:last], found[last][0] - found[first][0]


def idle(activities, end):
    """Nanoseconds in which nothing ran."""
    free, busy_until = 0, activities[0][0]
    for start, stop, *_ in activities:
        free += max(0, start - busy_until)
        busy_until = max(busy_until, stop)
    return free + max(0, end - busy_until)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--once")
    parser.add_argument("--until", type=pathlib.Path)
    parser.add_argument("--seconds", type=int, default=120, help="the most that COMMAND may take")
    parser.add_argument("--raw", type=pathlib.Path)
    parser.add_argument("--read", action="store_true")
    parser.add_argument("command", nargs="*")
    a = parser.parse_args()
    if a.read != (not a.command) or (a.read and not a.raw):
        parser.error("give a COMMAND, or --read with --raw FILE")
    with tempfile.TemporaryDirectory() as work:
        raw = a.raw or pathlib.Path(work) / "activity"
        if not a.read:
            execute(a.command, a.command[0], a.seconds, {**os.environ, "CUDA_INJECTION64_PATH": str(build(pathlib.Path(work))),
                                                         "SHALE_ACTIVITY": str(raw)}, until=a.until)
        activities, whole = steps_of(read(raw), a.once, a.steps)
    sums = collections.defaultdict(lambda: [0, 0])
    for start, stop, _, name in activities:
        sums[short(name)][0] += stop - start
        sums[short(name)][1] += 1
    rest = idle(activities, activities[0][0] + whole)
    print(f"{whole / a.steps / 1e6:.2f} ms per step, {rest / a.steps / 1e6:.2f} of them idle, {len(activities) / a.steps:g} launches")
    for name, (time, count) in sorted(sums.items(), key=lambda one: -one[1][0]):
        print(f"{time / a.steps / 1e6:9.3f} ms {count / a.steps:6g} x  {name}")


if __name__ == "__main__":
    main()
