#!/usr/bin/env python3
"""Writes model.onnx: a byte-level GPT-2 of about 1 M parameters, randomly initialized.

usage: export.py [FOLDER]   (needs torch, transformers and onnxscript from PyPI; the file is in the repository, so tests and the demo
need none of these). The graph has inputs input_ids and labels [batch, sequence] and outputs loss and logits, as written by PyTorch's
default exporter.
"""
import os
import sys

import torch
import transformers


class WithLoss(torch.nn.Module):
    def __init__(self, m):
        super().__init__()
        self.m = m

    def forward(self, input_ids, labels):
        out = self.m(input_ids=input_ids, labels=labels)
        return out.loss, out.logits


def build():
    torch.manual_seed(0)
    config = transformers.GPT2Config(vocab_size=256, n_positions=256, n_embd=128, n_layer=5, n_head=4, use_cache=False,
                                     resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0)
    return transformers.GPT2LMHeadModel(config).train()


if __name__ == "__main__":
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    model = build()
    x = torch.zeros((2, 64), dtype=torch.long)
    shapes = {0: "batch", 1: "sequence"}
    program = torch.onnx.export(WithLoss(model), (x, x.clone()), dynamo=True, verbose=False, dynamic_shapes=(shapes, shapes),
                                input_names=["input_ids", "labels"], output_names=["loss", "logits"])
    for node in program.model.graph:  # the exporting machine's paths
        node.metadata_props.pop("pkg.torch.onnx.stack_trace", None)
    program.save(os.path.join(folder, "model.onnx"), external_data=False)
    print(sum(p.numel() for p in model.parameters()), "parameters")
