"""Finds sizes that a module has as numbers, such as `.view(-1, 16)` for a sequence: it takes no other size there."""
import re

from .batch import draw, loss_of
from .cli import DATA, Failure
from .given import RANDOM

LARGEST = 1 << 14  # of sizes that are tried


class WrittenSize(Failure):
    """A dimension has one size in the module."""

    def __init__(self, dim, size, inputs):
        super().__init__(DATA, f"the module takes {', '.join(inputs)} only with {size} in dimension '{dim}': a size of an input should be read from it (tokens.shape[1]), not "
                               f"written down. Where that size is meant, pass --fixed {dim} --size {dim}={size}, or --fixed auto "
                               f'(in Python fixed=["{dim}"], sizes={{"{dim}": {size}}}, or fixed="auto")')
        self.dim, self.size = dim, size


def numbers_of(module, error):
    """Numbers in the message, which has the line of the module, and those that modules have as attributes."""
    found = [int(word) for word in re.findall(r"(?<![\w.])\d+(?![\w.])", str(error))]
    for one in module.modules():
        for owner in (one, getattr(one, "config", None)):
            found += [value for name, value in vars(owner).items() if type(value) is int] if hasattr(owner, "__dict__") else []
    return sorted({size for size in found if 1 < size <= LARGEST})


def find(built, sizes, fixed, vocabulary, error):
    """The dimension for which the module runs with another size that `error` or the module states, or None."""
    for dim in [name for name in sizes if name not in fixed]:
        for size in numbers_of(built.model, error):
            if size == sizes[dim]:
                continue
            try:
                loss_of(built.module, draw(built.inputs, {**sizes, dim: size}, vocabulary, 0), RANDOM)
            except Failure:
                continue
            return WrittenSize(dim, size, [f"'{one.name}'" for one in built.inputs if dim in one.dims])
    return None
