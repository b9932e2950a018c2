"""Modules of plain torch.nn. The first has fused qkv, RoPE, RMSNorm, SwiGLU, SDPA and a tied head; its forward returns logits and loss.
Those that export.py's REFUSED lists must be refused.
"""
import random

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

WIDTH, HEADS, VOCABULARY = 32, 4, 80


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.gate, self.up, self.down = nn.Linear(WIDTH, 64), nn.Linear(WIDTH, 64), nn.Linear(64, WIDTH)
        self.drop = nn.Dropout(0.1)

    def forward(self, x, cos, sin):
        batch, length, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        q, k = (torch.cat([a * cos - b * sin, b * cos + a * sin], -1) for a, b in (q.chunk(2, -1), k.chunk(2, -1)))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.drop(self.out(y.transpose(1, 2).reshape(batch, length, WIDTH)))
        h = self.norm2(x)
        return x + self.drop(self.down(F.silu(self.gate(h)) * self.up(h)))


class Own(nn.Module):
    def __init__(self, layers=2):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.embedding.weight
        nn.init.normal_(self.embedding.weight, std=0.1)

    def forward(self, tokens, targets=None):
        half = WIDTH // HEADS // 2
        angles = torch.outer(torch.arange(tokens.shape[1]).float(), 1e4 ** (-torch.arange(half).float() / half))
        x = self.embedding(tokens)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        for block in self.blocks:
            x = block(x, cos, sin)
        logits = self.head(self.norm(x))
        return logits, None if targets is None else F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class Logits(Own):
    def forward(self, tokens):
        return super().forward(tokens)[0]


class Masked(nn.Module):
    """True is padding, and targets are probabilities: random values have a loss that is not a number."""

    def __init__(self):
        super().__init__()
        self.lift = nn.Linear(8, 16)
        self.encoder = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.head = nn.Linear(16, 1)

    def forward(self, x, pad, y):
        h = self.encoder(self.lift(x), src_key_padding_mask=pad)
        each = F.binary_cross_entropy(self.head(h).squeeze(-1).sigmoid(), y, reduction="none")
        return (each * ~pad).sum() / (~pad).sum()


def masked_batch(seed=0, rows=4):
    g = torch.Generator().manual_seed(seed)
    length = torch.randint(2, 7, (rows, 1), generator=g)
    return {"x": torch.randn(rows, 6, 8, generator=g), "pad": torch.arange(6) >= length, "y": torch.rand(rows, 6, generator=g)}


def token_batch():
    return {"tokens": torch.zeros(4, 6)}


def scalar_batch():
    return torch.tensor(1.0)


def unequal_batch():
    return {**masked_batch(), "y": torch.rand(3, 6)}


def single_batch():
    return masked_batch(rows=1)


def failing_batch():
    return 1 / 0


def empty_batch():
    return DataLoader([])


def odd_batch():
    return {**masked_batch(), "x": np.zeros((4, 6, 8))}


class FullySharded(Masked):
    """Only its name is that of FSDP's class."""


FullySharded.__name__ = "FullyShardedDataParallel"


class Twice(Own):
    def forward(self, tokens, targets):
        return {"first": super().forward(tokens, targets)[1], "second": self.norm.weight.sum()}


class Unlabeled(Own):
    def forward(self, tokens, targets):
        return super().forward(tokens, tokens)[1]


class Random(Own):
    """Computes another result each time, so no file can match this module."""

    def forward(self, tokens, targets):
        return super().forward(tokens, targets)[1] * (1 + random.random())


class Drawn(Own):
    """Random numbers in several forms: a path that is rarely dropped, noise, samples of distributions, and examples in another order."""

    def forward(self, tokens, targets):
        logits, loss = super().forward(tokens, targets)
        kept = (torch.rand(tokens.shape[0], 1, 1) < 0.97).float() / 0.97
        noise = torch.distributions.Normal(logits * kept, 0.1).rsample() * torch.empty_like(logits).uniform_(0.9, 1.1)
        chosen = torch.distributions.Categorical(logits=logits.detach()).sample()
        mixed = noise[torch.randperm(tokens.shape[0])] + F.gumbel_softmax(noise, hard=True)
        return loss + F.cross_entropy(mixed.flatten(0, 1), chosen.flatten()) / 9


class Singular(Own):
    """Singular values, which nothing writes, behind a hook."""

    def forward(self, tokens, targets):
        loss = super().forward(tokens, targets)[1]
        table = self.embedding.weight[:8] * 1.0
        if table.requires_grad:
            table.register_hook(lambda gradient: gradient * 2)
        return loss + torch.linalg.svdvals(table).sum() * 0.01


class Fixed(Own):
    def forward(self, tokens, targets):
        return super().forward(tokens + torch.arange(12) * 0, targets)[1]


class Broken(Own):
    def __init__(self):
        super().__init__(depth=3)


class Branch(Own):
    def forward(self, tokens, targets):
        loss = super().forward(tokens, targets)[1]
        return loss if loss > 3 else 2 * loss


class LargeBatch(Own):
    """Does other things with a large batch."""

    def forward(self, tokens, targets):
        loss = super().forward(tokens, targets)[1]
        return loss if len(tokens) < 100 else 2 * loss


class Counted(Own):
    """Divides by the number of labels that count, as a Python number."""

    def forward(self, tokens, targets):
        chosen = super().forward(tokens)[0][targets != 0]
        return chosen.square().sum() / chosen.shape[0]


class Ordered(Own):
    """Sorts the rows that count: the others would have places, too."""

    def forward(self, tokens, targets):
        return super().forward(tokens)[0][targets != 0].sort(0)[0][0].mean()


class Skipped(Own):
    def forward(self, tokens, targets):
        loss, mask = super().forward(tokens, targets)[1], targets == 0
        return loss * 2 if mask.any() else loss


class Undefined(Own):
    def forward(self, tokens, targets):
        return super().forward(tokens, targets)[1] * float("nan")


class Principal(Own):
    """An operator that neither exporter nor Shale writes."""

    def forward(self, tokens, targets):
        table = self.embedding.weight
        return super().forward(tokens, targets)[1] + torch.linalg.eigvalsh(table.T @ table).amax() / 99


class Constant(Own):
    def forward(self, tokens, targets):
        return super().forward(tokens, targets)[1].detach()


class Trained(Own):
    """The loss alone."""

    def forward(self, tokens, targets):
        return super().forward(tokens, targets)[1]


class Smoothed(Own):
    """Today's exporter drops the label smoothing of its file, and Shale restores it."""

    def forward(self, tokens, targets):
        return F.cross_entropy(super().forward(tokens)[0].flatten(0, 1), targets.flatten(), label_smoothing=0.1)


class Normalized(Own):
    """Normalizes by the batch: today's exporter writes its norm as in evaluation. Half of the logits are of normalized values."""

    def __init__(self):
        super().__init__()
        self.batch = nn.BatchNorm1d(VOCABULARY, momentum=0.3)

    def train(self, mode=True):
        super().train(mode)
        self.batch.train()
        return self

    def forward(self, tokens, targets):
        logits = super().forward(tokens)[0]
        logits = logits + self.batch(logits.flatten(0, 1)).view_as(logits)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class Frozen(Trained):
    """The tied table and the first block do not require a gradient."""

    def __init__(self):
        super().__init__()
        self.embedding.weight.requires_grad_(False)
        self.blocks[0].requires_grad_(False)


class Balanced(Trained):
    """Adds a term to the loss in training mode only."""

    def forward(self, tokens, targets):
        loss = super().forward(tokens, targets)
        return loss + 0.4 * self.blocks[0].up(self.embedding(tokens)).square().mean() if self.training else loss


class Sorted(Trained):
    """A loss that is the same for any order of the targets."""

    def forward(self, tokens, targets):
        found = Own.forward(self, tokens)[0].softmax(-1).mean((0, 1))
        return 10 * (found - F.one_hot(targets, VOCABULARY).float().mean((0, 1))).square().sum()


class Unasked(Trained):
    """Nothing requires a gradient."""

    def __init__(self):
        super().__init__()
        self.requires_grad_(False)


class Gated(Trained):
    """A hook reverses the gradient of a branch. At first no gradient reaches the branch, since its gate is zero."""

    def __init__(self):
        super().__init__()
        self.inner, self.gate = nn.Linear(WIDTH, WIDTH), nn.Parameter(torch.zeros(WIDTH))

    def forward(self, tokens, targets):
        branch = torch.tanh(self.inner(self.embedding(tokens)))
        if branch.requires_grad:
            branch.register_hook(lambda gradient: -gradient)
        logits = self.head(self.norm(self.embedding(tokens) + self.gate * branch))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class Hooked(Trained):
    """A hook scales the gradient of a weight. The file has no trace of it."""

    def __init__(self):
        super().__init__()
        self.blocks[0].up.weight.register_hook(lambda gradient: 3 * gradient)


class Hidden(Trained):
    """A part of the loss has no gradient, since it runs under torch.no_grad()."""

    def forward(self, tokens, targets):
        with torch.no_grad():
            scale = self.blocks[0].up(self.embedding(tokens)).square().mean()
        return super().forward(tokens, targets) * scale


class Inferred(Trained):
    """A part of the loss runs under torch.inference_mode()."""

    def forward(self, tokens, targets):
        with torch.inference_mode():
            scale = self.blocks[0].up(self.embedding(tokens)).square().mean()
        return super().forward(tokens, targets) * scale.clone()


class Reversed(Trained):
    """The gradient of the first block is reversed."""

    def __init__(self):
        super().__init__()
        self.blocks[0].norm1.register_full_backward_hook(lambda module, before, after: (-before[0],))


class Renormalized(Trained):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH, max_norm=1.0)
