#!/usr/bin/env python3
"""PyTorch's side of the benchmarks: trains a GPT-2, eager, or exports it.

usage: torch_gpt2.py --layers 6 --width 384 --heads 6 [--vocab 50257] [--batch 4] [--sequence 256] [--steps 6] [--threads 2]
       torch_gpt2.py ... --export FOLDER
       python -m torch.distributed.run --nproc-per-node 2 torch_gpt2.py ... --fsdp --threads 1

--fsdp shards the model over the ranks with FSDP2 (`fully_shard`, per block) over Gloo, and checkpoints the activations of
each block. --batch is the batch of all ranks. Prints one JSON line, from rank 0: the time of each step, the last loss, resident
memory before the model is made and the peak of resident memory.
Needs torch and transformers (and onnxscript to export) from PyPI.
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
p.add_argument("--fsdp", action="store_true")
a = p.parse_args()
torch.manual_seed(0)
torch.set_num_threads(a.threads)
config = transformers.GPT2Config(vocab_size=a.vocab, n_positions=1024, n_embd=a.width, n_layer=a.layers, n_head=a.heads,
                                 resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False)


class WithLoss(torch.nn.Module):
    def __init__(self, m):
        super().__init__()
        self.m = m

    def forward(self, input_ids, labels):
        out = self.m(input_ids=input_ids, labels=labels)
        return out.loss, out.logits


def sharded_model():
    """The model over the ranks. No rank ever holds all of it: parameters get their memory when they are sharded."""
    from torch.distributed._composable.checkpoint_activation import checkpoint
    from torch.distributed.fsdp import fully_shard
    with torch.device("meta"):
        model = transformers.GPT2LMHeadModel(config)
    model.tie_weights()
    for block in model.transformer.h:
        checkpoint(block)
        fully_shard(block)
    fully_shard(model)
    model.to_empty(device="cpu")
    model.tie_weights()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.02)
    return model.train()


def resident():
    """Resident memory of this process in MiB."""
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


if a.fsdp:
    torch.distributed.init_process_group("gloo")
    a.batch //= torch.distributed.get_world_size()
before = resident()
model = sharded_model() if a.fsdp else transformers.GPT2LMHeadModel(config).train()
x = torch.randint(0, a.vocab, (a.batch, a.sequence))
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
    if not a.fsdp or torch.distributed.get_rank() == 0:
        print(json.dumps({"step_s": [round(s, 4) for s in steps], "loss": loss.item(), "before_mib": round(before),
                          "peak_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024}))
    if a.fsdp:
        torch.distributed.destroy_process_group()
