#!/usr/bin/env python3
"""Writes tiny models of `transformers` and of plain torch.nn (own.py), randomly initialized, as ONNX files, with PyTorch's first 20 training
steps. Needs torch, transformers, onnxscript and onnxruntime.

usage: export.py FOLDER [--only NAME,..] [--torchscript | --traced --shalec FILE] [--part 0/2] [--list]

A case is FOLDER/MODEL[-mask][-raw|-bf16|-traced|-derived|-tsOPSET[-unfolded|-training]]: model.onnx as torch.onnx.export writes it by default (in one file),
batches.safetensors, and trajectory.json with shalec's flags, the optimizer, losses (before the update), gradient norms (before clipping), and
the bars. -mask: the model is exported with attention_mask. Rows of the batches are padded, those of decoders also on the left, with labels of
-100. BERT always has masks and token types. -bf16: parameters are bf16 in the file; the recorded run has the same rounded parameters in f32.
-raw: exported with optimize=False. -ts17: the TorchScript exporter (dynamo=False) with opset 17, and no rows padded on the left, since that exporter drops padding_idx; -unfolded: without constant folding; -training: in training mode, compiled with
--dropout off. Opset 13 has no fused attention, so that it is written out (eager). -traced and -derived: by shale.export with these gradients and
the first batch, compared by the compiler that --shalec names.
"""
import argparse
import contextlib
import copy
import io
import json
import logging
import os
import pathlib
import re
import sys
import warnings

import onnx
import torch

HERE = pathlib.Path(__file__).resolve().parent
TOOLS = HERE.parents[2] / "tools"
sys.path += [str(HERE), str(HERE.parent / "modules"), str(HERE.parents[1] / "e2e" / "lib"), str(TOOLS / "export"), str(TOOLS / "python")]
os.environ.setdefault("HF_HUB_OFFLINE", "1")
import models  # noqa: E402
from batches import BATCH, OWN, STEPS, TARGETS, build, sizes  # noqa: E402
from models import SEQUENCE  # noqa: E402
from runner import largest, save_safetensors  # noqa: E402

LR, BETAS, EPS, DECAY, CLIP = 1e-3, (0.9, 0.95), 1e-8, 0.1, 1.0
LOSS, NORM, HALF = 2e-5, 1e-4, 0.02
FORMS = ("ts13", "ts17", "ts17-unfolded", "ts17-training")
WAYS = ("traced", "derived")  # of shale.export


def step(model, optimizer, batches, index, kind):
    feeds = [torch.from_numpy(value[index]) for value in batches.values()]
    feeds = [value.to(kind) if value.is_floating_point() else value for value in feeds]
    optimizer.zero_grad()
    loss = model(*feeds)
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
    optimizer.step()
    return {"loss": loss.item(), "grad_norm": norm.item()}


def train(model, batches, kind, copied=True):
    """PyTorch's steps. A copy of a module does not have the hooks of its parameters."""
    model = (copy.deepcopy(model) if copied else model).to(kind)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR, betas=BETAS, eps=EPS, weight_decay=DECAY)
    # The fused attention of CPUs has wrong gradients in rows that see no key: those left of the first token of a padded row.
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        return [step(model, optimizer, batches, index, kind) for index in range(STEPS)]


def export(model, batches, path, words):
    """Exports with dynamo's exporter, or with TorchScript's if a word names an opset (ts17)."""
    feeds = tuple(torch.from_numpy(value[0].copy()) for value in batches.values())
    half = next(model.parameters()).dtype
    feeds = tuple(value.to(half) if value.is_floating_point() else value for value in feeds)
    opset = next((int(word[2:]) for word in words if word.startswith("ts")), None)
    way = next((word for word in words if word in WAYS), None)
    hidden = io.StringIO()
    with contextlib.redirect_stdout(hidden), contextlib.redirect_stderr(hidden):
        if way:
            import shale
            shale.export(model, path, batch=dict(zip(batches, feeds)), gradients=way)
            return
        if opset is None:
            named = {name: torch.export.Dim(name) for name in ("batch", "sequence", "targets")}
            shapes = tuple({at: named[name] for at, name in names.items()} for names in sizes(batches).values())
            torch.onnx.export(model, feeds, path, dynamo=True, dynamic_shapes=shapes, external_data=False, optimize="raw" not in words)
            return
        if opset < 14 and hasattr(model.model, "set_attn_implementation"):
            model.model.set_attn_implementation("eager")
        mode = torch.onnx.TrainingMode.TRAINING if "training" in words else torch.onnx.TrainingMode.EVAL
        torch.onnx.export(model, feeds, path, dynamo=False, opset_version=opset, do_constant_folding="unfolded" not in words, training=mode,
                          input_names=list(batches), output_names=["loss"], dynamic_axes=sizes(batches))
        model.eval()


def check_file(path, batches, wanted):
    """How much the first loss of the file differs under ONNX Runtime, or None if that cannot run it (it has no kernels for bf16). Later batches
    of decoders have rows that see no key, in which the file's attention is not PyTorch's."""
    import onnxruntime
    try:
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    except Exception:
        return None
    got = session.run(None, {one.name: batches[one.name][0] for one in session.get_inputs()})[0]
    return abs(float(got) - wanted)


def flags_of(path, model, words):
    """shalec's flags: sizes of the dimensions that the exporter left open, and parameters that are not trained, in files of
    TorchScript's exporter also buffers: they look like parameters. Weights of equal elements are tied in all these models. Files of shale.export
    need sizes only."""
    inputs = onnx.load(path).graph.input
    named = {size.dim_param for one in inputs for size in one.type.tensor_type.shape.dim if size.dim_param}
    lengths = {"batch": BATCH, "sequence": SEQUENCE, "targets": TARGETS}
    flags = [word for name, length in lengths.items() if name in named for word in ("--dim", f"{name}={length}")]
    if any(word in WAYS for word in words):
        return flags
    scripted = any(word.startswith("ts") for word in words)
    merged = None if scripted or "raw" in words else models.MERGED.get(words[0])  # an operation that the exporter merged
    frozen = [name for name, one in model.named_parameters() if not one.requires_grad]
    frozen += [name for name in model.state_dict() if scripted and name in dict(model.named_buffers())]
    frozen = [re.escape(name.partition(".")[2]) + "$" for name in frozen]
    return flags + (["--freeze", "|".join(frozen)] if frozen else []) + (["--assume-merged", merged] if merged else []) + (["--assume-tied", "true"] if scripted else [])


def make(folder, case):
    """Writes one case. Returns a line for the log."""
    words = case.split("-")
    half = "bf16" in words
    scripted = any(word.startswith("ts") for word in words)
    model, batches = build(words[0], "mask" in words, left=not scripted)
    if half:
        model = model.to(torch.bfloat16)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "model.onnx"
    has_experts = getattr(getattr(model, "model", None), "_can_set_experts_implementation", lambda: False)()
    if has_experts and any(word in WAYS for word in words):
        model.model.set_experts_implementation("grouped_mm")
    export(model, batches, path, words)
    if has_experts:
        model.model.set_experts_implementation("batched_mm")  # PyTorch's grouped matmul has no f64
    steps, exact = train(model, batches, torch.float32), train(model, batches, torch.float64)
    drift = largest(abs(got["loss"] - want["loss"]) for got, want in zip(steps, exact))
    off = None if half or any(word in ("training", *WAYS) for word in words) else check_file(path, batches, steps[0]["loss"])
    flags = flags_of(path, model, words)
    flags += ["--dropout", "off"] if "training" in words else []
    save_safetensors(folder / "batches.safetensors", batches)
    (folder / "trajectory.json").write_text(json.dumps({
        "flags": flags, "optimizer": {"name": "AdamW", "lr": LR, "betas": BETAS, "eps": EPS, "weight_decay": DECAY}, "clip_grad_norm": CLIP,
        "loss_bar": HALF if half else LOSS, "norm_bar": None if half else NORM,
        "steps": steps}, indent=1) + "\n")
    said = f"loss {steps[0]['loss']:.4f} -> {steps[-1]['loss']:.4f}, f32 and f64 differ by {drift:.1e}, ONNX Runtime by {off if off is None else format(off, '.1e')}"
    if off is not None and off > LOSS:
        (folder / "aside.txt").write_text(said + "\n")
        (folder / "trajectory.json").unlink()
        return f"set aside: {said}"
    return f"{path.stat().st_size} bytes, {said}"


def scripted_cases(name, case):
    forms = [form for form in FORMS if not (name in OWN and form == "ts13")]  # their attention cannot be written out
    if name in models.FOLDED:
        forms = ["ts13-unfolded", "ts17-unfolded", "ts17-training-unfolded"]
    return [f"{case}-{form}" for form in forms]


def all_cases(scripted, traced):
    names = [name for kind in models.KINDS for name in kind]
    maskable = [name for kind in models.MASKABLE for name in kind]
    if traced:
        return [f"{name}-{way}" for name in [*names, *OWN] for way in WAYS if way == "traced" or name not in models.UNDERIVED]
    names = [name for name in names if name not in models.EXPORTED]
    plain = [word for name in names for word in ((name, f"{name}-mask") if name in maskable else (name,))] + list(OWN)
    if scripted:
        wanted = [name for name in [*names, *OWN] if name not in models.UNSCRIPTED]
        return [case for name in wanted for case in scripted_cases(name, f"{name}-mask" if name in maskable else name)]
    plain = [f"{name}-{word}" if (word := models.ALWAYS.get(name.partition("-")[0])) else name for name in plain]
    return plain + [f"{name}-bf16" for name in plain]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("folder", type=pathlib.Path, nargs="?")
    p.add_argument("--only", type=lambda text: text.split(","))
    p.add_argument("--part", default="0/1", help="N/OF: every OF-th case from the N-th on")
    p.add_argument("--torchscript", action="store_true", help="the cases of that exporter")
    p.add_argument("--traced", action="store_true", help="the cases of shale.export, with traced and with derived gradients")
    p.add_argument("--shalec", type=pathlib.Path, help="the compiler for --traced")
    p.add_argument("--list", action="store_true", help="print the names of all cases")
    a = p.parse_args()
    part, of = map(int, a.part.split("/"))
    cases = (a.only or all_cases(a.torchscript, a.traced))[part::of]
    if a.list or not a.folder:
        print("\n".join(cases))
        return
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    if a.shalec:
        os.environ["PATH"] = f"{a.shalec.resolve().parent}{os.pathsep}{os.environ['PATH']}"
    failed = 0
    for case in cases:
        try:
            print(f"{case}: {make(a.folder / case, case)}", flush=True)
        except Exception as error:  # any exception of the exporter
            failed += 1
            print(f"{case}: FAILED {type(error).__name__}: {str(error)[:300]}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
