#!/usr/bin/env python3
"""Records a PyTorch run of the fixture gpt2 with gradients that are clipped by norm and then by element
(torch.nn.utils.clip_grad_value_). Needs torch, transformers, onnx and safetensors from PyPI; the file is in the repository.

usage: clip_value.py

Writes gpt2/trajectory-clip-value.json, which test/e2e/use/plugin.py follows with the pass of a plug-in.
"""
import json

import torch
from safetensors.torch import load_file

import gradients

LIMIT = 0.01
folder = gradients.HERE / "gpt2"
recorded = json.loads((folder / "trajectory.json").read_text())
weights, batches = gradients.weights_of(folder / "model.onnx"), load_file(folder / "batches.safetensors")
model = gradients.build("gpt2", weights).eval()
with torch.no_grad():
    for name, value in model.named_parameters():
        value.copy_(weights[name])
settings = recorded["optimizer"]
optimizer = torch.optim.AdamW(model.parameters(), lr=settings["lr"], betas=settings["betas"], eps=settings["eps"],
                              weight_decay=settings["weight_decay"])
steps = []
for step in range(len(batches["input_ids"])):
    model.zero_grad()
    loss = model(input_ids=batches["input_ids"][step], labels=batches["labels"][step], use_cache=False).loss
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), recorded["clip_grad_norm"])
    torch.nn.utils.clip_grad_value_(model.parameters(), LIMIT)
    optimizer.step()
    steps.append({"step": step, "loss": loss.item(), "grad_norm": norm.item()})
run = {"torch": torch.__version__, "optimizer": settings, "clip_grad_norm": recorded["clip_grad_norm"], "clip_grad_value": LIMIT,
       "batches": "batches.safetensors", "steps": steps}
(folder / "trajectory-clip-value.json").write_text(json.dumps(run, indent=1) + "\n")
print(steps[0]["loss"], "->", steps[-1]["loss"])
