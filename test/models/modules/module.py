"""Transformer modules, written in many of the ways that people use. A dict of draw.CHOICES selects how each part is written."""
import math

import torch
from torch import nn
from torch.nn import functional as F

MOST = 32  # positions of a table


class LayerManual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gamma, self.beta = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        var = ((x - mean) ** 2).mean(-1, keepdim=True)
        return self.gamma * (x - mean) / torch.sqrt(var + 1e-5) + self.beta


class LayerPlain(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width

    def forward(self, x):
        return F.layer_norm(x, (self.width,))


class RMSManual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class RMSGemma(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        kept = x.dtype
        x = x if x.dtype == torch.float64 else x.float()
        return (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * (1.0 + self.weight)).to(kept)


class ScaleNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.g = nn.Parameter(torch.tensor(math.sqrt(width)))

    def forward(self, x):
        return F.normalize(x, dim=-1) * self.g


NORMS = {"layer": nn.LayerNorm, "layer_nobias": lambda width: nn.LayerNorm(width, bias=False), "layer_manual": LayerManual, "layer_plain": LayerPlain,
         "rms": lambda width: nn.RMSNorm(width, eps=1e-6), "rms_manual": RMSManual, "rms_gemma": RMSGemma, "scale": ScaleNorm}


class Mlp(nn.Module):
    """One hidden layer with an activation."""

    def __init__(self, c, width):
        super().__init__()
        self.kind = c["mlp"]
        self.up, self.down = nn.Linear(width, 3 * width, bias=c["mlp_bias"]), nn.Linear(3 * width, width, bias=c["mlp_bias"])

    def forward(self, x):
        x = self.up(x)
        if self.kind == "gelu":
            x = F.gelu(x)
        elif self.kind == "gelu_tanh":
            x = F.gelu(x, approximate="tanh")
        elif self.kind == "gelu_new":
            x = 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))
        elif self.kind == "quick_gelu":
            x = x * torch.sigmoid(1.702 * x)
        elif self.kind == "relu2":
            x = F.relu(x).square()
        elif self.kind == "mish":
            x = F.mish(x)
        else:
            x = F.relu(x)
        return self.down(x)


class Gated(nn.Module):
    def __init__(self, c, width):
        super().__init__()
        self.kind, hidden, bias = c["mlp"], 2 * width, c["mlp_bias"]
        if self.kind == "swiglu":
            self.gate_proj, self.up_proj = nn.Linear(width, hidden, bias=bias), nn.Linear(width, hidden, bias=bias)
        else:
            self.gate_up = nn.Linear(width, 2 * hidden, bias=bias)
        self.down_proj = nn.Linear(hidden, width, bias=bias)

    def forward(self, x):
        if self.kind == "swiglu":
            return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        x = self.gate_up(x)
        if self.kind == "glu":
            return self.down_proj(F.glu(x, dim=-1))
        if self.kind == "swiglu_chunk":
            gate, up = x.chunk(2, dim=-1)
            return self.down_proj(F.silu(gate) * up)
        up, gate = torch.split(x, x.shape[-1] // 2, dim=-1)
        return self.down_proj(F.gelu(gate) * up)


class Experts(nn.Module):
    """Every expert computes every token, weighted by a softmax."""

    def __init__(self, c, width):
        super().__init__()
        self.router = nn.Linear(width, 3, bias=False)
        self.w1 = nn.Parameter(torch.randn(3, width, 2 * width) / width**0.5)
        self.w2 = nn.Parameter(torch.randn(3, 2 * width, width) / (2 * width)**0.5)

    def forward(self, x):
        weights = self.router(x).softmax(-1)
        y = torch.einsum("btef,efd->bted", F.gelu(torch.einsum("btd,edf->btef", x, self.w1)), self.w2)
        return torch.einsum("bte,bted->btd", weights, y)


def make_mlp(c, width):
    if c["mlp"] == "experts":
        return Experts(c, width)
    return (Gated if c["mlp"] in ("swiglu", "swiglu_chunk", "geglu_split", "glu") else Mlp)(c, width)


class Shift(nn.Module):
    """Mixes each position with the one before it."""

    def __init__(self, c, width):
        super().__init__()
        self.kind, self.how = c["shift"], c["shift_mix"]
        if self.how != "half_channels":
            self.mu = nn.Parameter(torch.linspace(0, 1, width))

    def previous(self, x):
        if self.kind == "pad":
            return F.pad(x, (0, 0, 1, -1))
        if self.kind == "concat":
            return torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], dim=1)
        if self.kind == "slice":
            return F.pad(x[:, :-1], (0, 0, 1, 0))
        y = torch.roll(x, 1, dims=1)
        if self.kind == "roll_zero":
            y = y * (torch.arange(x.shape[1]) > 0).to(x.dtype)[None, :, None]
        return y

    def forward(self, x):
        before = self.previous(x)
        if self.how == "mu":
            return x + (before - x) * self.mu
        if self.how == "one_minus":
            return x * self.mu + before * (1 - self.mu)
        if self.how == "sigmoid":
            return torch.lerp(x, before, torch.sigmoid(self.mu))
        half = x.shape[-1] // 2
        return torch.cat([before[..., :half], x[..., half:]], dim=-1)


def rotate_half(x):
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


class Rope(nn.Module):
    def __init__(self, kind, head):
        super().__init__()
        self.kind, self.size = kind, head // 2 if kind == "partial" else head
        inverse = 1.0 / (10000 ** (torch.arange(0, self.size, 2).float() / self.size))
        self.register_buffer("inv_freq", inverse, persistent=False)
        angles = torch.outer(torch.arange(MOST).float(), inverse)
        if kind != "in_forward":
            self.register_buffer("cos", angles.cos(), persistent=False)
            self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, x):  # [batch, heads, sequence, head]
        length = x.shape[2]
        if self.kind == "in_forward":
            angles = torch.arange(length, device=x.device).to(self.inv_freq.dtype)[:, None] * self.inv_freq[None, :]
            angles = torch.cat((angles, angles), dim=-1)
            return x * angles.cos() + rotate_half(x) * angles.sin()
        cos, sin = self.cos[:length], self.sin[:length]
        if self.kind == "half":
            return x * torch.cat((cos, cos), -1) + rotate_half(x) * torch.cat((sin, sin), -1)
        if self.kind == "partial":
            turned, rest = x[..., :self.size], x[..., self.size:]
            turned = turned * torch.cat((cos, cos), -1) + rotate_half(turned) * torch.cat((sin, sin), -1)
            return torch.cat((turned, rest), dim=-1)
        if self.kind == "interleaved":
            even, odd = x[..., 0::2], x[..., 1::2]
            return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2)
        pairs = x.reshape(*x.shape[:-1], -1, 2)
        if self.kind == "interleaved_stack":
            even, odd = pairs.unbind(-1)
            turned = torch.stack((-odd, even), dim=-1).reshape(x.shape)
            return x * cos.repeat_interleave(2, dim=-1) + turned * sin.repeat_interleave(2, dim=-1)
        turns = torch.stack((torch.stack((cos, -sin), -1), torch.stack((sin, cos), -1)), -2)  # [sequence, pairs, 2, 2]
        return (turns[None, None] * pairs[..., None, :]).sum(-1).reshape(x.shape)


def slopes(heads):
    return torch.tensor([2.0 ** (-8.0 * (i + 1) / heads) for i in range(heads)])


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c, self.heads, self.head = c, c["heads"], c["head"]
        groups = self.heads if c["groups"] == "all" else c["groups"]
        self.kv, width = self.heads // groups, self.heads * self.head
        bias, rest = c["qkv_bias"], self.kv * self.head
        if c["qkv"] == "separate":
            self.q_proj, self.k_proj, self.v_proj = nn.Linear(width, width, bias=bias), nn.Linear(width, rest, bias=bias), nn.Linear(width, rest, bias=bias)
        elif c["qkv"] == "einsum":
            self.wq = nn.Parameter(torch.randn(width, self.heads, self.head) / width**0.5)
            self.wk, self.wv = (nn.Parameter(torch.randn(width, self.kv, self.head) / width**0.5) for _ in range(2))
        else:
            self.qkv = nn.Linear(width, width + 2 * rest, bias=bias)
        self.proj = nn.Linear(width, width, bias=bias)
        if c["qk_norm"] in ("rms", "layer"):
            norm = RMSManual if c["qk_norm"] == "rms" else nn.LayerNorm
            self.q_norm, self.k_norm = norm(self.head), norm(self.head)
        elif c["qk_norm"] == "l2":
            self.tau = nn.Parameter(torch.full((self.heads, 1, 1), 4.0))
        if c["rope"] != "none":
            self.rotary = Rope(c["rope"], self.head)
        if c["gate"] != "none":
            self.gate = nn.Linear(width, width if c["gate"] == "sigmoid" else self.heads)
        if c["scores"] == "sink":
            self.sink = nn.Parameter(torch.zeros(self.heads))
        if c["mask"] == "relative":
            self.bias_table = nn.Parameter(torch.randn(self.heads, 2 * MOST - 1) * 0.1)
        if c["mask"].startswith("alibi"):
            self.register_buffer("slopes", slopes(self.heads), persistent=False)
        if c["mask_from"] == "buffer":
            self.register_buffer("allowed", torch.tril(torch.ones(MOST, MOST)).bool().view(1, 1, MOST, MOST))
        self.dropout = nn.Dropout(0.0)

    def project(self, x):
        """Queries [batch, heads, sequence, head]; keys and values of `kv` heads."""
        b, t, width = x.shape
        form, h, k, d = self.c["qkv"], self.heads, self.kv, self.head
        if form == "separate":
            return (self.q_proj(x).view(b, t, h, d).transpose(1, 2), self.k_proj(x).view(b, t, k, d).transpose(1, 2),
                    self.v_proj(x).view(b, t, k, d).transpose(1, 2))
        if form == "einsum":
            return tuple(torch.einsum("btd,dhk->bhtk", x, w) for w in (self.wq, self.wk, self.wv))
        qkv = self.qkv(x)
        if form == "view_permute":
            q, key, v = qkv.reshape(b, t, 3, h, d).permute(2, 0, 3, 1, 4)
            return q, key, v
        if form == "view_unbind":
            q, key, v = qkv.view(b, t, 3, h, d).unbind(2)
        elif form == "heads_first":
            qkv = qkv.view(b, t, h, 3, d)
            q, key, v = qkv[..., 0, :], qkv[..., 1, :], qkv[:, :, :, 2]
        elif form == "neox":
            q, key, v = qkv.view(b, t, h, 3 * d).chunk(3, dim=-1)
        else:
            if form == "chunk" and k == h:
                q, key, v = qkv.chunk(3, dim=-1)
            else:
                q, key, v = qkv.split([width, k * d, k * d], dim=-1)
            q, key, v = q.view(b, t, h, d), key.view(b, t, k, d), v.view(b, t, k, d)
        return q.transpose(1, 2), key.transpose(1, 2), v.transpose(1, 2)

    def repeat(self, x):
        n, form = self.heads // self.kv, self.c["repeat"]
        if n == 1 or form in ("enable_gqa", "five_dims"):
            return x
        b, k, t, d = x.shape
        if form == "repeat_interleave":
            return x.repeat_interleave(n, dim=1)
        if form == "expand":
            return x[:, :, None].expand(b, k, n, t, d).reshape(b, k * n, t, d)
        return torch.stack([x] * n, dim=2).flatten(1, 2)

    def allow(self, x, tokens):
        """The keys that a query may read: boolean, [.., sequence, sequence]; None: all."""
        t, kind = x.shape[1], self.c["mask"]
        if kind == "none":
            return None
        at = torch.arange(t, device=x.device)
        if self.c["mask_from"] == "buffer":
            allowed = self.allowed[:, :, :t, :t]
        elif self.c["mask_from"] == "tril":
            allowed = torch.ones(t, t, dtype=torch.bool, device=x.device).tril()
        else:
            allowed = at[:, None] >= at[None, :]
        if "window" in kind:
            allowed = allowed & (at[:, None] - at[None, :] < 5)
        if kind == "padding":
            allowed = allowed & (tokens != 0)[:, None, None, :]
        return allowed

    def bias(self, x):
        """The term added to the scores; None: nothing."""
        t, kind = x.shape[1], self.c["mask"]
        at = torch.arange(t, device=x.device)
        if kind.startswith("alibi"):
            return self.slopes.view(-1, 1, 1) * (at[None, :] - at[:, None]).to(x.dtype)
        if kind == "relative":
            return self.bias_table[:, at[:, None] - at[None, :] + MOST - 1]
        return None

    def additive(self, x, allowed):
        low = -math.inf if self.c["masked_by"].endswith("inf") else torch.finfo(x.dtype).min
        return torch.zeros(allowed.shape, dtype=x.dtype, device=x.device).masked_fill(~allowed, low)

    def hide(self, scores, allowed):
        how = self.c["masked_by"]
        if how == "masked_fill_inf":
            return scores.masked_fill(~allowed, float("-inf"))
        if how == "masked_fill_min":
            return scores.masked_fill(allowed == 0, torch.finfo(scores.dtype).min)
        if how == "where":
            return torch.where(allowed, scores, torch.tensor(-1e4, dtype=scores.dtype))
        return scores + self.additive(scores, allowed)

    def sdpa(self, x, q, k, v, tokens):
        gqa = {"enable_gqa": True} if self.c["repeat"] == "enable_gqa" and self.kv != self.heads else {}
        if self.c["mask"] == "causal":
            return F.scaled_dot_product_attention(q, k, v, is_causal=True, **gqa)
        allowed, bias = self.allow(x, tokens), self.bias(x)
        if bias is not None:
            mask = bias + self.additive(x, allowed)
        else:
            mask = self.additive(x, allowed) if self.c["mask"] == "additive" else allowed
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, **gqa)

    def manual(self, x, q, k, v, tokens):
        b, h, t, d = q.shape
        five = self.c["repeat"] == "five_dims" and self.kv != self.heads
        if self.c["scores"] == "scaled_q":
            q, scale = q * d**-0.5, 1.0
        else:
            scale = 1.0 / math.sqrt(d)
        if five:
            scores = (q.reshape(b, self.kv, h // self.kv, t, d) @ k.unsqueeze(2).transpose(-2, -1)).view(b, h, t, t) * scale
        elif self.c["kernel"] == "manual_einsum":
            scores = torch.einsum("bhqd,bhkd->bhqk", q, k) * scale
        else:
            scores = q @ k.transpose(-2, -1) * scale if scale != 1.0 else torch.matmul(q, k.transpose(2, 3))
        if self.c["scores"] == "softcap":
            scores = 5.0 * torch.tanh(scores / 5.0)
        bias, allowed = self.bias(x), self.allow(x, tokens)
        if bias is not None:
            scores = scores + bias
        if allowed is not None:
            scores = self.hide(scores, allowed)
        if self.c["scores"] == "sink":
            sink = self.sink.view(1, -1, 1, 1).expand(b, -1, t, 1)
            weights = torch.softmax(torch.cat([scores, sink], dim=-1), dim=-1)[..., :-1]
        elif self.c["scores"] == "float" and x.dtype == torch.float32:
            weights = F.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype)
        else:
            weights = scores.softmax(-1)
        weights = self.dropout(weights)
        if five:
            return (weights.view(b, self.kv, h // self.kv, t, t) @ v.unsqueeze(2)).view(b, h, t, d)
        if self.c["kernel"] == "manual_einsum":
            return torch.einsum("bhqk,bhkd->bhqd", weights, v)
        return weights @ v

    def forward(self, x, tokens):
        b, t, width = x.shape
        q, k, v = self.project(x)
        if self.c["qk_norm"] in ("rms", "layer"):
            q, k = self.q_norm(q), self.k_norm(k)
        elif self.c["qk_norm"] == "l2":
            q, k = F.normalize(q, dim=-1) * self.tau, F.normalize(k, dim=-1)
        if self.c["rope"] != "none":
            q, k = self.rotary(q), self.rotary(k)
        k, v = self.repeat(k), self.repeat(v)
        y = (self.sdpa if self.c["kernel"] == "sdpa" else self.manual)(x, q, k, v, tokens)
        if self.c["gate"] == "headwise":
            y = y * torch.sigmoid(self.gate(x)).transpose(1, 2)[..., None]
        y = y.transpose(1, 2).contiguous().view(b, t, width)
        if self.c["gate"] == "sigmoid":
            y = y * torch.sigmoid(self.gate(x))
        return self.proj(y)


class LinearAttention(nn.Module):
    """Causal attention without softmax: running sums of keys and values."""

    def __init__(self, c):
        super().__init__()
        width = c["heads"] * c["head"]
        self.mean, self.heads = c["mixer"] == "mean_cumsum", c["heads"]
        self.value, self.proj = nn.Linear(width, width), nn.Linear(width, width)
        if not self.mean:
            self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x, tokens):
        b, t, width = x.shape
        v = self.value(x)
        if self.mean:
            return self.proj(torch.cumsum(v, dim=1) / torch.arange(1, t + 1, dtype=x.dtype, device=x.device)[None, :, None])
        q, k = F.elu(self.query(x)) + 1, F.elu(self.key(x)) + 1
        q, k, v = (y.view(b, t, self.heads, -1) for y in (q, k, v))
        sums = torch.cumsum(k.unsqueeze(-1) * v.unsqueeze(-2), dim=1)
        y = torch.einsum("bthd,bthde->bthe", q, sums) / ((q * k.cumsum(1)).sum(-1, keepdim=True) + 1e-6)
        return self.proj(y.reshape(b, t, width))


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        width = c["heads"] * c["head"]
        self.how, norm = c["residual"], NORMS[c["norm"]]
        self.ln_1, self.mlp = norm(width), make_mlp(c, width)
        self.attn = Attention(c) if c["mixer"] == "attention" else LinearAttention(c)
        self.shift = Shift(c, width) if c["shift"] != "none" else None
        self.drop = nn.Dropout(0.0) if c["dropout"] else nn.Identity()
        if self.how != "parallel":
            self.ln_2 = norm(width)
        if self.how == "sandwich":
            self.ln_3, self.ln_4 = norm(width), norm(width)
        if self.how == "layerscale":
            self.gamma_1, self.gamma_2 = nn.Parameter(torch.full((width,), 0.1)), nn.Parameter(torch.full((width,), 0.1))
        if self.how == "scalar":
            self.alpha = nn.Parameter(torch.zeros(1))
        if self.how == "mix":
            self.lambdas = nn.Parameter(torch.tensor([1.0, 0.5]))
        self.depth = (2 * c["layers"]) ** -0.5

    def attend(self, x, tokens):
        if self.shift is not None:
            x = self.shift(x)
        return self.drop(self.attn(x, tokens))

    def forward(self, x, tokens, first=None):
        if self.how == "post":
            x = self.ln_1(x + self.attend(x, tokens))
            return self.ln_2(x + self.mlp(x))
        if self.how == "parallel":
            y = self.ln_1(x)
            return x + self.attend(y, tokens) + self.mlp(y)
        if self.how == "parallel_two":
            return x + self.attend(self.ln_1(x), tokens) + self.mlp(self.ln_2(x))
        if self.how == "sandwich":
            x = x + self.ln_3(self.attend(self.ln_1(x), tokens))
            return x + self.ln_4(self.mlp(self.ln_2(x)))
        if self.how == "mix":
            x = self.lambdas[0] * x + self.lambdas[1] * first
        one = {"layerscale": lambda y: self.gamma_1 * y, "scalar": lambda y: self.alpha * y, "depth": lambda y: y * self.depth}.get(self.how, lambda y: y)
        two = (lambda y: self.gamma_2 * y) if self.how == "layerscale" else one
        x = x + one(self.attend(self.ln_1(x), tokens))
        return x + two(self.drop(self.mlp(self.ln_2(x))))


class Wrapped(nn.Module):
    """A block of a Sequential, which passes one value."""

    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, state):
        x, tokens, first = state
        return self.block(x, tokens, first), tokens, first


class Model(nn.Module):
    """Computes logits from tokens, and the loss if labels are given."""

    def __init__(self, c):
        super().__init__()
        self.c, width, vocabulary = c, c["heads"] * c["head"], c["vocabulary"]
        self.wte = nn.Embedding(vocabulary, 8 if c["embedding"] == "factored" else width)
        if c["embedding"] == "factored":
            self.wider = nn.Linear(8, width, bias=False)
        elif c["embedding"] == "normed":
            self.ln_e = NORMS[c["norm"]](width)
        if c["positions"] in ("arange", "arange_expand", "position_ids", "cumsum"):
            self.wpe = nn.Embedding(MOST, width)
        elif c["positions"] == "parameter":
            self.pos = nn.Parameter(torch.randn(1, MOST, width) * 0.02)
        elif c["positions"] == "parameter_whole":
            self.pos = nn.Parameter(torch.randn(c["sequence"], width) * 0.02)
        elif c["positions"] == "sinusoid":
            angles = torch.outer(torch.arange(MOST).float(), 10000 ** (-torch.arange(0, width, 2).float() / width))
            self.register_buffer("table", torch.stack((angles.sin(), angles.cos()), -1).flatten(1))
        if c["positions"] == "position_ids":
            self.register_buffer("position_ids", torch.arange(MOST)[None], persistent=False)
        blocks = [Block(c) for _ in range(1 if c["container"] == "shared" else c["layers"])]
        if c["container"] == "sequential":
            self.blocks = nn.Sequential(*(Wrapped(block) for block in blocks))
        elif c["container"] == "dict":
            self.transformer = nn.ModuleDict({"h": nn.ModuleList(blocks)})
        elif c["container"] == "shared":
            self.block = blocks[0]
        else:
            self.layers = nn.ModuleList(blocks)
        if c["final_norm"]:
            self.ln_f = NORMS[c["norm"]](width)
        if c["head_form"] in ("untied", "untied_bias", "tied"):
            self.lm_head = nn.Linear(width, vocabulary, bias=c["head_form"] == "untied_bias")
        if c["logits"] == "scaled":
            self.logit_scale = nn.Parameter(torch.tensor(0.5))
        if c["init"] == "gpt2":
            self.apply(self.initialize)
        if c["head_form"] == "tied":
            self.lm_head.weight = self.wte.weight

    @staticmethod
    def initialize(module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02 if isinstance(module, nn.Embedding) else 0.08)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def embed(self, tokens):
        c, (b, t) = self.c, tokens.shape
        x = self.wte(tokens)
        if c["embedding"] == "factored":
            x = self.wider(x)
        elif c["embedding"] == "scaled":
            x = x * (x.shape[-1] ** 0.5)
        kind = c["positions"]
        if kind == "arange":
            x = x + self.wpe(torch.arange(t, device=tokens.device))
        elif kind == "arange_expand":
            x = x + self.wpe(torch.arange(t, device=tokens.device).unsqueeze(0).expand(b, t))
        elif kind == "position_ids":
            x = x + self.wpe(self.position_ids[:, :t])
        elif kind == "cumsum":
            x = x + self.wpe(torch.cumsum((tokens != 0).long(), dim=1))
        elif kind == "parameter":
            x = x + self.pos[:, :t]
        elif kind == "parameter_whole":
            x = x + self.pos
        elif kind == "sinusoid":
            x = x + self.table[:t]
        if c["embedding"] == "normed":
            x = self.ln_e(x)
        if c["where"] == "tokens":
            x = torch.where((tokens < 5)[..., None], x * 0.5, x)
        elif c["where"] == "relu":
            x = torch.where(x > 0, x, 0.3 * x)
        elif c["where"] == "clamp":
            x = x.clamp(-1.5, 1.5)
        return x

    def head(self, x):
        form, c = self.c["head_form"], self.c
        if form == "tied_functional":
            x = F.linear(x, self.wte.weight)
        elif form == "tied_transposed":
            x = x @ self.wte.weight.T
        elif form == "tied_einsum":
            x = torch.einsum("btd,vd->btv", x, self.wte.weight)
        else:
            x = self.lm_head(x)
        if c["logits"] == "softcap":
            return torch.tanh(x / 3.0) * 3.0
        if c["logits"] == "scaled":
            return x * self.logit_scale.exp()
        return x / 0.8 if c["logits"] == "temperature" else x

    def forward(self, tokens, labels=None):
        x = first = self.embed(tokens)
        if self.c["container"] == "sequential":
            x, _, _ = self.blocks((x, tokens, first))
        else:
            blocks = {"dict": lambda: self.transformer.h, "shared": lambda: [self.block] * self.c["layers"]}.get(self.c["container"], lambda: self.layers)()
            for block in blocks:
                x = block(x, tokens, first)
        if self.c["final_norm"]:
            x = self.ln_f(x)
        logits = self.head(x)
        return logits if labels is None else loss_of(self.c, logits, labels, tokens)


def loss_of(c, logits, labels, tokens):
    kind, vocabulary = c["loss"], logits.shape[-1]
    if kind == "shifted":
        return F.cross_entropy(logits[:, :-1].reshape(-1, vocabulary), labels[:, 1:].reshape(-1))
    if kind == "shifted_contiguous":
        logits, labels = logits[..., :-1, :].contiguous(), labels[..., 1:].contiguous()
        return F.cross_entropy(logits.view(-1, vocabulary), labels.view(-1))
    if kind == "transposed":
        return F.cross_entropy(logits.transpose(1, 2), labels)
    if kind == "gather":
        return -torch.gather(torch.log_softmax(logits, dim=-1), 2, labels.unsqueeze(-1)).squeeze(-1).mean()
    if kind == "one_hot":
        return -(F.one_hot(labels, vocabulary) * F.log_softmax(logits, dim=-1)).sum(-1).mean()
    if kind == "log_softmax_nll":
        return F.nll_loss(F.log_softmax(logits, dim=-1).view(-1, vocabulary), labels.view(-1))
    if kind in ("row_mean", "masked_mean", "weighted"):
        each = torch.logsumexp(logits, dim=-1) - logits.gather(-1, labels.clamp(min=0)[..., None])[..., 0]
        kept = (labels != -100).to(logits.dtype)
    if kind == "row_mean":
        return ((each * kept).sum(1) / kept.sum(1).clamp(min=1.0)).mean()
    if kind == "masked_mean":
        return (each * kept).sum() / kept.sum()
    if kind == "weighted":
        weights = torch.where(tokens < 10, 2.0, 1.0).to(logits.dtype)
        return (each * kept * weights).sum() / (kept * weights).sum()
    flat, targets = logits.reshape(-1, vocabulary), labels.reshape(-1)
    if kind == "sum_over_count":
        return F.cross_entropy(flat, targets, reduction="sum") / (targets != -100).sum()
    if kind == "ignore_pad":
        return F.cross_entropy(flat, targets, ignore_index=0)
    if kind == "smoothing":
        return F.cross_entropy(flat, targets, label_smoothing=0.1)
    if kind == "smoothing_manual":
        logs = F.log_softmax(flat, dim=-1)
        return 0.9 * F.nll_loss(logs, targets) - 0.1 * logs.mean()
    if kind == "z_loss":
        return F.cross_entropy(flat, targets) + 1e-2 * torch.logsumexp(flat, dim=-1).square().mean()
    return F.cross_entropy(flat, targets)
