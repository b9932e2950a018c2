#!/usr/bin/env python3
"""Writes reference.json: PyTorch's training of the demo model on the batches of test/e2e/lib/batches.py.

usage: reference.py   (needs torch and transformers from PyPI; the result is in the repository)
"""
import json
import pathlib
import sys

import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE), str(HERE.parents[1] / "e2e" / "lib")]
import batches  # noqa: E402
import export  # noqa: E402

torch.set_num_threads(2)
model = export.build()
s = batches.SETTINGS
optimizer = torch.optim.AdamW(model.parameters(), lr=s["lr"], betas=(s["beta1"], s["beta2"]), eps=s["eps"], weight_decay=s["weight_decay"])
training, evaluation = batches.draw(HERE.parent / "data" / "tinyshakespeare.txt")
losses = []
for x in map(torch.from_numpy, training):
    optimizer.zero_grad()
    loss = model(input_ids=x, labels=x).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), s["clip_grad_norm"])
    optimizer.step()
    losses.append(loss.item())
    if len(losses) % 50 == 0:
        print(len(losses), losses[-1], flush=True)
with torch.no_grad():
    held_out = sum(model(input_ids=x, labels=x).loss.item() for x in map(torch.from_numpy, evaluation)) / len(evaluation)
(HERE / "reference.json").write_text(json.dumps({"torch": torch.__version__, "settings": s, "loss": [round(l, 6) for l in losses], "eval_loss": held_out}) + "\n")
print("evaluation", held_out)
