#!/usr/bin/env python3
"""Writes random training modules of many tasks as ONNX files, with PyTorch's first steps of training each. Needs torch, onnxscript and
onnxruntime.

usage: export.py FOLDER [--seed 0] [--count 1 | --seeds N,..] [--no-optimize] [--short-traces]
       export.py FOLDER --shalec FILE ..

FOLDER/SEED/ gets model.onnx (torch.onnx.export with its default settings), batches.safetensors and trajectory.json: the task, the flags that
shalec needs, the optimizer, losses (before the update) and gradient norms (before clipping) of four steps, and the trained parameters by
name, as their product with cos(0), cos(1), .. A case is set aside, with FOLDER/SEED/aside.txt instead, where the file's first loss under ONNX
Runtime is not PyTorch's, where PyTorch's f32 run is not that of f64, or where torch.onnx.export fails.

--shalec: exports by shale.export, with the first batch and the compiler that it names. Then programs get no flags but the size of the batch, and a
module that is refused, or at which shale.export crashes, has trajectory.json with the message, and no file.
"""
import argparse
import contextlib
import copy
import io
import json
import logging
import os
import pathlib
import random
import re
import shutil
import sys
import warnings

import numpy as np
import onnxruntime
import torch

HERE = pathlib.Path(__file__).resolve().parent
TOOLS = HERE.parents[2] / "tools"
sys.path += [str(HERE), str(HERE.parent), str(HERE.parents[1] / "e2e" / "lib"), str(TOOLS / "export"), str(TOOLS / "python")]
import tasks  # noqa: E402
from drawn import Aside, describe_parameters, shorten_traces  # noqa: E402
from runner import save_safetensors  # noqa: E402

STEPS, BATCH = 4, 4
OPTIMIZER = {"name": "AdamW", "lr": 1e-3, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1}


def train(model, batches, kind):
    """Losses and gradient norms of the steps, the trained parameters and running statistics by name, and the names of parameters whose gradients
    are 0 but for rounding, as of a bias before a normalization: AdamW moves these by the sign of the rounding."""
    model = copy.deepcopy(model).to(kind)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=OPTIMIZER["lr"], betas=OPTIMIZER["betas"], eps=OPTIMIZER["eps"], weight_decay=OPTIMIZER["weight_decay"])
    steps = []
    for step in range(STEPS):
        inputs = [torch.from_numpy(value[step]) for value in batches.values()]
        optimizer.zero_grad()
        loss = model(*(x.to(kind) if x.is_floating_point() else x for x in inputs))
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        steps.append({"loss": loss.item(), "grad_norm": norm.item()})
    running = [(name, value) for name, value in model.named_buffers() if name.endswith(("running_mean", "running_var"))]
    changed = [(name, value) for name, value in model.named_parameters() if value.grad is not None] + running
    noise = [name for name, value in model.named_parameters() if value.grad is not None and value.grad.norm() <= 100 * torch.finfo(kind).eps * norm]
    return steps, {name: value.detach().double().flatten().numpy() for name, value in changed}, noise


def export(model, path, batches, optimize):
    arguments = tuple(torch.from_numpy(value[0].copy()) for value in batches.values())
    batch, hidden = torch.export.Dim("batch"), io.StringIO()
    with contextlib.redirect_stdout(hidden), contextlib.redirect_stderr(hidden):
        torch.onnx.export(model, arguments, path, dynamo=True, input_names=list(batches), dynamic_shapes=tuple({0: batch} for _ in arguments),
                          external_data=False, optimize=optimize)


def export_checked(model, path, batches, shalec):
    """Exports by shale.export. Returns the key and the message for trajectory.json if it writes no file: any exception but its own is a crash."""
    import shale
    hidden = io.StringIO()
    os.environ["PATH"] = f"{shalec.resolve().parent}{os.pathsep}{os.environ['PATH']}"
    try:
        with contextlib.redirect_stdout(hidden), contextlib.redirect_stderr(hidden):
            shale.export(model, path, batch={name: torch.from_numpy(value[0].copy()) for name, value in batches.items()})
    except shale.InternalError as error:
        return {"crashed": str(error)}
    except shale.Error as error:
        return {"export": str(error)}
    except Exception as error:
        return {"crashed": f"{type(error).__name__}: {error}"}
    return {}


def check_file(path, batches, wanted):
    """Returns the inputs that the file has; the exporter drops those that are not read. `wanted`: the first loss, or None if the file does
    not compute it: the exporter writes batch normalizations as in evaluation, and the record of the file has that they train."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    inputs = [one.name for one in session.get_inputs()]
    if wanted is None:
        return inputs
    got = session.run(None, {name: batches[name][0] for name in inputs})[0]
    if not abs(float(got) - wanted) <= 2e-5 * max(1.0, abs(wanted)):
        raise Aside(f"the file's first loss is {float(got)} under ONNX Runtime, {wanted} in PyTorch")
    return inputs


def make(folder, seed, short, optimize, shalec):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    torch.manual_seed(seed)
    model, drawn = tasks.draw(random.Random(seed))
    model.train()
    rng = np.random.default_rng(seed)
    drawn_batches = [model.batch(rng, BATCH) for _ in range(STEPS)]
    batches = {name: np.stack([one[name] for one in drawn_batches]) for name in drawn_batches[0]}
    path = folder / "model.onnx"
    try:
        (steps, trained, _), (exact, exactly, noise) = (train(model, batches, kind) for kind in (torch.float32, torch.float64))
        for got, want in zip(steps, exact):
            if not abs(got["loss"] - want["loss"]) <= 1e-5 or not abs(got["grad_norm"] - want["grad_norm"]) <= 4e-4 * want["grad_norm"]:
                raise Aside(f"PyTorch's f32 run is not its f64 run: {got}, {want}")
        unwritten = {}
        try:
            if shalec:
                unwritten = export_checked(copy.deepcopy(model), path, batches, shalec)
            else:
                export(copy.deepcopy(model), path, batches, optimize)
        except Exception as error:  # any exception of the exporter
            raise Aside(f"torch.onnx.export: {type(error).__name__} {str(error)[:200]}") from error
        if short:
            shorten_traces(path)
        normalizes = any(isinstance(part, torch.nn.modules.batchnorm._BatchNorm) for part in model.modules())
        inputs = list(batches) if shalec else check_file(path, batches, None if normalizes else steps[0]["loss"])
    except Aside as why:
        (folder / "aside.txt").write_text(f"{why}\n{json.dumps(drawn)}\n")
        raise
    save_safetensors(folder / "batches.safetensors", {name: batches[name] for name in inputs})
    frozen = "|".join(re.escape(name) for name, value in model.named_parameters() if not value.requires_grad)
    flags = [] if shalec else ["--keep-prefix", *model.flags, *(["--freeze", f"^({frozen})$"] if frozen else [])]
    (folder / "trajectory.json").write_text(json.dumps({
        **unwritten, "seed": seed, "module": drawn, "flags": ["--dim", f"batch={BATCH}", *flags],
        "optimizer": OPTIMIZER, "clip_grad_norm": 1.0, "steps": steps, "parameters": describe_parameters(model, trained, exactly, STEPS * OPTIMIZER["lr"], noise)}, indent=1) + "\n")
    return drawn


def main():
    p = argparse.ArgumentParser()
    p.add_argument("folder", type=pathlib.Path)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--count", type=int, default=1)
    p.add_argument("--seeds", type=lambda text: [int(word) for word in text.split(",")])
    p.add_argument("--short-traces", action="store_true", help="without the folders of source files")
    p.add_argument("--shalec", type=pathlib.Path, help="export by shale.export, with this compiler")
    p.add_argument("--no-optimize", action="store_true", help="export with optimize=False")
    a = p.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    for seed in a.seeds or range(a.seed, a.seed + a.count):
        try:
            print(f"{seed:05}: {json.dumps(make(a.folder / f'{seed:05}', seed, a.short_traces, not a.no_optimize, a.shalec))}", flush=True)
        except Aside as why:
            print(f"{seed:05}: set aside: {why}", flush=True)


if __name__ == "__main__":
    main()
