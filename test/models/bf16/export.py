#!/usr/bin/env python3
"""Writes this folder's files: models in 16-bit floats, exported with default settings, and PyTorch's runs of them.

usage: export.py [FOLDER]   (needs torch, transformers, onnxscript and safetensors from PyPI; the files are in the repository)

`gpt2` and `llama` are transformers' in bf16, `mixed` is hand-written with its norms in f32 and the rest in bf16, `f16` the same
all in f16. PyTorch computes in the model's types; AdamW has f32 masters.
"""
import pathlib
import sys

import torch
import transformers
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
import record  # noqa: E402

WIDTH, HEADS, LENGTH = 32, 4, 64
SIZES = dict(vocab_size=256, use_cache=False)


class WithLoss(nn.Module):
    def __init__(self, m):
        super().__init__()
        self.m = m

    def forward(self, input_ids, labels):
        out = self.m(input_ids=input_ids, labels=labels)
        return out.loss, out.logits


class Norm(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x.to(self.weight.dtype)).to(x.dtype)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = Norm(WIDTH), Norm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH, bias=False)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        heads = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(heads.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(256, WIDTH)
        self.positions = nn.Parameter(torch.randn(LENGTH, WIDTH) * 0.02)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.norm, self.head = Norm(WIDTH), nn.Linear(WIDTH, 256, bias=False)

    def forward(self, input_ids, labels):
        x = self.embedding(input_ids) + self.positions
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), labels[:, 1:].flatten()), logits


def build(name):
    torch.manual_seed(0)
    if name == "gpt2":
        return WithLoss(transformers.GPT2LMHeadModel(transformers.GPT2Config(
            n_positions=LENGTH, n_embd=WIDTH, n_layer=2, n_head=HEADS, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0,
            eos_token_id=0, **SIZES))).bfloat16()
    if name == "llama":
        return WithLoss(transformers.LlamaForCausalLM(transformers.LlamaConfig(
            hidden_size=WIDTH, intermediate_size=80, num_hidden_layers=2, num_attention_heads=HEADS, num_key_value_heads=2,
            max_position_embeddings=LENGTH, **SIZES))).bfloat16()
    if name == "f16":
        return Own().half()
    own = Own().bfloat16()
    for module in own.modules():
        if isinstance(module, Norm):
            module.float()
    return own


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
    folder = folder if folder.is_dir() else folder.parent
    batches = load_file(pathlib.Path(__file__).resolve().parents[1] / "gpt2" / "batches.safetensors")
    for name in ("gpt2", "llama", "mixed", "f16"):
        model = build(name).train()
        shapes = [{0: "batch", 1: "sequence"} if name in ("gpt2", "llama") else {0: "batch"}] * 2
        record.export(model, batches, shapes, folder / f"{name}.onnx")
        record.train(model, batches, folder / f"trajectory-{name}.json", batches="../gpt2/batches.safetensors",
                     transformers=transformers.__version__)
