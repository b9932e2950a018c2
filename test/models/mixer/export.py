#!/usr/bin/env python3
"""Writes this folder's files: an MLP-Mixer of images, and runs of it with optimizers that have no elementwise update, or none in PyTorch.

usage: export.py [FOLDER]   (needs torch, onnxscript, transformers and safetensors from PyPI; the files are in the repository)

Patches by a convolution, whose weight has four dimensions; blocks that mix the patches, then the channels; a mean and a head. The file is
what torch's default exporter writes. optimizers.py has the optimizers.
"""
import json
import pathlib
import sys

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
import optimizers  # noqa: E402
import record  # noqa: E402

SIDE, PATCH, WIDTH, CLASSES, BATCH, STEPS = 12, 3, 24, 7, 8, 20
PATCHES = (SIDE // PATCH) ** 2
CLIP = 1.0


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.patches = nn.Sequential(nn.Linear(PATCHES, 40), nn.GELU(), nn.Linear(40, PATCHES))
        self.channels = nn.Sequential(nn.Linear(WIDTH, 56), nn.GELU(), nn.Linear(56, WIDTH))

    def forward(self, x):
        x = x + self.patches(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norm2(x))


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, WIDTH, PATCH, PATCH)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, pixel_values, labels):
        x = self.stem(pixel_values).flatten(2).transpose(1, 2)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x).mean(1))
        return F.cross_entropy(logits, labels), logits


class Muon(optimizers.Muon):
    rest = "head"


# The gradients of this small model are far above 8-bit AdamW's epsilon.
KINDS = {"adafactor": optimizers.Adafactor, "adamw8bit": optimizers.Adamw8bit, "lamb": optimizers.Lamb, "lion": optimizers.Lion, "muon": Muon}


def train(kind, batches):
    torch.manual_seed(0)
    model = Mixer().train()
    optimizer, steps = kind(model.named_parameters() if getattr(kind, "named", False) else model.parameters()), []
    for step, (pixels, labels) in enumerate(zip(batches["pixel_values"], batches["labels"])):
        model.zero_grad()
        loss = model(pixels, labels)[0]
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        steps.append({"step": step, "loss": loss.item(), "grad_norm": norm.item()})
    return optimizer.flags, steps


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
    folder = folder if folder.is_dir() else folder.parent
    torch.manual_seed(1)
    labels = torch.randint(CLASSES, (STEPS, BATCH))
    shapes = torch.randn(CLASSES, 3, SIDE, SIDE)
    batches = {"pixel_values": torch.randn(STEPS, BATCH, 3, SIDE, SIDE) + shapes[labels], "labels": labels}
    save_file(batches, folder / "batches.safetensors")
    torch.manual_seed(0)
    record.export(Mixer().train(), batches, [{0: "batch"}, {0: "batch"}], folder / "model.onnx")
    for name, kind in KINDS.items():
        flags, steps = train(kind, batches)
        said = {"torch": torch.__version__, "optimizer": {"name": name, "flags": flags}, "clip_grad_norm": CLIP, "steps": steps}
        (folder / f"trajectory-{name}.json").write_text(json.dumps(said, indent=1) + "\n")
        print(name, steps[0]["loss"], "->", steps[-1]["loss"])
