"""Batches of the demo text, the same for PyTorch's reference run and for Shale's run."""
import pathlib

import numpy as np

BATCH, SEQUENCE, STEPS, EVALUATIONS = 16, 128, 300, 16
SETTINGS = {"lr": 1e-3, "beta1": 0.9, "beta2": 0.95, "eps": 1e-8, "weight_decay": 0.1, "clip_grad_norm": 1.0}


def draw(text_path):
    """Returns (training, evaluation): int64 arrays [count, BATCH, SEQUENCE] of the first 90 % and the rest of the text."""
    text = np.frombuffer(pathlib.Path(text_path).read_bytes(), np.uint8).astype(np.int64)
    cut = len(text) * 9 // 10
    rng = np.random.default_rng(1)

    def windows(part, count):
        starts = rng.integers(0, len(part) - SEQUENCE, (count, BATCH))
        return part[starts[..., None] + np.arange(SEQUENCE)]

    return windows(text[:cut], STEPS), windows(text[cut:], EVALUATIONS)
