"""Functions of PyTorch that its exporter does not write, in other operations. Each has the parameters of the function, and returns None where the
function can be exported as it is."""
import contextlib
import sys

import torch


def grouped_mm(x, weight, offs=None, *more, **words):
    """The product of each group of rows with its own matrix: of the rows, spread over the groups, with all matrices. `offs`: the end of each group."""
    if offs is None or x.dim() != 2 or weight.dim() != 3 or more or any(one is not None for one in words.values()):
        return None
    row = torch.arange(x.shape[0], device=x.device)[:, None]
    before = torch.cat([torch.zeros_like(offs[:1]), offs[:-1]])
    inside = (row >= before) & (row < offs)
    spread = torch.where(inside[:, :, None], x[:, None, :], torch.zeros_like(x[:, None, :]))
    return spread.flatten(1) @ weight.flatten(0, 1)


def sort(value, dim=-1, descending=False, stable=None):
    return torch.sort(value, dim=dim, descending=descending) if stable else None  # TopK of ONNX, which is stable


def argsort(value, dim=-1, descending=False, stable=None):
    return torch.sort(value, dim=dim, descending=descending)[1] if stable else None


def cummax(value, dim):
    """The largest of the elements so far, and the last place that has it."""
    value = value.movedim(dim, -1)
    size = value.shape[-1]
    place = torch.arange(size, device=value.device)
    low = False if value.dtype == torch.bool else -float("inf") if value.is_floating_point() else torch.iinfo(value.dtype).min
    table = torch.where(place <= place[:, None], value[..., None, :], torch.full_like(value[..., None, :], low)).flip(-1)
    most, at = table.max(-1)
    return most.movedim(-1, dim), (size - 1 - at).movedim(-1, dim)


def cummin(value, dim):
    most, at = cummax(-value, dim)
    return -most, at


def complex_getitem(value, index):
    return torch.view_as_complex(torch.view_as_real(value)[(*index, slice(None)) if isinstance(index, tuple) and Ellipsis in index else index])


def complex_unsqueeze(value, dim):
    return torch.view_as_complex(torch.view_as_real(value).unsqueeze(dim if dim >= 0 else dim - 1))


class Pair(tuple):
    values, indices = property(lambda self: self[0]), property(lambda self: self[1])


def bincount(value, weights=None, minlength=0):
    if not minlength or weights is not None:
        return None
    return (value[:, None] == torch.arange(minlength, device=value.device)).sum(0)


OPERATORS = {"grouped_mm": grouped_mm, "sort": sort, "argsort": argsort, "cummax": lambda value, dim: Pair(cummax(value, dim)),
             "cummin": lambda value, dim: Pair(cummin(value, dim)), "bincount": bincount}

COMPLEX = {"getitem": complex_getitem, "unsqueeze": complex_unsqueeze}


def written(name, arguments):
    """What writes a function, by its name, or None."""
    if name in COMPLEX and torch.is_tensor(arguments[0]) and arguments[0].is_complex():
        return COMPLEX[name]
    return OPERATORS.get(name)


@contextlib.contextmanager
def grouped_in_transformers():
    """Models of experts of transformers call grouped_mm() for their products."""
    experts = sys.modules.get("transformers.integrations.moe")
    kept = getattr(experts, "_grouped_mm", None)
    if kept:
        experts._grouped_mm = lambda input, weight, offs: grouped_mm(input.to(weight.dtype), weight, offs)
    try:
        yield
    finally:
        if kept:
            experts._grouped_mm = kept
