#!/usr/bin/env python3
"""With full sharding, resident memory per rank falls from 1 to 4 ranks as planned.

usage: e2e resident --build DIR

The model has 100 MB of parameters, so parameters, gradients and both moments are 400 MB. The rows per rank are fixed. On 4 ranks three
quarters of the 400 MB must be gone, minus the gathered units that a sharded rank holds in addition to its shards, within 10 %.
The figure is the largest resident memory (VmHWM) of each rank from its start to the end of its last step. It includes reading the
weights, but not saving. The test checks every rank, with one OpenMP thread.
"""
import importlib.util
import json
import os
import re

import numpy as np

from runner import MODELS, Deviates, main, run, save_safetensors

BLOCKS, WIDTH, ROWS, STEPS, BAR = 25, 1000, 8, 3, 0.1
PARAMETERS = BLOCKS * WIDTH * WIDTH * 4


def write_model(folder):
    spec = importlib.util.spec_from_file_location("export", MODELS / "blocks" / "export.py")
    export = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(export)
    export.write(folder, BLOCKS, WIDTH)


def measure(a, work, ranks):
    """The largest resident memory of each rank, and the largest planned bytes of gathered units."""
    rng = np.random.default_rng(1)
    shape = (STEPS, ROWS * ranks, WIDTH)
    save_safetensors(work / "data.safetensors", {name: rng.standard_normal(shape, np.float32) for name in ("x", "target")})
    program = work / f"train{ranks}"
    said = run([f"{a.build}/bin/shalec", work / "model.onnx", "-o", program, "--dim", f"batch={ROWS}/rank", "--loss", "mse:y,target",
                "--mesh", f"fsdp={ranks}", "--shard", "full"], "shalec").stdout
    units = re.search(r"parameters +(\d+)  units gathered", said)
    report = work / f"report{ranks}.json"
    run([program, "--data", work / "data.safetensors", "--steps", STEPS, "--out", work / f"run{ranks}", "--report-buffers", report],
        f"{ranks} rank(s)", {**os.environ, "OMP_NUM_THREADS": "1"})
    return [rank["resident_peak"] for rank in json.loads(report.read_text())], int(units.group(1)) if units else 0


def check(a, work):
    write_model(work)
    alone, _ = measure(a, work, 1)
    together, units = measure(a, work, 4)
    wanted = 0.75 * 4 * PARAMETERS - units
    mb = "{:.1f} MB".format
    found = [alone[0] - rank for rank in together]
    said = (f"a rank alone has {mb(alone[0] / 1e6)}, ranks of four {', '.join(mb(rank / 1e6) for rank in together)}; falls by "
            f"{', '.join(mb(fall / 1e6) for fall in found)}, wanted {mb(wanted / 1e6)} ({mb(units / 1e6)} are gathered units)")
    if not all(abs(fall / wanted - 1) <= BAR for fall in found):
        raise Deviates(said)
    return said


if __name__ == "__main__":
    main(check, success="resident:")
