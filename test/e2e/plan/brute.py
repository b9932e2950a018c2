#!/usr/bin/env python3
"""Compares plans for tensor axes that are found with those of brute force over all parameters of a block.

usage: e2e brute --build DIR --python PYTHON [--only NAME,..]

PYTHON has torch and transformers. Models: Qwen3-MoE, OLMo2 and T5 of test/models/hf, a layer of DeepSeek-V3's attention, and a layer with LoRA
adapters on frozen weights. (test/e2e/run/tensor.py has Llama, GPT-2, ViT and plain.) The layouts of all arguments must be the same. Minutes per model.
"""
import json
import pathlib
import sys

from runner import MODELS, ROOT, Deviates, main, run
from tensor_programs import has_layouts, splits

DEEPSEEK = ("model_type=deepseek_v3 hidden_size=32 intermediate_size=64 moe_intermediate_size=32 num_hidden_layers=1 num_attention_heads=4 num_key_value_heads=4 "
            "n_routed_experts=4 num_experts_per_tok=2 n_group=1 topk_group=1 first_k_dense_replace=1 q_lora_rank=16 kv_lora_rank=16 qk_rope_head_dim=8 "
            "qk_nope_head_dim=8 v_head_dim=8 vocab_size=96 max_position_embeddings=32").split()
LORA = '''
import torch
from torch import nn
from torch.nn import functional as F


class Lora(nn.Module):
    def __init__(self, rows, columns, rank=4):
        super().__init__()
        self.base = nn.Linear(columns, rows, bias=False).requires_grad_(False)
        self.a, self.b = nn.Parameter(torch.randn(rank, columns) / 8), nn.Parameter(torch.randn(rows, rank) / 8)

    def forward(self, x):
        return self.base(x) + x @ self.a.T @ self.b.T


class Adapted(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads, self.embedding, self.head = heads, nn.Embedding(96, width), nn.Linear(width, 96)
        self.q, self.k, self.v, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.up, self.down = nn.Linear(width, 64), Lora(width, 64)

    def forward(self, tokens, labels):
        x = self.embedding(tokens)
        q, k, v = (layer(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for layer in (self.q, self.k, self.v))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        x = x + self.down(F.gelu(self.up(x)))
        return F.cross_entropy(self.head(x).flatten(0, 1), labels.flatten())
'''


class Tool:
    """What `splits` asks of a case."""

    def __init__(self, build):
        self.bin = pathlib.Path(build) / "bin"


def export(a, work, name):
    """Exports a model. Returns its path and the flags of its sizes."""
    if name in ("qwen3moe", "olmo2", "t5"):
        run([a.python, MODELS / "hf" / "export.py", work, "--only", name], f"the export of {name}")
        return work / name / "model.onnx", json.loads((work / name / "trajectory.json").read_text())["flags"]
    (work / "lora.py").write_text(LORA)
    source = ["--config", *DEEPSEEK] if name == "deepseek" else [f"{work / 'lora.py'}:Adapted", "--vocabulary", "96"]
    path = work / f"{name}.onnx"
    run([a.python, ROOT / "tools" / "export" / "export.py", *source, "--shalec", pathlib.Path(a.build) / "bin" / "shalec", "-o", path], f"the export of {name}")
    return path, ["--dim", "batch=4", "--dim", "sequence=16"]


def check(a, work):
    names = a.only or ["qwen3moe", "olmo2", "t5", "deepseek", "lora"]
    tool = Tool(a.build)
    for name in names:
        path, flags = export(a, work, name)
        folder = work / f"{name}-ir"
        run([tool.bin / "shalec", path, *flags, "--mesh", "tp=2", "--shard", "none", "--no-advice", "--emit", "dist", "--save-temps", folder, "-o", "/dev/null"], "shalec")
        ir = next(folder.glob("*-precision.mlir"))
        found, _ = splits(tool, ir)
        if not has_layouts(found):
            raise Deviates(f"{name}: nothing is split")
        if found != splits(tool, ir, "=exhaustive")[0]:
            raise Deviates(f"{name}: brute force finds another plan")
        print(f"{name}: the plan is that of brute force", flush=True)
    return f"{len(names)} plans are those of brute force"


if __name__ == "__main__":
    main(check, ("--python", {"default": sys.executable}), ("--only", {"type": lambda text: text.split(",")}), success="brute:")
