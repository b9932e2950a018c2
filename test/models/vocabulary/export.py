#!/usr/bin/env python3
"""Exports transformers' GPT-2 with a vocabulary that two and four tensor ranks do not divide, and records PyTorch's run.

usage: export.py [--vocabulary 1003] [--layers 2] [--width 32] [--heads 4] [--columns] [--folder HERE]

--columns: a head of its own that is stored [width, vocabulary], and has a bias. columns/ is made by
  export.py --columns --vocabulary 203 --layers 1 --folder columns
"""
import argparse
import pathlib
import sys

import torch
import transformers
from safetensors.torch import save_file
from transformers.pytorch_utils import Conv1D

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import record  # noqa: E402

STEPS, BATCH, SEQUENCE = 20, 4, 32


class Model(torch.nn.Module):
    def __init__(self, config, columns):
        super().__init__()
        self.m = transformers.GPT2LMHeadModel(config)
        if columns:
            self.m.lm_head = Conv1D(config.vocab_size, config.n_embd)
            torch.nn.init.normal_(self.m.lm_head.bias, std=0.02)

    def forward(self, input_ids, labels):
        out = self.m(input_ids=input_ids, labels=labels, use_cache=False)
        return out.loss, out.logits


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    for name, size in (("vocabulary", 1003), ("layers", 2), ("width", 32), ("heads", 4)):
        p.add_argument(f"--{name}", type=int, default=size)
    p.add_argument("--columns", action="store_true")
    p.add_argument("--folder", type=pathlib.Path, default=HERE)
    a = p.parse_args()
    torch.manual_seed(0)
    model = Model(transformers.GPT2Config(vocab_size=a.vocabulary, n_positions=SEQUENCE, n_embd=a.width, n_layer=a.layers, n_head=a.heads, bos_token_id=0,
                                          eos_token_id=0, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, tie_word_embeddings=not a.columns), a.columns).eval()
    # The last ids are among them: those of the rows before the padding.
    ids = torch.randint(0, a.vocabulary, (STEPS, BATCH, SEQUENCE))
    ids[:, 0, ::2] = a.vocabulary - 1 - ids[:, 0, ::2] % 5
    batches = {"input_ids": ids, "labels": ids.clone()}
    save_file(batches, a.folder / "batches.safetensors")
    dims = {0: torch.export.Dim("batch"), 1: torch.export.Dim("sequence")}
    record.export(model, batches, [dims, dims], a.folder / "model.onnx")
    record.train(model, batches, a.folder / "trajectory.json", a.folder / "final.safetensors")
