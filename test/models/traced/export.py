#!/usr/bin/env python3
"""Writes this folder's files: a language model with the gradients that PyTorch's autograd traced, and PyTorch's run of it.

usage: export.py [FOLDER]   (needs torch, onnxscript and safetensors from PyPI; the files are in the repository)

No forward graph has the gradients of this model: a function has a backward pass of its own, and a hook halves a gradient. The operators that
`shale.export` keeps whole are all there: attention with and without a mask, layer norm, the embedding and cross-entropy.
"""
import pathlib
import subprocess
import sys

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
import record  # noqa: E402

VOCABULARY, WIDTH, HEADS, LENGTH, BATCH, STEPS = 48, 16, 2, 12, 4, 20


class Doubled(torch.autograd.Function):
    """Itself, with twice the gradient."""
    @staticmethod
    def forward(context, x):
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        return 2 * gradient


class Block(nn.Module):
    def __init__(self, masked):
        super().__init__()
        self.masked = masked
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.c_attn, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x, mask):
        batch, length, width = x.shape
        q, k, v = (t.view(batch, length, HEADS, width // HEADS).transpose(1, 2) for t in self.c_attn(self.norm1(x)).split(width, -1))
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=mask) if self.masked else F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        return x + Doubled.apply(self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh")))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.h = nn.ModuleList(Block(masked) for masked in (False, True, False))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, input_ids, labels):
        length = input_ids.shape[1]
        x = self.tokens(input_ids) + self.places(torch.arange(length))
        mask = torch.ones(length, length, dtype=torch.bool).tril() & (input_ids != 0)[:, None, None]  # token 0 is padding
        for block in self.h:
            x = block(x, mask)
        if x.requires_grad:
            x.register_hook(lambda gradient: gradient / 2)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), labels.flatten())


def made():
    torch.manual_seed(0)
    return Model()


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
    folder = folder if folder.is_dir() else folder.parent
    tool = pathlib.Path(__file__).resolve().parents[3] / "tools" / "export" / "export.py"
    subprocess.run([sys.executable, tool, f"{pathlib.Path(__file__).resolve()}:made", "-o", folder / "model.onnx", "--gradients", "traced", "--fixed", "sequence",
                    "--size", f"sequence={LENGTH}"], check=True)
    draw = torch.Generator().manual_seed(1)
    ids = torch.randint(1, VOCABULARY, (2 * STEPS, BATCH, LENGTH), generator=draw)
    ids[..., -3:] *= torch.randint(0, 2, (2 * STEPS, BATCH, 1), generator=draw)
    kept = torch.rand(ids.shape, generator=draw) < torch.rand(2 * STEPS, BATCH, 1, generator=draw)
    batches = {"input_ids": ids, "labels": torch.where(kept, (ids * 7 + 3) % VOCABULARY, -100)}
    save_file(batches, folder / "batches.safetensors")
    model = made()
    start = {key: value.clone() for key, value in model.state_dict().items()}
    record.train(model, {key: value[:STEPS] for key, value in batches.items()}, folder / "trajectory.json", folder / "final.safetensors")
    model.load_state_dict(start)
    record.train(model, batches, folder / "trajectory-accumulate.json", accumulate=2)
