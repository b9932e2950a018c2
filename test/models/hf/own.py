"""Modules of plain torch.nn, in the way that people write them."""
import torch
import torch.nn.functional as F
from torch import nn


def turned(x):
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


class Block(nn.Module):
    """Fused queries, keys and values, rotary positions, SDPA, SwiGLU."""

    def __init__(self, width, heads, inner):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.gate, self.up, self.down = (nn.Linear(*sizes, bias=False) for sizes in ((width, inner), (width, inner), (inner, width)))

    def forward(self, x, cos, sin):
        b, t, width = x.shape
        q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in self.qkv(self.norm1(x)).chunk(3, dim=-1))
        q, k = q * cos + turned(q) * sin, k * cos + turned(k) * sin
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, width))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Own(nn.Module):
    def __init__(self, vocabulary, width=32, heads=4, inner=64, layers=2, positions=64):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(width, heads, inner) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, vocabulary, bias=False)
        nn.init.normal_(self.embed.weight, std=0.1)  # also the head's weights, so that the first loss is near ln(vocabulary)
        self.head.weight = self.embed.weight
        size = width // heads
        angles = torch.outer(torch.arange(positions), 10000 ** (-torch.arange(0, size, 2) / size)).repeat(1, 2)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, x):
        t = x.shape[1]
        x = self.embed(x)
        for block in self.blocks:
            x = block(x, self.cos[:t], self.sin[:t])
        return self.head(self.norm(x))


class Encoder(nn.Module):
    """torch.nn.TransformerEncoder, causal, as in PyTorch's tutorials. The batch is the second dimension in its attention."""

    def __init__(self, vocabulary, width=32, heads=4, inner=64, layers=2, norm_first=False, positions=64):
        super().__init__()
        self.embed, self.positions = nn.Embedding(vocabulary, width, padding_idx=0), nn.Embedding(positions, width)
        layer = nn.TransformerEncoderLayer(width, heads, inner, dropout=0.0, batch_first=True, norm_first=norm_first)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, x):
        t = x.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(t)
        return self.head(self.layers(self.embed(x) + self.positions(torch.arange(t)), mask=mask, is_causal=True))


class Decoder(nn.Module):
    """torch.nn.TransformerDecoder: self-attention, and attention to a memory computed from the same tokens."""

    def __init__(self, vocabulary, width=32, heads=4, inner=64, layers=1):
        super().__init__()
        self.embed, self.memory = nn.Embedding(vocabulary, width), nn.Linear(width, width)
        layer = nn.TransformerDecoderLayer(width, heads, inner, dropout=0.0, batch_first=True)
        self.layers, self.head = nn.TransformerDecoder(layer, layers), nn.Linear(width, vocabulary)

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        x = self.embed(x)
        return self.head(self.layers(x, self.memory(x), tgt_mask=mask, tgt_is_causal=True))
