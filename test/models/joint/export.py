#!/usr/bin/env python3
"""Writes this folder's files: a language model with its backward pass in the same graph, and PyTorch's run of it.

usage: export.py [FOLDER]   (needs torch, onnxscript and safetensors from PyPI; the files are in the repository)

model.onnx is the exporter's default form, raw.onnx has every operation (optimize=False). Outputs are the loss and grad.NAME for each
parameter. Labels that are ignored are -100, in another number in each row.
"""
import pathlib
import sys

import torch
from safetensors.torch import save_file
from torch import nn
from torch.export.experimental import _export_forward_backward
from torch.export.graph_signature import OutputKind
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils import _pytree as pytree

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
import record  # noqa: E402

VOCABULARY, WIDTH, HEADS, LENGTH, BATCH, STEPS = 48, 16, 2, 12, 4, 20


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.c_attn, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (t.view(batch, length, HEADS, width // HEADS).transpose(1, 2) for t in self.c_attn(self.norm1(x)).split(width, -1))
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, length, width)
        x = x + self.out(attended)
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.h = nn.ModuleList(Block() for _ in range(2))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, input_ids, labels):
        x = self.tokens(input_ids) + self.places(torch.arange(input_ids.shape[1]))
        for block in self.h:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), labels.flatten())


def export_joint(module, inputs, path, **settings):
    """Exports forward and backward in one graph."""
    shapes = tuple({0: torch.export.Dim("batch")} for _ in inputs)
    with sdpa_kernel(SDPBackend.MATH):  # fused attention has no backward pass in ONNX
        program = _export_forward_backward(torch.export.export(module, inputs, dynamic_shapes=shapes))
    names = []
    for output in program.graph_signature.output_specs:
        names.append("loss" if output.kind == OutputKind.LOSS_OUTPUT else f"grad.{output.target}")
        output.kind, output.target = OutputKind.USER_OUTPUT, None
    program.module_call_graph[0].signature.out_spec = pytree.tree_structure(tuple(names))
    record.save(torch.onnx.export(program, (), dynamo=True, verbose=False, output_names=names, dynamic_shapes=tuple({0: "batch"} for _ in inputs),
                                  **settings), path)


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
    folder = folder if folder.is_dir() else folder.parent
    torch.manual_seed(0)
    model = Model()
    draw = torch.Generator().manual_seed(1)
    ids = torch.randint(0, VOCABULARY, (2 * STEPS, BATCH, LENGTH), generator=draw)
    kept = torch.rand(ids.shape, generator=draw) < torch.rand(2 * STEPS, BATCH, 1, generator=draw)
    batches = {"input_ids": ids, "labels": torch.where(kept, (ids * 7 + 3) % VOCABULARY, -100)}
    save_file(batches, folder / "batches.safetensors")
    first = tuple(rows[0] for rows in batches.values())
    export_joint(model, first, folder / "model.onnx")
    export_joint(model, first, folder / "raw.onnx", optimize=False)
    start = {key: value.clone() for key, value in model.state_dict().items()}
    record.train(model, {key: value[:STEPS] for key, value in batches.items()}, folder / "trajectory.json", folder / "final.safetensors")
    model.load_state_dict(start)
    record.train(model, batches, folder / "trajectory-accumulate.json", accumulate=2)
