#!/usr/bin/env python3
"""Compiles a model under a series of memory limits, from the peak without a limit down to the smallest limit that can be met.

usage: limits.py --build DIR [--model gpt2-124m] [--batch 4] [--sequence 512] [--steps 12] [--run] [--record [PAGE]]

Checks for each limit that the planned device memory is within it, and that the predicted time is at least that of the limit before.
One byte below the smallest limit shalec must end with exit code 78.
With --run each program also trains three steps with --report-buffers, which touches every buffer. Checks that device memory
is within the limit and resident memory within the sum of both plans. On the CPU both memories are one RAM, so device memory is
resident memory minus host blocks. Prints a table.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import record

HERE = pathlib.Path(__file__).resolve().parent
VERDICT = re.compile(r"verdict +peak (\d+) bytes \([^)]*\) per rank(?: and (\d+) bytes .* of host memory)?:.*predicted step ([0-9.e+-]+) ms")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--build", required=True)
    p.add_argument("--model", default="gpt2-124m")
    p.add_argument("--batch", default="4")
    p.add_argument("--sequence", default="512")
    p.add_argument("--steps", type=int, default=12)
    p.add_argument("--run", action="store_true", help="compile and train three steps under each limit")
    record.add_flag(p)
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        scale = [sys.executable, HERE.parent / "models" / "scale.py", a.model, work / "model.onnx"]
        subprocess.run(scale + (["--random-weights"] if a.run else []), check=True)
        base = [pathlib.Path(a.build) / "bin" / "shalec", work / "model.onnx", "--dim", f"batch={a.batch}", "--dim", f"sequence={a.sequence}",
                "--mesh", "fsdp=2", "--shard", "full"]

        def shalec(*flags, code=0):
            run = subprocess.run([*base, *map(str, flags)], capture_output=True, text=True)
            assert run.returncode == code, (flags, run.returncode, run.stderr)
            return run.stdout + run.stderr

        free = int(VERDICT.search(shalec("--plan-only", "--memory-limit", "100TiB"))[1])
        smallest = int(re.search(r"--memory-limit device=(\d+)", shalec("--plan-only", "--memory-limit", "device=1", code=78))[1])
        (work / "tokens.bin").write_bytes(bytes(range(128)) * 8192)
        print(f"{'limit':>14} {'device':>14} {'host':>14} {'ms':>9} {'device, run':>14} {'resident, run':>14}  flags")
        last, rows = 0.0, []
        for i in range(a.steps):
            limit = free - (free - smallest) * i // (a.steps - 1)
            text = shalec("--memory-limit", f"device={limit}", *(["-o", work / "train"] if a.run else ["--plan-only"]))
            peak, host, ms = VERDICT.search(text).groups()
            peak, host, ms = int(peak), int(host or 0), float(ms)
            flags = re.search(r"that fits, (.*)", text)[1]
            device = resident = 0
            if a.run:
                out = work / f"run{i}"
                subprocess.run([work / "train", "--data", work / "tokens.bin", "--steps", "3", "--out", out, "--report-buffers", work / "buffers.json"],
                               check=True, capture_output=True)
                resident = max(json.loads(line)["memory_bytes"] for line in open(out / "metrics.jsonl"))
                blocks = json.loads((work / "buffers.json").read_text())[0]["blocks"]
                device = resident - sum(block["bytes"] for block in blocks if block["name"].startswith("host"))
            print(f"{limit:14} {peak:14} {host:14} {ms:9.1f} {device or '-':>14} {resident or '-':>14}  {flags}", flush=True)
            assert peak <= limit and ms >= last, "a plan exceeds its limit, or a smaller limit gives a faster plan"
            assert device <= limit and resident <= peak + host, "resident memory exceeds the limit or the plan"
            last = ms
            rows.append([limit, peak, device or "", host, resident or "", ms, f"`{flags}`" if flags.startswith("--") else flags])
        shalec("--plan-only", "--memory-limit", f"device={smallest - 1}", code=78)
        print(f"{smallest - 1:14} exit code 78")
    if a.record:
        record.write(a.record, "limits", a, rows)


main()
