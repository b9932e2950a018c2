#!/usr/bin/env python3
"""Writes this folder's files: modules with buffers that a step changes, whose gradients PyTorch's autograd traced, and PyTorch's runs of them.

usage: export.py [FOLDER]   (needs torch, onnxscript and safetensors from PyPI; the files are in the repository)

normalized has a batch normalization and its running statistics, averaged the weight of a teacher that follows that of the student.
final.safetensors has the weights and the buffers after 20 steps. A hook halves a gradient, so that no forward graph has the gradients.
"""
import pathlib
import subprocess
import sys

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
import record  # noqa: E402

WIDTH, BATCH, STEPS = 8, 6, 20


class Base(nn.Module):
    def __init__(self, bias):
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, 12, bias=bias), nn.Linear(12, WIDTH)

    def hidden(self, x):
        hidden = self.first(x)
        if hidden.requires_grad:
            hidden.register_hook(lambda gradient: gradient / 2)
        return hidden


class Normalized(Base):
    """Batch normalization in training mode: its statistics are those of the batch, and the running ones follow them."""

    def __init__(self):
        super().__init__(bias=False)  # its gradient would be 0 but for roundings
        self.norm = nn.BatchNorm1d(12, momentum=0.3)

    def forward(self, x, y):
        return F.mse_loss(self.second(torch.tanh(self.norm(self.hidden(x)))), y)


class Averaged(Base):
    """The student learns what its teacher says, too. The teacher's weight is an average of the student's."""

    def __init__(self):
        super().__init__(bias=True)
        self.register_buffer("teacher", self.first.weight.detach().clone())

    def forward(self, x, y):
        with torch.no_grad():
            self.teacher.mul_(0.9).add_(self.first.weight, alpha=0.1)
        hidden = self.hidden(x)
        return F.mse_loss(self.second(torch.tanh(hidden)), y) + F.mse_loss(hidden, F.linear(x, self.teacher))


def made(kind):
    torch.manual_seed(0)
    return kind()


def normalized():
    return made(Normalized)


def averaged():
    return made(Averaged)


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
    folder = folder if folder.is_dir() else folder.parent
    tool = pathlib.Path(__file__).resolve().parents[3] / "tools" / "export" / "export.py"
    draw = torch.Generator().manual_seed(1)
    batches = {name: torch.randn(STEPS, BATCH, WIDTH, generator=draw) for name in ("x", "y")}
    for of in (normalized, averaged):
        case, model = folder / of.__name__, of()
        case.mkdir(exist_ok=True)
        subprocess.run([sys.executable, tool, f"{pathlib.Path(__file__).resolve()}:{of.__name__}", "-o", case / "model.onnx", "--gradients", "traced",
                        "--input", f"x=float32[batch,{WIDTH}]", "--input", f"y=float32[batch,{WIDTH}]"], check=True)
        save_file(batches, case / "batches.safetensors")
        record.train(model, batches, case / "trajectory.json")
        save_file({key: value for key, value in model.state_dict().items() if value.is_floating_point()}, case / "final.safetensors")
