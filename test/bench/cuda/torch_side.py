#!/usr/bin/env python3
"""PyTorch's side of the GPU benchmark: one model's training step, compiled, repeated.

usage: torch_side.py --model gpt2-124m|llama-1b|llama-8b|tinyllama-1.1b [--mode default|cudagraphs|eager]
       [--scope model|block] [--attention auto|cudnn|flash] [--batch N] [--sequence N] [--vocab N]
       [--steps 20] [--warmup 6] [--device cuda]

A step is forward, cross-entropy over all positions, backward and fused AdamW, on random tokens and random weights.
gpt2-124m and the 1B models hold f32 parameters and compute in bf16 under autocast; llama-8b holds bf16 parameters and
moments only and recomputes every block. --scope says what torch.compile is given: the whole model with its loss, or
each block and the head with the loss by themselves. --mode cudagraphs is torch.compile's "reduce-overhead".
Models whose names begin with "tiny-" check the script itself, also on a CPU.

Prints one JSON line: the median, least and greatest step in milliseconds, tokens per second, utilization by
6 N + 12 x layers x width x length operations per token of --peak-tflops, peak memory, clocks, versions.
Needs torch alone.
"""
import argparse
import json
import statistics
import subprocess
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

MODELS = {
    "gpt2-124m": dict(family="gpt2", layers=12, width=768, heads=12, ffn=3072, vocab=50257, batch=64, sequence=1024),
    "llama-1b": dict(family="llama", layers=16, width=2048, heads=32, kv=8, ffn=8192, vocab=128256, batch=8, sequence=2048),
    "tinyllama-1.1b": dict(family="llama", layers=22, width=2048, heads=32, kv=4, ffn=5632, vocab=32000, theta=1e4, batch=8, sequence=2048),
    "llama-8b": dict(family="llama", layers=32, width=4096, heads=32, kv=8, ffn=14336, vocab=128256, batch=2, sequence=4096, pure=True),
    "tiny-gpt2": dict(family="gpt2", layers=2, width=64, heads=4, ffn=256, vocab=97, batch=2, sequence=32),
    "tiny-llama": dict(family="llama", layers=2, width=64, heads=4, kv=2, ffn=96, vocab=96, batch=2, sequence=32, pure=True),
}


class GPT2Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads = c["heads"]
        self.ln_1, self.ln_2 = nn.LayerNorm(c["width"]), nn.LayerNorm(c["width"])
        self.attn, self.proj = nn.Linear(c["width"], 3 * c["width"]), nn.Linear(c["width"], c["width"])
        self.fc, self.out = nn.Linear(c["width"], c["ffn"]), nn.Linear(c["ffn"], c["width"])

    def forward(self, x, *_):
        batch, length, width = x.shape
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in self.attn(self.ln_1(x)).split(width, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.out(F.gelu(self.fc(self.ln_2(x)), approximate="tanh"))


def rotate(x, cos, sin):
    low, high = x.chunk(2, -1)
    return torch.cat((low * cos - high * sin, high * cos + low * sin), -1).to(x.dtype)


class LlamaBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads, self.kv, self.head = c["heads"], c["kv"], c["width"] // c["heads"]
        self.norm_1, self.norm_2 = nn.RMSNorm(c["width"], eps=1e-5), nn.RMSNorm(c["width"], eps=1e-5)
        self.q, self.o = nn.Linear(c["width"], c["width"], bias=False), nn.Linear(c["width"], c["width"], bias=False)
        self.k, self.v = (nn.Linear(c["width"], self.kv * self.head, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(c["width"], c["ffn"], bias=False) for _ in range(2))
        self.down = nn.Linear(c["ffn"], c["width"], bias=False)

    def forward(self, x, cos, sin):
        batch, length, width = x.shape
        h = self.norm_1(x)
        q, k, v = (f(h).view(batch, length, -1, self.head).transpose(1, 2) for f in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(rotate(q, cos, sin), rotate(k, cos, sin), v, is_causal=True, enable_gqa=self.kv != self.heads)
        x = x + self.o(y.transpose(1, 2).reshape(batch, length, width))
        h = self.norm_2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Head(nn.Module):
    """The last norm, the matmul with the vocabulary and the loss."""

    def __init__(self, c, norm, tied):
        super().__init__()
        self.norm, self.lm_head = norm, nn.Linear(c["width"], c["vocab"], bias=False)
        if tied is not None:
            self.lm_head.weight = tied

    def forward(self, x, labels):
        return F.cross_entropy(self.lm_head(self.norm(x)).float().flatten(0, 1), labels.flatten())


class Model(nn.Module):
    def __init__(self, c):
        super().__init__()
        gpt2 = c["family"] == "gpt2"
        self.recompute = c.get("pure", False)
        self.embed = nn.Embedding(c["vocab"], c["width"])
        self.places = nn.Embedding(c["sequence"], c["width"]) if gpt2 else None
        self.blocks = nn.ModuleList((GPT2Block if gpt2 else LlamaBlock)(c) for _ in range(c["layers"]))
        norm = nn.LayerNorm(c["width"]) if gpt2 else nn.RMSNorm(c["width"], eps=1e-5)
        self.head = Head(c, norm, self.embed.weight if gpt2 else None)
        if not gpt2:
            half = c["width"] // c["heads"] // 2
            angle = torch.outer(torch.arange(c["sequence"]), c.get("theta", 5e5) ** (-torch.arange(half) / half))
            self.register_buffer("cos", angle.cos(), persistent=False)
            self.register_buffer("sin", angle.sin(), persistent=False)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens, labels):
        x, tables = self.embed(tokens), ()
        if self.places is not None:
            x = x + self.places.weight[:tokens.shape[1]]
        else:
            tables = self.cos, self.sin
        for block in self.blocks:
            x = checkpoint(block, x, *tables, use_reentrant=False) if self.recompute else block(x, *tables)
        return self.head(x, labels)


def graphics_card():
    """What nvidia-smi says of memory, clocks and power, or nothing."""
    names = "memory.used,clocks.sm,clocks.mem,power.draw,temperature.gpu,driver_version"
    try:
        line = subprocess.run(["nvidia-smi", "--query-gpu=" + names, "--format=csv,noheader,nounits"],
                              capture_output=True, text=True, timeout=20, check=True).stdout.splitlines()[0]
        return dict(zip(names.split(","), (value.strip() for value in line.split(","))))
    except (OSError, IndexError, subprocess.SubprocessError):
        return {}


def measure(a, c):
    torch.manual_seed(0)
    cuda = a.device.startswith("cuda")
    pure = c.get("pure", False)
    with torch.device(a.device):
        model = Model(c)
    if pure:
        tables = {name: buffer for name, buffer in model.named_buffers()}
        model = model.to(torch.bfloat16)
        for name, buffer in tables.items():  # angles stay f32
            setattr(model, name, buffer)
    parameters = sum(p.numel() for p in model.parameters())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    shape = (4, c["batch"], c["sequence"])
    tokens, labels = (torch.randint(0, c["vocab"], shape, device=a.device) for _ in range(2))
    run = model
    if a.mode != "eager":
        mode = "reduce-overhead" if a.mode == "cudagraphs" else None
        if a.scope == "block":
            for part in [*model.blocks, model.head]:
                part.compile(mode=mode)
        else:
            run = torch.compile(model, mode=mode)
    if cuda:
        from torch.nn.attention import SDPBackend, sdpa_kernel
        wanted = {"cudnn": [SDPBackend.CUDNN_ATTENTION], "flash": [SDPBackend.FLASH_ATTENTION]}.get(a.attention)
        if wanted:
            sdpa_kernel(wanted).__enter__()

    def step(i):
        if a.mode == "cudagraphs":
            torch.compiler.cudagraph_mark_step_begin()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(a.device.split(":")[0], torch.bfloat16, enabled=not pure):
            loss = run(tokens[i % 4], labels[i % 4])
        loss.backward()
        optimizer.step()
        return loss

    started = time.perf_counter()
    for i in range(a.warmup):
        loss = step(i)
        if i == 0:
            first = float(loss.detach())
    last = float(loss.detach())
    warm_s = time.perf_counter() - started
    times, marks = [], []
    if cuda:
        torch.cuda.synchronize()
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(a.steps + 1)]
        marks[0].record()
    started = time.perf_counter()
    for i in range(a.steps):
        before = time.perf_counter()
        step(i)
        if cuda:
            marks[i + 1].record()
        else:
            times.append(1e3 * (time.perf_counter() - before))
    if cuda:
        torch.cuda.synchronize()
        times = [x.elapsed_time(y) for x, y in zip(marks, marks[1:])]
    wall_ms = 1e3 * (time.perf_counter() - started) / a.steps
    count = c["batch"] * c["sequence"]
    work = 6 * parameters + 12 * c["layers"] * c["width"] * c["sequence"]
    median = statistics.median(times)
    result = dict(model=a.model, mode=a.mode, scope=a.scope, attention=a.attention, batch=c["batch"], sequence=c["sequence"],
                  vocab=c["vocab"], parameters=parameters, median_ms=median, min_ms=min(times), max_ms=max(times), wall_ms=wall_ms,
                  tokens_per_s=count / median * 1e3, tflops=count * work / median / 1e9,
                  utilization=count * work / median / 1e9 / a.peak_tflops, flops_per_token=work, warmup_s=warm_s,
                  first_loss=first, last_loss=last, torch=torch.__version__)
    if cuda:
        result.update(gpu=torch.cuda.get_device_name(), cuda=torch.version.cuda, cudnn=torch.backends.cudnn.version(),
                      peak_allocated_mib=torch.cuda.max_memory_allocated() >> 20, peak_reserved_mib=torch.cuda.max_memory_reserved() >> 20,
                      smi=graphics_card())
    result["times_ms"] = [round(t, 3) for t in times]
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=MODELS, required=True)
    parser.add_argument("--mode", choices=("default", "cudagraphs", "eager"), default="default")
    parser.add_argument("--scope", choices=("model", "block"), default="model")
    parser.add_argument("--attention", choices=("auto", "cudnn", "flash"), default="auto")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--peak-tflops", type=float, default=989.0)
    for name, value in (("steps", 20), ("warmup", 6), ("batch", None), ("sequence", None), ("vocab", None)):
        parser.add_argument("--" + name, type=int, default=value)
    a = parser.parse_args()
    c = dict(MODELS[a.model])
    c.update({k: getattr(a, k) for k in ("batch", "sequence", "vocab") if getattr(a, k)})
    try:
        print(json.dumps(measure(a, c)), flush=True)
    except Exception as error:  # one line in any case: a table of several runs goes on
        print(json.dumps(dict(model=a.model, mode=a.mode, scope=a.scope, error=f"{type(error).__name__}: {error}"[:2000])), flush=True)
        raise SystemExit(1)


if __name__ == "__main__":
    main()
