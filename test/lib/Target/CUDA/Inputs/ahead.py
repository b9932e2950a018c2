"""Compares runs that enqueue steps ahead with a run that waits for each step.

usage: ahead.py same PROGRAM DATA STUBS OUT [ARGUMENT...]
       ahead.py stop STEP PROGRAM DATA STUBS OUT [ARGUMENT...]

same: printed lines, metrics and all other files must be equal, in each order of the streams.
stop: the floats of micro-batch STEP of the data are infinite, so that the loss of that step is not a number. The runs must end with
exit code 93 and equal files, and with the state of a run of STEP steps: the step in flight changes nothing.
SHALE_PROFILE makes a program wait for each step.
"""
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys

ORDERS = ["first", "last", "random:1"]
TIMES = {"tokens_per_s", "memory_bytes", "tflops", "slowest_rank", "slowest_rank_seconds", "rank_seconds"}
what = sys.argv.pop(1)
last = int(sys.argv.pop(1)) if what == "stop" else None
program, data, stubs, out, *arguments = sys.argv[1:]


def train(name, order, wait, data=data, code=0, more=()):
    """Returns lines without times, metrics without times, other files, and the last checksum of each rank's state."""
    folder = pathlib.Path(out) / "run"
    shutil.rmtree(folder, ignore_errors=True)
    environment = {**os.environ, "SHALE_STUB_ORDER": order, "SHALE_STUB_SUMS": state}
    if wait:
        environment["SHALE_PROFILE"] = "1"
    run = subprocess.run([program, "--data", data, "--out", folder, "--cuda-libraries", stubs, "--comm-timeout", "20", *arguments, *more],
                         capture_output=True, text=True, timeout=300, env=environment)
    if run.returncode != code:
        sys.exit(f"{name}: exit code {run.returncode}, not {code}\n{run.stdout}{run.stderr}")
    lines = [re.sub(r" \| [0-9.]+ ms \|.*", "", line) for line in run.stdout.splitlines()
             if line.startswith(("step ", "eval ", "checkpoint", "weights"))]
    lines += [line for line in run.stderr.splitlines() if not line.startswith("shale stub:")]
    metrics = [{key: value for key, value in json.loads(line).items() if key not in TIMES} for line in open(folder / "metrics.jsonl")]
    files = {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*"))
             if path.is_file() and path.name not in ("metrics.jsonl", "report.html")}
    return lines, metrics, files, sorted(dict(re.findall(r"shale stub: process (\d+) sum (\w+)", run.stderr)).values())


def require_equal(name, got, expected):
    for part, (mine, others) in zip(("lines", "metrics", "files", "state"), zip(got, expected)):
        if mine == others:
            continue
        if part == "files":
            mine, others = [sorted(key for key in a if a[key] != b.get(key)) for a, b in ((mine, others), (others, mine))]
        sys.exit(f"{name}: other {part}:\n{mine}\ninstead of\n{others}")


def with_infinity(step):
    """Writes a copy of the data in which the floats of micro-batch `step` are infinite."""
    whole = bytearray(open(data, "rb").read())
    length, = struct.unpack("<Q", whole[:8])
    tensor, = [tensor for tensor in json.loads(whole[8:8 + length]).values() if tensor["dtype"] == "F32"]
    begin, end = tensor["data_offsets"]
    each = (end - begin) // tensor["shape"][0]
    place = 8 + length + begin + step * each
    whole[place:place + each] = struct.pack("<f", float("inf")) * (each // 4)
    path = pathlib.Path(out) / "infinite.safetensors"
    path.write_bytes(whole)
    return path


pathlib.Path(out).mkdir(exist_ok=True)
described = subprocess.run([program, "--describe"], capture_output=True, text=True, check=True).stdout
state = re.search(r"state (\d+) bytes", described)[1]
if state == "0":
    state = str(max(int(at) + int(size) for at, size in re.findall(r"host state +(\d+) +(\d+)", described)))
if what == "same":
    expected = train("waiting", ORDERS[0], True)
    if not expected[1] or not expected[3]:
        sys.exit("the run has no metrics or no state")
    runs = [(f"ahead, {order}", train(f"ahead, {order}", order, False)) for order in ORDERS]
    runs.append(("ahead without graphs", train("ahead without graphs", "random:3", False, more=["--no-graph"])))
else:
    bad = with_infinity(last)
    before = train("before", ORDERS[0], True, more=["--steps", str(last)])
    expected = train("waiting", ORDERS[0], True, data=bad, code=93, more=["--steps", str(last + 6)])
    if expected[3] != before[3] or not before[3]:
        sys.exit(f"a step that is not applied changed the state: {before[3]}, {expected[3]}")
    if len(expected[1]) != last + 1 or expected[1][:-1] != before[1]:
        sys.exit(f"steps before the one that is not applied differ: {expected[1]}")
    runs = [(f"ahead, {order}", train(f"ahead, {order}", order, False, data=bad, code=93, more=["--steps", str(last + 6)]))
            for order in ORDERS]
for name, run in runs:
    require_equal(name, run, expected)
print(f"{len(runs)} runs of {len(expected[1])} steps, as one that waits for each step")
