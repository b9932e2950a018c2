"""Writes test/models/gpt with other sizes, and random tokens for it."""
import importlib.util

import numpy as np

from runner import MODELS

SMALL = {"layers": 2, "width": 64, "vocabulary": 512, "length": 32}


def write_tokens(folder, vocabulary):
    for name in ("data.bin", "eval.bin"):
        np.random.default_rng(1).integers(0, vocabulary, 1 << 16, np.uint16).tofile(folder / name)


def write_model(folder, **sizes):
    spec = importlib.util.spec_from_file_location("export", MODELS / "gpt" / "export.py")
    export = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(export)
    folder.mkdir()
    export.write(folder, **sizes)
    write_tokens(folder, sizes.get("vocabulary", 8192))
