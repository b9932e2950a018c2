"""Compares the training of the file with the module's: one step of plain SGD by Shale's program gives the gradient of every parameter."""
import json
import pathlib
import subprocess
import tempfile

import torch

from .batch import draw, loss_of, same_buffers
from .check import BAR, other_sizes
from .cli import DATA, Failure, brief, libraries, note

RATE = 1024.0       # of the step: the change of a weight is large beside its rounding
GRADIENT_BAR = 2e-3  # relative to the norm of the gradient of a parameter, or 1e-6 of the norm of all
AUTOCAST = "--assume-autocast"
PATIENCE = 600      # seconds for the compiler, and for the step


def run_tool(words, what):
    try:
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, errors="replace", timeout=PATIENCE)
    except (OSError, subprocess.SubprocessError) as error:
        return f"{what} does not end: {brief(error, 200)}"
    return f"{what} ends with {done.returncode}:\n{done.stderr.strip()[-1500:]}" if done.returncode else None


def step(a, built, path, shalec, values, sizes, work):
    """Trains the file for one step. Returns Shale's loss and its weights after the step, or what went wrong."""
    with libraries():
        from safetensors.torch import load_file, save_file
    save_file({name: value.unsqueeze(0).contiguous() for name, value in values.items()}, str(work / "batch.safetensors"))
    compile_words = [shalec, path, "-o", work / "train", "--optimizer", "sgd", *(["--freeze", built.frozen] if built.frozen else [])]
    for name, size in sizes.items():
        if name not in a.fixed:
            compile_words += ["--dim", f"{name}={size}"]
    wrong = run_tool(compile_words, "shalec")
    if wrong and AUTOCAST in wrong:  # the file does not distinguish autocast and no_grad; gradients do
        built.assumed = [AUTOCAST]
        wrong = run_tool([*compile_words, AUTOCAST], "shalec")
    wrong = wrong or run_tool(
        [work / "train", "--data", work / "batch.safetensors", "--steps", 1, "--lr", RATE, "--schedule", "constant", "--clip-grad-norm", 0,
         "--weight-decay", 0, "--out", work / "out"], "the program of the exported file")
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
        loss = loss_of(built.module, values, gradients=True)
        loss.backward()
    found = {parameter: torch.zeros_like(parameter) if parameter.grad is None else parameter.grad for parameter in parameters}
    for parameter in parameters:
        parameter.grad = None
    return loss.item(), found


def differences(built, gradients, after):
    """Yields the parameters whose gradients differ: name, norm in PyTorch, norm in Shale, norm of the difference."""
    whole = sum(float(one.double().square().sum()) for one in gradients.values()) ** 0.5
    names = {}  # of tied parameters the file may have any
    for name, parameter in built.model.named_parameters(remove_duplicate=False):
        names.setdefault(parameter, []).append(name)
    for parameter, wanted in gradients.items():
        have = next((after[name] for name in names[parameter] if name in after), None)
        ours = torch.zeros_like(parameter) if have is None else (parameter.detach() - have.reshape(parameter.shape)) / RATE
        norm, off = float(wanted.double().norm()), float((wanted - ours).double().norm())
        if not off <= GRADIENT_BAR * norm + 1e-6 * whole:
            yield names[parameter][0], norm, float(ours.double().norm()), off


def compare(a, built, path, shalec, sizes, vocabulary):
    """Compares loss and gradients. Returns whether it did."""
    if a.dtype != "f32" or a.dropout:
        note("gradients are not compared: " + ("the file has bf16 weights" if a.dtype != "f32" else "dropout draws other numbers in PyTorch"))
        return False
    sizes = other_sizes(a, sizes)
    values = draw(built.inputs, sizes, vocabulary, a.seed + 1)
    with tempfile.TemporaryDirectory(prefix="shale-export.") as folder:
        found, after, wrong = step(a, built, path, shalec, values, sizes, pathlib.Path(folder))
    if wrong:
        raise Failure(DATA, f"gradients cannot be compared, since {wrong}\n  nothing is written; --no-check writes the file all the same")
    loss, gradients = module_step(built, values)
    if not abs(found - loss) <= BAR * max(1.0, abs(loss)):
        raise Failure(DATA, f"the exported file is not the module: loss {loss:.6f} in PyTorch, {found:.6f} in Shale\n"
                            "  nothing is written; --no-check writes it all the same")
    differ = list(differences(built, gradients, after))
    if differ:
        name, norm, ours, off = max(differ, key=lambda one: one[3])
        raise Failure(DATA, f"the exported file does not train the module: the gradient of '{name}' has norm {norm:.4g} in PyTorch and {ours:.4g} in Shale"
                            f" (difference {off:.2g}{f'; {len(differ) - 1} more differ' if differ[1:] else ''}).\n  An ONNX file does not have hooks, functions "
                            "with a backward of their own, torch.no_grad() and torch.inference_mode(): write what they do as\n  operations with a "
                            "gradient, .detach() or --freeze. Nothing is written; --no-check writes it all the same")
    print(f"check       loss {loss:.6f} in PyTorch, {found:.6f} in Shale; the gradients of {len(gradients)} parameters agree", flush=True)
    return True
