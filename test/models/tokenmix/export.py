#!/usr/bin/env python3
"""Writes this folder's files: a hand-written language model of convolutions and einsum, and PyTorch's run of it.

usage: export.py [FOLDER]   (needs torch, onnxscript and safetensors from PyPI; the files are in the repository)

A dense causal convolution over the embeddings; then blocks of a depthwise causal convolution with a gate, as in Mamba, and of
attention written with einsum. Convolutions see padding before the first token only.
"""
import pathlib
import sys

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
import record  # noqa: E402

VOCABULARY, WIDTH, HEADS, LENGTH = 256, 32, 4, 32


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.conv = nn.Conv1d(2 * WIDTH, 2 * WIDTH, 4, groups=2 * WIDTH, padding=3)
        self.down = nn.Linear(2 * WIDTH, WIDTH, bias=False)

    def forward(self, x):
        h, gate = self.up(self.norm(x)).chunk(2, -1)
        h = self.conv(h.transpose(1, 2))[..., :x.shape[1]].transpose(1, 2)
        return x + self.down(F.silu(h) * F.silu(gate))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.q, self.k, self.v = (nn.Parameter(torch.randn(WIDTH, HEADS, WIDTH // HEADS) * 0.1) for _ in range(3))
        self.o = nn.Parameter(torch.randn(HEADS, WIDTH // HEADS, WIDTH) * 0.1)
        self.register_buffer("mask", torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril())

    def forward(self, x):
        h = self.norm(x)
        q, k, v = (torch.einsum("btd,dhk->bhtk", h, w) for w in (self.q, self.k, self.v))
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k) * (WIDTH // HEADS) ** -0.5
        weights = scores.masked_fill(~self.mask, float("-inf")).softmax(-1)
        return x + torch.einsum("bhqk,bhkd,hde->bqe", weights, v, self.o)


class TokenMix(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.stem = nn.Conv1d(WIDTH, WIDTH, 3)
        self.blocks = nn.ModuleList([Mixer(), Attention(), Mixer(), Attention()])
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, input_ids, labels):
        x = F.pad(self.embedding(input_ids).transpose(1, 2), (2, 0))
        x = F.gelu(self.stem(x)).transpose(1, 2)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten()), logits


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
    folder = folder if folder.is_dir() else folder.parent
    torch.manual_seed(0)
    model = TokenMix().train()
    text = (pathlib.Path(__file__).resolve().parents[1] / "data" / "tinyshakespeare.txt").read_bytes()
    rows = torch.tensor(list(text[:20 * 4 * (LENGTH + 1)])).view(20, 4, LENGTH + 1)
    batches = {"input_ids": rows[..., :-1].contiguous(), "labels": rows[..., 1:].contiguous()}
    save_file(batches, folder / "batches.safetensors")
    record.export(model, batches, [{0: "batch"}, {0: "batch"}], folder / "model.onnx")
    record.train(model, batches, folder / "trajectory.json", folder / "final.safetensors")
