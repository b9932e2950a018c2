"""Modules whose optimized files lack what training needs: the exporter folds parameters, merges operations, drops a term or removes the copy that
tells of a detach. Shale refuses those files; shale.export must take the modules. Cases as in users.py.
"""
import torch
from torch import nn
from torch.nn import functional as F
from users import BATCH, LENGTH, VOCABULARY, WIDTH, Case, Vectors, tokens_of


class Chain(Vectors):
    """A scale that several operations compute from a parameter alone: folded into one constant."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.0))

    def forward(self, x, y):
        h = self.first(x) * torch.clamp(self.scale, max=4.6).exp()
        return F.mse_loss(self.last(h), y)


class DetachClone(Vectors):
    """A detached copy: the file has neither the copy nor the detach."""

    def forward(self, x, y):
        h = self.first(x)
        target = h.detach().clone()
        h = h * target.sigmoid()
        return F.mse_loss(self.last(h), y)


class EpsilonDropped(Vectors):
    """A root of a sum that is zero for some rows: the file lacks the epsilon, and the gradient there is not finite."""

    @staticmethod
    def batch(g, step):
        return {**Vectors.batch(g, step), "mask": (torch.arange(BATCH)[:, None] > 0).float().expand(BATCH, 8).clone()}

    def forward(self, x, y, mask):
        h = self.first(x) * mask
        h = h + (h.pow(2).sum(dim=-1, keepdim=True) + 1e-12).sqrt()
        return F.mse_loss(self.last(h), y)


class Gate(Vectors):
    """Two entries of one parameter: a factor of 1 is dropped, the other becomes a constant."""

    def __init__(self):
        super().__init__()
        self.lambdas = nn.Parameter(torch.tensor([1.0, 0.0]))

    def forward(self, x, y):
        h = self.first(x)
        h = self.lambdas[0] * h + self.lambdas[1] * x
        return F.mse_loss(self.last(h), y)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.o = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, 4, d // 4).permute(2, 0, 3, 1, 4)
        return self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, d))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.att = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), Attention()
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x):
        x = x + self.att(self.n1(x))
        return x + self.down(F.gelu(self.up(self.n2(x))))


class Trunk(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks, self.norm = nn.ModuleList([Block()]), nn.LayerNorm(WIDTH)

    def forward(self, idx):
        x = self.wte(idx) + self.wpe(torch.arange(idx.shape[1], device=idx.device))
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


class Tokens(Case):
    @staticmethod
    def batch(g, step):
        return {"idx": tokens_of(g), "targets": tokens_of(g)}

    def loss(self, logits, targets):
        return F.cross_entropy(logits.view(-1, VOCABULARY), targets.view(-1))


class SmallEpsilon(Tokens):
    """A norm of small embeddings, whose epsilon counts."""

    def __init__(self):
        super().__init__()
        self.wte, self.blk, self.head = nn.Embedding(VOCABULARY, WIDTH), Block(), nn.Linear(WIDTH, VOCABULARY)
        nn.init.normal_(self.wte.weight, std=1e-4)

    def forward(self, idx, targets):
        x = self.wte(idx)
        x = x / (x.pow(2).mean(-1, keepdim=True) + 1e-8).sqrt()
        return self.loss(self.head(self.blk(x)), targets)


class ZeroAdapters(Tokens):
    """Two layers of zeros: one initializer in the file, and their matmuls are merged."""

    def __init__(self):
        super().__init__()
        self.trunk, self.mix, self.head = Trunk(), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, VOCABULARY)
        self.a, self.b = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        for one in (*self.a.parameters(), *self.b.parameters()):
            nn.init.zeros_(one)

    def forward(self, idx, targets):
        h = self.trunk(idx)
        g = self.mix(h)
        return self.loss(self.head(h + self.a(h) + torch.tanh(self.b(g)) * 2 + torch.sigmoid(self.a(g)) * g), targets)


class Gain(nn.Module):
    """A layer with parameters of one element that change nothing at first."""

    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(WIDTH, WIDTH)
        self.log_multiplier, self.c, self.b = nn.Parameter(torch.zeros(1)), nn.Parameter(torch.ones(1)), nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return self.lin(x) * torch.exp(self.log_multiplier * 10) * self.c + self.b


class TinyParameters(Tokens):
    """Two layers whose small parameters are neutral and equal: dropped from the file, or merged."""

    def __init__(self):
        super().__init__()
        self.trunk, self.g1, self.g2, self.head = Trunk(), Gain(), Gain(), nn.Linear(WIDTH, VOCABULARY)

    def forward(self, idx, targets):
        h = self.trunk(idx)
        return self.loss(self.head(h + self.g2(self.g1(h))), targets)


CLASSES = [one for one in list(globals().values()) if isinstance(one, type) and issubclass(one, Case) and one.__module__ == __name__ and one is not Tokens]
