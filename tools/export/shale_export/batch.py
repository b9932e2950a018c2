"""Random values for the inputs of a module, and the module's loss for them."""
import contextlib
import copy

import torch

from .build import LABELS
from .cli import DATA, Failure, brief, place_in


def draw(inputs, sizes, vocabulary, seed):
    """One tensor per input. If two inputs shared a tensor, the exporter would merge them."""
    generator = torch.Generator().manual_seed(seed)
    values = {}
    for one in inputs:
        shape = one.shape(sizes)
        if "mask" in one.name or one.kind == "bool":
            value = torch.ones(shape, dtype=torch.int64)
            if value.dim() >= 2 and value.shape[-1] > 2:  # the end of the second row is padding
                value[1:2, ..., -2:] = 0
            values[one.name] = value.to(getattr(torch, one.kind))
        elif one.kind.startswith("int"):
            bound = min(2, vocabulary) if "token_type" in one.name else vocabulary
            values[one.name] = torch.randint(0, max(1, bound), shape, generator=generator, dtype=getattr(torch, one.kind))
        else:
            values[one.name] = torch.randn(shape, generator=generator).to(getattr(torch, one.kind))
    return values


@contextlib.contextmanager
def same_buffers(module):
    """Gives the module's buffers their values back at the end, such as running statistics."""
    kept = [(one, one.clone()) for one in module.buffers()]
    try:
        yield
    finally:
        with torch.no_grad():
            for one, value in kept:
                one.copy_(value)


def loss_of(module, values, gradients=False):
    """The loss of a batch. With `gradients`, the caller keeps the module's buffers until after the backward pass."""
    try:
        with torch.set_grad_enabled(gradients):
            with contextlib.nullcontext() if gradients else same_buffers(module):
                found = module(*(value.clone() for value in values.values()))
    except Failure:
        raise
    except Exception as error:  # any exception of the module
        said = ", ".join(f"{name} {str(value.dtype)[6:]}{list(value.shape)}" for name, value in values.items())
        place = place_in(error)
        raise Failure(DATA, f"the module fails on random values ({said}){f', {place}' if place else ''}: {brief(error)}\n  --input says what an input is, --size how long "
                            "a dimension, --vocabulary below which number tokens and labels are") from error
    if not torch.is_tensor(found) or found.dim() != 0:
        raise Failure(DATA, f"the module returns {type(found).__name__}, not a scalar loss")
    if not torch.isfinite(found):
        raise Failure(DATA, f"the module's loss on random values is {found.item()}")
    return found


def check_labels(module, values):
    """Reports a loss that does not depend on the labels."""
    labels = [name for name in values if name in LABELS]
    if not labels:
        return
    other = copy.deepcopy(values)
    for name in labels:
        other[name] = other[name].flip(0)
    if all(torch.equal(other[name], values[name]) for name in labels):
        return
    if torch.equal(loss_of(module, values), loss_of(module, other)):
        raise Failure(DATA, f"the loss does not depend on '{labels[0]}': is it computed of the labels?")
