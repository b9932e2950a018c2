#!/usr/bin/env python3
"""PyTorch's side of the benchmark: the training step of a GPT-2, eager, repeated; or its export.

usage: torch_gpt2.py --layers 6 --width 384 --heads 6 [--vocab 50257] [--batch 4] [--sequence 256] [--steps 6]
       [--export FOLDER]
Prints one JSON line with step_s. Needs torch, transformers (and onnxscript to export) from PyPI.
"""
import argparse
import json
import os
import resource
import time

import torch
import transformers

p = argparse.ArgumentParser()
for name, value in (("layers", 6), ("width", 384), ("heads", 6), ("vocab", 50257), ("batch", 4), ("sequence", 256), ("steps", 6), ("threads", 2)):
    p.add_argument("--" + name, type=int, default=value)
p.add_argument("--export")
a = p.parse_args()
torch.manual_seed(0)
torch.set_num_threads(a.threads)
config = transformers.GPT2Config(vocab_size=a.vocab, n_positions=1024, n_embd=a.width, n_layer=a.layers, n_head=a.heads,
                                 resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False)
model = transformers.GPT2LMHeadModel(config).train()
x = torch.randint(0, a.vocab, (a.batch, a.sequence))


class WithLoss(torch.nn.Module):
    def __init__(self, m):
        super().__init__()
        self.m = m

    def forward(self, input_ids, labels):
        out = self.m(input_ids=input_ids, labels=labels)
        return out.loss, out.logits


if a.export:
    os.makedirs(a.export, exist_ok=True)
    shapes = {0: "batch", 1: "sequence"}
    program = torch.onnx.export(WithLoss(model), (x, x.clone()), dynamo=True, verbose=False, dynamic_shapes=(shapes, shapes),
                                input_names=["input_ids", "labels"], output_names=["loss", "logits"])
    program.save(os.path.join(a.export, "model.onnx"), external_data=True)
else:
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    steps = []
    for _ in range(a.steps):
        start = time.perf_counter()
        optimizer.zero_grad()
        loss = model(input_ids=x, labels=x).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        steps.append(time.perf_counter() - start)
    print(json.dumps({"step_s": [round(s, 4) for s in steps], "loss": loss.item(),
                      "peak_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024}))
