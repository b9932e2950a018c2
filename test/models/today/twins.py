#!/usr/bin/env python3
"""Shows for random training modules that their default export cannot be trained by any importer: another module of the same class, with other
values of the parameters, has the same file and trains otherwise. Needs torch and onnxscript.

usage: twins.py --seeds N,.. [--cases FOLDER] [--files FOLDER]

The exporter computes products, norms, roundings and fused layers of parameters, and writes only the results. A twin of a module has other
parameters with the same results, bit by bit: powers of two that cancel, and signs that a rounding to zero removes. Or it has a detach() in a line
that no operation of the file comes from. The script exports both modules with default settings, compares the files, and trains both in PyTorch as
export.py does. A refusal is proven right if the files are the same, and a loss of four steps differs by more than 5e-5 or a gradient norm by more
than 2e-3 relative: these are the bars of modules.py, so a program made from the file is wrong for one of the two.

All of the files is compared, except for the number in "<eval_with_key>.7": PyTorch counts the code that it generates in a process.

Prints a line per seed, and the number of those that are proven. A seed without a twin may still be impossible to import: CHANGES and LINES are not
complete. --cases has the modules' files, from export.py; otherwise they are exported, too. --files keeps the files.
"""
import argparse
import contextlib
import copy
import linecache
import logging
import math
import pathlib
import random
import re
import sys
import tempfile
import types
import warnings

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch import nn

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import export  # noqa: E402
import parts  # noqa: E402
import tasks  # noqa: E402
from runner import largest  # noqa: E402

LOSS, NORM = 5e-5, 2e-3
TIMES = 16  # a power of two: products with it and quotients by it are exact


# Each yields the tensors of a module and their values in the twin. The first one must not be in the file.

def change_adapters(module):
    """Only the product B A of two small matrices is in the file."""
    if isinstance(module, (parts.LoRALinear, parts.DoRALinear)):
        yield [(module.lora_A, TIMES * module.lora_A), (module.lora_B, module.lora_B / TIMES)]


def change_weight_norm(module):
    """g v / |v| is that of a multiple of v."""
    if "weight" in getattr(module, "parametrizations", {}):
        vectors = module.parametrizations.weight.original1
        yield [(vectors, TIMES * vectors)]


def change_standardized(module):
    """(W - mean) / deviation is that of a multiple of W, if no deviation is clamped."""
    if isinstance(module, parts.StandardizedLinear) and (module.weight.var(dim=1) * module.weight.shape[1]).min() >= 1e-4:
        yield [(module.weight, TIMES * module.weight)]


def change_masked(module):
    """W * mask is that of W / c and c mask. The mask is a buffer, and not in the file either."""
    if isinstance(module, parts.MaskedLinear):
        yield [(module.weight, module.weight / TIMES), (module.mask, TIMES * module.mask)]


def change_rounded(module):
    """A weight that is rounded to zero may have either sign. Both have the same magnitude, of which the scale is the mean."""
    if isinstance(module, parts.BitLinear):
        w = module.weight
        rounded = (w / w.abs().mean().clamp(min=1e-5)).round()
        yield [(w, torch.where(rounded == 0, -w, w))]


def change_lambdas(module):
    """exp(sum(q k)) is that of c q and k / c."""
    if isinstance(module, parts.DifferentialAttention):
        for q, k in ((module.lambda_q1, module.lambda_k1), (module.lambda_q2, module.lambda_k2)):
            yield [(q, TIMES * q), (k, k / TIMES)]


def change_fused(module):
    """A convolution that is fused with a normalization has the weight W g / deviation and the bias (b - mean) g / deviation + beta, which are
    those of W / c, b / c, mean / c and c g. In training the mean and the deviation are those of the batch."""
    if isinstance(module, parts.ConvTrunk) and isinstance(module.norms[1], nn.BatchNorm2d):
        conv, norm = module.conv_2, module.norms[1]
        yield [(conv.weight, conv.weight / TIMES), (conv.bias, conv.bias / TIMES), (norm.running_mean, norm.running_mean / TIMES),
               (norm.weight, TIMES * norm.weight)]


CHANGES = {"adapters": change_adapters, "weight norm": change_weight_norm, "standardized": change_standardized, "masked": change_masked,
           "rounded": change_rounded, "lambdas": change_lambdas, "fused": change_fused}

# A method of parts.py in which lines are replaced, each by one. The exporter merges what blocks compute from one value by equal parameters, and
# keeps the record of the first only: it does not have that a later block reads the value detached.
LINES = {"detached": (parts.Trunk, "forward", {"        first = x\n": "        firsts = [x, x.detach()]\n",
                                               "        for block in self.blocks:\n            x =": "        for block, first in zip(self.blocks, firsts):\n            x ="})}


@contextlib.contextmanager
def other_lines(name):
    """Replaces the lines of LINES, also where tracebacks and the exporter look them up."""
    kind, method, lines = LINES[name]
    text = pathlib.Path(parts.__file__).read_text()
    for old, new in lines.items():
        if text.count(old) != 1 or old.count("\n") != new.count("\n"):
            sys.exit(f"twins.py: parts.py has not once, for {name}: {old}")
        text = text.replace(old, new)
    module, own = types.ModuleType("parts"), getattr(kind, method)
    exec(compile(text, parts.__file__, "exec"), module.__dict__)
    setattr(kind, method, getattr(getattr(module, kind.__name__), method))
    linecache.cache[parts.__file__] = (len(text), None, text.splitlines(True), parts.__file__)
    try:
        yield
    finally:
        setattr(kind, method, own)
        linecache.cache.pop(parts.__file__)


def elements(path):
    """The sorted elements of the initializers of a file."""
    return {np.sort(numpy_helper.to_array(one).ravel()).tobytes() for one in onnx.load(str(path)).graph.initializer}


@torch.no_grad()
def find_changes(model, path):
    """The changes, by name, of tensors that are not in the file, in any order of their elements."""
    known = elements(path)
    return [(name, change) for module in model.modules() for name, changes in CHANGES.items() for change in changes(module)
            if np.sort(change[0][0].detach().numpy().ravel()).tobytes() not in known]


@torch.no_grad()
def twin_of(model, changes):
    memo = {}
    twin = copy.deepcopy(model, memo)
    for tensor, value in (pair for _, change in changes for pair in change):
        memo[id(tensor)].copy_(value)
    return twin


def content(path):
    """The bytes of a file without the numbers of generated code."""
    model = onnx.load(str(path))
    for node in model.graph.node:
        for prop in node.metadata_props:
            prop.value = re.sub(r"<eval_with_key>\.\d+", "<eval_with_key>", prop.value)
    return model.SerializeToString(deterministic=True)


def differ(steps, others):
    """The largest difference of losses and the largest relative one of gradient norms."""
    return (largest(abs(a["loss"] - b["loss"]) for a, b in zip(steps, others)),
            largest(abs(a["grad_norm"] - b["grad_norm"]) / b["grad_norm"] for a, b in zip(steps, others)))


def seek(seed, folder, cases):
    """Returns whether a twin proves the refusal, and the line that says so."""
    torch.manual_seed(seed)
    model, _ = tasks.draw(random.Random(seed))
    model.train()
    rng = np.random.default_rng(seed)
    drawn = [model.batch(rng, export.BATCH) for _ in range(export.STEPS)]
    batches = {name: np.stack([one[name] for one in drawn]) for name in drawn[0]}
    mine, other = cases / f"{seed:05}" / "model.onnx" if cases else folder / f"{seed:05}.onnx", folder / f"{seed:05}-twin.onnx"
    if not cases:
        export.export(copy.deepcopy(model), mine, batches, True)
    steps, *_ = export.train(model, batches, torch.float32)
    changes = find_changes(model, mine)
    # All at once, or else each alone: a single one is enough.
    tries = [(changes, None)] * bool(changes) + [([one], None) for one in changes[:8] if len(changes) > 1] + [([], name) for name in LINES]
    why = []
    for tried, lines in tries:
        kinds = [name for name, _ in tried]
        said = lines or ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
        twin = twin_of(model, tried)
        with other_lines(lines) if lines else contextlib.nullcontext():
            export.export(copy.deepcopy(twin), other, batches, True)
            if content(mine) != content(other):
                why.append(f"{said}: the files differ")
                continue
            loss, norm = differ(steps, export.train(twin, batches, torch.float32)[0])
        said = f"{said}: losses differ by {loss:.1e}, norms by {norm:.1e}"
        if loss > LOSS or norm > NORM or math.isnan(loss + norm):
            return True, said
        why.append(said)
    return False, "; ".join(why[:1] + why[-1:] if len(why) > 1 else why)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--seeds", required=True, type=lambda text: [int(word) for word in text.split(",")])
    p.add_argument("--cases", type=pathlib.Path)
    p.add_argument("--files", type=pathlib.Path)
    a = p.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    proven = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = a.files or pathlib.Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for seed in a.seeds:
            found, said = seek(seed, folder, a.cases)
            proven += found
            print(f"{seed:05}: {'proven' if found else 'not proven'}: {said}", flush=True)
    print(f"{len(a.seeds)} refused, {proven} proven by a twin, {len(a.seeds) - proven} not")


if __name__ == "__main__":
    main()
