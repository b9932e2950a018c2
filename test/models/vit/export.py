#!/usr/bin/env python3
"""Writes this folder's files: transformers' ViT for classification, its loss inside, and PyTorch's run of it.

usage: export.py [FOLDER]   (needs torch, transformers, onnxscript and safetensors from PyPI; the files are in the repository)
"""
import pathlib
import sys

import torch
import transformers
from safetensors.torch import save_file

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
import record  # noqa: E402


class WithLoss(torch.nn.Module):
    def __init__(self, m):
        super().__init__()
        self.m = m

    def forward(self, pixel_values, labels):
        out = self.m(pixel_values=pixel_values, labels=labels)
        return out.loss, out.logits


def build(**kinds):
    torch.manual_seed(0)
    config = transformers.ViTConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, image_size=12,
                                    patch_size=4, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, **kinds)
    return WithLoss(transformers.ViTForImageClassification(config).train())


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
    folder = folder if folder.is_dir() else folder.parent
    draw = torch.Generator().manual_seed(1)
    images = torch.randn(20, 4, 3, 12, 12, generator=draw)
    classes = {"pixel_values": images, "labels": torch.randint(0, 10, (20, 4), generator=draw)}
    scores = {"pixel_values": images, "labels": torch.randn(20, 4, generator=draw)}
    save_file(classes, folder / "batches.safetensors")
    save_file(scores, folder / "batches-regression.safetensors")
    for name, batches, model in [("", classes, build(num_labels=10)),
                                 ("-regression", scores, build(num_labels=1, problem_type="regression"))]:
        record.export(model, batches, [{0: "batch"}, {0: "batch"}], folder / f"model{name}.onnx")
        record.train(model, batches, folder / f"trajectory{name}.json", None if name else folder / "final.safetensors",
                     batches=f"batches{name}.safetensors", transformers=transformers.__version__)
