#!/usr/bin/env python3
"""Exports models with tools/export/export.py as a user would, and records PyTorch's first 20 steps of each. Needs torch and the
other packages of tools/export/requirements.txt.

usage: export.py FOLDER [--only NAME,..]

Cases of users.py, layers.py and folded.py are exported by shale.export, the others by export.py. A case is FOLDER/NAME: model.onnx, batches.safetensors and trajectory.json, which test/e2e/e2e modules --cases FOLDER --meshes 0,1
trains. The script also checks errors, and tokens.py with a tokenizer: the pieces of a text must have the tokens of the whole text. Exits with
0 if all checks pass.
"""
import argparse
import contextlib
import importlib.util
import io
import json
import logging
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import torch
import transformers

HERE = pathlib.Path(__file__).resolve().parent
TOOLS = HERE.parents[2] / "tools" / "export"
sys.path += [str(HERE.parents[1] / "e2e" / "lib"), str(TOOLS), str(HERE.parents[2] / "tools" / "python")]
from runner import save_safetensors  # noqa: E402


def load(name, path):
    """Imports a script by its path, since several have the same name."""
    found = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(found)
    sys.path.insert(0, str(path.parent))
    found.loader.exec_module(module)
    sys.path.pop(0)
    return module


hf = load("hf_export", HERE.parent / "hf" / "export.py")
batches, models = sys.modules["batches"], sys.modules["models"]  # which it imported
own = load("exported_own", HERE / "own.py")
untraced = load("exported_untraced", HERE / "untraced.py")
layers = load("exported_layers", HERE / "layers.py")
folded = load("exported_folded", HERE / "folded.py")
users = sys.modules["users"]
operators = load("exported_operators", HERE / "operators.py")
gradients = load("exported_backward", HERE / "backward.py")
functions = load("exported_functions", HERE / "functions.py")
sys.path.append(str(TOOLS))
from shale_export import translations  # noqa: E402
from shale_export.operators import OPERATORS  # noqa: E402
from shale_export.rows import Rewriting  # noqa: E402
table = load("shale_export_backward", TOOLS / "shale_export" / "backward.py").TABLE


class OwnLoss(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens, labels):
        return self.model(tokens, labels)[1]


def undropped(module):
    """The module in training mode, without dropout, as `shalec --dropout off` compiles its file."""
    for one in module.train().modules():
        if isinstance(one, torch.nn.Dropout):
            one.p = 0.0
    return module


def own_module(name, of=lambda: OwnLoss(own.Own())):
    torch.manual_seed(0)
    text = batches.text(np.random.default_rng(0), (hf.STEPS, hf.BATCH, hf.SEQUENCE + 1))
    return undropped(of()), {"tokens": text[..., :-1].copy(), name: text[..., 1:].copy()}


def untraced_module(kind):
    torch.manual_seed(0)
    text = batches.text(np.random.default_rng(0), (hf.STEPS, hf.BATCH, hf.SEQUENCE + 1))
    return kind(), {"tokens": text[..., :-1].copy(), "targets": text[..., 1:].copy()}


def masked_module():
    torch.manual_seed(0)
    steps = [own.masked_batch(seed) for seed in range(hf.STEPS)]
    return own.Masked().eval(), {name: np.stack([one[name].numpy() for one in steps]) for name in steps[0]}


def folder_of(module, work, kind):
    module.model.to(kind).save_pretrained(work / "model")
    return [str(work / "model")]


def config_of(module, work):
    (work / "config.json").write_text(module.model.config.to_json_string(use_diff=False))
    return ["--config", str(work / "config.json")]


# name: (PyTorch's module and batches, arguments of export.py)
CASES = {
    "gpt2-folder": lambda work: (made := hf.build("gpt2", False), folder_of(made[0], work, torch.float32)),
    "llama-config": lambda work: (made := hf.build("llama", False), config_of(made[0], work)),
    "llama-settings": lambda work: (hf.build("llama", False), ["--config", "model_type=llama", "num_key_value_heads=2"]
                                    + [f"{name}={value}" for name, value in {**models.WIDTH, **models.TOKENS}.items()]),
    "qwen3-mask-bf16": lambda work: (made := hf.build("qwen3", True), folder_of(made[0], work, torch.bfloat16) + ["--attention-mask", "--dtype", "bf16"]),
    "bert": lambda work: (made := hf.build("bert", True), folder_of(made[0], work, torch.float32)),
    "vit": lambda work: (made := hf.build("vit", False), folder_of(made[0], work, torch.float32)),
    "own": lambda work: (own_module("targets"), [f"{HERE / 'own.py'}:Own"]),
    "own-optimized": lambda work: (own_module("targets"), [f"{HERE / 'own.py'}:Own", "--optimize"]),
    "own-external": lambda work: (own_module("targets"), [f"{HERE / 'own.py'}:Own", "--external-data"]),
    "own-smoothed": lambda work: (own_module("targets", own.Smoothed), [f"{HERE / 'own.py'}:Smoothed"]),
    "own-normalized": lambda work: (own_module("targets", own.Normalized), [f"{HERE / 'own.py'}:Normalized"]),
    "own-frozen": lambda work: (own_module("targets", own.Frozen), [f"{HERE / 'own.py'}:Frozen"]),
    "own-balanced": lambda work: (own_module("targets", own.Balanced), [f"{HERE / 'own.py'}:Balanced"]),
    "own-sorted": lambda work: (own_module("targets", own.Sorted), [f"{HERE / 'own.py'}:Sorted"]),
    "own-batch": lambda work: (masked_module(), [f"{HERE / 'own.py'}:Masked", "--batch", f"{HERE / 'own.py'}:masked_batch"]),
    "own-logits": lambda work: (own_module("labels"), [f"{HERE / 'own.py'}:Logits", "--loss", "next-token"]),
    **{f"untraced-{kind.__name__}": lambda work, kind=kind: (untraced_module(kind), [f"{HERE / 'untraced.py'}:{kind.__name__}"]) for kind in untraced.CLASSES},
}
REFUSED = [  # exit code, words, arguments
    (65, ["not the module"], ["own.py:Random", "--input", "tokens=int64[batch,sequence]"]),
    (65, ["does not train the module", "'blocks.0.up.weight'"], ["own.py:Hooked", "--gradients", "derived"]),
    (65, ["does not train the module", "'inner."], ["own.py:Gated", "--gradients", "derived"]),
    (65, ["nothing to train"], ["own.py:Unasked"]),
    (65, ["does not train the module", "'embedding.weight'"], ["own.py:Reversed", "--gradients", "derived"]),
    (65, ["exported under torch.no_grad() or torch.autocast()"], ["own.py:Hidden", "--gradients", "derived"]),
    (65, ["does not train the module", "'blocks.0.up."], ["own.py:Inferred", "--gradients", "derived"]),
    (65, ["own.py:", "Own.__init__() got an unexpected keyword"], ["own.py:Broken"]),
    (65, ["'embedding' has max_norm", "max_norm=None"], ["own.py:Renormalized", "--no-check"]),
    (65, ["--fixed sequence", "'tokens'"], ["own.py:Fixed"]),
    (65, ["neither PyTorch's exporter nor Shale writes the operator aten._linalg_svd, which module 'model' (Singular) computes"], ["own.py:Singular", "--gradients", "traced"]),
    (65, ["own.py:", "loss > 3", "torch.where()"], ["own.py:Branch"]),
    (65, ["depends on the size 'batch'", "own.py:", "len(tokens) < 100", "--fixed batch"], ["own.py:LargeBatch", "--gradients", "traced"]),
    (65, ["own.py:", "mask.any()", "leave out an if"], ["own.py:Skipped"]),
    (65, ["rows that a mask chooses go through 'shape'", "chosen.shape[0]", "torch.where()"], ["own.py:Counted"]),
    (65, ["rows that a mask chooses go through 'sort'", "torch.where()"], ["own.py:Ordered"]),
    (65, ["the module's loss on random values is nan", "--batch"], ["own.py:Undefined"]),
    (65, ["writes the operator aten._linalg_eigh", "torch.linalg.eigvalsh"], ["own.py:Principal"]),
    (65, ["nothing to train", "torch.no_grad()"], ["own.py:Constant"]),
    (65, ["--loss next-token"], ["own.py:Logits"]),
    (65, ["has no 'Nothing'", "Own"], ["own.py:Nothing"]),
    (65, ["cannot be called", "--arg"], ["own.py:Own", "--arg", "depth=3"]),
    (64, ["forward of Own takes tokens, targets"], ["own.py:Own", "--input", "labels=int64[batch]"]),
    (66, ["'nothing.py' does not exist"], ["nothing.py:Own"]),
    (65, ["gpt9"], ["--config", "model_type=gpt9"]),
    (64, ["no 'hidden'"], ["--config", "model_type=gpt2", "hidden=3"]),
    (65, ["the module fails on random values", "--batch"], ["own.py:Masked", "--input", "x=float32[batch,6,8]", "--input", "pad=bool[batch,6]", "--input", "y=float32[batch,6]"]),
    (65, ["the loss does not depend on 'targets'"], ["own.py:Unlabeled"]),
    (64, ["--batch expects"], ["own.py:Masked", "--batch", "masked"]),
    (66, ["'none.safetensors' does not exist"], ["own.py:Masked", "--batch", "none.safetensors"]),
    (65, ["holds no tensors by name"], ["own.py:Masked", "--batch", "FOLDER/bad.pt"]),
    (65, ["the batch has 'tokens'", "takes x, pad, y"], ["own.py:Masked", "--batch", "own.py:token_batch"]),
    (65, ["'x' of the batch is a scalar"], ["own.py:Masked", "--batch", "own.py:scalar_batch"]),
    (65, ["dimension 'batch' has 4 and 3 in the batch"], ["own.py:Masked", "--batch", "own.py:unequal_batch"]),
    (65, ["dimension 'batch' of the batch has 1"], ["own.py:Masked", "--batch", "own.py:single_batch"]),
    (65, ["--batch own.py:failing_batch cannot be called", "1 / 0"], ["own.py:Masked", "--batch", "own.py:failing_batch"]),
    (65, ["DataLoader", "has no batch"], ["own.py:Masked", "--batch", "own.py:empty_batch"]),
    (65, ["'x' of the batch is a ndarray"], ["own.py:Masked", "--batch", "own.py:odd_batch"]),
    (65, ["FSDP has sharded", "full_state_dict=True"], ["own.py:FullySharded", "--batch", "own.py:masked_batch"]),
    (65, ["forward returns 2 scalars", "first (), second ()"], ["own.py:Twice"]),
    (64, ["--size batch=7: the batch has 4"], ["own.py:Masked", "--batch", "own.py:masked_batch", "--size", "batch=7"]),
    (64, ["--optimize folds the forward graph"], ["own.py:Own", "--optimize", "--gradients", "traced"]),
    (64, ["--shapes-only has none"], ["own.py:Masked", "--batch", "own.py:masked_batch", "--shapes-only"]),
    (64, ["no input has this dimension", "batch, sequence"], ["own.py:Own", "--size", "length=7"]),
]


def tool(name, *words):
    shalec = ["--shalec", HERE.parents[2] / "build" / "bin" / "shalec"] if name == "export.py" and "--shapes-only" not in words else []
    return subprocess.run([sys.executable, TOOLS / name, *map(str, words), *shalec], capture_output=True, text=True, cwd=HERE)


def make(folder, name):
    with tempfile.TemporaryDirectory() as work:
        (module, batches), words = CASES[name](pathlib.Path(work))
        module.float()
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        done = tool("export.py", *words, "-o", folder / "model.onnx")
    if done.returncode or not re.search("deviation" if "bf16" in name else r"gradients of \d+ parameters agree", done.stdout):
        raise RuntimeError(f"exit {done.returncode}: {done.stdout[-300:]}{done.stderr[-800:]}")
    if sorted(path.name for path in folder.iterdir()) != ["model.onnx"] + ["model.onnx.data"] * (name == "own-external"):
        raise RuntimeError(f"{folder} holds {sorted(folder.iterdir())}")
    recorded = {one.key: one.value for one in onnx.load(folder / "model.onnx", load_external_data=False).graph.metadata_props if one.key.startswith("shale")}
    frozen = recorded.pop("shale.frozen", "").splitlines()
    buffers = recorded.pop("shale.buffers", "")
    if buffers != ("average\tnext.average" if name == "untraced-Teacher" else ""):
        raise RuntimeError(f"the file records that these buffers change: {buffers}")
    known = {"shale.wrapper": ("model",), "shale.batch": ("given",), "shale.blocks": ("autocast",)}
    if "shale.wrapper" not in recorded or any(value not in known.get(key, ()) for key, value in recorded.items()):
        raise RuntimeError("the file does not record the module that export.py wraps around the user's")
    if ("embedding.weight\thead.weight" in frozen) != (name == "own-frozen") or len(frozen) != (11 if name == "own-frozen" else 0):
        raise RuntimeError(f"the file records that these parameters are frozen: {frozen}")
    half = "bf16" in name or "Autocast" in name
    steps = hf.train(module, batches, torch.float32, copied=not name.startswith("untraced"))
    save_safetensors(folder / "batches.safetensors", batches)
    dims = [f"batch={hf.BATCH}"] + ([] if name in ("vit", "own-batch") else [f"sequence={hf.SEQUENCE}"])
    (folder / "trajectory.json").write_text(json.dumps({
        "flags": [word for dim in dims for word in ("--dim", dim)] + (["--dropout", "off"] if name.startswith("own") else []),
        "optimizer": {"name": "AdamW", "lr": hf.LR, "betas": hf.BETAS, "eps": hf.EPS, "weight_decay": hf.DECAY}, "clip_grad_norm": hf.CLIP,
        "loss_bar": hf.HALF if half else hf.LOSS, "norm_bar": None if half else hf.NORM, "steps": steps}, indent=1) + "\n")
    return f"{done.stdout.splitlines()[1]}; loss {steps[0]['loss']:.4f} -> {steps[-1]['loss']:.4f}"


USERS = {f"users-{kind.__name__}": kind for kind in (*users.CLASSES, *layers.CLASSES, *folded.CLASSES)}
USER_STEPS = 6


def train_user(kind, model, batches):
    """PyTorch's losses and gradient norms of the batches, as the user calls the module."""
    trained = [one for one in model.parameters() if one.requires_grad]
    optimizer, steps = torch.optim.AdamW(trained, lr=hf.LR, betas=hf.BETAS, eps=hf.EPS, weight_decay=hf.DECAY), []
    for batch in batches:
        optimizer.zero_grad()
        loss = kind.call(model, batch)
        loss.backward()
        steps.append({"loss": loss.item(), "grad_norm": torch.nn.utils.clip_grad_norm_(trained, hf.CLIP).item()})
        optimizer.step()
    return steps


def make_user(folder, kind):
    import shale
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    os.environ["PATH"] = f"{HERE.parents[2] / 'build' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    torch.manual_seed(0)
    generator, model, again = torch.Generator().manual_seed(1), kind.make().train(), kind.make().train()
    batches = [kind.batch(generator, step) for step in range(USER_STEPS)]
    again.load_state_dict(model.state_dict())
    wrapped, hidden = kind.wrap(again), io.StringIO()
    with contextlib.redirect_stderr(hidden):
        shale.export(wrapped, folder / "model.onnx", batch=kind.given(batches[0]), **kind.export)
    save_safetensors(folder / "batches.safetensors", {name: np.stack([kind.named(one)[name].numpy() for one in batches]) for name in kind.named(batches[0])})
    steps = train_user(kind, model, batches)
    trained = [name for name, one in kind.saved(model).items() if one.requires_grad or kind.saved is not users.Case.saved]
    (folder / "trajectory.json").write_text(json.dumps({
        "flags": kind.dims, "refused": kind.refused, "optimizer": {"name": "AdamW", "lr": hf.LR, "betas": hf.BETAS, "eps": hf.EPS, "weight_decay": hf.DECAY}, "clip_grad_norm": hf.CLIP,
        "steps": steps, "parameters": [{"names": [name], "size": 1, "product": 0.0, "tolerance": None} for name in trained]}, indent=1) + "\n")
    return f"loss {steps[0]['loss']:.4f} -> {steps[-1]['loss']:.4f}; {hidden.getvalue().count('note: ')} notes"


def check_refused(folder):
    (folder / "refused.onnx").unlink(missing_ok=True)
    (folder / "bad.pt").write_bytes(b"no tensors")
    for code, words, arguments in REFUSED:
        done = tool("export.py", *(word.replace("FOLDER", str(folder)) for word in arguments), "-o", folder / "refused.onnx")
        missing = [word for word in words if word not in done.stderr]
        if done.returncode != code or missing or "Traceback" in done.stderr:
            raise RuntimeError(f"{arguments}: exit {done.returncode}, not {code}; without {missing}\n{done.stderr[-800:]}")
    if list(folder.glob("*refused*")):
        raise RuntimeError("a refused model left a file")
    return f"{len(REFUSED)} refused with a way on"


def check_shapes(folder):
    """Exports a model of 16 billion parameters without weights."""
    path = folder / "shapes.onnx"
    sizes = {"hidden_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 64, "num_key_value_heads": 8, "intermediate_size": 28672, "vocab_size": 128256}
    done = tool("export.py", "--config", "model_type=llama", *(f"{name}={size}" for name, size in sizes.items()), "--shapes-only", "--dtype", "bf16", "-o", path)
    if done.returncode or path.stat().st_size > 32 << 20 or "15,791,824,896 parameters" not in done.stdout:
        raise RuntimeError(f"--shapes-only: exit {done.returncode}, {done.stdout}{done.stderr[-800:]}")
    (folder / "shapes.txt").write_text(done.stdout)
    return f"{path.stat().st_size} bytes"


def check_draws(folder):
    """A module that draws random numbers is exported without a comparison, and shalec takes the file."""
    path = folder / "drawn.onnx"
    done = tool("export.py", "own.py:Drawn", "-o", path)
    if done.returncode or "draws random numbers" not in done.stdout + done.stderr:
        raise RuntimeError(f"a module of random numbers: exit {done.returncode}, {done.stdout}{done.stderr[-800:]}")
    program = subprocess.run([HERE.parents[2] / "build" / "bin" / "shalec", path, "--dim", "batch=4", "--dim", "sequence=8", "-o", folder / "drawn"], capture_output=True, text=True)
    if program.returncode:
        raise RuntimeError(f"shalec ends with {program.returncode}: {program.stderr[-800:]}")
    return "a program that draws"


def check_tokens(folder):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import AutoTokenizer, PreTrainedTokenizerFast
    text = HERE.parent / "data" / "tinyshakespeare.txt"
    made = Tokenizer(models.BPE())
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    made.train([str(text)], trainers.BpeTrainer(vocab_size=400, special_tokens=["<end>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<end>").save_pretrained(folder / "tokenizer")
    wanted = AutoTokenizer.from_pretrained(folder / "tokenizer")(text.read_text())["input_ids"] + [0]
    tokens = load("export_tokens", TOOLS / "tokens.py")
    tokens.PIECE = 1 << 14
    if len(list(tokens.pieces(text, tokens.Tokenizer(folder / "tokenizer")))) < 50:
        raise RuntimeError("the text is not cut")
    for flags in ((), ("--dtype", "uint32")):
        arguments = tokens.arguments().parse_args([str(text), "-o", str(folder / "t.bin"), "--tokenizer", str(folder / "tokenizer"), "--end-of-text", *flags])
        tokens.write(arguments, tokens.Tokenizer(folder / "tokenizer"), 400, "I" if flags else "H", folder / "t.bin")
        if np.fromfile(folder / "t.bin", "<u4" if flags else "<u2").tolist() != wanted:
            raise RuntimeError("pieces of a text do not have the tokens of the whole")
    done = tool("tokens.py", text, "-o", folder / "none.bin", "--tokenizer", folder / "tokenizer", "--vocabulary", 399)
    if done.returncode != 65 or "token 399" not in done.stderr or (folder / "none.bin").exists():
        raise RuntimeError(f"a token above the vocabulary: exit {done.returncode}, {done.stderr[-600:]}")
    return f"{len(wanted)} tokens, in pieces as in the whole"


def main():
    p = argparse.ArgumentParser()
    p.add_argument("folder", type=pathlib.Path)
    p.add_argument("--only", type=lambda text: text.split(","), default=[*CASES, *USERS, "backward", "draws", "functions", "operators", "refused", "shapes", "tokens"])
    a = p.parse_args()
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    a.folder = a.folder.resolve()
    a.folder.mkdir(parents=True, exist_ok=True)
    failed = 0
    for name in a.only:
        try:
            others = {"backward": lambda _: gradients.check(table), "draws": check_draws, "functions": lambda _: functions.check(translations),
                      "operators": lambda _: operators.check(OPERATORS, Rewriting), "refused": check_refused, "shapes": check_shapes, "tokens": check_tokens}
            print(f"{name}: {others[name](a.folder) if name in others else make_user(a.folder / name, USERS[name]) if name in USERS else make(a.folder / name, name)}", flush=True)
        except Exception as error:
            failed += 1
            print(f"{name}: FAILED {type(error).__name__}: {error}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
