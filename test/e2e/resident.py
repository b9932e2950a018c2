#!/usr/bin/env python3
"""The resident memory of a rank falls as full sharding says: a model of 100 MB of parameters, the rows of a rank fixed,
from 1 to 4 ranks. Parameters, gradients and both moments are 400 MB; three quarters of them go, less the gathered units
that a sharded rank has beside its shards, within 10 %.

usage: resident.py --build DIR

The figure is the largest resident set (VmHWM) of each rank from its start to the end of its last step, so that reading the
weights counts; saving comes after it. Every rank's is looked at, with one OpenMP thread in all runs.
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
    """Largest resident set of each rank, and the most bytes of units that the plan has gathered at once."""
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
