"""Layers as people write them today. Each constructor takes the random generator `r` that chooses among the variants, and a width;
`r.linear` is the kind of linear layer that the model is made of, `r.merged` whether adapters are added to the weight, `r.norm` the kind of
its norms."""
import math

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations


class LoRALinear(nn.Module):
    """A frozen base with a low-rank product of adapters."""

    def __init__(self, r, size_in, size_out, rank=4):
        super().__init__()
        self.base = nn.Linear(size_in, size_out)
        self.base.requires_grad_(False)
        self.lora_A = nn.Parameter(torch.randn(rank, size_in) / size_in**0.5)
        self.lora_B = nn.Parameter(torch.randn(size_out, rank) * 0.1 if r.random() < 0.5 else torch.zeros(size_out, rank))
        self.scaling, self.merged = 8 / rank, r.merged

    def forward(self, x):
        if self.merged:
            return F.linear(x, self.base.weight + self.scaling * (self.lora_B @ self.lora_A), self.base.bias)
        return self.base(x) + (x @ self.lora_A.T @ self.lora_B.T) * self.scaling


class DoRALinear(nn.Module):
    def __init__(self, r, size_in, size_out, rank=4):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(size_out, size_in) / size_in**0.5, requires_grad=False)
        self.lora_A = nn.Parameter(torch.randn(rank, size_in) / size_in**0.5)
        self.lora_B = nn.Parameter(torch.randn(size_out, rank) * 0.05)
        self.m = nn.Parameter(self.weight.norm(dim=1, keepdim=True))

    def forward(self, x):
        adapted = self.weight + self.lora_B @ self.lora_A
        direction = adapted / adapted.norm(dim=1, keepdim=True)
        return F.linear(x, self.m * direction)


class MaskedLinear(nn.Linear):
    def __init__(self, size_in, size_out):
        super().__init__(size_in, size_out)
        self.register_buffer("mask", (torch.rand(size_out, size_in) < 0.7).float())

    def forward(self, x):
        return F.linear(x, self.weight * self.mask, self.bias)


class StandardizedLinear(nn.Linear):
    """Weights of mean 0 and deviation 1 per row, with a gain."""

    def __init__(self, size_in, size_out):
        super().__init__(size_in, size_out)
        self.gain = nn.Parameter(torch.ones(size_out, 1))

    def forward(self, x):
        mean = self.weight.mean(dim=1, keepdim=True)
        var = self.weight.var(dim=1, keepdim=True)
        scale = torch.rsqrt(torch.clamp(var * self.weight.shape[1], min=1e-4)) * self.gain
        return F.linear(x, (self.weight - mean) * scale, self.bias)


class BitLinear(nn.Linear):
    """Ternary weights with a straight-through estimator."""

    def forward(self, x):
        w = self.weight
        scale = w.abs().mean().clamp(min=1e-5)
        quantized = (w / scale).round().clamp(-1, 1) * scale
        return F.linear(x, w + (quantized - w).detach(), self.bias)


LINEAR = ["plain"] * 12 + ["nobias"] * 10 + ["lora"] * 3 + ["weight_norm", "dora", "masked", "standardized", "bit"]


def linear(r, size_in, size_out):
    if r.linear == "weight_norm":
        return parametrizations.weight_norm(nn.Linear(size_in, size_out))
    if r.linear in ("lora", "dora"):
        return (LoRALinear if r.linear == "lora" else DoRALinear)(r, size_in, size_out)
    if r.linear in ("masked", "standardized", "bit"):
        return {"masked": MaskedLinear, "standardized": StandardizedLinear, "bit": BitLinear}[r.linear](size_in, size_out)
    return nn.Linear(size_in, size_out, bias=r.linear == "plain")


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * self.scale


class DynamicTanh(nn.Module):
    """A norm without statistics (DyT)."""

    def __init__(self, width):
        super().__init__()
        self.alpha = nn.Parameter(torch.full((1,), 0.5))
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x):
        return torch.tanh(self.alpha * x) * self.weight + self.bias


NORMS = {"layer": nn.LayerNorm, "rms": RMSNorm, "torch_rms": nn.RMSNorm, "dyt": DynamicTanh}


def norm(r, width):
    return NORMS[r.norm](width)


class Attention(nn.Module):
    def __init__(self, r, width, causal):
        super().__init__()
        self.heads, self.head, self.causal = 4, width // 4, causal
        self.qkv, self.out = linear(r, width, 3 * width), linear(r, width, width)
        self.fused, self.qk_norm = r.random() < 0.5, r.random() < 0.3
        if self.qk_norm:
            self.scale = nn.Parameter(torch.tensor(math.log(10.0)))

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, self.head).permute(2, 0, 3, 1, 4)
        if self.qk_norm:
            q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
            q = q * self.scale.clamp(max=math.log(100.0)).exp() * self.head**0.5
        if self.fused:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        else:
            scores = q @ k.transpose(-2, -1) / self.head**0.5
            if self.causal:
                scores = scores.masked_fill(torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1), float("-inf"))
            y = scores.softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(b, t, c))


class DifferentialAttention(nn.Module):
    def __init__(self, r, width, causal):
        super().__init__()
        self.heads, self.head, self.lambda_init = 2, width // 4, 0.8 - 0.6 * math.exp(-0.3)
        self.q, self.k, self.v, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.lambda_q1, self.lambda_k1, self.lambda_q2, self.lambda_k2 = (nn.Parameter(torch.randn(self.head) * 0.1) for _ in range(4))
        self.norm, self.one_line = nn.LayerNorm(2 * self.head), r.random() < 0.5

    def forward(self, x):
        b, t, c = x.shape
        q = self.q(x).view(b, t, 2 * self.heads, self.head).transpose(1, 2)
        k = self.k(x).view(b, t, 2 * self.heads, self.head).transpose(1, 2)
        v = self.v(x).view(b, t, self.heads, 2 * self.head).transpose(1, 2)
        scores = q @ k.transpose(-1, -2) * self.head**-0.5
        scores = scores + torch.full((t, t), float("-inf"), device=x.device).triu(1)
        weights = scores.softmax(-1).view(b, self.heads, 2, t, t)
        if self.one_line:
            y = (weights[:, :, 0] - (torch.exp((self.lambda_q1 * self.lambda_k1).sum()) - torch.exp((self.lambda_q2 * self.lambda_k2).sum()) + self.lambda_init) * weights[:, :, 1]) @ v
        else:
            lambda_1 = torch.exp(torch.sum(self.lambda_q1 * self.lambda_k1, dim=-1))
            lambda_2 = torch.exp(torch.sum(self.lambda_q2 * self.lambda_k2, dim=-1))
            lambda_full = lambda_1 - lambda_2 + self.lambda_init
            y = (weights[:, :, 0] - lambda_full * weights[:, :, 1]) @ v
        y = self.norm(y) * (1 - self.lambda_init)
        return self.out(y.transpose(1, 2).reshape(b, t, c))


class LatentAttention(nn.Module):
    """Keys and values from a low-rank latent, with rotary parts of their own (MLA)."""

    def __init__(self, r, width, causal):
        super().__init__()
        self.heads, self.nope, self.rope = 4, width // 4, 8
        self.wq = linear(r, width, self.heads * (self.nope + self.rope))
        self.wkv_a, self.kv_norm = nn.Linear(width, 16 + self.rope, bias=False), RMSNorm(16)
        self.wkv_b, self.wo = nn.Linear(16, self.heads * 2 * self.nope, bias=False), nn.Linear(self.heads * self.nope, width, bias=False)
        angles = torch.outer(torch.arange(32).float(), 10000 ** (-torch.arange(0, self.rope, 2).float() / self.rope))
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def rotate(self, x):
        cos, sin = self.cos[:x.shape[-2]], self.sin[:x.shape[-2]]
        first, second = x.chunk(2, dim=-1)
        return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)

    def forward(self, x):
        b, t, _ = x.shape
        q = self.wq(x).view(b, t, self.heads, -1).transpose(1, 2)
        q_nope, q_rope = q.split([self.nope, self.rope], dim=-1)
        latent, k_rope = self.wkv_a(x).split([16, self.rope], dim=-1)
        kv = self.wkv_b(self.kv_norm(latent)).view(b, t, self.heads, 2 * self.nope).transpose(1, 2)
        k_nope, v = kv.chunk(2, dim=-1)
        k_rope = self.rotate(k_rope.unsqueeze(1)).expand(-1, self.heads, -1, -1)
        q, k = torch.cat([q_nope, self.rotate(q_rope)], -1), torch.cat([k_nope, k_rope], -1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(y.transpose(1, 2).reshape(b, t, -1))


class LinearAttention(nn.Module):
    """Causal attention without a softmax: of positive features, with a fixed decay (RetNet), with decays from the input (GLA), or with
    learned ones."""

    def __init__(self, r, width, causal):
        super().__init__()
        self.heads, self.head, self.kind = 4, width // 4, r.choice(["elu", "elu", "retention", "retention", "gates", "gates", "decay"])
        self.q, self.k, self.v, self.out = linear(r, width, width), nn.Linear(width, width), nn.Linear(width, width), linear(r, width, width)
        if self.kind == "retention":
            self.register_buffer("rate", torch.log(1 - 2.0 ** (-5 - torch.arange(self.heads))))
        elif self.kind == "gates":
            self.gate = nn.Linear(width, self.heads)
        else:
            self.decay = nn.Parameter(torch.linspace(1.0, 4.0, self.heads))

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (f(x).view(b, t, self.heads, self.head).transpose(1, 2) for f in (self.q, self.k, self.v))
        at = torch.arange(t, device=x.device)
        before = at[:, None] >= at[None, :]
        if self.kind == "elu":
            q, k = F.elu(q) + 1, F.elu(k) + 1
            weights = (q @ k.transpose(-1, -2)).tril()
            y = weights @ v / (weights.sum(-1, keepdim=True) + 1e-6)
            y = y * torch.sigmoid(self.decay).view(1, -1, 1, 1)
            return self.out(y.transpose(1, 2).reshape(b, t, c))
        if self.kind == "gates":
            total = F.logsigmoid(self.gate(x)).cumsum(1).transpose(1, 2)
            mask = torch.exp((total[..., :, None] - total[..., None, :]).masked_fill(~before, float("-inf")))
        else:
            rate = self.rate if self.kind == "retention" else F.logsigmoid(self.decay)
            distance = (at[:, None] - at[None, :]).clamp(min=0)
            mask = torch.exp(rate[:, None, None] * distance) * before
        y = (q @ k.transpose(-1, -2) * self.head**-0.5 * mask) @ v
        return self.out(y.transpose(1, 2).reshape(b, t, c))


class SelectiveScan(nn.Module):
    """A state-space mixer: a convolution, and a recurrence over the sequence (Mamba), unrolled."""

    def __init__(self, r, width, causal):
        super().__init__()
        inner, self.state = width, 4
        self.in_proj, self.conv = nn.Linear(width, 2 * inner, bias=False), nn.Conv1d(inner, inner, 3, padding=2, groups=inner)
        self.x_proj, self.dt_proj = nn.Linear(inner, 4 + 2 * self.state, bias=False), nn.Linear(4, inner)
        self.A_log = nn.Parameter(torch.log(torch.arange(1, self.state + 1).float()).repeat(inner, 1))
        self.D, self.out_proj = nn.Parameter(torch.ones(inner)), nn.Linear(inner, width, bias=False)

    def forward(self, x):
        t = x.shape[1]
        x, z = self.in_proj(x).chunk(2, dim=-1)
        x = F.silu(self.conv(x.transpose(1, 2))[..., :t].transpose(1, 2))
        dt, B, C = self.x_proj(x).split([4, self.state, self.state], dim=-1)
        dt = F.softplus(self.dt_proj(dt))
        A = -torch.exp(self.A_log.float())
        state, outputs = torch.zeros_like(x[:, 0, :, None] * A), []
        for i in range(t):
            state = torch.exp(dt[:, i, :, None] * A) * state + (dt[:, i] * x[:, i])[..., None] * B[:, i, None, :]
            outputs.append((state * C[:, i, None, :]).sum(-1))
        y = torch.stack(outputs, dim=1) + x * self.D
        return self.out_proj(y * F.silu(z))


class TokenShift(nn.Module):
    """Mixes each position with the one before, by learned weights (RWKV)."""

    def __init__(self, r, width, causal):
        super().__init__()
        self.mix_k, self.mix_r = nn.Parameter(torch.linspace(0, 1, width)), nn.Parameter(torch.linspace(1, 0, width))
        self.key, self.receptance, self.value = linear(r, width, 2 * width), nn.Linear(width, width, bias=False), linear(r, 2 * width, width)

    def forward(self, x):
        before = F.pad(x, (0, 0, 1, -1))
        k = self.key(x * self.mix_k + before * (1 - self.mix_k))
        gate = self.receptance(x * self.mix_r + before * (1 - self.mix_r))
        return torch.sigmoid(gate) * self.value(torch.relu(k) ** 2)


def mixer(r, width, causal):
    kinds = [Attention] * 12 + [LinearAttention] * 4 + [TokenShift] * 2
    if causal:
        kinds += [LatentAttention] * 4 + [SelectiveScan] * 3 + [DifferentialAttention]
    return r.choice(kinds)(r, width, causal)


class MLP(nn.Module):
    def __init__(self, r, width):
        super().__init__()
        self.kind = r.choice(["gelu", "swiglu", "relu2", "gated"])
        self.up, self.down = linear(r, width, 2 * width * (2 if self.kind in ("swiglu", "gated") else 1)), linear(r, 2 * width, width)
        if self.kind == "gated":
            self.log_multiplier = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        h = self.up(x)
        if self.kind == "gelu":
            return self.down(F.gelu(h))
        if self.kind == "relu2":
            return self.down(F.relu(h).square())
        a, b = h.chunk(2, dim=-1)
        if self.kind == "gated":
            return self.down(a * torch.sigmoid(b)) * torch.exp(self.log_multiplier * 10)
        return self.down(F.silu(a) * b)


class Experts(nn.Module):
    """The best two of four experts per token; keeps the loss that balances them."""

    def __init__(self, r, width):
        super().__init__()
        self.router = nn.Linear(width, 4, bias=False)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width)) for _ in range(4))
        self.shared = MLP(r, width) if r.random() < 0.5 else None

    def forward(self, x):
        logits = self.router(x)
        weights, chosen = logits.softmax(-1).topk(2, dim=-1)
        weights = weights / weights.sum(-1, keepdim=True)
        y = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            gate = (weights * (chosen == i)).sum(-1, keepdim=True)
            y = y + gate * expert(x)
        used = F.one_hot(chosen, 4).float().sum(2).mean((0, 1))
        self.balance = (used * logits.softmax(-1).mean((0, 1))).sum() * 2
        return y if self.shared is None else y + self.shared(x)


class Block(nn.Module):
    def __init__(self, r, width, causal, experts=False):
        super().__init__()
        self.norm_1, self.norm_2 = norm(r, width), norm(r, width)
        self.mixer, self.mlp = mixer(r, width, causal), Experts(r, width) if experts else MLP(r, width)
        self.residual = r.choice(["plain", "plain", "rezero", "skip", "layer_scale", "post", "gates"])
        if self.residual == "rezero":
            self.alpha = nn.Parameter(torch.zeros(1))
        elif self.residual == "skip":
            self.resid_scale = nn.Parameter(torch.ones(1))
        elif self.residual == "layer_scale":
            self.gamma_1, self.gamma_2 = nn.Parameter(0.1 * torch.ones(width)), nn.Parameter(0.1 * torch.ones(width))
        elif self.residual == "gates":
            self.lambdas = nn.Parameter(torch.tensor([1.0, 0.0] if r.random() < 0.5 else [0.9, 0.2]))

    def forward(self, x, first):
        if self.residual == "rezero":
            x = x + self.alpha * self.mixer(self.norm_1(x))
            return x + self.alpha * self.mlp(self.norm_2(x))
        if self.residual == "skip":
            x = x * self.resid_scale + self.mixer(self.norm_1(x))
            return x + self.mlp(self.norm_2(x))
        if self.residual == "layer_scale":
            x = x + self.gamma_1 * self.mixer(self.norm_1(x))
            return x + self.gamma_2 * self.mlp(self.norm_2(x))
        if self.residual == "post":
            x = self.norm_1(x + self.mixer(x))
            return self.norm_2(x + self.mlp(x))
        if self.residual == "gates":
            x = self.lambdas[0] * x + self.lambdas[1] * first
        x = x + self.mixer(self.norm_1(x))
        return x + self.mlp(self.norm_2(x))


class Trunk(nn.Module):
    """Tokens [batch, sequence] to [batch, sequence, width]."""

    def __init__(self, r, vocabulary, width, causal, length, experts=False):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.positions = r.choice(["embedding", "parameter", "sinusoid", "none"])
        if self.positions == "embedding":
            self.position = nn.Embedding(length, width)
        elif self.positions == "parameter":
            self.pos = nn.Parameter(torch.randn(1, length, width) * 0.1)
        elif self.positions == "sinusoid":
            angles = torch.outer(torch.arange(length).float(), 10000 ** (-torch.arange(0, width, 2).float() / width))
            self.register_buffer("table", torch.stack((angles.sin(), angles.cos()), -1).flatten(1))
        self.blocks = nn.ModuleList(Block(r, width, causal, experts and i == 1) for i in range(2))
        self.norm = norm(r, width)
        for module in self.modules():
            if isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=0.3)

    def forward(self, tokens):
        x = self.embed(tokens)
        if self.positions == "embedding":
            x = x + self.position(torch.arange(tokens.shape[1], device=tokens.device))
        elif self.positions == "parameter":
            x = x + self.pos
        elif self.positions == "sinusoid":
            x = x + self.table
        first = x
        for block in self.blocks:
            x = block(x, first)
        return self.norm(x)

    def balance(self):
        return sum(block.mlp.balance for block in self.blocks if isinstance(block.mlp, Experts))


class ConvTrunk(nn.Module):
    """Images [batch, 3, 8, 8] to [batch, width]."""

    def __init__(self, r, width):
        super().__init__()
        kind = r.choice(["group", "group", "batch", "layer"])
        self.norms = nn.ModuleList({"group": lambda: nn.GroupNorm(4, width), "batch": lambda: nn.BatchNorm2d(width),
                                    "layer": lambda: nn.GroupNorm(1, width)}[kind]() for _ in range(2))
        self.stem, self.conv_1 = nn.Conv2d(3, width, 3, padding=1), nn.Conv2d(width, width, 3, padding=1, groups=r.choice([1, 4]))
        self.conv_2, self.pool = nn.Conv2d(width, width, 3, stride=2, padding=1), r.choice(["max", "avg", "none"])

    def forward(self, x):
        x = self.stem(x)
        x = x + self.conv_1(F.silu(self.norms[0](x)))
        if self.pool == "max":
            x = F.max_pool2d(x, 2)
        elif self.pool == "avg":
            x = F.avg_pool2d(x, 2)
        x = F.relu(self.norms[1](self.conv_2(x)))
        return x.mean((2, 3))
