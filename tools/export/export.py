#!/usr/bin/env python3
"""Exports a model for shalec: an ONNX file whose output is the loss, with symbolic sizes.

  export.py gpt2 -o gpt2.onnx                            a model of transformers, by name or folder, with its weights
  export.py --config model_type=llama hidden_size=64 num_hidden_layers=2 num_attention_heads=4 -o tiny.onnx
                                                         the same with random weights, from settings or a config.json
  export.py model.py:GPT -o gpt.onnx                     your own module (a class, or a function that returns a module)

Then run: shalec gpt2.onnx -o train --dim batch=8 --dim sequence=512, and ./train --data tokens.bin. By default the forward function of your
own module takes tokens and labels, int64 [batch, sequence], and returns the loss; --input changes this. Before the script writes
the file, it trains the file for one step with Shale, at other sizes than those of the export, and compares the loss and all gradients with
PyTorch's, without dropout. Parameters that do not require a gradient are recorded, and not trained. Without shalec it compares the loss under ONNX Runtime.
"""
import argparse
import contextlib
import pathlib

from shale_export.cli import USAGE, Failure, Parser, check_output, find_shalec, libraries, run
from shale_export.sizes import parse_batch, parse_input, parse_setting, parse_size


def arguments():
    p = Parser(prog="export.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
               epilog="exit codes: 0 done, 64 bad flags, 65 the model cannot be exported or its file is not the model, 66 an input is "
                      "missing, 69 a library is missing (requirements.txt), 74 disk")
    p.add_argument("model", nargs="?", help="a name or folder of transformers, FILE.py:NAME or MODULE:NAME")
    p.add_argument("-o", "--output", required=True, metavar="FILE", help="the file to write; weights above 1 GiB go to FILE.data")
    p.add_argument("--config", nargs="+", metavar="WORD", help="instead of a model: a config.json or its folder, and NAME=VALUE settings; random weights")
    p.add_argument("--task", choices=("causal-lm", "masked-lm", "image"), help="task of a model of transformers (default: the task of its configuration, or causal-lm)")
    p.add_argument("--attention-mask", action="store_true", help="also make attention_mask an input, for batches with padding (always with masked-lm)")
    p.add_argument("--arg", action="append", default=[], type=parse_setting, metavar="NAME=VALUE", help="an argument for your own module's constructor")
    p.add_argument("--input", action="append", default=[], type=parse_input, metavar="NAME=TYPE[DIM,..]",
                   help="an input of your own module, for example images=float32[batch,3,32,32] (default: int64[batch,sequence])")
    p.add_argument("--batch", metavar="SPEC", type=parse_batch, help="a batch of your own in place of random values: FILE.py:NAME or MODULE:NAME, a function without parameters or a "
                   "value, or FILE.safetensors or FILE.pt. It is passed to forward as model(**batch), model(*batch) or model(batch); a DataLoader gives its first batch")
    p.add_argument("--loss", choices=("inside", "next-token"), default="inside", help="inside: forward returns it; next-token: forward returns "
                   "logits, and the file has cross-entropy with an input 'labels', each the token after (default: inside)")
    p.add_argument("--gradients", choices=("auto", "derived", "traced"), default="auto", help="derived: the file has the forward graph, and shalec derives the gradients; "
                   "traced: the file has the gradients that PyTorch's autograd computes, with hooks and functions of your own; auto: traced where derived ones differ (default)")
    p.add_argument("--dtype", choices=("f32", "bf16"), default="f32", help="type of the parameters in the file (default: f32)")
    p.add_argument("--dropout", action="store_true", help="export in training mode, with dropout (default: your own module's mode; evaluation mode for models of transformers)")
    p.add_argument("--size", action="append", default=[], type=parse_size, metavar="NAME=N", help="size of a dimension in the example for the export (default: batch=3, "
                   "sequence=12, others 4); programs have the sizes that shalec --dim says")
    p.add_argument("--fixed", action="append", default=[], metavar="NAME", help="a dimension with a fixed size; auto: each that has only one size in the module")
    p.add_argument("--vocabulary", type=int, metavar="N", help="upper bound of random tokens and labels (default: the model's vocabulary)")
    p.add_argument("--optimize", action="store_true", help="let the exporter fold and merge: the graph is smaller, and shalec must restore parameters")
    p.add_argument("--shapes-only", action="store_true", help="write a file without weights, for shalec --plan-only; needs no memory for weights")
    p.add_argument("--external-data", action="store_true", help="write weights to FILE.data, regardless of their size")
    p.add_argument("--check", action=argparse.BooleanOptionalAction, default=True, help="compare the file with the module in PyTorch (default: yes)")
    p.add_argument("--shalec", metavar="FILE", help="the compiler for the comparison and the next commands (default: shalec on the PATH)")
    p.add_argument("--seed", type=int, default=0, help="seed of random weights and values (default: 0)")
    return p


def check_flags(a):
    if bool(a.model) == bool(a.config):
        raise Failure(USAGE, "give one model: a name, a folder or FILE.py:NAME, or else --config")
    a.own = bool(a.model) and ":" in a.model and not pathlib.Path(a.model).exists()
    if a.own and (not a.model.rpartition(":")[0] or not a.model.rpartition(":")[2].isidentifier()):
        raise Failure(USAGE, f"'{a.model}' is not FILE.py:NAME or MODULE:NAME")
    if a.model and a.model.endswith(".py"):
        raise Failure(USAGE, f"'{a.model}': which class or function of it? Say {a.model}:NAME")
    for flag, used in (("--input", a.input), ("--arg", a.arg), ("--loss", a.loss != "inside")):
        if used and not a.own:
            raise Failure(USAGE, f"{flag} is for your own module (FILE.py:NAME)")
    for flag, used in (("--attention-mask", a.attention_mask), ("--task", a.task)):
        if used and a.own:
            raise Failure(USAGE, f"{flag} is for models of transformers; your own module's forward says what it takes")
    if a.vocabulary is not None and a.vocabulary < 2:
        raise Failure(USAGE, "--vocabulary is at least 2")
    if a.optimize and a.gradients == "traced":
        raise Failure(USAGE, "--optimize folds the forward graph: leave it out with --gradients traced")
    if a.optimize:
        a.gradients = "derived"
    if a.shapes_only and a.external_data:
        raise Failure(USAGE, "--external-data writes weights, and --shapes-only has none")
    if a.shapes_only and a.batch:
        raise Failure(USAGE, "--batch is for a module with values, and --shapes-only has none")
    if a.shapes_only and a.optimize:
        raise Failure(USAGE, "--optimize computes of weights, and --shapes-only has none")
    if a.config:
        source = a.config[0] if "=" not in a.config[0] else None
        a.config = (source, dict(parse_setting(word) for word in a.config[1 if source else 0:]))


def main():
    a = arguments().parse_args()
    check_flags(a)
    output = check_output(a.output)
    with libraries():
        import torch  # noqa: F401
    from shale_export import build, check, file, given, unwrap
    shalec = find_shalec(a.shalec)
    a.batch = given.load(a.batch) if a.batch else None
    with unwrap.unwrapped(build.own_model(a)) if a.own else contextlib.nullcontext() as model:
        built = build.from_module(a, model) if a.own else build.from_transformers(a)
        file.make(a, built, output, shalec)
    check.describe(shalec, output, built.positions if a.shapes_only else None, a.shapes_only)


if __name__ == "__main__":
    run("export.py", main)
