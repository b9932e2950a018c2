"""The batches that a module is exported and compared with, and the module's loss for them.

The caller's batch is used where there is one. Inputs that it does not have get random values.
"""
import contextlib
import sys

import torch
import torch.utils.checkpoint
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from .cli import DATA, Failure, brief, note, place_in
from .given import GIVEN, RANDOM


class Batches:
    """The batch of the export, and another one for the comparison, of other sizes where that is possible."""

    def __init__(self, a, built, sizes, vocabulary):
        self.a, self.built, self.sizes, self.vocabulary = a, built, sizes, vocabulary

    def first(self):
        return {**draw(self.built.inputs, self.sizes, self.vocabulary, self.a.seed), **self.built.given}

    def other(self, more=1):
        """Values and sizes; `more` is added to the seed of random values. These have other sizes than those of the export, which reveals sizes that
        became constants. Of a given batch, the last example is left out, if the module takes the others."""
        given, open_sizes = self.built.given, [name for name in self.sizes if name not in self.a.fixed]
        sizes = {name: size - 1 if size > 2 and name in open_sizes and (not given or name == "batch") else size for name, size in self.sizes.items()}
        parts = {one.name: part(given[one.name], one, sizes) for one in self.built.inputs if one.name in given}
        values = {**draw(self.built.inputs, sizes, self.vocabulary, self.a.seed + more), **parts}
        if given:
            try:
                loss_of(self.built.module, values, self.built.values)
            except Failure:
                note("the comparison uses the whole batch, since the module does not take it without its last example")
                return self.first(), self.sizes
        return values, sizes


def part(value, one, sizes):
    for at, dim in enumerate(one.dims):
        if isinstance(dim, str):
            value = value.narrow(at, 0, sizes[dim])
    return value.contiguous()


def draw(inputs, sizes, vocabulary, seed):
    """One tensor of random values per input. If two inputs shared a tensor, the exporter would merge them."""
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


ADVICE = {RANDOM: "\n  --batch gives a batch of your own; --input says what an input is, --size how long a dimension, --vocabulary below which number tokens and "
                  "labels are", GIVEN: ""}


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


class WithoutDropout(TorchFunctionMode):
    """Dropout returns its input, whatever the mode of its module is, as in the compared file."""
    SAME = {getattr(functional, name) for name in ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")}
    ATTENTION = {functional.scaled_dot_product_attention: 4, functional.multi_head_attention_forward: 10}  # where dropout_p is among the arguments

    def __torch_function__(self, function, types, arguments=(), keywords=None):
        keywords = dict(keywords or {})
        if function in self.SAME or getattr(function, "__name__", "") in ("dropout", "dropout_"):
            return arguments[0] if arguments else keywords["input"]
        if (at := self.ATTENTION.get(function)) is not None:
            if len(arguments) > at:
                arguments = (*arguments[:at], 0.0, *arguments[at + 1:])
            else:
                keywords["dropout_p"] = 0.0
        return function(*arguments, **keywords)


@contextlib.contextmanager
def without_autocast():
    """torch.autocast has no effect. The types in which a program computes are those of its flags, not those of the file."""
    kind = torch.amp.autocast_mode.autocast
    kept = kind.__enter__, kind.__exit__
    kind.__enter__, kind.__exit__ = lambda self: self, lambda *_: None
    try:
        yield
    finally:
        kind.__enter__, kind.__exit__ = kept


def uses_no_grad(module, values, what):
    """Whether the module computes with torch.no_grad(), inference_mode() or set_grad_enabled(). Those of checkpoints are
    not its own."""
    kinds, found = [torch.no_grad, torch.inference_mode, torch.set_grad_enabled], []
    kept = [kind.__init__ for kind in kinds]

    def watch(made):
        def __init__(self, *arguments, **keywords):
            caller = sys._getframe(1).f_code.co_filename
            if caller not in (__file__, torch.utils.checkpoint.__file__, torch.autograd.grad_mode.__file__):
                found.append(caller)
            made(self, *arguments, **keywords)
        return __init__

    try:
        for kind, made in zip(kinds, kept):
            kind.__init__ = watch(made)
        loss_of(module, values, what)
    finally:
        for kind, made in zip(kinds, kept):
            kind.__init__ = made
    return bool(found)


DRAWS = 64  # of a whole step: a path that is dropped once in 20 times differs in all but 4 % of modules


def is_random(module, values, what):
    """Whether losses of one batch differ, although dropout is off."""
    def loss(seed):
        torch.manual_seed(seed)
        return loss_of(module, values, what)

    with WithoutDropout(), torch.random.fork_rng():
        first = loss(0)
        return any(not torch.equal(first, loss(seed)) for seed in range(1, DRAWS))


@contextlib.contextmanager
def moved(parameters, seed):
    """Moves parameters off their values: by a tenth, and zeros to small positive numbers. Behind a gate of zeros no gradient is seen."""
    generator = torch.Generator().manual_seed(seed)
    kept = [(one, one.detach().clone()) for one in parameters]
    try:
        with torch.no_grad():
            for one, value in kept:
                noise = torch.randn(one.shape, generator=generator).to(one)
                one.copy_(torch.where(value == 0, 0.02 * noise.abs(), value * (1 + 0.1 * noise)))
        yield
    finally:
        with torch.no_grad():
            for one, value in kept:
                one.copy_(value)


def loss_of(module, values, what, gradients=False):
    """The loss of a batch. `what`: what the values are, RANDOM or GIVEN. With `gradients`, the caller keeps the module's buffers until after the
    backward pass."""
    try:
        with contextlib.nullcontext() if gradients else same_buffers(module):
            found = module(*(value.clone() for value in values.values()))
    except Failure:
        raise
    except Exception as error:  # any exception of the module
        said = ", ".join(f"{name} {str(value.dtype)[6:]}{list(value.shape)}" for name, value in values.items())
        place = place_in(error)
        raise Failure(DATA, f"the module fails on {what} ({said}){f', {place}' if place else ''}: {brief(error)}{ADVICE[what]}") from error
    if not torch.is_tensor(found) or found.dim() != 0:
        raise Failure(DATA, f"the module returns {type(found).__name__}, not a scalar loss")
    if not torch.isfinite(found):
        raise Failure(DATA, f"the module's loss on {what} is {found.item()}{ADVICE[what]}")
    if not found.requires_grad:
        raise Failure(DATA, "the loss depends on no parameter that requires a gradient: there is nothing to train. Is it computed under torch.no_grad(), or detached?")
    return found
