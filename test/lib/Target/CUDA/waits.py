"""Drops the waits between two streams, for each pair in turn. The run must fail or have other results.

usage: waits.py PROGRAM DATA STUBS OUT PAIRS [ARGUMENT...]
PAIRS is the list of all pairs of streams that wait, "2<1,1<2", as SHALE_STUB_DROP numbers them; 0 is the process.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

ORDERS = ["last", "first", "random:1", "random:2"]
program, data, stubs, out, expected, *arguments = sys.argv[1:]


def train(drop, order):
    """Returns the pairs that waited, and the trained weights or None after an error."""
    folder = pathlib.Path(out) / "run"
    shutil.rmtree(folder, ignore_errors=True)
    run = subprocess.run([program, "--data", data, "--steps", "3", "--out", folder, "--cuda-libraries", stubs, "--no-graph",
                          "--comm-timeout", "20", *arguments], capture_output=True, text=True, timeout=300,
                         env={**os.environ, "SHALE_STUB_DROP": drop, "SHALE_STUB_ORDER": order})
    pairs = set(re.findall(r"shale stub: wait (\d<\d)", run.stderr))
    if run.returncode:
        return pairs, None
    return pairs, (folder / "model.safetensors").read_bytes()


results = [train("none", order) for order in ORDERS]
pairs, right = results[0]
if right is None or any(result != results[0] for result in results):
    sys.exit("runs in other orders differ without a dropped wait")
if pairs != set(expected.split(",")):
    sys.exit(f"these streams wait: {','.join(sorted(pairs))}; expected {expected}")
for pair in sorted(pairs):
    found = next((order for order in ORDERS if train(pair, order)[1] != right), None)
    if not found:
        sys.exit(f"nothing changes without the waits {pair}")
    print(f"{pair}: found with {found}", file=sys.stderr)
print(f"{len(pairs)} pairs of streams, each wait is missed")
