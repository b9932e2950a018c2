#!/usr/bin/env python3
"""Writes random transformer modules as ONNX files, with PyTorch's first steps of training each. Needs torch, onnxscript and
onnxruntime.

usage: export.py FOLDER [--seed 0] [--count 1 | --seeds N,..] [--set KEY=VALUE]... [--plain] [--no-traces] [--describe]

FOLDER/SEED/ gets model.onnx (torch.onnx.export with its default settings), batches.safetensors and trajectory.json: the
module (draw.py), the flags that shalec needs, the optimizer, losses (before the update) and gradient norms (before clipping) of
four steps, and the parameters: names (several of a tied one), and the trained values as their product with cos(0), cos(1), ..
--set gives a key of draw.CHOICES another value than the drawn one, --plain starts from the plain
module, --no-traces takes the Python stack traces out of the file's metadata, which are 40 % of a small file.

A case is set aside, with FOLDER/SEED/aside.txt instead, where the exported file's first loss under ONNX Runtime is not PyTorch's,
where PyTorch's own f32 run is not that of f64, or where torch.onnx.export fails.
"""
import argparse
import contextlib
import copy
import io
import json
import logging
import pathlib
import shutil
import sys
import warnings

import numpy as np
import onnx
import onnxruntime
import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE), str(HERE.parent), str(HERE.parents[1] / "e2e" / "lib")]
import draw  # noqa: E402
import module  # noqa: E402
from drawn import Aside, describe_parameters, shorten_traces  # noqa: E402
from runner import save_safetensors  # noqa: E402

STEPS = 4
BETAS, EPS = (0.9, 0.95), 1e-8


def named(c):
    """The model with the input names of its file."""
    names = c["names"] if c["loss_in_graph"] else c["names"].split(",")[0]
    forward = eval(f"lambda self, {names}: module.Model.forward(self, {names})", {"module": module})
    return type("Model", (module.Model,), {"forward": forward})(c)


def draw_batches(c, seed):
    """Tokens and labels [STEPS, batch, sequence], padded on the right if the module supports padding."""
    rng = np.random.default_rng(seed)
    length, vocabulary = c["sequence"], c["vocabulary"]
    text = rng.geometric(0.08, (STEPS, c["batch"], length + 1)) % (vocabulary - 1) + 1
    text = text.astype(np.int64)
    if c["mask"] == "padding" or c["positions"] == "cumsum" or c["loss"] == "ignore_pad":
        lengths = rng.integers(2, length + 2, (STEPS, c["batch"]))
        text[np.arange(length + 1) >= lengths[..., None]] = 0
    shifted = c["loss"].startswith("shifted")
    tokens, labels = text[..., :-1], text[..., :-1 if shifted else None][..., 0 if shifted else 1:].copy()
    if c["ignored"]:
        none = 0 if c["loss"] == "ignore_pad" else -100
        labels[rng.random(labels.shape) < rng.random(labels.shape[:2])[..., None] * 0.8] = none
        labels[:, 1] = none  # a row without any label
    return np.ascontiguousarray(tokens), labels


def train(c, model, tokens, labels, kind):
    """Losses and gradient norms of the steps, and the trained parameters by name."""
    model = copy.deepcopy(model).to(kind)
    optimizer = torch.optim.AdamW(model.parameters(), lr=c["lr"], betas=BETAS, eps=EPS, weight_decay=c["weight_decay"])
    steps = []
    for x, y in zip(torch.from_numpy(tokens), torch.from_numpy(labels)):
        optimizer.zero_grad()
        loss = module.Model.forward(model, x, y)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), c["clip"] or float("inf"))
        optimizer.step()
        steps.append({"loss": loss.item(), "grad_norm": norm.item()})
    return steps, {name: value.detach().double().flatten().numpy() for name, value in model.named_parameters()}


def export(c, model, path, arguments, optimize):
    """Writes the file as torch.onnx.export does by default or with optimize=False, but as one file."""
    batch = torch.export.Dim("batch")
    hidden = io.StringIO()
    with contextlib.redirect_stdout(hidden), contextlib.redirect_stderr(hidden):
        torch.onnx.export(model, arguments, path, dynamo=True, dynamic_shapes=tuple({0: batch} for _ in arguments), external_data=False, optimize=optimize)


def check_file(path, feeds, wanted):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    inputs = [one.name for one in session.get_inputs()]
    got = session.run(None, dict(zip(inputs, feeds)))[0]
    off = float(np.abs(got - wanted).max())
    if not off <= 2e-5 * max(1.0, float(np.abs(wanted).max())):
        raise Aside(f"the file's first result is off by {off:.1e} under ONNX Runtime")


def shalec_flags(c, path):
    graph = onnx.load(path).graph
    _, labels = c["names"].split(",")
    flags = ["--dim", f"batch={c['batch']}"]
    if not c["loss_in_graph"]:
        flags += ["--loss", f"cross-entropy:{graph.output[0].name},{labels}"]
    if c["bind"]:
        flags += ["--bind", f"{labels}={'tokens' if c['loss'].startswith('shifted') else 'tokens+1'}"]
    return flags


def make(folder, seed, changes, base=None, short=False, optimize=True):
    """Writes a case and returns its module. Raises Aside if the case is set aside."""
    c = dict(base or draw.draw(seed))
    c.update(changes)
    draw.constrain(c)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    torch.manual_seed(seed)
    model = named(c).train(c["training"])
    tokens, labels = draw_batches(c, seed)
    names = c["names"].split(",")
    try:
        if len(np.unique(labels[0])) < 2:
            raise Aside("no labels")
        (steps, trained), (exact, exactly) = (train(c, model, tokens, labels, kind) for kind in (torch.float32, torch.float64))
        for got, want in zip(steps, exact):
            if not abs(got["loss"] - want["loss"]) <= 1e-5 or not abs(got["grad_norm"] - want["grad_norm"]) <= 4e-4 * want["grad_norm"]:
                raise Aside(f"PyTorch's f32 run is not its f64 run: {got}, {want}")
        arguments = [torch.from_numpy(value[0].copy()) for value in (tokens, labels)][:2 if c["loss_in_graph"] else 1]
        path = folder / "model.onnx"
        try:
            export(c, model, path, tuple(arguments), optimize)
        except Exception as error:  # any exception of the exporter
            raise Aside(f"torch.onnx.export: {type(error).__name__} {str(error)[:200]}") from error
        if short:
            shorten_traces(path)
        with torch.no_grad():
            check_file(path, [value.numpy() for value in arguments], model(*arguments).numpy())
    except Aside as why:
        (folder / "aside.txt").write_text(f"{why}\n{json.dumps(c)}\n")
        raise
    save_safetensors(folder / "batches.safetensors", {names[0]: tokens, names[1]: labels})
    (folder / "trajectory.json").write_text(json.dumps({
        "seed": seed, "module": c, "flags": shalec_flags(c, path),
        "optimizer": {"name": "AdamW", "lr": c["lr"], "betas": BETAS, "eps": EPS, "weight_decay": c["weight_decay"]},
        "clip_grad_norm": c["clip"], "steps": steps, "parameters": describe_parameters(model, trained, exactly, STEPS * c["lr"])}, indent=1) + "\n")
    return c


def parse(text):
    key, value = text.split("=", 1)
    return key, next(choice for choice in draw.CHOICES[key] + draw.LOST.get(key, ()) if str(choice) == value)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("folder", type=pathlib.Path)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--count", type=int, default=1)
    p.add_argument("--seeds", type=lambda text: [int(word) for word in text.split(",")])
    p.add_argument("--short-traces", action="store_true", help="without the folders of source files")
    p.add_argument("--no-optimize", action="store_true", help="export with optimize=False")
    p.add_argument("--set", action="append", default=[], type=parse)
    p.add_argument("--plain", action="store_true")
    p.add_argument("--describe", action="store_true", help="print the modules, write nothing")
    a = p.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    aside, seeds = 0, a.seeds or list(range(a.seed, a.seed + a.count))
    for seed in seeds:
        base = draw.plain() if a.plain else draw.draw(seed)
        if a.describe:
            print(seed, draw.constrain({**base, **dict(a.set)}))
            continue
        try:
            make(a.folder / f"{seed:05}", seed, dict(a.set), base, a.short_traces, not a.no_optimize)
        except Aside as why:
            aside += 1
            print(f"{seed:05} set aside: {why}", flush=True)
    print(f"{len(seeds) - aside} written, {aside} set aside")


if __name__ == "__main__":
    main()
