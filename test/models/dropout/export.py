#!/usr/bin/env python3
"""Writes model.onnx: a small transformer exported in training mode, so its Dropout nodes are active.

usage: export.py (needs torch, onnx and onnxscript)
"""
import pathlib

import onnx
import torch
import torch.nn.functional as F
from torch import nn

VOCABULARY, WIDTH, SEQUENCE, LAYERS, HEADS = 64, 32, 16, 2, 4


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.drop, self.drop_probabilities = nn.Dropout(0.1), nn.Dropout(0.2)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, HEADS, width // HEADS).transpose(1, 2) for part in self.qkv(self.ln_1(x)).split(width, dim=2))
        mask = torch.full((length, length), float("-inf")).triu(1)
        p = F.softmax(q @ k.transpose(-1, -2) * (width // HEADS) ** -0.5 + mask, dim=-1)
        x = x + self.drop(self.proj((self.drop_probabilities(p) @ v).transpose(1, 2).reshape(batch, length, width)))
        return x + self.drop(self.down(F.gelu(self.up(self.ln_2(x)))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(SEQUENCE, WIDTH)
        self.drop = nn.Dropout(0.1)
        self.h = nn.ModuleList([Block() for _ in range(LAYERS)])
        self.ln_f, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, ids, labels):
        x = self.drop(self.wte(ids) + self.wpe(torch.arange(ids.shape[1])))
        for block in self.h:
            x = block(x)
        return F.cross_entropy(self.head(self.ln_f(x)).flatten(0, 1), labels.flatten())


torch.manual_seed(0)
ids = torch.zeros(4, SEQUENCE, dtype=torch.int64)
batch = {0: "batch"}
program = torch.onnx.export(Model().train(), (ids, ids.clone()), dynamo=True, optimize=False, input_names=["ids", "labels"], output_names=["loss"],
                            dynamic_shapes={"ids": batch, "labels": batch})
model = program.model_proto
for node in list(model.graph.node) + [n for f in model.functions for n in f.node]:
    kept = [p for p in node.metadata_props if p.key != "pkg.torch.onnx.stack_trace"]
    del node.metadata_props[:]
    node.metadata_props.extend(kept)
onnx.save(model, pathlib.Path(__file__).with_name("model.onnx"))
