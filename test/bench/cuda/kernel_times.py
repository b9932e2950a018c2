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

from notes import LeftOut, execute
from runner import Deviates

OURS = "kernel_"  # begins the names of Shale's kernels
LIBRARY = "activity.so"
CUDA = pathlib.Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))


def build(folder):
    """Compiles activity.cpp, which needs the CUDA toolkit. Returns the library."""
    library, places = folder / LIBRARY, [path.parent for path in sorted(CUDA.glob("**/libcupti.so*"))]
    if not places:
        raise LeftOut(f"there is no libcupti.so in {CUDA}")
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
        raise Deviates(f"{f'{once} ran {len(starts)} times' if once else 'no kernel ran often enough'}: {count} steps need {count + 1} launches; "
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


def summary(activities, whole, steps):
    """Milliseconds and launches per step: of the step, of what ran by name, the longest first, and of the time in which nothing ran."""
    sums = collections.defaultdict(lambda: [0, 0])
    for start, stop, _, name in activities:
        sums[short(name)][0] += stop - start
        sums[short(name)][1] += 1
    rest = idle(activities, activities[0][0] + whole)
    longest = sorted(sums.items(), key=lambda one: -one[1][0])
    return dict(step_ms=whole / steps / 1e6, idle_ms=rest / steps / 1e6, launches=len(activities) / steps,
                kernels=[dict(name=name, ms=time / steps / 1e6, launches=count / steps) for name, (time, count) in longest])


def profile(command, what, work, steps, seconds, environment, until=None, raw=None, once=None, library=None):
    """Runs a command with the library of activity.cpp in it, which is built without `library`. Returns the summary of its last steps. `raw`:
    where the list of activities stays; without a command it is read from there."""
    raw = raw or work / "activity"
    if command:
        more = {"CUDA_INJECTION64_PATH": str((library or build(work)).resolve()), "SHALE_ACTIVITY": str(raw)}
        execute(command, what, seconds, {**environment, **more}, until=until)
    if not raw.exists():
        raise Deviates(f"{what} wrote no list of activities: the driver did not load {LIBRARY}")
    activities, whole = steps_of(read(raw), once, steps)
    return summary(activities, whole, steps)


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
        try:
            found = profile(a.command, a.command and a.command[0], pathlib.Path(work), a.steps, a.seconds, os.environ, a.until, a.raw, a.once)
        except (Deviates, LeftOut) as reason:
            sys.exit(str(reason))
    print(f"{found['step_ms']:.2f} ms per step, {found['idle_ms']:.2f} of them idle, {found['launches']:g} launches")
    for one in found["kernels"]:
        print(f"{one['ms']:9.3f} ms {one['launches']:6g} x  {one['name']}")


if __name__ == "__main__":
    main()
