#!/usr/bin/env python3
"""PyTorch's side of experts.py: trains a Mixtral, eager or compiled, with the grouped matmuls of transformers.

usage: torch_experts.py --config FILE.json [--compile] [--batch 2] [--sequence 512] [--steps 6] [--threads 2]

Prints one JSON line: the time of each step, the last loss, resident memory before the model is made and the peak of resident
memory. Needs torch and transformers from PyPI.
"""
import argparse
import json
import resource
import time

import torch
import transformers

p = argparse.ArgumentParser()
p.add_argument("--config", required=True)
p.add_argument("--compile", action="store_true")
for name, value in (("batch", 2), ("sequence", 512), ("steps", 6), ("threads", 2)):
    p.add_argument("--" + name, type=int, default=value)
a = p.parse_args()
torch.manual_seed(0)
torch.set_num_threads(a.threads)
with open(a.config) as file:
    config = transformers.AutoConfig.for_model(**json.load(file))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
model = transformers.AutoModelForCausalLM.from_config(config)
step = torch.compile(model) if a.compile else model
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
draw = torch.Generator().manual_seed(1)
seconds = []
for _ in range(a.steps):
    tokens = torch.randint(0, config.vocab_size, (a.batch, a.sequence), generator=draw)
    start = time.perf_counter()
    loss = step(input_ids=tokens, labels=tokens, use_cache=False).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    seconds.append(time.perf_counter() - start)
print(json.dumps({"step_s": seconds, "loss": loss.item(), "experts": config._experts_implementation, "before": before,
                  "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))
