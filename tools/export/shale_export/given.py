"""The batch that the caller gives: where it comes from, and the sizes that it has."""
import pathlib

import torch

from .cli import DATA, NO_INPUT, Failure, brief, libraries, place_in
from .find import find_own
from .sizes import FILES, Input

RANDOM, GIVEN = "random values", "the given batch"  # what values of a module are called


def load(spec):
    """The batch that --batch names: a file of tensors, or what a function returns."""
    path = pathlib.Path(spec)
    if not spec.endswith(FILES):
        found = find_own(spec)
        try:
            return found() if callable(found) else found
        except Exception as error:  # any exception of the user's function
            place = place_in(error)
            raise Failure(DATA, f"--batch {spec} cannot be called without arguments{f', {place}' if place else ''}: {brief(error)}") from error
    if not path.is_file():
        raise Failure(NO_INPUT, f"--batch: '{path}' does not exist")
    try:
        if path.suffix == ".pt":
            return torch.load(path, weights_only=True)
        with libraries():
            from safetensors.torch import load_file
        return load_file(str(path))
    except Exception as error:  # any exception of the library
        raise Failure(DATA, f"--batch: '{path}' holds no tensors by name: {brief(error)}") from error


def input_of(name, value):
    """The input that a tensor is an example of: its first dimension is the batch, and the others are fixed."""
    if value.dim() == 0:
        raise Failure(DATA, f"'{name}' of the batch is a scalar: its first dimension must be the batch. What is the same in every batch is a Python number")
    return Input.of(name, str(value.dtype).removeprefix("torch."), ["batch", *value.shape[1:]])


def sizes_of(inputs, given, fixed):
    """The sizes of dimensions by the given tensors."""
    sizes = {}
    for one in inputs:
        value = given.get(one.name)
        if value is None:
            continue
        text = f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
        if value.dim() != len(one.dims) or str(value.dtype) != f"torch.{one.kind}":
            raise Failure(DATA, f"'{one.name}' of the batch is {text}, and the input is {one}")
        for dim, size in zip(one.dims, value.shape):
            if isinstance(dim, int) and dim != size:
                raise Failure(DATA, f"'{one.name}' of the batch is {text}, and the input is {one}")
            if isinstance(dim, str) and sizes.setdefault(dim, size) != size:
                raise Failure(DATA, f"dimension '{dim}' has {sizes[dim]} and {size} in the batch")
            if isinstance(dim, str) and size < 2 and dim not in fixed:
                raise Failure(DATA, f"dimension '{dim}' of the batch has {size}: the exporter takes that for a fixed size. Give a batch with at least 2, or fix '{dim}'")
    return sizes
