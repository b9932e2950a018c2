"""Compares the training of the file with the module's: one step of plain SGD by Shale's program gives the gradient of every parameter."""
import json
import pathlib
import shutil
import subprocess
import tempfile

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from .batch import WithoutDropout, is_random, loss_of, moved, same_buffers, without_autocast
from .build import names_of
from .check import BAR
from .cli import DATA, Failure, brief, libraries, note

RATE = 1024.0       # of the step: the change of a weight is large beside its rounding
GRADIENT_BAR = 2e-3  # relative to the norm of the gradient of a parameter, or 1e-6 of the norm of all
HALF_BAR, HALF_GRADIENT_BAR = 1e-3, 5e-2  # the same where the module itself rounds to 16 bits, and the program does not
DIFFERS = ("\n  A forward graph does not have hooks, functions with a backward of their own, torch.no_grad() and torch.inference_mode(); --gradients traced "
           "writes the gradients\n  that PyTorch computes. Nothing is written; --no-check writes the file all the same")
PATIENCE = 600      # seconds for the compiler, and for the step


def run_tool(words, what):
    try:
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, errors="replace", timeout=PATIENCE)
    except (OSError, subprocess.SubprocessError) as error:
        return f"{what} does not end: {brief(error, 200)}"
    return f"{what} ends with {done.returncode}:\n{done.stderr.strip()[-1500:]}" if done.returncode else None


def compile_file(a, built, path, shalec, sizes, work):
    """Compiles the file for plain SGD in f32, without dropout. Returns what went wrong, or None."""
    words = [shalec, path, "-o", work / "train", "--optimizer", "sgd", *(["--dropout", "off"] if built.has_dropout else []),
             *(["--param-dtype", "f32"] if built.has_halves else [])]
    for name, size in sizes.items():
        if name not in a.fixed:
            words += ["--dim", f"{name}={size}"]
    return run_tool(words, "shalec")


def step(built, values, work):
    """Trains the compiled file for one step from the module's present values. Returns Shale's loss and its weights after the step, or what
    went wrong."""
    with libraries():
        from safetensors.torch import load_file, save_file
    save_file({name: value.unsqueeze(0).clone() for name, value in values.items()}, str(work / "batch.safetensors"))
    # Names of the file's: of tied parameters it may have any.
    save_file({built.renamed.get(name, name): value.detach().clone().contiguous() for name, value in built.model.state_dict(keep_vars=True).items() if value.is_floating_point()},
              str(work / "weights.safetensors"))
    shutil.rmtree(work / "out", ignore_errors=True)
    wrong = run_tool(
        [work / "train", "--data", work / "batch.safetensors", "--init", work / "weights.safetensors", "--steps", 1, "--lr", RATE, "--schedule", "constant",
         "--clip-grad-norm", 0, "--weight-decay", 0, "--out", work / "out"], "the program of the exported file")
    if wrong:
        return None, None, wrong
    line = (work / "out" / "metrics.jsonl").read_text().splitlines()[0]
    return json.loads(line)["loss"], load_file(str(work / "out" / "model.safetensors")), None


def module_step(built, values):
    """PyTorch's loss, and its gradients by parameter, in the mode of the export. The module's own state stays."""
    parameters = list(built.model.parameters())
    for parameter in parameters:
        parameter.grad = None
    with same_buffers(built.module):
        loss = loss_of(built.module, values, built.values, gradients=True)
        loss.backward()
    found = {parameter: torch.zeros_like(parameter) if parameter.grad is None else parameter.grad for parameter in parameters}
    for parameter in parameters:
        parameter.grad = None
    return loss.item(), found


def differences(built, gradients, after, bar):
    """Yields the parameters whose gradients differ: name, norm in PyTorch, norm in Shale, norm of the difference."""
    whole = sum(float(one.double().square().sum()) for one in gradients.values()) ** 0.5
    names = names_of(built)  # of tied parameters the file may have any
    for parameter, wanted in gradients.items():
        have = next((after[name] for name in names[parameter] if name in after), None)
        ours = torch.zeros_like(parameter) if have is None else (parameter.detach() - have.reshape(parameter.shape)) / RATE
        norm, off = float(wanted.double().norm()), float((wanted - ours).double().norm())
        if not off <= bar * norm + 1e-6 * whole:
            yield names[parameter][0], norm, float(ours.double().norm()), off


def compare_batch(built, values, work):
    """Compares loss and gradients of one batch at the module's present values. Returns both losses."""
    found, after, wrong = step(built, values, work)
    if wrong:
        raise Failure(DATA, f"gradients cannot be compared, since {wrong}\n  nothing is written; --no-check writes the file all the same")
    with WithoutDropout(), without_autocast():
        loss, gradients = module_step(built, values)
    bar, gradient_bar = (HALF_BAR, HALF_GRADIENT_BAR) if built.rounds else (BAR, GRADIENT_BAR)
    if not abs(found - loss) <= bar * max(1.0, abs(loss)):
        raise Failure(DATA, f"the exported file is not the module: loss {loss:.6f} in PyTorch, {found:.6f} in Shale\n"
                            "  nothing is written; --no-check writes it all the same")
    differ = list(differences(built, gradients, after, gradient_bar))
    if differ:
        name, norm, ours, off = max(differ, key=lambda one: one[3])
        raise Failure(DATA, f"the exported file does not train the module: the gradient of '{name}' has norm {norm:.4g} in PyTorch and {ours:.4g} in Shale"
                            f" (difference {off:.2g}{f'; {len(differ) - 1} more differ' if differ[1:] else ''})" + (DIFFERS if built.trained is None else ""))
    return loss, found


def compare(a, built, path, shalec, batches):
    """Compares loss and gradients at the module's values, and with another batch at values that are moved off them. Returns whether it did."""
    if a.dtype != "f32":
        note("gradients are not compared: the file has bf16 weights")
        return False
    first, sizes = batches.other()
    second = first if built.given else batches.other(more=2)[0]
    built.rounds = built.has_halves and rounds(built, first)
    if built.rounds:
        note("the module casts to 16-bit floats outside of torch.autocast: gradients are compared in their precision")
    with tempfile.TemporaryDirectory(prefix="shale-export.") as folder:
        work = pathlib.Path(folder)
        if wrong := compile_file(a, built, path, shalec, sizes, work):
            raise Failure(DATA, f"gradients cannot be compared, since {wrong}\n  nothing is written; --no-check writes the file all the same")
        if built.has_draws and is_random(built.module, first, built.values):
            note("neither the loss nor gradients are compared: the module draws random numbers of which only those of dropout can be left out")
            return True
        loss, found = compare_batch(built, first, work)
        with moved(built.model.parameters(), a.seed), same_buffers(built.module):
            movable = finite(built, second)
            if movable:
                compare_batch(built, second, work)
            else:
                note("gradients are compared at the module's values only: moved off them, its loss is not finite")
    count = len(list(built.model.parameters()))
    print(f"check       loss {loss:.6f} in PyTorch, {found:.6f} in Shale; the gradients of {count} parameters agree"
          f"{', also at other values' if movable else ''}", flush=True)
    return True


def rounds(built, values):
    """Whether the module computes with 16-bit floats although autocast is off."""
    found = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
            result = function(*arguments, **(keywords or {}))
            found.extend(one for one in tree_leaves(result) if torch.is_tensor(one) and one.dtype in (torch.float16, torch.bfloat16))
            return result

    with WithoutDropout(), without_autocast(), Watch():
        loss_of(built.module, values, built.values)
    return bool(found)


def finite(built, values):
    try:
        with WithoutDropout():
            loss_of(built.module, values, built.values)
        return True
    except Failure:
        return False
