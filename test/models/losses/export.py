#!/usr/bin/env python3
"""Writes this folder's files: a small language model with losses that are written out, and PyTorch's runs of it.

usage: export.py [FOLDER]   (needs torch, onnxscript and safetensors from PyPI; the files are in the repository)

Labels that are ignored are -100, in another number in each row, so that a mean of the means of micro-batches is another number than
the mean over all labels.
"""
import pathlib
import sys

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
import record  # noqa: E402

VOCABULARY, WIDTH, LENGTH, BATCH, STEPS = 48, 16, 12, 4, 20


class Model(nn.Module):
    """Embeddings, one layer that reads all earlier positions, a head. `kind` is a function below."""

    def __init__(self, kind):
        super().__init__()
        torch.manual_seed(0)
        self.kind = kind
        self.table = nn.Embedding(VOCABULARY, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.query, self.value = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY)
        self.register_buffer("class_weights", torch.rand(VOCABULARY) * 0.5 + 0.01)

    def forward(self, input_ids, *labels):
        x = self.table(input_ids)
        h = self.norm(x)
        query, key, value = (t.unsqueeze(1) for t in (self.query(h), h, self.value(h)))
        attended = F.scaled_dot_product_attention(query, key, value, is_causal=True).squeeze(1)
        return self.kind(self, self.head(x + attended), *labels)


def gather(model, logits, labels):
    """Log-softmax and gather; the mean over labels that are not ignored."""
    logp = F.log_softmax(logits, -1)
    nll = -logp.gather(-1, labels.clamp(min=0).unsqueeze(-1)).squeeze(-1)
    mask = (labels != -100).float()
    return (nll * mask).sum() / mask.sum().clamp(min=1)


def smooth(model, logits, labels, loss_mask):
    """One-hot labels, smoothed, with a z-loss; the mean under a mask of floats."""
    lse = torch.logsumexp(logits, -1)
    logp = logits - lse.unsqueeze(-1)
    wanted = F.one_hot(labels.clamp(min=0), VOCABULARY).float()
    nll = -(wanted * logp).sum(-1)
    rows = 0.9 * nll - 0.1 * logp.mean(-1) + 1e-2 * lse ** 2
    return (rows * loss_mask).sum() / loss_mask.sum()


def weights(model, logits, labels):
    """Weights of classes: the mean divides by the sum of the labels' weights."""
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), weight=model.class_weights)


def shifted(model, logits, labels):
    """The loss of each position, shifted in the graph, then the mean under a mask."""
    labels = labels[:, 1:]
    rows = F.cross_entropy(logits[:, :-1].flatten(0, 1), labels.flatten(), reduction="none")
    mask = (labels != -100).flatten()
    return rows.masked_fill(~mask, 0).sum() / mask.sum()


def terms(model, logits, labels):
    """Two outputs, of which the loss is a weighted sum."""
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten()), (torch.logsumexp(logits, -1) ** 2).mean()


class Sum(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *inputs):
        lm, aux = self.model(*inputs)
        return lm + 0.01 * aux


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
    folder = folder if folder.is_dir() else folder.parent
    draw = torch.Generator().manual_seed(1)
    ids = torch.randint(0, VOCABULARY, (2 * STEPS, BATCH, LENGTH), generator=draw)
    kept = torch.rand(ids.shape, generator=draw) < torch.rand(2 * STEPS, BATCH, 1, generator=draw)
    batches = {"input_ids": ids, "labels": torch.where(kept, (ids * 7 + 3) % VOCABULARY, -100)}
    masked = {**batches, "loss_mask": kept * torch.rand(ids.shape, generator=draw)}
    save_file(masked, folder / "batches.safetensors")
    for kind in (gather, smooth, weights, shifted, terms):
        name, tensors = kind.__name__, masked if kind is smooth else batches
        model = Model(kind)
        record.export(model, tensors, ({0: "batch"}, tuple({0: "batch"} for _ in list(tensors)[1:])), folder / f"{name}.onnx",
                      ["lm", "aux"] if kind is terms else ["loss"])
        start = {key: value.clone() for key, value in model.state_dict().items()}
        for micro in (1, 2) if kind is not terms else (1,):
            model.load_state_dict(start)
            record.train(Sum(model) if kind is terms else model, {key: value[:micro * STEPS] for key, value in tensors.items()},
                         folder / f"{name}{'-accumulate' if micro > 1 else ''}.json", accumulate=micro)
