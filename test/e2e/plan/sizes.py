#!/usr/bin/env python3
"""Measures bytes per parameter, from the resident memory of two models that differ only in their number of blocks.

usage: e2e sizes --build DIR [--width 512] [--blocks 8 24]

A block is one linear map, rows are few and units are equal, so the models differ only in parameters, gradients and optimizer state.
Runs every strategy on 1 to 4 ranks, in f32 and in bf16 with f32 masters and reduction. After three steps three differences must agree within
5 %: resident memory of rank 0, the plans, and the designed bytes per parameter (AdamW) times the difference in parameters.
"""
import importlib.util
import os
import re

import numpy as np

from runner import MODELS, Deviates, main, metrics, run, save_safetensors

STEPS, ROWS, BAR = 3, 2, 0.05
DESIGN = {"f32": {"none": lambda n: 16, "optimizer": lambda n: 8 + 8 / n, "grad": lambda n: 4 + 12 / n, "full": lambda n: 16 / n},
          "bf16": {"none": lambda n: 18, "optimizer": lambda n: 6 + 12 / n, "grad": lambda n: 2 + 16 / n, "full": lambda n: 16 / n}}
CASES = [("f32", "none", 1), ("f32", "none", 2), ("f32", "optimizer", 2), ("f32", "grad", 2), ("f32", "full", 2), ("f32", "full", 4),
         ("bf16", "none", 2), ("bf16", "optimizer", 2), ("bf16", "grad", 2), ("bf16", "full", 2)]


def export(folder, blocks, width):
    spec = importlib.util.spec_from_file_location("export", MODELS / "blocks" / "export.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    folder.mkdir()
    module.write(folder, blocks, width)


def measure(a, folder, dtype, strategy, ranks):
    """The number of parameters, stated bytes, and resident bytes."""
    shape = (STEPS, ROWS * ranks, a.width)
    rng = np.random.default_rng(1)
    save_safetensors(folder / "data.safetensors", {name: rng.standard_normal(shape, np.float32) for name in ("x", "target")})
    said = run([f"{a.build}/bin/shalec", folder / "model.onnx", "-o", folder / "train", "--dim", f"batch={ROWS}/rank", "--loss", "mse:y,target",
                "--mesh", f"fsdp={ranks}", "--shard", strategy, "--param-dtype", dtype, "--bucket-size", 0, "--threads", 1], "shalec").stdout
    out = folder / f"{dtype}-{strategy}-{ranks}"
    run([folder / "train", "--data", folder / "data.safetensors", "--steps", STEPS, "--save-every", 0, "--out", out], f"{strategy}, {ranks} rank(s)",
        {**os.environ, "OMP_NUM_THREADS": "1"})
    parameters = int(re.search(r"^parameters +(\d+)", said, re.M).group(1))
    stated = int(re.search(r"^  peak +(\d+)", said, re.M).group(1))
    return np.array([parameters, stated, max(line["memory_bytes"] for line in metrics(out))])


def check(a, work):
    for blocks in a.blocks:
        export(work / str(blocks), blocks, a.width)
    found = []
    for dtype, strategy, ranks in CASES:
        small, large = (measure(a, work / str(blocks), dtype, strategy, ranks) for blocks in a.blocks)
        parameters, stated, resident = large - small
        wanted = DESIGN[dtype][strategy](ranks) * parameters
        found.append(f"{dtype}, {strategy}, {ranks} rank(s): {parameters} parameters more, by design {wanted / 1e6:.2f} MB, stated {stated / 1e6:.2f}, "
                     f"resident {resident / 1e6:.2f}: {resident / parameters:.2f} bytes a parameter")
        for of in (stated, wanted):
            if abs(resident / of - 1) > BAR:
                raise Deviates("\n  ".join(found))
    return "\n  ".join([f"resident memory of {a.blocks[0]} and {a.blocks[1]} blocks of width {a.width}", *found])


if __name__ == "__main__":
    main(check, ("--width", {"type": int, "default": 512}), ("--blocks", {"type": int, "nargs": 2, "default": (8, 24)}), success="sizes:")
